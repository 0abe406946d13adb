//! Tests of certificates and TLS negotiation.

use std::net::TcpStream;
use std::sync::Arc;

use prony_origin::{Config, HELLO, Origin, OriginError, Tls};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ProtocolVersion, StreamOwned};

use crate::client::{Client, Running, Via, start, trusting, with_tls};

fn session(running: &Running, name: &str, alpn: &[&str]) -> Client {
    let mut config = trusting(&running.origin);
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name.to_string()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let tcp = TcpStream::connect(running.origin.addresses()[0]).unwrap();
    Client::over(StreamOwned::new(connection, tcp))
}

#[test]
fn the_generated_certificate_is_good_for_every_local_name() {
    let running = with_tls();
    for name in ["localhost", "127.0.0.1", "::1"] {
        assert_eq!(
            session(&running, name, &[]).get("/").body,
            HELLO.as_bytes(),
            "{name}"
        );
    }
}

#[test]
fn http_1_1_can_be_negotiated() {
    let running = with_tls();
    for alpn in [&["http/1.1"][..], &["http/1.1", "spdy"], &[]] {
        assert_eq!(
            session(&running, "localhost", alpn).get("/").status,
            200,
            "{alpn:?}"
        );
    }
}

#[test]
fn tls_1_2_and_1_3_are_supported() {
    let running = with_tls();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let pem = running.origin.certificate_pem().unwrap();
        let certificate = {
            use rustls::pki_types::pem::PemObject;
            rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
        };
        roots.add(certificate).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut tcp = TcpStream::connect(running.origin.addresses()[0]).unwrap();
        connection.complete_io(&mut tcp).unwrap();
        let spoken = connection.protocol_version();
        assert_eq!(spoken, Some(version.version));
        assert_ne!(spoken, Some(ProtocolVersion::TLSv1_1));
    }
}

#[test]
fn a_certificate_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Some(Tls::Files { certificate, key });
    let running = start(Config {
        tls,
        ..Config::default()
    });
    assert_eq!(
        running.origin.certificate_pem(),
        Some(made.cert.pem().as_str())
    );
    assert_eq!(
        Client::connect(&running, Via::Tls).get("/").body,
        HELLO.as_bytes()
    );
}

#[test]
fn invalid_certificate_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing of use").unwrap();
    let missing = folder.path().join("missing.pem");
    for (certificate, key, named) in [
        (&empty, &empty, "empty.pem"),
        (&missing, &empty, "missing.pem"),
    ] {
        let tls = Some(Tls::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        });
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let error = Origin::start(Config {
            tls,
            listen,
            ..Config::default()
        })
        .unwrap_err();
        assert!(matches!(error, OriginError::TlsFile { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn a_certificate_with_another_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    let one = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    std::fs::write(&certificate, one.cert.pem()).unwrap();
    std::fs::write(&key, other.signing_key.serialize_pem()).unwrap();
    let tls = Some(Tls::Files { certificate, key });
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let error = Origin::start(Config {
        tls,
        listen,
        ..Config::default()
    })
    .unwrap_err();
    assert!(matches!(error, OriginError::TlsRefused { .. }), "{error}");
}
