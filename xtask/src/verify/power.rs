//! Statistical power: a server with 10% more cost must be called slower.

use serde_json::Value;

use super::experiments::{self, EXPERIMENTS, Prices};
use super::figures::CheckFigure;
use super::program::Prony;

/// Busy work of the cheaper server, in rounds of one to three nanoseconds: enough that the server
/// limits the rate, not the generator.
pub(super) const BASE_ROUNDS: u64 = 20_000;

/// Relative increase of the cost of a request.
const COST_INCREASE: f64 = 0.10;

/// Smallest number of experiments that must find it.
const FOUND_MIN: u64 = 9;

/// Calibrates, runs the experiments, counts.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let prices = calibrate(prony, COST_INCREASE)?;
    println!(
        "a request costs {} rounds of work, or {}: 10% more in all",
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

/// Chooses the cost that is higher by this share of a request: the time of a saturated server per request is linear in the rounds, so
/// two loads determine the cost of a round and of a request.
pub(super) fn calibrate(prony: &Prony, increase: f64) -> Result<Prices, String> {
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
    let other = dearer(base, twice, increase)
        .ok_or("twice the work did not slow the server down; is the machine busy?")?;
    Ok(Prices {
        base: BASE_ROUNDS,
        other,
    })
}

/// Number of rounds that increases the cost of a request by this share, from its seconds at the base and
/// at twice the rounds.
fn dearer(base_s: f64, twice_s: f64, increase: f64) -> Option<u64> {
    let per_round_s = (twice_s - base_s) / BASE_ROUNDS as f64;
    let more = increase * base_s / per_round_s;
    (per_round_s > 0.0 && more < BASE_ROUNDS as f64).then(|| BASE_ROUNDS + more.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearer_price_is_ten_percent_of_the_whole_request() {
        // 2 ns per round and 10 µs of other cost: 50 µs, of which a tenth is 2,500 rounds.
        assert_eq!(dearer(50e-6, 90e-6, 0.1), Some(22_500));
        assert_eq!(dearer(50e-6, 50e-6, 0.1), None);
        assert_eq!(dearer(50e-6, 50.1e-6, 0.1), None);
    }
}
