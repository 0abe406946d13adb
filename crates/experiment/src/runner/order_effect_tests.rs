//! Tests with simulated position effects, for trials and for slices.

use prony_record::Record;
use prony_stats::Values;

use super::*;
use crate::runner::SliceResult;

/// Returns slight deterministic noise that depends only on `seed`.
fn noise(seed: u32) -> f64 {
    let mixed = seed.wrapping_mul(2_654_435_761) >> 16;
    1.0 + f64::from(mixed % 1000) / 1e5
}

fn trial(block: u32, variant: usize, position: usize, rate: f64) -> TrialResult {
    TrialResult {
        block,
        variant,
        position,
        values: Values::from([(Metric::RatePerS, rate)]),
        telemetry: Default::default(),
        resources: Default::default(),
        responses: Default::default(),
        hosts: Default::default(),
        findings: Vec::new(),
        slices: Vec::new(),
        search: None,
        functions: std::collections::BTreeMap::new(),
        waits: std::collections::BTreeMap::new(),
        record: Some(Record::default()),
    }
}

/// Returns trials of two variants in alternating order. In the second position, a trial loses the
/// fraction `loss` of its rate.
fn trials(blocks: u32, loss: f64) -> Vec<TrialResult> {
    let of_block = |block: u32| {
        [0, 1].map(|variant| {
            let position = (block as usize + variant) % 2;
            let level = 1000.0 * (1.0 + f64::from(block) / 10.0) * [1.0, 1.3][variant];
            let rate = level * noise(block * 2 + variant as u32) * [1.0, 1.0 - loss][position];
            trial(block, variant, position, rate)
        })
    };
    (1..=blocks).flat_map(of_block).collect()
}

/// Simulates interleaved blocks. The speed of the machine changes between blocks and rounds, and
/// the difference between the variants changes between blocks. The trials also have positions,
/// which have no effect.
fn interleaved(rounds: u32, loss: f64) -> Vec<TrialResult> {
    let mut results = trials(4, 0.5);
    for result in &mut results {
        let start = [1.0, 1.2 + 0.05 * f64::from(result.block)][result.variant];
        let slices = (0..rounds).map(|round| {
            let cell = (result.block * rounds + round) * 2;
            // The noise determines the order of the variants in a round.
            let flipped = ((noise(cell + 1) - 1.0) * 1e5) as u32 % 2;
            let position = (result.variant as u32 + flipped) % 2;
            let machine = if round % 7 < 3 { 0.5 } else { 1.0 };
            let jitter = noise(cell + result.variant as u32);
            let rate = 4e4 * start * machine * jitter * (1.0 - loss * f64::from(position));
            let mean_us = 1e9 / rate;
            SliceResult {
                round,
                position,
                length_s: 0.225,
                ok: (rate * 0.225) as u64,
                failed: 0,
                mean_response_us: Some(mean_us),
                drain_s: 0.01,
            }
        });
        result.slices = slices.collect();
    }
    results
}

fn figures(results: &[TrialResult]) -> Option<OrderEffect> {
    finding(results, 2).map(|found| found.finding.figures().unwrap())
}

#[test]
fn an_effect_of_position_is_distinguished_from_variants_and_blocks() {
    let found = figures(&trials(8, 0.1)).unwrap();
    assert_eq!(found.part, OrderedPart::TrialRate);
    assert!((found.ratio - 0.9).abs() < 0.01, "{found:?}");
    assert_eq!(figures(&trials(8, 0.0)), None);
}

#[test]
fn slices_are_judged_by_their_position_in_the_round() {
    let found = figures(&interleaved(40, 0.02)).unwrap();
    assert_eq!(found.part, OrderedPart::SliceRate);
    assert!((found.ratio - 0.98).abs() < 0.001, "{found:?}");
    assert_eq!(figures(&interleaved(40, 0.0)), None);
}

#[test]
fn a_negligible_effect_of_slices_is_not_reported() {
    assert_eq!(figures(&interleaved(400, 0.003)), None);
}

#[test]
fn open_loops_are_judged_by_the_mean_response_time() {
    let mut results = interleaved(40, 0.02);
    for result in &mut results {
        let record = result.record.as_mut().unwrap();
        record.load.model = "open".to_owned();
        result.slices.iter_mut().for_each(|slice| slice.ok = 100);
    }
    let found = figures(&results).unwrap();
    assert_eq!(found.part, OrderedPart::SliceResponseTime);
    assert!((found.ratio - 1.02).abs() < 0.01, "{found:?}");
}

#[test]
fn few_rounds_give_no_finding() {
    assert_eq!(figures(&interleaved(1, 0.5)), None);
    assert_eq!(finding(&[], 2), None);
}
