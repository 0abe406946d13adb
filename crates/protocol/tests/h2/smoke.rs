//! The fuzz targets' bodies with many seeds, a short run of what `fuzz/` does at length.

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::bodies::h2::{blocks, bytes, frames, operations};
use crate::{connection_errors, stream_errors};

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn below(rng: &mut TestRng, end: usize) -> usize {
    rng.next_u32() as usize % end.max(1)
}

/// One to six changes: a byte replaced, removed or put in, a part doubled, cut or taken from
/// another.
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

/// Runs a body on bytes made from each seed. A panic names its seed.
fn smoke(seeds: u64, make: impl Fn(&mut TestRng) -> Vec<u8>, body: fn(&[u8])) {
    for seed in 0..seeds {
        let bytes = make(&mut rng(seed));
        let outcome = std::panic::catch_unwind(|| body(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {}", bytes.escape_ascii());
    }
}

#[test]
fn servers() {
    let short = |row: &(Vec<u8>, &str, u32)| row.0.len() < 500;
    let rows = [connection_errors::rows(), stream_errors::rows()].concat();
    let mut originals: Vec<Vec<u8>> = rows.into_iter().filter(short).map(|row| row.0).collect();
    originals.push(frames::settings(&[(3, 1), (4, 70_000)]));
    originals.push(frames::goaway(3, 0));
    originals.push(frames::headers(1, 0, b"\x88\x5c\x013"));
    originals.push(frames::data(1, 1, b"abc"));
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
        let mut bytes = vec![0; 40 + below(rng, 400)];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    smoke(3_000, make, operations::run);
}

#[test]
fn blocks() {
    let originals = [
        b"\x88\x5c\x02\x31\x33\x2f\x88\xbe\x2f".to_vec(),
        b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x2f\xbe\xbf".to_vec(),
        b"\x40\x01a\x01b\x2f\x7f\x01\x01c\x2f\xc0\xbf\x2f".to_vec(),
        b"l\x02\x2f\x20\x3f\x01\x88\x2fr\x2f".to_vec(),
        b"\x0f\x0d\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x2f".to_vec(),
    ];
    let make = |rng: &mut TestRng| {
        let mut bytes = originals[below(rng, originals.len())].clone();
        mutate(rng, &mut bytes, &originals);
        bytes
    };
    smoke(20_000, make, blocks::run);
}
