//! Errors in the interaction with a machine.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use prony_plan::service::{LimitKey, PlaceKind, PortProtocol};

use super::process::PortHolder;
use super::program::MissingProgram;

/// Reason why a host failed. In all cases, the environment is at fault, not the plan.
#[derive(Debug)]
pub enum HostError {
    /// The service's program does not exist on this machine.
    MissingProgram {
        /// Name of the service.
        service: String,
        /// The missing program, and the package that provides it.
        missing: MissingProgram,
    },
    /// Another process listens on the service's address.
    PortTaken {
        /// Name of the service.
        service: String,
        /// Address that is already in use.
        address: SocketAddr,
        /// Transport protocol of the port.
        protocol: PortProtocol,
        /// The process that uses the address, if it is visible.
        holder: Option<PortHolder>,
    },
    /// All ports are in use for the requested protocols.
    NoFreePort,
    /// This machine does not support the requested kind of place.
    Place {
        /// Kind of the place.
        kind: PlaceKind,
        /// Requirement that is not met, with a hint.
        reason: String,
    },
    /// A service can't run in its container.
    Container {
        /// Name of the service.
        service: String,
        /// Cause, with a hint.
        reason: String,
    },
    /// A limit of a service can't be set.
    Limit {
        /// Name of the service.
        service: String,
        /// Key of the limit in the plan.
        key: LimitKey,
        /// Cause, with a hint.
        reason: String,
    },
    /// A kernel setting can't be applied in a named place.
    Setting {
        /// Name of the place (a network namespace) that has the setting.
        place: String,
        /// Name of the setting, including its value if the value is at fault.
        setting: String,
        /// Reason why the kernel rejected the setting.
        reason: String,
    },
    /// A link can't have a delay on this machine.
    Emulator {
        /// Name of the link.
        link: String,
        /// Requirement that is not met, with a hint.
        reason: String,
    },
    /// The relay of a link can't be started.
    Relay {
        /// Name of the link.
        link: String,
        /// Core on which the relay was to run.
        core: Option<usize>,
        /// Error from the operating system.
        error: io::Error,
    },
    /// The round-trip time of a link can't be measured.
    RoundTrip {
        /// Name of the link.
        link: String,
        /// Error from the operating system.
        error: io::Error,
    },
    /// The path of a UNIX socket doesn't fit into a socket address (108 bytes).
    PathTooLong(PathBuf),
    /// A file name leads out of the service's folder.
    BadName(String),
    /// The service was started before it was allocated.
    NotAllocated(String),
    /// The service is already running.
    AlreadyRunning(String),
    /// A step before `exec` failed.
    Start {
        /// Name of the service.
        service: String,
        /// Description of the failed step, to follow "could not" in the message.
        step: &'static str,
        /// Error returned by the failed system call.
        source: io::Error,
    },
    /// A system command failed.
    Command {
        /// Command line.
        command: String,
        /// Standard error of the command, or the reason why the command could not run.
        message: String,
    },
    /// A file or folder can't be created, written or removed.
    File {
        /// Operation that failed, such as `write`.
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// Another machine failed or can't be reached.
    Elsewhere {
        /// Name of the agent on the other machine.
        host: String,
        /// Cause of the failure, as a message for the user.
        text: String,
    },
    /// Processes of the service outlived SIGKILL.
    Survived {
        /// Name of the service.
        service: String,
        /// IDs of the processes that outlived SIGKILL.
        pids: Vec<i32>,
    },
}

impl HostError {
    /// Converts an I/O error of the operation `action` on `path`, for use with `map_err`.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
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
                protocol,
                holder,
            } => {
                let udp = match protocol {
                    PortProtocol::Tcp => "",
                    PortProtocol::Udp => "UDP ",
                };
                write!(f, "service {service}: {udp}{address} is in use")?;
                match holder {
                    Some(holder) => write!(f, " by {holder}"),
                    None => write!(f, " (only root can see which process uses it)"),
                }
            }
            Self::NoFreePort => write!(f, "no free port is left"),
            Self::Place { kind, reason } => {
                write!(f, "place {kind}: {reason}")
            }
            Self::Container { service, reason } => {
                write!(f, "service {service} can't run in a container: {reason}")
            }
            Self::Limit {
                service,
                key,
                reason,
            } => write!(
                f,
                "service {service}: {} can't be limited here: {reason}",
                key.name()
            ),
            Self::Setting {
                place,
                setting,
                reason,
            } => write!(f, "place {place}: {setting}: {reason}"),
            Self::Emulator { link, reason } => {
                write!(f, "link {link} can't be emulated: {reason}")
            }
            Self::Relay {
                link,
                core: Some(core),
                error,
            } => write!(
                f,
                "the relay of link {link} can't run on core {core}: {error} (use another relay_core)"
            ),
            Self::Relay { link, error, .. } => {
                write!(f, "the relay of link {link} can't be started: {error}")
            }
            Self::RoundTrip { link, error } => write!(
                f,
                "the round-trip time of link {link} can't be measured: {error}"
            ),
            Self::PathTooLong(path) => write!(
                f,
                "{}: too long for a UNIX socket's address (set XDG_RUNTIME_DIR or TMPDIR to a shorter path)",
                path.display()
            ),
            Self::BadName(name) => write!(
                f,
                "{name:?} is not the path of a file in the service's folder"
            ),
            Self::NotAllocated(service) => {
                write!(f, "service {service} was started before it was allocated")
            }
            Self::AlreadyRunning(service) => write!(f, "service {service} is already running"),
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
