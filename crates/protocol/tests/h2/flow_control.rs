//! Tests of both sides' windows, for streams and connections (RFC 9113 §5.2, §6.9).

use prony_protocol::h2::{ClientSettings, ConnectionEvent};

use crate::bodies::h2::frames::{
    self, END_STREAM, NO_FLAGS, data, headers, settings, window_update,
};
use crate::client::{Client, OK, SMALL};

#[test]
fn a_body_is_sent_as_far_as_the_streams_window_is_open() {
    let mut client = Client::with(SMALL, &[(4, 10)]);
    client.start("POST", &[1; 25], 0);
    assert_eq!(client.sent(), ["HEADERS 1", "DATA 1 10"]);
    assert!(!client.inner.connection.has_output());
    client.receive(&window_update(1, 5));
    assert_eq!(client.sent(), ["DATA 1 5"]);
    client.receive(&window_update(1, 100));
    assert_eq!(client.sent(), ["DATA 1 10 END"]);
    assert!(client.sent().is_empty());
}

#[test]
fn streams_share_the_connections_window_and_take_turns() {
    let mut client = Client::new();
    client.start("POST", &[1; 40_000], 0);
    client.start("POST", &[2; 40_000], 1);
    let expected = [
        "HEADERS 1",
        "HEADERS 3",
        "DATA 1 16384",
        "DATA 3 16384",
        "DATA 1 16384",
        // The remainder of the connection's window of 65,535 bytes.
        "DATA 3 16383",
    ];
    assert_eq!(client.sent(), expected);
    client.receive(&window_update(3, 1));
    assert!(
        client.sent().is_empty(),
        "a stream's window does not open the connection's"
    );
    client.receive(&window_update(0, 100_000));
    assert_eq!(client.sent(), ["DATA 1 7232 END", "DATA 3 7233 END"]);
}

#[test]
fn the_initial_window_changes_for_live_streams_and_may_become_negative() {
    let mut client = Client::with(SMALL, &[(4, 100)]);
    client.start("POST", &[1; 200], 0);
    assert_eq!(client.sent(), ["HEADERS 1", "DATA 1 100"]);
    // The window is now −70 (RFC 9113 §6.9.2).
    client.receive(&settings(&[(4, 30)]));
    assert_eq!(client.sent(), ["SETTINGS ACK"]);
    client.receive(&window_update(1, 70));
    assert!(client.sent().is_empty());
    client.receive(&window_update(1, 1));
    assert_eq!(client.sent(), ["DATA 1 1"]);
    client.receive(&settings(&[(4, 40)]));
    assert_eq!(client.sent(), ["SETTINGS ACK", "DATA 1 10"]);
    // New streams begin with the new window size.
    client.start("POST", &[1; 50], 1);
    assert_eq!(client.sent(), ["HEADERS 3", "DATA 3 40"]);
}

#[test]
fn a_closed_window_causes_no_work() {
    let mut client = Client::with(SMALL, &[(4, 0)]);
    client.start("POST", b"abc", 0);
    assert_eq!(client.sent(), ["HEADERS 1"]);
    assert!(!client.inner.connection.has_output());
    client.receive(&window_update(0, 1_000));
    assert!(client.sent().is_empty());
    client.cancel(0);
    assert_eq!(client.sent(), ["RST_STREAM 1 8"]);
}

#[test]
fn a_large_body_is_sent_in_batches() {
    let mut client = Client::with(SMALL, &[(4, 1 << 20)]);
    client.receive(&window_update(0, 1 << 20));
    client.start("POST", &[3; 200_000], 0);
    let body = [3; 200_000];
    let mut batches = Vec::new();
    while client.inner.connection.has_output() {
        let mut out = Vec::new();
        client.inner.connection.take_output(&mut out, |_| &body);
        batches.push(frames::describe(&out).len());
    }
    assert_eq!(batches, [5, 4, 4, 1]);
}

#[test]
fn a_body_that_changed_is_not_completed() {
    let mut client = Client::with(SMALL, &[(4, 10)]);
    client.start("POST", &[1; 25], 0);
    client.sent();
    // Output may continue while a frame of the response is incomplete.
    let frames = [
        window_update(1, 100),
        headers(1, NO_FLAGS, OK),
        data(1, END_STREAM, b"abc"),
    ]
    .concat();
    let (mut first, mut rest) = frames.split_at(frames.len() - 2);
    let connection = &mut client.inner.connection;
    while connection.next(&mut first).expect("lawful") != ConnectionEvent::NeedMore {}
    let mut out = Vec::new();
    connection.take_output(&mut out, |_| b"short");
    assert_eq!(frames::describe(&out), ["RST_STREAM 1 2"]);
    assert_eq!(connection.active(), 0);
    assert_eq!(connection.next(&mut rest), Ok(ConnectionEvent::NeedMore));
}

#[test]
fn windows_are_opened_when_half_is_used() {
    let mut client = Client::new();
    client.get(0);
    client.sent();
    client.receive(&headers(1, NO_FLAGS, OK));
    client.receive(&data(1, NO_FLAGS, &[0; 16_384]));
    assert!(client.sent().is_empty());
    client.receive(&data(1, NO_FLAGS, &[0; 16_384]));
    assert_eq!(
        client.sent(),
        ["WINDOW_UPDATE 0 32768", "WINDOW_UPDATE 1 32768"]
    );
    // Padding counts toward flow control, but frame headers don't.
    client.receive(&data(1, frames::PADDED, &[0; 16_000]));
    client.receive(&data(1, frames::PADDED, &[0; 16_000]));
    assert!(client.sent().is_empty());
    client.receive(&data(1, frames::PADDED, &[0; 768]));
    assert_eq!(
        client.sent(),
        ["WINDOW_UPDATE 0 32768", "WINDOW_UPDATE 1 32768"]
    );
}

#[test]
fn a_stream_that_ends_or_whose_rest_fits_needs_no_update() {
    let mut client = Client::with(
        ClientSettings {
            connection_window_bytes: 1 << 20,
            ..SMALL
        },
        &[],
    );
    client.get(0);
    client.get(1);
    client.sent();
    let length = frames::block(&[(":status", "200"), ("content-length", "65535")]);
    client.receive(&headers(1, NO_FLAGS, &length));
    client.receive(&headers(3, NO_FLAGS, OK));
    for (flags, bytes) in [(NO_FLAGS, 16_384), (NO_FLAGS, 16_383), (END_STREAM, 16_384)] {
        let frame = data(3, flags, &vec![0; bytes]);
        let (last, most) = frame.split_last().expect("a frame");
        client.receive(most);
        assert!(client.sent().is_empty());
        client.receive(&[*last]);
    }
    for (flags, bytes) in [
        (NO_FLAGS, 16_384),
        (NO_FLAGS, 16_384),
        (NO_FLAGS, 16_384),
        (END_STREAM, 16_383),
    ] {
        client.receive(&data(1, flags, &vec![0; bytes]));
        assert!(client.sent().is_empty());
    }
    assert_eq!(client.inner.connection.active(), 0);
}

#[test]
fn more_than_the_streams_window_ends_the_stream() {
    let mut client = Client::with(
        ClientSettings {
            connection_window_bytes: 1 << 20,
            ..SMALL
        },
        &[],
    );
    client.get(0);
    // A response of this length needs no update, so it can use the whole window.
    let length = frames::block(&[(":status", "200"), ("content-length", "65535")]);
    client.receive(&headers(1, NO_FLAGS, &length));
    for _ in 0..3 {
        client.receive(&data(1, NO_FLAGS, &[0; 16_384]));
    }
    client.receive(&data(1, NO_FLAGS, &[0; 16_383]));
    assert_eq!(
        client.receive(&data(1, frames::PADDED, &[0; 1])),
        ["0: WindowExceeded"]
    );
    client.sent();
    client.check_works();
}

#[test]
fn more_than_the_connections_window_ends_the_connection() {
    // Bytes of canceled streams count, too.
    for canceled in [false, true] {
        let mut client = Client::with(
            ClientSettings {
                stream_window_bytes: 1 << 20,
                ..SMALL
            },
            &[],
        );
        client.get(0);
        client.receive(&headers(1, NO_FLAGS, OK));
        if canceled {
            client.cancel(0);
        }
        client.sent();
        for bytes in [16_384, 16_384, 16_384, 16_383] {
            client.receive(&data(1, NO_FLAGS, &vec![0; bytes]));
            assert!(!client.inner.has_failed());
        }
        let seen = client.receive(&data(1, NO_FLAGS, b"x"));
        assert_eq!(seen, ["ConnectionWindowExceeded"]);
        assert_eq!(client.sent(), ["GOAWAY 0 3"]);
    }
}

#[test]
fn windows_are_open_when_the_update_is_sent() {
    // Many times the window's size arrives, but the updates are sent in between.
    let mut client = Client::new();
    client.get(0);
    client.get(1);
    client.receive(&headers(1, NO_FLAGS, OK));
    client.cancel(1);
    client.sent();
    for round in 0..100 {
        for stream in [1, 3] {
            client.receive(&data(stream, NO_FLAGS, &[0; 16_384]));
        }
        let sent = client.sent();
        let stream = (round % 2 == 1).then(|| "WINDOW_UPDATE 1 32768".to_owned());
        let expected = [Some("WINDOW_UPDATE 0 32768".to_owned()), stream];
        assert_eq!(sent, expected.into_iter().flatten().collect::<Vec<_>>());
    }
    client.check_works();
}

#[test]
fn pending_updates_are_merged_and_dropped_for_ended_streams() {
    let mut client = Client::with(
        ClientSettings {
            connection_window_bytes: 1 << 20,
            ..SMALL
        },
        &[],
    );
    for tag in 0..3 {
        let stream = client.get(tag);
        client.receive(&headers(stream, NO_FLAGS, OK));
        for _ in 0..3 {
            client.receive(&data(stream, NO_FLAGS, &[0; 16_384]));
        }
    }
    client.receive(&data(3, END_STREAM, b""));
    client.cancel(2);
    let sent = client.sent();
    assert_eq!(sent[3..], ["RST_STREAM 5 8", "WINDOW_UPDATE 1 49152"]);
    assert!(client.sent().is_empty());
}

#[test]
fn a_connection_that_failed_opens_no_windows() {
    let mut client = Client::new();
    client.get(0);
    client.sent();
    let frames = [
        headers(1, NO_FLAGS, OK),
        data(1, NO_FLAGS, &[0; 16_384]),
        data(1, NO_FLAGS, &[0; 16_384]),
        window_update(0, 0),
    ];
    client.receive(&frames.concat());
    assert_eq!(client.sent(), ["GOAWAY 0 1"]);
    assert!(!client.inner.connection.has_output());
    // The next connection, on which nothing has arrived, must not send updates either.
    client.inner.restart(SMALL);
    client.get(0);
    let sent = client.sent();
    assert_eq!(sent[1..], ["SETTINGS 2=0 4=65535 6=65536", "HEADERS 1 END"]);
}
