//! Configuration of an origin.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cpu::Work;
use crate::stall::FreezeSchedule;

/// Listeners and behavior. [`Config::default`] has no listener, which
/// [`Origin::start`](crate::Origin::start) rejects; all other defaults are usable.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// TCP addresses, IPv4 or IPv6. With port 0 the system chooses;
    /// [`Origin::addresses`](crate::Origin::addresses) returns its choice.
    pub listen: Vec<SocketAddr>,
    /// UNIX socket paths. A socket file without a listening process is replaced. The files are
    /// removed when the origin stops.
    pub unix: Vec<PathBuf>,
    /// TLS on every listener, UNIX sockets included. `None` means cleartext.
    pub tls: Option<Tls>,
    /// Cores with one pinned thread each. If not empty, overrides `threads`.
    pub cores: Vec<usize>,
    /// Number of threads that are not pinned; 0 means 1.
    pub threads: usize,
    /// Extra CPU cost of each request.
    pub work: Option<Work>,
    /// Freeze schedule from the start. A request to `/stall` can set one later.
    pub stall: Option<FreezeSchedule>,
    /// Fault of every connection before any byte is read.
    pub on_accept: Option<AcceptFault>,
}

/// Source of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// A new self-signed P-256 certificate for `localhost`, `127.0.0.1` and `::1`.
    Generated,
    /// Certificate from PEM files.
    Files {
        /// The certificate, optionally followed by its chain.
        certificate: PathBuf,
        /// Private key of the certificate (PKCS#8, SEC1 or PKCS#1).
        key: PathBuf,
    },
}

/// Fault of a connection at accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFault {
    /// Accept, then reset (orderly close on a UNIX socket, which has no reset).
    Reset,
    /// Accept, then close in an orderly way without a byte.
    Close,
    /// Accept, and never read until the client leaves.
    Ignore,
    /// Never accept: connections fill the kernel's backlog (16 here), and further connects hang.
    Never,
}
