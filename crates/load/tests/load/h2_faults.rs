//! Tests of HTTP/2 exchanges that fail: streams that are reset, connections that close, break or
//! stall, and the outcomes of the other streams on these connections.

use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use prony_record::Outcome::{self, ClosedEarly, Ok as Fine, Protocol, Reset, Timeout, Truncated};

use crate::h2_frames::*;
use crate::h2_peer::Peer;
use crate::h2_server::{Scripted, expect, load_h2};
use crate::harness::{Raw, until_gone};

const REFUSED_STREAM: u32 = 7;

/// Responds to all remaining requests.
fn serve(peer: &mut Peer) -> Option<()> {
    loop {
        let stream = peer.request()?;
        peer.send(&response(stream, b"fine"))?;
    }
}

#[test]
fn streams_that_are_reset_have_the_reason_and_leave_the_connection() {
    for (code, name) in [
        (0, "NO_ERROR"),
        (1, "PROTOCOL_ERROR"),
        (2, "INTERNAL_ERROR"),
        (8, "CANCEL"),
        (11, "ENHANCE_YOUR_CALM"),
        (13, "HTTP_1_1_REQUIRED"),
        (0xbeef, "0xbeef"),
    ] {
        for part in [|_| Vec::new(), half] {
            let server = Scripted::clear(move |peer| {
                peer.send_settings(&[])?;
                loop {
                    let stream = peer.request()?;
                    peer.send(&[part(stream), rst_stream(stream, code)].concat())?;
                }
            });
            let record = server.load("-n 12 -c 2 --streams 3");
            expect(&record, &[(Reset, 12)], name);
            assert_eq!(record.totals.connections_opened, 2, "{name}");
            assert_eq!(record.totals.retried, 0, "{name}");
            assert!(server.seen().resets.is_empty());
        }
    }
}

#[test]
fn a_body_goes_no_further_than_a_reset_of_its_stream() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; 5 << 20]).unwrap();
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(INITIAL_WINDOW_SIZE, 1 << 20)])?;
        peer.send(&window_update(0, MAX_U31 - 65_535))?;
        loop {
            // Half of a stream's window has arrived; the rest may be in flight.
            let mut bytes = 0;
            let stream = loop {
                let frame = peer.next(DATA)?;
                bytes += frame.payload.len();
                if bytes > 1 << 19 {
                    break frame.stream;
                }
            };
            peer.send(&rst_stream(stream, 8))?;
            while peer.next(DATA)?.stream == stream {}
        }
    });
    let words = format!("-X POST --body-file {}", body.display());
    let record = server.load(&format!("-n 10 -c 1 --streams 1 --timeout 5s {words}"));
    expect(&record, &[(Reset, 10)], "CANCEL");
    assert_eq!(record.totals.connections_opened, 1);
    let most = 10 << 20;
    assert!(
        server.seen().body_bytes <= most,
        "{}",
        server.seen().body_bytes
    );
}

#[test]
fn a_refused_request_is_retried() {
    // The server refuses every request.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        loop {
            let stream = peer.request()?;
            peer.send(&rst_stream(stream, REFUSED_STREAM))?;
        }
    });
    let record = server.load("-n 12 -c 2 --streams 3");
    expect(&record, &[(Reset, 12)], "REFUSED_STREAM");
    assert_eq!(record.totals.retried, 12);
    assert_eq!(server.seen().requests, 24);
    // The server refuses only the first request on each connection. A POST is retried as well,
    // because the server did not process it.
    for words in ["", "-X POST --body hello"] {
        let server = Scripted::clear(|peer| {
            peer.send_settings(&[])?;
            let first = peer.request()?;
            peer.send(&rst_stream(first, REFUSED_STREAM))?;
            serve(peer)
        });
        let record = server.load(&format!("-n 12 -c 2 --streams 3 {words}"));
        expect(&record, &[(Fine, 12)], "");
        assert_eq!(record.totals.retried, 2);
    }
}

#[test]
fn requests_beyond_goaway_are_retried() {
    // The server responds to the first of three requests. The client sends the other two on its
    // next connection.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        if peer.connection_index > 0 {
            return serve(peer);
        }
        let streams = peer.requests(3)?;
        peer.send(&goaway(streams[0], 0))?;
        peer.send(&response(streams[0], b"fine"))?;
        peer.read_to_end()
    });
    let record = server.load("-n 3 -c 1 --streams 3");
    expect(&record, &[(Fine, 3)], "");
    assert_eq!(
        (record.totals.retried, record.totals.connections_opened),
        (2, 2)
    );
    // A POST is retried too, because GOAWAY shows that it was not processed.
    let record = server.load("-n 3 -c 1 --streams 3 -X POST --body x");
    expect(&record, &[(Fine, 3)], "");
}

#[test]
fn requests_beyond_goaway_are_retried_at_once() {
    // The server responds to the first of three requests only after it has received the other two
    // on another connection.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        if peer.connection_index > 0 {
            return serve(peer);
        }
        let streams = peer.requests(3)?;
        peer.send(&goaway(streams[0], 0))?;
        while peer.seen().requests < 5 {
            std::thread::sleep(Duration::from_millis(5));
            peer.send(&frame(PING, 0, 0, b"are you?"))?;
        }
        peer.send(&response(streams[0], b"fine"))?;
        peer.read_to_end()
    });
    let record = server.load("-n 3 -c 1 --streams 3 --timeout 2s");
    expect(&record, &[(Fine, 3)], "");
    assert_eq!(record.totals.retried, 2);
}

#[test]
fn goaway_after_every_tenth_request_loses_none() {
    for in_two_steps in [false, true] {
        let server = Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            for _ in 0..9 {
                let stream = peer.request()?;
                peer.send(&response(stream, b"fine"))?;
            }
            let last = peer.request()?;
            if in_two_steps {
                peer.send(&goaway(MAX_U31, 0))?;
            }
            peer.send(&[goaway(last, 0), response(last, b"fine")].concat())?;
            peer.close()
        });
        let record = server.load("-n 200 -c 2 --streams 4");
        expect(&record, &[(Fine, 200)], "");
        assert!(
            record.totals.connections_opened >= 20,
            "{:?}",
            record.totals
        );
    }
}

#[test]
fn successive_slow_goaways() {
    // Each connection takes one request and sends GOAWAY before its response, so the next
    // connection is opened while this one is still in use.
    let server = Scripted::clear(|peer| {
        while peer.frame()?.kind != HEADERS {}
        // These frames are sent in one write, so no second request can begin between them.
        peer.send(&[settings(&[]), goaway(1, 0)].concat())?;
        std::thread::sleep(Duration::from_millis(20));
        peer.send(&response(1, b"fine"))?;
        peer.read_to_end()
    });
    for words in [
        "-c 1 --streams 3",
        "-c 3 --streams 2",
        "-c 2 --streams 4 -t 2",
    ] {
        let record = server.load(&format!("-n 30 {words}"));
        expect(&record, &[(Fine, 30)], "");
        assert_eq!(record.totals.connections_opened, 30, "{words}");
    }
}

#[test]
fn a_server_that_always_sends_goaway() {
    for (code, name) in [(0, ""), (2, "INTERNAL_ERROR"), (11, "ENHANCE_YOUR_CALM")] {
        let server = Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            peer.send(&goaway(0, code))?;
            peer.read_to_end()
        });
        let record = server.load("-n 6 -c 2 --streams 3");
        expect(&record, &[(Reset, 6)], name);
        assert_eq!(record.totals.retried, 6, "{name}");
    }
}

#[test]
fn a_server_that_sends_goaway_and_closes() {
    // The server may have processed all three requests.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        peer.requests(3)?;
        peer.send(&goaway(MAX_U31, 2))?;
        peer.close()
    });
    let record = server.load("-n 3 -c 1 --streams 3");
    expect(&record, &[(ClosedEarly, 3)], "");
    assert_eq!(record.totals.retried, 0);
}

#[test]
fn connections_that_end_too_early() {
    type Case = (fn(&[u32]) -> Vec<u8>, &'static [(Outcome, u64)]);
    let nothing = |_: &[u32]| Vec::new();
    let halves = |streams: &[u32]| streams.iter().flat_map(|&stream| half(stream)).collect();
    let interim = |streams: &[u32]| headers(streams[0], END_HEADERS, &status(103));
    let cut = |streams: &[u32]| [&half(streams[0])[..], &half(streams[1])[..7]].concat();
    let rows: [Case; 4] = [
        (nothing, &[(ClosedEarly, 3)]),
        (halves, &[(Truncated, 3)]),
        (interim, &[(ClosedEarly, 2), (Truncated, 1)]),
        // Half a frame does not yet belong to any response.
        (cut, &[(ClosedEarly, 2), (Truncated, 1)]),
    ];
    for (reply, closed) in rows {
        for resets in [false, true] {
            let server = Scripted::clear(move |peer| {
                peer.send_settings(&[])?;
                let streams = peer.requests(3)?;
                peer.send(&reply(&streams))?;
                if !resets {
                    return peer.close();
                }
                peer.reset()
            });
            let record = server.load("-n 3 -c 1 --streams 3");
            let expected = if resets { &[(Reset, 3)] } else { closed };
            expect(&record, expected, "");
            assert_eq!(record.totals.retried, 0);
        }
    }
}

#[test]
fn connections_that_end_before_settings() {
    let raw = Raw::new(|mut stream| {
        let _ = stream.shutdown(Shutdown::Write);
        until_gone(&mut stream);
    });
    expect(
        &load_h2(&raw.url(), "-n 6 -c 2 --streams 3"),
        &[(ClosedEarly, 6)],
        "",
    );
    let server = Scripted::clear(|peer| {
        while peer.frame()?.kind != HEADERS {}
        peer.reset()
    });
    expect(&server.load("-n 6 -c 2 --streams 3"), &[(Reset, 6)], "");
    let raw = Raw::new(|mut stream| until_gone(&mut stream));
    let record = load_h2(&raw.url(), "-n 6 -c 2 --streams 3 --timeout 200ms");
    expect(&record, &[(Timeout, 6)], "");
}

#[test]
fn requests_lost_on_a_reused_connection_are_retried() {
    // The server responds to one request per connection and drops the next one.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        let stream = peer.request()?;
        peer.send(&response(stream, b"fine"))?;
        peer.request()?;
        peer.close()
    });
    let record = server.load("-n 6 -c 1 --streams 1");
    expect(&record, &[(Fine, 6)], "");
    assert_eq!(
        (record.totals.retried, record.totals.connections_opened),
        (5, 6)
    );
    // Requests whose response has begun are not retried.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        let stream = peer.request()?;
        peer.send(&response(stream, b"fine"))?;
        let stream = peer.request()?;
        peer.send(&half(stream))?;
        peer.close()
    });
    let record = server.load("-n 6 -c 1 --streams 1");
    expect(&record, &[(Fine, 3), (Truncated, 3)], "");
    assert_eq!(record.totals.retried, 0);
}

#[test]
fn a_stalled_stream_times_out_alone() {
    for part in [|_| Vec::new(), half] {
        let server = Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            let silent = peer.request()?;
            peer.send(&part(silent))?;
            serve(peer)
        });
        let record = server.load("-n 200 -c 1 --streams 4 --timeout 1s");
        expect(&record, &[(Fine, 199), (Timeout, 1)], "");
        assert_eq!(record.totals.connections_opened, 1);
    }
}

#[test]
fn an_endless_frame_blocks_all_streams() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        let streams = peer.requests(4)?;
        peer.send(&response(streams[0], b"fine"))?;
        peer.send(&half(streams[1])[..20])?;
        peer.read_to_end()
    });
    let record = server.load("-n 4 -c 1 --streams 4 --timeout 300ms");
    expect(&record, &[(Fine, 1), (Timeout, 3)], "");
}

#[test]
fn a_late_response_is_not_assigned_to_another_request() {
    // The late responses arrive while the next requests are in flight.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        let late = peer.request()?;
        // RST_STREAM shows the server that the request was abandoned.
        peer.next(RST_STREAM)?;
        peer.send(&response(late, b"too late"))?;
        serve(peer)
    });
    let record = server.load("-n 20 -c 1 --streams 1 --timeout 300ms --expect-size 4");
    expect(&record, &[(Fine, 19), (Timeout, 1)], "");
    assert_eq!(record.totals.connections_opened, 1);
}

#[test]
fn one_bad_stream_among_twenty_good_ones() {
    let bad: [(FrameBuilder, Outcome, &str); 5] = [
        (
            |s| headers(s, ALL, &field("a", "b")),
            Protocol,
            "no :status",
        ),
        (
            |s| [half(s), data(s, END_STREAM, "")].concat(),
            Protocol,
            "shorter than",
        ),
        (|s| rst_stream(s, 8), Reset, "CANCEL"),
        (
            |s| [half(s), rst_stream(s, 2)].concat(),
            Reset,
            "INTERNAL_ERROR",
        ),
        (|s| window_update(s, 0), Protocol, "increment of 0"),
    ];
    for (reply, outcome, reason) in bad {
        let server = Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            for n in 0_usize.. {
                let stream = peer.request()?;
                let bad = n.is_multiple_of(21);
                peer.send(&if bad {
                    reply(stream)
                } else {
                    response(stream, b"fine")
                })?;
            }
            None
        });
        let record = server.load("-n 210 -c 1 --streams 21 --expect-size 4");
        expect(&record, &[(Fine, 200), (outcome, 10)], reason);
        assert_eq!(record.totals.connections_opened, 1, "{reason}");
    }
}

#[test]
fn one_bad_connection_next_to_a_good_one() {
    let has_begun = Arc::new((Mutex::new(false), Condvar::new()));
    let server = Scripted::clear(move |peer| {
        peer.send_settings(&[])?;
        let (begun, condition) = &*has_begun;
        if peer.connection_index > 0 {
            // Without this wait, the good connection could finish the load before the bad one has
            // its requests.
            let waiting = begun.lock().unwrap();
            drop(condition.wait_while(waiting, |begun| !*begun).unwrap());
            return serve(peer);
        }
        let streams = peer.requests(21)?;
        *begun.lock().unwrap() = true;
        condition.notify_all();
        for &stream in &streams[..20] {
            peer.send(&response(stream, b"fine"))?;
        }
        peer.send(&[0xff; 9])?;
        peer.read_to_end()
    });
    // Requests that replaced the first 20 requests fail together with the remaining request.
    let record = server.load("-n 500 -c 2 --streams 21");
    let failed = record.totals.failed;
    assert!((1..=21).contains(&failed), "{failed}");
    expect(
        &record,
        &[(Fine, 500 - failed), (Protocol, failed)],
        "more than 16384 bytes",
    );
}
