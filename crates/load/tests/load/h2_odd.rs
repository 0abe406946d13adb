//! Tests of HTTP/2 servers with valid but unusual behavior: every request must succeed.

use std::time::Duration;

use prony_record::Outcome::{Ok as Fine, UnexpectedSize, UnexpectedStatus};

use crate::h2_frames::*;
use crate::h2_peer::Peer;
use crate::h2_server::{Scripted, expect, expect_fine};
use crate::harness::{errors, outcomes};

/// Creates a response that uses every optional feature of the protocol, with a body of 18 bytes.
fn rich(stream: u32) -> Vec<u8> {
    let block = head(&[("a", "b"), ("content-length", "18")]);
    [
        headers(
            stream,
            END_HEADERS,
            &[status(103), field("link", "</x>")].concat(),
        ),
        headers(
            stream,
            WITH_PRIORITY,
            &[&[0, 0, 0, 0, 9], &block[..4]].concat(),
        ),
        frame(CONTINUATION, 0, stream, &block[4..9]),
        frame(CONTINUATION, 0, stream, &[]),
        frame(CONTINUATION, END_HEADERS, stream, &block[9..]),
        frame(PING, 0, 0, b"are you?"),
        data(stream, PADDED, b"\x03hello \0\0\0"),
        data(stream, 0, ""),
        window_update(stream, 9),
        data(stream, PADDED, b"\0there, "),
        frame(0xee, 0xff, stream, b"unknown"),
        settings(&[(0x99, 7)]),
        data(stream, 0, "world"),
        headers(
            stream,
            ALL | PADDED,
            &[&[2], &field("t", "z")[..], &[0, 0]].concat(),
        ),
    ]
    .concat()
}

#[test]
fn a_response_with_all_optional_parts() {
    expect_fine(&Scripted::responding(rich).load("-n 40 -c 2 --streams 4 --expect-size 18"));
}

#[test]
fn one_byte_at_a_time() {
    let server = Scripted::clear(|peer| {
        for byte in settings(&[(MAX_CONCURRENT_STREAMS, 50)]) {
            peer.send(&[byte])?;
        }
        loop {
            let stream = peer.request()?;
            for byte in rich(stream) {
                peer.send(&[byte])?;
            }
        }
    });
    expect_fine(&server.load("-n 12 -c 2 --streams 3 --expect-size 18"));
}

#[test]
fn a_response_in_two_pieces_split_anywhere() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        for n in 0.. {
            let stream = peer.request()?;
            let bytes = rich(stream);
            let (one, two) = bytes.split_at(n % bytes.len());
            peer.send(one)?;
            // The pause lets the client read the first piece separately, unless the machine is very
            // busy.
            std::thread::sleep(Duration::from_millis(2));
            peer.send(two)?;
        }
        None
    });
    let n = rich(1).len();
    expect_fine(&server.load(&format!("-n {n} -c 1 --expect-size 18")));
}

#[test]
fn interleaved_responses() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        loop {
            // The last request gets the first response, and the bodies are interleaved.
            let mut streams = peer.requests(10)?;
            streams.reverse();
            let mut bytes: Vec<u8> = streams
                .iter()
                .flat_map(|&s| headers(s, END_HEADERS, &head(&[("content-length", "300")])))
                .collect();
            for _ in 0..99 {
                bytes.extend(streams.iter().flat_map(|&s| data(s, 0, "abc")));
            }
            bytes.extend(streams.iter().flat_map(|&s| data(s, END_STREAM, "abc")));
            peer.send(&bytes)?;
        }
    });
    expect_fine(&server.load("-n 100 -c 1 --streams 10 --expect-size 300"));
}

#[test]
fn a_head_in_a_hundred_and_twenty_frames() {
    let server = Scripted::responding(|stream| {
        let block = [status(200), field("a", "b").repeat(40)].concat();
        let mut bytes = headers(stream, END_STREAM, &block[..1]);
        for byte in &block[1..120] {
            bytes.extend(frame(CONTINUATION, 0, stream, &[*byte]));
        }
        bytes.extend(frame(CONTINUATION, END_HEADERS, stream, &block[120..]));
        bytes
    });
    expect_fine(&server.load("-n 12 -c 2 --streams 3 --expect-size 0"));
}

#[test]
fn responses_without_bodies() {
    let long = |s: u32| headers(s, ALL, &head(&[("content-length", "1000")]));
    expect_fine(&Scripted::responding(long).load("-n 12 -c 2 --streams 3 -X HEAD"));
    for code in [204, 304] {
        let server = Scripted::responding(move |s| {
            let block = [status(code), field("content-length", "1000")].concat();
            [headers(s, END_HEADERS, &block), data(s, END_STREAM, "")].concat()
        });
        expect_fine(&server.load("-n 12 -c 2 --streams 3"));
    }
    let trailers_only = |s: u32| {
        [
            headers(s, END_HEADERS, &status(200)),
            headers(s, ALL, &field("t", "z")),
        ]
        .concat()
    };
    expect_fine(
        &Scripted::responding(trailers_only).load("-n 12 -c 2 --streams 3 --expect-size 0"),
    );
}

#[test]
fn interim_responses() {
    let server = Scripted::responding(|s| {
        let hints = headers(
            s,
            END_HEADERS,
            &[status(103), field("link", "</x>")].concat(),
        );
        [hints.repeat(32), response(s, b"fine")].concat()
    });
    expect_fine(&server.load("-n 12 -c 2 --streams 3 --expect-size 4"));
    // The server sends an interim response before it reads the request's body, as if it waited for
    // the body.
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        loop {
            let stream = peer.request()?;
            peer.send(&headers(stream, END_HEADERS, &status(100)))?;
            peer.body(stream)?;
            peer.send(&response(stream, b"fine"))?;
        }
    });
    expect_fine(&server.load("-n 12 -c 2 -X POST --body hello -H Expect:100-continue"));
}

#[test]
fn the_dynamic_table_is_followed() {
    // The blocks insert two entries, refer to these entries, and then empty and enlarge the table.
    let first = [&[0x88, 0x40, 1, b'a', 1, b'b'], &[0x5c, 2, b'1', b'8'][..]].concat();
    let then = [0x88, 0xbf, 0xbe];
    let resized = [0x20, 0x3f, 0xe1, 0x1f, 0x88, 0x5c, 2, b'1', b'8'];
    let server = Scripted::clear(move |peer| {
        peer.send_settings(&[])?;
        for n in 0.. {
            let stream = peer.request()?;
            let block = match n % 10 {
                0 if n > 0 => &resized[..],
                _ if n >= 10 => &[0x88, 0xbe],
                0 => &first,
                _ => &then,
            };
            peer.send(&headers(stream, END_HEADERS, block))?;
            peer.send(&data(stream, END_STREAM, [b'x'; 18]))?;
        }
        None
    });
    expect_fine(&server.load("-n 60 -c 2 --streams 3 --expect-size 18"));
}

#[test]
fn a_smaller_table_size_is_acknowledged() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[(1, 0)])?;
        let mut due = false;
        loop {
            let frame = peer.frame()?;
            match frame.kind {
                SETTINGS if frame.flags & ACK != 0 => due = true,
                SETTINGS => peer.send(&self::frame(SETTINGS, ACK, 0, &[]))?,
                HEADERS => {
                    // The client sends a table size update to 0 (RFC 7541 §6.3) at the first
                    // opportunity.
                    let resized = frame.payload[0] == 0x20;
                    assert_eq!(resized, std::mem::take(&mut due), "{frame:x?}");
                    peer.send(&response(frame.stream, b"fine"))?;
                }
                _ => {}
            }
        }
    });
    expect_fine(&server.load("-n 40 -c 1 --streams 3"));
}

#[test]
fn a_thousand_streams() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        loop {
            let mut streams = peer.requests(1_000)?;
            streams.sort_by_key(|stream| stream % 7);
            let responses: Vec<u8> = streams.iter().flat_map(|&s| response(s, b"fine")).collect();
            peer.send(&responses)?;
        }
    });
    expect_fine(&server.load("-n 5000 -c 1 --streams 1000 --expect-size 4"));
}

#[test]
fn unexpected_responses_are_classified() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        for n in 0.. {
            let s = peer.request()?;
            let reply = match n % 4 {
                0 => headers(s, ALL, &status(500)),
                1 => [
                    headers(s, END_HEADERS, &status(404)),
                    data(s, END_STREAM, "no"),
                ]
                .concat(),
                2 => response(s, b"too much"),
                _ => response(s, b"fine"),
            };
            peer.send(&reply)?;
        }
        None
    });
    let record = server.load("-n 40 -c 1 --streams 4 --expect-size 4");
    let expected = [(Fine, 10), (UnexpectedStatus, 20), (UnexpectedSize, 10)];
    expect(&record, &expected, "");
    let statuses = [
        record.status[&200],
        record.status[&404],
        record.status[&500],
    ];
    assert_eq!(statuses, [20, 10, 10]);
    assert_eq!(record.totals.connections_opened, 1);
}

#[test]
fn bytes_between_requests_fail_no_request() {
    let idle: [fn(&mut Peer) -> Option<()>; 7] = [
        |peer| peer.send(&frame(PING, 0, 0, b"are you?")),
        |peer| peer.send_settings(&[(MAX_CONCURRENT_STREAMS, 7)]),
        |peer| peer.send(&goaway(MAX_U31, 0)),
        |peer| peer.send(&goaway(1, 11)),
        |peer| peer.close(),
        |peer| peer.reset(),
        // Without a request in flight, even a violation affects no request.
        |peer| peer.send(&[0xff; 9]),
    ];
    let check = |n: usize, misbehave: fn(&mut Peer) -> Option<()>| {
        let server = Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            loop {
                let stream = peer.request()?;
                peer.send(&response(stream, b"fine"))?;
                std::thread::sleep(Duration::from_millis(20));
                misbehave(peer)?;
            }
        });
        // At this low rate, the connection is idle for a long time afterwards, even on a busy
        // machine.
        let record = server.load("-n 4 -c 1 --streams 2 -r 1");
        assert_eq!(outcomes(&record), [(Fine, 4)], "{n}: {}", errors(&record));
        let opened = if n < 2 { 1 } else { 4 };
        assert_eq!(record.totals.connections_opened, opened, "{n}");
        assert_eq!(record.totals.retried, 0, "{n}");
    };
    std::thread::scope(|scope| {
        for (n, misbehave) in idle.into_iter().enumerate() {
            scope.spawn(move || check(n, misbehave));
        }
    });
}
