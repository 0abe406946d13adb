//! Tests of connections that are opened before a load begins, over real sockets.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prony_load::{Control, LoadSpec, RunResult, run_at};
use prony_record::finding::ConnectionsLate;
use prony_record::{FindingId, Outcome};

use crate::harness::{Raw, Served, outcomes, read_head, resolve, text};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
/// Maximum wait for an event. After this time, the event counts as missing.
const LONG: Duration = Duration::from_secs(20);

/// Requests and connections that a server has received.
#[derive(Default)]
struct ServerCounts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    closed: AtomicUsize,
}

impl ServerCounts {
    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Starts a server that counts requests and connections, and closes its first `closing` connections
/// if no request arrives on them.
fn counting(closing: usize) -> (Raw, Arc<ServerCounts>) {
    let seen = Arc::new(ServerCounts::default());
    let counted = seen.clone();
    let server = Raw::new(move |mut stream| {
        let number = counted.connections.fetch_add(1, Ordering::SeqCst);
        stream.set_nodelay(true).unwrap();
        if number < closing {
            drop(stream);
            counted.closed.fetch_add(1, Ordering::SeqCst);
            return;
        }
        while read_head(&mut stream).is_some() {
            counted.requests.fetch_add(1, Ordering::SeqCst);
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    });
    (server, seen)
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a load that opens its connections first, and begins shortly after `begin` has returned.
fn load(mut spec: LoadSpec, begin: impl Fn()) -> RunResult {
    spec.open_before_start();
    let begin = || {
        begin();
        Some(Instant::now() + Duration::from_millis(150))
    };
    run_at(&spec, &Control::new(2), None, &begin).unwrap()
}

#[test]
fn all_connections_are_open_before_the_first_request() {
    let (server, seen) = counting(0);
    let spec = resolve(&server.url(), &["-c", "40", "-n", "400", "-t", "2"]).unwrap();
    let loaded = load(spec, || {
        // The kernel accepts the connections early, but the server's threads may be late.
        until("some connections are missing", || seen.connections() == 40);
        assert_eq!(seen.requests.load(Ordering::SeqCst), 0);
    });
    let record = loaded.record;
    assert_eq!(outcomes(&record), [(Outcome::Ok, 400)]);
    assert_eq!(record.totals.connections_opened, 0);
    assert_eq!(seen.connections(), 40, "more connections were opened");
    assert!(
        record
            .findings
            .iter()
            .all(|it| it.id != FindingId::ConnectionsLate)
    );
    // The time is measured from the start of the load, not from the start of the preparation.
    assert!(loaded.first_start.is_some());
    assert!(record.totals.elapsed_s < LONG.as_secs_f64());
}

#[test]
fn all_kinds_of_servers_can_be_preconnected() {
    let (clear, secured) = (Served::clear(), Served::secured());
    let socket = clear.origin.unix_paths()[0].clone();
    let ca = secured.ca();
    let unix: &[&str] = &["--unix", text(&socket)];
    let cleartext_h2: &[&str] = &["--http", "2", "--streams", "4"];
    let one: &[&str] = &["--ca", text(&ca), "--http", "1.1"];
    let two: &[&str] = &["--ca", text(&ca), "--streams", "4"];
    for (served, words) in [
        (&clear, unix),
        (&clear, cleartext_h2),
        (&secured, one),
        (&secured, two),
    ] {
        let words = [&["-c", "8", "-n", "160", "-t", "2"], words].concat();
        let spec = resolve(&served.url("/"), &words).unwrap();
        let record = load(spec, || {}).record;
        assert_eq!(outcomes(&record), [(Outcome::Ok, 160)], "{words:?}");
        let totals = &record.totals;
        let made = (totals.connections_opened, totals.tls_handshakes);
        assert_eq!(made, (0, 0), "{words:?}");
    }
}

#[test]
fn a_server_that_closes_before_the_start_is_connected_to_again() {
    let (server, seen) = counting(10);
    let spec = resolve(&server.url(), &["-c", "40", "-n", "400"]).unwrap();
    let record = load(spec, || {
        until("too few were closed", || {
            seen.closed.load(Ordering::SeqCst) == 10
        });
    })
    .record;
    assert_eq!(outcomes(&record), [(Outcome::Ok, 400)]);
    assert_eq!(record.totals.connections_opened, 10);
    assert_eq!(
        record.totals.retried, 0,
        "a close before the start caused a retry"
    );
    let mut found = record.findings.iter();
    let late = found
        .find(|it| it.id == FindingId::ConnectionsLate)
        .unwrap();
    let late = late.figures::<ConnectionsLate>().unwrap();
    assert_eq!((late.missing, late.wanted), (10, 40));
}

#[test]
fn a_server_that_closes_at_the_start_costs_no_request() {
    let (server, seen) = counting(4);
    let mut spec = resolve(&server.url(), &["-c", "4", "-n", "40"]).unwrap();
    spec.open_before_start();
    // No worker reads the connections before the load starts.
    let begin = || {
        let before = Instant::now();
        until("too few were closed", || {
            seen.closed.load(Ordering::SeqCst) == 4
        });
        Some(before)
    };
    let record = run_at(&spec, &Control::new(1), None, &begin)
        .unwrap()
        .record;
    assert_eq!(outcomes(&record), [(Outcome::Ok, 40)]);
    assert_eq!(seen.connections(), 8);
}

#[test]
fn without_keepalive_no_connection_is_opened_before() {
    let (server, seen) = counting(0);
    let spec = resolve(&server.url(), &["-c", "4", "-n", "8", "--no-keepalive"]).unwrap();
    let record = load(spec, || assert_eq!(seen.connections(), 0)).record;
    assert_eq!(outcomes(&record), [(Outcome::Ok, 8)]);
    assert_eq!(record.totals.connections_opened, 8);
}
