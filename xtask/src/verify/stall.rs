//! Check: response times of a server that freezes for the last second of every five, with 1,000
//! requests per second for 15 s. The schedule determines the expected response times.

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::Prony;

/// Length of each period in milliseconds. The server freezes at the end of each.
const EVERY_MS: u64 = 5_000;
/// Length of each freeze in milliseconds.
const FREEZE_MS: u64 = 1_000;
/// Duration of the load in milliseconds. One request is due in each millisecond.
const LOAD_MS: u64 = 15_000;

/// Tolerances of a measured value: relative, and in milliseconds. The larger one applies.
const RELATIVE_TOLERANCE: f64 = 0.05;
const TOLERANCE_MIN_MS: f64 = 2.0;

/// Runs the load and compares its response times with the expected ones.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let origin = prony.origin(&[])?;
    let url = origin.url("/stall?every=5s&for=1s");
    let args = [
        "load", "--rate", "1000", "-c", "16", "-d", "15s", "--cores", "1", &url, "--json", "-",
    ];
    let output = prony.run(&args, &[0])?;
    let record: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("the record is not JSON: {e}"))?;
    figures(&record)
}

fn figures(record: &Value) -> Result<Vec<CheckFigure>, String> {
    let truth = truth_ms();
    let number = |pointer: &str| {
        let found = record.pointer(pointer).and_then(Value::as_f64);
        found.ok_or_else(|| format!("{pointer} is missing in the record"))
    };
    let mut figures = Vec::new();
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        let expected = percentile(&truth, share);
        let found = number(&format!("/response_time_us/{name}"))? / 1_000.0;
        let tolerance = (expected * RELATIVE_TOLERANCE).max(TOLERANCE_MIN_MS);
        figures.push(CheckFigure::judged(
            &format!("response time {name}"),
            format!("{expected:.1} ms ± {tolerance:.1}"),
            format!("{found:.1} ms"),
            (found - expected).abs() <= tolerance,
        ));
    }
    // Every scheduled request is counted, including those delayed by the last freeze.
    let due = number("/totals/started")? + number("/totals/unstarted")?;
    figures.push(CheckFigure::judged(
        "requests due",
        format!("{LOAD_MS} ± 1"),
        format!("{due}"),
        (due - LOAD_MS as f64).abs() <= 1.0,
    ));
    let failed = number("/totals/failed")?;
    figures.push(CheckFigure::judged(
        "failed",
        "0".to_string(),
        format!("{failed}"),
        failed == 0.0,
    ));
    Ok(figures)
}

/// Expected waiting times of all requests in milliseconds, sorted. A request that is due during a
/// freeze waits until the freeze ends; all other requests don't wait. The last freeze ends at the
/// end of the load, so requests due during it are counted with their full wait.
fn truth_ms() -> Vec<f64> {
    let runs = EVERY_MS - FREEZE_MS;
    let wait = |due: u64| match due % EVERY_MS {
        at if at >= runs => EVERY_MS - at,
        _ => 0,
    };
    let mut waits: Vec<f64> = (0..LOAD_MS).map(|due| wait(due) as f64).collect();
    waits.sort_by(f64::total_cmp);
    waits
}

/// Returns the smallest of the sorted values that is at least as large as the fraction `share` of
/// all values.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .or(sorted.last())
        .copied()
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_requests_waits_up_to_a_second() {
        let truth = truth_ms();
        assert_eq!(truth.len(), 15_000);
        assert_eq!(truth.iter().filter(|w| **w > 0.0).count(), 3_000);
        assert_eq!(percentile(&truth, 0.5), 0.0);
        assert_eq!(percentile(&truth, 0.9), 500.0);
        assert_eq!(percentile(&truth, 0.99), 950.0);
        assert_eq!(percentile(&truth, 1.0), 1_000.0);
    }

    fn record(p90_us: u64) -> Value {
        serde_json::json!({
            "totals": {"started": 14_017, "unstarted": 983, "failed": 0},
            "response_time_us": {"p50": 180, "p90": p90_us, "p99": 953_000, "max": 1_001_000},
        })
    }

    #[test]
    fn a_percentile_that_hides_stalls_fails_and_a_true_one_passes() {
        assert!(
            figures(&record(508_000))
                .unwrap()
                .iter()
                .all(|f| f.holds == Some(true))
        );
        let blind = figures(&record(1_800)).unwrap();
        assert_eq!(blind.iter().filter(|f| f.holds == Some(false)).count(), 1);
        assert!(figures(&serde_json::json!({})).is_err());
    }
}
