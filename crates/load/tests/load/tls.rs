//! Tests of certificates, TLS versions and ciphers, and of their reports.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use prony_load::SpecError;
use prony_record::Outcome;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::harness::{
    Raw, Served, Via, errors, load, load_with, outcomes, read_head, resolve, text, until_gone,
};

#[test]
fn the_negotiated_protocols_are_in_the_record() {
    let served = Served::secured();
    for (words, version, cipher) in [
        ("", "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (
            "--tls-max 1.2",
            "TLSv1.2",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
        ("--tls-min 1.3", "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (
            "--ciphers TLS_CHACHA20_POLY1305_SHA256",
            "TLSv1.3",
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
        (
            "--tls-max 1.2 --ciphers TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLSv1.2",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
    ] {
        let record = served.load(Via::Tls, "/", &format!("-n 20 -c 2 {words}"));
        assert_eq!(outcomes(&record), [(Outcome::Ok, 20)], "{words}");
        let negotiated = &record.negotiated;
        assert_eq!(negotiated.tls.as_deref(), Some(version), "{words}");
        assert_eq!(negotiated.cipher.as_deref(), Some(cipher), "{words}");
        assert_eq!(negotiated.alpn.as_deref(), Some("http/1.1"), "{words}");
        assert_eq!(negotiated.http.as_deref(), Some("1.1"), "{words}");
        assert!(record.tls_time_us.min > 0.0 && record.connect_time_us.min > 0.0);
    }
    // No flag sets the HTTP version, so ALPN decides.
    let record = load_with(&served.url("/"), &["-n", "20", "-c", "2", "--insecure"]);
    let agreed = (&record.negotiated.alpn, &record.negotiated.http);
    assert_eq!(agreed, (&Some("h2".to_owned()), &Some("2".to_owned())));
    assert_eq!((record.load.http.as_str(), record.totals.ok), ("auto", 20));
    // A cleartext load reports no TLS data.
    let record = Served::clear().load(Via::Tcp, "/", "-n 2 -c 1");
    assert_eq!(
        (record.negotiated.tls, record.negotiated.cipher),
        (None, None)
    );
    assert_eq!((record.load.tls, record.tls_time_us.max), (None, 0.0));
}

#[test]
fn the_number_of_resumed_handshakes_is_in_the_record() {
    let served = Served::secured();
    for version in ["1.2", "1.3"] {
        for (words, handshakes, resumed) in [
            ("--no-keepalive", 20, 18),
            ("--no-keepalive --no-resumption", 20, 0),
            ("", 2, 0),
        ] {
            let words = format!("-n 20 -c 2 --tls-min {version} --tls-max {version} {words}");
            let record = served.load(Via::Tls, "/", &words);
            assert_eq!(outcomes(&record), [(Outcome::Ok, 20)], "{words}");
            let counts = (record.totals.tls_handshakes, record.totals.tls_resumed);
            assert_eq!(counts, (handshakes, resumed), "{words}");
        }
    }
}

#[test]
fn key_exchanges_are_counted_by_group() {
    let served = Served::secured();
    for version in ["--http 1.1", "--http 2"] {
        for (words, group) in [
            ("", "X25519MLKEM768"),
            ("--groups x25519", "X25519"),
            ("--groups P-384,X25519", "secp384r1"),
            ("--groups prime256v1", "secp256r1"),
        ] {
            let words = format!("-n 6 -c 2 --no-keepalive --no-resumption {version} {words}");
            let record = served.load(Via::Tls, "/", &words);
            assert_eq!(outcomes(&record), [(Outcome::Ok, 6)], "{words}");
            let groups = record.totals.tls_groups;
            assert_eq!(groups, [(group.to_owned(), 6)].into(), "{words}");
        }
    }
}

#[test]
fn signature_algorithms_are_offered_in_the_order_of_the_setting() {
    let served = Served::secured();
    let words = "-n 2 -c 1 --signature-algorithms";
    let record = served.load(
        Via::Tls,
        "/",
        &format!("{words} ecdsa_secp256r1_sha256,ed25519"),
    );
    assert_eq!(outcomes(&record), [(Outcome::Ok, 2)]);
    let record = served.load(Via::Tls, "/", &format!("{words} rsa_pss_rsae_sha256"));
    assert_eq!(outcomes(&record), [(Outcome::Tls, 2)]);
    assert!(
        errors(&record).contains("--signature-algorithms"),
        "{}",
        errors(&record)
    );
}

#[test]
fn untrusted_certificates_are_refused() {
    let served = Served::secured();
    let stranger = Served::secured();
    // The server's certificate is trusted neither with the system's CA certificates, if there are
    // any, nor with another CA.
    match resolve(&served.url("/"), &[]) {
        Ok(_) => {
            let record = load(&served.url("/"), "-n 4 -c 2");
            assert_eq!(outcomes(&record), [(Outcome::Tls, 4)]);
            assert!(
                errors(&record).contains("UnknownIssuer"),
                "{}",
                errors(&record)
            );
        }
        Err(error) => assert!(error.to_string().contains("--ca"), "{error}"),
    }
    let ca = stranger.ca();
    let record = load_with(&served.url("/"), &["-n", "4", "-c", "2", "--ca", text(&ca)]);
    assert_eq!(outcomes(&record), [(Outcome::Tls, 4)]);
    assert!(
        errors(&record).contains("certificate"),
        "{}",
        errors(&record)
    );
    // The certificate is valid for the second of these names, but not for the first.
    for (name, outcome, reason) in [
        ("elsewhere.test", Outcome::Tls, "elsewhere.test"),
        ("localhost", Outcome::Ok, ""),
    ] {
        let record = served.load(Via::Tls, "/", &format!("-n 4 -c 2 --sni {name}"));
        assert_eq!(outcomes(&record), [(outcome, 4)], "{name}");
        assert!(errors(&record).contains(reason), "{}", errors(&record));
    }
    let record = load(&served.url("/"), "-n 4 -c 2 --insecure");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4)]);
    assert_eq!(
        record.load.tls.as_deref(),
        Some("unverified, sessions resumed")
    );
}

#[test]
fn a_ca_certificate_used_by_a_server_is_reported() {
    let config = self_signed_as(IsCa::Ca(BasicConstraints::Unconstrained));
    let raw = Raw::new(move |mut stream| {
        let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        let _ = std::io::Read::read(&mut tls, &mut [0; 4096]);
        until_gone(&mut stream);
    });
    let other = Served::secured();
    let trusted = other.ca();
    let record = load_with(
        &raw.tls_url(),
        &["-n", "2", "-c", "1", "--ca", text(&trusted)],
    );
    assert_eq!(outcomes(&record), [(Outcome::Tls, 2)]);
    let reasons = errors(&record);
    assert!(
        reasons.contains("CA:TRUE") && reasons.contains("--insecure"),
        "{reasons}"
    );
}

#[test]
fn the_record_has_all_requested_tls_settings() {
    let served = Served::secured();
    for (flags, description) in [
        ("--no-resumption", "verified, full handshakes"),
        (
            "--tls-min 1.3",
            "verified, sessions resumed, TLS 1.3 and later",
        ),
        (
            "--tls-min 1.2 --tls-max 1.3",
            "verified, sessions resumed, TLS 1.2 to 1.3",
        ),
        (
            "--tls-min 1.2 --tls-max 1.2 --ciphers TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "verified, sessions resumed, TLS 1.2 only, ciphers \
             TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
    ] {
        let record = served.load(Via::Tls, "/", &format!("-n 2 -c 1 {flags}"));
        assert_eq!(outcomes(&record), [(Outcome::Ok, 2)], "{flags}");
        assert_eq!(record.load.tls.as_deref(), Some(description));
    }
}

#[test]
fn invalid_combinations_are_refused_with_the_flags_name() {
    let served = Served::secured();
    let not_pem = served.file("not.pem", "hello");
    // The check for encryption precedes the decoding of the key.
    let pkcs8 =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let pkcs8 = served.file("pkcs8.pem", pkcs8);
    let traditional = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                       DEK-Info: AES-256-CBC,00\n\nMIIE\n-----END RSA PRIVATE KEY-----\n";
    let traditional = served.file("traditional.pem", traditional);
    let ca = served.ca();
    let url = served.url("/");
    for (words, reason) in [
        (vec!["--ciphers", "TLS_MADE_UP"], "\"TLS_MADE_UP\""),
        (vec!["--ciphers", "TLS_MADE_UP"], "TLS_AES_128_GCM_SHA256"),
        (vec!["--ciphers", "RC4-SHA"], "\"RC4-SHA\""),
        (
            vec!["--groups", "X25519,X448"],
            "--groups: \"X448\" is not supported by this TLS library; choose from X25519MLKEM768,",
        ),
        (
            vec!["--groups", "MLKEM768", "--tls-max", "1.2"],
            "--groups: none of them can be used with --tls-max 1.2",
        ),
        (
            vec!["--signature-algorithms", "rsa_md5"],
            "\"rsa_md5\" is not supported by this TLS library; choose from ecdsa_secp256r1_sha256,",
        ),
        (
            vec!["--tls-max", "1.2", "--ciphers", "TLS_AES_128_GCM_SHA256"],
            "TLS_AES_128_GCM_SHA256 is a cipher suite of TLS 1.3, which --tls-max 1.2 excludes",
        ),
        (
            vec![
                "--tls-min",
                "1.3",
                "--ciphers",
                "TLS_AES_128_GCM_SHA256,ECDHE-RSA-AES128-GCM-SHA256",
            ],
            "ECDHE-RSA-AES128-GCM-SHA256 is a cipher suite of TLS 1.2",
        ),
        (
            vec!["--tls-min", "1.3", "--tls-max", "1.2"],
            "--tls-min is higher",
        ),
        (vec!["--ca", "/nonexistent.pem"], "--ca /nonexistent.pem"),
        (vec!["--ca", text(&not_pem)], "no certificate in PEM format"),
        (vec!["--cert", text(&ca), "--key", text(&not_pem)], "--key"),
        (
            vec!["--cert", text(&ca)],
            "contains no private key; name the key's file with --key",
        ),
        (
            vec!["--cert", text(&ca), "--key", text(&pkcs8)],
            "the private key is encrypted; decrypt it with `openssl pkey",
        ),
        (
            vec!["--cert", text(&traditional)],
            "the private key is encrypted; decrypt it with `openssl pkey",
        ),
        (vec!["--sni", "not a name"], "\"not a name\""),
    ] {
        let Err(SpecError::Settings(error)) = resolve(&url, &words) else {
            panic!("{words:?} was accepted");
        };
        assert!(error.to_string().contains(reason), "{words:?}: {error}");
    }
}

#[test]
fn a_server_that_requests_a_client_certificate_gets_it() {
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let own = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (parameters.signed_by(&key, &issuer).unwrap(), key)
    };
    let (server, server_key) = own("localhost");
    let (client, client_key) = own("client.test");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(issuer.der().to_vec()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![server.der().clone()], server_key.into())
        .unwrap();
    let config = Arc::new(config);
    let raw = Raw::new(move |stream| {
        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut tls = rustls::StreamOwned::new(connection, stream);
        let mut buffer = [0; 4096];
        while let Ok(1..) = std::io::Read::read(&mut tls, &mut buffer) {
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if std::io::Write::write_all(&mut tls, response).is_err() {
                return;
            }
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let ca = file("ca.pem", issuer.pem());
    let (cert, key) = (
        file("cert.pem", client.pem()),
        file("key.pem", client_key.serialize_pem()),
    );
    let both = file("both.pem", client.pem() + &client_key.serialize_pem());
    let base = [
        "-n",
        "6",
        "-c",
        "2",
        "--sni",
        "localhost",
        "--ca",
        text(&ca),
    ];
    for version in ["1.2", "1.3"] {
        let words = [&base[..], &["--tls-max", version, "--tls-min", version]].concat();
        let with = [&words[..], &["--cert", text(&cert), "--key", text(&key)]].concat();
        let record = load_with(&raw.tls_url(), &with);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 6)], "{version}");
        let with = [&words[..], &["--cert", text(&both)]].concat();
        let record = load_with(&raw.tls_url(), &with);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 6)], "{version}");
        let record = load_with(&raw.tls_url(), &words);
        assert_eq!(outcomes(&record), [(Outcome::Tls, 6)], "{version}");
        assert!(errors(&record).contains("CertificateRequired") || version == "1.2");
    }
}

#[test]
fn cleartext_and_tls_mismatches_are_distinguished() {
    // Cleartext HTTP to a TLS server.
    let served = Served::secured();
    let url = served.url("/").replace("https", "http");
    let record = load(&url, "-n 4 -c 2");
    assert_eq!(outcomes(&record), [(Outcome::Protocol, 4)]);
    assert!(errors(&record).contains("use https"), "{}", errors(&record));
    // TLS to a cleartext server.
    let served = Served::clear();
    let url = served.url("/").replace("http", "https");
    let record = load(&url, "-n 4 -c 2 --insecure");
    assert_eq!(outcomes(&record), [(Outcome::Tls, 4)]);
    assert!(errors(&record).len() > 40, "{}", errors(&record));
}

#[test]
fn broken_tls_is_a_tls_outcome_with_a_reason() {
    let garbage: [&'static [u8]; 5] = [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        b"\x16\x03\x03\xff\xff garbage that never becomes a record",
        b"\x16\x03\x03\x00\x04\x02\x00\x00\x00",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x00\x00\x00\x00\x00",
    ];
    for bytes in garbage {
        let raw = Raw::new(move |mut stream| {
            let _ = std::io::Write::write_all(&mut stream, bytes);
            until_gone(&mut stream);
        });
        let record = load(&raw.tls_url(), "-n 4 -c 2 --insecure --timeout 2s");
        let known = outcomes(&record);
        assert_eq!(known, [(Outcome::Tls, 4)], "{bytes:?}");
        assert!(errors(&record).contains("tls: "), "{}", errors(&record));
    }
    // One server stalls, and the other closes the connection.
    let raw = Raw::new(|mut stream| until_gone(&mut stream));
    let record = load(&raw.tls_url(), "-n 4 -c 2 --insecure --timeout 100ms");
    assert_eq!(outcomes(&record), [(Outcome::Timeout, 4)]);
    let raw = Raw::new(|mut stream| {
        let mut some = [0; 5];
        let _ = std::io::Read::read_exact(&mut stream, &mut some);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        until_gone(&mut stream);
    });
    let record = load(&raw.tls_url(), "-n 4 -c 2 --insecure");
    assert_eq!(outcomes(&record), [(Outcome::Tls, 4)]);
    assert!(
        errors(&record).contains("during the TLS handshake"),
        "{}",
        errors(&record)
    );
}

#[test]
fn a_handshake_that_never_ends_is_a_tls_outcome() {
    let record_of = |content: u8, plain: &[u8]| {
        let length = (plain.len() as u16).to_be_bytes();
        [&[content, 3, 3], &length[..], plain].concat()
    };
    // A ServerHello of maximum length, a longer message, repeated messages, and empty fragments.
    let floods = [
        (
            record_of(22, &[2, 0, 0xff, 0xff]),
            record_of(22, &[0; 1000]),
        ),
        (
            record_of(22, &[2, 0xff, 0xff, 0xff]),
            record_of(22, &[0; 16384]),
        ),
        (vec![], record_of(20, &[1])),
        (vec![], record_of(21, &[1, 100])),
        (vec![], record_of(22, &[])),
    ];
    for (first, then) in floods {
        let raw = Raw::new(move |mut stream| {
            use std::io::Write;
            let mut sent = stream.write_all(&first);
            while sent.is_ok() {
                sent = stream.write_all(&then);
            }
        });
        let record = load(&raw.tls_url(), "-n 4 -c 2 --insecure --timeout 20s");
        assert_eq!(outcomes(&record), [(Outcome::Tls, 4)]);
        assert!(errors(&record).contains("tls: "), "{}", errors(&record));
    }
}

fn self_signed() -> Arc<ServerConfig> {
    self_signed_as(IsCa::NoCa)
}

fn self_signed_as(is_ca: IsCa) -> Arc<ServerConfig> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = is_ca;
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    Arc::new(config)
}

#[test]
fn a_close_notify_right_after_a_response_ends_the_connection() {
    let config = self_signed();
    let raw = Raw::new(move |mut stream| {
        let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        if std::io::Read::read(&mut tls, &mut [0; 4096]).is_err() {
            return;
        }
        let mut plain = connection.writer();
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        std::io::Write::write_all(&mut plain, response).unwrap();
        connection.send_close_notify();
        // Both records are sent in one write, and the socket stays open.
        let mut both = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut both).unwrap();
        }
        let _ = std::io::Write::write_all(&mut stream, &both);
        until_gone(&mut stream);
    });
    let record = load(&raw.tls_url(), "-n 4 -c 1 --insecure --timeout 5s");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4)]);
    assert_eq!(record.totals.connections_opened, 4);
    assert_eq!(record.totals.retried, 0);
}

#[test]
fn a_response_ended_by_the_connection_needs_a_close_notify() {
    use std::io::Write;
    let until_closed = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it";
    let by_length = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all of it";
    let config = self_signed();
    for (response, goodbye, outcome) in [
        (until_closed, true, Outcome::Ok),
        (until_closed, false, Outcome::Truncated),
        (by_length, true, Outcome::Truncated),
        (by_length, false, Outcome::Truncated),
        ("", true, Outcome::ClosedEarly),
        ("", false, Outcome::ClosedEarly),
    ] {
        let config = config.clone();
        let raw = Raw::new(move |mut stream| {
            let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut tls = rustls::Stream::new(&mut connection, &mut stream);
            if std::io::Read::read(&mut tls, &mut [0; 4096]).is_err() {
                return;
            }
            connection.writer().write_all(response.as_bytes()).unwrap();
            if goodbye {
                connection.send_close_notify();
            }
            while connection.wants_write() && connection.write_tls(&mut stream).is_ok() {}
            let _ = stream.shutdown(std::net::Shutdown::Write);
            until_gone(&mut stream);
        });
        for version in ["1.2", "1.3"] {
            let words = format!("-n 4 -c 2 --insecure --tls-min {version} --tls-max {version}");
            let record = load(&raw.tls_url(), &words);
            assert_eq!(outcomes(&record), [(outcome, 4)], "{response:?}, {goodbye}");
        }
    }
}

#[test]
fn a_tampered_record_is_not_a_response() {
    let config = self_signed();
    let raw = Raw::new(move |mut stream| {
        let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
        while connection.is_handshaking() {
            if connection.complete_io(&mut stream).is_err() {
                return;
            }
        }
        // This record is well-formed, but wasn't encrypted with a key of this session.
        let forged = [&b"\x17\x03\x03\x00\x30"[..], &[7; 0x30]].concat();
        let _ = std::io::Write::write_all(&mut stream, &forged);
        until_gone(&mut stream);
    });
    let record = load(&raw.tls_url(), "-n 4 -c 2 --insecure");
    assert_eq!(outcomes(&record), [(Outcome::Tls, 4)]);
    assert!(errors(&record).contains("decrypt"), "{}", errors(&record));
}

#[test]
fn responses_on_reused_tls_connections_are_not_mixed_up() {
    let raw = Raw::new(|mut stream| while read_head(&mut stream).is_some() {});
    let record = load(&raw.tls_url(), "-n 2 -c 1 --insecure --timeout 100ms");
    assert_eq!(outcomes(&record), [(Outcome::Timeout, 2)]);
}

#[test]
fn a_close_notify_within_the_handshake_ends_it_at_once() {
    use std::io::{Read, Write};
    let raw = Raw::new(|mut stream| {
        let mut hello = [0; 512];
        let _ = stream.read(&mut hello);
        // This alert is in cleartext and of level warning. The connection stays open.
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 1, 0]);
        until_gone(&mut stream);
    });
    // With these flags, only TLS's own limits end the handshake.
    let record = load(
        &raw.tls_url(),
        "-n 2 -c 1 --insecure --timeout 0s --connect-timeout 10m",
    );
    assert_eq!(outcomes(&record), [(Outcome::Tls, 2)]);
    assert!(errors(&record).contains("during the TLS handshake"));
}

#[test]
fn hints_fit_what_a_server_without_tls_sent() {
    use std::io::{Read, Write};
    for (sent, hint) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
            "use http:// for this port",
        ),
        (b"SSH-2.0-server\r\n", "does not speak TLS on this port"),
    ] {
        let raw = Raw::new(move |mut stream| {
            let mut hello = [0; 512];
            let _ = stream.read(&mut hello);
            let _ = stream.write_all(sent);
            until_gone(&mut stream);
        });
        let record = load(&raw.tls_url(), "-n 2 -c 1 --insecure");
        assert_eq!(outcomes(&record), [(Outcome::Tls, 2)]);
        assert!(errors(&record).contains(hint), "{}", errors(&record));
    }
}

/// A server in OpenSSL with its own certificate. It is stopped when the value is dropped.
struct OpensslServer {
    process: std::process::Child,
    port: u16,
    /// Keeps the certificate's files.
    _folder: tempfile::TempDir,
}

impl OpensslServer {
    /// Creates a key with the options of `openssl genpkey`, and a certificate with those of
    /// `openssl x509`, then starts `openssl s_server` with further options.
    fn new(key: &str, certificate: &str, extensions: &str, server: &str) -> OpensslServer {
        let folder = tempfile::tempdir().unwrap();
        let run = |words: &str| {
            let done = std::process::Command::new("openssl")
                .args(words.split_whitespace())
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(done.status.success(), "{words}: {done:?}");
        };
        std::fs::write(folder.path().join("extensions"), extensions).unwrap();
        run(&format!("genpkey -out key {key}"));
        run("req -new -key key -subj /CN=other.test -out request");
        run(&format!(
            "x509 -req -in request -signkey key -out certificate {certificate}"
        ));
        let mut process = std::process::Command::new("openssl")
            .args("s_server -accept 127.0.0.1:0 -cert certificate -key key -www".split(' '))
            .args(server.split_whitespace())
            .current_dir(folder.path())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let accepts =
            lines.find_map(|line| line.unwrap().strip_prefix("ACCEPT ").map(str::to_owned));
        let address = accepts.expect("openssl s_server doesn't listen");
        std::thread::spawn(move || lines.for_each(drop));
        OpensslServer {
            process,
            port: address.rsplit(':').next().unwrap().parse().unwrap(),
            _folder: folder,
        }
    }
}

impl Drop for OpensslServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn with_insecure_any_certificate_is_accepted() {
    let elliptic = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
    let rsa = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
    let weak = "-algorithm RSA -pkeyopt rsa_keygen_bits:1024";
    let use_extensions = "-days 9 -extfile extensions";
    let critical = "1.2.3.4=critical,ASN1:UTF8String:odd";
    let wrong_use = "extendedKeyUsage=critical,codeSigning\nbasicConstraints=critical,CA:TRUE";
    for (key, certificate, extensions, server) in [
        // Without extensions, OpenSSL creates version 1.
        (rsa, "-days 9", "", ""),
        (elliptic, "-days 9", "", ""),
        (elliptic, use_extensions, critical, ""),
        (elliptic, use_extensions, wrong_use, ""),
        (elliptic, "-days 0", "", ""),
        (rsa, "-days 9 -sha1", "", "-cipher ALL:@SECLEVEL=0"),
        (rsa, "-days 9 -md5", "", "-cipher ALL:@SECLEVEL=0"),
        (weak, "-days 9 -sha1", "", "-cipher ALL:@SECLEVEL=0"),
    ] {
        for version in ["1.2", "1.3"] {
            let server = OpensslServer::new(key, certificate, extensions, server);
            let url = format!("https://127.0.0.1:{}/", server.port);
            let flags = ["-n", "2", "-c", "1", "--insecure", "--tls-min", version];
            let record = load_with(&url, &[&flags[..], &["--tls-max", version]].concat());
            let case = format!("{key}, {certificate}, {extensions}, TLS {version}");
            assert_eq!(
                outcomes(&record),
                [(Outcome::Ok, 2)],
                "{case}: {}",
                errors(&record)
            );
        }
    }
}

#[test]
fn a_hint_does_not_recommend_a_flag_that_is_set() {
    let elliptic = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
    let use_extensions = "-days 9 -extfile extensions";
    let server = OpensslServer::new(elliptic, use_extensions, "subjectAltName=IP:127.0.0.1", "");
    let url = format!("https://127.0.0.1:{}/", server.port);
    // Another CA than the one that signed the certificate.
    let other = Served::secured();
    let ca = other.ca();
    let flags = ["-n", "1", "-c", "1"];
    let text = |flags: &[&str]| errors(&load_with(&url, flags)).to_owned();
    let without = text(&flags);
    assert!(without.contains("use --ca to pass"), "{without}");
    let with = text(&[&flags[..], &["--ca", crate::harness::text(&ca)]].concat());
    assert!(with.contains("name that CA's file"), "{with}");
}
