//! The public key in a certificate.
//!
//! Only the structure around the key is read, so certificates that verification would reject can be
//! used, too: version 1, unknown critical extensions, obsolete signatures.

/// The public key of a certificate (RFC 5280 §4.1.2.7).
#[derive(Debug, Clone, Copy)]
pub(super) struct PublicKey<'a> {
    /// Content of the algorithm's identifier.
    pub(super) algorithm: &'a [u8],
    /// The key itself, in the form that its algorithm defines.
    pub(super) key: &'a [u8],
}

/// Returns the public key in an X.509 certificate in DER (RFC 5280 §4.1), or `None` if the
/// certificate is invalid.
pub(super) fn public_key(certificate: &[u8]) -> Option<PublicKey<'_>> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut signed, _) = element(certificate, SEQUENCE)?;
    if let Some((_, rest)) = element(signed, VERSION) {
        signed = rest;
    }
    // The skipped elements are serial number, signature algorithm, issuer, validity and subject.
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE] {
        (_, signed) = element(signed, tag)?;
    }
    let (key_info, _) = element(signed, SEQUENCE)?;
    let (algorithm, key) = element(key_info, SEQUENCE)?;
    let (key, _) = element(key, BIT_STRING)?;
    Some(PublicKey {
        algorithm,
        // The first byte of a bit string is the number of unused bits in its last byte, which is
        // zero here.
        key: key.strip_prefix(&[0])?,
    })
}

impl PublicKey<'_> {
    /// Returns true if this is an RSA key.
    pub(super) fn is_rsa(self) -> bool {
        element(self.algorithm, OBJECT).is_some_and(|(kind, _)| kind == RSA)
    }

    /// Length of the key in bits, or `None` for an unknown kind of key.
    pub(super) fn bits(self) -> Option<u32> {
        let (kind, parameters) = element(self.algorithm, OBJECT)?;
        match kind {
            RSA => rsa_bits(self.key),
            ELLIPTIC => match element(parameters, OBJECT)?.0 {
                P256 => Some(256),
                P384 => Some(384),
                P521 => Some(521),
                _ => None,
            },
            ED25519 => Some(256),
            _ => None,
        }
    }
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// Tag of the explicit version field.
const VERSION: u8 = 0xa0;

/// Object identifier 1.2.840.113549.1.1.1 (RFC 3279 §2.3.1).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// Object identifier 1.2.840.10045.2.1 (RFC 5480 §2.1.1).
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// Object identifier 1.2.840.10045.3.1.7.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// Object identifier 1.3.132.0.34.
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
/// Object identifier 1.3.132.0.35.
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
/// Object identifier 1.3.101.112 (RFC 8410 §3).
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Returns the content of the element with this tag, and the bytes after it (X.690 §8.1, §10.1).
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[own, length], rest) = bytes.split_first_chunk::<2>()?;
    if own != tag {
        return None;
    }
    if length < 0x80 {
        return rest.split_at_checked(usize::from(length));
    }
    let digits = usize::from(length & 0x7f);
    let (digits, rest) = rest.split_at_checked(digits).filter(|_| digits <= 4)?;
    let length = digits
        .iter()
        .fold(0, |length, digit| length << 8 | usize::from(*digit));
    rest.split_at_checked(length)
}

/// Returns the length of the modulus in bits. The modulus is the first element of the key (RFC 8017
/// §A.1.1).
fn rsa_bits(key: &[u8]) -> Option<u32> {
    let (key, _) = element(key, SEQUENCE)?;
    let (modulus, _) = element(key, INTEGER)?;
    let significant = modulus.iter().position(|byte| *byte != 0)?;
    let first = modulus.get(significant)?;
    let bytes = u32::try_from(modulus.len() - significant).ok()?;
    Some(bytes * 8 - first.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    fn key_bits(certificate: &[u8]) -> Option<u32> {
        public_key(certificate)?.bits()
    }

    fn of(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let parameters = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn key_lengths_are_read_from_certificates() {
        for (algorithm, bits) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, 256),
            (&rcgen::PKCS_ECDSA_P384_SHA384, 384),
            (&rcgen::PKCS_ED25519, 256),
            (&rcgen::PKCS_RSA_SHA256, 2048),
        ] {
            assert_eq!(key_bits(&of(algorithm)), Some(bits), "{algorithm:?}");
        }
    }

    #[test]
    fn an_invalid_certificate_has_no_key() {
        let whole = of(&rcgen::PKCS_ECDSA_P256_SHA256);
        for length in 0..whole.len() {
            assert_eq!(key_bits(&whole[..length]), None, "{length}");
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 0xff;
            // This test checks only that nothing panics.
            let _ = key_bits(&other);
        }
    }
}
