//! Tests of HTTP/3 with real servers.

use prony_record::{Outcome, Record};

use crate::caddy;
use crate::load::{finding, outcomes};
use crate::server::Transport;

/// Asserts that every request got a body of this length over HTTP/3.
fn assert_served(record: &Record, bytes: u64, words: &str) {
    let requests = record.load.requests.unwrap();
    assert_eq!(outcomes(record), [(Outcome::Ok, requests)], "{words}");
    assert_eq!(record.totals.body_bytes_in, requests * bytes, "{words}");
    assert_eq!(record.negotiated.http.as_deref(), Some("3"), "{words}");
}

#[test]
fn caddy_serves_loads_over_http_3() {
    let server = caddy::start_http3();
    for (path, bytes, words) in [
        ("/bytes/1024", 1024, "-n 300 -c 3 --streams 10"),
        ("/bytes/1024", 1024, "-n 30 -c 3 --no-keepalive"),
        ("/bytes/1024", 1024, "-n 100 -r 1000 -c 2 --streams 4"),
        ("/bytes/16385", 16_385, "-n 60 -c 2 --streams 3"),
    ] {
        let words = format!("--http 3 {words}");
        let record = server.load(Transport::Tls, path, &words);
        assert_served(&record, bytes, &words);
    }
    let record = server.load(Transport::Tls, "/missing", "--http 3 -n 8 -c 2");
    assert_eq!(outcomes(&record), [(Outcome::UnexpectedStatus, 8)]);
    let body = server.site.file("body", &"x".repeat(300_000));
    let words = format!(
        "--http 3 -n 20 -c 2 --streams 2 -X POST --body-file {}",
        body.display()
    );
    let record = server.load(Transport::Tls, "/echo", &words);
    assert_served(&record, 300_000, &words);
}

#[test]
fn the_limit_of_streams_of_caddy_is_a_finding() {
    let server = caddy::start_http3();
    let words = "--http 3 -n 3000 -c 1 --streams 1000";
    let record = server.load(Transport::Tls, "/bytes/1024", words);
    assert_served(&record, 1024, words);
    let text = finding(&record, "streams-limited");
    assert!(text.contains("MAX_STREAMS"), "{text}");
}
