//! A NATS server of one's own: its keys, its configuration, its process.
//!
//! Everything is in one folder that only its owner may enter: the server's configuration, certificate
//! and store, and a credentials file for the coordinator and one for each agent. Started again on the
//! same folder it is the same server, with the same keys; agents that are new get theirs, and those whose
//! file was removed are unknown from then on.

mod config;
mod folder;
mod keys;
mod process;
mod registrar;
pub mod tokens;

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use folder::{Known, Lock};
pub use process::{Server, free_address};
pub use registrar::Registrar;
use tokens::Token;

use crate::credentials::{Credentials, KeyFile};
use crate::names::AgentName;
use crate::permissions::Role;

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
    /// The agents that get credentials, beside those that have some.
    pub agents: Vec<AgentName>,
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServerError {
    /// A file can't be read or written.
    File(PathBuf, io::Error),
    /// A file is there and is not what it should be.
    Unfit(PathBuf, String),
    /// An agent can't have this name: a file of the folder has it.
    Reserved(AgentName),
    /// Keys or certificates can't be made.
    Keys(String),
    /// nats-server is not installed.
    NotInstalled,
    /// It can't listen there.
    Listen(SocketAddr, io::Error),
    /// It can't be started, or told something.
    Process(io::Error),
    /// It ended, doesn't listen, or doesn't take its configuration; with the end of its log.
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
            ServerError::Reserved(name) => {
                write!(
                    f,
                    "an agent can't be called {name}: that file is somebody else's"
                )
            }
            ServerError::Keys(why) => write!(f, "making keys: {why}"),
            ServerError::NotInstalled => f.write_str(
                "nats-server is not installed; it is in the package nats-server (Debian, Ubuntu, \
                 Alpine, Arch, FreeBSD) or at https://nats.io/download",
            ),
            ServerError::Listen(listen, error) => match error.kind() {
                io::ErrorKind::AddrInUse => {
                    write!(
                        f,
                        "{listen} is taken by another program; choose another port"
                    )
                }
                io::ErrorKind::AddrNotAvailable => {
                    write!(
                        f,
                        "{listen} can't be listened on: {} is no address of this machine",
                        listen.ip()
                    )
                }
                _ => write!(f, "{listen} can't be listened on: {error}"),
            },
            ServerError::Process(error) => write!(f, "nats-server: {error}"),
            ServerError::Ended { listen, log } => {
                write!(
                    f,
                    "nats-server does not run as it should on {listen}; the end of its log:\n{log}"
                )
            }
        }
    }
}

impl std::error::Error for ServerError {}

/// Whether the server gets another certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certificate {
    /// It may be reached by other names now.
    New,
    /// The one that is there stays: another one would disturb those who connect at this moment.
    Kept,
}

/// A folder with all that a server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    folder: PathBuf,
    listen: SocketAddr,
    agents: Vec<AgentName>,
}

impl Wanted {
    /// Makes what is not there yet in the folder, and the configuration anew.
    ///
    /// # Errors
    ///
    /// See [`ServerError`]; keys that were there are as they were.
    pub fn prepare(&self) -> Result<Prepared, ServerError> {
        let _lock = self.lock_for_writing()?;
        self.prepare_locked(Certificate::New)
    }

    fn lock_for_writing(&self) -> Result<fs::File, ServerError> {
        folder::lock_for_writing(&self.folder)
    }

    /// The same, for who holds the lock.
    fn prepare_locked(&self, certificate: Certificate) -> Result<Prepared, ServerError> {
        let folder = &self.folder;
        let mut agents = agents(folder)?;
        let enrolled = tokens::enrolled(folder)?;
        for name in &self.agents {
            let is_enrolled = enrolled.iter().any(|it| it.name == *name);
            if is_enrolled || folder::RESERVED.contains(&name.as_str()) {
                return Err(ServerError::Reserved(name.clone()));
            }
            agents.push(name.clone());
        }
        agents.sort();
        agents.dedup();
        let mut names = self.names.clone();
        if !self.listen.ip().is_unspecified() {
            names.push(self.listen.ip().to_string());
        }
        let authority = keys::authority(folder, &names, certificate)?;
        let roles = agents.iter().cloned().map(Role::Agent);
        let now = SystemTime::now();
        let tokens: Vec<Token> = Token::all(folder)?
            .into_iter()
            .filter(|token| token.is_served(now))
            .collect();
        // Only where there are tokens somebody enrolls agents.
        let registrar = (!tokens.is_empty()).then_some(Role::Registrar);
        let mut users = std::iter::once(Role::Coordinator)
            .chain(registrar)
            .chain(roles)
            .map(|role| self.user(role, &authority))
            .collect::<Result<Vec<_>, _>>()?;
        users.extend(enrolled.into_iter().map(|agent| config::User {
            role: Role::Agent(agent.name),
            public: agent.public,
        }));
        users.extend(tokens.into_iter().map(|token| config::User {
            public: token.public().to_owned(),
            role: Role::Token(token.id),
        }));
        let text = config::text(self.listen, &users);
        folder::write_secret(&folder.join(folder::CONFIG), &text)?;
        Known {
            listen: self.listen,
            names: self.names.clone(),
        }
        .write(folder)?;
        let absolute = std::path::absolute(folder);
        Ok(Prepared {
            // The server is started in it.
            folder: absolute.map_err(|error| ServerError::File(folder.clone(), error))?,
            listen: self.listen,
            agents,
        })
    }

    /// Whether a key is somebody's already, by its public half.
    fn knows(&self, public: &str) -> Result<bool, ServerError> {
        let folder = &self.folder;
        let agents = agents(folder)?.into_iter().map(Role::Agent);
        for role in agents.chain([Role::Coordinator, Role::Registrar]) {
            if let Some(file) = read_key_file(&credentials(folder, &role))?
                && keys::public(&file.seed)? == public
            {
                return Ok(true);
            }
        }
        let is_token = Token::all(folder)?.iter().any(|it| it.public() == public);
        let enrolled = tokens::enrolled(folder)?;
        Ok(is_token || enrolled.iter().any(|it| it.public == public))
    }

    /// A user of the server, and the file that makes somebody this user.
    fn user(&self, role: Role, authority: &str) -> Result<config::User, ServerError> {
        let path = credentials(&self.folder, &role);
        let seed = match read_key_file(&path)? {
            Some(file) if file.role() == role => file.seed,
            Some(_) => {
                let why = "holds the credentials of somebody else than its name says".to_owned();
                return Err(ServerError::Unfit(path, why));
            }
            None => keys::new_user()?,
        };
        let public = keys::public(&seed)?;
        // Written anew each time: the server may be reached by another name now.
        let servers = self.names.iter().take(1);
        let servers = servers.map(|name| url(name, self.listen.port())).collect();
        let file = KeyFile::new(&role, seed, servers, authority);
        folder::write_secret(&path, &file.to_text())?;
        Ok(config::User { role, public })
    }
}

impl Prepared {
    /// The credentials file of a role.
    pub fn credentials(&self, role: &Role) -> PathBuf {
        credentials(&self.folder, role)
    }

    /// The agents that have credentials, by name.
    pub fn agents(&self) -> &[AgentName] {
        &self.agents
    }

    /// The server as it is reached from this machine.
    pub fn local_url(&self) -> String {
        let local = process::local(self.listen);
        url(&local.ip().to_string(), local.port())
    }
}

/// Whether agents can be told to reach a server by this name.
///
/// # Errors
///
/// In words, why not.
pub fn check_name(name: &str) -> Result<(), String> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return match address.is_unspecified() {
            true => Err(format!(
                "{name} leads nowhere; give an address that agents can reach"
            )),
            false => Ok(()),
        };
    }
    let is_label = |label: &str| {
        let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len()) && label.chars().all(is_good)
    };
    match name.len() <= 253 && name.split('.').all(is_label) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is no host; give a name or an address alone, such as 10.0.0.1: the port is \
             that of --listen"
        )),
    }
}

fn url(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(six)) => format!("tls://[{six}]:{port}"),
        _ => format!("tls://{host}:{port}"),
    }
}

fn credentials(folder: &Path, role: &Role) -> PathBuf {
    folder.join(match role {
        Role::Coordinator => "coordinator.creds".to_owned(),
        Role::Agent(name) => format!("{name}.creds"),
        Role::Registrar => "registrar.creds".to_owned(),
        // Its file is printed, and not kept.
        Role::Token(id) => format!("{id}.token"),
    })
}

/// The agents that have credentials in a folder.
fn agents(folder: &Path) -> Result<Vec<AgentName>, ServerError> {
    let failed = |error| ServerError::File(folder.to_owned(), error);
    let mut agents = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let agent = name
            .strip_suffix(".creds")
            .filter(|it| !folder::RESERVED.contains(it));
        agents.extend(agent.and_then(|it| it.parse::<AgentName>().ok()));
    }
    Ok(agents)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_a_host() {
        for good in [
            "10.0.0.1",
            "::1",
            "localhost",
            "nats-1.example.org",
            "127.0.0.1",
        ] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "0.0.0.0",
            "::",
            "a b",
            "tls://x",
            "x:4222",
            "10.0.0.1:4222",
            "a..b",
            "*",
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_of_six_parts_are_bracketed() {
        assert_eq!(url("::1", 4222), "tls://[::1]:4222");
        assert_eq!(url("web.test", 1), "tls://web.test:1");
    }
}
