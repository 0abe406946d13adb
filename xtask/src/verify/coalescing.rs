//! Check: coalesced waits, which let a closed loop handle several responses at once, change neither
//! the service times of a slow but steady server, nor the result of a comparison.

use serde_json::Value;

use super::experiments::{CostUnit, ExperimentFolder, ExperimentLoad, OriginCosts};
use super::figures::CheckFigure;
use super::program::Prony;

/// Number of pairs of loads per server, one with coalesced waits and one without.
const PAIRS: usize = 5;
/// Maximum relative difference of a percentile between the two.
const TIME_TOLERANCE: f64 = 0.05;
/// Names, options and paths of the steady servers: one that serves one request at a time, and one that
/// delays each response by the same time.
const SERVERS: [(&str, &[&str], &str); 2] = [
    ("50 µs one at a time", &["--service-time", "50us"], "/"),
    ("20 ms each", &[], "/delay/20ms"),
];
/// Service times of the experiments' servers, in microseconds.
const BASE_US: u64 = 100;
const SLOWER_US: u64 = 105;
/// Maximum difference between a ratio of rates and the true one.
const RATIO_TOLERANCE: f64 = 0.003;

/// Runs the loads and experiments, and compares their results.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let mut figures = Vec::new();
    for (server, options, path) in SERVERS {
        for connections in ["64", "256"] {
            let origin = prony.origin(options)?;
            let times = times(prony, server, &origin.url(path), connections)?;
            times
                .iter()
                .for_each(|it| println!("{}: {}", it.name, it.found));
            figures.extend(times);
        }
    }
    figures.extend(ratios(prony, "equal servers", BASE_US)?);
    figures.extend(ratios(prony, "5% slower server", SLOWER_US)?);
    Ok(figures)
}

/// Compares the service times of pairs of loads.
fn times(
    prony: &Prony,
    server: &str,
    url: &str,
    connections: &str,
) -> Result<Vec<CheckFigure>, String> {
    let percentiles = |coalesces: bool| -> Result<[f64; 2], String> {
        let mut args = vec![
            "load",
            "-c",
            connections,
            "--warmup",
            "500ms",
            "-d",
            "2s",
            "--cores",
            "1",
            url,
            "--json",
            "-",
        ];
        if !coalesces {
            args.push("--no-coalescing");
        }
        let output = prony.run(&args, &[0])?;
        let record: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
        let time = |name: &str| {
            let found = record.pointer(&format!("/service_time_us/{name}"));
            let found = found.and_then(Value::as_f64);
            found.ok_or_else(|| format!("no {name} in the record"))
        };
        Ok([time("p50")?, time("p99")?])
    };
    let mut ratios = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        // The mode that runs first alternates between pairs.
        let first = pair % 2 == 0;
        let (one, two) = (percentiles(first)?, percentiles(!first)?);
        let (on, off) = if first { (one, two) } else { (two, one) };
        for (index, ratios) in ratios.iter_mut().enumerate() {
            ratios.push(on[index] / off[index]);
        }
    }
    let figure = |(name, ratios): (&str, Vec<f64>)| {
        let ratio = median(ratios);
        CheckFigure::judged(
            &format!("{name} of {server}, {connections} connections, on ÷ off"),
            format!("1 ± {TIME_TOLERANCE}"),
            format!("{ratio:.3}"),
            (ratio - 1.0).abs() <= TIME_TOLERANCE,
        )
    };
    Ok(["p50", "p99"].into_iter().zip(ratios).map(figure).collect())
}

/// Compares the ratio of two servers' rates, with and without coalesced waits, with the true ratio.
fn ratios(prony: &Prony, name: &str, other_us: u64) -> Result<[CheckFigure; 2], String> {
    let costs = OriginCosts {
        base: BASE_US,
        other: other_us,
        unit: CostUnit::Microseconds,
    };
    let truth = BASE_US as f64 / other_us as f64;
    let figure = |coalesces: bool| -> Result<CheckFigure, String> {
        let load = ExperimentLoad {
            connections: 64,
            coalesces,
        };
        let folder = ExperimentFolder::new(prony, costs, load)?;
        let mode = if coalesces { "on" } else { "off" };
        let concluded = folder.compare(prony, mode, 1, &["--blocks", "5"])?;
        let ratio = concluded.estimate();
        let ratio = ratio.ok_or_else(|| format!("{name}: no ratio"))?;
        Ok(CheckFigure::judged(
            &format!("{name}: ratio of the rates, coalescing {mode}"),
            format!("{truth:.4} ± {RATIO_TOLERANCE}"),
            format!("{ratio:.4}: {}", concluded.found()),
            (ratio - truth).abs() <= RATIO_TOLERANCE,
        ))
    };
    Ok([figure(true)?, figure(false)?])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }
}
