//! Tests of peers that try to cause excessive cost. Each peer causes a violation before the memory
//! use exceeds a bound.

use prony_protocol::h2::ClientSettings;

use crate::bodies::h2::frames::{
    self, ACK, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, NO_FLAGS, block, data, frame,
    headers, settings, window_update,
};
use crate::client::{Client, OK, SMALL};

const FLOOD: usize = 20_000;
const IDLE: &str = "TooManyIdleFrames { limit: 10000 }";
const UNREAD: &str = "TooManyUnread { limit_bytes: 16384 }";
const CALM: &str = "GOAWAY 0 11";

/// Sends the same frame repeatedly and reads the replies in between. Returns the violation that
/// ends the flood, if any.
fn flood(client: &mut Client, frame: &[u8]) -> Option<String> {
    for _ in 0..FLOOD {
        let seen = client.receive(frame);
        let sent = client.sent();
        if client.inner.has_failed() {
            assert_eq!(sent.last().map(String::as_str), Some(CALM));
            return seen.last().cloned();
        }
    }
    None
}

fn busy() -> Client {
    let mut client = Client::new();
    client.get(0);
    client.get(1);
    client.receive(&headers(1, NO_FLAGS, OK));
    client.cancel(1);
    client.get(2);
    client.receive(&headers(5, END_STREAM, OK));
    client.sent();
    client
}

#[test]
fn frames_without_progress_are_limited() {
    let rows = [
        ("SETTINGS", settings(&[])),
        (
            "SETTINGS that fill a whole frame",
            settings(&[(0x99, 1); 2_730]),
        ),
        ("acknowledgments", frames::settings_ack()),
        ("PING", frames::ping([1; 8])),
        ("replies to PING", frame(frames::PING, ACK, 0, &[0; 8])),
        ("PRIORITY", frame(frames::PRIORITY, 0, 1, &[0; 5])),
        ("empty DATA", data(1, NO_FLAGS, b"")),
        (
            "DATA that consists of padding",
            data(1, frames::PADDED, b"\x02\0\0"),
        ),
        ("empty DATA of a canceled stream", data(3, NO_FLAGS, b"")),
        ("empty DATA of a stream that ended", data(5, NO_FLAGS, b"")),
        ("heads of a canceled stream", headers(3, NO_FLAGS, OK)),
        ("RST_STREAM of a canceled stream", frames::rst_stream(3, 0)),
        ("WINDOW_UPDATE of a canceled stream", window_update(3, 1)),
        ("WINDOW_UPDATE", window_update(0, 1)),
        ("GOAWAY", frames::goaway(1, 0)),
        ("unknown frames", frame(0x99, 0, 0, b"")),
    ];
    for (name, frame) in rows {
        assert_eq!(flood(&mut busy(), &frame).as_deref(), Some(IDLE), "{name}");
    }
}

#[test]
fn frames_with_progress_are_unlimited() {
    let mut client = busy();
    let mixed = [data(1, NO_FLAGS, b"x"), frames::ping([0; 8]), settings(&[])].concat();
    assert_eq!(flood(&mut client, &mixed), None);
    // A large request whose windows grow by one byte at a time.
    let mut client = Client::with(SMALL, &[(4, 0)]);
    client.start("POST", &[0; 30_000], 0);
    let opened = window_update(1, 1);
    assert_eq!(flood(&mut client, &opened), None);
}

#[test]
fn unread_replies_are_limited() {
    for frame in [settings(&[]), frames::ping([1; 8])] {
        let mut client = busy();
        let mut seen = Vec::new();
        for _ in 0..FLOOD {
            // Each frame is followed by progress, so only the limit on unread replies applies.
            seen = client.receive(&[frame.clone(), data(1, NO_FLAGS, b"x")].concat());
            if client.inner.has_failed() {
                break;
            }
        }
        assert_eq!(seen.last().map(String::as_str), Some(UNREAD));
        let before = client.inner.sent.len();
        assert_eq!(client.sent().last().map(String::as_str), Some(CALM));
        assert!(client.inner.sent.len() - before < 17_000);
    }
}

#[test]
fn late_responses_are_not_a_flood() {
    let mut client = Client::new();
    for tag in 0..10_000 {
        let stream = client.get(tag);
        client.cancel(tag);
        let late = [
            window_update(stream, 1),
            headers(stream, NO_FLAGS, OK),
            data(stream, END_STREAM, b""),
        ];
        assert!(client.receive(&late.concat()).is_empty());
        client.sent();
    }
    client.check_works();
    // More late frames than allowed still count as a flood.
    let frame = headers(1, NO_FLAGS, OK);
    assert_eq!(flood(&mut client, &frame).as_deref(), Some(IDLE));
}

#[test]
fn many_simultaneous_stream_errors_are_not_a_flood() {
    let mut client = Client::with(
        ClientSettings {
            streams: 4_000,
            ..SMALL
        },
        &[],
    );
    let mut answers = Vec::new();
    for tag in 0..4_000 {
        let stream = client.get(tag);
        answers.extend(headers(stream, END_STREAM, b"\x8d\x88"));
    }
    client.sent();
    assert_eq!(client.receive(&answers).len(), 4_000);
    let sent = client.sent();
    assert_eq!(sent.len(), 4_000);
    assert!(sent.iter().all(|line| line.starts_with("RST_STREAM")));
    client.check_works();
}

#[test]
fn resets_do_not_accumulate_unsent_requests() {
    let mut client = Client::new();
    let mut started = 0;
    while client.inner.connection.can_start().is_ok() {
        let stream = client.get(0);
        client.receive(&frames::rst_stream(stream, 7));
        started += 1;
    }
    assert!((1_000..30_000).contains(&started), "{started}");
    assert_eq!(
        client
            .inner
            .connection
            .can_start()
            .map_err(|error| error.to_string()),
        Err("earlier requests have not been sent yet".to_owned())
    );
    client.sent();
    client.check_works();
}

#[test]
fn blocks_in_many_frames_are_bounded() {
    let begun = frame(HEADERS, NO_FLAGS, 1, b"\x88");
    let more = frame(CONTINUATION, NO_FLAGS, 1, b"");
    for (count, fails) in [(128, false), (129, true)] {
        let mut client = Client::new();
        client.get(0);
        client.receive(&begun);
        client.receive(&more.repeat(count));
        assert_eq!(client.inner.has_failed(), fails, "{count} frames");
    }
    let mut client = busy();
    client.receive(&begun);
    assert_eq!(
        flood(&mut client, &more).as_deref(),
        Some("TooManyContinuations { limit: 128 }")
    );
    let mut client = busy();
    client.receive(&begun);
    assert_eq!(
        flood(
            &mut client,
            &frame(CONTINUATION, NO_FLAGS, 1, &[0x88; 16_384])
        )
        .as_deref(),
        Some("BlockTooLong { limit_bytes: 65536 }")
    );
}

#[test]
fn long_lists_of_fields_end_their_stream() {
    let fields: Vec<(&str, &str)> = [(":status", "200")]
        .into_iter()
        .chain([("name", "value"); 1_600])
        .collect();
    let list = block(&fields);
    let (first, rest) = list.split_at(16_000);
    let mut client = Client::new();
    client.get(0);
    client.sent();
    let bytes = [
        frame(HEADERS, NO_FLAGS, 1, first),
        frame(CONTINUATION, END_HEADERS, 1, rest),
    ];
    let seen = client.receive(&bytes.concat());
    assert_eq!(seen, ["0: Fields(ListTooLong { limit_bytes: 65536 })"]);
    assert_eq!(client.sent(), ["RST_STREAM 1 11"]);
    client.check_works();
}

#[test]
fn a_bomb_of_indices_ends_its_stream() {
    // An entry of 4,000 bytes, referenced 16,000 times: 64 MB of fields in a frame.
    let mut entry = b"\x88\x40\x01a\x7f\x80\x1e".to_vec();
    entry.extend_from_slice(&[b'v'; 3_967]);
    let mut client = Client::new();
    client.get(0);
    client.get(1);
    assert_eq!(
        client.receive(&headers(1, END_STREAM, &entry)),
        ["0: head 200", "0: end"]
    );
    let bomb = [&[0x88][..], &[0xbe; 16_000]].concat();
    let seen = client.receive(&headers(3, END_STREAM, &bomb));
    assert_eq!(seen, ["1: Fields(ListTooLong { limit_bytes: 65536 })"]);
    client.check_works();
}

#[test]
fn interim_responses_are_limited() {
    let mut client = Client::new();
    client.get(0);
    let seen = client.receive(&crate::client::head(1, "103").repeat(100));
    assert_eq!(seen.len(), 33);
    assert_eq!(seen[32], "0: TooManyInterim { limit: 32 }");
}
