//! One machine over one ssh connection: its session, files and ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use prony_plan::service::Endpoint;
use prony_plan::ssh_host::SshHost;
use prony_plan::watch_spec::RemoteService;

use super::parse::{self, OccupiedPorts};
use super::service::ServiceCheck;
use crate::host::remote::{
    CONNECT_TIMEOUT, RemoteConnection, RemoteError, Sections, Shell, SshTarget, quoted, section,
    token,
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
        let mut shell = Shell::start(target, &script, EXIT_TIMEOUT)?;
        let greeting = shell.response(CONNECT_TIMEOUT)?;
        if let Some(reason) = greeting.get("refused") {
            return Err(MachineError::Folder(reason.trim().to_owned()));
        }
        shell.keep_alive(BEAT_INTERVAL);
        let peer = parse::ssh_connection(section(&greeting, "peer"));
        let (own_address, address) = peer.unzip();
        Ok(Self {
            folder: section(&greeting, "folder").trim().to_owned(),
            boot: section(&greeting, "boot").trim().to_owned(),
            connection: RemoteConnection::greeted(shell, &greeting)?,
            address: host.address.or(address),
            own_address,
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

    pub(super) fn system(&self) -> crate::host::remote::RemoteSystem {
        self.connection.system
    }
}
