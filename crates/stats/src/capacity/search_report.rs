//! Stored result of one capacity search.

use prony_record::number::RateUnit;
use prony_record::{Finding, Record, Severity, Summary};
use serde::{Deserialize, Serialize};

use super::goal::Goal;
use super::outcome::SearchOutcome;
use super::probe::{Probe, ProbePurpose, ProbeResult};
use super::reading::GoalReading;

/// Outcome of a search, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SearchEnd {
    /// The search found a capacity or a bound.
    Outcome {
        /// The capacity or a bound.
        outcome: SearchOutcome,
    },
    /// No request succeeded, either from the beginning or after some of the probes.
    NoSuccess,
    /// The user interrupted the search.
    Interrupted,
}

/// Result of one search, with its probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// Outcome of the search, or the reason why there is none.
    pub end: SearchEnd,
    /// Highest rate that met the goals, in requests per second.
    pub met_per_s: Option<f64>,
    /// Lowest rate that did not meet the goals, in requests per second.
    pub unmet_per_s: Option<f64>,
    /// All probes, in order.
    pub probes: Vec<ProbeReport>,
    /// Findings about the search and its probes.
    pub findings: Vec<Finding>,
}

/// Settings and result of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Part of the search that the probe belongs to.
    pub purpose: ProbePurpose,
    /// Subject of the rates: requests, or journeys.
    #[serde(default, skip_serializing_if = "RateUnit::is_requests")]
    pub rate_unit: RateUnit,
    /// Offered requests per second; absent for a closed loop.
    pub rate_per_s: Option<f64>,
    /// Requests per second that were due.
    pub offered_per_s: f64,
    /// Requests per second that succeeded, or that failed within the share that a goal permits.
    pub achieved_per_s: f64,
    /// Number of connections.
    pub connections: u32,
    /// Length of the settling part, in seconds.
    pub settle_s: f64,
    /// Length of the measured part, in seconds.
    pub measured_s: f64,
    /// Number of started requests.
    pub started: u64,
    /// Number of successful requests.
    pub ok: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Number of requests in flight at the end.
    pub unfinished: u64,
    /// Number of requests that were due but not started.
    pub unstarted: u64,
    /// True if the server kept up and met all goals.
    pub met: bool,
    /// True if the server completed about as many requests as were due.
    pub kept_up: bool,
    /// True if the probe was ended early because its result was clear.
    pub cut_short: bool,
    /// True if the load generator was saturated.
    pub generator_saturated: bool,
    /// True if the service times, which exclude the wait for a free connection, meet all goals, and
    /// no finding invalidates them.
    #[serde(default)]
    pub service_times_meet_goals: bool,
    /// Readings of the goals; empty if nothing was measured.
    pub goals: Vec<GoalValue>,
    /// Percentiles of the response times.
    pub response_time_us: ProbeTimes,
    /// Percentiles of the service times, which exclude the wait for a free connection.
    pub service_time_us: ProbeTimes,
    /// Time spent waiting, before the probe, until the server was idle, in seconds.
    pub waited_s: f64,
    /// Total duration of the probe, in seconds.
    pub took_s: f64,
}

/// Reading of one goal in a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalValue {
    /// Goal as input.
    pub goal: String,
    /// True if the probe met the goal.
    pub met: bool,
    /// Value of the metric: microseconds, or a share from 0 to 1. Absent if so many requests failed
    /// that the percentile is beyond every limit.
    pub value: Option<f64>,
    /// Share of requests beyond the limit divided by the allowed share. For other metrics, the
    /// value divided by the limit.
    pub excess: f64,
    /// Number of requests beyond the limit; absent if the goal isn't about a share of requests.
    pub over: Option<u64>,
    /// Number of all requests that the goal refers to.
    pub all: Option<u64>,
    /// The value as a clause, such as `p99 is 61.3 ms`; empty until it has been composed.
    pub text: String,
}

/// Percentiles of a probe's times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProbeTimes {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
}

impl ProbeTimes {
    fn of(summary: &Summary) -> ProbeTimes {
        ProbeTimes {
            p50: summary.p50,
            p90: summary.p90,
            p99: summary.p99,
            p99_9: summary.p99_9,
        }
    }
}

impl GoalValue {
    fn of(goal: &Goal, reading: &GoalReading) -> GoalValue {
        GoalValue {
            goal: goal.to_string(),
            met: reading.met,
            value: Some(reading.value).filter(|value| value.is_finite()),
            excess: reading.excess,
            over: reading.tail.map(|tail| tail.over),
            all: reading.tail.map(|tail| tail.all),
            text: String::new(),
        }
    }
}

impl ProbeReport {
    /// Summarizes a probe. `waited_s` is the time spent waiting, before the probe, until the server
    /// was idle.
    pub fn new(
        probe: &Probe,
        record: &Record,
        goals: &[Goal],
        result: &ProbeResult,
        waited_s: f64,
    ) -> ProbeReport {
        let totals = &record.totals;
        let values = goals.iter().zip(&result.goals);
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        let is_invalid = record.findings.iter().any(is_error);
        ProbeReport {
            purpose: probe.purpose,
            rate_unit: record.load.rate_unit(),
            rate_per_s: probe.rate_per_s,
            offered_per_s: result.offered_per_s,
            achieved_per_s: result.achieved_per_s,
            connections: record.load.connections,
            settle_s: probe.settle_s,
            measured_s: totals.elapsed_s,
            started: totals.started,
            ok: totals.ok,
            failed: totals.failed,
            unfinished: totals.unfinished,
            unstarted: totals.unstarted,
            met: result.is_met(),
            kept_up: result.keeps_up(),
            cut_short: result.cut_short,
            generator_saturated: result.generator_saturated,
            service_times_meet_goals: !is_invalid
                && goals
                    .iter()
                    .all(|goal| goal.is_met_by_service_times(record)),
            goals: values
                .map(|(goal, reading)| GoalValue::of(goal, reading))
                .collect(),
            response_time_us: ProbeTimes::of(&record.response_time_us),
            service_time_us: ProbeTimes::of(&record.service_time_us),
            waited_s,
            took_s: result.took_s,
        }
    }
}

impl SearchReport {
    /// Returns the capacity or the bound that the search found.
    pub fn outcome(&self) -> Option<SearchOutcome> {
        match self.end {
            SearchEnd::Outcome { outcome } => Some(outcome),
            SearchEnd::NoSuccess | SearchEnd::Interrupted => None,
        }
    }

    /// Returns the subject of the search's rates.
    pub fn rate_unit(&self) -> RateUnit {
        self.probes
            .first()
            .map_or(RateUnit::Requests, |probe| probe.rate_unit)
    }

    /// Returns the total duration of all probes, in seconds.
    pub fn took_s(&self) -> f64 {
        self.probes.iter().map(|probe| probe.took_s).sum()
    }

    /// Returns true if the search ended with a bound instead of a capacity.
    pub fn found_only_a_bound(&self) -> bool {
        matches!(
            self.outcome(),
            Some(
                SearchOutcome::AtLeast { .. }
                    | SearchOutcome::Below { .. }
                    | SearchOutcome::Unmet { .. }
            )
        )
    }

    /// Returns the capacity in requests per second, if the search found more than a bound.
    pub fn capacity_per_s(&self) -> Option<f64> {
        match self.outcome() {
            Some(SearchOutcome::Capacity { per_s }) => Some(per_s),
            _ => None,
        }
    }
}
