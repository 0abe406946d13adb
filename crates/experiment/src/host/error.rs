//! What can go wrong between prony and a machine, each naming the mend where there is one.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::port::Holder;
use super::program::MissingProgram;
use crate::service::PlaceKind;

/// Why a host refused. Every variant means that the environment, not the plan, is at fault.
#[derive(Debug)]
pub enum HostError {
    /// The service's program is not on this machine.
    MissingProgram {
        /// The service in question.
        service: String,
        /// What was looked for, and which package has it.
        missing: MissingProgram,
    },
    /// Somebody else listens where the service was to listen.
    PortTaken {
        /// The service in question.
        service: String,
        /// The address that is taken.
        address: SocketAddr,
        /// Who holds it, where the system tells.
        holder: Option<Holder>,
    },
    /// No free port was found.
    NoFreePort,
    /// The place can't be had on this machine, and what would mend that.
    Place {
        /// The kind of place.
        kind: PlaceKind,
        /// What is missing, and the mend.
        reason: String,
    },
    /// A kernel setting can't be made in a named place.
    Setting {
        /// The place.
        place: String,
        /// The setting, and the value where that is at fault.
        setting: String,
        /// What is in the way.
        reason: String,
    },
    /// A UNIX socket's path would not fit into a socket address (108 bytes on Linux, 104 on
    /// FreeBSD).
    PathTooLong(PathBuf),
    /// A name that can't be a file's name below the service's folder.
    BadName(String),
    /// The service was not allocated before its start.
    NotAllocated(String),
    /// The service runs already.
    AlreadyRunning(String),
    /// A step on the way to the service's program failed.
    Start {
        /// The service in question.
        service: String,
        /// What prony was about to do.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A command of the system's failed.
    Command {
        /// The command line.
        command: String,
        /// What it printed to standard error, or why it did not run.
        message: String,
    },
    /// A file or folder could not be made, written or removed.
    File {
        /// What prony was about to do, such as `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another machine refused, or can't be reached.
    Elsewhere {
        /// Its agent's name.
        host: String,
        /// Why, in words.
        text: String,
    },
    /// Processes of the service outlived a kill.
    Survived {
        /// The service in question.
        service: String,
        /// The processes that are left.
        pids: Vec<i32>,
    },
}

impl HostError {
    /// For use with `map_err`: a failure to do `action` to the file at `path`.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingProgram { service, missing } => write!(f, "service {service}: {missing}"),
            Self::PortTaken {
                service,
                address,
                holder,
            } => {
                write!(f, "service {service}: {address} is in use")?;
                match holder {
                    Some(holder) => write!(f, " by {holder}"),
                    None => write!(f, " (by whom could not be seen; root can)"),
                }
            }
            Self::NoFreePort => write!(f, "no free TCP port was found"),
            Self::Place { kind, reason } => {
                write!(f, "place {kind}: {reason}")
            }
            Self::Setting {
                place,
                setting,
                reason,
            } => write!(f, "place {place}: {setting}: {reason}"),
            Self::PathTooLong(path) => write!(
                f,
                "{}: too long for a UNIX socket's address (set XDG_RUNTIME_DIR or TMPDIR to a shorter path)",
                path.display()
            ),
            Self::BadName(name) => write!(f, "{name:?} can't name a file in a service's folder"),
            Self::NotAllocated(service) => {
                write!(f, "service {service} was started before it was allocated")
            }
            Self::AlreadyRunning(service) => write!(f, "service {service} runs already"),
            Self::Start {
                service,
                step,
                source,
            } => {
                write!(f, "service {service}: could not {step}: {source}")
            }
            Self::Command { command, message } => write!(f, "`{command}` failed: {message}"),
            Self::File {
                action,
                path,
                source,
            } => {
                write!(f, "could not {action} {}: {source}", path.display())
            }
            Self::Elsewhere { host, text } => write!(f, "host {host}: {text}"),
            Self::Survived { service, pids } => {
                write!(f, "service {service}: processes {pids:?} outlived SIGKILL")
            }
        }
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start { source, .. } | Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A service that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// The service's name in the plan.
    pub service: String,
    /// How it ended, in the words of the system: `exit status: 1`, `signal: 11 (SIGSEGV)`.
    pub status: String,
    /// The last lines of its log.
    pub log_tail: String,
}

impl fmt::Display for Exited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {} ended ({})", self.service, self.status)?;
        if self.log_tail.is_empty() {
            write!(f, "; its log is empty")
        } else {
            write!(f, "; the end of its log:\n{}", self.log_tail)
        }
    }
}

impl std::error::Error for Exited {}
