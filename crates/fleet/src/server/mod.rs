//! A NATS server of one's own: its keys, its configuration, its process.
//!
//! Everything is in one folder: the server's configuration and certificate, a credentials file for the
//! coordinator and one for each agent. Started again on the same folder it is the same server, with the
//! same keys; agents that are new get theirs.

mod config;
mod keys;

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use crate::credentials::{Credentials, KeyFile};
use crate::names::AgentName;
use crate::permissions::Role;

/// How long the server may take to listen.
const START: Duration = Duration::from_secs(15);
/// How long it may take to end.
const STOP: Duration = Duration::from_secs(10);

/// What a server is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its folder.
    pub folder: PathBuf,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names and addresses by which it is reached, for its certificate and for the credentials files;
    /// the first one is the agents'.
    pub names: Vec<String>,
    /// The agents that get credentials.
    pub agents: Vec<AgentName>,
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServerError {
    /// A file can't be read or written.
    File(PathBuf, io::Error),
    /// A file is there and is not what it should be.
    Unfit(PathBuf, String),
    /// Keys or certificates can't be made.
    Keys(String),
    /// nats-server is not installed.
    NotInstalled,
    /// It can't be started.
    Start(io::Error),
    /// It ended, or doesn't listen; with the end of its log.
    Ended {
        /// Where it was to listen.
        listen: SocketAddr,
        /// Its last words.
        log: String,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::File(path, error) => write!(f, "{}: {error}", path.display()),
            ServerError::Unfit(path, why) => write!(f, "{}: {why}", path.display()),
            ServerError::Keys(why) => write!(f, "making keys: {why}"),
            ServerError::NotInstalled => f.write_str(
                "nats-server is not installed; it is in the package nats-server (Debian, FreeBSD) or \
                 at https://nats.io",
            ),
            ServerError::Start(error) => write!(f, "starting nats-server: {error}"),
            ServerError::Ended { listen, log } => {
                write!(f, "nats-server does not listen on {listen}; the end of its log:\n{log}")
            }
        }
    }
}

impl std::error::Error for ServerError {}

/// A folder with all that a server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    folder: PathBuf,
    listen: SocketAddr,
}

impl Wanted {
    /// Makes what is not there yet in the folder.
    ///
    /// # Errors
    ///
    /// See [`ServerError`].
    pub fn prepare(&self) -> Result<Prepared, ServerError> {
        let folder = &self.folder;
        fs::create_dir_all(folder).map_err(|error| ServerError::File(folder.clone(), error))?;
        let prepared = Prepared {
            folder: folder.clone(),
            listen: self.listen,
        };
        let authority = keys::authority(folder, &self.names)?;
        let url = |name: &String| match name.parse::<IpAddr>() {
            Ok(IpAddr::V6(six)) => format!("tls://[{six}]:{}", self.listen.port()),
            _ => format!("tls://{name}:{}", self.listen.port()),
        };
        let servers: Vec<String> = self.names.iter().take(1).map(url).collect();
        let mut users = Vec::new();
        let known = prepared.agents()?;
        let agents = known.into_iter().chain(self.agents.iter().cloned());
        let roles: std::collections::BTreeMap<_, _> = agents
            .map(|name| (name.to_string(), Role::Agent(name)))
            .collect();
        for role in std::iter::once(Role::Coordinator).chain(roles.into_values()) {
            let path = prepared.credentials(&role);
            let seed = match read_key_file(&path)? {
                Some(file) => file.seed,
                None => keys::new_user()?,
            };
            let public = keys::public(&seed)?;
            // Written anew each time: the server may be reached by another name now.
            let file = KeyFile::new(&role, seed, servers.clone(), &authority);
            write_secret(&path, &file.to_text())?;
            users.push(config::User { role, public });
        }
        let path = folder.join("nats.conf");
        let text = config::text(self.listen, folder, &users);
        fs::write(&path, text).map_err(|error| ServerError::File(path, error))?;
        Ok(prepared)
    }
}

impl Prepared {
    /// The credentials file of a role.
    pub fn credentials(&self, role: &Role) -> PathBuf {
        self.folder.join(match role {
            Role::Coordinator => "coordinator.creds".to_owned(),
            Role::Agent(name) => format!("agent-{name}.creds"),
        })
    }

    /// The agents that have credentials.
    fn agents(&self) -> Result<Vec<AgentName>, ServerError> {
        let failed = |error| ServerError::File(self.folder.clone(), error);
        let mut agents = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy();
            let agent = name
                .strip_prefix("agent-")
                .and_then(|it| it.strip_suffix(".creds"));
            agents.extend(agent.and_then(|it| it.parse().ok()));
        }
        Ok(agents)
    }

    /// Starts the server, and waits until it listens.
    ///
    /// # Errors
    ///
    /// See [`ServerError`]; nothing runs then.
    pub fn start(&self) -> Result<Server, ServerError> {
        let log = self.folder.join("nats.log");
        let file = fs::OpenOptions::new().create(true).append(true).open(&log);
        let file = file.map_err(|error| ServerError::File(log.clone(), error))?;
        let errors = file
            .try_clone()
            .map_err(|error| ServerError::File(log.clone(), error))?;
        let child = command()
            .arg("--config")
            .arg(self.folder.join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ServerError::NotInstalled,
                _ => ServerError::Start(error),
            })?;
        let mut server = Server { child };
        let until = Instant::now() + START;
        while !is_heard(self.listen) {
            let ended = server.child.try_wait().ok().flatten().is_some();
            if ended || Instant::now() > until {
                let listen = self.listen;
                let log = last_lines(&fs::read_to_string(&log).unwrap_or_default());
                return Err(ServerError::Ended { listen, log });
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

/// A server that runs, until this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
}

impl Server {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        let pid = self.child.id().to_string();
        // Asked politely it writes down what it holds; it may end in this moment by itself.
        let _ = Command::new("kill").arg(pid).status();
        let until = Instant::now() + STOP;
        while self.is_running() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian has the server where only root looks.
fn command() -> Command {
    let beside = ["/usr/sbin/nats-server", "/usr/local/sbin/nats-server"];
    let on_path = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join("nats-server").is_file())
    });
    match beside.into_iter().find(|path| Path::new(path).is_file()) {
        Some(path) if !on_path => Command::new(path),
        _ => Command::new("nats-server"),
    }
}

fn is_heard(listen: SocketAddr) -> bool {
    let mut address = listen;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            SocketAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        });
    }
    TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

fn read_key_file(path: &Path) -> Result<Option<KeyFile>, ServerError> {
    if !path.exists() {
        return Ok(None);
    }
    match Credentials::read(path) {
        Ok(Credentials::Key(file)) => Ok(Some(file)),
        Ok(Credentials::Jwt(_)) => {
            let why = "is a file of NATS's own tools; this folder is prony's".to_owned();
            Err(ServerError::Unfit(path.to_owned(), why))
        }
        Err(why) => Err(ServerError::Unfit(path.to_owned(), why)),
    }
}

/// Writes a file that only its owner may read.
fn write_secret(path: &Path, text: &str) -> Result<(), ServerError> {
    let failed = |error| ServerError::File(path.to_owned(), error);
    // One that is there already may be open to others.
    if path.exists() {
        fs::remove_file(path).map_err(failed)?;
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}
