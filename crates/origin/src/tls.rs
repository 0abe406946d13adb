//! Server side of TLS: the certificate, and the negotiation of versions and protocols.

use std::path::Path;
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{DEFAULT_VERSIONS, ServerConfig, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;
use crate::error::OriginError;

/// TLS versions for QUIC, which requires TLS 1.3 (RFC 9001 §4.2).
const QUIC_VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

/// The certificate of an origin, with the TLS settings that use it.
pub(crate) struct TlsIdentity {
    pub(crate) acceptor: TlsAcceptor,
    /// TLS settings for QUIC: TLS 1.3 with ALPN `h3`.
    pub(crate) quic: Arc<QuicServerConfig>,
    /// Certificate that a client must trust.
    pub(crate) certificate_pem: String,
}

/// Loads or generates the certificate. The settings support TLS 1.2 and 1.3 with ALPN `h2` and
/// `http/1.1`, and `h3` over QUIC. As with most servers, sessions can be resumed; over QUIC, with
/// early data.
pub(crate) fn identity(tls: &Tls) -> Result<TlsIdentity, OriginError> {
    let (certificate_pem, chain, key) = match tls {
        Tls::Generated => generated()?,
        Tls::Files { certificate, key } => from_files(certificate, key)?,
    };
    let refused = |reason: String| OriginError::TlsRefused { reason };
    let config = |versions, chain, key| {
        ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| refused(error.to_string()))
    };
    let mut quic = config(QUIC_VERSIONS, chain.clone(), key.clone_key())?;
    quic.alpn_protocols = vec![b"h3".to_vec()];
    // Over QUIC, only this value and 0 are allowed (RFC 9001 §4.6.1).
    quic.max_early_data_size = u32::MAX;
    let mut tcp = config(DEFAULT_VERSIONS, chain, key)?;
    tcp.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let quic = QuicServerConfig::try_from(quic).map_err(|error| refused(error.to_string()))?;
    Ok(TlsIdentity {
        acceptor: TlsAcceptor::from(Arc::new(tcp)),
        quic: Arc::new(quic),
        certificate_pem,
    })
}

type LoadedIdentity = (String, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn generated() -> Result<LoadedIdentity, OriginError> {
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

fn from_files(certificate: &Path, key: &Path) -> Result<LoadedIdentity, OriginError> {
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
            "the file contains no certificate in PEM format".to_string(),
        ));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| useless(key, error.to_string()))?;
    Ok((pem, chain, key))
}
