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
    /// UDP addresses that serve HTTP/3 over QUIC. With port 0 the system chooses;
    /// [`Origin::quic_addresses`](crate::Origin::quic_addresses) returns its choice.
    pub quic: Vec<SocketAddr>,
    /// Serve HTTP/3 also on the UDP port with the number of each TCP port in `listen`.
    pub quic_on_tcp_ports: bool,
    /// TLS on every TCP listener and UNIX socket; `None` means cleartext. QUIC always has TLS: its
    /// certificate is this one, or a generated one.
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

/// Fault of a connection at accept. Over QUIC, which has no accept, it is a fault of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFault {
    /// Accept, then reset (orderly close on a UNIX socket, which has no reset). QUIC: close with
    /// CONNECTION_REFUSED.
    Reset,
    /// Accept, then close in an orderly way without a byte. QUIC: close with H3_NO_ERROR at once.
    Close,
    /// Accept, and never read until the client leaves. QUIC: no packet is answered.
    Ignore,
    /// Never accept: connections fill the kernel's backlog (16 here), and further connects hang.
    /// QUIC: datagrams are not even read.
    Never,
}
