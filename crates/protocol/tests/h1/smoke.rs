//! Runs the fuzz targets on seeded mutations, as a short version of the runs in `fuzz/`.

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::{bodies, responses, violations};

const SEEDS: u64 = 4_000;

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn below(rng: &mut TestRng, end: usize) -> usize {
    rng.next_u32() as usize % end.max(1)
}

/// Applies one to eight changes. Each replaces, removes or inserts a byte, duplicates or removes a
/// part, or inserts a part of another input.
fn mutate(rng: &mut TestRng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    const TELLING: &[u8] = b"\r\n \t:;,\x000159afgHX\x7f\xff";
    for _ in 0..=below(rng, 8) {
        let at = below(rng, bytes.len());
        let end = (at + below(rng, 12)).min(bytes.len());
        let byte = match below(rng, 4) {
            0 => rng.next_u32() as u8,
            _ => TELLING[below(rng, TELLING.len())],
        };
        match below(rng, 7) {
            0 if at < bytes.len() => bytes[at] = byte,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            4 => drop(bytes.drain(at..end)),
            5 => bytes.truncate(end.max(bytes.len() / 2)),
            _ => {
                let other = &others[below(rng, others.len())];
                let from = below(rng, other.len());
                let part = other[from..(from + below(rng, 24)).min(other.len())].to_vec();
                bytes.splice(at..end, part);
            }
        }
    }
}

/// Runs a fuzz target on mutations of the originals. A panic message contains the seed.
fn smoke(originals: &[Vec<u8>], body: fn(&[u8])) {
    for seed in 0..SEEDS {
        let mut rng = rng(seed);
        let mut bytes = originals[below(&mut rng, originals.len())].clone();
        mutate(&mut rng, &mut bytes, originals);
        let outcome = std::panic::catch_unwind(|| body(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {}", bytes.escape_ascii());
    }
}

#[test]
fn responses() {
    let good = responses::ALL.concat();
    let bad = violations::ALL.concat();
    let inputs = good
        .iter()
        .map(|row| row.1.to_vec())
        .chain(bad.iter().map(violations::bytes));
    let originals: Vec<Vec<u8>> = inputs
        .enumerate()
        .map(|(at, bytes)| [&[(at % 256) as u8, 3, 1, 9, 40], bytes.as_slice()].concat())
        .collect();
    smoke(&originals, bodies::response::run);
}

#[test]
fn operations() {
    let originals: Vec<Vec<u8>> = (0..50)
        .map(|seed| {
            let mut bytes = vec![0; 60];
            rng(seed).fill_bytes(&mut bytes);
            bytes
        })
        .collect();
    smoke(&originals, bodies::operations::run);
}

#[test]
fn requests() {
    let originals: Vec<Vec<u8>> = [
        "\0GET|/|host||User-Agent|me|Accept|x",
        "\x01POST|/a?b=c|host:80|body|Content-Length|4",
        "\x02POST|http://host/|host|some body|Transfer-Encoding|chunked|Connection|close",
        "\x03OPTIONS|*||\r\n\r\n|Host|other|X-\u{e4}|y",
        "\x02CONNECT|host:443|host|",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    smoke(&originals, bodies::request::run);
}
