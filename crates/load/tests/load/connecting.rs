//! Tests of loads that measure connections: opened on a schedule, only opened, or only kept open.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prony_record::Outcome;

use crate::harness::{Raw, Served, load, outcomes, read_head, resolve};

#[test]
fn connections_open_on_a_schedule_with_one_request_each() {
    let served = Served::clear();
    let url = served.url("/bytes/10");
    let record = load(&url, "-n 100 --connection-rate 2000 -c 20 -t 2");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 100)]);
    assert_eq!(record.totals.connections_opened, 100);
    assert_eq!(served.origin.requests(), 100);
    assert_eq!(record.load.rate_per_s, Some(2000.0));
    assert!(record.load.is_open() && !record.load.keepalive);
    let ramp = load(&url, "-d 200ms --connection-rate 100:1000 -c 20");
    assert!((ramp.totals.ok..=ramp.totals.started).contains(&ramp.totals.connections_opened));
    assert_eq!(ramp.load.stages.len(), 2);
}

#[test]
fn connections_of_a_schedule_carry_several_requests() {
    let served = Served::clear();
    let url = served.url("/bytes/10");
    for more in ["", "-t 2 -X POST --body a={{seq}}", "--http 2"] {
        let words = format!("-n 40 --connection-rate 2000 --requests-per-connection 5 -c 8 {more}");
        let before = served.origin.requests();
        let record = load(&url, &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 200)], "{words}");
        assert_eq!(served.origin.requests() - before, 200, "{words}");
        assert_eq!(record.totals.connections_opened, 40, "{words}");
        assert_eq!(record.journeys.as_ref().unwrap().completed, 40, "{words}");
        assert_eq!(record.load.rate_per_s, Some(2000.0));
    }
}

/// Counts the connections that a server accepts, and the bytes that it receives on them.
fn accepting() -> (Raw, Arc<AtomicU64>, Arc<AtomicU64>) {
    let (accepted, bytes) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let counts = (accepted.clone(), bytes.clone());
    let server = Raw::new(move |mut stream| {
        counts.0.fetch_add(1, Ordering::SeqCst);
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            counts.1.fetch_add(length as u64, Ordering::SeqCst);
        }
    });
    (server, accepted, bytes)
}

#[test]
fn only_connecting_sends_nothing() {
    for words in [
        "-n 60 -c 4 --tcp-only",
        "-n 60 -c 4 -t 2 --tcp-only",
        "-n 60 -c 8 --tcp-only --rate 3000",
        "-n 60 -c 8 --tcp-only --connection-rate 3000",
    ] {
        let (server, accepted, bytes) = accepting();
        let record = load(&server.url(), words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 60)], "{words}");
        assert_eq!(record.totals.connections_opened, 60, "{words}");
        assert_eq!(record.totals.bytes_out, 0, "{words}");
        assert!(record.response_time_us.min > 0.0, "{words}");
        // The load doesn't wait for the server to accept its last connections.
        while accepted.load(Ordering::SeqCst) < 60 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        drop(server);
        assert_eq!(accepted.load(Ordering::SeqCst), 60, "{words}");
        assert_eq!(bytes.load(Ordering::SeqCst), 0, "{words}");
    }
    // Over TLS, no handshake begins.
    let (server, _, bytes) = accepting();
    let record = load(&server.tls_url(), "-n 5 -c 1 --tcp-only --insecure");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 5)]);
    assert_eq!(record.totals.tls_handshakes, 0);
    drop(server);
    assert_eq!(bytes.load(Ordering::SeqCst), 0);
}

#[test]
fn refused_connects_fail() {
    let (port, _socket) = crate::harness::vacant_port();
    let record = load(&format!("http://127.0.0.1:{port}/"), "-n 5 -c 1 --tcp-only");
    assert_eq!(record.totals.ok, 0);
    assert!(record.totals.failed > 0, "{:?}", record.outcomes);
}

#[test]
fn idle_connections_stay_open_while_the_load_runs() {
    for words in ["", " -t 2", " --no-keepalive"] {
        let served = Served::clear();
        let words = format!("-n 200 -c 2 --idle 300{words}");
        let record = load(&served.url("/bytes/10"), &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 200)], "{words}");
        let idle = record.idle.unwrap();
        assert_eq!((idle.wanted, idle.open_at_begin), (300, 300), "{words}");
        assert_eq!((idle.open_at_end, idle.reopened), (300, 0), "{words}");
        assert_eq!(served.origin.requests(), 200, "{words}");
        // They are not part of the measured connections.
        assert!(record.totals.connections_opened <= 200, "{words}");
    }
}

#[test]
fn idle_connections_are_established_over_tls() {
    let served = Served::secured();
    let words = "-n 20 -c 1 --idle 30 --insecure --http 1.1";
    let record = load(&served.url("/bytes/10"), words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 20)]);
    let idle = record.idle.unwrap();
    assert_eq!((idle.open_at_begin, idle.open_at_end), (30, 30));
    assert_eq!(record.totals.tls_handshakes, 1);
}

#[test]
fn lost_idle_connections_are_opened_again() {
    // The server closes connections without a request, which are those of the idle clients.
    let idle = Arc::<AtomicU64>::default();
    let opened = idle.clone();
    let server = Raw::new(move |mut stream| {
        let timeout = std::time::Duration::from_millis(300);
        stream.set_read_timeout(Some(timeout)).unwrap();
        let mut requests = 0;
        while read_head(&mut stream).is_some() {
            requests += 1;
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
            if stream.write_all(response).is_err() {
                return;
            }
        }
        opened.fetch_add(u64::from(requests == 0), Ordering::SeqCst);
    });
    let record = load(&server.url(), "-d 3s -c 1 -r 50 --idle 5");
    assert_eq!(record.totals.failed, 0);
    let used = record.idle.unwrap();
    assert!(used.reopened >= 5, "{used:?}");
    assert_eq!(used.open_at_begin, 5);
    let closed = used.reasons["closed_early: the server closed the connection"];
    assert!(closed >= 5, "{used:?}");
    drop(server);
    assert!(idle.load(Ordering::SeqCst) >= 10);
}

#[test]
fn idle_connections_that_fail_name_their_reason() {
    // Nothing responds to a handshake.
    let server = Raw::new(|mut stream| while let Ok(1..) = stream.read(&mut [0; 64]) {});
    let url = server.url().replace("http://", "https://");
    let record = load(&url, "-d 200ms -c 1 --idle 5 --connect-timeout 200ms");
    let used = record.idle.unwrap();
    assert_eq!(used.open_at_begin, 0);
    let late = "timeout: no connection within 200 ms";
    assert_eq!(used.reasons.get(late), Some(&5), "{used:?}");
}

#[test]
fn contradictions_are_named() {
    for (words, both) in [
        ("--tcp-only --http 3", ["--tcp-only", "--http 3"]),
        ("--tcp-only --events sse", ["--tcp-only", "--events"]),
        (
            "--connection-rate 5 --rate 5",
            ["--connection-rate", "--rate"],
        ),
        (
            "--http 2 --streams 2 --tcp-only",
            ["--streams 2", "--tcp-only"],
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let error = resolve("https://127.0.0.1:9/", &words)
            .map(|_| ())
            .unwrap_err();
        let error = error.to_string();
        assert!(
            both.iter().all(|part| error.contains(part)),
            "{words:?}: {error}"
        );
    }
}
