//! Tests requests and responses of every version, cipher and length, cut at any position.

use super::*;

/// Returns bytes without short repetitions.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// Flags that select every TLS version with every kind of cipher that it supports.
const KINDS: [&str; 6] = [
    "--tls-min 1.3 --ciphers TLS_AES_128_GCM_SHA256",
    "--tls-min 1.3 --ciphers TLS_AES_256_GCM_SHA384",
    "--tls-min 1.3 --ciphers TLS_CHACHA20_POLY1305_SHA256",
    "--tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-GCM-SHA256",
    "--tls-max 1.2 --ciphers ECDHE-ECDSA-AES256-GCM-SHA384",
    "--tls-max 1.2 --ciphers ECDHE-ECDSA-CHACHA20-POLY1305",
];

#[test]
fn data_arrives_in_both_directions() {
    let server = server();
    for words in KINDS {
        let client = client(words, 1);
        for (piece, length) in [
            (1, 40_000),
            (7, 20_000),
            (1460, 300_000),
            (1 << 20, 300_000),
        ] {
            let mut pair = Pair::new(&client, &server, piece);
            pair.handshake();
            for round in 0..3 {
                let request = bytes(1 + round * 20_000);
                pair.send(&request);
                assert!(
                    pair.take_server_received() == request,
                    "{words}, {piece} at a time"
                );
                let response = bytes(length);
                pair.server_says(&response);
                let back = pair.response();
                pair.give(&back).unwrap();
                assert!(pair.received == response, "{words}, {piece} at a time");
                pair.received.clear();
            }
        }
    }
}

#[test]
fn a_response_may_be_split_at_any_offset() {
    let server = server();
    for words in KINDS {
        let client = client(words, 1);
        let mut pair = Pair::new(&client, &server, 1 << 20);
        pair.handshake();
        pair.send(b"GET");
        for cut in 0.. {
            for plain in [&b"one"[..], b"and", b"another"] {
                pair.server_says(plain);
            }
            let back = pair.response();
            let Some((first, second)) = back.split_at_checked(cut) else {
                break;
            };
            pair.give(first).unwrap();
            pair.give(second).unwrap();
            assert_eq!(pair.received, b"oneandanother", "{words}, cut at {cut}");
            pair.received.clear();
        }
    }
}

#[test]
fn the_last_flight_and_the_first_request_are_sent_together() {
    let server = server();
    for (words, resumed, flights) in [
        ("--tls-min 1.3", false, 2),
        ("--tls-min 1.3", true, 2),
        ("--tls-max 1.2", true, 2),
        // In TLS 1.2, the server sends the last message of the handshake, so the request is a
        // separate flight.
        ("--tls-max 1.2", false, 3),
    ] {
        let client = client(words, 1);
        for again in [false, true] {
            let mut pair = Pair::new(&client, &server, 1 << 20);
            pair.handshake();
            pair.send(b"GET / HTTP/1.1\r\n\r\n");
            assert_eq!(pair.take_server_received(), b"GET / HTTP/1.1\r\n\r\n");
            let back = pair.response();
            pair.give(&back).unwrap();
            if again == resumed {
                assert_eq!(pair.flights, flights, "{words}, resumed: {resumed}");
                assert_eq!(pair.client.agreed().unwrap().resumed, resumed);
            }
        }
    }
}

#[test]
fn close_notify_is_detected_and_later_data_ignored() {
    let server = server();
    for words in ["--tls-max 1.2", "--tls-min 1.3"] {
        for piece in [1, 1 << 20] {
            let mut pair = Pair::new(&client(words, 1), &server, piece);
            pair.handshake();
            pair.send(b"GET");
            pair.server_says(b"answer");
            let back = pair.response();
            pair.give(&back).unwrap();
            assert!(!pair.client.peer_has_closed());
            pair.server.send_close_notify();
            let back = pair.response();
            pair.give(&back).unwrap();
            assert!(pair.client.peer_has_closed());
            pair.give(b"\x17\x03\x03\xff\xff garbage").unwrap();
            assert_eq!(pair.received, b"answer");
        }
    }
}

#[test]
fn keys_are_updated_at_the_servers_request() {
    let mut pair = Pair::new(&client("--tls-min 1.3", 1), &server(), 1 << 20);
    pair.handshake();
    pair.send(b"GET");
    for round in 0..5 {
        // Several requests for a key update before a response cause only one update.
        for _ in 0..round {
            pair.server.refresh_traffic_keys().unwrap();
            pair.server_says(b"x");
        }
        pair.server_says(b"answer");
        let back = pair.response();
        pair.give(&back).unwrap();
        assert!(pair.received.ends_with(b"answer"));
        assert_eq!(pair.received.len(), round + 6);
        pair.received.clear();
        pair.take_server_received();
        pair.send(b"again");
        assert_eq!(pair.take_server_received(), b"again");
    }
}

#[test]
fn keys_are_replaced_after_their_limit() {
    // The default provider, with a limit of four records per key.
    let tls13 = client("", 1).config.crypto_provider().cipher_suites[0]
        .tls13()
        .unwrap();
    let worn: &'static rustls::Tls13CipherSuite = Box::leak(Box::new(rustls::Tls13CipherSuite {
        common: rustls::crypto::CipherSuiteCommon {
            suite: tls13.common.suite,
            hash_provider: tls13.common.hash_provider,
            confidentiality_limit: 4,
        },
        hkdf_provider: tls13.hkdf_provider,
        aead_alg: tls13.aead_alg,
        quic: None,
    }));
    let provider = rustls::crypto::CryptoProvider {
        cipher_suites: vec![rustls::SupportedCipherSuite::Tls13(worn)],
        ..aws_lc_rs::default_provider()
    };
    let lenient = client("", 1);
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(super::super::verify::AcceptAny(
            aws_lc_rs::default_provider().signature_verification_algorithms,
        )))
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    let client = TlsClient {
        config: Arc::new(config),
        ..lenient
    };
    let mut pair = Pair::new(&client, &server(), 1 << 20);
    pair.handshake();
    let mut lengths = Vec::new();
    for _ in 0..12 {
        lengths.push(pair.send(b"GET"));
        assert_eq!(pair.take_server_received(), b"GET");
        pair.server_says(b"answer");
        let back = pair.response();
        pair.give(&back).unwrap();
    }
    // The update adds a record. The first flight also contains the end of the handshake.
    let usual = lengths[1];
    let updates = lengths[1..].iter().filter(|length| **length > usual);
    assert_eq!(updates.count(), 2, "{lengths:?}");
}
