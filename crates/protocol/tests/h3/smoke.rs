//! Runs the fuzz targets briefly with many seeds, and checks that these seeds reach enough states.

use std::collections::BTreeSet;
use std::fmt::Display;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::bodies::h3::{operations, qpack};

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn below(rng: &mut TestRng, end: usize) -> usize {
    rng.next_u32() as usize % end.max(1)
}

/// Runs a fuzz target on bytes generated from each seed, and returns the kinds of events. A panic
/// message contains the seed.
fn smoke<T: Display>(
    seeds: u64,
    make: impl Fn(&mut TestRng) -> Vec<u8>,
    body: fn(&[u8]) -> Vec<T>,
) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for seed in 0..seeds {
        let bytes = make(&mut rng(seed));
        let outcome = std::panic::catch_unwind(|| body(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {}", bytes.escape_ascii());
        let seen = outcome.into_iter().flatten();
        kinds.extend(seen.map(|seen| kind(&seen.to_string())));
    }
    kinds
}

/// Returns the event's kind: the text after the tag, without values that vary.
fn kind(seen: &str) -> String {
    let behind = seen
        .split_once(": ")
        .filter(|(tag, _)| tag.parse::<u32>().is_ok());
    let what = behind.map_or(seen, |(_, what)| what);
    let end = what.find([' ', '{']).unwrap_or(what.len());
    what[..end].to_owned()
}

#[test]
fn operations_reach_many_states() {
    let make = |rng: &mut TestRng| {
        let length = 5 + below(rng, 200);
        (0..length).map(|_| rng.next_u32() as u8).collect()
    };
    let kinds = smoke(6_000, make, operations::run);
    for kind in [
        "settings",
        "interim",
        "head",
        "body",
        "end",
        "reset",
        "unprocessed",
        "goaway",
        "discard",
        "ignored",
        "Malformed(BodyTooLong)",
        "Malformed(BodyTooShort)",
        "Malformed(DataBeforeHead)",
        "Malformed(Fields(NoStatus))",
        "DataBeforeHead",
        "AfterTrailers(Data)",
        "FieldsInTunnel",
        "FrameTruncated",
        "GoAwayIncreased",
        "GoAwayStream",
        "NoSettings",
        "SettingsTwice",
        "Push",
        "ServerBidirectional",
        "StreamTwice(Control)",
        "CriticalClosed(Control)",
        "CriticalClosed(Encoder)",
        "CriticalStopped",
        "OnControlStream(Data)",
        "OnRequestStream(GoAway)",
        "Section(Blocked)",
        "Section(Index)",
        "Section(Truncated)",
        "EncoderStream(Index)",
        "EncoderStream(EntryTooLarge)",
        "EncoderStream(CapacityTooLarge)",
        "DecoderStream",
    ] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
}

/// Parts from which arbitrary sections and instructions are composed.
const PIECES: [&[u8]; 14] = [
    b"0\x00\x00\xd9",
    b"0\x00\x00\xd9\x54\x0213\x26server\x85\x1c\x64\x5e\x83\x7f",
    b"0\x02\x00\x80",
    b"0\x03\x80\x10\x00\x01b",
    b"0\x05\x01\x80\x81\x42\x00",
    b"0\x00\x00\x51\x0bindex.html",
    b"1\x3f\xe1\x1f",
    b"1\x3f\xe1\x1f\x41a\x01b\x41c\x81\x1f",
    b"1\xd9\x03404",
    b"1\x00\x01",
    b"1\x80\x01z",
    b"1\x3f\x45",
    b"c",
    b"r",
];

#[test]
fn sections_and_instructions_are_decoded_or_refused() {
    let make = |rng: &mut TestRng| {
        let mut bytes = Vec::new();
        for _ in 0..=below(rng, 12) {
            bytes.extend_from_slice(PIECES[below(rng, PIECES.len())]);
            bytes.push(0x2f);
        }
        for _ in 0..below(rng, 4) {
            let at = below(rng, bytes.len());
            bytes[at] = rng.next_u32() as u8;
        }
        bytes
    };
    let kinds = smoke(20_000, make, qpack::run);
    for kind in [
        "Ok(Fields",
        "Err(Truncated)",
        "Err(Index)",
        "Err(Blocked)",
        "Err(Base)",
        "Err(InsertCount)",
        "Some(EntryTooLarge)",
        "Some(Index)",
        "None",
    ] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
}
