//! Check: measured capacities agree with queueing theory. An origin on one core with constant work
//! and Poisson arrivals is an M/D/1 queue, whose response times are known (Erlang 1909; Crommelin
//! 1932; Franx 2001).

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::{Origin, Prony};

/// CPU time that the origin spends on each request.
const WORK: &str = "300us";
/// Limits of the p99 response time, as multiples of the service time.
const LIMITS: [f64; 3] = [2.0, 5.0, 20.0];
/// Environment variable with the number of experiments per limit, each with five searches. An
/// experiment takes two to six minutes; 13 give a reliable coverage.
const RUNS_VARIABLE: &str = "PRONY_VERIFY_CAPACITY_RUNS";
const RUNS: u64 = 1;
/// Minimum fraction of intervals that contain the theoretical capacity.
const COVERAGE_MIN: f64 = 0.9;

pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let runs = match std::env::var(RUNS_VARIABLE) {
        Err(_) => RUNS,
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{RUNS_VARIABLE}={text} is not a number"))?,
    };
    let origin = prony.origin(&["--work", WORK])?;
    let service_s = service_time_s(prony, &origin)?;
    let mut figures = vec![CheckFigure::shown(
        "service time".to_owned(),
        format!("{:.1} us", 1e6 * service_s),
    )];
    let (mut covered, mut all) = (0, 0);
    for limit in LIMITS {
        let capacity = share_where_p99_is(limit) / service_s;
        for seed in 0..runs {
            let found = search(prony, &origin, limit * service_s, 1_000_000 * (seed + 1))?;
            let figure = |key: &str| found[key].as_f64();
            let is_covered = figure("low_per_s")
                .zip(figure("high_per_s"))
                .is_some_and(|(low, high)| low <= capacity && capacity <= high);
            covered += u64::from(is_covered);
            all += 1;
            figures.push(CheckFigure::shown(
                format!("p99 < {limit} service times: {capacity:.0}/s"),
                found["text"].as_str().unwrap_or_default().to_owned(),
            ));
        }
    }
    let required = (COVERAGE_MIN * all as f64).floor() as u64;
    figures.push(CheckFigure::judged(
        "intervals that contain the capacity",
        format!("at least {required} of {all}"),
        covered.to_string(),
        covered >= required,
    ));
    Ok(figures)
}

/// Time per request of the saturated server, in seconds.
fn service_time_s(prony: &Prony, origin: &Origin) -> Result<f64, String> {
    let url = origin.url("/");
    let args = [
        "load", "--cores", "1", "-c", "4", "-d", "5s", "--json", "-", &url,
    ];
    let record = json(prony, &args, &[0])?;
    match record["rate"]["ok_per_s"].as_f64() {
        Some(rate) if rate > 0.0 => Ok(1.0 / rate),
        _ => Err("the load has no rate".to_owned()),
    }
}

fn search(prony: &Prony, origin: &Origin, limit_s: f64, seed: u64) -> Result<Value, String> {
    let goal = format!("p99<{:.1}us", 1e6 * limit_s);
    let (seed, url) = (seed.to_string(), origin.url("/"));
    let args = [
        "capacity",
        "--goal",
        &goal,
        "--cores",
        "1",
        "--seed",
        &seed,
        "--json",
        "-",
        "--progress",
        "none",
        &url,
    ];
    json(prony, &args, &[0, 1])
}

fn json(prony: &Prony, args: &[&str], accepted: &[i32]) -> Result<Value, String> {
    let output = prony.run(args, accepted)?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{}: {error}", args.join(" ")))
}

/// Utilization of an M/D/1 queue at which 1% of the responses take longer than `limit` service
/// times, found by bisection.
fn share_where_p99_is(limit: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        match share_over(middle, limit) < 0.01 {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// Fraction of responses that take longer than `limit` service times.
fn share_over(utilization: f64, limit: f64) -> f64 {
    let wait = limit - 1.0;
    let (mut sum, mut factorial) = (0.0, 1.0);
    for k in 0..=(wait.floor() as u32) {
        if k > 0 {
            factorial *= f64::from(k);
        }
        let x = utilization * (wait - f64::from(k));
        sum += x.exp() * (-x).powi(k as i32) / factorial;
    }
    1.0 - (1.0 - utilization) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_has_its_known_percentiles() {
        // A response takes longer than one service time exactly if the server is busy at its
        // arrival.
        assert!((share_over(0.3, 1.0) - 0.3).abs() < 1e-12);
        for (limit, utilization) in [(2.0, 0.135), (5.0, 0.561), (20.0, 0.886)] {
            assert!((share_where_p99_is(limit) - utilization).abs() < 1e-3);
        }
    }
}
