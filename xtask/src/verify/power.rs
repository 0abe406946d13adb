//! A server that is 10% dearer by construction must be called slower.

use serde_json::Value;

use super::experiments::{self, EXPERIMENTS, Prices};
use super::figures::Figure;
use super::program::Prony;

/// The busy work of the cheaper server, in rounds of one to three nanoseconds: enough that the
/// server and not the generator sets the rate.
pub(super) const BASE_ROUNDS: u64 = 20_000;

/// How much dearer a request is, all its costs together.
const DEARER: f64 = 0.10;

/// How many of the experiments must find it.
const LEAST_FOUND: u64 = 9;

/// Calibrates, runs the experiments, counts.
pub(super) fn run(prony: &Prony) -> Result<Vec<Figure>, String> {
    let prices = calibrate(prony)?;
    println!(
        "a request costs {} rounds of work, or {}: 10% more in all",
        prices.base, prices.other
    );
    let concluded = experiments::run(prony, prices)?;
    let mut figures: Vec<Figure> = (1..)
        .zip(&concluded)
        .map(|(seed, c)| c.figure(seed))
        .collect();
    let found = concluded.iter().filter(|c| c.verdict == "slower").count() as u64;
    figures.push(Figure::judged(
        "found slower",
        format!("at least {LEAST_FOUND} of {EXPERIMENTS}"),
        format!("{found}"),
        found >= LEAST_FOUND,
    ));
    Ok(figures)
}

/// Chooses the dearer price: the time that a saturated server takes for a request is linear in the
/// rounds, so two loads tell both what a round costs and what a request costs in all.
fn calibrate(prony: &Prony) -> Result<Prices, String> {
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
    let other = dearer(base, twice)
        .ok_or("twice the work did not slow the server down; is the machine busy?")?;
    Ok(Prices {
        base: BASE_ROUNDS,
        other,
    })
}

/// The rounds that make a request [`DEARER`], from its seconds at the base and at twice the rounds.
fn dearer(base_s: f64, twice_s: f64) -> Option<u64> {
    let per_round_s = (twice_s - base_s) / BASE_ROUNDS as f64;
    let more = DEARER * base_s / per_round_s;
    (per_round_s > 0.0 && more < BASE_ROUNDS as f64).then(|| BASE_ROUNDS + more.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearer_price_is_ten_percent_of_the_whole_request() {
        // 2 ns a round and 10 µs besides: 50 µs, of which a tenth is 2,500 rounds.
        assert_eq!(dearer(50e-6, 90e-6), Some(22_500));
        assert_eq!(dearer(50e-6, 50e-6), None);
        assert_eq!(dearer(50e-6, 50.1e-6), None);
    }
}
