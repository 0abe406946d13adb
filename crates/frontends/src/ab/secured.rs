//! Describes the negotiated TLS parameters in ab's terms.

use std::net::IpAddr;

use prony_load::openssl_name;
use prony_record::Negotiated;

use super::arguments::AbArguments;
use super::request::given_header;

/// Negotiated TLS parameters, as ab prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AbTls {
    /// Version, cipher suite, key length of the server, and key length of the cipher; empty if no
    /// connection succeeded.
    pub(super) protocol: String,
    /// Group and key length of the key exchange, if known.
    pub(super) exchange: Option<String>,
    /// Server name in the handshake.
    pub(super) name: Option<String>,
}

/// Returns the server name for the handshake, taken from the Host header. Returns `None` for an
/// address (RFC 6066, section 3).
pub(super) fn server_name(arguments: &AbArguments) -> Option<String> {
    let host = match given_header(arguments, "Host") {
        Some(given) => given.rsplit_once(':').map_or(given, |(host, _)| host),
        None => &arguments.url.host,
    };
    let is_name = !host.is_empty() && host.parse::<IpAddr>().is_err() && !host.contains([':', '[']);
    (!arguments.hides_name && is_name).then(|| host.to_owned())
}

/// Returns the data for ab's lines about TLS.
pub(super) fn tls_of(agreed: &Negotiated, arguments: &AbArguments) -> AbTls {
    let (Some(version), Some(cipher)) = (&agreed.tls, &agreed.cipher) else {
        return AbTls {
            name: server_name(arguments),
            ..AbTls::default()
        };
    };
    let key_bits = agreed.server_key_bits.unwrap_or_default();
    AbTls {
        protocol: format!(
            "{version},{},{key_bits},{}",
            openssl_name(cipher),
            cipher_bits(cipher)
        ),
        exchange: agreed.group.as_deref().map(openssl_group),
        name: server_name(arguments),
    }
}

/// Returns OpenSSL's name of a group, with its key length.
fn openssl_group(group: &str) -> String {
    match group {
        "X25519" => "X25519 253 bits".to_owned(),
        "secp256r1" => "ECDH prime256v1 256 bits".to_owned(),
        "secp384r1" => "ECDH secp384r1 384 bits".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the key length of a cipher in bits.
fn cipher_bits(iana: &str) -> u32 {
    if iana.contains("AES_128") { 128 } else { 256 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_openssls_names() {
        for (iana, openssl, bits) in [
            ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", 256),
            ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", 128),
            (
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "ECDHE-RSA-AES128-GCM-SHA256",
                128,
            ),
            (
                "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                256,
            ),
            (
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-RSA-CHACHA20-POLY1305",
                256,
            ),
        ] {
            assert_eq!(
                (openssl_name(iana).as_str(), cipher_bits(iana)),
                (openssl, bits)
            );
        }
    }
}
