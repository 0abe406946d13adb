//! Errors that occur when an origin starts.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reason why an origin can't start. Every message names the cause and suggests a remedy.
#[derive(Debug)]
pub enum OriginError {
    /// The configuration has no TCP address, no UDP address and no UNIX path.
    NothingToListenOn,
    /// A TCP address could not be bound.
    Listen {
        /// Address from the configuration.
        address: SocketAddr,
        /// Error from the operating system.
        source: io::Error,
    },
    /// A UDP address could not be bound.
    Quic {
        /// Address from the configuration, or the UDP address that corresponds to a TCP listener.
        address: SocketAddr,
        /// Error from the operating system.
        source: io::Error,
    },
    /// A UNIX socket could not be bound to its path.
    Unix {
        /// Path from the configuration.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// The path of a UNIX socket is too long for a socket address.
    UnixPathTooLong {
        /// Path from the configuration.
        path: PathBuf,
        /// The operating system's limit in bytes, without the terminating zero.
        limit: usize,
    },
    /// Another process listens on the path of a UNIX socket.
    UnixPathInUse {
        /// Path from the configuration.
        path: PathBuf,
    },
    /// The path of a UNIX socket is an existing file that isn't a socket, so it isn't replaced.
    UnixPathOccupied {
        /// Path from the configuration.
        path: PathBuf,
    },
    /// A certificate or key file can't be read, or doesn't contain a certificate or key.
    TlsFile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// A server can't use the certificate and the key together.
    TlsRefused {
        /// Error from the TLS library.
        reason: String,
    },
    /// A thread could not be pinned to its configured core.
    Core {
        /// Core from the configuration.
        core: usize,
    },
    /// A thread or its runtime could not be started.
    Thread {
        /// Error from the operating system.
        source: io::Error,
    },
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToListenOn => {
                write!(
                    f,
                    "the origin has nothing to listen on: give it an address or a UNIX path"
                )
            }
            Self::Listen { address, source } => {
                write!(f, "can't listen on {address}: {source}")?;
                write_hint(f, address_hint(source))
            }
            Self::Quic { address, source } => {
                write!(f, "can't listen on UDP {address}: {source}")?;
                write_hint(f, address_hint(source))
            }
            Self::Unix { path, source } => {
                write!(f, "can't listen on unix:{}: {source}", path.display())?;
                write_hint(f, path_hint(source))
            }
            Self::UnixPathTooLong { path, limit } => write!(
                f,
                "the UNIX socket path {} has {} bytes, and this system allows at most {limit} \
                 (choose a shorter folder, such as /tmp)",
                path.display(),
                path.as_os_str().len()
            ),
            Self::UnixPathInUse { path } => write!(
                f,
                "another process is listening on unix:{} (stop that process, or choose another \
                    path)",
                path.display()
            ),
            Self::UnixPathOccupied { path } => write!(
                f,
                "{} exists and is not a socket (choose another path, or move the file)",
                path.display()
            ),
            Self::TlsFile { path, reason } => {
                write!(f, "can't use the TLS file {}: {reason}", path.display())
            }
            Self::TlsRefused { reason } => write!(
                f,
                "the certificate and its key don't match, or are not supported: {reason}"
            ),
            Self::Core { core } => write!(
                f,
                "can't pin a thread to core {core} (`nproc --all` prints the number of cores, and \
                 `taskset -cp $$` prints the cores that this process may use)"
            ),
            Self::Thread { source } => write!(f, "can't start a thread of the origin: {source}"),
        }
    }
}

impl std::error::Error for OriginError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. }
            | Self::Quic { source, .. }
            | Self::Unix { source, .. }
            | Self::Thread { source } => Some(source),
            _ => None,
        }
    }
}

fn write_hint(f: &mut fmt::Formatter<'_>, hint: Option<&str>) -> fmt::Result {
    match hint {
        Some(hint) => write!(f, " ({hint})"),
        None => Ok(()),
    }
}

fn address_hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(
            "another process is using this address: stop that process, or choose another port (0 \
                for any free port)",
        ),
        io::ErrorKind::AddrNotAvailable => Some(
            "this machine does not have that address: `ip address` lists the addresses that it has",
        ),
        io::ErrorKind::PermissionDenied => {
            Some("ports below 1024 require root: choose a higher port")
        }
        _ => None,
    }
}

fn path_hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound => {
            Some("the parent folder of this path does not exist: create it first")
        }
        io::ErrorKind::PermissionDenied => {
            Some("this user can't write to the parent folder of this path")
        }
        io::ErrorKind::NotADirectory => Some("part of this path is a file, not a folder"),
        _ => None,
    }
}
