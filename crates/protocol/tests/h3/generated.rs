//! Tests of generated responses, which come from an encoder with a dynamic table.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use prony_protocol::h3::ClientSettings;
use prony_protocol::h3::qpack::Decoder;

use crate::bodies::drive::pieces;
use crate::bodies::h3::drive::{Client, TraceEvent};
use crate::bodies::h3::frames::{self, data, headers};
use crate::client::{CONTROL, ENCODER, SMALL, lines_of};
use crate::encoder::{CODINGS, Encoder, Field};

fn field() -> impl Strategy<Value = Field> {
    let name = prop_oneof![
        Just("server".to_owned()),
        Just("date".to_owned()),
        Just("x-a".to_owned()),
        "[!#-'*+.0-9^-z|~-]{1,20}".prop_filter("connection-specific field", |name| {
            !["upgrade", "connection"].contains(&name.as_str())
        }),
    ];
    let value = prop_oneof![
        Just(String::new()),
        Just("value".to_owned()),
        "[ab]{1,2}",
        "[!-~\u{80}-\u{2ff}]{1,40}",
        "[a-z]{200,900}",
    ];
    (name, value, prop::sample::select(CODINGS.to_vec()))
}

/// One response, and the actions that precede it.
#[derive(Debug, Clone)]
struct Response {
    status: u16,
    length: Option<u64>,
    fields: Vec<Field>,
    base_offset: i64,
    /// If present, the encoder changes the table's capacity to this fraction of the limit, in
    /// 255ths.
    capacity: Option<u8>,
    /// True if the encoder reads the decoder's instructions.
    feedback: bool,
    /// True if the client cancels the request instead of reading the response.
    canceled: bool,
}

fn response() -> impl Strategy<Value = Response> {
    let coding = prop::sample::select(CODINGS.to_vec());
    let fields = (prop::collection::vec(field(), 0..6), coding);
    (
        prop_oneof![Just(200u16), 201..=599u16],
        prop::option::of(0..1_000u64),
        fields,
        -3..4i64,
        prop::option::weighted(0.2, any::<u8>()),
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(status, length, (mut fields, coding), base_offset, capacity, feedback, canceled)| {
                fields.insert(0, (":status".to_owned(), status.to_string(), coding));
                let length_field =
                    |length: u64| ("content-length".to_owned(), length.to_string(), coding);
                fields.extend(length.map(length_field));
                Response {
                    status,
                    length,
                    fields,
                    base_offset,
                    capacity,
                    feedback,
                    canceled,
                }
            },
        )
}

impl Response {
    fn lines(&self) -> String {
        let line = |(name, value, _): &Field| match name.as_str() {
            ":status" => format!("HTTP/3 {value}\r\n"),
            name => format!("{name}: {value}\r\n"),
        };
        self.fields.iter().map(line).collect()
    }

    /// Encodes the response, after changing the capacity of the table.
    fn section(&self, stream: u64, limit: usize, encoder: &mut Encoder) -> Vec<u8> {
        if let Some(share) = self.capacity {
            encoder.set_capacity(limit * usize::from(share) / 255);
        }
        encoder.section(stream, &self.fields, self.base_offset)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn sections_of_an_encoder_with_a_table_are_read(
        responses in prop::collection::vec(response(), 1..60),
        limit in prop::sample::select(vec![0usize, 31, 32, 100, 220, 1_000, 4_096]),
        again in any::<bool>(),
        step in 1..100usize,
    ) {
        let mut encoder = Encoder::new(limit);
        let mut decoder = Decoder::new(limit as u32, u32::MAX);
        decoder.keep_texts();
        encoder.set_capacity(limit);
        for (number, response) in responses.iter().enumerate() {
            for round in 0..=u64::from(again) {
                let stream = (number as u64 * 2 + round) * 4;
                let section = response.section(stream, limit, &mut encoder);
                for piece in encoder.instructions.chunks(step) {
                    decoder.read_instructions(piece).expect("valid instructions");
                }
                encoder.instructions.clear();
                if response.canceled {
                    decoder.cancel(stream);
                } else {
                    let fields = decoder.decode(stream, &section).expect("a valid section");
                    prop_assert_eq!(fields.head_status(), Ok(response.status));
                    prop_assert_eq!(fields.content_length, response.length);
                    let bytes = |(name, value, _): &Field| (name.len() + value.len() + 32) as u64;
                    prop_assert_eq!(fields.list_bytes, response.fields.iter().map(bytes).sum::<u64>());
                    prop_assert_eq!(String::from_utf8_lossy(decoder.lines()), response.lines());
                }
                if response.feedback {
                    let mut out = Vec::new();
                    decoder.take_output(&mut out);
                    encoder.read(&out);
                }
            }
        }
    }

    #[test]
    fn any_section_is_decoded_or_refused(
        parts in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..60)), 1..20),
    ) {
        let mut decoder = Decoder::new(4_096, 1_000);
        for (is_section, bytes) in &parts {
            let result = match is_section {
                true => decoder.decode(0, bytes).map(|_| ()),
                false => decoder.read_instructions(bytes).map(|_| ()),
            };
            if result.is_err() {
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn interleaved_responses_are_put_together(
        responses in prop::collection::vec(response(), 4..20),
        body_bytes in 0..2_000usize,
        frame_bytes in 1..1_000usize,
        steps in prop::collection::vec(any::<u8>(), 1..5),
    ) {
        let settings = ClientSettings { streams: 3, ..SMALL };
        let mut client = Client::new(settings);
        let mut encoder = Encoder::new(4_096);
        client.receive(CONTROL, &frames::control(&[]));
        client.receive(ENCODER, &[2]);
        encoder.set_capacity(1_000);
        client.send();
        let mut read = client.decoder.len();
        for (batch, responses) in responses.chunks(3).enumerate() {
            let mut queues = Vec::new();
            for (response, tag) in responses.iter().zip(batch as u32 * 3..) {
                let stream = client.start("GET", b"", tag).expect("a free slot");
                let mut fields = response.clone();
                fields.fields.retain(|(name, ..)| name != "content-length");
                let mut queue = vec![headers(&fields.section(stream, 4_096, &mut encoder))];
                let body = vec![tag as u8; if [204, 304].contains(&response.status) { 0 } else { body_bytes }];
                queue.extend(body.chunks(frame_bytes).map(data));
                queues.push((stream, queue.concat(), 0));
            }
            for piece in pieces(&encoder.instructions, &steps) {
                client.receive(ENCODER, piece);
            }
            encoder.instructions.clear();
            // The streams take turns in receiving a piece.
            let mut turn = steps.iter().cycle().map(|&step| usize::from(step) * 4 + 1);
            while queues.iter().any(|(_, bytes, at)| *at < bytes.len()) {
                for (stream, bytes, at) in &mut queues {
                    let end = (*at + turn.next().unwrap_or(1)).min(bytes.len());
                    client.receive(*stream, &bytes[*at..end]);
                    *at = end;
                }
            }
            for (stream, ..) in &queues {
                client.finish(*stream);
            }
            client.send();
            encoder.read(&client.decoder[read..]);
            read = client.decoder.len();
        }
        prop_assert!(!client.has_failed(), "{:?}", lines_of(&client.seen));
        for (response, tag) in responses.iter().zip(0u32..) {
            let of_body = |seen: &TraceEvent| match seen {
                TraceEvent::Body { tag: own, bytes } if *own == tag => bytes.len(),
                _ => 0,
            };
            let expected = if [204, 304].contains(&response.status) { 0 } else { body_bytes };
            prop_assert_eq!(client.seen.iter().map(of_body).sum::<usize>(), expected);
            let lines = lines_of(&client.seen);
            let head = format!("{tag}: head {}", response.status);
            let end = format!("{tag}: end");
            prop_assert!(lines.contains(&head) && lines.contains(&end));
        }
    }
}
