//! Check: at 20,000 requests per second from one core, every request starts on time.

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::Prony;

const RATE: &str = "20000";
/// Number of requests due in the load's 3 s.
const DUE_REQUESTS: f64 = 60_000.0;
/// Number of loads for each kind of arrivals. Other programs on the machine can only delay starts,
/// so the best load shows the generator's accuracy.
const LOADS_PER_KIND: usize = 3;

/// Minimum fraction of the requests due that must be started.
const STARTED_SHARE_MIN: f64 = 0.999;
/// Maximum 99th percentile of lateness in microseconds.
const LATE_P99_US_MAX: f64 = 200.0;
/// Maximum deviation of the gaps' coefficient of variation: more than three standard errors for
/// this number of Poisson gaps.
const VARIATION_TOLERANCE: f64 = 0.015;

/// Runs the loads and compares them with the schedule.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let origin = prony.origin(&[])?;
    let url = origin.url("/");
    let load = |arrivals: &str| -> Result<Value, String> {
        let args = [
            "load",
            "--rate",
            RATE,
            "--arrivals",
            arrivals,
            "-c",
            "64",
            "-t",
            "1",
            "--cores",
            "1",
            "--warmup",
            "500ms",
            "-d",
            "3s",
            &url,
            "--json",
            "-",
        ];
        let output = prony.run(&args, &[0])?;
        serde_json::from_slice(&output.stdout).map_err(|e| format!("the record is not JSON: {e}"))
    };
    let mut figures = Vec::new();
    for arrivals in ["constant", "poisson"] {
        let records: Result<Vec<_>, _> = (0..LOADS_PER_KIND).map(|_| load(arrivals)).collect();
        figures.extend(pacing_figures(arrivals, &records?)?);
    }
    Ok(figures)
}

fn pacing_figures(arrivals: &str, records: &[Value]) -> Result<Vec<CheckFigure>, String> {
    let all = |pointer: &str| -> Result<Vec<f64>, String> {
        let number = |record: &Value| record.pointer(pointer).and_then(Value::as_f64);
        let found: Option<Vec<f64>> = records.iter().map(number).collect();
        found.ok_or_else(|| format!("a record lacks {pointer}"))
    };
    let name = |what: &str| format!("{arrivals}: {what}");
    let (started, unstarted) = (all("/totals/started")?, all("/totals/unstarted")?);
    let due: Vec<f64> = started.iter().zip(&unstarted).map(|(s, u)| s + u).collect();
    let made: Vec<f64> = started.iter().zip(&due).map(|(s, d)| s / d).collect();
    // Tolerance: one request for constant arrivals, and three standard deviations for Poisson
    // arrivals.
    let near = if arrivals == "poisson" {
        3.0 * DUE_REQUESTS.sqrt()
    } else {
        1.0
    };
    let late = all("/generator/late_us/p99")?;
    let variation = all("/generator/start_gaps/intended/variation")?;
    let expected = if arrivals == "poisson" { 1.0 } else { 0.0 };
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let each = |values: &[f64], digits: usize, unit: &str| {
        let texts: Vec<_> = values.iter().map(|v| format!("{v:.digits$}")).collect();
        format!("{}{unit}", texts.join(", "))
    };
    Ok(vec![
        CheckFigure::judged(
            &name("requests due"),
            format!("{DUE_REQUESTS} ± {near:.0}"),
            each(&due, 0, ""),
            due.iter().all(|due| (due - DUE_REQUESTS).abs() <= near),
        ),
        CheckFigure::judged(
            &name("share of them started"),
            format!("at least {:.1}%", STARTED_SHARE_MIN * 100.0),
            each(
                &made.iter().map(|made| made * 100.0).collect::<Vec<_>>(),
                3,
                "%",
            ),
            least(&made) >= STARTED_SHARE_MIN,
        ),
        CheckFigure::shown(
            name("p50 lateness"),
            each(&all("/generator/late_us/p50")?, 0, " µs"),
        ),
        CheckFigure::judged(
            &name("p99 lateness (of the best load)"),
            format!("at most {LATE_P99_US_MAX} µs"),
            each(&late, 0, " µs"),
            least(&late) <= LATE_P99_US_MAX,
        ),
        CheckFigure::shown(
            name("maximum lateness"),
            each(&all("/generator/late_us/max")?, 0, " µs"),
        ),
        CheckFigure::judged(
            &name("variation of intended gaps"),
            format!("{expected} ± {VARIATION_TOLERANCE}"),
            each(&variation, 4, ""),
            variation
                .iter()
                .all(|v| (v - expected).abs() <= VARIATION_TOLERANCE),
        ),
        CheckFigure::shown(
            name("variation of actual gaps"),
            each(&all("/generator/start_gaps/actual/variation")?, 4, ""),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(started: u64, late: f64) -> Value {
        serde_json::json!({
            "totals": {"started": started, "unstarted": 60_000 - started},
            "generator": {
                "late_us": {"p50": 6.0, "p99": late, "max": 900.0},
                "start_gaps": {"intended": {"variation": 0.0}, "actual": {"variation": 0.2}},
            },
        })
    }

    fn failures(records: &[Value]) -> usize {
        let figures = pacing_figures("constant", records).unwrap();
        figures.iter().filter(|f| f.holds == Some(false)).count()
    }

    #[test]
    fn missing_starts_fail_and_constant_lateness_fails() {
        assert_eq!(failures(&[record(60_000, 60.0), record(59_999, 90.0)]), 0);
        assert_eq!(failures(&[record(60_000, 60.0), record(59_900, 60.0)]), 1);
        assert_eq!(
            failures(&[record(60_000, 60.0), record(60_000, 5_000.0)]),
            0
        );
        assert_eq!(
            failures(&[record(60_000, 300.0), record(60_000, 5_000.0)]),
            1
        );
        assert!(pacing_figures("constant", &[serde_json::json!({})]).is_err());
    }
}
