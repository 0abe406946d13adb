//! Tests of streamed responses: times and outcomes against a server that sends events at known times.

use std::io::Write;

use prony_record::{EventResults, Outcome};

use super::*;

/// A response with a chunked body whose parts arrive at these times, in milliseconds.
fn stream(fields: &str, parts: &[(u64, &[u8])], ends_ms: Option<u64>) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n");
    let mut steps = vec![(ms(5), Step::Send(head.into_bytes()))];
    for (at_ms, part) in parts {
        let mut chunk = format!("{:x}\r\n", part.len()).into_bytes();
        chunk.extend_from_slice(part);
        chunk.extend_from_slice(b"\r\n");
        steps.push((ms(*at_ms), Step::Send(chunk)));
    }
    if let Some(ends_ms) = ends_ms {
        steps.push((ms(ends_ms), Step::Send(b"0\r\n\r\n".to_vec())));
    }
    Reply {
        steps,
        ..Reply::default()
    }
}

/// Server-sent events at these times, and the end of the response at the last of them.
fn events_at(times_ms: &[u64]) -> Reply {
    let parts: Vec<(u64, &[u8])> = times_ms.iter().map(|&at| (at, EVENT)).collect();
    stream("", &parts, times_ms.last().copied())
}

const EVENT: &[u8] = b": comment\n\ndata: {\"text\":\"h\xc3\xa9\"}\n\n";

fn load(words: &str, response: impl FnMut(&ReceivedRequest) -> Reply + 'static) -> Outcomes {
    let spec = spec(words);
    simulate(&spec, vec![responding(response)])
}

fn events(outcomes: &Outcomes) -> &EventResults {
    outcomes.record.events.as_ref().unwrap()
}

#[track_caller]
fn assert_us(seen: f64, expected: u64) {
    let expected = expected as f64;
    assert!(
        (seen - expected).abs() <= expected * 0.001,
        "reported {seen} µs, expected {expected} µs"
    );
}

#[test]
fn times_of_events_are_exact() {
    let outcomes = load("--events sse -c 1 -n 3", |_| events_at(&[20, 30, 50, 90]));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 3)]);
    let events = events(&outcomes);
    assert_eq!((events.events, events.events_per_response), (12, Some(4.0)));
    let times = &events.first_event_us;
    assert_us(times.min, 20_000);
    assert_us(times.max, 20_000);
    let gaps = &events.event_gap_us;
    assert_us(gaps.min, 10_000);
    assert_us(gaps.p50, 20_000);
    assert_us(gaps.max, 40_000);
    // Three responses of 90 ms.
    assert_us(events.events_per_s * 1e3, 12_000_000 / 270);
    assert_us(outcomes.record.response_time_us.p50, 90_000);
}

#[test]
fn an_event_counts_when_its_last_byte_arrives() {
    let (one, rest) = EVENT.split_at(EVENT.len() - 1);
    let parts: Vec<(u64, Vec<u8>)> = vec![
        (10, one.to_vec()),
        (30, rest.to_vec()),
        // Three events that arrive together.
        (50, EVENT.repeat(3)),
    ];
    let outcomes = load("--events sse -c 1 -n 1", move |_| {
        let parts: Vec<(u64, &[u8])> = parts.iter().map(|(at, part)| (*at, &part[..])).collect();
        stream("", &parts, Some(60))
    });
    let events = events(&outcomes);
    assert_eq!(events.events, 4);
    assert_us(events.first_event_us.max, 30_000);
    assert_us(events.event_gap_us.max, 20_000);
    assert_eq!(events.event_gap_us.p50, 0.0);
}

#[test]
fn the_time_to_the_first_event_counts_from_the_intended_start() {
    // One connection, and a request due every 100 ms; each takes 150 ms.
    let outcomes = load("--events sse -c 1 -r 10 -d 310ms", |_| {
        events_at(&[100, 150])
    });
    let first = &events(&outcomes).first_event_us;
    // The requests are due at 0, 100, 200 and 300 ms, and the first two start at 0 and 150 ms. The
    // others are cut off at 310 ms, so only lower bounds are known.
    let cut_off = outcomes.count(Outcome::Unstarted) + outcomes.count(Outcome::Unfinished);
    assert_eq!((outcomes.count(Outcome::Ok), cut_off), (2, 2));
    assert_us(first.max, 150_000);
    assert_us(first.min, 100_000);
    let all = outcomes.record.distribution("first_event").unwrap();
    assert_eq!((all.count(), all.censored()), (4, 2));
}

#[test]
fn the_timeout_covers_only_the_time_until_the_first_event() {
    let words = "--events sse -c 1 -n 2 --timeout 100ms --gap-timeout 1s";
    let outcomes = load(words, |_| events_at(&[90, 500]));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 2)]);
    let outcomes = load(words, |_| events_at(&[110, 500]));
    assert_eq!(outcomes.all(), [(Outcome::Timeout, 2)]);
    let first = &events(&outcomes).first_event_us;
    assert_us(first.max, 100_000);
    assert!(first.at_least.contains(&"max".to_owned()), "{first:?}");
    assert_eq!(events(&outcomes).failed, 0, "they are lower bounds");
}

#[test]
fn a_stream_that_stalls_has_its_own_outcome() {
    let words = "--events sse -c 1 -n 2 --timeout 100ms --gap-timeout 40ms";
    let outcomes = load(words, |_| events_at(&[20, 55, 100, 140]));
    assert_eq!(outcomes.all(), [(Outcome::Stalled, 2)]);
    let events_seen = events(&outcomes);
    assert_eq!((events_seen.events, events_seen.failed), (4, 2));
    assert_us(events_seen.event_gap_us.min, 35_000);
    assert_us(events_seen.event_gap_us.max, 40_000);
    assert_eq!(events_seen.failed_in_gap, 0, "the gap is a lower bound");
    assert!(
        events_seen
            .event_gap_us
            .at_least
            .contains(&"max".to_owned())
    );
    // Comments and a missing end are no events, and --timeout is the default.
    let words = "--events sse -c 1 -n 1 --timeout 100ms";
    for parts in [
        &[(20, EVENT), (60, b": comment\n\n"), (110, b": comment\n\n")][..],
        &[(20, EVENT), (130, EVENT)],
        &[(20, EVENT)],
    ] {
        let outcomes = load(words, move |_| stream("", parts, None));
        assert_eq!(outcomes.all(), [(Outcome::Stalled, 1)]);
        let closed = outcomes.record.totals.elapsed_s;
        assert_us(closed * 1e6, 120_000);
    }
    let words = "--events sse -c 1 -n 1 --timeout 100ms --gap-timeout 0";
    let outcomes = load(words, |_| events_at(&[20, 5_000]));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 1)]);
}

#[test]
fn incomplete_streams_have_outcomes_of_their_own() {
    let end = "--end-marker [DONE]";
    const DONE: &[u8] = b"data: [DONE]\n\n";
    for (words, parts, ends_ms, outcome) in [
        ("", &[(10, EVENT)][..], Some(20), Outcome::Ok),
        (
            "",
            &[(10, EVENT), (15, b"data: ha")],
            Some(20),
            Outcome::StoppedEarly,
        ),
        (
            "",
            &[(10, b": comment\n\n")],
            Some(20),
            Outcome::StoppedEarly,
        ),
        ("", &[], Some(20), Outcome::StoppedEarly),
        (end, &[(10, EVENT), (15, DONE)], Some(20), Outcome::Ok),
        (end, &[(10, EVENT)], Some(20), Outcome::NoEndMarker),
        (end, &[(10, DONE)], Some(20), Outcome::StoppedEarly),
        (
            end,
            &[(10, EVENT), (15, b"data: [DONE]\n")],
            Some(20),
            Outcome::StoppedEarly,
        ),
    ] {
        let words = format!("--events sse -c 1 -n 1 {words}");
        let outcomes = load(&words, move |_| stream("", parts, ends_ms));
        assert_eq!(outcomes.all(), [(outcome, 1)], "{words} {parts:?}");
        let is_ok = outcome == Outcome::Ok;
        assert_eq!(
            events(&outcomes).failed,
            u64::from(!is_ok),
            "{words} {parts:?}"
        );
        assert_eq!(
            events(&outcomes).first_event_us.max > 0.0,
            is_ok,
            "{words} {parts:?}"
        );
    }
    let outcomes = load("--events sse -c 1 -n 1", |_| {
        let mut cut = events_at(&[10, 20]);
        cut.steps.pop();
        cut.steps.push((ms(30), Step::Close));
        cut
    });
    assert_eq!(outcomes.all(), [(Outcome::Truncated, 1)]);
    assert_eq!(
        (events(&outcomes).failed, events(&outcomes).failed_in_gap),
        (1, 1)
    );
}

#[test]
fn responses_that_fail_the_expectations_are_not_read_as_streams() {
    let outcomes = load("--events sse -c 1 -n 1", |_| {
        let body = EVENT.len();
        let head = format!("HTTP/1.1 503 Busy\r\nContent-Length: {body}\r\n\r\n");
        let steps = vec![
            (ms(5), Step::Send(head.into_bytes())),
            (ms(10), Step::Send(EVENT.to_vec())),
        ];
        Reply {
            steps,
            ..Reply::default()
        }
    });
    assert_eq!(outcomes.all(), [(Outcome::UnexpectedStatus, 1)]);
    assert_eq!((events(&outcomes).events, events(&outcomes).failed), (0, 1));
}

/// [`EVENT`] three times, encoded with brotli and flushed after each event, and the end.
const BROTLI_EVENTS: [&[u8]; 4] = [
    b"\x0b\x10\x80: comment\n\ndata: {\"text\":\"h\xc3\xa9\"}\n\n",
    b"\x00\x01\x08: comment\n\ndata: {\"text\":\"h\xc3\xa9\"}\n\n",
    b"\x00\x01\x08: comment\n\ndata: {\"text\":\"h\xc3\xa9\"}\n\n",
    b"\x03",
];

#[test]
fn encoded_events_are_decoded_before_they_are_counted() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut parts = Vec::new();
    for at_ms in [20, 30, 50] {
        gzip.write_all(EVENT).and_then(|()| gzip.flush()).unwrap();
        parts.push((at_ms, std::mem::take(gzip.get_mut())));
    }
    parts.push((50, gzip.finish().unwrap()));
    // The reference encoder of brotli, flushed after each event.
    let brotli = [20, 30, 50, 50].into_iter().zip(BROTLI_EVENTS);
    let brotli: Vec<(u64, Vec<u8>)> = brotli.map(|(at_ms, part)| (at_ms, part.into())).collect();
    for (coding, whole) in [("GZIP", parts), ("br", brotli)] {
        let outcomes = load("--events sse --event-field text -c 1 -n 1", move |_| {
            let parts: Vec<(u64, &[u8])> =
                whole.iter().map(|(at, part)| (*at, &part[..])).collect();
            stream(&format!("Content-Encoding: {coding}\r\n"), &parts, Some(60))
        });
        assert_eq!(outcomes.all(), [(Outcome::Ok, 1)], "{coding}");
        let seen = events(&outcomes);
        assert_eq!((seen.events, seen.chars), (3, Some(6)), "{coding}");
        assert_us(seen.first_event_us.max, 20_000);
        assert_us(seen.event_gap_us.max, 20_000);
    }
    for (coding, reason) in [
        ("gzip", "the body is not valid for its Content-Encoding"),
        ("br", "the body is not valid for its Content-Encoding"),
        (
            "zstd",
            "the events are encoded, but not with gzip, deflate or br",
        ),
        (
            "gzip, gzip",
            "the events are encoded, but not with gzip, deflate or br",
        ),
    ] {
        let outcomes = load("--events sse -c 1 -n 1", move |_| {
            stream(
                &format!("Content-Encoding: {coding}\r\n"),
                &[(10, EVENT)],
                Some(20),
            )
        });
        assert_eq!(outcomes.all(), [(Outcome::Protocol, 1)], "{coding}");
        let text = outcomes.finding("errors").unwrap();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn only_events_with_the_field_are_counted() {
    let other: &[u8] = b"data: {\"usage\":{\"tokens\":3}}\n\n";
    let parts = [
        (10, other),
        (20, EVENT),
        (30, other),
        (50, EVENT),
        (60, other),
    ];
    let words = "--events sse --event-field text -c 1 -n 1";
    let outcomes = load(words, move |_| stream("", &parts, Some(70)));
    let seen = events(&outcomes);
    assert_eq!(
        (seen.events, seen.other_events, seen.chars),
        (2, 3, Some(4))
    );
    assert_us(seen.first_event_us.max, 20_000);
    assert_us(seen.event_gap_us.max, 30_000);
}

#[test]
fn lines_and_chunks_are_events() {
    let parts: [(u64, &[u8]); 3] = [(10, b"{}\n{}"), (30, b"\n\n{}\r"), (40, b"\n{}")];
    let outcomes = load("--events lines -c 1 -n 1", move |_| {
        stream("", &parts, Some(50))
    });
    let seen = events(&outcomes);
    assert_eq!(seen.events, 4);
    assert_us(seen.first_event_us.max, 10_000);
    assert_us(seen.event_gap_us.max, 20_000);
    let outcomes = load("--events chunks -c 1 -n 1", move |_| {
        stream("", &parts, Some(50))
    });
    let seen = events(&outcomes);
    assert_eq!(seen.events, 3);
    assert_us(seen.event_gap_us.max, 20_000);
    // A chunk in two pieces is one event, which counts at its end.
    let outcomes = load("--events chunks -c 1 -n 1", move |_| {
        let mut reply = stream("", &[(10, b"a")], None);
        reply.steps.push((ms(20), Step::Send(b"2\r\nb".to_vec())));
        reply
            .steps
            .push((ms(30), Step::Send(b"c\r\n0\r\n\r\n".to_vec())));
        reply
    });
    assert_eq!(outcomes.all(), [(Outcome::Ok, 1)]);
    assert_eq!(events(&outcomes).events, 2);
    assert_us(events(&outcomes).event_gap_us.max, 20_000);
}

#[test]
fn streams_that_outlast_the_load_are_measured() {
    // An event every 10 ms, from 10 ms on, without an end; one stream stalls at 500 ms.
    let mut number = 0;
    let outcomes = load("--events sse -c 10 -d 1s --warmup 105ms", move |_| {
        number += 1;
        let count = if number == 1 { 50 } else { 200 };
        let parts: Vec<(u64, &[u8])> = (1..=count).map(|n| (n * 10, EVENT)).collect();
        stream("", &parts, None)
    });
    assert_eq!(outcomes.all(), [(Outcome::Unfinished, 10)]);
    let seen = events(&outcomes);
    // From 105 ms until 1105 ms, 100 events on nine streams, and 40 on one.
    assert_eq!((seen.events, seen.events_per_s), (940, 940.0));
    assert_us(seen.first_event_us.max, 10_000);
    assert_us(seen.event_gap_us.p99, 10_000);
    assert_us(seen.event_gap_us.max, 605_000);
    assert!(seen.event_gap_us.at_least.contains(&"max".to_owned()));
    assert!(outcomes.record.has_success(), "no stream failed");
}
