//! Tests of hosts with several addresses.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use prony_record::{Outcome, Record};

use crate::harness::{Raw, load_with, outcomes, read_head, resolve};

type Counts = BTreeMap<String, u64>;

/// Servers that listen on the same port of several loopback addresses.
struct Servers {
    port: u16,
    requests: Arc<Mutex<Counts>>,
    _each: Vec<Raw>,
}

impl Servers {
    /// Starts a server on each of these addresses.
    fn on(addresses: &[&str]) -> Servers {
        let requests: Arc<Mutex<Counts>> = Arc::default();
        loop {
            let port = {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                listener.local_addr().unwrap().port()
            };
            let is_free = |address: &&str| TcpListener::bind((*address, port)).is_ok();
            if !addresses.iter().all(is_free) {
                continue;
            }
            let each = addresses.iter().map(|address| {
                let (requests, name) = (requests.clone(), (*address).to_owned());
                Raw::on(&format!("{address}:{port}"), move |mut stream| {
                    while let Some(head) = read_head(&mut stream) {
                        *requests.lock().unwrap().entry(name.clone()).or_default() += 1;
                        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
                        let closes = String::from_utf8_lossy(&head).contains("Connection: close");
                        if stream.write_all(response).is_err() || closes {
                            return;
                        }
                    }
                })
            });
            return Servers {
                port,
                _each: each.collect(),
                requests: requests.clone(),
            };
        }
    }

    /// Loads the host `four.test`, which has these addresses. Returns the record, and the requests
    /// of each address as the servers counted them.
    fn load(&self, addresses: &str, words: &str) -> (Record, Counts) {
        let resolve = format!("four.test:{}:{addresses}", self.port);
        let mut all: Vec<&str> = words.split(' ').collect();
        all.extend(["--resolve", &resolve]);
        let record = load_with(&format!("http://four.test:{}/", self.port), &all);
        let counts = std::mem::take(&mut *self.requests.lock().unwrap());
        (record, counts)
    }
}

const FOUR: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];

fn in_record(record: &Record) -> Counts {
    let each = record.addresses.as_ref().unwrap().each.iter();
    each.map(|count| (count.address.to_string(), count.totals.ok))
        .collect()
}

#[test]
fn connections_use_all_addresses_in_turn() {
    let servers = Servers::on(&FOUR);
    for words in [
        "-n 400 -c 4 --addresses all --no-keepalive",
        "-n 400 -c 8 -t 2 --addresses all --no-keepalive",
        "-n 400 -c 4 --addresses all --requests-per-connection 4",
        "-n 400 -r 4000 -c 16 -t 2 --addresses all --no-keepalive",
        // Replaced connections take turns, so the number of connections doesn't matter.
        "-n 400 -c 6 -t 2 --addresses all --requests-per-connection 1",
    ] {
        let (record, counts) = servers.load(&FOUR.join(","), words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 400)], "{words}");
        assert_eq!(in_record(&record), counts, "{words}");
        for address in FOUR {
            // The last connections carry fewer requests.
            assert!((96..=104).contains(&counts[address]), "{words}: {counts:?}");
        }
        let used = record.addresses.as_ref().unwrap();
        assert_eq!((used.kind.as_str(), used.order.as_str()), ("server", "all"));
        let opened: u64 = used.each.iter().map(|it| it.totals.connections).sum();
        assert_eq!(opened, record.totals.connections_opened, "{words}");
        assert_eq!(record.load.addresses.as_deref(), Some("all"));
    }
}

#[test]
fn random_addresses_are_the_same_for_the_same_seed() {
    let servers = Servers::on(&FOUR);
    let counts = |seed: &str| {
        let words = format!("-n 200 -c 1 --no-keepalive --addresses random --seed {seed}");
        servers.load(&FOUR.join(","), &words).1
    };
    let first = counts("1");
    assert_eq!(first, counts("1"));
    assert_ne!(first, counts("2"));
    assert_eq!(first.len(), 4);
    assert!(first.values().all(|&count| count > 20), "{first:?}");
}

#[test]
fn failures_are_counted_by_address() {
    let servers = Servers::on(&FOUR[..1]);
    let words = "-n 20 -c 2 --no-keepalive --addresses all";
    let (record, counts) = servers.load("127.0.0.1,127.0.0.2", words);
    assert_eq!(counts["127.0.0.1"], record.totals.ok);
    let used = record.addresses.unwrap();
    let each: Vec<_> = used
        .each
        .iter()
        .map(|it| (it.totals.ok, it.totals.failed))
        .collect();
    assert_eq!(each, [(record.totals.ok, 0), (0, record.totals.failed)]);
    assert!(record.totals.failed > 0);
}

#[test]
fn by_default_the_first_address_that_accepts_is_used() {
    let servers = Servers::on(&FOUR[1..]);
    for words in ["-n 20 -c 2", "-n 20 -c 2 --addresses first"] {
        let (record, counts) = servers.load(&FOUR.join(","), words);
        assert_eq!(counts, Counts::from([("127.0.0.2".to_owned(), 20)]));
        assert_eq!(record.addresses, None);
    }
    // The name's addresses don't change.
    let (record, counts) = servers.load(&FOUR.join(","), "-n 20 -c 2 --resolve-every 10ms");
    assert_eq!(in_record(&record), counts);
    assert_eq!(counts.len(), 1);
}

#[test]
fn settings_without_a_name_exclude_the_choice_of_addresses() {
    for words in [
        "--addresses all --unix /tmp/x",
        "--resolve-every 1s --proxy 127.0.0.1:1",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let error = resolve("http://127.0.0.1:9/", &words)
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("can't be combined"), "{error}");
    }
}
