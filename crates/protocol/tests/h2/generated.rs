//! Tests of generated responses and blocks, and of blocks from another implementation's encoder.

use httlib_hpack::Encoder;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use prony_protocol::h2::ClientSettings;
use prony_protocol::h2::hpack::Decoder;

use crate::bodies::drive::pieces;
use crate::bodies::h2::drive::{TraceEvent, trace};
use crate::bodies::h2::frames::{self, END_STREAM, NO_FLAGS, PADDED};
use crate::client::SMALL;

/// Windows that are large enough to need no updates.
const LARGE: ClientSettings = ClientSettings {
    stream_window_bytes: 1 << 22,
    connection_window_bytes: 1 << 24,
    ..SMALL
};

/// A field of a head, and its encoding.
type Field = (String, String, u8);

/// Encodings of a field that keep both tables consistent.
const CODINGS: [u8; 6] = [
    0,
    Encoder::HUFFMAN_NAME | Encoder::HUFFMAN_VALUE,
    Encoder::WITH_INDEXING | Encoder::BEST_FORMAT,
    Encoder::WITH_INDEXING | Encoder::HUFFMAN_VALUE | Encoder::BEST_FORMAT,
    Encoder::NEVER_INDEXED | Encoder::HUFFMAN_VALUE,
    Encoder::BEST_FORMAT | Encoder::HUFFMAN_VALUE,
];

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
        "[!-~\u{80}-\u{2ff}]{1,40}",
        "[a-z]{200,900}",
    ];
    (name, value, prop::sample::select(CODINGS.to_vec()))
}

#[derive(Debug, Clone)]
struct Head {
    status: u16,
    length: Option<u64>,
    fields: Vec<Field>,
    /// If present, the encoder first changes its table to this size.
    resize: Option<u32>,
}

fn head() -> impl Strategy<Value = Head> {
    let resize = prop::option::weighted(0.1, 0..=4_096u32);
    let length = prop::option::of(any::<u64>());
    (
        200..=599u16,
        length,
        prop::collection::vec(field(), 0..6),
        resize,
    )
        .prop_map(|(status, length, fields, resize)| Head {
            status,
            length,
            fields,
            resize,
        })
}

impl Head {
    fn list(&self) -> Vec<Field> {
        let mut list = vec![(":status".to_owned(), self.status.to_string(), CODINGS[3])];
        list.extend(self.fields.iter().cloned());
        let length = self.length.map(|length| length.to_string());
        list.extend(length.map(|length| ("content-length".to_owned(), length, CODINGS[5])));
        list
    }

    fn block(&self, encoder: &mut Encoder) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(size) = self.resize {
            encoder
                .update_max_dynamic_size(size, &mut out)
                .expect("a valid size");
        }
        for (name, value, coding) in self.list() {
            let field = (name.into_bytes(), value.into_bytes(), coding);
            encoder.encode(field, &mut out).expect("a valid field");
        }
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn heads_of_another_encoder_are_read(heads in prop::collection::vec(head(), 1..30), again in any::<bool>()) {
        let mut encoder = Encoder::default();
        let mut decoder = Decoder::new(u32::MAX);
        for head in &heads {
            for _ in 0..=usize::from(again) {
                let fields = decoder.decode(&head.block(&mut encoder)).expect("a valid block");
                prop_assert_eq!(fields.head_status(), Ok(head.status), "{:?}", head);
                prop_assert_eq!(fields.content_length, head.length);
                let bytes = |(name, value, _): &Field| (name.len() + value.len() + 32) as u64;
                prop_assert_eq!(fields.list_bytes, head.list().iter().map(bytes).sum::<u64>());
            }
        }
    }

    #[test]
    fn any_block_is_decoded_or_refused(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..20)) {
        let mut decoder = Decoder::new(1_000);
        for block in &blocks {
            if decoder.decode(block).is_err() {
                break;
            }
        }
    }

    #[test]
    fn answers_are_put_together(
        bodies in prop::collection::vec((0..40_000usize, 1..16_000usize, any::<u8>()), 4),
        steps in prop::collection::vec(any::<u8>(), 0..5),
    ) {
        let mut queues: Vec<Vec<Vec<u8>>> = Vec::new();
        for (tag, (bytes, frame_bytes, padding)) in (0u32..).zip(&bodies) {
            let stream = 2 * tag + 1;
            let mut queue = vec![frames::headers(stream, NO_FLAGS, b"\x88")];
            for part in vec![tag as u8; *bytes].chunks(*frame_bytes) {
                let padded = [&[*padding], part, &vec![0; usize::from(*padding)]].concat();
                queue.push(frames::data(stream, PADDED, &padded));
            }
            queue.push(frames::data(stream, END_STREAM, b""));
            queue.reverse();
            queues.push(queue);
        }
        let mut bytes = frames::settings(&[]);
        while queues.iter().any(|queue| !queue.is_empty()) {
            for queue in &mut queues {
                bytes.extend(queue.pop().unwrap_or_default());
            }
        }
        let (seen, _) = trace(LARGE, &[("GET", b"".as_slice()); 4], pieces(&bytes, &steps));
        for (tag, (bytes, ..)) in (0u32..).zip(&bodies) {
            let of_body = |seen: &TraceEvent| match seen {
                TraceEvent::Body { tag: own, bytes } if *own == tag => bytes.len(),
                _ => 0,
            };
            prop_assert_eq!(seen.iter().map(of_body).sum::<usize>(), *bytes);
            let ends = format!("{tag}: end");
            prop_assert_eq!(seen.iter().filter(|seen| seen.to_string() == ends).count(), 1);
        }
    }
}
