//! One machine over one ssh connection: its session, files and ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use prony_plan::service::Endpoint;
use prony_plan::ssh_host::SshHost;
use prony_plan::watch_spec::RemoteService;

use super::parse::{self, JailFacts, OccupiedPorts};
use super::service::ServiceCheck;
use crate::environment::{MachineFacts, Program, version_arguments};
use crate::host::remote::{
    CONNECT_TIMEOUT, RemoteConnection, RemoteError, RemoteSystem, Sections, Shell, SshTarget,
    quoted, section, token,
};

/// The remote end: session and keeper.
const SESSION: &str = include_str!("session.sh");

/// Interval of the signs of life that keep the remote session alive.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit for the keeper to end everything and for ssh to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a response of the session. A busy machine and a slow link take time.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of bytes of a file that are sent with one request.
const PIECE_BYTES: usize = 64 << 10;

/// A failure on another machine.
#[derive(Debug)]
pub(super) enum MachineError {
    /// The connection failed or was lost.
    Lost(RemoteError),
    /// The machine refused the session's folder, for this reason.
    Folder(String),
    /// A file could not be written.
    File { path: String, available: String },
    /// A jail doesn't exist or can't be created, for this reason.
    Jail(String),
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineError::Lost(error) => error.fmt(f),
            MachineError::Folder(reason) => write!(
                f,
                "no folder can be created there: {reason} (choose another folder with dir)"
            ),
            MachineError::File { path, available } => {
                write!(f, "{path} could not be written there")?;
                if !available.is_empty() {
                    write!(f, " (free space: {available} KiB)")?;
                }
                Ok(())
            }
            MachineError::Jail(reason) => f.write_str(reason),
        }
    }
}

impl From<RemoteError> for MachineError {
    fn from(error: RemoteError) -> Self {
        MachineError::Lost(error)
    }
}

/// A machine with an open session.
#[derive(Debug)]
pub(super) struct SshMachine {
    connection: RemoteConnection,
    /// Folder of the session on the machine.
    pub(super) folder: String,
    /// Random part of the names of files and jails.
    token: String,
    /// Address at which services listen.
    pub(super) address: Option<IpAddr>,
    /// Address of this machine, as the other one sees it.
    pub(super) own_address: Option<IpAddr>,
    /// Kernel's ID of the machine's boot, if it has one.
    pub(super) boot: String,
    followed: BTreeMap<String, RemoteService>,
    next_id: u32,
}

impl SshMachine {
    /// Connects to the machine and starts its session.
    pub(super) fn connect(host: &SshHost) -> Result<Self, MachineError> {
        let base = match &host.dir {
            Some(dir) => quoted(dir),
            None => "\"${TMPDIR:-/tmp}\"".to_owned(),
        };
        let token = token();
        let script = format!("base={base}\ntoken={token}\n{SESSION}\nmain");
        let target = SshTarget {
            ssh: &host.ssh,
            destination: &host.destination,
            sudo: host.sudo,
        };
        let mut shell = Shell::start(target, &script)?;
        let greeting = shell.response(CONNECT_TIMEOUT)?;
        if let Some(reason) = greeting.get("refused") {
            return Err(MachineError::Folder(reason.trim().to_owned()));
        }
        shell.set_exit_timeout(EXIT_TIMEOUT);
        shell.keep_alive(BEAT_INTERVAL);
        let peer = parse::ssh_connection(section(&greeting, "peer"));
        let (own_address, address) = peer.unzip();
        Ok(Self {
            folder: section(&greeting, "folder").trim().to_owned(),
            boot: section(&greeting, "boot").trim().to_owned(),
            connection: RemoteConnection::greeted(shell, &greeting)?,
            address: host.address.or(address),
            own_address,
            token,
            followed: BTreeMap::new(),
            next_id: 0,
        })
    }

    /// Executes a script, and returns its response.
    pub(super) fn run(&mut self, script: &str) -> Result<Sections, RemoteError> {
        self.connection.run(script, RESPONSE_TIMEOUT)
    }

    /// Returns the number of a new service.
    pub(super) fn next_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// Creates folders.
    pub(super) fn make_folders(&mut self, paths: &BTreeSet<String>) -> Result<(), MachineError> {
        for path in paths {
            let path_word = quoted(path);
            let script = format!("mkdir -p {path_word} && {{ at made; }}");
            if !self.run(&script)?.contains_key("made") {
                return Err(self.unwritten(path));
            }
        }
        Ok(())
    }

    /// Writes a file. Only its owner can read a secret.
    pub(super) fn write_file(
        &mut self,
        path: &str,
        bytes: &[u8],
        is_secret: bool,
    ) -> Result<(), MachineError> {
        let path_word = quoted(path);
        let mask = if is_secret { "077" } else { "022" };
        let create =
            format!("rm -f {path_word}; (umask {mask}; true >{path_word}) && {{ at made; }}");
        if !self.run(&create)?.contains_key("made") {
            return Err(self.unwritten(path));
        }
        let mut sent = 0;
        for piece in bytes.chunks(PIECE_BYTES) {
            let script = format!("put {path_word} {}", piece.len());
            self.connection.shell.request_with(&script, piece)?;
            let response = self.connection.shell.response(RESPONSE_TIMEOUT)?;
            sent += piece.len();
            if section(&response, "size").trim().parse() != Ok(sent) {
                return Err(self.unwritten(path));
            }
        }
        Ok(())
    }

    /// Returns the error for a file that could not be written.
    fn unwritten(&mut self, path: &str) -> MachineError {
        let script = "at free; df -Pk \"$folder\"";
        let free = self.run(script).unwrap_or_default();
        MachineError::File {
            path: path.to_owned(),
            available: parse::available_kib(section(&free, "free")).unwrap_or_default(),
        }
    }

    /// Returns the occupied ports and sockets.
    pub(super) fn occupied(&mut self) -> Result<OccupiedPorts, RemoteError> {
        let sections = self.run("\"${system}_ports\"")?;
        Ok(parse::occupied(self.connection.system, &sections))
    }

    /// Returns true if a socket is bound to the endpoint.
    pub(super) fn is_bound(&mut self, endpoint: &Endpoint) -> Result<bool, RemoteError> {
        Ok(self.occupied()?.has(endpoint))
    }

    /// Looks at the processes of a service.
    pub(super) fn check(&mut self, id: u32) -> Result<ServiceCheck, RemoteError> {
        let sections = self.run(&format!("check {id}"))?;
        Ok(ServiceCheck {
            ended: section(&sections, "ended").trim().parse().ok(),
            processes: section(&sections, "members").split_whitespace().count(),
        })
    }

    /// Changes the services whose processes are followed.
    pub(super) fn follow(
        &mut self,
        services: BTreeMap<String, RemoteService>,
    ) -> Result<(), RemoteError> {
        self.connection.follow(&services)?;
        self.followed = services;
        Ok(())
    }

    /// Requests a sample without waiting for it.
    pub(super) fn begin_sample(&mut self) -> Result<(), RemoteError> {
        self.connection.begin()
    }

    /// Returns the requested sample of the machine and its services.
    #[expect(clippy::type_complexity, reason = "the two parts of a sample")]
    pub(super) fn complete_sample(
        &mut self,
    ) -> Result<
        Option<(
            crate::telemetry::HostSample,
            BTreeMap<String, crate::telemetry::ServiceSample>,
        )>,
        RemoteError,
    > {
        self.connection.complete(&self.followed)
    }

    pub(super) fn system(&self) -> RemoteSystem {
        self.connection.system
    }

    /// Makes the processes that listen on a port a part of a service whose first process has ended.
    /// Returns true if there are any.
    pub(super) fn adopt(&mut self, id: u32, port: u16) -> Result<bool, RemoteError> {
        let sections = self.run("\"${system}_listeners\"")?;
        let holders = self.connection.system.holders(&sections, port);
        if holders.is_empty() {
            return Ok(false);
        }
        let pids: Vec<String> = holders.iter().map(i32::to_string).collect();
        self.run(&format!("adopt {id} {}", pids.join(" ")))?;
        Ok(true)
    }

    /// Returns a jail that exists.
    pub(super) fn jail(&mut self, name: &str) -> Result<JailFacts, MachineError> {
        if self.system() != RemoteSystem::FreeBsd {
            let reason = "jails exist only on FreeBSD".to_owned();
            return Err(MachineError::Jail(reason));
        }
        let sections = self.run(&format!("\"${{system}}_jail\" {}", quoted(name)))?;
        parse::jail(section(&sections, "jail"))
            .ok_or_else(|| MachineError::Jail(format!("there is no jail \"{name}\"")))
    }

    /// Creates a jail that is removed with the service.
    pub(super) fn make_jail(
        &mut self,
        id: u32,
        root: &str,
    ) -> Result<(String, JailFacts), MachineError> {
        let name = format!("prony_{}_{id}", self.token);
        let script = format!(
            "undo {id} 'FreeBSD_remove_jail {name}'\n\"${{system}}_make_jail\" {name} {}",
            quoted(root)
        );
        let sections = self.run(&script)?;
        match self.jail(&name) {
            Err(MachineError::Jail(_)) if self.system() == RemoteSystem::FreeBsd => {
                let complaint = section(&sections, "complaint").trim();
                Err(MachineError::Jail(format!(
                    "no jail can be created from {root}: {complaint}"
                )))
            }
            jail => Ok((name, jail?)),
        }
    }

    /// Creates the folder of a service. In a jail, it is below the jail's root, and removed with
    /// the service. Returns its path as the service sees it.
    pub(super) fn make_service_folder(
        &mut self,
        id: u32,
        root: Option<&str>,
    ) -> Result<String, MachineError> {
        let Some(root) = root else {
            let path = format!("{}/{id}", self.folder);
            self.make_folders(&[path.clone()].into())?;
            return Ok(path);
        };
        let path = format!("/tmp/prony-{}-{id}", self.token);
        let outside = format!("{}{path}", root.trim_end_matches('/'));
        let remove = format!("rm -rf {}*", quoted(&outside));
        self.run(&format!("undo {id} {}", quoted(&remove)))?;
        self.make_folders(&[outside].into())?;
        Ok(path)
    }

    /// Lets every user connect to a UNIX socket. Many servers allow only their own user.
    pub(super) fn open_socket(&mut self, path: &str) -> Result<(), RemoteError> {
        self.run(&format!("chmod 666 {}", quoted(path))).map(drop)
    }

    /// Returns facts about the machine.
    pub(super) fn facts(&mut self) -> Result<MachineFacts, RemoteError> {
        let system = self.system();
        let names = match system {
            RemoteSystem::Linux => crate::system::SYSCTLS.join(" "),
            RemoteSystem::FreeBsd => parse::FREEBSD_SYSCTLS.join(" "),
        };
        let sections = self.run(&format!("\"${{system}}_facts\" {names}"))?;
        Ok(parse::facts(system, &sections))
    }

    /// Returns facts about a program. `path` is the value of `PATH` that the plan sets.
    pub(super) fn program(
        &mut self,
        program: &str,
        path: Option<&str>,
    ) -> Result<Option<Program>, RemoteError> {
        let path = path.map_or_else(String::new, |path| format!("PATH={}; ", quoted(path)));
        let name = Path::new(program)
            .file_name()
            .and_then(|name| name.to_str());
        // Only well-known programs are run.
        let version = match name.and_then(version_arguments) {
            Some(arguments) => {
                let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
                format!(
                    "at version; \"$file\" {} 2>&1 </dev/null | head -c 16384",
                    words.join(" ")
                )
            }
            None => ":".to_owned(),
        };
        let script = format!(
            "file=$({path}command -v -- {}) && {{ at file; echo \"$file\"; at sha256; \
             \"${{system}}_sha256\" \"$file\"; {version}; }}",
            quoted(program)
        );
        let sections = self.run(&script)?;
        let file = section(&sections, "file").trim();
        let version = section(&sections, "version").trim();
        let sha256 = section(&sections, "sha256").split_whitespace().next();
        Ok((!file.is_empty()).then(|| Program {
            path: file.into(),
            sha256: sha256.filter(|hash| hash.len() == 64).map(str::to_owned),
            version: (!version.is_empty()).then(|| version.to_owned()),
            libraries: Vec::new(),
        }))
    }
}
