//! Check: measured capacities agree with queueing theory. An origin with a constant service time
//! and Poisson arrivals is an M/D/1 queue, whose response times are known (Erlang 1909; Crommelin
//! 1932; Franx 2001).
//!
//! The service takes time but hardly any CPU, so several searches run at the same time. All origins
//! run on core 0, and all generators on core 1.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::{Origin, Prony};

/// A limit on the p99 response time, with the server and the searches that it needs.
struct Goal {
    /// The limit as a multiple of the service time. The median of all other delays is added to it.
    limit: f64,
    service_time: &'static str,
    service_s: f64,
    /// Number of connections. There are enough not to limit the rate, but no more than necessary,
    /// because opening a connection delays its first request.
    connections: &'static str,
    /// Duration of a search, if the default is too short for the goal.
    search_time: Option<&'static str>,
    /// Number of experiments, each with five searches.
    runs: usize,
}

/// The goals. The lowest limit is met only at a low utilization, and only if the machine's own
/// delays are short compared with the limit, so searches with this goal take longer.
const GOALS: [Goal; 3] = [
    Goal {
        limit: 2.0,
        service_time: "1ms",
        service_s: 0.001,
        connections: "10",
        search_time: Some("6m"),
        runs: 8,
    },
    Goal {
        limit: 5.0,
        service_time: "1ms",
        service_s: 0.001,
        connections: "30",
        search_time: None,
        runs: 16,
    },
    Goal {
        limit: 20.0,
        service_time: "1ms",
        service_s: 0.001,
        connections: "100",
        search_time: None,
        runs: 16,
    },
];
/// Environment variable that sets the number of experiments per goal and overrides the numbers in
/// [`GOALS`].
const RUNS_VARIABLE: &str = "PRONY_VERIFY_CAPACITY_RUNS";
/// Maximum number of simultaneous experiments. A larger number of experiments would delay each
/// other's requests.
const EXPERIMENTS_AT_ONCE: usize = 12;
/// Interval at which the first experiments start. They don't start together, because the first load
/// of each search is a closed loop.
const START_INTERVAL: Duration = Duration::from_secs(3);
/// Priority of all processes of the check, as a nice value.
const PRIORITY: i32 = -15;
/// Minimum fraction of intervals that contain the theoretical capacity.
const COVERAGE_MIN: f64 = 0.9;

/// Number of parts into which the range between two known percentiles is divided.
const PARTS: u32 = 20;
/// Share of times that are assumed to be longer than the maximum.
const SHARE_MIN: f64 = 1e-5;

/// Result of an experiment.
struct ExperimentOutcome {
    /// Limit of the goal, as a multiple of the service time.
    limit: f64,
    capacity_per_s: f64,
    is_covered: bool,
    text: String,
}

pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let runs: Option<usize> = match std::env::var(RUNS_VARIABLE) {
        Err(_) => None,
        Ok(text) => Some(
            text.parse()
                .map_err(|_| format!("{RUNS_VARIABLE}={text} is not a number"))?,
        ),
    };
    request_cpu_promptly();
    let goals = goals_in_order(runs);
    let all = goals.len();
    let mut outcomes = experiments(prony, &goals)?;
    outcomes.sort_by(|a, b| a.limit.total_cmp(&b.limit));
    let mut figures = Vec::new();
    for outcome in &outcomes {
        figures.push(CheckFigure::shown(
            format!(
                "p99 < {} service times: {:.1}/s",
                outcome.limit, outcome.capacity_per_s
            ),
            outcome.text.clone(),
        ));
    }
    let covered = outcomes.iter().filter(|it| it.is_covered).count();
    let required = (COVERAGE_MIN * all as f64).floor() as usize;
    figures.push(CheckFigure::judged(
        "intervals that contain the capacity",
        format!("at least {required} of {all}"),
        covered.to_string(),
        covered >= required,
    ));
    Ok(figures)
}

/// Requests time slices of 0.1 ms and a higher priority for this process and the processes that it
/// starts, so that they and other processes delay each other less (sched_setattr(2), Linux 6.12 and
/// later; setpriority(2), with privileges).
fn request_cpu_promptly() {
    // SAFETY: the attributes consist of integers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of_val(&attributes) as u32;
    attributes.sched_runtime = 100_000;
    // SAFETY: the pointer refers to local attributes. If a call fails, the slices or the priority
    // remain unchanged.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, PRIORITY);
    }
}

/// Returns the goal of each experiment, with the goals alternating. Each goal has `runs`
/// experiments, or the number in [`GOALS`] if `runs` is `None`.
fn goals_in_order(runs: Option<usize>) -> Vec<&'static Goal> {
    let runs_of = |goal: &Goal| runs.unwrap_or(goal.runs);
    let most = GOALS.iter().map(runs_of).max().unwrap_or(0);
    let round = |number| GOALS.iter().filter(move |goal| number < runs_of(goal));
    (0..most).flat_map(round).collect()
}

/// Runs an experiment for each of `goals`, several at the same time, and prints each result on
/// standard error.
fn experiments(prony: &Prony, goals: &[&Goal]) -> Result<Vec<ExperimentOutcome>, String> {
    let all = goals.len();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Ok(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(goal) = goals.get(number) else {
                return;
            };
            let outcome = experiment(prony, number, goal);
            if let Ok(outcome) = &outcome {
                let ExperimentOutcome {
                    capacity_per_s,
                    is_covered,
                    text,
                    ..
                } = outcome;
                let word = if *is_covered { "covered" } else { "missed" };
                eprintln!(
                    "{} of {all}: {capacity_per_s:.1}/s {word}: {text}",
                    number + 1
                );
            }
            let Ok(mut outcomes) = outcomes.lock() else {
                return;
            };
            match (outcomes.as_mut(), outcome) {
                (Ok(outcomes), Ok(outcome)) => outcomes.push(outcome),
                (Ok(_), Err(error)) => {
                    *outcomes = Err(error);
                    next.store(all, Ordering::Relaxed);
                }
                (Err(_), _) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..all.min(EXPERIMENTS_AT_ONCE) {
            scope.spawn(work);
            std::thread::sleep(START_INTERVAL);
        }
    });
    outcomes
        .into_inner()
        .map_err(|_| "an experiment panicked".to_owned())?
}

fn experiment(prony: &Prony, number: usize, goal: &Goal) -> Result<ExperimentOutcome, String> {
    let origin = prony.origin(&["--service-time", goal.service_time])?;
    let seed = 1_000_000 * (number as u64 + 1);
    // If the limit did not include the median overhead, every request that arrives just after the
    // server began to serve another one would exceed a limit of two service times.
    let load = overhead_load(goal, &origin, "20s");
    let load: Vec<&str> = load.iter().map(String::as_str).collect();
    let median_s = median(&overheads_s(&json(prony, &load, &[0])?, goal)?);
    let limit_s = goal.limit * goal.service_s + median_s;
    let (found, overheads_s) = search_with_overheads(prony, &origin, goal, limit_s, seed)?;
    let capacity_per_s =
        utilization_at(|u| share_over_limit(u, limit_s, goal.service_s, &overheads_s))
            / goal.service_s;
    let figure = |key: &str| found[key].as_f64();
    let interval = figure("low_per_s").zip(figure("high_per_s"));
    Ok(ExperimentOutcome {
        limit: goal.limit,
        capacity_per_s,
        is_covered: interval
            .is_some_and(|(low, high)| low <= capacity_per_s && capacity_per_s <= high),
        text: found["text"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Runs the searches. The overheads are measured at the same time, on the same cores, with another
/// origin, because they depend on the other experiments.
fn search_with_overheads(
    prony: &Prony,
    origin: &Origin,
    goal: &Goal,
    limit_s: f64,
    seed: u64,
) -> Result<(Value, Vec<(f64, f64)>), String> {
    let other = prony.origin(&["--service-time", goal.service_time])?;
    let load = prony.start_captured(&overhead_load(goal, &other, "10h"))?;
    let found = search(prony, origin, goal, limit_s, seed)?;
    let record = load.interrupt()?;
    let record = serde_json::from_slice(&record)
        .map_err(|error| format!("record of the load that measures overheads: {error}"))?;
    Ok((found, overheads_s(&record, goal)?))
}

/// Arguments of a load whose requests are so far apart that none waits for another.
fn overhead_load(goal: &Goal, origin: &Origin, time: &str) -> Vec<String> {
    let rate = (0.1 / goal.service_s).to_string();
    let url = origin.url("/");
    let args = [
        "load",
        "--cores",
        "1",
        "-c",
        goal.connections,
        "-r",
        &rate,
        "-d",
        time,
        "--json",
        "-",
        "--progress",
        "none",
        &url,
    ];
    args.map(str::to_owned).into()
}

/// Returns the times, in seconds, that the network, the generator and the machine's other processes
/// add to the service time, each with its probability. They are computed from the record of a load.
fn overheads_s(record: &Value, goal: &Goal) -> Result<Vec<(f64, f64)>, String> {
    let times_us = &record["response_time_us"];
    const QUANTILES: [(&str, f64); 9] = [
        ("min", 0.0),
        ("p50", 0.5),
        ("p75", 0.75),
        ("p90", 0.9),
        ("p95", 0.95),
        ("p99", 0.99),
        ("p99_9", 0.999),
        ("p99_99", 0.9999),
        ("max", 1.0),
    ];
    let known: Vec<(f64, f64)> = QUANTILES
        .iter()
        .filter_map(|(key, quantile)| Some((*quantile, times_us[*key].as_f64()?)))
        .collect();
    if known.len() < 3 {
        return Err("the load has no percentiles".to_owned());
    }
    let parts = known.windows(2).flat_map(|pair| {
        let ((from, from_us), (to, to_us)) = (pair[0], pair[1]);
        (0..PARTS).map(move |part| {
            // The tail is about exponential, so times between two percentiles are interpolated
            // linearly over the logarithm of the share of longer times.
            let share = (f64::from(part) + 0.5) / f64::from(PARTS);
            let quantile = from + share * (to - from);
            let depth = |quantile: f64| -(1.0 - quantile).max(SHARE_MIN).ln();
            let position = (depth(quantile) - depth(from)) / (depth(to) - depth(from));
            let time_s = (from_us + position * (to_us - from_us)) / 1e6;
            (
                (time_s - goal.service_s).max(0.0),
                (to - from) / f64::from(PARTS),
            )
        })
    });
    Ok(parts.collect())
}

/// Returns the median of values that are in ascending order, each with its probability.
fn median(values: &[(f64, f64)]) -> f64 {
    let mut sum = 0.0;
    let upper = values.iter().find(|(_, probability)| {
        sum += probability;
        sum >= 0.5
    });
    upper.map_or(0.0, |(value, _)| *value)
}

fn search(
    prony: &Prony,
    origin: &Origin,
    goal: &Goal,
    limit_s: f64,
    seed: u64,
) -> Result<Value, String> {
    let condition = format!("p99<{:.1}us", 1e6 * limit_s);
    let (seed, url) = (seed.to_string(), origin.url("/"));
    let mut args = vec!["capacity", "--goal", &condition, "--cores", "1"];
    args.extend(["-c", goal.connections]);
    if let Some(time) = goal.search_time {
        args.extend(["--search-time", time]);
    }
    args.extend(["--seed", &seed, "--json", "-", "--progress", "none"]);
    args.push(&url);
    json(prony, &args, &[0, 1])
}

fn json(prony: &Prony, args: &[&str], accepted: &[i32]) -> Result<Value, String> {
    let output = prony.run(args, accepted)?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{}: {error}", args.join(" ")))
}

/// Returns the utilization, found by bisection, at which 1% of the responses take too long.
fn utilization_at(share_too_long: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if share_too_long(middle) < 0.01 {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// Fraction of responses of an M/D/1 queue that take longer than `limit_s` with the overheads.
fn share_over_limit(
    utilization: f64,
    limit_s: f64,
    service_s: f64,
    overheads_s: &[(f64, f64)],
) -> f64 {
    let shares = overheads_s.iter().map(|(overhead_s, probability)| {
        let limit = (limit_s - overhead_s) / service_s;
        probability * share_over(utilization, limit)
    });
    shares.sum()
}

/// Fraction of responses of an M/D/1 queue that take longer than `limit` service times.
fn share_over(utilization: f64, limit: f64) -> f64 {
    let wait = limit - 1.0;
    if wait < 0.0 {
        return 1.0;
    }
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
            assert!((utilization_at(|u| share_over(u, limit)) - utilization).abs() < 1e-3);
        }
    }
}
