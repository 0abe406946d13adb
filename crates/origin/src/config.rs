//! What an origin is asked to be.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cpu::Work;
use crate::stall::Schedule;

/// What to listen on and how to behave. [`Config::default`] listens on nothing, which
/// [`Origin::start`](crate::Origin::start) refuses; everything else may stay as it is.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// TCP addresses, IPv4 or IPv6. Port 0 lets the system choose;
    /// [`Origin::addresses`](crate::Origin::addresses) tells what it chose.
    pub listen: Vec<SocketAddr>,
    /// UNIX socket paths. A socket file that nobody listens on any more is replaced; they are
    /// removed when the origin stops.
    pub unix: Vec<PathBuf>,
    /// With TLS every listener speaks it, the UNIX sockets too. `None` is clear text.
    pub tls: Option<Tls>,
    /// One thread for each core named here, pinned to it. When not empty, it overrides `threads`.
    pub cores: Vec<usize>,
    /// Number of threads that are not pinned; 0 means 1.
    pub threads: usize,
    /// Work that each request costs on top of being served.
    pub work: Option<Work>,
    /// Freeze on this schedule from the start on. A request to `/stall` can set one later.
    pub stall: Option<Schedule>,
    /// Treat every connection badly, before a byte of it was read.
    pub on_accept: Option<AcceptFault>,
}

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// A new self-signed P-256 certificate for `localhost`, `127.0.0.1` and `::1`.
    Generated,
    /// PEM files.
    Files {
        /// The certificate, followed by the chain if there is one.
        certificate: PathBuf,
        /// Its private key (PKCS#8, SEC1 or PKCS#1).
        key: PathBuf,
    },
}

/// What happens to every connection instead of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFault {
    /// Accepted and reset (an orderly close on a UNIX socket, which knows no reset).
    Reset,
    /// Accepted and closed in an orderly way, without a byte.
    Close,
    /// Accepted and never read, until the client leaves.
    Ignore,
    /// Never accepted: connections queue in the kernel until its backlog (16 here) is full, and
    /// then connecting hangs.
    Never,
}
