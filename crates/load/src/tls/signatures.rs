//! Signature algorithms: names, order, and selection.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::danger::ServerCertVerifier;

use crate::values::error::SettingsError;

/// Signature algorithms with their IANA names: first those of Chrome in its order, then others that
/// the library may support.
const KNOWN: [(&str, SignatureScheme); 13] = [
    (
        "ecdsa_secp256r1_sha256",
        SignatureScheme::ECDSA_NISTP256_SHA256,
    ),
    ("rsa_pss_rsae_sha256", SignatureScheme::RSA_PSS_SHA256),
    ("rsa_pkcs1_sha256", SignatureScheme::RSA_PKCS1_SHA256),
    (
        "ecdsa_secp384r1_sha384",
        SignatureScheme::ECDSA_NISTP384_SHA384,
    ),
    ("rsa_pss_rsae_sha384", SignatureScheme::RSA_PSS_SHA384),
    ("rsa_pkcs1_sha384", SignatureScheme::RSA_PKCS1_SHA384),
    ("rsa_pss_rsae_sha512", SignatureScheme::RSA_PSS_SHA512),
    ("rsa_pkcs1_sha512", SignatureScheme::RSA_PKCS1_SHA512),
    (
        "ecdsa_secp521r1_sha512",
        SignatureScheme::ECDSA_NISTP521_SHA512,
    ),
    ("ed25519", SignatureScheme::ED25519),
    ("mldsa44", SignatureScheme::ML_DSA_44),
    ("mldsa65", SignatureScheme::ML_DSA_65),
    ("mldsa87", SignatureScheme::ML_DSA_87),
];

/// Returns the signature algorithms with these names, in this order. Without names, returns all
/// that the verifier supports, those of browsers first.
///
/// # Errors
///
/// Returns a sentence that names the unknown algorithm and lists the known ones.
pub(super) fn offered(
    names: &[String],
    verifier: &dyn ServerCertVerifier,
) -> Result<Arc<[SignatureScheme]>, SettingsError> {
    let mut supported = verifier.supported_verify_schemes();
    if names.is_empty() {
        let position = |scheme: &SignatureScheme| KNOWN.iter().position(|(_, it)| it == scheme);
        supported.sort_by_key(|scheme| position(scheme).unwrap_or(KNOWN.len()));
        return Ok(supported.into());
    }
    let known = || {
        KNOWN
            .iter()
            .filter(|(_, scheme)| supported.contains(scheme))
    };
    let find = |text: &String| {
        let found = known().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, scheme)| *scheme).ok_or_else(|| {
            let names: Vec<&str> = known().map(|(name, _)| *name).collect();
            SettingsError::of("signature_algorithms").text(format!(
                ": \"{text}\" is not supported by this TLS library; choose from {}",
                names.join(", ")
            ))
        })
    };
    names.iter().map(find).collect()
}
