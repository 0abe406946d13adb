//! Tests that each fault of the origin leads to its outcome, over each kind of connection.

use prony_origin::{AcceptFault, Config, Fault, Tls};
use prony_record::Outcome;
use prony_record::Outcome::{
    ClosedEarly, ConnectFailed, ConnectRefused, ConnectTimeout, Ok as Fine, Protocol, Reset,
    Timeout, Truncated,
};

use crate::harness::{Served, Via, errors, load, load_with, outcomes, text, vacant_port};

/// Returns the outcome of a fault over TCP, over a UNIX socket and over TLS, and the text of its
/// finding.
fn expected(fault: Fault) -> ([Outcome; 3], &'static str) {
    let alike = |outcome| [outcome; 3];
    match fault {
        Fault::Reset => ([Reset, ClosedEarly, Reset], ""),
        Fault::Close => (alike(ClosedEarly), ""),
        Fault::Truncate => (alike(Truncated), "in the middle of the response body"),
        Fault::Stall => (alike(Timeout), ""),
        Fault::Garbage => (alike(Protocol), "not HTTP"),
        Fault::Half => (alike(Truncated), "in the middle of the response head"),
        Fault::LiesShort => (alike(Protocol), "after the end"),
        Fault::BadChunk => (alike(Protocol), "chunk size"),
        Fault::TruncateChunked => (alike(Truncated), "in the middle of the response body"),
        Fault::StallBody => (alike(Timeout), ""),
        Fault::ResetBody => ([Reset, Truncated, Reset], ""),
        Fault::HugeHead | Fault::ManyHeaders => (alike(Protocol), "head over 64 KiB"),
        Fault::TwoLengths => (alike(Protocol), "two different Content-Length"),
        Fault::BadLength => (alike(Protocol), "Content-Length is not a number"),
        Fault::LengthAndChunked => (alike(Protocol), "both Transfer-Encoding"),
        Fault::BadStatus => (alike(Protocol), "status code"),
        Fault::NoCloseNotify => ([Fine, Fine, Truncated], ""),
        Fault::EarlyCloseKeepalive
        | Fault::Interim
        | Fault::Continue
        | Fault::Trailers
        | Fault::SlowBody
        | Fault::CloseButOpen
        | Fault::EarlyResponse
        | Fault::NoLength => (alike(Fine), ""),
        Fault::ConnectionError => unreachable!("a fault that only HTTP/3 has"),
    }
}

fn each_fault(served: &Served, via: Via, place: usize) {
    for fault in Fault::all().filter(|fault| fault.over_http1()) {
        let (outcomes_by_via, reason) = expected(fault);
        let timeout = match outcomes_by_via[place] {
            Timeout => "--timeout 100ms -n 6",
            _ => "-n 12",
        };
        let record = served.load(via, &format!("/fault/{fault}"), &format!("-c 3 {timeout}"));
        let n = record.load.requests.unwrap();
        assert_eq!(
            outcomes(&record),
            [(outcomes_by_via[place], n)],
            "{fault}, {via:?}"
        );
        assert_eq!(record.totals.started, n);
        assert!(
            errors(&record).contains(reason),
            "{fault}, {via:?}: {}",
            errors(&record)
        );
        let opened = record.totals.connections_opened;
        match fault {
            // These faults leave the connection intact.
            Fault::Interim | Fault::Continue | Fault::Trailers | Fault::SlowBody => {
                assert_eq!(opened, 3, "{fault}, {via:?}");
            }
            // The server may close the connection before or after the next request is sent. In the
            // second case, the request is retried.
            Fault::EarlyCloseKeepalive => {
                assert_eq!(opened, n, "{via:?}");
                assert!(record.totals.retried < n);
            }
            _ => assert_eq!(opened, n, "{fault}, {via:?}"),
        }
    }
}

#[test]
fn each_fault_has_its_outcome_over_tcp() {
    each_fault(&Served::clear(), Via::Tcp, 0);
}

#[test]
fn each_fault_has_its_outcome_over_unix_sockets() {
    each_fault(&Served::clear(), Via::Unix, 1);
}

#[test]
fn each_fault_has_its_outcome_over_tls() {
    each_fault(&Served::secured(), Via::Tls, 2);
}

#[test]
fn an_early_response_to_a_large_body_counts() {
    for via in [Via::Tcp, Via::Unix, Via::Tls, Via::UnixTls] {
        let served = Served::via(via);
        let body = served.file("body", vec![b'x'; 20 << 20]);
        let words = format!("-n 6 -c 2 -X POST --body-file {}", text(&body));
        let record = served.load(via, "/fault/early-answer", &words);
        assert_eq!(outcomes(&record), [(Fine, 6)], "{via:?}");
        assert_eq!(record.totals.connections_opened, 6, "{via:?}");
    }
}

#[test]
fn a_load_continues_through_failures_and_counts_each() {
    let served = Served::clear();
    let list = "/\n/fault/reset\n/fault/truncate\n/bytes/100K\n/fault/garbage\n/fault/half\n\
        /status/503\n/fault/bad-chunk\n/fault/close\n/chunked/5000\n/fault/huge-head\n\
        /fault/no-length\n/fault/interim\n/fault/lies-short\n/fault/reset-body\n/close\n";
    let list = served.file("urls.txt", list);
    // Two workers request each of 16 entries 25 times.
    let words = format!("-n 400 -c 8 -t 2 --urls {}", text(&list));
    for _ in 0..2 {
        let record = served.load(Via::Tcp, "/", &words);
        // Requests lost on a reused connection (`reset`, `close`) are retried once, and then lost
        // again.
        let expected = [
            (Fine, 6 * 25),
            (Outcome::UnexpectedStatus, 25),
            (Reset, 2 * 25),
            (ClosedEarly, 25),
            (Truncated, 2 * 25),
            (Protocol, 4 * 25),
        ];
        assert_eq!(outcomes(&record), expected);
        assert_eq!(record.status[&503], 25);
        assert_eq!(record.status[&200], 150);
    }
}

#[test]
fn servers_that_treat_every_connection_badly() {
    for (fault, tls, outcome) in [
        (AcceptFault::Reset, false, Reset),
        (AcceptFault::Close, false, ClosedEarly),
        (AcceptFault::Ignore, false, Timeout),
        (AcceptFault::Reset, true, Reset),
        (AcceptFault::Close, true, Outcome::Tls),
        (AcceptFault::Ignore, true, Timeout),
    ] {
        let served = Served::with(Config {
            on_accept: Some(fault),
            tls: tls.then_some(Tls::Generated),
            ..Config::default()
        });
        let record = served.load(Via::Tcp, "/", "-n 9 -c 3 --timeout 300ms");
        assert_eq!(outcomes(&record), [(outcome, 9)], "{fault:?}, TLS: {tls}");
    }
}

#[test]
fn a_full_backlog_of_a_unix_socket_is_a_connect_timeout() {
    let served = Served::with(Config {
        on_accept: Some(AcceptFault::Never),
        ..Config::default()
    });
    let words = "-n 60 -c 60 --connect-timeout 300ms --timeout 600ms";
    let record = served.load(Via::Unix, "/", words);
    // The connections that fit into the backlog are established, but never served.
    let [(ConnectTimeout, waited), (Timeout, taken)] = outcomes(&record)[..] else {
        panic!("{:?}", outcomes(&record));
    };
    assert_eq!(waited + taken, 60);
    assert!((16..20).contains(&taken), "{taken}");
}

#[test]
fn a_temporarily_full_backlog_of_a_unix_socket_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    let address = socket2::SockAddr::unix(&path).unwrap();
    socket.bind(&address).unwrap();
    socket.listen(0).unwrap();
    // This connection occupies the only entry of the backlog before the load begins.
    let blocker = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let listener = std::os::unix::net::UnixListener::from(socket);
    let server = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(blocker);
        for _ in 0..1 + 20 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            if let Ok(1..) = std::io::Read::read(&mut stream, &mut head) {
                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = std::io::Write::write_all(&mut stream, response);
            }
        }
    });
    let words = format!("-n 20 -c 10 --no-keepalive --unix {}", path.display());
    let record = load("http://localhost/", &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 20)]);
    server.join().unwrap();
}

#[test]
fn refused_connects_back_off() {
    let (port, _bound) = vacant_port();
    let url = format!("http://127.0.0.1:{port}/");
    let record = load(&url, "-n 8 -c 4");
    assert_eq!(outcomes(&record), [(ConnectRefused, 8)]);
    assert!(
        errors(&record).contains("Connection refused"),
        "{}",
        errors(&record)
    );
    let record = load(&url, "-d 1s -c 2");
    // A backoff of 10, 20, 40, … ms allows at most eight connection attempts per second for each of
    // two slots.
    assert!(record.totals.failed <= 16, "{}", record.totals.failed);
    assert_eq!(
        record.totals.started,
        record.totals.failed + record.totals.unfinished
    );
}

#[test]
fn a_missing_unix_socket_is_named() {
    let record = load("http://localhost/", "-n 4 -c 2 --unix /nonexistent/socket");
    assert_eq!(outcomes(&record), [(ConnectFailed, 4)]);
    assert!(
        errors(&record).contains("No such file"),
        "{}",
        errors(&record)
    );
}

#[test]
fn a_stopped_server_fails_the_remaining_requests() {
    let served = Served::clear();
    let url = served.url("/delay/20ms");
    let running = std::thread::spawn(move || load_with(&url, &["-n", "40", "-c", "4"]));
    while served.origin.requests() < 12 {
        std::thread::yield_now();
    }
    served.origin.stop();
    let record = running.join().unwrap();
    let count = |outcome| record.outcomes.get(&outcome).copied().unwrap_or(0);
    assert!(count(Fine) >= 8, "{:?}", outcomes(&record));
    assert!(count(ConnectRefused) >= 1, "{:?}", outcomes(&record));
    assert_eq!(record.totals.ok + record.totals.failed, 40);
}
