//! Cipher suites: names, order, and selection.

use rustls::crypto::aws_lc_rs;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::values::error::SettingsError;

/// Default suites, the preferred one first.
///
/// AES-128 with SHA-256 is first, as in Firefox, Chrome and Go. Servers that follow the client's
/// order then use the suite that most of their visitors get. It is also the cheapest, especially in
/// a handshake, whose key schedule is a chain of hashes: most processors have instructions for
/// SHA-256, and few have them for SHA-384.
pub(super) fn default_order() -> Vec<SupportedCipherSuite> {
    let mut suites = aws_lc_rs::DEFAULT_CIPHER_SUITES.to_vec();
    // The sort is stable, so it keeps the library's order within each kind.
    suites.sort_by_key(|suite| !suite_name(*suite).contains("_AES_128_"));
    suites.sort_by_key(|suite| suite.tls13().is_none());
    suites
}

/// Returns the suites with these names, in this order. Each must fit one of the `versions`.
///
/// # Errors
///
/// Returns a sentence that names the unknown or unsuitable suite.
pub(super) fn chosen(
    names: &[String],
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Vec<SupportedCipherSuite>, SettingsError> {
    names
        .iter()
        .map(|text| {
            let suite = find_suite(text)?;
            if versions.iter().any(|known| **known == *suite.version()) {
                return Ok(suite);
            }
            let (version, setting, bound) = match suite.tls13() {
                Some(_) => ("1.3", "tls_max", "1.2"),
                None => ("1.2", "tls_min", "1.3"),
            };
            let error = SettingsError::of("ciphers");
            let error = error.text(format!(
                ": {text} is a cipher suite of TLS {version}, which "
            ));
            Err(error.and_value(setting, bound).text(" excludes"))
        })
        .collect()
}

fn find_suite(text: &str) -> Result<SupportedCipherSuite, SettingsError> {
    let all = aws_lc_rs::ALL_CIPHER_SUITES;
    let is_meant = |suite: &&SupportedCipherSuite| {
        let name = suite_name(**suite);
        name.eq_ignore_ascii_case(text) || openssl_name(&name).eq_ignore_ascii_case(text)
    };
    all.iter().find(is_meant).copied().ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|suite| suite_name(*suite)).collect();
        SettingsError::of("ciphers").text(format!(
            ": \"{text}\" is not supported by this TLS library; choose from {}",
            known.join(", ")
        ))
    })
}

/// IANA name of the suite; the library's own names differ for TLS 1.3.
pub(super) fn suite_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.replacen("TLS13_", "TLS_", 1)
}

/// Returns OpenSSL's name of a suite from its IANA name. For TLS 1.3, the names are the same.
pub fn openssl_name(iana: &str) -> String {
    let Some((exchange, cipher)) = iana
        .strip_prefix("TLS_")
        .and_then(|rest| rest.split_once("_WITH_"))
    else {
        return iana.to_owned();
    };
    let cipher = cipher.replacen("AES_", "AES", 1);
    let cipher = cipher.replace("POLY1305_SHA256", "POLY1305");
    format!("{exchange}-{cipher}").replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH_VERSIONS: [&SupportedProtocolVersion; 2] =
        [&rustls::version::TLS12, &rustls::version::TLS13];

    fn one(name: &str) -> Result<SupportedCipherSuite, String> {
        let suites = chosen(&[name.to_owned()], &BOTH_VERSIONS);
        suites
            .map(|suites| suites[0])
            .map_err(|error| error.to_string())
    }

    #[test]
    fn suites_are_known_by_their_iana_names() {
        for suite in aws_lc_rs::ALL_CIPHER_SUITES {
            let name = suite_name(*suite);
            assert!(name.starts_with("TLS_"), "{name}");
            assert_eq!(one(&name).unwrap(), *suite);
        }
    }

    #[test]
    fn suites_are_known_by_openssls_names() {
        for (openssl, iana) in [
            (
                "ECDHE-RSA-AES128-GCM-SHA256",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            ),
            (
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            ),
            (
                "ECDHE-RSA-CHACHA20-POLY1305",
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            ),
        ] {
            assert_eq!(suite_name(one(openssl).unwrap()), iana);
        }
    }

    #[test]
    fn the_default_has_every_suite_once_and_aes_128_of_tls_1_3_first() {
        let mut order = default_order();
        assert_eq!(suite_name(order[0]), "TLS_AES_128_GCM_SHA256");
        let kinds: Vec<_> = order.iter().map(|suite| suite.tls13().is_some()).collect();
        assert!(kinds.is_sorted_by(|one, next| one >= next), "{order:?}");
        let mut library = aws_lc_rs::DEFAULT_CIPHER_SUITES.to_vec();
        order.sort_by_key(|suite| suite_name(*suite));
        library.sort_by_key(|suite| suite_name(*suite));
        assert_eq!(order, library);
    }

    #[test]
    fn unsupported_suites_and_version_conflicts_are_named() {
        let error = one("RC4-SHA").unwrap_err();
        assert!(error.to_string().contains("\"RC4-SHA\""), "{error}");
        assert!(
            error.to_string().contains("TLS_AES_128_GCM_SHA256"),
            "{error}"
        );
        for (version, suite, expected_text) in [
            (BOTH_VERSIONS[0], "TLS_AES_128_GCM_SHA256", "--tls-max 1.2"),
            (
                BOTH_VERSIONS[1],
                "ECDHE-RSA-AES128-GCM-SHA256",
                "--tls-min 1.3",
            ),
        ] {
            let error = chosen(&[suite.to_owned()], &[version]).unwrap_err();
            assert!(
                error.to_string().contains(suite) && error.to_string().contains(expected_text),
                "{error}"
            );
        }
    }
}
