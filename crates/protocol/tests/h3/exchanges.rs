//! Tests of exchanges, the ends of streams, and the end of a connection.

use prony_protocol::h3::{ClientSettings, ConnectionEvent, StartError, UnfinishedRequest};

use crate::bodies::h3::drive::{Client as Driver, request};
use crate::bodies::h3::frames::{self, data, head, headers, section};
use crate::client::{CONTROL, Client, DECODER, ENCODER, OTHER, SMALL};

#[test]
fn settings_are_the_first_output() {
    let mut driver = Driver::new(SMALL);
    driver.send();
    assert_eq!(
        driver.control,
        b"\x00\x04\x08\x01\x50\x00\x06\x80\x01\x00\x00"
    );
    assert_eq!(driver.decoder, b"\x03");
}

#[test]
fn responses_of_many_streams_are_interleaved() {
    let mut client = Client::new();
    let streams: Vec<u64> = (0..4).map(|tag| client.get(tag)).collect();
    assert_eq!(streams, [0, 4, 8, 12]);
    for &stream in &streams {
        let tag = stream / 4;
        let events = client.receive(stream, &[head("200"), b"\x00\x06abc".to_vec()].concat());
        assert_eq!(
            events,
            [format!("{tag}: head 200"), format!("{tag}: body abc")]
        );
    }
    for &stream in &streams {
        let tag = stream / 4;
        let events = client.respond(stream, b"def");
        assert_eq!(events, [format!("{tag}: body def"), format!("{tag}: end")]);
    }
    client.check_works();
}

#[test]
fn a_request_can_be_answered_before_settings() {
    let mut client = Client::fresh(SMALL);
    let stream = client.get(7);
    assert!(!client.inner.connection.is_established());
    let events = client.respond(stream, &head("200"));
    assert_eq!(events, ["7: head 200", "7: end"]);
}

#[test]
fn responses_without_a_body() {
    let mut client = Client::new();
    let length = [(":status", "200"), ("content-length", "1000")];
    let stream = client.start("HEAD", 1);
    let events = client.respond(stream, &headers(&section(&length)));
    assert_eq!(events, ["1: head 200", "1: end"]);
    for status in ["204", "304"] {
        let stream = client.get(1);
        let events = client.respond(stream, &[head(status), data(b"")].concat());
        assert_eq!(events, [format!("1: head {status}"), "1: end".to_owned()]);
    }
    let not_modified = [(":status", "304"), ("content-length", "1000")];
    let stream = client.get(1);
    let events = client.respond(stream, &headers(&section(&not_modified)));
    assert_eq!(events, ["1: head 304", "1: end"]);
}

#[test]
fn a_tunnel_carries_data_of_any_length() {
    let mut client = Client::new();
    let stream = client.start("CONNECT", 1);
    let length = [(":status", "200"), ("content-length", "1")];
    let events = client.receive(stream, &headers(&section(&length)));
    assert_eq!(events, ["1: head 200"]);
    let events = client.respond(stream, &[data(b"abc"), data(b"def")].concat());
    assert_eq!(events, ["1: body abcdef", "1: end"]);
}

#[test]
fn trailers_end_a_body() {
    let mut client = Client::new();
    let stream = client.get(1);
    let trailers = headers(&section(&[("a", "b"), ("content-length", "7")]));
    let response = [
        head("200"),
        data(b"abc"),
        trailers,
        frames::frame(0x21, b"x"),
    ];
    let events = client.respond(stream, &response.concat());
    assert_eq!(
        events,
        ["1: head 200", "1: body abc", "1: trailers", "1: end"]
    );
}

#[test]
fn fields_are_kept_as_text() {
    let mut client = Client::fresh(SMALL);
    client.inner.connection.keep_fields();
    client.receive(ENCODER, b"\x02\x3f\xe1\x1f\x46server\x02me");
    let stream = client.get(1);
    let events = client.receive(stream, &headers(b"\x02\x00\xd9\x80\x21a\x01b"));
    assert_eq!(events, ["1: head 200"]);
    let text = b"HTTP/3 200\r\nserver: me\r\na: b\r\n";
    assert_eq!(client.inner.connection.fields(), text);
    let mut without = Client::new();
    let stream = without.get(1);
    without.receive(stream, &head("200"));
    assert_eq!(without.inner.connection.fields(), b"");
}

#[test]
fn the_peer_resets_streams() {
    let mut client = Client::new();
    for (code, event) in [
        (0x10b, "1: unprocessed H3_REQUEST_REJECTED"),
        (0x102, "1: reset H3_INTERNAL_ERROR"),
        (0x100, "1: reset H3_NO_ERROR"),
    ] {
        let stream = client.get(1);
        assert_eq!(client.step(|client| client.reset(stream, code)), [event]);
    }
    // Once part of the response has arrived, the request counts as processed, whatever the error
    // code.
    let stream = client.get(1);
    client.receive(stream, &head("200"));
    let events = client.step(|client| client.reset(stream, 0x10b));
    assert_eq!(events, ["1: reset H3_REQUEST_REJECTED"]);
    // A reset after the end has no effect.
    client.check_works();
    let last = client.inner.next_stream() - 4;
    assert_eq!(client.step(|client| client.reset(last, 0x100)), ["ignored"]);
}

#[test]
fn a_stopped_request_still_gets_its_response() {
    let mut client = Client::new();
    let stream = client.start("POST", 1);
    assert_eq!(client.step(|client| client.stop(stream)), ["ignored"]);
    let events = client.respond(stream, &[head("413"), data(b"no")].concat());
    assert_eq!(events, ["1: head 413", "1: body no", "1: end"]);
}

#[test]
fn canceled_requests_have_no_events() {
    let mut client = Client::new();
    let stream = client.get(1);
    client.receive(stream, &[head("200"), b"\x00\x09abc".to_vec()].concat());
    client.inner.cancel(1);
    assert!(client.receive(stream, b"def").is_empty());
    assert_eq!(client.finish(stream), ["ignored"]);
    client.inner.cancel(1);
    // Without insertions, there are no references to release.
    assert_eq!(client.decoder_output(), b"");
    client.receive(ENCODER, b"\x02\x3f\xe1\x1f\x41a\x01b");
    let stream = client.get(2);
    client.receive(stream, &headers(b"\x02\x00\xd9\x80")[..4]);
    client.inner.cancel(2);
    assert_eq!(client.decoder_output(), [0x40 | stream as u8, 0x01]);
    client.check_works();
}

#[test]
fn the_own_limit_and_the_limit_of_fields() {
    let mut client = Client::with(SMALL, &[(6, 270)]);
    for tag in 0..4 {
        client.get(tag);
    }
    let connection = &client.inner.connection;
    assert_eq!(connection.can_start(), Err(StartError::OwnLimit));
    assert!(!connection.is_going_away());
    client.inner.cancel(2);
    let connection = &mut client.inner.connection;
    assert_eq!(connection.can_start(), Ok(()));
    let list_bytes = request("GET", b"").list_bytes();
    assert!((250..=270).contains(&list_bytes), "{list_bytes}");
    let long = request("POST", &[7; 100]);
    let too_long = StartError::FieldsTooLong { limit_bytes: 270 };
    assert_eq!(connection.start(&long, 16, 9), Err(too_long));
    assert_eq!(connection.active(), 3);
}

#[test]
fn goaway_rejects_later_requests() {
    let mut client = Client::new();
    for tag in 0..4 {
        client.get(tag);
    }
    client.receive(4, &head("200"));
    let events = client.receive(CONTROL, &frames::goaway(8));
    assert_eq!(
        events,
        [
            "goaway 8",
            "2: unprocessed H3_REQUEST_REJECTED",
            "3: unprocessed H3_REQUEST_REJECTED"
        ]
    );
    let connection = &client.inner.connection;
    assert_eq!(connection.can_start(), Err(StartError::GoingAway));
    assert!(connection.is_going_away());
    let mut unfinished: Vec<UnfinishedRequest> = connection.unfinished().collect();
    unfinished.sort_by_key(|left| left.tag);
    let left = |tag, answered| UnfinishedRequest { tag, answered };
    assert_eq!(unfinished, [left(0, false), left(1, true)]);
    // Late bytes of a rejected request are ignored; a second GOAWAY may reject more.
    assert!(client.receive(8, &head("200")).is_empty());
    let events = client.receive(CONTROL, &frames::goaway(0));
    assert_eq!(
        events,
        [
            "goaway 0",
            "0: unprocessed H3_REQUEST_REJECTED",
            "1: unprocessed H3_REQUEST_REJECTED"
        ]
    );
    assert_eq!(client.inner.connection.active(), 0);
}

#[test]
fn a_graceful_goaway_lets_all_requests_finish() {
    let mut client = Client::new();
    let stream = client.get(1);
    let most = (1 << 62) - 4;
    let events = client.receive(CONTROL, &frames::goaway(most));
    assert_eq!(events, [format!("goaway {most}")]);
    let events = client.respond(stream, &head("200"));
    assert_eq!(events, ["1: head 200", "1: end"]);
}

#[test]
fn streams_of_unknown_types_are_discarded() {
    let mut client = Client::new();
    let discard = "discard 15 H3_STREAM_CREATION_ERROR";
    assert_eq!(client.receive(OTHER, b"\x21\x01\x02"), [discard]);
    assert!(client.receive(OTHER, b"\x00\x04\x00").is_empty());
    assert_eq!(client.finish(OTHER), ["ignored"]);
    // A stream may end before its type is complete.
    assert!(client.receive(19, b"\x40").is_empty());
    assert_eq!(client.finish(19), ["ignored"]);
    assert!(client.receive(23, b"").is_empty());
    assert_eq!(client.step(|client| client.reset(23, 0x100)), ["ignored"]);
    assert!(client.receive(DECODER, b"\x03").is_empty());
    client.check_works();
}

#[test]
fn a_restarted_connection_has_forgotten_everything() {
    let mut client = Client::new();
    client.receive(ENCODER, b"\x02\x3f\xe1\x1f\x41a\x01b");
    client.get(1);
    client.receive(CONTROL, &frames::goaway(0));
    let mut driver = client.inner.restart();
    driver.send();
    assert_eq!(
        driver.control,
        b"\x00\x04\x08\x01\x50\x00\x06\x80\x01\x00\x00"
    );
    assert_eq!(driver.decoder, b"\x03");
    assert!(!driver.connection.is_established());
    let mut client = Client { inner: driver };
    assert_eq!(client.receive(OTHER, &frames::control(&[])), ["settings"]);
    client.check_works();
}

#[test]
fn one_of_many_streams_lasts() {
    let settings = ClientSettings {
        streams: 2,
        ..SMALL
    };
    let mut client = Client::with(settings, &[]);
    let slow = client.get(1);
    for tag in 2..2_000 {
        let stream = client.get(tag);
        let events = client.respond(stream, &head("200"));
        assert_eq!(events, [format!("{tag}: head 200"), format!("{tag}: end")]);
    }
    let events = client.respond(slow, &head("200"));
    assert_eq!(events, ["1: head 200", "1: end"]);
}

#[test]
fn bytes_on_other_streams_are_ignored() {
    let mut client = Client::new();
    let connection = &mut client.inner.connection;
    // One of this client's own streams, and the stream of a request that was never started.
    for stream in [2, 400] {
        let mut input = &b"\x00\x04\x00"[..];
        assert_eq!(
            connection.next(stream, &mut input),
            Ok(ConnectionEvent::NeedMore)
        );
        assert!(input.is_empty());
        assert_eq!(connection.finished(stream), Ok(ConnectionEvent::Ignored));
    }
    assert_eq!(connection.stopped(400), Ok(ConnectionEvent::Ignored));
    assert_eq!(connection.tag_of(400), None);
}
