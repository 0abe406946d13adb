//! Tests every frame in every state of a stream (RFC 9113 §5.1), and transitions between states.
//! `transitions` tests each transition of the figure by name.

use crate::bodies::h2::frames::{
    self, END_STREAM, NO_FLAGS, data, headers, rst_stream, window_update,
};
use crate::client::{Client, OK, lines};

const CANCEL: u32 = 8;

/// State of a stream, with a function that brings the client there.
struct State {
    name: &'static str,
    reach: fn(&mut Client),
    /// The stream's identifier. The stream is live in "open" and "half-closed (local)".
    stream: u32,
    live: bool,
}

const IDLE: State = State {
    name: "idle",
    reach: |_| {},
    stream: 1,
    live: false,
};

const OPEN: State = State {
    name: "open",
    reach: |client| {
        client.start("POST", &[b'x'; 70_000], 0);
    },
    stream: 1,
    live: true,
};

const HALF_CLOSED_LOCAL: State = State {
    name: "half-closed (local)",
    reach: |client| {
        client.start("POST", b"abc", 0);
        assert_eq!(
            client.sent().last().map(String::as_str),
            Some("DATA 1 3 END")
        );
    },
    stream: 1,
    live: true,
};

const ENDED: State = State {
    name: "closed by END_STREAM",
    reach: |client| {
        client.get(0);
        client.receive(&headers(1, END_STREAM, OK));
    },
    stream: 1,
    live: false,
};

const ENDED_LONG_AGO: State = State {
    name: "closed long ago",
    reach: |client| {
        for _ in 0..40 {
            let stream = client.get(0);
            client.receive(&headers(stream, END_STREAM, OK));
        }
    },
    stream: 1,
    live: false,
};

const RESET: State = State {
    name: "closed by the peer's RST_STREAM",
    reach: |client| {
        client.get(0);
        client.receive(&rst_stream(1, CANCEL));
    },
    stream: 1,
    live: false,
};

const CANCELED: State = State {
    name: "closed by this side's RST_STREAM",
    reach: |client| {
        client.get(0);
        client.cancel(0);
    },
    stream: 1,
    live: false,
};

const CANCELED_LONG_AGO: State = State {
    name: "canceled long ago",
    reach: |client| {
        client.get(0);
        client.cancel(0);
        for _ in 0..40 {
            let stream = client.get(0);
            client.receive(&headers(stream, END_STREAM, OK));
        }
    },
    stream: 1,
    live: false,
};

const RESPONDED_EARLY: State = State {
    name: "response complete before the request was sent",
    reach: |client| {
        client.start("POST", &[b'x'; 70_000], 0);
        assert_eq!(
            client.receive(&headers(1, END_STREAM, OK)),
            ["0: head 200", "0: end"]
        );
        let sent = client.sent();
        assert_eq!(sent, ["HEADERS 1", "RST_STREAM 1 8"]);
    },
    stream: 1,
    live: false,
};

const UNPROCESSED: State = State {
    name: "above the last stream of GOAWAY",
    reach: |client| {
        client.get(0);
        assert_eq!(client.receive(&frames::goaway(0, 0)).len(), 2);
    },
    stream: 1,
    live: false,
};

const SERVERS: State = State {
    name: "a stream of the server",
    reach: |_| {},
    stream: 2,
    live: false,
};

/// Sends each type of frame to a client in this state. `expected` contains the events caused by
/// HEADERS, DATA, RST_STREAM and WINDOW_UPDATE, in this order. PRIORITY is always ignored.
fn check(state: &State, expected: [&[&str]; 4]) {
    let stream = state.stream;
    let frames = [
        headers(stream, NO_FLAGS, OK),
        data(stream, NO_FLAGS, b"abc"),
        rst_stream(stream, CANCEL),
        window_update(stream, 1),
    ];
    for (frame, expected) in frames.iter().zip(expected) {
        let mut client = Client::new();
        (state.reach)(&mut client);
        client.sent();
        assert_eq!(
            client.inner.connection.active(),
            u32::from(state.live),
            "{}",
            state.name
        );
        assert!(
            client
                .receive(&frames::frame(frames::PRIORITY, 0, stream, &[0; 5]))
                .is_empty()
        );
        assert_eq!(client.receive(frame), lines(expected), "{}", state.name);
        if client.inner.connection.can_start().is_ok() {
            client.check_works();
        }
    }
}

#[test]
fn frames_on_idle_streams_are_errors() {
    let errors: [&[&str]; 4] = [
        &["IdleStream(Headers)"],
        &["IdleStream(Data)"],
        &["IdleStream(RstStream)"],
        &["IdleStream(WindowUpdate)"],
    ];
    check(&IDLE, errors);
    check(&SERVERS, errors);
}

#[test]
fn frames_on_live_streams_are_taken() {
    let taken: [&[&str]; 4] = [
        &["0: head 200"],
        &["0: DataBeforeHead"],
        &["0: reset CANCEL"],
        &[],
    ];
    check(&OPEN, taken);
    check(&HALF_CLOSED_LOCAL, taken);
}

#[test]
fn frames_on_streams_that_the_peer_closed_are_errors_unless_they_crossed() {
    let errors: [&[&str]; 4] = [
        &["ClosedStream(Headers)"],
        &["ClosedStream(Data)"],
        &[],
        &[],
    ];
    for state in [ENDED, ENDED_LONG_AGO, RESET, RESPONDED_EARLY] {
        check(&state, errors);
    }
}

#[test]
fn frames_on_streams_that_this_side_closed_are_ignored() {
    for state in [CANCELED, CANCELED_LONG_AGO, UNPROCESSED] {
        check(&state, [&[]; 4]);
    }
}

#[test]
fn idle_to_open_to_half_closed_local_to_closed() {
    let mut client = Client::new();
    client.start("POST", &[b'x'; 70_000], 0);
    let sent = client.sent();
    assert_eq!(sent[0], "HEADERS 1");
    let full = "DATA 1 16384";
    assert_eq!(sent[1..], [full, full, full, "DATA 1 16383"]);
    client.receive(&window_update(1, 9_999));
    client.receive(&window_update(0, 9_999));
    assert_eq!(client.sent(), ["DATA 1 4465 END"]);
    let events = client.receive(&headers(1, END_STREAM, OK));
    assert_eq!(events, ["0: head 200", "0: end"]);
    assert_eq!(client.inner.connection.active(), 0);
    client.check_works();
}

#[test]
fn open_to_closed_by_either_side() {
    let mut client = Client::new();
    client.start("POST", &[b'x'; 70_000], 0);
    client.start("POST", &[b'x'; 70_000], 1);
    client.sent();
    client.cancel(0);
    assert_eq!(
        client.receive(&rst_stream(3, 2)),
        ["1: reset INTERNAL_ERROR"]
    );
    assert_eq!(client.sent(), ["RST_STREAM 1 8"]);
    assert_eq!(client.inner.connection.active(), 0);
    client.receive(&window_update(0, 100_000));
    assert!(client.sent().is_empty(), "all streams have ended");
    client.check_works();
}

#[test]
fn half_closed_local_to_closed_by_either_side() {
    let mut client = Client::new();
    client.get(0);
    client.get(1);
    client.sent();
    client.receive(&headers(1, NO_FLAGS, OK));
    client.cancel(0);
    assert_eq!(
        client.receive(&rst_stream(3, 7)),
        ["1: unprocessed REFUSED_STREAM"]
    );
    assert_eq!(client.sent(), ["RST_STREAM 1 8"]);
    client.cancel(0);
    client.cancel(1);
    assert!(client.sent().is_empty(), "the streams had already ended");
    client.check_works();
}

#[test]
fn half_closed_remote_to_closed() {
    let mut client = Client::new();
    client.start("POST", &[b'x'; 70_000], 0);
    client.sent();
    client.receive(&headers(1, NO_FLAGS, OK));
    assert_eq!(
        client.receive(&data(1, END_STREAM, b"no")),
        ["0: body no", "0: end"]
    );
    assert_eq!(client.sent(), ["RST_STREAM 1 8"]);
    // The server didn't need the rest of the request.
    assert!(client.receive(&rst_stream(1, 0)).is_empty());
    client.check_works();
}

#[test]
fn a_canceled_stream_counts_for_flow_control_and_for_the_table() {
    let mut client = Client::new();
    client.get(0);
    client.cancel(0);
    client.sent();
    // The block inserts an entry that another stream uses.
    assert!(
        client
            .receive(&headers(1, NO_FLAGS, b"\x48\x03404"))
            .is_empty()
    );
    for _ in 0..3 {
        assert!(client.receive(&data(1, NO_FLAGS, &[0; 16_000])).is_empty());
    }
    assert_eq!(client.sent(), ["WINDOW_UPDATE 0 48000"]);
    client.get(1);
    assert_eq!(
        client.receive(&headers(3, END_STREAM, b"\xbe")),
        ["1: head 404", "1: end"]
    );
}

#[test]
fn a_stream_may_be_canceled_at_every_byte_of_its_response() {
    let answer = [
        headers(1, NO_FLAGS, OK),
        data(1, frames::PADDED, b"\x03abc\0\0\0"),
        frames::frame(frames::HEADERS, END_STREAM, 1, b"\x40\x01"),
        frames::frame(frames::CONTINUATION, frames::END_HEADERS, 1, b"a\x01b"),
    ]
    .concat();
    for at in 0..answer.len() {
        let mut client = Client::new();
        client.get(0);
        client.receive(&answer[..at]);
        client.cancel(0);
        assert!(
            client.receive(&answer[at..]).is_empty(),
            "canceled behind {at} bytes"
        );
        client.check_works();
    }
}
