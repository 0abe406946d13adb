//! A NATS server for a fleet: its keys, configuration and process.
//!
//! All data is in one private folder: the server's configuration, certificate and data, and
//! credentials files for the coordinator and for each agent. A restart with the same folder keeps
//! all keys. New agents get new keys. When an agent's file is removed, the agent can no longer
//! connect.

mod config;
mod error;
mod folder;
mod keys;
mod process;
mod registrar;
pub mod tokens;

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use error::ServerError;
pub use folder::{FolderLock, KnownServer};
use keys::CertificateMode;
pub use process::{ServerProcess, free_address};
pub use registrar::Registrar;
use tokens::EnrollmentToken;

use crate::credentials::{FleetCredentials, KeyFile, Secret};
use crate::names::AgentName;
use crate::permissions::Role;

/// Setup of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSetup {
    /// Folder with the configuration, keys, data and log of the server.
    pub folder: PathBuf,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Names and addresses at which agents reach the server. The certificate contains all of them,
    /// credentials files only the first one.
    pub names: Vec<String>,
    /// Agents for which to create credentials, in addition to existing ones.
    pub agents: Vec<AgentName>,
}

/// Folder with all files that a server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedServer {
    folder: PathBuf,
    listen: SocketAddr,
    agents: Vec<AgentName>,
}

impl ServerSetup {
    /// Creates missing keys in the folder, and rewrites the configuration.
    ///
    /// # Errors
    ///
    /// See [`ServerError`]. Existing keys stay unchanged.
    pub fn prepare(&self) -> Result<PreparedServer, ServerError> {
        let _lock = self.lock_for_writing()?;
        self.prepare_locked(CertificateMode::Reissue)
    }

    fn lock_for_writing(&self) -> Result<fs::File, ServerError> {
        folder::lock_for_writing(&self.folder)
    }

    /// Like [`ServerSetup::prepare`], for callers that hold the lock.
    fn prepare_locked(&self, certificate: CertificateMode) -> Result<PreparedServer, ServerError> {
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
        let tokens: Vec<EnrollmentToken> = EnrollmentToken::all(folder)?
            .into_iter()
            .filter(|token| token.is_served(now))
            .collect();
        // A registrar is needed only if there are tokens.
        let registrar = (!tokens.is_empty()).then_some(Role::Registrar);
        let mut users = std::iter::once(Role::Coordinator)
            .chain(registrar)
            .chain(roles)
            .map(|role| self.user(role, &authority))
            .collect::<Result<Vec<_>, _>>()?;
        users.extend(enrolled.into_iter().map(|agent| config::ServerUser {
            role: Role::Agent(agent.name),
            public: agent.public,
        }));
        users.extend(tokens.into_iter().map(|token| config::ServerUser {
            public: token.public().to_owned(),
            role: Role::Token(token.id),
        }));
        let text = config::config_text(self.listen, &users);
        folder::write_secret(&folder.join(folder::CONFIG), &text)?;
        KnownServer {
            listen: self.listen,
            names: self.names.clone(),
        }
        .write(folder)?;
        let absolute = std::path::absolute(folder);
        Ok(PreparedServer {
            // The path must be absolute, because the server's process starts in this folder.
            folder: absolute.map_err(|error| ServerError::File(folder.clone(), error))?,
            listen: self.listen,
            agents,
        })
    }

    /// Returns true if a role already has this public key.
    fn knows(&self, public: &str) -> Result<bool, ServerError> {
        let folder = &self.folder;
        let agents = agents(folder)?.into_iter().map(Role::Agent);
        for role in agents.chain([Role::Coordinator, Role::Registrar]) {
            if let Some(file) = read_key_file(&credentials(folder, &role))?
                && file.seed.public_key().map_err(ServerError::keys)? == public
            {
                return Ok(true);
            }
        }
        let is_token = EnrollmentToken::all(folder)?
            .iter()
            .any(|it| it.public() == public);
        let enrolled = tokens::enrolled(folder)?;
        Ok(is_token || enrolled.iter().any(|it| it.public == public))
    }

    /// Writes the credentials file of a role, and returns the server's user for the role.
    fn user(&self, role: Role, authority: &str) -> Result<config::ServerUser, ServerError> {
        let path = credentials(&self.folder, &role);
        let seed = match read_key_file(&path)? {
            Some(file) if file.role() == role => file.seed,
            Some(_) => {
                let why =
                    "contains credentials for a role that doesn't match the file's name".to_owned();
                return Err(ServerError::Unfit(path, why));
            }
            None => Secret::new_user_seed().map_err(ServerError::keys)?,
        };
        let public = seed.public_key().map_err(ServerError::keys)?;
        // An existing file is also rewritten, because agents may now reach the server by another
        // name.
        let servers = self.names.iter().take(1);
        let servers = servers.map(|name| url(name, self.listen.port())).collect();
        let file = KeyFile::new(&role, seed, servers, authority);
        folder::write_secret(&path, &file.to_text())?;
        Ok(config::ServerUser { role, public })
    }
}

impl PreparedServer {
    /// Returns the path of a role's credentials file.
    pub fn credentials(&self, role: &Role) -> PathBuf {
        credentials(&self.folder, role)
    }

    /// Returns the agents that have credentials, sorted by name.
    pub fn agents(&self) -> &[AgentName] {
        &self.agents
    }

    /// Returns the server's URL for clients on this machine.
    pub fn local_url(&self) -> String {
        let local = process::local(self.listen);
        url(&local.ip().to_string(), local.port())
    }
}

/// Name or address at which agents can't reach the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerNameError {
    /// The unspecified address.
    Unspecified(IpAddr),
    /// Neither a name nor an address.
    NoHost(String),
}

impl fmt::Display for ServerNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerNameError::Unspecified(address) => write!(
                f,
                "{address} is not an address that agents can reach; use an address of this machine"
            ),
            ServerNameError::NoHost(name) => write!(
                f,
                "{name:?} is not a host; write a name or an address without a port, such as \
                 10.0.0.1 (the port comes from --listen)"
            ),
        }
    }
}

impl std::error::Error for ServerNameError {}

/// Checks a name or address at which agents reach the server.
///
/// # Errors
///
/// It is invalid.
pub fn check_name(name: &str) -> Result<(), ServerNameError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return if address.is_unspecified() {
            Err(ServerNameError::Unspecified(address))
        } else {
            Ok(())
        };
    }
    let is_label = |label: &str| {
        let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len()) && label.chars().all(is_good)
    };
    if name.len() <= 253 && name.split('.').all(is_label) {
        Ok(())
    } else {
        Err(ServerNameError::NoHost(name.to_owned()))
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
        // The credentials of a token are printed, so this file is never written.
        Role::Token(id) => format!("{id}.token"),
    })
}

/// Returns the agents that have credentials in a folder.
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
    match FleetCredentials::read(path) {
        Ok(FleetCredentials::Key(file)) => Ok(Some(file)),
        Ok(FleetCredentials::Jwt(_)) => {
            let why = "comes from NATS's own tools, not from prony".to_owned();
            Err(ServerError::Unfit(path.to_owned(), why))
        }
        Err(error) => Err(ServerError::Credentials(error)),
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
    fn ipv6_addresses_are_bracketed() {
        assert_eq!(url("::1", 4222), "tls://[::1]:4222");
        assert_eq!(url("web.test", 1), "tls://web.test:1");
    }
}
