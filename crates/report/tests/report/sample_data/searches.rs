//! Sample probes of capacity searches.

use serde_json::{Value, json};

use super::Noise;

/// Rates of the probes, relative to the capacity.
const RATES: [f64; 10] = [0.25, 0.5, 0.71, 0.9, 0.95, 1.0, 1.05, 1.1, 1.3, 1.9];
/// The limit of the goal in microseconds.
const LIMIT_US: f64 = 50_000.0;
/// Utilization at which the 99th percentile reaches the limit.
const UTILIZATION: f64 = 0.9;

/// A search as stored in `trial.json`. The 99th percentile grows as in a queue.
pub(super) fn of_trial(goal: &str, capacity: f64, noise: &mut Noise) -> Value {
    let probes = RATES.map(|share| {
        let utilization = UTILIZATION * share;
        let p99_us = if utilization < 1.0 {
            LIMIT_US * (1.0 - UTILIZATION) / (1.0 - utilization)
        } else {
            20.0 * LIMIT_US * utilization
        };
        let value = (p99_us * noise.around(0.08)).round();
        json!({
            "purpose": "edge",
            "rate_per_s": (share * capacity).round(),
            "met": value < LIMIT_US,
            "goals": [{"goal": goal, "met": value < LIMIT_US, "value": value}],
        })
    });
    let outcome = json!({"kind": "capacity", "per_s": capacity});
    json!({"end": {"kind": "outcome", "outcome": outcome}, "probes": probes})
}
