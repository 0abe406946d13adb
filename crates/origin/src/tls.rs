//! Server side of TLS: certificate and negotiation.

use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;
use crate::error::OriginError;

/// A certificate in use.
pub(crate) struct TlsIdentity {
    pub(crate) acceptor: TlsAcceptor,
    /// Certificate that a client must trust.
    pub(crate) certificate_pem: String,
}

/// Loads or generates the certificate. TLS 1.2 and 1.3; ALPN `h2` and `http/1.1`; sessions can be
/// resumed, as on most servers.
pub(crate) fn identity(tls: &Tls) -> Result<TlsIdentity, OriginError> {
    let (certificate_pem, chain, key) = match tls {
        Tls::Generated => generated()?,
        Tls::Files { certificate, key } => from_files(certificate, key)?,
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| OriginError::TlsRefused {
            reason: error.to_string(),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsIdentity {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        certificate_pem,
    })
}

type Loaded = (String, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn generated() -> Result<Loaded, OriginError> {
    let refused = |error: rcgen::Error| OriginError::TlsRefused {
        reason: error.to_string(),
    };
    let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
    let mut parameters = CertificateParams::new(names).map_err(refused)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, "prony origin");
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(refused)?;
    let certificate = parameters.self_signed(&key).map_err(refused)?;
    Ok((
        certificate.pem(),
        vec![certificate.der().clone()],
        key.into(),
    ))
}

fn from_files(certificate: &Path, key: &Path) -> Result<Loaded, OriginError> {
    let useless = |path: &Path, reason: String| OriginError::TlsFile {
        path: path.into(),
        reason,
    };
    let pem = std::fs::read_to_string(certificate)
        .map_err(|error| useless(certificate, error.to_string()))?;
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| useless(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(useless(
            certificate,
            "it holds no CERTIFICATE in PEM".to_string(),
        ));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| useless(key, error.to_string()))?;
    Ok((pem, chain, key))
}
