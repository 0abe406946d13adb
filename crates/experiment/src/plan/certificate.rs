//! Self-signed certificates that a plan asks for, so that a study over TLS brings no key along.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};

/// A certificate with its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The certificates of one plan, one for each list of names: every variant and trial has the same,
/// as if they lay in files. They live as long as the plan and are never stored with results.
#[derive(Clone, Default)]
pub(crate) struct Certificates(Arc<Mutex<BTreeMap<Vec<String>, Certificate>>>);

impl Certificates {
    /// The certificate for these host names and addresses, made at the first call.
    ///
    /// The key is an ECDSA one on P-256, which every TLS library takes; the certificate is valid from
    /// 1975 to 4096, since no clock is asked.
    ///
    /// # Errors
    /// What is wrong with the names.
    pub(crate) fn of(&self, names: &[String]) -> Result<Certificate, String> {
        // A thread that panicked in here has left whole entries behind.
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(names) {
            return Ok(known.clone());
        }
        let certificate = make(names)?;
        made.insert(names.to_vec(), certificate.clone());
        Ok(certificate)
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates(…)")
    }
}

fn make(names: &[String]) -> Result<Certificate, String> {
    if names.is_empty() {
        return Err("names no host".to_owned());
    }
    let wrong = |name: &&String| {
        name.is_empty() || name.contains(|c: char| c.is_whitespace() || !c.is_ascii() || c == '/')
    };
    if let Some(name) = names.iter().find(wrong) {
        return Err(format!("\"{name}\" is no host name or address"));
    }
    let refused = |error: rcgen::Error| format!("can't be made: {error}");
    let mut parameters = CertificateParams::new(names).map_err(refused)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, names[0].as_str());
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(refused)?;
    let certificate = parameters.self_signed(&key).map_err(refused)?;
    Ok(Certificate {
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
        let certificates = Certificates::default();
        let of = |list: &[&str]| certificates.of(&names(list)).unwrap();
        let first = of(&["localhost", "127.0.0.1"]);
        assert!(first.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(first.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert!(first == of(&["localhost", "127.0.0.1"]));
        assert!(first != of(&["localhost"]));
        assert!(
            first
                != Certificates::default()
                    .of(&names(&["localhost", "127.0.0.1"]))
                    .unwrap()
        );
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for list in [
            &[][..],
            &[""],
            &["localhost", "a b"],
            &["https://x"],
            &["é"],
        ] {
            assert!(
                Certificates::default().of(&names(list)).is_err(),
                "{list:?}"
            );
        }
    }
}
