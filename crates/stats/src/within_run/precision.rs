//! The rule that ends a load when its intervals are narrow enough (`--precision`).

use std::fmt;

use prony_record::{HALF_SECOND, IntervalRefusal, Record, RunInterval, quantity};

use super::intervals::{PERCENTILE_RESOLUTION, RunMetric, RunSample, intervals, of_record};

/// Factor by which intervals may exceed the wanted width when the first stage ends. The second
/// stage doubles the length of the load, which divides the width by √2.
const FIRST_STAGE: f64 = 1.4;
/// Half seconds before the first evaluation.
const HALF_SECONDS_MIN: usize = 16;
/// Part of the load's length after which it is evaluated again.
const STEP: f64 = 0.05;
/// Maximum relative half-width of the share of requests beyond a percentile. If it were larger, so
/// few independent events would determine the percentile that a lucky load could end early.
const TAIL_WIDTH_MAX: f64 = 0.2;

/// A precision that a load should reach, such as `p99 5%`.
#[derive(Debug, Clone, PartialEq)]
pub struct Precision {
    pub(super) metric: RunMetric,
    /// Largest half-width of the interval, divided by the value.
    pub(super) relative: f64,
}

/// Reason why a text is not a precision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrecisionError {
    /// It is not a metric and a percentage.
    Form(String),
    /// There are no intervals for the metric.
    Metric(String),
    /// The percentage is too small or too large.
    Range(String, &'static str),
}

impl fmt::Display for PrecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrecisionError::Form(text) => write!(
                f,
                "\"{text}\" is not a metric and a percentage, such as 'p99 5%' or 'rate 1%'"
            ),
            PrecisionError::Metric(name) => write!(
                f,
                "\"{name}\" has no interval within a load (use rate, p50, p99 or another percentile of the response time)"
            ),
            PrecisionError::Range(text, limits) => write!(f, "{text}: {limits}"),
        }
    }
}

impl std::error::Error for PrecisionError {}

impl Precision {
    /// Parses a metric and a percentage, separated by spaces.
    ///
    /// # Errors
    /// Returns what is wrong, with an example.
    pub fn parse(text: &str) -> Result<Precision, PrecisionError> {
        let form = || PrecisionError::Form(text.to_owned());
        let mut words = text.split_whitespace();
        let (Some(name), Some(percent), None) = (words.next(), words.next(), words.next()) else {
            return Err(form());
        };
        let relative = quantity::percent(percent).ok_or_else(form)?;
        let metric =
            RunMetric::parse(name).ok_or_else(|| PrecisionError::Metric(name.to_owned()))?;
        let (least, limits) = match metric.quantile {
            Some(_) => (
                PERCENTILE_RESOLUTION,
                "response times of half seconds are known to 1.6%; use 1.6% to 50%",
            ),
            None => (0.0005, "use 0.05% to 50%"),
        };
        if !(least..=0.5).contains(&relative) {
            return Err(PrecisionError::Range(text.to_owned(), limits));
        }
        Ok(Precision { metric, relative })
    }

    /// Returns the width of an interval, as a multiple of the wanted width; `None` if there is none.
    fn excess(&self, interval: &RunInterval) -> Option<f64> {
        let width = interval.relative_half_width? / self.relative;
        let tail = interval.tail_half_width.unwrap_or(0.0) / TAIL_WIDTH_MAX;
        Some(width.max(tail))
    }
}

/// Stage of a load that should reach a precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The intervals are evaluated as the load grows.
    First,
    /// The load runs to a length that was chosen when its intervals were almost narrow enough, so
    /// its end doesn't depend on a random dip of their width.
    Second { until: usize },
}

/// Decision when to end a load.
#[derive(Debug)]
pub struct PrecisionWatch<'a> {
    wanted: &'a [Precision],
    stage: Stage,
    /// Half seconds at which the intervals are evaluated next.
    next: usize,
}

/// Intervals of a running load.
#[derive(Debug)]
pub struct PrecisionProgress {
    /// The intervals, in the order of the wanted precisions.
    pub intervals: Vec<RunInterval>,
    /// True if all intervals are narrow enough, so the load can end.
    pub is_reached: bool,
    /// Estimated length of the measured part when they will be; `None` if unknown.
    pub needs_s: Option<f64>,
}

impl<'a> PrecisionWatch<'a> {
    /// Begins with the first stage.
    pub fn new(wanted: &'a [Precision]) -> PrecisionWatch<'a> {
        PrecisionWatch {
            wanted,
            stage: Stage::First,
            next: HALF_SECONDS_MIN,
        }
    }

    /// Returns true if a load of this many half seconds is to be evaluated.
    pub fn is_due(&self, half_seconds: usize) -> bool {
        half_seconds >= self.next
    }

    /// Evaluates the requests so far.
    pub fn evaluate(&mut self, sample: &RunSample<'_>) -> PrecisionProgress {
        let half_seconds = sample.history.half_seconds.len();
        let intervals = precision_intervals(sample, self.wanted);
        let each = self.wanted.iter().zip(&intervals);
        let mut each = each.map(|(wanted, interval)| wanted.excess(interval));
        let excess = each.try_fold(0.0_f64, |most, excess| Some(most.max(excess?)));
        let step = half_seconds + 1 + (half_seconds as f64 * STEP) as usize;
        let mut is_reached = false;
        match (self.stage, excess) {
            (Stage::First, Some(excess)) if excess <= FIRST_STAGE => {
                self.stage = Stage::Second {
                    until: 2 * half_seconds,
                };
                self.next = 2 * half_seconds;
            }
            (Stage::First, _) => self.next = step,
            (Stage::Second { until }, _) if half_seconds < until => self.next = until,
            (Stage::Second { .. }, Some(excess)) if excess <= 1.0 => is_reached = true,
            (Stage::Second { .. }, excess) => {
                let longer = excess.map_or(1.5, |excess| excess * excess).clamp(1.1, 2.0);
                let until = (half_seconds as f64 * longer).ceil() as usize;
                self.stage = Stage::Second { until };
                self.next = until;
            }
        }
        let seconds = |half_seconds: f64| half_seconds * HALF_SECOND.as_secs_f64();
        let needs = match (self.stage, excess) {
            (Stage::Second { until }, _) => Some(until as f64),
            (Stage::First, Some(excess)) => Some(needed(half_seconds as f64, excess)),
            (Stage::First, None) => requests_needed(&intervals, half_seconds),
        };
        PrecisionProgress {
            intervals,
            is_reached,
            needs_s: needs.map(seconds),
        }
    }
}

/// Returns the half seconds after both stages, if the intervals of a load exceed the wanted width by
/// a factor.
fn needed(half_seconds: f64, excess: f64) -> f64 {
    2.0 * half_seconds * (excess / FIRST_STAGE).powi(2).max(1.0)
}

/// Returns the half seconds that the intervals need for enough requests, if that is what they lack.
fn requests_needed(intervals: &[RunInterval], half_seconds: usize) -> Option<f64> {
    let factors = intervals.iter().filter_map(|it| match it.refused? {
        IntervalRefusal::TooFewRequests { requests, needed } => {
            Some(needed as f64 / requests.max(1) as f64)
        }
        _ => None,
    });
    let most = factors.fold(0.0_f64, f64::max);
    (most > 1.0).then_some(2.0 * half_seconds as f64 * most)
}

/// Returns the intervals of the wanted precisions.
pub fn precision_intervals(sample: &RunSample<'_>, wanted: &[Precision]) -> Vec<RunInterval> {
    let metrics: Vec<RunMetric> = wanted.iter().map(|it| it.metric.clone()).collect();
    let mut intervals = intervals(sample, &metrics);
    let half_seconds = sample.history.half_seconds.len() as f64;
    for (interval, wanted) in intervals.iter_mut().zip(wanted) {
        interval.wanted = Some(wanted.relative);
        let excess = wanted.excess(interval).filter(|_| !interval.is_reached());
        interval.needs_s = excess.map(|excess| needed(half_seconds, excess) / 2.0);
    }
    intervals
}

/// Returns the intervals of a load with `--precision` that has just ended.
pub fn intervals_of(record: &Record, wanted: &[Precision]) -> Vec<RunInterval> {
    of_record(record, |sample| precision_intervals(sample, wanted))
}
