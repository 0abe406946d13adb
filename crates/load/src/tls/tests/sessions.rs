//! Tests of session resumption.

use super::*;

/// Runs this number of concurrent handshakes with one request each; returns the number of resumed
/// sessions.
fn at_once(client: &TlsClient, server: &Arc<ServerConfig>, connections: usize) -> usize {
    let mut pairs: Vec<_> = (0..connections)
        .map(|_| Pair::new(client, server, 1 << 20))
        .collect();
    for pair in &mut pairs {
        pair.handshake();
        pair.send(b"GET");
        pair.server_says(b"answer");
        let back = pair.response();
        pair.give(&back).unwrap();
        assert_eq!(pair.received, b"answer");
    }
    let resumed = |pair: &&Pair| pair.client.agreed().unwrap().resumed;
    pairs.iter().filter(resumed).count()
}

#[test]
fn sessions_are_resumed_by_default() {
    for version in ["1.2", "1.3"] {
        let server = server();
        let words = format!("--tls-min {version} --tls-max {version}");
        let keeps = client(&words, 1);
        assert_eq!(at_once(&keeps, &server, 1), 0);
        for _ in 0..5 {
            assert_eq!(at_once(&keeps, &server, 1), 1, "{version}");
        }
        let another = client(&words, 1);
        assert_eq!(at_once(&another, &server, 1), 0, "no shared sessions");
        let forgets = client(&format!("{words} --no-resumption"), 1);
        for _ in 0..3 {
            assert_eq!(at_once(&forgets, &server, 1), 0, "{version}");
        }
    }
}

#[test]
fn one_session_per_connection_is_kept() {
    for version in ["1.2", "1.3"] {
        let server = server();
        let words = format!("--tls-min {version} --tls-max {version}");
        let client = client(&words, 40);
        assert_eq!(at_once(&client, &server, 40), 0);
        for _ in 0..3 {
            assert_eq!(at_once(&client, &server, 40), 40, "{version}");
        }
    }
}

#[test]
fn a_server_without_the_session_gets_a_full_handshake() {
    for version in ["1.2", "1.3"] {
        let words = format!("--tls-min {version} --tls-max {version}");
        let client = client(&words, 4);
        assert_eq!(at_once(&client, &server(), 4), 0);
        let restarted = server();
        assert_eq!(at_once(&client, &restarted, 4), 0, "{version}");
        assert_eq!(at_once(&client, &restarted, 4), 4, "{version}");
    }
}
