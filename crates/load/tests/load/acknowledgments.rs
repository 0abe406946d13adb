//! Tests the finding about servers whose responses wait for delayed acknowledgments, with the
//! kernel's own Nagle algorithm and timers.

use std::io::Write;
use std::time::Duration;

use prony_record::{FindingId, Record};

use crate::harness::{Raw, load, read_head};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";

/// Starts a server that sends head and body in two writes, with a pause between them.
fn in_two_writes(nodelay: bool, pause: Duration) -> Raw {
    Raw::new(move |mut stream| {
        stream.set_nodelay(nodelay).unwrap();
        while read_head(&mut stream).is_some() {
            let sent = stream.write_all(HEAD);
            std::thread::sleep(pause);
            if sent.and_then(|()| stream.write_all(b"ok")).is_err() {
                return;
            }
        }
    })
}

fn is_found(record: &Record) -> bool {
    assert_eq!(record.totals.failed, 0);
    let mut findings = record.findings.iter();
    findings.any(|finding| finding.id == FindingId::DelayedAcks)
}

#[test]
fn a_body_that_waits_for_an_acknowledgment_is_found() {
    let server = in_two_writes(false, Duration::ZERO);
    // On a busy machine, bodies may arrive late for other reasons, so a load may find nothing.
    let found = (0..10).any(|_| is_found(&load(&server.url(), "-c 2 -n 120")));
    assert!(found);
}

#[test]
fn a_body_that_the_server_itself_delays_is_not() {
    let nodelay = in_two_writes(true, Duration::ZERO);
    assert!(!is_found(&load(&nodelay.url(), "-c 2 -n 120")));
    for nodelay in [true, false] {
        let slow = in_two_writes(nodelay, Duration::from_millis(60));
        assert!(!is_found(&load(&slow.url(), "-c 2 -n 80")), "{nodelay}");
    }
}
