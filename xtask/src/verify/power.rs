//! Check of the statistical power: a server with 10% more cost per request must be found to be
//! slower.

use serde_json::Value;

use super::experiments::{self, CostUnit, EXPERIMENTS, OriginCosts};
use super::figures::CheckFigure;
use super::program::Prony;

/// Busy work per request of the cheaper server, in rounds of the origin's arithmetic loop. This
/// much work makes the server the bottleneck instead of the generator.
pub(super) const BASE_ROUNDS: u64 = 20_000;

/// Relative increase in the cost of a request.
const COST_INCREASE: f64 = 0.10;

/// Minimum number of experiments that must find the difference.
const FOUND_MIN: u64 = 9;

/// Calibrates the costs, runs the experiments and counts the correct verdicts.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let prices = calibrate(prony, COST_INCREASE)?;
    println!(
        "rounds of work per request: {} and {} (10% more cost in total)",
        prices.base, prices.other
    );
    let concluded = experiments::run(prony, prices)?;
    let mut figures: Vec<CheckFigure> = (1..)
        .zip(&concluded)
        .map(|(seed, c)| c.figure(seed))
        .collect();
    let found = concluded.iter().filter(|c| c.verdict == "slower").count() as u64;
    figures.push(CheckFigure::judged(
        "found slower",
        format!("at least {FOUND_MIN} of {EXPERIMENTS}"),
        format!("{found}"),
        found >= FOUND_MIN,
    ));
    Ok(figures)
}

/// Chooses the rounds that increase the cost of a request by the fraction `increase`. The time per
/// request of a saturated server is linear in the rounds, so two loads determine the cost of a
/// round and of a request.
pub(super) fn calibrate(prony: &Prony, increase: f64) -> Result<OriginCosts, String> {
    let seconds = |rounds: u64| -> Result<f64, String> {
        let origin = prony.origin(&["--work", &rounds.to_string()])?;
        let url = origin.url("/");
        let args = [
            "load", "-c", "10", "-d", "4s", "--cores", "1", &url, "--json", "-",
        ];
        let output = prony.run(&args, &[0])?;
        let record: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
        let rate = record.pointer("/rate/ok_per_s").and_then(Value::as_f64);
        rate.filter(|r| *r > 0.0)
            .map(|r| 1.0 / r)
            .ok_or_else(|| "no rate in the record".to_string())
    };
    let twice = seconds(2 * BASE_ROUNDS)?;
    let base = seconds(BASE_ROUNDS)?;
    let other = rounds_for_increase(base, twice, increase)
        .ok_or("the server is not slower with twice the work (is the machine busy?)")?;
    Ok(OriginCosts {
        base: BASE_ROUNDS,
        other,
        unit: CostUnit::Rounds,
    })
}

/// Returns the number of rounds that increases the cost of a request by the fraction `increase`. It
/// is computed from the seconds per request with the base number of rounds and with twice that
/// number.
fn rounds_for_increase(base_s: f64, twice_s: f64, increase: f64) -> Option<u64> {
    let per_round_s = (twice_s - base_s) / BASE_ROUNDS as f64;
    let more = increase * base_s / per_round_s;
    (per_round_s > 0.0 && more < BASE_ROUNDS as f64).then(|| BASE_ROUNDS + more.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearer_price_is_ten_percent_of_the_whole_request() {
        // 20,000 rounds of 2 ns, plus 10 µs of other cost, take 50 µs. A tenth of that is 2,500
        // more rounds.
        assert_eq!(rounds_for_increase(50e-6, 90e-6, 0.1), Some(22_500));
        assert_eq!(rounds_for_increase(50e-6, 50e-6, 0.1), None);
        assert_eq!(rounds_for_increase(50e-6, 50.1e-6, 0.1), None);
    }
}
