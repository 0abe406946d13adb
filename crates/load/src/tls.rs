//! TLS by rustls, driven through buffers: ciphertext in, plain bytes out, and the reverse.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use prony_record::Negotiated;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::options::{LoadOptions, TlsVersion};
use crate::spec::SpecError;

/// The client's settings for every TLS connection of a load.
pub(crate) fn client_config(options: &LoadOptions) -> Result<Arc<ClientConfig>, SpecError> {
    let mut provider = aws_lc_rs::default_provider();
    if !options.ciphers.is_empty() {
        provider.cipher_suites = chosen_suites(&options.ciphers)?;
    }
    let provider = Arc::new(provider);
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(options)?)
        .map_err(|error| {
            SpecError::Arguments(format!(
                "--ciphers: none fits the TLS versions offered ({error})"
            ))
        })?;
    let builder = match (options.insecure, &options.ca) {
        (true, _) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider))),
        (false, Some(file)) => builder.with_root_certificates(roots_of(file)?),
        (false, None) => builder.with_root_certificates(system_roots()?),
    };
    let mut config = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates("--cert", cert)?, private_key(key)?)
            .map_err(|error| SpecError::Arguments(format!("--cert, --key: {error}")))?,
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if options.no_resumption {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

fn versions(options: &LoadOptions) -> Result<Vec<&'static SupportedProtocolVersion>, SpecError> {
    let min = options.tls_min.unwrap_or(TlsVersion::Tls12);
    let max = options.tls_max.unwrap_or(TlsVersion::Tls13);
    if min > max {
        return Err(SpecError::Arguments(
            "--tls-min is higher than --tls-max".to_owned(),
        ));
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

fn chosen_suites(names: &[String]) -> Result<Vec<SupportedCipherSuite>, SpecError> {
    names
        .iter()
        .map(|name| {
            let all = aws_lc_rs::ALL_CIPHER_SUITES;
            all.iter()
                .find(|suite| &suite_name(**suite) == name)
                .copied()
                .ok_or_else(|| {
                    let known: Vec<_> = all.iter().map(|suite| suite_name(*suite)).collect();
                    SpecError::Arguments(format!(
                        "--ciphers: \"{name}\" is not in this TLS library; it has {}",
                        known.join(", ")
                    ))
                })
        })
        .collect()
}

/// The suite's IANA name; the library's own differs for those of TLS 1.3.
fn suite_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.replacen("TLS13_", "TLS_", 1)
}

fn system_roots() -> Result<RootCertStore, SpecError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(roots)
}

fn roots_of(file: &Path) -> Result<RootCertStore, SpecError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("--ca", file)? {
        roots
            .add(certificate)
            .map_err(|error| SpecError::Arguments(format!("--ca {}: {error}", file.display())))?;
    }
    Ok(roots)
}

fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, SpecError> {
    let shown = file.display();
    let wrong = |error: rustls::pki_types::pem::Error| {
        SpecError::Arguments(format!("{flag} {shown}: {error}"))
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(wrong)?
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    if certificates.is_empty() {
        return Err(SpecError::Arguments(format!(
            "{flag} {shown}: no certificate in it (PEM)"
        )));
    }
    Ok(certificates)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, SpecError> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| SpecError::Arguments(format!("--key {}: {error}", file.display())))
}

/// One connection's TLS.
pub(crate) struct Tls {
    connection: ClientConnection,
    peer_has_closed: bool,
}

impl Tls {
    pub(crate) fn new(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Tls, rustls::Error> {
        let mut connection = ClientConnection::new(config, name)?;
        // The caller bounds what it writes at a time.
        connection.set_buffer_limit(None);
        Ok(Tls {
            connection,
            peer_has_closed: false,
        })
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Takes in a part of the ciphertext; gives what is left. Plain bytes are to be read before
    /// more is taken in.
    pub(crate) fn take_in<'a>(
        &mut self,
        mut ciphertext: &'a [u8],
    ) -> Result<&'a [u8], rustls::Error> {
        if self.connection.read_tls(&mut ciphertext).is_err() {
            // The library's buffer is full of a record that it has not yet seen the end of.
            return Err(rustls::Error::General(
                "a TLS record is larger than allowed".to_owned(),
            ));
        }
        self.peer_has_closed |= self.connection.process_new_packets()?.peer_has_closed();
        Ok(ciphertext)
    }

    /// The peer said goodbye: nothing more will come (close_notify, RFC 8446 §6.1).
    pub(crate) fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// Hands on the plain bytes that can be read now, piece by piece.
    pub(crate) fn drain_plain(&mut self, mut take: impl FnMut(&[u8])) {
        loop {
            let mut reader = self.connection.reader();
            let length = match reader.fill_buf() {
                Ok(bytes) if !bytes.is_empty() => {
                    take(bytes);
                    bytes.len()
                }
                // Nothing more for now, or the end of the stream, which `Closed` tells as well.
                _ => return,
            };
            reader.consume(length);
        }
    }

    /// Encrypts plain bytes; the ciphertext waits for [`Tls::take_out`].
    pub(crate) fn write(&mut self, plain: &[u8]) {
        self.connection
            .writer()
            .write_all(plain)
            .expect("the writer is a buffer without a limit");
    }

    /// Appends the ciphertext that is to be sent.
    pub(crate) fn take_out(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            self.connection
                .write_tls(out)
                .expect("a vector takes all that is written to it");
        }
    }

    pub(crate) fn negotiated(&self) -> Negotiated {
        let version = self
            .connection
            .protocol_version()
            .and_then(|version| version.as_str());
        Negotiated {
            http: None,
            tls: version.map(|name| name.replacen("TLSv1_", "TLSv1.", 1)),
            cipher: self.connection.negotiated_cipher_suite().map(suite_name),
            alpn: self
                .connection
                .alpn_protocol()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// `--insecure`: any certificate will do, but the handshake's signatures are still checked.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{HandshakeKind, ServerConfig, ServerConnection};

    fn server() -> Arc<ServerConfig> {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        Arc::new(config)
    }

    /// One handshake and one request, in memory; tells whether a session was resumed.
    fn exchange(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> HandshakeKind {
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = Tls::new(client.clone(), name).unwrap();
        let mut peer = ServerConnection::new(server.clone()).unwrap();
        let mut asked = false;
        for _ in 0..10 {
            let mut out = Vec::new();
            tls.take_out(&mut out);
            peer.read_tls(&mut &out[..]).unwrap();
            peer.process_new_packets().unwrap();
            let mut back = Vec::new();
            while peer.wants_write() {
                peer.write_tls(&mut back).unwrap();
            }
            let mut rest = &back[..];
            while !rest.is_empty() {
                rest = tls.take_in(rest).unwrap();
                tls.drain_plain(|_| {});
            }
            if !tls.is_handshaking() && !asked {
                asked = true;
                tls.write(b"GET / HTTP/1.1\r\n\r\n");
            }
        }
        assert!(asked && !peer.is_handshaking());
        tls.connection.handshake_kind().unwrap()
    }

    #[test]
    fn sessions_are_resumed_unless_told_otherwise() {
        for version in ["1.2", "1.3"] {
            let server = server();
            let words = format!("--insecure --tls-min {version} --tls-max {version}");
            let client = client_config(&LoadOptions::typed(&words)).unwrap();
            assert_eq!(exchange(&client, &server), HandshakeKind::Full);
            assert_eq!(
                exchange(&client, &server),
                HandshakeKind::Resumed,
                "{version}"
            );
            let words = format!("{words} --no-resumption");
            let client = client_config(&LoadOptions::typed(&words)).unwrap();
            assert_eq!(exchange(&client, &server), HandshakeKind::Full);
            assert_eq!(exchange(&client, &server), HandshakeKind::Full, "{version}");
        }
    }

    #[test]
    fn suites_are_known_by_their_iana_names() {
        for suite in aws_lc_rs::ALL_CIPHER_SUITES {
            let name = suite_name(*suite);
            assert!(name.starts_with("TLS_"), "{name}");
            assert_eq!(chosen_suites(&[name]).unwrap(), [*suite]);
        }
    }
}
