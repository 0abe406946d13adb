//! Tests of the limits that HTTP/2 servers set on streams, windows and heads. Loads must respect
//! the limits, and end even if a server allows nothing.

use std::time::Duration;

use prony_record::Outcome::Timeout;
use prony_record::Record;

use crate::h2_frames::*;
use crate::h2_peer::Peer;
use crate::h2_server::{Scripted, expect_fine};
use crate::harness::{errors, outcomes};

fn has_finding(record: &Record, id: &str) -> bool {
    record
        .findings
        .iter()
        .any(|finding| finding.id.as_str() == id)
}

/// Responds to half of the open requests at a time, so that others stay in flight. Asserts that at
/// most `limit` requests are in flight.
fn serve_within(peer: &mut Peer, limit: usize, mut open: Vec<u32>) -> Option<()> {
    loop {
        open.extend(peer.requests_so_far()?);
        assert!(
            open.len() <= limit,
            "{} streams, {limit} allowed",
            open.len()
        );
        if open.is_empty() {
            open.push(peer.request()?);
        }
        for stream in open.drain(..open.len().div_ceil(2)) {
            peer.send(&response(stream, b"fine"))?;
        }
    }
}

#[test]
fn a_limit_of_one_stream_is_respected_and_reported() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 1)])?;
        let before = peer.requests_so_far()?;
        // 50 requests may have arrived before the limit was known.
        for stream in before {
            peer.send(&response(stream, b"fine"))?;
        }
        serve_within(peer, 1, Vec::new())
    });
    let record = server.load("-n 200 -c 1 --streams 50");
    expect_fine(&record);
    assert!(
        has_finding(&record, "streams-limited"),
        "{:?}",
        record.findings
    );
    let record = Scripted::responding(|s| response(s, b"")).load("-n 200 -c 1 --streams 50");
    assert!(
        !has_finding(&record, "streams-limited"),
        "{:?}",
        record.findings
    );
}

#[test]
fn a_stream_limit_of_zero_is_waited_for() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 0)])?;
        for stream in peer.requests_so_far()? {
            peer.send(&response(stream, b"fine"))?;
        }
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(20));
            assert!(peer.requests_so_far()?.is_empty());
        }
        peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 10)])?;
        serve_within(peer, 10, Vec::new())
    });
    expect_fine(&server.load("-n 100 -c 1 --streams 20"));
}

#[test]
fn a_permanent_stream_limit_of_zero_ends_with_the_timeout() {
    let server = || {
        Scripted::clear(|peer| {
            peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 0)])?;
            for stream in peer.requests_so_far()? {
                peer.send(&response(stream, b"fine"))?;
            }
            assert!(peer.requests_so_far()?.is_empty());
            peer.read_to_end()
        })
    };
    let record = server().load("-n 8 -c 1 --streams 5 --timeout 300ms");
    assert!(record.totals.failed > 0, "{:?}", record.totals);
    assert!(
        has_finding(&record, "streams-limited"),
        "{:?}",
        record.findings
    );
    let record = server().load("-d 500ms -c 2 --streams 5 --timeout 20s");
    assert!(
        has_finding(&record, "streams-limited"),
        "{:?}",
        record.findings
    );
    let record = server().load("-d 500ms -r 100 -c 2 --streams 5 --timeout 20s");
    assert!(
        has_finding(&record, "streams-limited"),
        "{:?}",
        record.findings
    );
}

#[test]
fn settings_that_come_late_are_waited_for() {
    let server = || {
        Scripted::clear(|peer| {
            std::thread::sleep(Duration::from_millis(150));
            peer.send_settings(&[])?;
            serve_within(peer, 4, Vec::new())
        })
    };
    expect_fine(&server().load("-n 40 -c 2 --streams 4"));
    // The limit arrives after the first request's timeout.
    let record = server().load("-n 40 -c 2 --streams 4 --timeout 100ms");
    assert!(record.totals.failed >= 2, "{:?}", record.totals);
}

#[test]
fn a_constantly_changing_limit_is_respected() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 8)])?;
        let mut open = Vec::new();
        for limit in [1, 8, 0, 3, 8, 2].into_iter().cycle() {
            open.extend(peer.requests_so_far()?);
            assert!(open.len() <= 8, "{}", open.len());
            peer.send_settings(&[(MAX_CONCURRENT_STREAMS, limit)])?;
            for stream in open.drain(open.len() / 3..) {
                peer.send(&response(stream, b"fine"))?;
            }
        }
        None
    });
    expect_fine(&server.load("-n 300 -c 1 --streams 20"));
}

#[test]
fn a_limit_that_decreases_during_a_load_is_respected() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 20)])?;
        let mut open = Vec::new();
        for _ in 0..20 {
            open.extend(peer.requests_so_far()?);
            for stream in open.drain(..open.len() / 2) {
                peer.send(&response(stream, b"fine"))?;
            }
        }
        peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 2)])?;
        // Requests in flight may finish, and no new ones begin.
        open.extend(peer.requests_so_far()?);
        while open.len() > 2 {
            peer.send(&response(open.pop()?, b"fine"))?;
            let more = peer.requests_so_far()?;
            assert!(
                more.is_empty() || open.len() < 2,
                "{} and {}",
                more.len(),
                open.len()
            );
            open.extend(more);
        }
        serve_within(peer, 2, open)
    });
    expect_fine(&server.load("-n 500 -c 1 --streams 20"));
}

#[test]
fn request_bodies_go_no_further_than_the_windows() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; 200_000]).unwrap();
    let words = format!("-X POST --body-file {}", body.display());
    // The client may send the first 65,535 bytes on a connection before SETTINGS arrive, but no
    // more.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(INITIAL_WINDOW_SIZE, 0)])?;
        peer.read_to_end()
    });
    let record = server.load(&format!("-n 4 -c 2 --streams 2 --timeout 300ms {words}"));
    assert_eq!(outcomes(&record), [(Timeout, 4)]);
    assert!(
        server.seen().body_bytes <= 2 * 65_535,
        "{}",
        server.seen().body_bytes
    );
    let (counted, seen) = (record.totals.bytes_out, server.seen().body_bytes as u64);
    assert!((seen..seen + 10_000).contains(&counted), "{counted} {seen}");
    // The windows grow a little, grow more, shrink, and then become large enough for everything.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(INITIAL_WINDOW_SIZE, 0)])?;
        loop {
            let stream = peer.request()?;
            for _ in 0..100 {
                peer.send(&[window_update(stream, 1), window_update(0, 1)].concat())?;
            }
            peer.send_settings(&[(INITIAL_WINDOW_SIZE, 50_000)])?;
            peer.send_settings(&[(INITIAL_WINDOW_SIZE, 0)])?;
            peer.send(&[window_update(stream, 200_000), window_update(0, 200_000)].concat())?;
            peer.body(stream)?;
            peer.send(&response(stream, b"fine"))?;
        }
    });
    expect_fine(&server.load(&format!("-n 10 -c 2 {words}")));
    assert_eq!(server.seen().body_bytes, 10 * 200_000);
}

#[test]
fn a_response_before_a_large_body_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; 5_000_000]).unwrap();
    // The response is followed by RST_STREAM (NO_ERROR), as in RFC 9113 §8.1, or by nothing.
    for reset in [true, false] {
        let server = Scripted::responding(move |s| {
            let reset = if reset { rst_stream(s, 0) } else { Vec::new() };
            let head = headers(s, END_HEADERS, &status(413));
            [head, data(s, END_STREAM, "no"), reset].concat()
        });
        let words = format!("-X POST --body-file {} --expect-status 413", body.display());
        let record = server.load(&format!("-n 20 -c 2 --streams 3 {words}"));
        expect_fine(&record);
        assert_eq!(record.totals.connections_opened, 2);
    }
}

#[test]
fn large_responses_do_not_wait_for_window_updates() {
    // The server sends 40 MB, and reads no window update before the end.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        loop {
            let stream = peer.request()?;
            peer.send(&headers(stream, END_HEADERS, &status(200)))?;
            let piece = data(stream, 0, [b'x'; 16_384]);
            for _ in 0..2_500 {
                peer.send(&piece)?;
            }
            peer.send(&data(stream, END_STREAM, ""))?;
        }
    });
    expect_fine(&server.load("-n 4 -c 2 --expect-size 40960000"));
}

#[test]
fn windows_of_maximum_size() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[
            (INITIAL_WINDOW_SIZE, MAX_U31),
            (5, 0xff_ffff),
            (1, u32::MAX),
            (2, 0),
        ])?;
        peer.send(&window_update(0, MAX_U31 - 65_535))?;
        loop {
            let stream = peer.request()?;
            peer.body(stream)?;
            peer.send(&response(stream, b"fine"))?;
        }
    });
    expect_fine(&server.load("-n 12 -c 2 -X POST --body hello"));
}

#[test]
fn a_server_that_accepts_no_headers_is_reported() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(6, 10)])?;
        for stream in peer.requests_so_far()? {
            peer.send(&response(stream, b"fine"))?;
        }
        assert!(peer.requests_so_far()?.is_empty());
        peer.read_to_end()
    });
    let record = server.load("-n 40 -c 1 --streams 2 --timeout 1s");
    assert!(record.totals.failed > 0);
    assert!(
        errors(&record).contains("10 bytes of headers"),
        "{}",
        errors(&record)
    );
}
