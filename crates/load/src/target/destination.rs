//! Destinations of requests.

use std::collections::HashMap;

use rustls::pki_types::ServerName;

use crate::socket::Peer;
use crate::target::addresses::NamedAddresses;

/// Destination of requests.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Address of the server or proxy.
    pub(crate) peer: Peer,
    /// The name and its addresses, if connections may use several or changing addresses.
    pub(crate) named: Option<Box<NamedAddresses>>,
    /// Server name for TLS; `None` for cleartext.
    pub(crate) tls: Option<ServerName<'static>>,
    /// CONNECT request that asks the proxy for a tunnel to the target, if there is a proxy.
    pub(crate) tunnel: Option<Vec<u8>>,
    /// True if Nagle's algorithm is disabled; see [`Route::nodelay`](crate::socket::Route). With
    /// the algorithm, the small messages of TLS and HTTP/2 and the last segment of a long request
    /// would wait for the acknowledgment of earlier segments.
    pub(crate) nodelay: bool,
}

impl Target {
    /// Returns true if both targets are reached in cleartext at the same address, so they can share
    /// connections.
    pub(crate) fn is_same_clear(&self, other: &Target) -> bool {
        self.tls.is_none() && other.tls.is_none() && self.peer == other.peer
    }
}

/// Target indices by host, port and use of TLS.
pub(crate) type TargetIndices = HashMap<Address, u32>;

/// Host, port and use of TLS.
pub(crate) type Address = (String, u16, bool);
