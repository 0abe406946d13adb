//! Intervals of rates and percentiles, from the half seconds of a load.

use prony_record::measure::Measure;
use prony_record::{
    Distribution, HALF_SECOND, IntervalRefusal, IntervalUnit, LoadHistory, Nanos, Record,
    RunInterval, coarse_time_of,
};

use super::batch_means::{self, NoEstimate, RatioEstimate, Window};

/// Minimum half-width of a percentile's interval, relative to the percentile: half of the width of
/// the buckets in which the response times of half seconds are known.
pub(super) const PERCENTILE_RESOLUTION: f64 = 0.016;
/// Minimum number of half seconds for intervals without `--precision`.
const PLAIN_HALF_SECONDS_MIN: usize = 60;
/// Number of requests beyond a percentile below which no interval can bound it.
const BEYOND_MIN: f64 = 20.0;

/// Times of buckets, and their counts.
type TimeCounts = Vec<(Nanos, u64)>;

/// Metric of a load for which there are intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMetric {
    pub(super) name: String,
    /// Quantile of the response time (0 to 1); `None` for the rate.
    pub(super) quantile: Option<f64>,
}

impl RunMetric {
    /// Parses `rate`, `p99` or another percentile of the response time.
    pub fn parse(name: &str) -> Option<RunMetric> {
        let measure = Measure::parse(name).ok()?;
        let quantile = measure.quantile().filter(|_| name.starts_with('p'));
        (name == "rate" || quantile.is_some_and(|it| it > 0.0 && it < 1.0)).then(|| RunMetric {
            name: name.to_owned(),
            quantile,
        })
    }
}

/// The requests of a load up to now.
#[derive(Debug)]
pub struct RunSample<'a> {
    /// The half seconds of the measured part.
    pub history: &'a LoadHistory,
    /// The response times of all requests.
    pub times: &'a Distribution,
    /// Requests that failed or were cut off.
    pub unsuccessful: u64,
}

/// Returns the intervals that a load shows without being asked: those of the rate and the median, if
/// the load is long enough. The p99 of most loads rests on so few independent events that its
/// intervals are too narrow unless `--precision` chooses the length.
pub fn plain_intervals(record: &Record) -> Vec<RunInterval> {
    use IntervalRefusal::{Autocorrelated, Drifting};

    if record.history.half_seconds.len() < PLAIN_HALF_SECONDS_MIN || !record.load.stages.is_empty()
    {
        return Vec::new();
    }
    let metrics = ["rate", "p50"].into_iter();
    let metrics: Vec<RunMetric> = metrics.filter_map(RunMetric::parse).collect();
    let mut intervals = of_record(record, |sample| intervals(sample, &metrics));
    intervals.retain(|it| {
        let refused = it.refused.as_ref();
        refused.is_none_or(|it| matches!(it, Drifting { .. } | Autocorrelated { .. }))
    });
    intervals
}

pub(super) fn of_record<T>(record: &Record, evaluate: impl FnOnce(&RunSample<'_>) -> T) -> T {
    let times = record.distribution("response_time").unwrap_or_default();
    evaluate(&RunSample {
        history: &record.history,
        times: &times,
        unsuccessful: record.totals.failed + record.totals.unstarted,
    })
}

/// Returns the intervals of metrics.
pub fn intervals(sample: &RunSample<'_>, metrics: &[RunMetric]) -> Vec<RunInterval> {
    let half_seconds = &sample.history.half_seconds;
    let rates = half_seconds.iter().map(|(ok, _)| *ok as f64);
    let means = half_seconds.iter().map(|(_, times)| mean_time(times));
    let warm_up = batch_means::warm_up(&Vec::from_iter(rates));
    let warm_up = warm_up.max(batch_means::warm_up(&Vec::from_iter(means)));
    let steady = &half_seconds[warm_up..];
    let times = SteadyTimes::of(steady, sample.times);
    let of_metric = |metric: &RunMetric| {
        let mut interval = match metric.quantile {
            None => rate_interval(steady),
            Some(quantile) => percentile_interval(steady, &times, quantile, sample.unsuccessful),
        };
        interval.metric.clone_from(&metric.name);
        interval.warmup_s = warm_up as f64 * HALF_SECOND.as_secs_f64();
        interval
    };
    metrics.iter().map(of_metric).collect()
}

fn mean_time(times: &[(Nanos, u64)]) -> f64 {
    let count: u64 = times.iter().map(|(_, count)| count).sum();
    let sum: f64 = times
        .iter()
        .map(|(time, count)| time.0 as f64 * *count as f64)
        .sum();
    sum / count.max(1) as f64
}

fn rate_interval(steady: &[(u64, TimeCounts)]) -> RunInterval {
    let window = |(ok, _): &(u64, _)| Window {
        numerator: *ok as f64,
        denominator: HALF_SECOND.as_secs_f64(),
    };
    let windows: Vec<Window> = steady.iter().map(window).collect();
    let sum: f64 = windows.iter().map(|window| window.numerator).sum();
    let length_s = windows.len() as f64 * HALF_SECOND.as_secs_f64();
    let mut interval = interval_of(
        IntervalUnit::PerS,
        (length_s > 0.0).then_some(sum / length_s),
    );
    if let Some(found) = write_estimate(&mut interval, batch_means::estimate(&windows)) {
        write_ends(
            &mut interval,
            found.ratio - found.half_width,
            found.ratio + found.half_width,
        );
    }
    interval
}

fn percentile_interval(
    steady: &[(u64, TimeCounts)],
    times: &SteadyTimes,
    quantile: f64,
    unsuccessful: u64,
) -> RunInterval {
    let value = times.at(quantile);
    let mut interval = interval_of(IntervalUnit::Us, value);
    let failed = unsuccessful as f64 / (times.count + unsuccessful).max(1) as f64;
    let beyond = quantile.min(1.0 - quantile);
    if failed > beyond / 2.0 {
        interval.refused = Some(IntervalRefusal::Failures { share: failed });
        return interval;
    }
    let too_few = IntervalRefusal::TooFewRequests {
        requests: times.count,
        needed: (BEYOND_MIN / beyond).ceil() as u64,
    };
    let is_enough = times.count as f64 * beyond >= BEYOND_MIN;
    let Some(threshold) = times.threshold(quantile).filter(|_| is_enough) else {
        interval.refused = Some(too_few);
        return interval;
    };
    let window = |(_, counts): &(u64, TimeCounts)| Window {
        numerator: threshold.beyond(counts),
        denominator: counts.iter().map(|(_, count)| *count as f64).sum(),
    };
    let windows: Vec<Window> = steady.iter().map(window).collect();
    let Some(found) = write_estimate(&mut interval, batch_means::estimate(&windows)) else {
        return interval;
    };
    interval.tail_half_width = Some(found.half_width / beyond);
    let ends = [quantile - found.half_width, quantile + found.half_width].map(|at| times.at(at));
    match ends {
        [Some(low), Some(high)] => write_ends(&mut interval, low, high),
        _ => interval.refused = Some(too_few),
    }
    // A percentile that varies only within a bucket seems not to vary at all.
    if let (Some(value), Some(low), Some(high)) = (value, interval.low, interval.high) {
        let least = value * PERCENTILE_RESOLUTION;
        write_ends(
            &mut interval,
            low.min(value - least),
            high.max(value + least),
        );
    }
    interval
}

fn interval_of(unit: IntervalUnit, value: Option<f64>) -> RunInterval {
    RunInterval {
        metric: String::new(),
        unit,
        value,
        low: None,
        high: None,
        relative_half_width: None,
        tail_half_width: None,
        refused: None,
        warmup_s: 0.0,
        batches: 0,
        batch_s: 0.0,
        lag1: 0.0,
        wanted: None,
        needs_s: None,
    }
}

/// Writes the facts about the batches. Returns the estimate, unless there can be no interval.
fn write_estimate(
    interval: &mut RunInterval,
    estimate: Result<RatioEstimate, NoEstimate>,
) -> Option<RatioEstimate> {
    match estimate {
        Ok(found) => {
            interval.batches = found.batches as u32;
            interval.batch_s = found.joined as f64 * HALF_SECOND.as_secs_f64();
            interval.lag1 = found.lag1;
            return Some(found);
        }
        Err(refused) => {
            interval.refused = Some(match refused {
                NoEstimate::TooShort => IntervalRefusal::TooShort,
                NoEstimate::Autocorrelated { lag1 } => IntervalRefusal::Autocorrelated { lag1 },
                NoEstimate::Drifting { change } => IntervalRefusal::Drifting { change },
            });
        }
    }
    None
}

fn write_ends(interval: &mut RunInterval, low: f64, high: f64) {
    let value = interval.value.filter(|value| *value > 0.0);
    interval.relative_half_width = value.map(|value| (high - low) / 2.0 / value);
    (interval.low, interval.high) = (Some(low.max(0.0)), Some(high));
}

/// Response times after the warm-up. The counts of coarse buckets come from the half seconds, and
/// the shape within a bucket from the distribution of the whole load.
struct SteadyTimes {
    /// Coarse buckets: their middle and count, and the times and counts of the finer buckets within.
    buckets: Vec<(Nanos, u64, TimeCounts)>,
    count: u64,
}

/// Boundary between the requests beyond a percentile and the others.
struct Threshold {
    bucket: Nanos,
    /// Share of the bucket's requests that lie beyond.
    share: f64,
}

impl Threshold {
    /// Returns the number of requests beyond the boundary.
    fn beyond(&self, counts: &[(Nanos, u64)]) -> f64 {
        let weight = |time: Nanos| match time.cmp(&self.bucket) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => self.share,
            std::cmp::Ordering::Greater => 1.0,
        };
        counts
            .iter()
            .map(|(time, count)| weight(*time) * *count as f64)
            .sum()
    }
}

impl SteadyTimes {
    fn of(steady: &[(u64, TimeCounts)], all: &Distribution) -> SteadyTimes {
        let mut counts = std::collections::BTreeMap::<Nanos, (u64, TimeCounts)>::new();
        for (time, count) in steady.iter().flat_map(|(_, times)| times) {
            counts.entry(*time).or_default().0 += count;
        }
        for (time, count) in all.buckets() {
            if let Some((_, finer)) = counts.get_mut(&coarse_time_of(time)) {
                finer.push((time, count));
            }
        }
        let count = counts.values().map(|(count, _)| count).sum();
        let buckets = counts.into_iter();
        SteadyTimes {
            buckets: buckets
                .map(|(time, (count, finer))| (time, count, finer))
                .collect(),
            count,
        }
    }

    /// Returns the position of a quantile: the index of its bucket, and the share of the bucket's
    /// requests up to it.
    fn position(&self, quantile: f64) -> Option<(usize, f64)> {
        let mut rank = quantile * self.count as f64;
        if !(0.0..=self.count as f64).contains(&rank) {
            return None;
        }
        for (index, (_, count, _)) in self.buckets.iter().enumerate() {
            if rank <= *count as f64 {
                return Some((index, rank / (*count).max(1) as f64));
            }
            rank -= *count as f64;
        }
        None
    }

    fn threshold(&self, quantile: f64) -> Option<Threshold> {
        let (index, share) = self.position(quantile)?;
        Some(Threshold {
            bucket: self.buckets[index].0,
            share: 1.0 - share,
        })
    }

    /// Returns the time at a quantile, in microseconds.
    fn at(&self, quantile: f64) -> Option<f64> {
        let (index, share) = self.position(quantile)?;
        let (middle, _, finer) = &self.buckets[index];
        let all: u64 = finer.iter().map(|(_, count)| count).sum();
        let mut rank = share * all as f64;
        for (time, count) in finer {
            rank -= *count as f64;
            if rank <= 0.0 {
                return Some(time.as_micros_f64());
            }
        }
        Some(
            finer
                .last()
                .map_or(*middle, |(time, _)| *time)
                .as_micros_f64(),
        )
    }
}
