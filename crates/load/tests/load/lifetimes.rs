//! Tests of connections that the load replaces after a number of requests, or after a time.

use std::io::Write;
use std::sync::{Arc, Mutex};

use prony_origin::Config;
use prony_record::{Outcome, Record};

use crate::h2_frames::{GOAWAY, HEADERS, response};
use crate::h2_server::Scripted;
use crate::harness::{Raw, Served, load, load_with, outcomes, read_head, text};

/// Requests of one connection, as the server saw them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Seen {
    requests: usize,
    /// Positions of the requests that asked to close the connection.
    closing: Vec<usize>,
}

/// Loads a server that closes a connection only when a request asks for it.
fn connections_of(words: &str) -> (Record, Vec<Seen>) {
    let all: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let noted = all.clone();
    let server = Raw::new(move |mut stream| {
        let mut seen = Seen::default();
        while let Some(head) = read_head(&mut stream) {
            seen.requests += 1;
            let head = String::from_utf8(head).unwrap();
            let closes = head.matches("Connection: close\r\n").count();
            assert!(closes <= 1, "{head}");
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
            if stream.write_all(response).is_err() {
                break;
            }
            if closes == 1 {
                seen.closing.push(seen.requests);
                break;
            }
        }
        noted.lock().unwrap().push(seen);
    });
    let record = load(&server.url(), words);
    drop(server);
    let seen = all.lock().unwrap().clone();
    (record, seen)
}

#[test]
fn the_last_request_of_a_connection_asks_to_close_it() {
    for words in [
        "-n 100 -c 4 --requests-per-connection 7",
        "-n 100 -c 4 -t 2 --requests-per-connection 7",
        "-n 100 -c 4 -r 5000 --requests-per-connection 7",
        "-n 100 -c 1 --requests-per-connection 7 --header X:{{seq}}",
    ] {
        let (record, seen) = connections_of(words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 100)], "{words}");
        let closed: Vec<&Seen> = seen.iter().filter(|it| !it.closing.is_empty()).collect();
        assert!(closed.len() >= 100 / 7 - 3, "{words}: {seen:?}");
        for one in closed {
            assert_eq!((one.requests, &one.closing[..]), (7, &[7][..]), "{words}");
        }
        assert!(
            seen.iter().all(|one| one.requests <= 7),
            "{words}: {seen:?}"
        );
        let opened = record.totals.connections_opened;
        assert!((15..=18).contains(&opened), "{words}: {opened}");
        assert_eq!(record.load.requests_per_connection, Some(7));
        assert!(record.load.keepalive);
        // The server closed each connection because it was asked to.
        let id = prony_record::FindingId::ConnectionsNotReused;
        assert!(!record.findings.iter().any(|it| it.id == id), "{words}");
    }
}

#[test]
fn one_request_per_connection_equals_no_keepalive() {
    let (one, seen) = connections_of("-n 20 -c 2 --requests-per-connection 1");
    let (none, other) = connections_of("-n 20 -c 2 --no-keepalive");
    assert_eq!(seen, other);
    assert_eq!(seen.len(), 20);
    for record in [one, none] {
        assert_eq!(outcomes(&record), [(Outcome::Ok, 20)]);
        assert!(!record.load.keepalive);
        assert_eq!(record.totals.connections_opened, 20);
    }
}

#[test]
fn requests_and_bytes_are_counted_exactly_over_tls() {
    let served = Served::secured();
    let url = served.url("/bytes/3000");
    let words = "-n 60 -c 3 --requests-per-connection 5 --http 1.1 --insecure";
    let record = load(&url, words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 60)]);
    assert_eq!(served.origin.requests(), 60);
    assert!((12..=14).contains(&record.totals.connections_opened));
    assert!(record.totals.tls_resumed > 0);
}

#[test]
fn an_http2_connection_is_replaced_while_its_last_requests_are_in_flight() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        let mut requests = 0;
        loop {
            let frame = peer.next_of(&[HEADERS, GOAWAY])?;
            if frame.kind == GOAWAY {
                assert_eq!(requests, 9);
                return None;
            }
            requests += 1;
            assert!(requests <= 9, "{requests} requests");
            peer.send(&response(frame.stream, b"hi"))?;
        }
    });
    for words in [
        "-n 180 -c 2 --streams 4 --requests-per-connection 9",
        "-n 180 -c 2 --requests-per-connection 9",
        "-n 180 -c 2 --streams 4 -r 20000 --requests-per-connection 9",
    ] {
        let record = server.load(words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 180)], "{words}");
        let opened = record.totals.connections_opened;
        assert!((20..=22).contains(&opened), "{words}: {opened}");
        let goaways = std::mem::take(&mut server.seen().goaways);
        assert!(goaways.len() >= 18, "{words}: {goaways:?}");
        assert!(
            goaways.iter().all(|code| *code == 0),
            "{words}: {goaways:?}"
        );
    }
}

#[test]
fn an_http3_connection_is_replaced() {
    let served = Served::with(Config {
        quic: vec!["127.0.0.1:0".parse().unwrap()],
        ..Config::default()
    });
    let url = format!("https://{}/bytes/100", served.origin.quic_addresses()[0]);
    let ca = served.ca();
    for streams in ["1", "4"] {
        let words = "-n 120 -c 2 --http 3 --requests-per-connection 8 --streams";
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend([streams, "--ca", text(&ca)]);
        let record = load_with(&url, &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 120)], "{streams}");
        let opened = record.totals.connections_opened;
        assert!((15..=17).contains(&opened), "{streams}: {opened}");
    }
}

#[test]
fn old_connections_are_replaced() {
    // At 40 requests per second, most connections are idle when their time ends.
    for words in [
        "-d 1s -c 2 --connection-lifetime 100ms",
        "-d 1s -c 2 -r 40 --connection-lifetime 100ms",
    ] {
        let (record, seen) = connections_of(words);
        assert_eq!(record.totals.failed, 0, "{words}");
        assert!(record.totals.connections_opened > 2, "{words}: {seen:?}");
        assert_eq!(record.load.connection_lifetime_s, Some(0.1));
        for one in seen {
            let last: Vec<usize> = one.closing.to_vec();
            assert!(last.is_empty() || last == [one.requests], "{words}");
        }
    }
    let (record, seen) = connections_of("-n 50 -c 2 --connection-lifetime 1h");
    // The first may serve all requests before the second is open.
    assert!(record.totals.connections_opened <= 2 && seen.len() <= 2);
}

#[test]
fn the_settings_exclude_no_keepalive() {
    use crate::harness::resolve;
    for words in [
        "--no-keepalive --requests-per-connection 2",
        "--no-keepalive --connection-lifetime 1s",
        "--http 2 --streams 2 --requests-per-connection 1",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let error = resolve("http://127.0.0.1:9/", &words)
            .map(|_| ())
            .unwrap_err();
        assert!(
            error.to_string().contains("--requests-per-connection")
                || error.to_string().contains("--no-keepalive"),
            "{error}"
        );
    }
}
