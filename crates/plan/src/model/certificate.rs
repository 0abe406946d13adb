//! Self-signed certificates that a plan requests, so that a study over TLS needs no key file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};

/// A certificate and its private key, both in PEM format.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SelfSignedCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Certificates of one plan, one for each list of names. All variants and trials share them.
///
/// They are kept in memory for the lifetime of the plan and are never stored with results.
#[derive(Clone, Default)]
pub(crate) struct CertificateCache(Arc<Mutex<BTreeMap<Vec<String>, SelfSignedCertificate>>>);

impl CertificateCache {
    /// Returns the certificate for these host names and addresses. The first call generates it.
    ///
    /// The key is an ECDSA key on P-256, which every TLS library supports. The certificate is valid
    /// from 1975 to 4096, so no clock is needed.
    ///
    /// # Errors
    /// The names can't be used in a certificate.
    pub(crate) fn for_names(
        &self,
        names: &[String],
    ) -> Result<SelfSignedCertificate, CertificateError> {
        // Entries are complete even if a thread panicked while it held the lock.
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(names) {
            return Ok(known.clone());
        }
        let certificate = make(names)?;
        made.insert(names.to_vec(), certificate.clone());
        Ok(certificate)
    }
}

impl fmt::Debug for CertificateCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateCache(…)")
    }
}

/// Reason why a certificate can't be made. The text completes the sentence "the certificate …".
#[derive(Debug)]
pub(crate) enum CertificateError {
    NoName,
    /// A name that is neither a host name nor an address.
    WrongName(String),
    Refused(rcgen::Error),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateError::NoName => f.write_str("has no host name"),
            CertificateError::WrongName(name) => write!(
                f,
                "has the name \"{name}\", which is not a host name or address"
            ),
            CertificateError::Refused(error) => write!(f, "can't be generated: {error}"),
        }
    }
}

fn make(names: &[String]) -> Result<SelfSignedCertificate, CertificateError> {
    if names.is_empty() {
        return Err(CertificateError::NoName);
    }
    let wrong = |name: &&String| {
        name.is_empty() || name.contains(|c: char| c.is_whitespace() || !c.is_ascii() || c == '/')
    };
    if let Some(name) = names.iter().find(wrong) {
        return Err(CertificateError::WrongName(name.clone()));
    }
    let refused = CertificateError::Refused;
    let mut parameters = CertificateParams::new(names).map_err(refused)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, names[0].as_str());
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(refused)?;
    let certificate = parameters.self_signed(&key).map_err(refused)?;
    Ok(SelfSignedCertificate {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_same_names_have_the_same_certificate() {
        let certificates = CertificateCache::default();
        let of = |list: &[&str]| certificates.for_names(&names(list)).unwrap();
        let first = of(&["localhost", "127.0.0.1"]);
        assert!(first.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(first.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert!(first == of(&["localhost", "127.0.0.1"]));
        assert!(first != of(&["localhost"]));
        assert!(
            first
                != CertificateCache::default()
                    .for_names(&names(&["localhost", "127.0.0.1"]))
                    .unwrap()
        );
    }

    #[test]
    fn invalid_names_are_rejected() {
        for list in [
            &[][..],
            &[""],
            &["localhost", "a b"],
            &["https://x"],
            &["é"],
        ] {
            assert!(
                CertificateCache::default().for_names(&names(list)).is_err(),
                "{list:?}"
            );
        }
    }
}
