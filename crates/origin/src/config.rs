//! Configuration of an origin.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

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
    /// UDP addresses that serve HTTP/3 over QUIC. With port 0 the system chooses;
    /// [`Origin::quic_addresses`](crate::Origin::quic_addresses) returns its choice.
    pub quic: Vec<SocketAddr>,
    /// Serves HTTP/3 also on UDP ports with the same numbers as the TCP ports in `listen`.
    pub quic_on_tcp_ports: bool,
    /// TLS on every TCP listener and UNIX socket; `None` means cleartext. QUIC always uses TLS,
    /// with this certificate or, if there is none, with a generated one.
    pub tls: Option<Tls>,
    /// Cores with one pinned thread each. If the list is not empty, it overrides `threads`.
    pub cores: Vec<usize>,
    /// Number of threads that are not pinned; 0 means 1.
    pub threads: usize,
    /// Extra CPU cost of each request.
    pub work: Option<Work>,
    /// Service time of each request, for a server that serves one request at a time and in the
    /// order of arrival, whatever the number of threads. It takes no CPU time. `None` serves
    /// requests immediately.
    pub service_time: Option<Duration>,
    /// Freeze schedule from the start of the server. A request to `/stall` can set one later.
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

/// Fault when a connection is accepted. QUIC has no accept, so there it is a fault of the
/// handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFault {
    /// Accepts, then resets the connection. UNIX sockets have no reset, so it closes them in an
    /// orderly way. Over QUIC, closes with CONNECTION_REFUSED.
    Reset,
    /// Accepts, then closes in an orderly way without sending a byte. Over QUIC, immediately closes
    /// with H3_NO_ERROR.
    Close,
    /// Accepts, and never reads until the client leaves. Over QUIC, responds to no packet.
    Ignore,
    /// Never accepts: connections fill the kernel's backlog (16 here), and more connection attempts
    /// hang. Over QUIC, datagrams are not read.
    Never,
}
