//! Time series: counts and response times of each half second.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Distribution, Nanos, Summary, buckets, unmeasured};

/// Length of an element of the time series.
pub const HALF_SECOND: Nanos = Nanos::from_millis(500);

/// An element of the time series, as stored in records.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HalfSecond {
    /// End of the half second, in seconds since the measured part began. The last half second may
    /// be shorter than the others.
    pub t_s: f64,
    /// Requests that succeeded within the half second.
    pub ok: u64,
    /// Requests that failed within the half second.
    pub failed: u64,
    /// HTTP bytes received by the requests that finished within the half second.
    pub bytes_in: u64,
    /// Mean arrival rate within the half second, in requests per second; open loop only. Absent in
    /// records written by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Median response time in microseconds; 0 (null in JSON) if no request finished.
    #[serde(with = "unmeasured")]
    pub p50_us: f64,
    /// 90th percentile of the response time in microseconds; 0 if no request finished, and in
    /// records written by earlier versions.
    #[serde(default, with = "unmeasured")]
    pub p90_us: f64,
    /// 99th percentile of the response time in microseconds.
    #[serde(with = "unmeasured")]
    pub p99_us: f64,
    /// Response times in buckets of 1.6%, by time. In JSON, a histogram as in
    /// [`Record::histograms`](crate::Record::histograms). Absent if no request finished, and in
    /// records written by earlier versions.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "encode_times",
        deserialize_with = "decode_times"
    )]
    pub times: Vec<(Nanos, u64)>,
    /// Journeys that ended within the half second; absent unless users take journeys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journeys: Option<HalfSecondJourneys>,
    /// Events that arrived within the half second; absent unless responses are read as streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<HalfSecondEvents>,
}

impl HalfSecond {
    /// Returns the response times.
    pub fn distribution(&self) -> Distribution {
        distribution_of(&self.times)
    }

    /// Returns true if nothing ended or arrived within the half second.
    pub(crate) fn is_empty(&self) -> bool {
        let journeys = self.journeys.map_or(0, |it| it.completed + it.failed);
        let events = self.events.map_or(0, |it| it.events);
        self.ok + self.failed + journeys + events == 0
    }
}

/// Journeys in an element of the time series.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct HalfSecondJourneys {
    /// Journeys that completed within the half second.
    pub completed: u64,
    /// Journeys that failed within the half second.
    pub failed: u64,
    /// Median time of the completed journeys in microseconds; null if none completed.
    #[serde(with = "unmeasured")]
    pub p50_us: f64,
    /// 99th percentile of the time of the completed journeys in microseconds.
    #[serde(with = "unmeasured")]
    pub p99_us: f64,
}

/// Events of streamed responses in an element of the time series.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct HalfSecondEvents {
    /// Events that arrived within the half second.
    pub events: u64,
    /// Median time to the first event in microseconds, of the requests that ended within the half
    /// second; null if there are none.
    #[serde(with = "unmeasured")]
    pub first_event_p50_us: f64,
    /// 99th percentile of the time to the first event in microseconds.
    #[serde(with = "unmeasured")]
    pub first_event_p99_us: f64,
    /// Median gap before the events in microseconds; null if there is none.
    #[serde(with = "unmeasured")]
    pub event_gap_p50_us: f64,
    /// 99th percentile of the gaps before the events in microseconds.
    #[serde(with = "unmeasured")]
    pub event_gap_p99_us: f64,
}

/// Consecutive half seconds of a running load. Unlike percentiles, half seconds can be merged
/// exactly.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Series {
    /// Index of the first half second; half second 0 begins with the measured part.
    first: usize,
    half_seconds: Vec<HalfSecondCounts>,
}

impl Series {
    /// Creates a series of half seconds. The first half second has the index `first`.
    pub(crate) fn of(first: usize, half_seconds: Vec<HalfSecondCounts>) -> Series {
        Series {
            first,
            half_seconds,
        }
    }

    /// Replaces the whole series with a single half second, whose index is `number`.
    pub(crate) fn begin(&mut self, number: usize, half_second: HalfSecondCounts) {
        self.first = number;
        self.half_seconds.clear();
        self.half_seconds.push(half_second);
    }

    pub(crate) fn clear(&mut self) {
        self.first = 0;
        self.half_seconds.clear();
    }

    pub(crate) fn merge(&mut self, other: &Series) {
        if self.half_seconds.is_empty() {
            self.clone_from(other);
            return;
        }
        if other.half_seconds.is_empty() {
            return;
        }
        let missing = self.first.saturating_sub(other.first);
        self.half_seconds
            .splice(0..0, (0..missing).map(|_| HalfSecondCounts::default()));
        self.first -= missing;
        let offset = other.first - self.first;
        let length = self
            .half_seconds
            .len()
            .max(offset + other.half_seconds.len());
        self.half_seconds
            .resize_with(length, HalfSecondCounts::default);
        for (mine, theirs) in self.half_seconds[offset..]
            .iter_mut()
            .zip(&other.half_seconds)
        {
            mine.merge(theirs);
        }
    }

    /// Returns each half second with its index.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &HalfSecondCounts)> {
        (self.first..).zip(&self.half_seconds)
    }

    /// Returns all half seconds since the start of the measured part.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &HalfSecondCounts> {
        static NONE: HalfSecondCounts = HalfSecondCounts::NONE;
        std::iter::repeat_n(&NONE, self.first).chain(&self.half_seconds)
    }
}

/// Counts of one half second of a running load.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HalfSecondCounts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_in: u64,
    /// Response times of the requests that finished in the half second, in coarse buckets.
    pub(crate) times: CoarseTimes,
    /// Journeys and events; `None` if there were none.
    pub(crate) other: Option<Box<OtherCounts>>,
}

/// Times in coarse buckets: value and count, sorted by value.
pub(crate) type CoarseTimes = Vec<(Nanos, u64)>;

/// Journeys and events of one half second of a running load.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct OtherCounts {
    pub(crate) journeys_completed: u64,
    pub(crate) journeys_failed: u64,
    pub(crate) events: u64,
    pub(crate) journey_times: CoarseTimes,
    pub(crate) first_event_times: CoarseTimes,
    pub(crate) event_gaps: CoarseTimes,
}

impl OtherCounts {
    pub(crate) fn counts(&self) -> [u64; 3] {
        [self.journeys_completed, self.journeys_failed, self.events]
    }

    pub(crate) fn counts_mut(&mut self) -> [&mut u64; 3] {
        [
            &mut self.journeys_completed,
            &mut self.journeys_failed,
            &mut self.events,
        ]
    }

    pub(crate) fn times(&self) -> [&CoarseTimes; 3] {
        [
            &self.journey_times,
            &self.first_event_times,
            &self.event_gaps,
        ]
    }

    pub(crate) fn times_mut(&mut self) -> [&mut CoarseTimes; 3] {
        [
            &mut self.journey_times,
            &mut self.first_event_times,
            &mut self.event_gaps,
        ]
    }

    fn merge(&mut self, other: &OtherCounts) {
        for (mine, theirs) in self.counts_mut().into_iter().zip(other.counts()) {
            *mine = mine.saturating_add(theirs);
        }
        for (mine, theirs) in self.times_mut().into_iter().zip(other.times()) {
            buckets::add_counts(mine, theirs);
        }
    }
}

/// Number of significant bits of a response time in a half second. Values are exact within 1.6%. A
/// half second has a few hundred buckets at most, so the series of an hour takes only a few
/// megabytes.
const COARSE_BITS: u32 = 6;

/// Returns the middle of the coarse bucket that contains a time.
pub fn coarse_time_of(time: Nanos) -> Nanos {
    coarse_time(coarse_bucket(time.0))
}

/// Returns the number of the coarse bucket that contains a time. Each of the shortest times has a
/// bucket of its own.
pub(crate) const fn coarse_bucket(nanos: u64) -> u32 {
    buckets::bucket_of(COARSE_BITS, nanos)
}

/// Returns the middle of an existing coarse bucket, which represents the times in it.
pub(crate) const fn coarse_time(bucket: u32) -> Nanos {
    Nanos(buckets::middle_of(COARSE_BITS, bucket))
}

impl HalfSecondCounts {
    const NONE: HalfSecondCounts = HalfSecondCounts {
        ok: 0,
        failed: 0,
        bytes_in: 0,
        times: Vec::new(),
        other: None,
    };

    pub(crate) fn merge(&mut self, other: &HalfSecondCounts) {
        self.ok = self.ok.saturating_add(other.ok);
        self.failed = self.failed.saturating_add(other.failed);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        buckets::add_counts(&mut self.times, &other.times);
        if let Some(theirs) = &other.other {
            self.other.get_or_insert_default().merge(theirs);
        }
    }

    /// Returns the half second as stored in records, with journeys and events if `has` states that
    /// the load has them.
    pub(crate) fn finish(&self, end: Nanos, has: SeriesParts) -> HalfSecond {
        let summary = summary_of(&self.times);
        let none = OtherCounts::default();
        let other = self.other.as_deref().unwrap_or(&none);
        let journeys = has.journeys.then(|| {
            let times = summary_of(&other.journey_times);
            HalfSecondJourneys {
                completed: other.journeys_completed,
                failed: other.journeys_failed,
                p50_us: times.p50,
                p99_us: times.p99,
            }
        });
        let events = has.events.then(|| {
            let first_events = summary_of(&other.first_event_times);
            let gaps = summary_of(&other.event_gaps);
            HalfSecondEvents {
                events: other.events,
                first_event_p50_us: first_events.p50,
                first_event_p99_us: first_events.p99,
                event_gap_p50_us: gaps.p50,
                event_gap_p99_us: gaps.p99,
            }
        });
        HalfSecond {
            t_s: end.as_secs_f64(),
            ok: self.ok,
            failed: self.failed,
            bytes_in: self.bytes_in,
            offered_per_s: None,
            p50_us: summary.p50,
            p90_us: summary.p90,
            p99_us: summary.p99,
            times: self.times.clone(),
            journeys,
            events,
        }
    }
}

/// Parts of a time series that not every load has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesParts {
    pub(crate) journeys: bool,
    pub(crate) events: bool,
}

/// Reduces times to coarse buckets.
pub(crate) fn coarse_times(times: &Distribution) -> CoarseTimes {
    let mut coarse_times = CoarseTimes::new();
    for (time, count) in times.buckets() {
        let time = coarse_time_of(time);
        match coarse_times.last_mut() {
            Some((last, kept)) if *last == time => *kept += count,
            _ => coarse_times.push((time, count)),
        }
    }
    coarse_times
}

fn summary_of(times: &CoarseTimes) -> Summary {
    distribution_of(times).summary()
}

fn distribution_of(times: &[(Nanos, u64)]) -> Distribution {
    let mut distribution = Distribution::new();
    for &(time, count) in times {
        distribution.record_many(time, count);
    }
    distribution
}

fn encode_times<S: Serializer>(times: &[(Nanos, u64)], to: S) -> Result<S::Ok, S::Error> {
    distribution_of(times).encode().serialize(to)
}

fn decode_times<'de, D: Deserializer<'de>>(from: D) -> Result<CoarseTimes, D::Error> {
    let encoded: Option<String> = Option::deserialize(from)?;
    let Some(encoded) = encoded else {
        return Ok(CoarseTimes::new());
    };
    let times = Distribution::decode(&encoded);
    let times = times.ok_or_else(|| serde::de::Error::custom("not a histogram"))?;
    Ok(coarse_times(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(first: usize, ok: &[u64]) -> Series {
        let half_second = |&ok: &u64| HalfSecondCounts {
            ok,
            times: vec![(Nanos(ok), ok)],
            ..HalfSecondCounts::NONE
        };
        Series {
            first,
            half_seconds: ok.iter().map(half_second).collect(),
        }
    }

    fn ok(series: &Series) -> Vec<u64> {
        series.iter().map(|half_second| half_second.ok).collect()
    }

    #[test]
    fn series_merge_at_their_slice_numbers() {
        let mut all = series(2, &[5, 6]);
        all.merge(&series(4, &[7]));
        assert_eq!(ok(&all), [0, 0, 5, 6, 7]);
        all.merge(&series(0, &[1]));
        assert_eq!(ok(&all), [1, 0, 5, 6, 7]);
        all.merge(&series(2, &[5]));
        assert_eq!(ok(&all), [1, 0, 10, 6, 7]);
        assert_eq!(all.half_seconds[2].times, [(Nanos(5), 10)]);
        all.merge(&Series::default());
        let mut none = Series::default();
        none.merge(&all);
        assert_eq!(none, all);
    }
}
