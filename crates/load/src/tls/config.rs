//! TLS settings of a load, and the client of each worker.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SignatureScheme, SupportedProtocolVersion};

use super::sessions::SessionStore;
use super::verify::{AcceptAny, CachingVerifier};
use super::{groups, signatures, suites};
use crate::settings::{HttpVersion, LoadSettings, TlsVersion};
use crate::values::error::{SettingsError, SpecError};
use crate::values::input_file::{self, TEXT_BYTES_MAX};

/// ALPN protocol of HTTP/1.0 and 1.1 (RFC 7301 §6).
const HTTP1: &[u8] = b"http/1.1";
/// ALPN protocol of HTTP/2 (RFC 9113 §3.2).
pub(crate) const HTTP2: &[u8] = b"h2";
/// ALPN protocol of HTTP/3 (RFC 9114 §3.1).
pub(crate) const HTTP3: &[u8] = b"h3";

/// TLS settings that a hint must not recommend, because the user has set them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GivenTlsOptions {
    pub(crate) insecure: bool,
    pub(crate) ca: bool,
    pub(crate) sni: bool,
    pub(crate) cert: bool,
}

/// Settings of every TLS connection of a load.
#[derive(Debug)]
pub(crate) struct TlsSettings {
    config: ClientConfig,
    pub(crate) given: GivenTlsOptions,
    verifier: Arc<dyn ServerCertVerifier>,
    schemes: Arc<[SignatureScheme]>,
    resumption: bool,
    /// Protocols offered by ALPN, the preferred one first.
    alpn: &'static [&'static [u8]],
}

/// TLS client of one worker: the load's settings and the worker's own sessions. Workers share no
/// sessions.
#[derive(Debug, Clone)]
pub(crate) struct TlsClient {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) given: GivenTlsOptions,
    pub(super) alpn: &'static [&'static [u8]],
    /// True if sessions are kept for later connections.
    pub(super) resumption: bool,
}

impl TlsSettings {
    /// Resolves the TLS settings of a load.
    ///
    /// # Errors
    ///
    /// Fails if files can't be read or used, or if the flags leave no version or cipher suite to
    /// offer. The error names the flag.
    pub(crate) fn resolve(settings: &LoadSettings) -> Result<TlsSettings, SpecError> {
        let versions = versions(settings)?;
        let provider = Arc::new(provider(settings, &versions)?);
        let verifier = verifier(settings, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| SettingsError::of("ciphers").text(format!(": {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone());
        let mut config = match (&settings.cert, &settings.key) {
            (Some(cert), key) => builder
                .with_client_auth_cert(
                    certificates("cert", cert)?,
                    private_key(cert, key.as_deref())?,
                )
                .map_err(|error| {
                    let files = SettingsError::of("cert").text(", ").name("key");
                    files.text(format!(": {error}"))
                })?,
            (None, _) => builder.with_no_client_auth(),
        };
        let alpn: &[&[u8]] = match settings.http_version() {
            None => &[HTTP2, HTTP1],
            Some(HttpVersion::Http2) => &[HTTP2],
            Some(HttpVersion::Http3) => &[HTTP3],
            Some(HttpVersion::Http10 | HttpVersion::Http11) => &[HTTP1],
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.resumption = Resumption::disabled();
        config.enable_early_data = settings.early_data;
        // The keys are extracted because records are encrypted and decrypted in this module.
        config.enable_secret_extraction = true;
        Ok(TlsSettings {
            config,
            given: GivenTlsOptions {
                insecure: settings.insecure,
                ca: settings.ca.is_some(),
                sni: settings.sni.is_some(),
                cert: settings.cert.is_some(),
            },
            schemes: signatures::offered(&settings.signature_algorithms, &*verifier)?,
            verifier,
            resumption: !settings.no_resumption,
            alpn,
        })
    }

    /// Creates the client of a worker with this number of concurrent connections.
    pub(crate) fn client(&self, connections: usize) -> TlsClient {
        let mut config = self.config.clone();
        config
            .dangerous()
            .set_certificate_verifier(Arc::new(CachingVerifier::new(
                self.verifier.clone(),
                self.schemes.clone(),
            )));
        if self.resumption {
            config.resumption = Resumption::store(Arc::new(SessionStore::new(connections)));
        }
        TlsClient {
            config: Arc::new(config),
            given: self.given,
            alpn: self.alpn,
            resumption: self.resumption,
        }
    }
}

fn provider(
    settings: &LoadSettings,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<CryptoProvider, SpecError> {
    let cipher_suites = match settings.ciphers.as_slice() {
        [] => suites::default_order(),
        names => suites::chosen(names, versions)?,
    };
    Ok(CryptoProvider {
        cipher_suites,
        kx_groups: match settings.groups.as_slice() {
            [] => groups::browsers_order(),
            names => groups::chosen(names, versions)?,
        },
        ..aws_lc_rs::default_provider()
    })
}

fn verifier(
    settings: &LoadSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, SpecError> {
    let roots = match (settings.insecure, &settings.ca) {
        (true, _) => {
            let algorithms = provider.signature_verification_algorithms;
            return Ok(Arc::new(AcceptAny(algorithms)));
        }
        (false, Some(file)) => roots_of(file)?,
        (false, None) => system_roots()?,
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| {
            let error = SettingsError::from(format!(
                "no CA certificates to verify the server with ({error})"
            ));
            let error = error.hint("install the system's CA certificates");
            let error = error.hint("name a file with ").name("ca");
            let error = error.hint("accept any certificate with ");
            SpecError::Environment(error.name("insecure"))
        })?;
    Ok(verifier)
}

fn versions(settings: &LoadSettings) -> Result<Vec<&'static SupportedProtocolVersion>, SpecError> {
    // QUIC requires TLS 1.3 (RFC 9001 §4.2).
    let lowest = match settings.http {
        Some(HttpVersion::Http3) => TlsVersion::Tls13,
        _ => TlsVersion::Tls12,
    };
    let min = settings.tls_min.unwrap_or(lowest).max(lowest);
    let max = settings.tls_max.unwrap_or(TlsVersion::Tls13);
    if min > max {
        let error = SettingsError::of("tls_min").text(" is higher than ");
        return Err(error.name("tls_max").into());
    }
    let all = [
        (TlsVersion::Tls12, &rustls::version::TLS12),
        (TlsVersion::Tls13, &rustls::version::TLS13),
    ];
    Ok(all
        .into_iter()
        .filter(|(v, _)| (min..=max).contains(v))
        .map(|(_, s)| s)
        .collect())
}

fn system_roots() -> Result<RootCertStore, SpecError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(roots)
}

fn roots_of(file: &Path) -> Result<RootCertStore, SpecError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", file)? {
        roots
            .add(certificate)
            .map_err(|error| of_file("ca", file, &error))?;
    }
    Ok(roots)
}

fn certificates(
    setting: &'static str,
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, SpecError> {
    let text = read_pem(setting, file)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| of_file(setting, file, &error))?;
    if certificates.is_empty() {
        return Err(of_file(setting, file, &"no certificate in PEM format"));
    }
    Ok(certificates)
}

fn read_pem(setting: &'static str, file: &Path) -> Result<Vec<u8>, SpecError> {
    let text = input_file::read_file(file, TEXT_BYTES_MAX)
        .map_err(|error| of_file(setting, file, &error))?;
    if has_encrypted_key(&text) {
        let name = file.display();
        return Err(of_file(
            setting,
            file,
            &format!(
                "the private key is encrypted; decrypt it with `openssl pkey -in {name} -out \
                 plain.key`"
            ),
        ));
    }
    Ok(text)
}

/// Creates the error for a file that a setting names.
fn of_file(setting: &'static str, file: &Path, error: &dyn fmt::Display) -> SpecError {
    SettingsError::value(setting, file.display())
        .text(format!(": {error}"))
        .into()
}

/// Reads the private key of the client from its own file, or from the file of the certificate.
fn private_key(cert: &Path, key: Option<&Path>) -> Result<PrivateKeyDer<'static>, SpecError> {
    let (setting, file) = match key {
        Some(key) => ("key", key),
        None => ("cert", cert),
    };
    PrivateKeyDer::from_pem_slice(&read_pem(setting, file)?).map_err(|error| match (error, key) {
        (pem::Error::NoItemsFound, None) => {
            let error = SettingsError::value("cert", file.display());
            let error = error.text(": contains no private key");
            error.hint("name the key's file with ").name("key").into()
        }
        (pem::Error::NoItemsFound, Some(_)) => {
            of_file("key", file, &"no private key in PEM format")
        }
        (error, _) => of_file(setting, file, &error),
    })
}

/// Returns true if a PEM file contains a private key that is protected with a passphrase, in PKCS #8
/// or in OpenSSL's older format.
fn has_encrypted_key(text: &[u8]) -> bool {
    let contains = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    contains(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || contains(b"Proc-Type: 4,ENCRYPTED")
}
