//! Tests that each finding is reported where it applies, and that a load without problems has none.

use prony_record::{EventResults, FindingId, FindingName, Outcome, Record, Severity, XdpUse};

use super::{ClosedConnections, findings_of, streams_limited};
use crate::request::protocols::StreamsLimit;

/// Record of a closed-loop load that ran for ten seconds without problems.
fn quiet() -> Record {
    let mut record = Record::default();
    record.load.connections = 10;
    record.load.keepalive = true;
    record.totals.elapsed_s = 10.0;
    record.totals.started = 10_000;
    record.totals.ok = 10_000;
    record.totals.connections_opened = 10;
    record.response_time_us.p99 = 2_000.0;
    record
}

fn open(mut record: Record) -> Record {
    record.load.rate_per_s = Some(1000.0);
    record
}

fn found(record: &Record) -> Vec<(FindingName, Severity)> {
    findings_of(record, &[], 0, ClosedConnections::default())
        .into_iter()
        .map(|finding| (finding.id, finding.severity))
        .collect()
}

fn one(id: FindingId, severity: Severity) -> Vec<(FindingName, Severity)> {
    vec![(id.into(), severity)]
}

#[test]
fn a_good_load_has_no_findings() {
    assert_eq!(found(&quiet()), []);
    assert_eq!(found(&open(quiet())), []);
}

#[test]
fn a_closed_loop_is_saturated_if_its_connections_wait_for_the_generator() {
    let mut record = quiet();
    record.generator.busy_share = 0.99;
    record.generator.queue_share = 0.1;
    assert_eq!(found(&record), [], "busy, but with spare capacity");
    record.generator.queue_share = 0.35;
    assert_eq!(
        found(&record),
        one(FindingId::GeneratorSaturated, Severity::Warning)
    );
    record.generator.queue_share = 0.55;
    assert_eq!(
        found(&record),
        one(FindingId::GeneratorSaturated, Severity::Error)
    );
    // The worker is always handling one of the two connections.
    record.load.connections = 2;
    record.generator.queue_share = 0.45;
    assert_eq!(found(&record), []);
    record.load.connections = 10;
    record.generator.queue_share = 0.55;
    record.totals.elapsed_s = 0.01;
    assert_eq!(found(&record), [], "too short to judge");
}

#[test]
fn an_open_loop_is_saturated_if_the_generator_is_busy_and_late() {
    let mut record = open(quiet());
    record.generator.busy_share = 0.99;
    assert_eq!(found(&record), []);
    record.generator.late_us.p99 = 5_000.0;
    let both = found(&record);
    assert!(both.contains(&one(FindingId::GeneratorSaturated, Severity::Error)[0]));
    assert!(both.contains(&one(FindingId::ScheduleMissed, Severity::Error)[0]));
}

#[test]
fn an_overloaded_generator_of_an_open_loop_is_saturated_and_the_server_is_not_blamed() {
    // Every connection is busy, so no start is late.
    let mut record = open(quiet());
    record.generator.busy_share = 0.97;
    record.generator.queue_share = 0.9;
    record.totals.unstarted = 5_000;
    let findings = findings_of(&record, &[], 0, ClosedConnections::default());
    let [saturated, missed] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(saturated.id, FindingId::GeneratorSaturated);
    assert_eq!(saturated.severity, Severity::Error);
    assert_eq!(missed.id, FindingId::ScheduleMissed);
    assert!(
        missed
            .text
            .contains("The generator or the server does not keep up")
    );
    // With short queues at the worker, the server is the bottleneck.
    record.generator.queue_share = 0.1;
    let findings = findings_of(&record, &[], 0, ClosedConnections::default());
    assert_eq!(findings.len(), 1);
    assert!(findings[0].text.contains("The server does not keep up"));
}

#[test]
fn a_generator_that_shares_its_core_is_saturated_at_half_its_time() {
    let mut record = quiet();
    record.generator.busy_share = 0.5;
    record.generator.starved_share = 0.48;
    record.generator.awake_share = 0.98;
    assert_eq!(
        found(&record),
        one(FindingId::GeneratorStarved, Severity::Warning)
    );
    record.generator.queue_share = 0.6;
    let both = found(&record);
    assert_eq!(both.len(), 2);
    assert_eq!(
        both[0],
        one(FindingId::GeneratorSaturated, Severity::Warning)[0]
    );
    // The generator has spare capacity.
    record.generator.awake_share = 0.7;
    assert_eq!(
        found(&record),
        one(FindingId::GeneratorStarved, Severity::Warning)
    );
}

#[test]
fn a_worker_without_a_core_is_starved() {
    let mut record = quiet();
    record.generator.starved_share = 0.4;
    assert_eq!(
        found(&record),
        one(FindingId::GeneratorStarved, Severity::Warning)
    );
}

#[test]
fn late_starts_are_reported_for_short_response_times_only() {
    let mut record = open(quiet());
    record.generator.late_us.p99 = 1_500.0;
    assert_eq!(
        found(&record),
        one(FindingId::ScheduleMissed, Severity::Error)
    );
    record.response_time_us.p99 = 100_000.0;
    assert_eq!(
        found(&record),
        one(FindingId::ScheduleMissed, Severity::Warning)
    );
}

#[test]
fn requests_that_found_no_connection_miss_the_schedule() {
    let mut record = open(quiet());
    record.totals.unstarted = 500;
    let findings = findings_of(&record, &[], 0, ClosedConnections::default());
    assert_eq!(findings[0].id, FindingId::ScheduleMissed);
    assert!(
        findings[0].text.contains("500 of 10,500"),
        "{}",
        findings[0].text
    );
    assert!(findings[0].text.contains("over 10 connections."));
    (record.load.connections, record.load.streams) = (1, 4);
    let text = &findings_of(&record, &[], 0, ClosedConnections::default())[0].text;
    assert!(text.contains("no free stream before"), "{text}");
    assert!(text.contains("over 1 connection of 4 streams."), "{text}");
}

#[test]
fn failures_are_graded_by_share_and_their_reasons_named() {
    let mut record = quiet();
    for (failed, severity) in [
        (5, Severity::Note),
        (100, Severity::Warning),
        (1000, Severity::Error),
    ] {
        record.totals.failed = failed;
        record.outcomes = [(Outcome::Protocol, failed)].into();
        let reasons = [(Outcome::Protocol, "no status line".to_owned(), failed)];
        let findings = findings_of(&record, &reasons, 0, ClosedConnections::default());
        assert_eq!(
            (&findings[0].id, findings[0].severity),
            (&FindingName::from(FindingId::Errors), severity)
        );
        assert!(
            findings[0].text.contains("protocol: no status line"),
            "{}",
            findings[0].text
        );
    }
}

#[test]
fn a_dead_server_is_an_error_even_with_few_failed_requests() {
    let mut record = quiet();
    record.totals.failed = 5;
    let slice = |ok, failed| prony_record::HalfSecond {
        t_s: 0.5,
        ok,
        failed,
        bytes_in: 0,
        ..prony_record::HalfSecond::default()
    };
    record.series = vec![slice(1000, 0), slice(1000, 0), slice(0, 5)];
    assert_eq!(found(&record), one(FindingId::Errors, Severity::Error));
}

#[test]
fn events_that_arrive_together_are_reported() {
    let mut record = quiet();
    record.response_time_us.p50 = 510_000.0;
    let mut events = EventResults {
        events_per_response: Some(10.0),
        ..EventResults::default()
    };
    events.first_event_us.p50 = 508_000.0;
    let found_with = |record: &Record, events: &EventResults| {
        let events = Some(events.clone());
        found(&Record {
            events,
            ..record.clone()
        })
    };
    let warned = one(FindingId::EventsTogether, Severity::Warning);
    assert_eq!(found_with(&record, &events), warned);
    let mut early = events.clone();
    early.first_event_us.p50 = 400_000.0;
    assert_eq!(found_with(&record, &early), [], "the first event is early");
    let mut apart = events.clone();
    apart.event_gap_us.p90 = 6_000.0;
    assert_eq!(found_with(&record, &apart), [], "the events are apart");
    let mut single = events.clone();
    single.events_per_response = Some(1.0);
    assert_eq!(found_with(&record, &single), [], "one event each");
    record.response_time_us.p50 = 20_000.0;
    events.first_event_us.p50 = 20_000.0;
    assert_eq!(found_with(&record, &events), [], "short responses");
}

#[test]
fn retried_requests_are_reported() {
    let mut record = quiet();
    record.totals.retried = 100;
    assert_eq!(
        found(&record),
        one(FindingId::RequestsRetried, Severity::Note)
    );
    record.totals.retried = 1_000;
    assert_eq!(
        found(&record),
        one(FindingId::RequestsRetried, Severity::Warning)
    );
}

#[test]
fn ports_that_run_out_are_an_error() {
    let mut record = quiet();
    record.outcomes = [(Outcome::NoLocalPort, 3)].into();
    assert_eq!(
        found(&record),
        one(FindingId::PortExhaustion, Severity::Error)
    );
}

#[test]
fn the_side_that_ends_connections_is_reported() {
    let mut record = quiet();
    record.totals.connections_opened = 1_000;
    let text = |record: &Record, by_server, for_other_target| {
        let closed = ClosedConnections {
            by_server,
            for_other_target,
        };
        let mut findings = findings_of(record, &[], 0, closed).into_iter();
        let found = findings.find(|finding| finding.id == FindingId::ConnectionsNotReused);
        found.map(|finding| finding.text)
    };
    let by_server = text(&record, 990, 0).unwrap();
    assert!(by_server.contains("the server closed 990. "), "{by_server}");
    assert!(by_server.contains("keep-alive limits"), "{by_server}");
    let by_prony = text(&record, 0, 990).unwrap();
    assert!(by_prony.contains("prony replaced 990 "), "{by_prony}");
    assert!(!by_prony.contains("the server closed"), "{by_prony}");
    assert!(!by_prony.contains("keep-alive limits"), "{by_prony}");
    assert_eq!(text(&record, 0, 0), None, "no cause was observed");
    record.load.keepalive = false;
    assert_eq!(text(&record, 990, 0), None, "reuse was not requested");
    record.load.keepalive = true;
    (record.totals.ok, record.totals.failed) = (9_000, 1_000);
    assert_eq!(text(&record, 990, 0), None, "failures close connections");
}

#[test]
fn a_load_without_connections_does_not_judge_the_generator() {
    let mut record = quiet();
    record.generator.starved_share = 0.4;
    record.generator.busy_share = 1.0;
    record.generator.queue_share = 1.0;
    (record.totals.ok, record.totals.failed) = (0, 7_022);
    record.outcomes.insert(Outcome::Tls, 7_022);
    assert_eq!(found(&record), one(FindingId::Errors, Severity::Error));
}

#[test]
fn the_reason_for_limited_streams_is_reported() {
    let mut record = quiet();
    record.load.streams = 4;
    record.negotiated.http = Some("2".to_owned());
    for (limit, expected) in [
        (StreamsLimit::Settings(0), "allows no streams on"),
        (StreamsLimit::Settings(1), "allows 1 concurrent stream on"),
        (StreamsLimit::Settings(3), "or use --streams 3."),
        (StreamsLimit::Http1, "chose HTTP/1.1"),
    ] {
        let text = streams_limited(&record, limit).text;
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("ask for 0"), "{text}");
    }
    assert!(StreamsLimit::Settings(9) < StreamsLimit::Http1);
}

#[test]
fn losses_over_af_xdp_are_reported() {
    let mut record = quiet();
    record.generator.xdp = Some(XdpUse {
        packets_sent: 20_000,
        retransmitted: 200,
        ..XdpUse::default()
    });
    assert_eq!(found(&record), [], "1% is not above 1%");
    let xdp = record.generator.xdp.as_mut().unwrap();
    xdp.retransmitted = 201;
    assert_eq!(
        found(&record),
        one(FindingId::PacketsLost, Severity::Warning)
    );
    let xdp = record.generator.xdp.as_mut().unwrap();
    (xdp.retransmitted, xdp.receive_drops, xdp.exchange_dropped) = (0, 7, 1);
    assert_eq!(
        found(&record),
        one(FindingId::FramesDropped, Severity::Warning)
    );
    let text = &findings_of(&record, &[], 0, ClosedConnections::default())[0].text;
    assert!(
        text.contains("7 when received") && text.contains("1 between two workers"),
        "{text}"
    );
    assert!(!text.contains("to send"), "{text}");
}

#[test]
fn unsolicited_bytes_are_counted() {
    assert_eq!(
        findings_of(&quiet(), &[], 7, ClosedConnections::default())[0].id,
        FindingId::UnaskedBytes
    );
}

#[test]
fn a_lack_of_connections_is_not_blamed_on_the_server() {
    let mut record = open(quiet());
    (record.totals.ok, record.totals.failed) = (0, 60);
    record.totals.unstarted = 940;
    record.outcomes.insert(Outcome::ConnectRefused, 60);
    let findings = findings_of(&record, &[], 0, ClosedConnections::default());
    let mut missed = findings
        .iter()
        .filter(|it| it.id == FindingId::ScheduleMissed);
    let text = &missed.next().unwrap().text;
    assert!(text.contains("Most connection attempts failed"), "{text}");
    assert!(!text.contains("server does not keep up"), "{text}");
}
