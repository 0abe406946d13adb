//! Failures of a fleet's server.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::credentials::CredentialsError;
use crate::names::AgentName;

/// Reason why the server can't be prepared, started or changed.
#[derive(Debug)]
pub enum ServerError {
    /// A file can't be read or written.
    File(PathBuf, io::Error),
    /// A file has invalid content. Contains the reason.
    Unfit(PathBuf, String),
    /// A credentials file can't be used.
    Credentials(CredentialsError),
    /// An agent can't have this name, because another file in the folder uses it.
    Reserved(AgentName),
    /// Keys or certificates can't be created.
    Keys(Box<dyn std::error::Error + Send + Sync>),
    /// nats-server is not installed.
    NotInstalled,
    /// The server can't listen on the address.
    Listen(SocketAddr, io::Error),
    /// The process can't be started or signaled.
    Process(io::Error),
    /// The process exited, doesn't listen, or rejects its configuration.
    Ended {
        /// Address of the server.
        listen: SocketAddr,
        /// End of the server's log.
        log: String,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::File(path, error) => write!(f, "{}: {error}", path.display()),
            ServerError::Unfit(path, why) => write!(f, "{}: {why}", path.display()),
            ServerError::Credentials(error) => error.fmt(f),
            ServerError::Reserved(name) => {
                write!(
                    f,
                    "an agent can't have the name {name}: it is reserved, or an enrolled agent has it"
                )
            }
            ServerError::Keys(why) => write!(f, "can't create keys: {why}"),
            ServerError::NotInstalled => f.write_str(
                "nats-server is not installed; install the package nats-server (Debian, Ubuntu, Alpine, Arch, FreeBSD), or download it from https://nats.io/download",
            ),
            ServerError::Listen(listen, error) => match error.kind() {
                io::ErrorKind::AddrInUse => {
                    write!(
                        f,
                        "{listen} is in use by another program (choose another port)"
                    )
                }
                io::ErrorKind::AddrNotAvailable => {
                    write!(
                        f,
                        "can't listen on {listen}: {} is not an address of this machine",
                        listen.ip()
                    )
                }
                _ => write!(f, "can't listen on {listen}: {error}"),
            },
            ServerError::Process(error) => write!(f, "nats-server: {error}"),
            ServerError::Ended { listen, log } => {
                write!(
                    f,
                    "nats-server failed on {listen}; the end of its log:\n{log}"
                )
            }
        }
    }
}

impl std::error::Error for ServerError {}

impl ServerError {
    pub(super) fn keys(error: impl std::error::Error + Send + Sync + 'static) -> ServerError {
        ServerError::Keys(Box::new(error))
    }
}
