//! Protocols that a client and a server agreed on.

use serde::{Deserialize, Serialize};

/// Protocols and ciphers negotiated between client and server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Negotiated {
    /// HTTP version of the first response.
    pub http: Option<String>,
    /// TLS version.
    pub tls: Option<String>,
    /// Cipher suite by its IANA name.
    pub cipher: Option<String>,
    /// Key exchange group, such as `X25519`; `None` for a session resumed without a key exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Length of the server's public key in bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_key_bits: Option<u32>,
    /// Protocol selected by ALPN.
    pub alpn: Option<String>,
}
