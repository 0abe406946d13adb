//! Tests of GOAWAY by both sides, changed limits, and exhausted identifiers (RFC 9113 §5.1.2,
//! §6.8).

use prony_protocol::h2::{ClientSettings, StartError};

use crate::bodies::h2::drive::request;
use crate::bodies::h2::frames::{self, END_STREAM, data, goaway, headers, settings};
use crate::client::{Client, OK, SMALL};

#[test]
fn later_streams_are_unprocessed_and_earlier_ones_continue() {
    let mut client = Client::new();
    for tag in 0..4 {
        client.get(tag);
    }
    client.sent();
    let seen = client.receive(&goaway(3, 0));
    let expected = [
        "goaway 3 NO_ERROR",
        "2: unprocessed NO_ERROR",
        "3: unprocessed NO_ERROR",
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        client.inner.connection.can_start(),
        Err(StartError::GoingAway)
    );
    assert!(client.inner.connection.is_going_away());
    assert_eq!(client.inner.connection.active(), 2);
    // Late frames of canceled streams are ignored.
    let frames = [
        headers(7, END_STREAM, OK),
        headers(1, END_STREAM, OK),
        headers(3, END_STREAM, OK),
    ];
    let seen = client.receive(&frames.concat());
    assert_eq!(seen, ["0: head 200", "0: end", "1: head 200", "1: end"]);
    assert_eq!(client.inner.connection.active(), 0);
    assert!(client.sent().is_empty());
}

#[test]
fn a_graceful_shutdown_has_two_steps() {
    let mut client = Client::new();
    for tag in 0..2 {
        client.get(tag);
    }
    assert_eq!(
        client.receive(&goaway(0x7fff_ffff, 0)),
        ["goaway 2147483647 NO_ERROR"]
    );
    assert_eq!(client.inner.connection.active(), 2);
    let seen = client.receive(&goaway(1, 0));
    assert_eq!(seen, ["goaway 1 NO_ERROR", "1: unprocessed NO_ERROR"]);
    // A GOAWAY with debug data.
    let words = [&goaway(1, 2)[9..], b"it broke"].concat();
    let seen = client.receive(&frames::frame(frames::GOAWAY, 0, 0, &words));
    assert_eq!(seen, ["goaway 1 INTERNAL_ERROR"]);
}

#[test]
fn a_stream_that_is_canceled_among_the_unprocessed_is_not_reported() {
    let mut client = Client::new();
    for tag in 0..3 {
        client.get(tag);
    }
    let bytes = goaway(0, 0);
    let mut input = bytes.as_slice();
    let connection = &mut client.inner.connection;
    connection.next(&mut input).expect("goaway");
    connection.next(&mut input).expect("the first");
    client.cancel(1);
    let mut rest = Vec::new();
    while let Ok(event) = client.inner.connection.next(&mut input) {
        match event {
            prony_protocol::h2::ConnectionEvent::NeedMore => break,
            event => rest.push(format!("{event:?}")),
        }
    }
    assert_eq!(rest.len(), 1);
    assert!(rest[0].contains("tag: 2"), "{rest:?}");
}

#[test]
fn the_peers_limit_may_fall_below_the_streams_in_flight_and_rise_again() {
    let mut client = Client::new();
    assert_eq!(client.inner.connection.peer_limit(), None);
    for tag in 0..3 {
        client.get(tag);
    }
    client.receive(&settings(&[(3, 1)]));
    assert_eq!(client.inner.connection.peer_limit(), Some(1));
    for stream in [1, 3, 5] {
        assert_eq!(
            client.inner.connection.can_start(),
            Err(StartError::PeerLimit)
        );
        client.receive(&headers(stream, END_STREAM, OK));
    }
    client.get(7);
    assert_eq!(
        client.inner.connection.can_start(),
        Err(StartError::PeerLimit)
    );
    client.receive(&settings(&[(3, 100)]));
    for tag in 8..11 {
        client.get(tag);
    }
    assert_eq!(
        client.inner.connection.can_start(),
        Err(StartError::OwnLimit)
    );
    client.receive(&settings(&[(3, 0)]));
    client.receive(&headers(7, END_STREAM, OK));
    assert_eq!(
        client.inner.connection.can_start(),
        Err(StartError::PeerLimit)
    );
}

#[test]
fn before_settings_at_most_a_hundred_streams_are_started() {
    let mut client = Client::fresh(ClientSettings {
        streams: 200,
        ..Default::default()
    });
    for tag in 0..100 {
        client.get(tag);
    }
    assert_eq!(
        client.inner.connection.can_start(),
        Err(StartError::PeerLimit)
    );
    client.receive(&settings(&[]));
    client.get(100);
}

#[test]
fn fields_beyond_the_peers_limit_are_not_sent() {
    let mut client = Client::with(SMALL, &[(6, 100)]);
    let refused = client.inner.connection.start(&request("GET", b""), 0);
    assert_eq!(refused, Err(StartError::FieldsTooLong { limit_bytes: 100 }));
    assert!(client.sent().is_empty());
    client.receive(&settings(&[(6, 300)]));
    client.sent();
    client.check_works();
}

#[test]
fn a_lowered_table_is_acknowledged_by_the_next_request() {
    let mut client = Client::with(SMALL, &[(1, 0)]);
    for tag in 0..2 {
        client.get(tag);
    }
    client.sent();
    let sent = client.inner.sent.clone();
    let at = sent.len() - 2 * 9 - 2 * (request("GET", b"").head_bytes() - 9) - 1;
    assert_eq!(sent[at + 9], 0x20, "the first one resizes the table");
    let second = &sent[sent.len() - request("GET", b"").head_bytes() + 9..];
    assert_eq!(second[0], 0x82, "the second one does not");
    client.receive(&settings(&[(1, 4_096)]));
    client.receive(&settings(&[(1, 4_095)]));
    client.receive(&[headers(1, END_STREAM, OK), data(3, 0, b"")].concat());
    let before = client.inner.sent.len();
    client.get(5);
    client.sent();
    let acks = 2 * frames::settings_ack().len();
    let reset = 13;
    assert_eq!(client.inner.sent[before + acks + reset + 9], 0x20);
}
