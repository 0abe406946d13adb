//! Creates the certificates of a server.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
};

use super::error::ServerError;
use super::folder::{CERTIFICATE, PRIVATE_KEY, write_secret};

/// Policy for an existing server certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertificateMode {
    /// Issue a new certificate, because the names of the server may have changed.
    Reissue,
    /// Keep the certificate, because a new one would disturb agents that are connecting.
    Keep,
}

/// Returns the certificate of the folder's authority as PEM. Creates the authority if necessary,
/// and issues the server's certificate.
pub(super) fn authority(
    folder: &Path,
    names: &[String],
    mode: CertificateMode,
) -> Result<String, ServerError> {
    let (certificate, key) = (folder.join("authority.pem"), folder.join("authority.key"));
    let failed = |error: rcgen::Error| ServerError::keys(error);
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| ServerError::File(path.to_owned(), error))
    };
    if !certificate.exists() || !key.exists() {
        let pair = rcgen::KeyPair::generate().map_err(failed)?;
        let made = authority_params().self_signed(&pair).map_err(failed)?;
        write_secret(&key, &pair.serialize_pem())?;
        fs::write(&certificate, made.pem())
            .map_err(|error| ServerError::File(certificate.clone(), error))?;
    }
    if mode == CertificateMode::Keep
        && folder.join(CERTIFICATE).exists()
        && folder.join(PRIVATE_KEY).exists()
    {
        return read(&certificate);
    }
    let pair = rcgen::KeyPair::from_pem(&read(&key)?).map_err(failed)?;
    let issuer = CertifiedIssuer::self_signed(authority_params(), pair).map_err(failed)?;
    let server = rcgen::KeyPair::generate().map_err(failed)?;
    let mut names = names.to_vec();
    for local in ["localhost", "127.0.0.1", "::1"] {
        if !names.iter().any(|name| name == local) {
            names.push(local.to_owned());
        }
    }
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = called("prony's NATS server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let made = params.signed_by(&server, &issuer).map_err(failed)?;
    let path = folder.join(CERTIFICATE);
    fs::write(&path, made.pem()).map_err(|error| ServerError::File(path, error))?;
    write_secret(&folder.join(PRIVATE_KEY), &server.serialize_pem())?;
    read(&certificate)
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = called("prony's authority for NATS");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}
