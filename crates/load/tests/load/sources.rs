//! Tests of source addresses of connections, and of sources without free ports.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use prony_load::SpecError;
use prony_record::{Outcome, Record};

use crate::harness::{Raw, Served, load, outcomes, read_head, resolve};

/// Loads a server that keeps connections open. Returns the number of connections per source
/// address.
fn origins_of(words: &str, listen: &str) -> (Record, BTreeMap<String, u64>) {
    let seen: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let noted = seen.clone();
    let server = Raw::on(listen, move |mut stream| {
        let from: IpAddr = stream.peer_addr().unwrap().ip();
        *noted.lock().unwrap().entry(from.to_string()).or_default() += 1;
        while let Some(head) = read_head(&mut stream) {
            let close = String::from_utf8_lossy(&head).contains("Connection: close");
            let connection = if close { "close" } else { "keep-alive" };
            let response = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: {connection}\r\n\r\nhi"
            );
            if std::io::Write::write_all(&mut stream, response.as_bytes()).is_err() || close {
                return;
            }
        }
    });
    let record = load(&server.url(), words);
    let seen = seen.lock().unwrap().clone();
    (record, seen)
}

fn each<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.map(|(from, n)| (from.to_owned(), n)).into()
}

#[test]
fn connections_come_from_each_source_in_turn() {
    for threads in [1, 2] {
        let words = format!("-n 200 -c 8 -t {threads} --source 127.0.0.2-127.0.0.5");
        let (record, seen) = origins_of(&words, "127.0.0.1:0");
        assert_eq!(outcomes(&record), [(Outcome::Ok, 200)]);
        assert_eq!(record.load.sources, 4);
        let two = [
            ("127.0.0.2", 2),
            ("127.0.0.3", 2),
            ("127.0.0.4", 2),
            ("127.0.0.5", 2),
        ];
        assert_eq!(seen, each(two), "{words}");
    }
}

#[test]
fn a_connection_for_each_request_takes_the_next_source() {
    let words = "-n 90 -c 4 -t 2 --no-keepalive --source 127.0.0.2 --source 127.0.0.8/31";
    let (record, seen) = origins_of(words, "127.0.0.1:0");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 90)]);
    let thirty = [("127.0.0.2", 30), ("127.0.0.8", 30), ("127.0.0.9", 30)];
    assert_eq!(seen, each(thirty));
}

#[test]
fn a_virtual_user_keeps_its_source_for_all_of_its_connections() {
    for threads in [1, 2] {
        let words = format!(
            "-n 90 -c 6 -t {threads} --no-keepalive --source 127.0.0.2-127.0.0.9 \
             --source-order per-user"
        );
        let (record, seen) = origins_of(&words, "127.0.0.1:0");
        assert_eq!(outcomes(&record), [(Outcome::Ok, 90)]);
        // Six virtual users use six addresses. Some users may be slower than others.
        let all: Vec<&str> = seen.keys().map(String::as_str).collect();
        assert_eq!(
            all,
            (2..8).map(|n| format!("127.0.0.{n}")).collect::<Vec<_>>()
        );
        assert_eq!(seen.values().sum::<u64>(), 90, "{words}");
    }
}

#[test]
fn random_sources_are_the_same_ones_for_the_same_seed() {
    let words = "-n 64 -c 1 --no-keepalive --source 127.0.0.0/28 --source-order random --seed 5";
    let (_, first) = origins_of(words, "127.0.0.1:0");
    let (_, again) = origins_of(words, "127.0.0.1:0");
    assert_eq!(first, again);
    assert!(first.len() > 8, "{first:?}");
    assert!(first.values().any(|&n| n != 64 / 14), "{first:?}");
    let other = words.replace("--seed 5", "--seed 6");
    assert_ne!(origins_of(&other, "127.0.0.1:0").1, first);
}

#[test]
fn the_record_has_counts_by_source() {
    let words = "-n 90 -c 4 -t 2 --no-keepalive --source 127.0.0.2 --source 127.0.0.8/31";
    let (record, seen) = origins_of(words, "127.0.0.1:0");
    let sources = record.sources.unwrap();
    assert_eq!((sources.given, sources.used), (3, 3));
    assert_eq!(
        (sources.kind.as_str(), sources.order.as_str()),
        ("bound", "round-robin")
    );
    let listed = |figure: fn(&prony_record::SourceTotals) -> u64| {
        let each = sources.each.iter();
        each.map(|source| (source.address.to_string(), figure(&source.totals)))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(listed(|totals| totals.connections), seen);
    assert_eq!(listed(|totals| totals.ok), seen);
    assert_eq!(sources.failed.most, 0);
    assert_eq!(
        (sources.ok.least, sources.ok.median, sources.ok.most),
        (30, 30, 30)
    );

    let (record, _) = origins_of("-n 5 -c 2", "127.0.0.1:0");
    assert_eq!(record.sources, None);
}

#[test]
fn failures_count_with_their_source() {
    let server = Raw::new(|mut stream| {
        let from = stream.peer_addr().unwrap().ip();
        let status = if from.to_string() == "127.0.0.3" {
            "500 No"
        } else {
            "200 OK"
        };
        while read_head(&mut stream).is_some() {
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if std::io::Write::write_all(&mut stream, response.as_bytes()).is_err() {
                return;
            }
        }
    });
    let words = "-n 40 -c 2 -r 2000 --source 127.0.0.2-127.0.0.3 --source-order per-user";
    let record = load(&server.url(), words);
    let sources = record.sources.as_ref().unwrap();
    let [good, bad] = &sources.each[..] else {
        panic!("{sources:?}");
    };
    assert_eq!((good.totals.failed, bad.totals.ok), (0, 0));
    assert_eq!(good.totals.ok, record.totals.ok);
    assert_eq!(bad.totals.failed, record.totals.failed);
    assert!(bad.totals.failed > 0);
}

#[test]
fn a_network_of_millions_of_addresses_is_indexed() {
    let (record, seen) = origins_of("-n 3 -c 3 --source 127.0.0.0/8", "127.0.0.1:0");
    assert_eq!(record.load.sources, (1 << 24) - 2);
    let first = [("127.0.0.1", 1), ("127.0.0.2", 1), ("127.0.0.3", 1)];
    assert_eq!(seen, each(first));
}

#[test]
fn sources_are_taken_by_family() {
    let (record, seen) = origins_of("-n 4 -c 4 --source ::1", "[::1]:0");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4)]);
    assert_eq!(seen, each([("::1", 4)]));
}

fn refused(url: &str, source: &str) -> String {
    match resolve(url, &["--source", source]) {
        Err(SpecError::Settings(error) | SpecError::Environment(error)) => error.to_string(),
        Err(other) => panic!("{source}: {other:?}"),
        Ok(_) => panic!("{source} was accepted"),
    }
}

#[test]
fn unusable_sources_are_refused_before_the_load() {
    let served = Served::clear();
    let error = refused(&served.url("/"), "::1");
    assert!(
        error.contains("--source ::1") && error.contains("family"),
        "{error}"
    );
    // 192.0.2.0/24 is reserved for documentation (RFC 5737), so this machine doesn't have it.
    for (source, first, hint) in [
        (
            "192.0.2.7",
            "192.0.2.7",
            "ip address add 192.0.2.7/32 dev lo",
        ),
        (
            "192.0.2.0/24",
            "192.0.2.1",
            "ip route add local 192.0.2.0/24 dev lo",
        ),
        // The first address of the range belongs to this machine, but others don't.
        (
            "127.255.255.0-192.0.2.9,127.0.0.1",
            "143.",
            "ip route add local 127.255.255.0/24 dev lo && ",
        ),
    ] {
        let error = refused(&served.url("/"), source);
        assert!(error.contains(&format!(": {first}")), "{source}: {error}");
        assert!(error.contains(hint), "{source}: {error}");
    }
}

#[test]
fn a_source_determines_the_address_family_of_a_name() {
    // localhost may also have an IPv6 address, which would otherwise be tried first.
    assert!(resolve("http://localhost:1/", &["--source", "127.0.0.3"]).is_ok());
}

#[test]
fn a_load_without_sources_is_recorded_as_such() {
    let served = Served::clear();
    assert_eq!(load(&served.url("/"), "-n 1 -c 1").load.sources, 0);
}

#[test]
fn the_host_header_of_an_ipv6_server_has_brackets() {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = heads.clone();
    let server = Raw::on("[::1]:0", move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let head = String::from_utf8_lossy(&head).into_owned();
            noted.lock().unwrap().push(head);
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            std::io::Write::write_all(&mut stream, response).unwrap();
        }
    });
    let url = server.url();
    assert!(url.starts_with("http://[::1]:"), "{url}");
    let record = load(&url, "-n 2 -c 1 --source ::1");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 2)]);
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let first = heads.lock().unwrap()[0].clone();
    assert!(first.contains(&format!("\r\nHost: {host}\r\n")), "{first}");
    // With `--resolve`, the name is used in the request.
    let port = host.rsplit_once(':').unwrap().1;
    let words = format!("-n 1 -c 1 --resolve example.test:{port}:::1");
    let record = load(&format!("http://example.test:{port}/"), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 1)]);
}
