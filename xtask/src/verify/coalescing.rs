//! Check: coalesced waits, which let a closed loop handle several responses at once, change neither
//! the service times of a slow but steady server, nor the result of a comparison.

use serde_json::Value;

use super::experiments::{ExperimentFolder, ExperimentLoad, OriginCosts};
use super::figures::CheckFigure;
use super::power::{self, BASE_ROUNDS};
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
/// Relative increase in the cost of a request on the slower server.
const COST_INCREASE: f64 = 0.05;
/// Maximum difference between two ratios of rates.
const RATIO_TOLERANCE: f64 = 0.003;

/// Runs the loads and experiments, and compares their results.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let mut figures = Vec::new();
    for (server, options, path) in SERVERS {
        for connections in ["64", "256"] {
            let origin = prony.origin(options)?;
            figures.extend(times(prony, server, &origin.url(path), connections)?);
        }
    }
    let other = power::calibrate(prony, COST_INCREASE)?;
    let equal = OriginCosts {
        other: BASE_ROUNDS,
        ..other
    };
    figures.push(ratios(prony, "equal servers", equal)?);
    figures.push(ratios(prony, "5% more cost", other)?);
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
            "3s",
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

/// Compares the ratios of two servers' rates with and without coalesced waits.
fn ratios(prony: &Prony, name: &str, costs: OriginCosts) -> Result<CheckFigure, String> {
    let ratio = |coalesces: bool| -> Result<f64, String> {
        let load = ExperimentLoad {
            connections: 64,
            coalesces,
        };
        let folder = ExperimentFolder::new(prony, costs, load)?;
        let run = if coalesces { "on" } else { "off" };
        let concluded = folder.compare(prony, run, 1, &["--blocks", "15", "--duration", "2s"])?;
        println!("{name}, coalescing {run}: {}", concluded.found());
        concluded
            .estimate()
            .ok_or_else(|| format!("{name}: no ratio"))
    };
    let (on, off) = (ratio(true)?, ratio(false)?);
    Ok(CheckFigure::judged(
        &format!("{name}: ratio of the rates, on and off"),
        format!("equal ± {RATIO_TOLERANCE}"),
        format!("{on:.4} and {off:.4}"),
        (on - off).abs() <= RATIO_TOLERANCE,
    ))
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
