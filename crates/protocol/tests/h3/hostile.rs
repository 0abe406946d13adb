//! Tests of the limits on the cost that a server can cause.

use prony_protocol::h3::Violation;

use crate::bodies::h3::drive::TraceEvent;
use crate::bodies::h3::frames::{self, data, frame, head, headers, varint, varints};
use crate::client::{CONTROL, Client, DECODER, ENCODER, OTHER};

const IDLE_FRAMES_MAX: usize = 10_000;

/// Repeats a step up to `times` times. Returns the number of repetitions before a violation.
fn flood(client: &mut Client, times: usize, mut step: impl FnMut(&mut Client, usize)) -> usize {
    (0..times)
        .find(|&number| {
            step(client, number);
            client.inner.has_failed()
        })
        .unwrap_or(times)
}

fn last(client: &Client) -> String {
    client
        .inner
        .seen
        .last()
        .map_or_else(String::new, TraceEvent::to_string)
}

#[test]
fn frames_without_progress_are_limited() {
    let idle = format!("TooManyIdleFrames {{ limit: {IDLE_FRAMES_MAX} }}");
    let floods: [(u64, Vec<u8>); 5] = [
        (CONTROL, frame(0x21, b"")),
        (CONTROL, frame(0x21, b"abc")),
        (0, frame(0x21, b"")),
        (ENCODER, b"\x20".to_vec()),
        (DECODER, b"\x41".to_vec()),
    ];
    for (stream, bytes) in floods {
        let mut client = Client::new();
        client.receive(ENCODER, b"\x02");
        client.receive(DECODER, b"\x03");
        client.get(0);
        let count = flood(&mut client, 20_000, |client, _| {
            client.receive(stream, &bytes);
        });
        assert!((9_000..=IDLE_FRAMES_MAX).contains(&count), "{count}");
        assert_eq!(last(&client), idle);
    }
    let mut client = Client::new();
    let stream = client.get(0);
    client.receive(stream, &head("200"));
    client.receive(stream, &data(b"").repeat(IDLE_FRAMES_MAX + 1));
    assert_eq!(last(&client), idle);
}

#[test]
fn progress_resets_the_count() {
    let mut client = Client::new();
    let stream = client.get(0);
    client.receive(stream, &head("200"));
    for _ in 0..5 {
        client.receive(CONTROL, &frame(0x21, b"").repeat(IDLE_FRAMES_MAX - 1));
        client.receive(stream, &data(b"x"));
    }
    assert!(!client.inner.has_failed());
    client.receive(CONTROL, &frame(0x21, b"").repeat(IDLE_FRAMES_MAX + 1));
    assert!(client.inner.has_failed());
}

#[test]
fn long_frames_of_unknown_types_are_skipped() {
    let mut client = Client::new();
    let stream = client.get(0);
    let most = (1 << 62) - 1;
    for stream in [CONTROL, stream] {
        client.receive(stream, &varints(&[0x21, most]));
        for _ in 0..100 {
            assert!(client.receive(stream, &[7; 10_000]).is_empty());
        }
    }
    client.check_works();
}

#[test]
fn a_body_may_be_as_long_as_a_frame_can_be() {
    let mut client = Client::new();
    let stream = client.get(0);
    client.receive(stream, &head("200"));
    client.receive(stream, &varints(&[frames::DATA, (1 << 62) - 1]));
    for _ in 0..100 {
        client.receive(stream, &[7; 1_000]);
    }
    let bodies = client.inner.seen.iter().map(|seen| match seen {
        TraceEvent::Body { bytes, .. } => bytes.len(),
        _ => 0,
    });
    assert_eq!(bodies.sum::<usize>(), 100_000);
}

#[test]
fn streams_without_a_type_are_limited() {
    let mut client = Client::new();
    let count = flood(&mut client, 1_000, |client, number| {
        client.receive(OTHER + 4 * number as u64, b"\x40");
    });
    assert_eq!(
        (count, last(&client)),
        (100, "TooManyUntyped { limit: 100 }".to_owned())
    );
    // Streams that have ended or whose type has arrived no longer count toward the limit.
    let mut client = Client::new();
    let count = flood(&mut client, 1_000, |client, number| {
        let stream = OTHER + 4 * number as u64;
        client.receive(stream, b"\x40");
        match number % 2 {
            0 => client.finish(stream),
            _ => client.receive(stream, b"\x21"),
        };
    });
    assert_eq!(count, 1_000);
}

#[test]
fn incomplete_sections_are_limited() {
    let settings = prony_protocol::h3::ClientSettings {
        streams: 100,
        ..Default::default()
    };
    let mut client = Client::with(settings, &[]);
    let part = [varints(&[frames::HEADERS, 60_000]), vec![0; 50_000]].concat();
    let count = flood(&mut client, 100, |client, number| {
        let stream = client.get(number as u32);
        client.receive(stream, &part);
    });
    let limit_bytes = 1_024 * 1_024 + 100 * 1_024;
    assert_eq!(count, limit_bytes as usize / 50_000);
    let violation = Violation::TooManyParts { limit_bytes };
    assert_eq!(last(&client), format!("{violation:?}"));
    // Sections of canceled streams no longer count toward the limit.
    let mut client = Client::with(settings, &[]);
    let count = flood(&mut client, 1_000, |client, number| {
        let stream = client.get(number as u32);
        client.receive(stream, &part);
        client.inner.cancel(number as u32);
    });
    assert_eq!(count, 1_000);
}

#[test]
fn unread_acknowledgments_are_limited() {
    let mut client = Client::new();
    client.receive(ENCODER, b"\x02\x3f\xe1\x1f\xd9\x03404");
    client.decoder_output();
    let exchange = |client: &mut Client, number: usize| {
        let stream = client.get(number as u32);
        client.receive(stream, &headers(b"\x02\x00\x80"));
        if !client.inner.has_failed() {
            client.finish(stream);
        }
    };
    let count = flood(&mut client, 3_000, |client, number| {
        exchange(client, number);
        client.inner.send();
    });
    assert_eq!(count, 3_000);
    let count = flood(&mut client, 20_000, exchange);
    assert!((3_000..17_000).contains(&count), "{count}");
    assert_eq!(last(&client), "TooManyUnread { limit_bytes: 16384 }");
}

#[test]
fn many_streams_of_unknown_types_are_a_flood() {
    let mut client = Client::new();
    let count = flood(&mut client, 20_000, |client, number| {
        client.receive(OTHER + 4 * number as u64, &varint(0x21));
    });
    assert!((9_000..=IDLE_FRAMES_MAX).contains(&count), "{count}");
}
