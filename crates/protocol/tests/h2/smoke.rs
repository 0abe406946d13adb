//! Runs the fuzz targets briefly with many seeds, and checks that these seeds reach enough states.

use std::collections::BTreeMap;
use std::fmt::Display;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::bodies::h2::{blocks, bytes, operations};
use crate::{connection_errors, conversations, stream_errors};

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn below(rng: &mut TestRng, end: usize) -> usize {
    rng.next_u32() as usize % end.max(1)
}

/// Applies one to six changes. Each replaces, removes or inserts a byte, duplicates or removes a
/// part, or inserts a part of another input.
fn mutate(rng: &mut TestRng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    const TELLING: &[u8] = b"\x00\x01\x02\x04\x05\x08\x09\x20\x25\x3f\x40\x7f\x80\x88\xbe\xff";
    for _ in 0..=below(rng, 6) {
        let at = below(rng, bytes.len());
        let end = (at + below(rng, 20)).min(bytes.len());
        let byte = match below(rng, 4) {
            0 => rng.next_u32() as u8,
            _ => TELLING[below(rng, TELLING.len())],
        };
        match below(rng, 7) {
            0 | 1 if at < bytes.len() => bytes[at] = byte,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.insert(at, byte),
            4 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            5 => drop(bytes.drain(at..end)),
            _ => {
                let other = &others[below(rng, others.len())];
                bytes.splice(end..end, other.iter().copied());
            }
        }
    }
}

/// Number of occurrences of each kind of event.
type Tally = BTreeMap<String, u32>;

/// Runs a fuzz target on bytes generated from each seed. A panic message contains the seed.
fn smoke<T: Display>(
    seeds: u64,
    make: impl Fn(&mut TestRng) -> Vec<u8>,
    body: fn(&[u8]) -> Vec<T>,
) -> Tally {
    let mut tally = Tally::new();
    for seed in 0..seeds {
        let bytes = make(&mut rng(seed));
        let outcome = std::panic::catch_unwind(|| body(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {}", bytes.escape_ascii());
        for seen in outcome.into_iter().flatten() {
            *tally.entry(kind(&seen.to_string())).or_default() += 1;
        }
    }
    tally
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

/// Connection violations that the random servers and the random operations must both reach.
const CONNECTION_VIOLATIONS: &[&str] = &[
    "NoSettings",
    "FrameLength(Ping)",
    "FrameLength(RstStream)",
    "FrameLength(GoAway)",
    "FrameLength(WindowUpdate)",
    "FrameLength(Priority)",
    "SettingsLength",
    "SettingsAckLength",
    "FrameSizeSetting",
    "StreamZero(Data)",
    "StreamZero(Headers)",
    "StreamZero(Priority)",
    "StreamZero(RstStream)",
    "StreamNotZero(Settings)",
    "StreamNotZero(Ping)",
    "StreamNotZero(GoAway)",
    "Padding",
    "IdleStream(Headers)",
    "IdleStream(Data)",
    "IdleStream(WindowUpdate)",
    "ClosedStream(Headers)",
    "ClosedStream(Data)",
    "Push",
    "BlockInterrupted(Data)",
    "BlockInterrupted(Headers)",
    "BlockInterrupted(Settings)",
    "LoneContinuation",
    "Hpack(Index)",
    "Hpack(Truncated)",
    "WindowOverflow",
    "GoAwayIncreased",
];

/// Stream violations that the random inputs must reach.
const STREAM_VIOLATIONS: &[&str] = &[
    "Fields(NoStatus)",
    "Fields(PseudoHeader)",
    "Fields(PseudoHeaderInTrailers)",
    "InterimEnds",
    "DataBeforeHead",
    "TrailersDoNotEnd",
    "FieldsInTunnel",
    "BodyTooLong",
    "BodyTooShort",
    "PriorityLength",
];

/// Checks that each of these kinds of events occurred at least `least` times.
fn check(tally: &Tally, least: u32, kinds: &[&str]) {
    for kind in kinds {
        let count = tally.get(*kind).copied().unwrap_or(0);
        assert!(count >= least, "{kind} occurred {count} times: {tally:#?}");
    }
}

#[test]
fn servers() {
    let make = |rng: &mut TestRng| {
        // Some connections have no dynamic table.
        let choice = if below(rng, 16) == 0 { 0x80 } else { 0 };
        let choices = [choice, 3, 1, 9, 40];
        [choices.as_slice(), &conversations::changed(rng)].concat()
    };
    let tally = smoke(2_000, make, bytes::run);
    check(
        &tally,
        500,
        &["head", "body", "end", "interim", "goaway", "unprocessed"],
    );
    check(&tally, 1, CONNECTION_VIOLATIONS);
    check(&tally, 1, STREAM_VIOLATIONS);
    let more = [
        "ConnectionWindowExceeded",
        "WindowExceeded",
        "FrameTooLong",
        "reset",
    ];
    check(&tally, 1, &more);
    check(
        &tally,
        1,
        &[
            "Hpack(ResizeLate)",
            "Hpack(ResizeMissing)",
            "Hpack(TableTooLarge)",
        ],
    );
}

#[test]
fn servers_of_any_bytes() {
    let short = |row: &(Vec<u8>, &str, u32)| row.0.len() < 500;
    let rows = [connection_errors::rows(), stream_errors::rows()].concat();
    let originals: Vec<Vec<u8>> = rows.into_iter().filter(short).map(|row| row.0).collect();
    let make = |rng: &mut TestRng| {
        let mut bytes = originals[below(rng, originals.len())].clone();
        mutate(rng, &mut bytes, &originals);
        let choices = [rng.next_u32() as u8, 3, 1, 9, 40];
        [choices.as_slice(), &bytes].concat()
    };
    smoke(1_500, make, bytes::run);
}

#[test]
fn operations() {
    let make = |rng: &mut TestRng| {
        let mut bytes = vec![0; 40 + below(rng, 800)];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    let tally = smoke(1_500, make, operations::run);
    check(
        &tally,
        300,
        &[
            "head",
            "body",
            "end",
            "interim",
            "goaway",
            "reset",
            "unprocessed",
        ],
    );
    check(&tally, 1, CONNECTION_VIOLATIONS);
    check(&tally, 1, STREAM_VIOLATIONS);
    let more = [
        "FrameSizeSetting",
        "PushSetting",
        "WindowSetting",
        "ZeroIncrement",
    ];
    check(&tally, 1, &more);
}

#[test]
fn blocks() {
    let originals = [
        b"\x88\x5c\x02\x31\x33\x2f\x88\xbe\x2f".to_vec(),
        b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x2f\xbe\xbf".to_vec(),
        b"\x40\x01a\x01b\x2f\x7f\x01\x01c\x2f\xc0\xbf\x2f".to_vec(),
        b"l\x02\x2f\x20\x3f\x01\x88\x2fr\x2f".to_vec(),
        b"\x0f\x0d\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x2f".to_vec(),
        b"\x88\x00\x01a\x85\x1f\xff\xff\xff\xff\x2f".to_vec(),
    ];
    let make = |rng: &mut TestRng| {
        let mut bytes = originals[below(rng, originals.len())].clone();
        mutate(rng, &mut bytes, &originals);
        bytes
    };
    let tally = smoke(20_000, make, blocks::run);
    let kinds = [
        "Ok(Fields",
        "Err(Truncated)",
        "Err(Integer)",
        "Err(Index)",
        "Err(Huffman(Padding))",
        "Err(Huffman(EndOfString))",
        "Err(TableTooLarge)",
        "Err(ResizeLate)",
        "Err(ResizeMissing)",
    ];
    check(&tally, 100, &kinds);
}
