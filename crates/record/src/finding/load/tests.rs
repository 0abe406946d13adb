use std::collections::BTreeMap;

use super::*;
use crate::SkippedLines;
use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::{Finding, FindingKind, Severity};

fn text<F: FindingKind>(severity: Severity, figures: &F) -> String {
    Finding::of(severity, figures).text
}

#[test]
fn unreached_servers_are_named_with_the_number_of_attempts() {
    let targets = TargetNames {
        named: vec!["127.0.0.1:80".to_owned(), "app.sock".to_owned()],
        further: 2,
    };
    let refused = NothingListens {
        targets: targets.clone(),
        attempts: 3,
        span_s: 1.25,
        error: "Connection refused".to_owned(),
    };
    assert_eq!(
        text(Error, &refused),
        "Nothing is listening on 127.0.0.1:80, app.sock and 2 more addresses: all 3 connection \
         attempts in 1.25 s were refused (Connection refused). Start the server, correct the \
         address, or wait for the server with --wait-for-server."
    );
    let failed = TlsFailed {
        targets: TargetNames {
            further: 0,
            ..targets
        },
        handshakes: 1,
        span_s: 0.0,
        error: "tls: no shared cipher".to_owned(),
    };
    assert_eq!(
        text(Error, &failed),
        "No TLS connection to 127.0.0.1:80, app.sock was established: the only TLS handshake failed \
         (tls: no shared cipher)."
    );
    let failed = SocketsFailed {
        at_s: 1.0,
        error: "Network is down".to_owned(),
    };
    assert_eq!(
        text(Error, &failed),
        "The load ended after 1.0 s, because its sockets failed: Network is down. The results cover \
         the time until then."
    );
}

#[test]
fn late_connections_have_their_most_frequent_reasons() {
    let reasons = [
        ("reset: a", 1),
        ("reset: b", 4),
        ("reset: c", 2),
        ("reset: d", 1),
    ];
    let late = ConnectionsLate {
        missing: 10,
        wanted: 40,
        reasons: BTreeMap::from(reasons.map(|(reason, count)| (reason.to_owned(), count))),
    };
    assert_eq!(
        text(Note, &late),
        "10 of 40 connections were not open when the load began. They were opened when requests \
         were due on them. Reasons: reset: b (4×); reset: c (2×); reset: a (1×); other reasons \
         (1×); not established in time (2×)."
    );
}

#[test]
fn scarce_ports_have_their_holders_and_a_hint() {
    let scarce = PortsScarce {
        outlook: PortOutlook::MayRunOut,
        connections: 81,
        ports: 100,
        held: 0,
        waiting: 0,
    };
    assert_eq!(
        text(Note, &scarce),
        "The load's addresses have 100 local ports for connections to the server, and 81 \
         connections may exhaust these ports. Use more source addresses (--source FIRST-LAST) or \
         fewer connections, or widen net.ipv4.ip_local_port_range."
    );
    let held = PortsScarce {
        outlook: PortOutlook::WillRunOut,
        held: 90,
        waiting: 85,
        ..scarce
    };
    assert_eq!(
        text(Warning, &held),
        "The load's addresses have 100 local ports for connections to the server, of which other \
         programs hold 90, 85 of them in TIME_WAIT for up to a minute because those programs \
         closed first, and 81 connections will exhaust these ports. Use more source addresses \
         (--source FIRST-LAST) or fewer connections, or widen net.ipv4.ip_local_port_range, or \
         wait a minute."
    );
}

#[test]
fn conditions_of_the_machine_are_described() {
    let quota = CpuQuota {
        quota_cores: 0.5,
        cores: 2,
        group: "/docker/1".to_owned(),
    };
    assert_eq!(
        text(Note, &quota),
        "A CPU quota of 0.50 cores is in force (control group /docker/1), on 2 cores. It limits \
         this load and every other program of the group together. Raise it, or run the load outside \
         of the group."
    );
    let error = "Operation not permitted (os error 1)".to_owned();
    assert_eq!(
        text(Note, &IoFallback { error }),
        "io_uring is not available on this system (Operation not permitted (os error 1)), so the \
         load used epoll"
    );
    let entries = (1..8).map(|n| format!("a:{n}:127.0.0.1")).collect();
    assert_eq!(
        text(Note, &ResolveUnused { entries }),
        "No request uses these entries of --resolve: a:1:127.0.0.1 a:2:127.0.0.1 a:3:127.0.0.1 \
         a:4:127.0.0.1 a:5:127.0.0.1 and 2 more. Host and port must be those of a request's URL, \
         and only the first entry for them applies."
    );
}

#[test]
fn delays_are_described_with_their_cause() {
    let delayed = DelayedAcks {
        delayed: 192,
        ok: 2_000,
        delay_us: 47_200.0,
        acknowledged: 8,
        acknowledged_delay_us: 1_000.0,
    };
    assert_eq!(
        text(Warning, &delayed),
        "In 192 of 2,000 responses, the rest arrived 47.2 ms after the first byte on average. The \
         server held it back until the kernel here acknowledged the beginning, which it does after \
         40 ms or more (Nagle's algorithm with delayed acknowledgments): in 8 further responses, \
         prony acknowledged the beginning immediately, and the rest arrived 1.00 ms after it \
         (median). Make the server send head and body in one write, or set TCP_NODELAY on its \
         connections."
    );
    let syn = SynRetransmitted {
        retransmitted: 3,
        connects: 1_200,
    };
    assert_eq!(
        text(Note, &syn),
        "3 of 1200 connection attempts took about 1 s, 3 s or another SYN retransmission delay. \
         From these times, prony concludes that SYNs were lost; it has not observed where. If the \
         server's listen queue overflows, raise its backlog (on Linux, see net.core.somaxconn); \
         otherwise, look for packet loss on the path."
    );
}

#[test]
fn skipped_lines_of_a_log_are_described_by_reason() {
    let reasons = vec![
        SkippedLines {
            reason: "with a method that is not allowed".to_owned(),
            lines: 1_200,
            first: vec![3, 17],
        },
        SkippedLines {
            reason: "longer than 64 KiB".to_owned(),
            lines: 1,
            first: vec![40],
        },
    ];
    let skipped = LinesSkipped {
        skipped: 1_201,
        lines: 9_000,
        reasons,
    };
    assert_eq!(
        text(Warning, &skipped),
        "1,201 of 9,000 lines of the log were not sent: 1,200 with a method that is not allowed \
         (lines 3, 17, …); 1 longer than 64 KiB (line 40)."
    );
    let unreadable = LogUnreadable {
        lines: 41_000,
        error: "corrupt deflate stream".to_owned(),
    };
    assert_eq!(
        text(Error, &unreadable),
        "The log could not be read beyond line 41,000 (corrupt deflate stream), so the load ended \
         there."
    );
}
