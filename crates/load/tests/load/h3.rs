//! Tests of loads over HTTP/3 against the embedded origin.

use std::net::SocketAddr;

use prony_load::{Control, RunError, run};
use prony_origin::{AcceptFault, Config};
use prony_record::{Outcome, Record};

use crate::harness::{Served, errors, load_with, outcomes, resolve, text};

/// An origin with HTTP/3 on UDP.
fn served(config: Config) -> Served {
    Served::with(Config {
        quic: vec!["127.0.0.1:0".parse().unwrap()],
        ..config
    })
}

fn url(served: &Served, path: &str) -> String {
    let address: SocketAddr = served.origin.quic_addresses()[0];
    format!("https://{address}{path}")
}

/// Loads a path of the origin over HTTP/3. The origin's certificate is trusted.
fn load(served: &Served, path: &str, words: &str) -> Record {
    let ca = served.ca();
    let mut all: Vec<&str> = words.split_whitespace().collect();
    all.extend(["--http", "3", "--ca", text(&ca)]);
    load_with(&url(served, path), &all)
}

#[test]
fn every_request_is_counted_once_on_both_sides() {
    let served = served(Config::default());
    for (words, connections) in [
        ("-n 300 -c 3 --streams 10", 3),
        ("-n 30 -c 1", 1),
        ("-n 200 -r 2000 -c 2 --streams 4", 2),
        ("-n 40 -c 4 --no-keepalive", 40),
        ("-n 60 -c 4 -t 2 --streams 2", 4),
    ] {
        let before = served.origin.requests();
        let record = load(&served, "/bytes/2000", words);
        assert_eq!(outcomes(&record)[0].0, Outcome::Ok, "{words}");
        let totals = &record.totals;
        assert_eq!(totals.ok, totals.started, "{words}: {}", errors(&record));
        assert_eq!(served.origin.requests() - before, totals.ok, "{words}");
        assert_eq!(totals.body_bytes_in, totals.ok * 2000, "{words}");
        assert_eq!(totals.connections_opened, connections, "{words}");
        assert_eq!(totals.tls_handshakes, connections, "{words}");
        let negotiated = &record.negotiated;
        assert_eq!(negotiated.http.as_deref(), Some("3"), "{words}");
        assert_eq!(negotiated.alpn.as_deref(), Some("h3"), "{words}");
        assert_eq!(negotiated.tls.as_deref(), Some("TLSv1.3"), "{words}");
        let quic = record.quic.as_ref().unwrap();
        assert!(
            quic.packets_sent > 0 && quic.datagrams_received > 0,
            "{words}"
        );
        assert!(quic.send_calls <= quic.datagrams_sent, "{words}");
    }
}

#[test]
fn bodies_of_many_windows_arrive_in_both_directions() {
    let served = served(Config::default());
    let body = served.file("body", vec![b'x'; 15_000_000]);
    let record = load(&served, "/bytes/20000000", "-n 4 -c 1 --streams 2");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4)], "{}", errors(&record));
    assert_eq!(record.totals.body_bytes_in, 80_000_000);
    let words = format!("-n 4 -c 1 --streams 2 -X POST --body-file {}", text(&body));
    let record = load(&served, "/echo", &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4)], "{}", errors(&record));
    assert_eq!(record.totals.body_bytes_in, 60_000_000);
    assert!(record.totals.bytes_out > 60_000_000);
}

#[test]
fn methods_statuses_and_lists_work_as_with_other_versions() {
    let served = served(Config::default());
    let record = load(&served, "/bytes/5000", "-n 20 -c 2 -X HEAD");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 20)]);
    assert_eq!(record.totals.body_bytes_in, 0);
    let record = load(&served, "/status/503", "-n 6 -c 2");
    assert_eq!(outcomes(&record), [(Outcome::UnexpectedStatus, 6)]);
    let list = served.file("urls", "/bytes/1\n/bytes/10 POST some body\n/status/204\n");
    let words = format!("-n 30 -c 1 --streams 3 --urls {}", text(&list));
    let record = load(&served, "/", &words);
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 30)],
        "{}",
        errors(&record)
    );
    assert_eq!(record.totals.body_bytes_in, 10 * 11);
    let record = load(&served, "/bytes/{{ seq }}", "-n 20 -c 2 --streams 2");
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 20)],
        "{}",
        errors(&record)
    );
}

#[test]
fn faults_of_streams_and_connections_have_their_outcomes() {
    let served = served(Config::default());
    for (fault, outcome) in [
        ("reset", Outcome::Reset),
        ("truncate", Outcome::Protocol),
        ("stall", Outcome::Timeout),
        ("stall-body", Outcome::Timeout),
        ("interim", Outcome::Ok),
        ("trailers", Outcome::Ok),
    ] {
        let words = "-n 8 -c 2 --streams 2 --timeout 500ms";
        let record = load(&served, &format!("/fault/{fault}"), words);
        assert_eq!(
            outcomes(&record),
            [(outcome, 8)],
            "{fault}: {}",
            errors(&record)
        );
    }
    let record = load(&served, "/fault/connection-error", "-n 6 -c 1");
    assert_eq!(record.totals.ok, 0);
    assert_eq!(record.totals.failed, 6, "{}", errors(&record));
    assert!(
        errors(&record).contains("H3_INTERNAL_ERROR"),
        "{}",
        errors(&record)
    );
}

#[test]
fn a_server_without_quic_fails_before_the_load() {
    let served = Served::secured();
    let ca = served.ca();
    let words = ["-n", "1", "--http", "3", "--ca", text(&ca)];
    let refused = |url: &str, words: &[&str]| {
        let spec = resolve(url, words).unwrap();
        match run(&spec, &Control::new(1)) {
            Err(RunError::Environment(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    let text = refused(&served.url("/"), &words);
    assert!(
        text.contains("nothing is listening on this UDP port"),
        "{text}"
    );
    // The certificate is not trusted.
    let quic = self::served(Config::default());
    let text = refused(&url(&quic, "/"), &words);
    assert!(text.contains("--insecure"), "{text}");
    let closing = self::served(Config {
        on_accept: Some(AcceptFault::Reset),
        ..Config::default()
    });
    let text = refused(&url(&closing, "/"), &words);
    assert!(
        text.contains("refused to accept a new connection"),
        "{text}"
    );
}

#[test]
fn a_load_without_an_answer_names_the_time_and_udp() {
    // Nothing reads the datagrams of this socket.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let words = ["-n", "1", "--http", "3", "--insecure"];
    let spec = resolve(&format!("https://{address}/"), &words).unwrap();
    let error = run(&spec, &Control::new(1)).unwrap_err().to_string();
    let expected = format!(
        "no QUIC response from {address} within 5 s (does a firewall block UDP? does the server listen on UDP?)"
    );
    assert_eq!(error, expected);
}

#[test]
fn sources_and_resumption_work_over_quic() {
    let served = served(Config::default());
    let words = "-n 40 -c 4 --no-keepalive --source 127.0.0.2-127.0.0.5";
    let record = load(&served, "/bytes/10", words);
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 40)],
        "{}",
        errors(&record)
    );
    let sources = record.sources.as_ref().unwrap();
    assert_eq!(sources.used, 4);
    assert!(record.totals.tls_resumed > 0);
    let record = load(
        &served,
        "/bytes/10",
        "-n 10 -c 1 --no-keepalive --no-resumption",
    );
    assert_eq!(record.totals.tls_resumed, 0);
}

#[test]
fn key_exchanges_over_quic_are_counted_by_group() {
    let served = served(Config::default());
    for (words, group) in [
        ("", "X25519MLKEM768"),
        ("--groups P-256", "secp256r1"),
        ("--groups X25519", "X25519"),
    ] {
        let words = format!("-n 6 -c 2 --no-keepalive --no-resumption {words}");
        let record = load(&served, "/bytes/10", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 6)], "{words}");
        assert_eq!(record.totals.tls_groups, [(group.to_owned(), 6)].into());
    }
}

#[test]
fn early_data_is_sent_on_resumed_connections() {
    let served = served(Config::default());
    // The server sends two tickets after a full handshake. A connection with early data ends before
    // it gets more, so two of three connections have early data.
    for (words, early_min) in [
        ("-n 60 -c 1 --no-keepalive --early-data", 36),
        ("-n 60 -c 3 --no-keepalive --early-data", 30),
        ("-n 60 -c 2 --no-keepalive --early-data -X HEAD", 30),
    ] {
        let requests = 60;
        let before = served.origin.requests();
        let record = load(&served, "/bytes/20", words);
        let expected = [(Outcome::Ok, requests)];
        assert_eq!(outcomes(&record), expected, "{}", errors(&record));
        assert_eq!(served.origin.requests() - before, requests, "{words}");
        let quic = record.quic.as_ref().unwrap();
        assert!(quic.early_data_offered >= early_min, "{quic:?}");
        assert_eq!(quic.early_data_accepted, quic.early_data_offered);
        assert_eq!(record.totals.retried, 0);
        assert!(quic.packets_received >= quic.datagrams_received, "{quic:?}");
    }
}

#[test]
fn early_data_is_refused_where_it_is_not_safe() {
    let served = served(Config::default());
    let list = served.file("urls", "/a\n/b POST hello\n");
    let list = format!("--http 3 --early-data --urls {}", text(&list));
    for (words, reason) in [
        ("--early-data", "--early-data needs --http 3"),
        ("--http 2 --early-data", "--early-data needs --http 3"),
        (
            "--http 3 --early-data -X POST",
            "--early-data is for GET and HEAD only",
        ),
        (&list, "this load sends POST (remove --early-data)"),
        (
            "--http 3 --early-data --no-resumption",
            "--early-data can't be combined with --no-resumption",
        ),
    ] {
        let mut all: Vec<&str> = words.split_whitespace().collect();
        all.extend(["-n", "1", "--insecure"]);
        let error = resolve("https://127.0.0.1:1/", &all).err().unwrap();
        let error = error.to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn settings_that_quic_excludes_are_refused_by_name() {
    for (words, name) in [
        ("--unix /tmp/socket", "--unix"),
        ("--proxy 127.0.0.1:1", "--proxy"),
        ("--proxy-protocol v1", "--proxy-protocol"),
        ("--tls-max 1.2", "--tls-max 1.2"),
    ] {
        let mut all: Vec<&str> = words.split_whitespace().collect();
        all.extend(["-n", "1", "--insecure", "--http", "3"]);
        let error = resolve("https://127.0.0.1:1/", &all)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.starts_with("--http 3 ") && error.contains(name),
            "{error}"
        );
    }
    let error = resolve("http://127.0.0.1:1/", &["-n", "1", "--http", "3"]);
    let error = error.err().unwrap().to_string();
    assert_eq!(
        error,
        "--http 3 needs https:// URLs, because QUIC is always encrypted"
    );
}

/// A datagram that rejects the client's version and offers another one (RFC 9000 §17.2.1).
fn version_negotiation(initial: &[u8]) -> Vec<u8> {
    let to_bytes = usize::from(initial[5]);
    let to = &initial[6..6 + to_bytes];
    let from_bytes = usize::from(initial[6 + to_bytes]);
    let from = &initial[7 + to_bytes..7 + to_bytes + from_bytes];
    let mut datagram = vec![0x80, 0, 0, 0, 0, from_bytes as u8];
    datagram.extend(from);
    datagram.push(to_bytes as u8);
    datagram.extend(to);
    datagram.extend([0x0a, 0x1a, 0x2a, 0x3a]);
    datagram
}

/// Starts a load against a peer that responds to each datagram with other datagrams. Returns the
/// reason why the load did not begin.
fn refusal_by(response: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> String {
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = peer.recv_from(&mut buffer) {
            for datagram in response(&buffer[..length]) {
                let _ = peer.send_to(&datagram, from);
            }
        }
    });
    let words = ["-n", "1", "--http", "3", "--insecure"];
    let spec = resolve(&format!("https://{address}/"), &words).unwrap();
    run(&spec, &Control::new(1)).unwrap_err().to_string()
}

#[test]
fn other_versions_and_garbage_over_udp_end_before_the_load() {
    let text = refusal_by(|initial| vec![version_negotiation(initial)]);
    assert!(text.contains("not support QUIC version 1"), "{text}");
    // The datagrams are ignored, because they seem to come from another sender (RFC 9000 §5.2).
    let text = refusal_by(|initial| {
        let mut reflected = initial.to_vec();
        reflected[0] ^= 0x10;
        vec![
            vec![0xff; 1200],
            vec![0x40; 30],
            vec![0],
            reflected,
            initial.to_vec(),
        ]
    });
    assert!(text.contains("within 5 s"), "{text}");
}
