//! Configuration of an origin.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::cpu::Work;
use crate::stall::FreezeSchedule;

/// Listeners and behavior of an origin. [`Config::default`] has no listener, which
/// [`Origin::start`](crate::Origin::start) rejects. All other defaults are usable.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// TCP addresses (IPv4 or IPv6) to listen on. For port 0, the system chooses a port, which
    /// [`Origin::addresses`](crate::Origin::addresses) returns.
    pub listen: Vec<SocketAddr>,
    /// Paths of UNIX sockets to listen on. A socket file on which no process listens is replaced.
    /// The files are removed when the origin stops.
    pub unix: Vec<PathBuf>,
    /// UDP addresses that serve HTTP/3 over QUIC. For port 0, the system chooses a port, which
    /// [`Origin::quic_addresses`](crate::Origin::quic_addresses) returns.
    pub quic: Vec<SocketAddr>,
    /// True if HTTP/3 is also served on UDP ports with the same numbers as the TCP ports in
    /// `listen`.
    pub quic_on_tcp_ports: bool,
    /// TLS certificate of every TCP listener and UNIX socket; `None` means cleartext. QUIC always
    /// uses TLS, with this certificate or, if it is `None`, with a generated certificate.
    pub tls: Option<Tls>,
    /// Cores, each of which gets one pinned thread. If the list is not empty, it overrides
    /// `threads`.
    pub cores: Vec<usize>,
    /// Number of threads that are not pinned; 0 means 1.
    pub threads: usize,
    /// Extra CPU cost of each request.
    pub work: Option<Work>,
    /// Service time of each request. The origin then serves one request at a time, in the order of
    /// arrival, regardless of the number of threads. The service uses no CPU time. `None` serves
    /// requests immediately.
    pub service_time: Option<Duration>,
    /// Freeze schedule that applies from the start of the server. A request to `/stall` can set a
    /// schedule later.
    pub stall: Option<FreezeSchedule>,
    /// Fault that affects every connection before the origin reads a byte from it.
    pub on_accept: Option<AcceptFault>,
}

/// Source of the TLS certificate.
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

/// Fault that occurs when a connection is accepted. Over QUIC, which has no accept, it occurs in
/// the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFault {
    /// Accepts a connection, then resets it. UNIX sockets have no reset, so they are closed in an
    /// orderly way. Over QUIC, closes the connection with CONNECTION_REFUSED.
    Reset,
    /// Accepts a connection, then closes it in an orderly way without sending a byte. Over QUIC,
    /// closes the connection with H3_NO_ERROR right after the handshake.
    Close,
    /// Accepts a connection and keeps it open until the client leaves, without ever reading from
    /// it. Over QUIC, responds to no packet.
    Ignore,
    /// Never accepts a connection. Connections fill the kernel's backlog, which is set to 16, and
    /// further connection attempts hang. Over QUIC, datagrams are not read.
    Never,
}
