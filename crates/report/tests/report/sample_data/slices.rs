//! Sample slices of interleaved blocks.

use prony_record::Record;
use prony_stats::RoundMetric;
use serde::Serialize;

use super::{Noise, SampleExperiment};

/// Length of the counted part of a slice.
const LENGTH_S: f64 = 0.225;
/// Speed of the machine while the neighbor is active, relative to the usual speed.
const BURST_SPEED: f64 = 0.55;

/// A slice as stored in `trial.json`.
#[derive(Serialize)]
pub(super) struct SampleSlice {
    round: u32,
    position: u32,
    length_s: f64,
    ok: u64,
    failed: u64,
    mean_response_us: Option<f64>,
    drain_s: f64,
}

/// The machine's speed in each round of a block, shared by all variants; empty without rounds.
pub(super) fn speeds(sample_data: &SampleExperiment, block: u32) -> Vec<f64> {
    let mut noise = Noise(sample_data.seed * 1_000 + u64::from(block));
    let mut is_slow = block.is_multiple_of(2);
    let speed = |_| {
        is_slow ^= noise.next() > 1.2;
        noise.around(0.01) * if is_slow { BURST_SPEED } else { 1.0 }
    };
    (0..sample_data.rounds).map(speed).collect()
}

/// Mean speed; 1 without rounds.
pub(super) fn mean(speeds: &[f64]) -> f64 {
    match speeds {
        [] => 1.0,
        _ => speeds.iter().sum::<f64>() / speeds.len() as f64,
    }
}

/// Slices whose mean rate equals the rate in the trial's record.
pub(super) fn of_trial(
    record: &Record,
    speeds: &[f64],
    place: usize,
    noise: &mut Noise,
) -> Vec<SampleSlice> {
    let usual = record.rate.ok_per_s / mean(speeds);
    let slices = (0..).zip(speeds).map(|(round, speed)| {
        let rate = usual * speed * noise.around(0.012);
        let mean_us = f64::from(record.load.connections) * 1e6 / rate;
        SampleSlice {
            round,
            position: (round + place as u32) % 2,
            length_s: LENGTH_S,
            ok: (rate * LENGTH_S).round() as u64,
            failed: 0,
            mean_response_us: Some((mean_us * 10.0).round() / 10.0),
            drain_s: 0.001,
        }
    });
    slices.collect()
}

/// The rate of each slice.
pub(super) fn values(block: u32, slices: &[SampleSlice]) -> Vec<((u32, u32), f64)> {
    let value = |slice: &SampleSlice| {
        let rate = RoundMetric::RatePerS.value(slice.ok, slice.length_s, None)?;
        Some(((block, slice.round), rate))
    };
    slices.iter().filter_map(value).collect()
}
