//! Tests each transition of Figure 2 in RFC 9113 §5.1 in memory, with its events and output. Each
//! test case has the transition's name in the figure. The transitions of "reserved (local)" exist
//! only in servers. Those of "reserved (remote)" begin with a PUSH_PROMISE, which is refused.

use crate::bodies::h2::frames::{
    self, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, NO_FLAGS, block, data, frame, headers,
    rst_stream, settings, window_update,
};
use crate::client::{Client, OK, lines};

const REFUSED_STREAM: u32 = 7;

/// A body larger than both initial windows.
const LARGE: &[u8] = &[b'x'; 70_000];

/// Function that brings stream 1 to the start of a transition.
type Start = fn(&mut Client);

const IDLE: Start = |_| {};

const OPEN: Start = |client| {
    client.start("POST", LARGE, 0);
    client.sent();
};

const HALF_CLOSED_LOCAL: Start = |client| {
    client.get(0);
    client.sent();
};

/// The stream is open, and the head of the response has arrived.
const OPEN_WITH_HEAD: Start = |client| {
    OPEN(client);
    client.receive(&headers(1, NO_FLAGS, OK));
};

const HALF_CLOSED_LOCAL_WITH_HEAD: Start = |client| {
    HALF_CLOSED_LOCAL(client);
    client.receive(&headers(1, NO_FLAGS, OK));
};

/// Action of one side. Returns the events or frames that the action causes.
type Act = fn(&mut Client) -> Vec<String>;

struct Arrow {
    /// Name of the transition as in the figure: from, trigger, to.
    name: &'static str,
    start: Start,
    act: Act,
    /// Events caused by the action.
    events: &'static [&'static str],
    /// Output caused by the action.
    sent: &'static [&'static str],
    to: State,
}

/// State of stream 1, as visible to its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    HalfClosedLocal,
    /// Closed by this side's RST_STREAM: later frames are ignored.
    ClosedHere,
    /// Closed by the peer's END_STREAM or RST_STREAM: later frames are not allowed.
    ClosedThere,
    /// The connection has ended.
    None,
}

/// Determines the state of stream 1 from the client's reactions.
fn state(client: &mut Client) -> State {
    if client.inner.has_failed() {
        return State::None;
    }
    if client.inner.connection.active() == 1 {
        let opened = [window_update(1, 100_000), window_update(0, 100_000)].concat();
        assert!(client.receive(&opened).is_empty());
        return match client.sent().first() {
            Some(line) if line.starts_with("DATA 1") => State::Open,
            Some(line) => panic!("{line}"),
            None => State::HalfClosedLocal,
        };
    }
    match client.receive(&data(1, NO_FLAGS, b"probe")).first() {
        None => State::ClosedHere,
        Some(event) if event == "ClosedStream(Data)" => State::ClosedThere,
        Some(event) if event == "IdleStream(Data)" => State::Idle,
        Some(event) => panic!("{event}"),
    }
}

fn check(arrows: &[Arrow]) {
    for arrow in arrows {
        let mut client = Client::new();
        (arrow.start)(&mut client);
        let events = (arrow.act)(&mut client);
        assert_eq!(events, lines(arrow.events), "{}", arrow.name);
        assert_eq!(client.sent(), lines(arrow.sent), "{}", arrow.name);
        assert_eq!(state(&mut client), arrow.to, "{}", arrow.name);
    }
}

#[test]
fn from_idle() {
    check(&[
        Arrow {
            name: "idle",
            start: IDLE,
            act: |_| Vec::new(),
            events: &[],
            sent: &[],
            to: State::Idle,
        },
        Arrow {
            name: "idle -> send H -> open",
            start: IDLE,
            act: |client| vec![client.start("POST", LARGE, 0).to_string()],
            events: &["1"],
            sent: &[
                "HEADERS 1",
                "DATA 1 16384",
                "DATA 1 16384",
                "DATA 1 16384",
                "DATA 1 16383",
            ],
            to: State::Open,
        },
        Arrow {
            name: "idle -> send H, ES -> half-closed (local)",
            start: IDLE,
            act: |client| vec![client.get(0).to_string()],
            events: &["1"],
            sent: &["HEADERS 1 END"],
            to: State::HalfClosedLocal,
        },
        Arrow {
            name: "idle -> recv H, which only a client may send",
            start: IDLE,
            act: |client| client.receive(&headers(2, NO_FLAGS, OK)),
            events: &["IdleStream(Headers)"],
            sent: &["GOAWAY 0 1"],
            to: State::None,
        },
        Arrow {
            name: "idle -> recv PP -> reserved (remote), which was forbidden",
            start: HALF_CLOSED_LOCAL,
            act: |client| {
                let promise = frame(frames::PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x82");
                client.receive(&promise)
            },
            events: &["Push"],
            sent: &["GOAWAY 0 1"],
            to: State::None,
        },
    ]);
}

#[test]
fn from_idle_to_closed_by_a_later_stream() {
    let mut client = Client::new();
    // Stream 17 would use the slot of stream 1, which is still open.
    let mut streams = vec![client.get(0)];
    for tag in 1..9 {
        let stream = client.get(tag);
        client.receive(&headers(stream, END_STREAM, OK));
        streams.push(stream);
    }
    assert_eq!(streams, [1, 3, 5, 7, 9, 11, 13, 15, 19]);
    let left_out = headers(17, END_STREAM, OK);
    assert_eq!(client.receive(&left_out), ["ClosedStream(Headers)"]);
}

#[test]
fn from_open_by_an_end() {
    check(&[
        Arrow {
            name: "open -> send ES -> half-closed (local)",
            start: OPEN,
            act: |client| {
                client.receive(&[window_update(1, 9_999), window_update(0, 9_999)].concat())
            },
            events: &[],
            sent: &["DATA 1 4465 END"],
            to: State::HalfClosedLocal,
        },
        Arrow {
            name: "open -> recv ES (HEADERS) -> half-closed (remote) -> send R -> closed",
            start: OPEN,
            act: |client| client.receive(&headers(1, END_STREAM, OK)),
            events: &["0: head 200", "0: end"],
            sent: &["RST_STREAM 1 8"],
            to: State::ClosedThere,
        },
        Arrow {
            name: "open -> recv ES (DATA) -> half-closed (remote) -> send R -> closed",
            start: OPEN_WITH_HEAD,
            act: |client| client.receive(&data(1, END_STREAM, b"no")),
            events: &["0: body no", "0: end"],
            sent: &["RST_STREAM 1 8"],
            to: State::ClosedThere,
        },
        Arrow {
            name: "open -> recv ES, then recv R",
            start: OPEN_WITH_HEAD,
            act: |client| {
                let frames = [data(1, END_STREAM, b""), rst_stream(1, 0)];
                client.receive(&frames.concat())
            },
            events: &["0: end"],
            sent: &["RST_STREAM 1 8"],
            to: State::ClosedThere,
        },
    ]);
}

#[test]
fn from_open_to_closed_or_to_nowhere() {
    check(&[
        Arrow {
            name: "open -> send R -> closed",
            start: OPEN,
            act: |client| {
                client.cancel(0);
                Vec::new()
            },
            events: &[],
            sent: &["RST_STREAM 1 8"],
            to: State::ClosedHere,
        },
        Arrow {
            name: "open -> send R for a stream error -> closed",
            start: OPEN,
            act: |client| client.receive(&data(1, NO_FLAGS, b"x")),
            events: &["0: DataBeforeHead"],
            sent: &["RST_STREAM 1 1"],
            to: State::ClosedHere,
        },
        Arrow {
            name: "open -> recv R -> closed",
            start: OPEN,
            act: |client| client.receive(&rst_stream(1, REFUSED_STREAM)),
            events: &["0: unprocessed REFUSED_STREAM"],
            sent: &[],
            to: State::ClosedThere,
        },
        Arrow {
            name: "open, above the last stream of GOAWAY",
            start: OPEN,
            act: |client| client.receive(&frames::goaway(0, 0)),
            events: &["goaway 0 NO_ERROR", "0: unprocessed NO_ERROR"],
            sent: &[],
            to: State::ClosedHere,
        },
        Arrow {
            name: "open -> recv H, DATA, WINDOW_UPDATE, PRIORITY -> open",
            start: OPEN,
            act: |client| {
                let frames = [
                    headers(1, NO_FLAGS, OK),
                    data(1, NO_FLAGS, b"x"),
                    window_update(1, 1),
                    frame(frames::PRIORITY, NO_FLAGS, 1, &[0; 5]),
                ];
                client.receive(&frames.concat())
            },
            events: &["0: head 200", "0: body x"],
            sent: &[],
            to: State::Open,
        },
    ]);
}

#[test]
fn from_half_closed_local_by_an_end() {
    check(&[
        Arrow {
            name: "half-closed (local) -> recv ES (HEADERS) -> closed",
            start: HALF_CLOSED_LOCAL,
            act: |client| client.receive(&headers(1, END_STREAM, OK)),
            events: &["0: head 200", "0: end"],
            sent: &[],
            to: State::ClosedThere,
        },
        Arrow {
            name: "half-closed (local) -> recv ES (HEADERS and CONTINUATION) -> closed",
            start: HALF_CLOSED_LOCAL,
            act: |client| {
                let frames = [
                    frame(HEADERS, END_STREAM, 1, b"\x48"),
                    frame(CONTINUATION, END_HEADERS, 1, b"\x03404"),
                ];
                client.receive(&frames.concat())
            },
            events: &["0: head 404", "0: end"],
            sent: &[],
            to: State::ClosedThere,
        },
        Arrow {
            name: "half-closed (local) -> recv ES (DATA) -> closed",
            start: HALF_CLOSED_LOCAL_WITH_HEAD,
            act: |client| client.receive(&data(1, END_STREAM, b"")),
            events: &["0: end"],
            sent: &[],
            to: State::ClosedThere,
        },
        Arrow {
            name: "half-closed (local) -> recv ES (trailers) -> closed",
            start: HALF_CLOSED_LOCAL_WITH_HEAD,
            act: |client| client.receive(&headers(1, END_STREAM, &block(&[("a", "b")]))),
            events: &["0: trailers", "0: end"],
            sent: &[],
            to: State::ClosedThere,
        },
    ]);
}

#[test]
fn from_half_closed_local_without_an_end_of_the_answer() {
    check(&[
        Arrow {
            name: "half-closed (local) -> send R -> closed",
            start: HALF_CLOSED_LOCAL_WITH_HEAD,
            act: |client| {
                client.cancel(0);
                Vec::new()
            },
            events: &[],
            sent: &["RST_STREAM 1 8"],
            to: State::ClosedHere,
        },
        Arrow {
            name: "half-closed (local) -> send R for a stream error -> closed",
            start: HALF_CLOSED_LOCAL,
            act: |client| client.receive(&headers(1, END_STREAM, b"")),
            events: &["0: Fields(NoStatus)"],
            sent: &["RST_STREAM 1 1"],
            to: State::ClosedHere,
        },
        Arrow {
            name: "half-closed (local) -> recv R -> closed",
            start: HALF_CLOSED_LOCAL_WITH_HEAD,
            act: |client| client.receive(&rst_stream(1, 2)),
            events: &["0: reset INTERNAL_ERROR"],
            sent: &[],
            to: State::ClosedThere,
        },
        Arrow {
            name: "half-closed (local), above the last stream of GOAWAY",
            start: HALF_CLOSED_LOCAL,
            act: |client| client.receive(&frames::goaway(0, 2)),
            events: &["goaway 0 INTERNAL_ERROR", "0: unprocessed INTERNAL_ERROR"],
            sent: &[],
            to: State::ClosedHere,
        },
        Arrow {
            name: "half-closed (local) -> recv H, DATA, WINDOW_UPDATE, PRIORITY -> half-closed (local)",
            start: HALF_CLOSED_LOCAL,
            act: |client| {
                let frames = [
                    headers(1, NO_FLAGS, OK),
                    data(1, NO_FLAGS, b"x"),
                    window_update(1, 1),
                    frame(frames::PRIORITY, NO_FLAGS, 1, &[0; 5]),
                    settings(&[(4, 0)]),
                ];
                client.receive(&frames.concat())
            },
            events: &["0: head 200", "0: body x", "settings"],
            sent: &["SETTINGS ACK"],
            to: State::HalfClosedLocal,
        },
    ]);
}
