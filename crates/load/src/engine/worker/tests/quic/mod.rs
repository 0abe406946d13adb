//! Tests of loads over HTTP/3 and a simulated link, in virtual time.

mod early_data;
mod hostile;

use crate::carrier::StreamTransport;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use prony_record::{Outcome, Record};

use crate::engine::progress::{Control, Counter};
use crate::engine::run::merge;
use crate::engine::worker::Worker;
use crate::quic::QuicClient;
use crate::settings::LoadSettings;
use crate::socket::QuicSockets;
use crate::socket::simulated_datagrams::{
    LinkQuality, QuicLog, QuicReply, QuicScript, ReplyEnd, SimulatedDatagrams,
};
use crate::values::shard::Shard;

const GOOD: LinkQuality = LinkQuality {
    delay: Duration::from_millis(5),
    jitter: Duration::ZERO,
    loss: 0.0,
    duplication: 0.0,
};

/// Returns the frames of a response with status 200 and this body.
fn ok(body: &[u8]) -> Vec<u8> {
    // HEADERS without a dynamic table, and with entry 25 of the static table (RFC 9204 appendix A).
    let mut bytes = vec![0x01, 3, 0, 0, 0xd9, 0x00];
    match body.len() {
        short @ 0..64 => bytes.push(short as u8),
        long => bytes.extend((long as u32 | 0x8000_0000).to_be_bytes()),
    }
    bytes.extend(body);
    bytes
}

fn finish(bytes: Vec<u8>) -> QuicReply {
    QuicReply {
        after: Duration::from_millis(1),
        bytes,
        end: ReplyEnd::Finish,
    }
}

fn end(end: ReplyEnd) -> QuicReply {
    QuicReply {
        end,
        ..finish(Vec::new())
    }
}

fn always(reply: QuicReply) -> QuicScript {
    Box::new(move |_| reply.clone())
}

struct QuicOutcomes {
    record: Record,
    log: Rc<RefCell<QuicLog>>,
}

impl QuicOutcomes {
    fn all(&self) -> Vec<(Outcome, u64)> {
        self.record.outcomes.clone().into_iter().collect()
    }

    fn errors(&self) -> &str {
        let mut findings = self.record.findings.iter();
        let found = findings.find(|finding| finding.id.as_str() == "errors");
        found.map_or("", |finding| &finding.text)
    }
}

/// Runs a load with one worker.
fn simulate(words: &str, link: LinkQuality, streams: u32, script: QuicScript) -> QuicOutcomes {
    simulate_with(words, link, streams, script, |_| {})
}

/// Like [`simulate`], but calls `prepare` on the simulated link first.
fn simulate_with(
    words: &str,
    link: LinkQuality,
    streams: u32,
    script: QuicScript,
    prepare: impl FnOnce(&mut SimulatedDatagrams),
) -> QuicOutcomes {
    let words = format!("--threads 1 --http 3 --insecure {words}");
    let spec = LoadSettings::from_flags(&words)
        .resolve(Some("https://127.0.0.1:1/"))
        .unwrap();
    let shard = Shard { worker: 0, of: 1 };
    let slots = spec.connections_max(shard) as usize;
    let mut datagrams = SimulatedDatagrams::new(slots, link, streams, spec.seed, script);
    prepare(&mut datagrams);
    let log = datagrams.log();
    let tls = spec.tls.as_ref().unwrap().client(slots);
    let client = QuicClient::new(&tls).unwrap();
    let sockets = QuicSockets::new(datagrams, client, slots);
    let worked = Worker::new(&spec, shard, StreamTransport(sockets))
        .run(&Control::new(1), &Counter::default());
    // Merging asserts that every started request has exactly one outcome.
    let record = merge(&spec, vec![worked], SystemTime::UNIX_EPOCH);
    let record = record.unwrap().record;
    QuicOutcomes { record, log }
}

#[test]
fn response_times_have_the_delay_of_the_link_and_of_the_server() {
    let load = simulate("-n 100 -c 1", GOOD, 100, always(finish(ok(b"hi"))));
    assert_eq!(load.all(), [(Outcome::Ok, 100)], "{}", load.errors());
    assert_eq!(load.record.totals.body_bytes_in, 200);
    let times = &load.record.service_time_us;
    // The service time consists of a round trip and 1 ms at the server.
    for time in [times.p50, times.p99] {
        assert!((11_000.0..11_100.0).contains(&time), "{time}");
    }
    // The handshake takes one round trip.
    let connect = load.record.connect_time_us.p50;
    assert!((10_000.0..10_100.0).contains(&connect), "{connect}");
    assert_eq!(load.log.borrow().requests, 100);
}

#[test]
fn an_open_loop_counts_from_the_schedule() {
    let load = simulate(
        "-r 200 -d 2s -c 1 --streams 100",
        GOOD,
        100,
        always(finish(ok(b"hi"))),
    );
    assert_eq!(load.record.totals.ok + load.record.totals.unfinished, 400);
    let time = load.record.response_time_us.p99;
    // The first requests wait for the handshake.
    assert!((11_000.0..22_000.0).contains(&time), "{time}");
}

#[test]
fn nothing_is_lost_on_a_bad_link() {
    for (seed, loss, jitter) in [(1, 0.02, 0), (2, 0.1, 2), (3, 0.0, 20), (4, 0.2, 10)] {
        let link = LinkQuality {
            jitter: Duration::from_millis(jitter),
            loss,
            duplication: 0.1,
            ..GOOD
        };
        let words = format!("-n 300 -c 3 --streams 8 --timeout 0 --seed {seed}");
        let load = simulate(&words, link, 100, always(finish(ok(&[b'x'; 3000]))));
        assert_eq!(load.all(), [(Outcome::Ok, 300)], "{}", load.errors());
        assert_eq!(load.record.totals.body_bytes_in, 900_000);
        assert_eq!(load.log.borrow().requests, 300);
        if loss > 0.05 {
            let quic = load.record.quic.as_ref().unwrap();
            assert!(quic.packets_lost > 0 && load.log.borrow().lost > 0);
        }
    }
}

#[test]
fn resets_stalls_and_closes_end_their_requests_only() {
    // The error code is H3_INTERNAL_ERROR.
    let load = simulate(
        "-n 20 -c 2 --streams 2",
        GOOD,
        100,
        always(end(ReplyEnd::Reset(0x102))),
    );
    assert_eq!(load.all(), [(Outcome::Reset, 20)]);
    assert!(
        load.errors().contains("H3_INTERNAL_ERROR"),
        "{}",
        load.errors()
    );
    assert_eq!(load.log.borrow().connections, 2);

    let stall = always(end(ReplyEnd::Stall));
    let load = simulate("-n 20 -c 2 --streams 2 --timeout 1s", GOOD, 100, stall);
    assert_eq!(load.all(), [(Outcome::Timeout, 20)]);

    let mixed = Box::new(|number| match number % 4 {
        0 => end(ReplyEnd::Reset(0x102)),
        1 => end(ReplyEnd::Stall),
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 400 -c 2 --streams 4 --timeout 1s", GOOD, 100, mixed);
    let totals = &load.record.totals;
    assert_eq!((totals.ok, totals.failed), (200, 200), "{:?}", load.all());

    let closing = Box::new(|number| match number % 10 {
        9 => end(ReplyEnd::Close(0x100)),
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 100 -c 1 --streams 1", GOOD, 100, closing);
    let totals = &load.record.totals;
    assert_eq!(totals.ok + totals.failed, 100, "{:?}", load.all());
    assert!(totals.ok >= 90, "{:?}", load.all());
    assert!(load.log.borrow().connections > 5);
}

#[test]
fn refused_requests_are_sent_again_on_another_connection() {
    // GOAWAY on the control stream with identifier 0: no request was processed.
    const GOAWAY: &[u8] = &[0x07, 1, 0];
    let goaway = Box::new(|number| match number {
        3 => QuicReply {
            bytes: ok(b"hi"),
            ..end(ReplyEnd::Announce(GOAWAY))
        },
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 50 -c 1 --streams 4", GOOD, 100, goaway);
    assert_eq!(load.record.totals.failed, 0, "{}", load.errors());
    assert_eq!(load.record.totals.ok, 50);
    assert_eq!(load.log.borrow().connections, 2);
    // The error code is H3_REQUEST_REJECTED. A request is retried once.
    let rejecting = Box::new(|number| match number {
        0..4 => end(ReplyEnd::Reset(0x10b)),
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 20 -c 1 --streams 4", GOOD, 100, rejecting);
    assert_eq!(load.all(), [(Outcome::Ok, 20)], "{}", load.errors());
    assert_eq!(load.record.totals.retried, 4);
}

#[test]
fn a_limit_of_streams_is_kept_and_reported() {
    let load = simulate(
        "-n 200 -c 1 --streams 20",
        GOOD,
        3,
        always(finish(ok(b"hi"))),
    );
    assert_eq!(load.all(), [(Outcome::Ok, 200)], "{}", load.errors());
    let mut findings = load.record.findings.iter();
    let limited = findings.find(|finding| finding.id.as_str() == "streams-limited");
    assert!(
        limited
            .unwrap()
            .text
            .contains("no more than 3 concurrent streams"),
        "{limited:?}"
    );
    let none = simulate("-n 4 -c 2 --timeout 1s", GOOD, 0, always(finish(ok(b"hi"))));
    assert_eq!(none.all(), [(Outcome::Timeout, 4)]);
}

#[test]
fn a_server_that_disappears_ends_by_timeouts_and_new_connections() {
    let vanishing = Box::new(|number| match number {
        30 => end(ReplyEnd::Vanish),
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 100 -c 2 --streams 2 --timeout 2s", GOOD, 100, vanishing);
    let totals = &load.record.totals;
    assert_eq!(totals.ok + totals.failed, 100, "{:?}", load.all());
    assert!(totals.failed <= 8, "{:?}: {}", load.all(), load.errors());
}

#[test]
fn violations_on_the_control_stream_end_the_connection_with_their_reason() {
    for (bytes, reason) in [
        // A second SETTINGS frame.
        (&[0x04, 0x00][..], "H3_FRAME_UNEXPECTED"),
        // DATA, which is not permitted on the control stream.
        (&[0x00, 0x01, 0xff], "H3_FRAME_UNEXPECTED"),
        // PING, a frame type that only HTTP/2 has.
        (&[0x06, 0x00], "H3_FRAME_UNEXPECTED"),
        // MAX_PUSH_ID, which only clients send.
        (&[0x0d, 0x01, 0x00], "H3_FRAME_UNEXPECTED"),
        // GOAWAY with the identifier of a stream that can't carry requests.
        (&[0x07, 0x01, 0x02], "H3_ID_ERROR"),
        // A second GOAWAY with a higher identifier than the first.
        (&[0x07, 0x01, 0x04, 0x07, 0x01, 0x08], "H3_ID_ERROR"),
    ] {
        let script = Box::new(move |number| match number {
            0 => end(ReplyEnd::Announce(bytes)),
            _ => QuicReply {
                after: Duration::from_secs(1),
                ..finish(ok(b"hi"))
            },
        });
        let load = simulate("-n 12 -c 1 --streams 4 --timeout 5s", GOOD, 100, script);
        let totals = &load.record.totals;
        assert_eq!(totals.ok + totals.failed, 12, "{reason}: {:?}", load.all());
        assert!(totals.failed >= 1, "{reason}: {:?}", load.all());
        assert!(
            load.errors().contains("protocol"),
            "{reason}: {}",
            load.errors()
        );
        assert!(load.log.borrow().connections > 1, "{reason}");
        let code = load.log.borrow().close_codes.first().copied();
        let name = code.map(|code| prony_protocol::h3::ErrorCode(code).to_string());
        assert!(
            name.is_some_and(|name| name.contains(reason)),
            "{reason}: {code:?}"
        );
    }
}

#[test]
fn a_server_must_read_the_control_stream() {
    let script = Box::new(move |number| match number {
        0 => QuicReply {
            end: ReplyEnd::StopControl,
            ..finish(ok(b"hi"))
        },
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 12 -c 1 --timeout 5s", GOOD, 100, script);
    let totals = &load.record.totals;
    assert_eq!(totals.ok + totals.failed, 12, "{:?}", load.all());
    assert_eq!(load.log.borrow().connections, 2);
    let code = load.log.borrow().close_codes.first().copied();
    let name = code.map(|code| prony_protocol::h3::ErrorCode(code).to_string());
    assert_eq!(name.as_deref(), Some("H3_CLOSED_CRITICAL_STREAM"));
}

#[test]
fn invalid_responses_fail_their_request_or_their_connection() {
    let data_first = vec![0x00, 0x01, 0xff];
    let cut_frame = [&ok(b"hi")[..7], &[][..]].concat();
    // HEADERS that refer to an entry of the dynamic table, which is empty.
    let unknown_entry = vec![0x01, 3, 1, 0, 0x80];
    // HEADERS that contain a literal field but no status.
    let no_status = vec![0x01, 6, 0, 0, 0x21, b'x', 0x01, b'y'];
    // HEADERS whose declared length is above the limit.
    let bomb = [&[0x01, 0x80, 0xff, 0xff, 0xff][..], &vec![0; 200_000]].concat();
    for (name, bytes) in [
        ("DATA first", data_first),
        ("a frame cut by the end of the stream", cut_frame),
        ("an unknown entry", unknown_entry),
        ("no status", no_status),
        ("a head of 8 MB", bomb),
        ("nothing", Vec::new()),
    ] {
        let words = "-n 20 -c 2 --streams 2 --timeout 5s";
        let load = simulate(words, GOOD, 100, always(finish(bytes)));
        assert_eq!(
            load.all(),
            [(Outcome::Protocol, 20)],
            "{name}: {}",
            load.errors()
        );
    }
}

#[test]
fn a_grpc_call_fails_by_its_status() {
    /// Encodes a HEADERS frame whose fields have literal names of 7 to 134 bytes.
    fn headers(status: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
        let mut section = [&[0, 0], status].concat();
        for (name, value) in fields {
            section.extend([0x27, name.len() as u8 - 7]);
            section.extend(name.as_bytes());
            section.push(value.len() as u8);
            section.extend(value.as_bytes());
        }
        [&[0x01, section.len() as u8], &section[..]].concat()
    }
    const OK: &[u8] = &[0xd9];
    let content = ("content-type", "application/grpc");
    let call = |status: &str| {
        let trailers = headers(&[], &[("grpc-status", status)]);
        let data = b"\x00\x02hi".to_vec();
        [headers(OK, &[content]), data, trailers].concat()
    };
    let only = headers(OK, &[content, ("grpc-status", "16")]);
    for (bytes, expected, reason) in [
        (call("0"), "ok", None),
        (call("14"), "grpc_unavailable", Some("UNAVAILABLE (14)")),
        (only, "grpc_unauthenticated", Some("UNAUTHENTICATED (16)")),
    ] {
        let load = simulate("-n 6 -c 1 --streams 2", GOOD, 100, always(finish(bytes)));
        let outcome = load.all().first().map(|(outcome, _)| outcome.name());
        assert_eq!(outcome, Some(expected), "{}", load.errors());
        assert!(load.errors().contains(reason.unwrap_or_default()));
    }
    // Calls of a method also have rules for the messages of responses.
    let mut proto = tempfile::Builder::new()
        .suffix(".proto")
        .tempfile()
        .unwrap();
    let text = "syntax = \"proto3\"; message M {} service S { rpc Get(M) returns (M); }";
    std::io::Write::write_all(&mut proto, text.as_bytes()).unwrap();
    let words = format!("-n 6 -c 1 --grpc S/Get --proto {}", proto.path().display());
    let message = b"\x00\x05\0\0\0\0\0";
    for (data, expected) in [(&message[..], "ok"), (b"\x00\x02hi", "grpc_frame")] {
        let trailers = headers(&[], &[("grpc-status", "0")]);
        let bytes = [headers(OK, &[content]), data.to_vec(), trailers].concat();
        let load = simulate(&words, GOOD, 100, always(finish(bytes)));
        let counts = load.all().into_iter();
        let counts = Vec::from_iter(counts.map(|(outcome, n)| (outcome.name(), n)));
        assert_eq!(counts, [(expected, 6)], "{}", load.errors());
    }
}
