//! Distribution of times. For some times, only a lower bound is known: the true time is at least
//! that long.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Longest time that can be represented: ten hours. Longer times are recorded as ten hours.
pub(crate) const LONGEST_NS: u64 = 36_000_000_000_000;
/// Significant decimal digits of a value. With three, a bucket is at most 0.1% wide.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Maximum range of times, in octaves, for which a merge visits only the buckets within that range.
const NARROW_OCTAVES: u32 = 6;

/// HDR histogram of times in nanoseconds, with a second histogram for lower bounds.
#[derive(Clone)]
pub struct Distribution {
    known: Histogram<u64>,
    censored: Option<Box<Histogram<u64>>>,
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution::new()
    }
}

/// Prints a summary instead of tens of thousands of buckets.
impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Distribution");
        shown.field("count", &self.count());
        shown.field("summary", &self.summary()).finish()
    }
}

/// Two distributions are equal if all their buckets are equal.
impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        let recorded = |times: &Histogram<u64>| -> Vec<(u64, u64)> {
            let buckets = times.iter_recorded();
            buckets
                .map(|it| (it.value_iterated_to(), it.count_at_value()))
                .collect()
        };
        let both = |it: &Distribution| (recorded(&it.known), it.bounds().map(recorded));
        both(self) == both(other)
    }
}

/// Creates a histogram that grows with its longest time, because most histograms are empty or
/// contain only short times.
fn empty_histogram() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_DIGITS).expect("the number of digits is within the library's limits")
}

/// Adds `count` equal times to a histogram.
#[inline]
fn add_times(histogram: &mut Histogram<u64>, time: Nanos, count: u64) {
    histogram
        .record_n(time.0.min(LONGEST_NS), count)
        .expect("histograms grow up to the longest time");
}

impl Distribution {
    /// Creates an empty distribution.
    pub fn new() -> Distribution {
        Distribution {
            known: empty_histogram(),
            censored: None,
        }
    }

    /// Adds a known time, as opposed to a lower bound.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        add_times(&mut self.known, time, 1);
    }

    /// Adds a time that is known only as a lower bound: the true time is `time` or longer.
    pub fn record_at_least(&mut self, time: Nanos) {
        self.record_many_at_least(time, 1);
    }

    /// Adds all times of another distribution.
    pub fn merge(&mut self, other: &Distribution) {
        add_histogram(&mut self.known, &other.known);
        if let Some(theirs) = other.bounds() {
            add_histogram(
                self.censored
                    .get_or_insert_with(|| Box::new(empty_histogram())),
                theirs,
            );
        }
    }

    /// Removes all times without freeing memory.
    pub fn clear(&mut self) {
        let all = [Some(&mut self.known), self.censored.as_deref_mut()];
        let used = all.into_iter().flatten().filter(|it| !it.is_empty());
        used.for_each(Histogram::reset);
    }

    /// Returns the histogram of the lower bounds, if any.
    fn bounds(&self) -> Option<&Histogram<u64>> {
        self.censored.as_deref().filter(|bounds| !bounds.is_empty())
    }

    /// Returns the number of recorded times, including those known only as lower bounds.
    pub fn count(&self) -> u64 {
        self.known.len() + self.censored()
    }

    /// Returns the number of times that are known only as lower bounds.
    pub fn censored(&self) -> u64 {
        self.bounds().map_or(0, Histogram::len)
    }

    /// Returns the number of times and lower bounds that are `time` or longer.
    pub fn count_from(&self, time: Nanos) -> u64 {
        let both = [Some(&self.known), self.bounds()];
        // `count_between` would count the last bucket for any time beyond the histogram's range.
        let from = |times: &Histogram<u64>| {
            if time.0 > times.max() {
                0
            } else {
                times.count_between(time.0, LONGEST_NS)
            }
        };
        both.into_iter().flatten().map(from).sum()
    }

    /// Returns the standard deviation of the known times divided by their mean, or zero if there
    /// are none. Lower bounds are ignored.
    pub fn variation(&self) -> f64 {
        match self.known.mean() {
            mean if mean > 0.0 => self.known.stdev() / mean,
            _ => 0.0,
        }
    }

    /// Returns the nonempty buckets of the known times, each with its highest value and its count.
    /// Lower bounds are ignored.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.known.iter_recorded().map(|bucket| {
            (
                Nanos(bucket.value_iterated_to()),
                bucket.count_since_last_iteration(),
            )
        })
    }

    /// Returns the nonempty buckets of the lower bounds, each with its highest value and its count.
    pub(crate) fn buckets_at_least(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let bounds = self.bounds().into_iter();
        bounds.flat_map(Histogram::iter_recorded).map(|bucket| {
            (
                Nanos(bucket.value_iterated_to()),
                bucket.count_since_last_iteration(),
            )
        })
    }

    /// Adds `count` equal lower bounds.
    pub(crate) fn record_many_at_least(&mut self, time: Nanos, count: u64) {
        let bounds = self
            .censored
            .get_or_insert_with(|| Box::new(empty_histogram()));
        add_times(bounds, time, count);
    }

    /// Adds `count` equal times.
    pub fn record_many(&mut self, time: Nanos, count: u64) {
        add_times(&mut self.known, time, count);
    }

    /// Returns the value at `quantile` (0 to 1), and whether that value is only a lower
    /// bound. To find the quantile, lower bounds are ranked as if they were exact times.
    pub fn quantile(&self, quantile: f64) -> (Nanos, bool) {
        self.quantile_of(&self.all(), quantile)
    }

    /// Returns the histogram of all times. A lower bound is treated as if it were the true time.
    fn all(&self) -> Cow<'_, Histogram<u64>> {
        let mut all = Cow::Borrowed(&self.known);
        if let Some(censored) = self.bounds() {
            add_histogram(all.to_mut(), censored);
        }
        all
    }

    /// See [`Distribution::quantile`]. `all` is the result of [`Distribution::all`].
    fn quantile_of(&self, all: &Histogram<u64>, quantile: f64) -> (Nanos, bool) {
        let low = all.value_at_quantile(quantile);
        if self.bounds().is_none() {
            return (Nanos(low), false);
        }
        // `low` assumes that each time equals its lower bound. In the other extreme, all of these
        // times are longer than every known time.
        let rank = (quantile * all.len() as f64).ceil().max(1.0);
        if rank > self.known.len() as f64 {
            return (Nanos(low), true);
        }
        let high = self.known.value_at_quantile(rank / self.known.len() as f64);
        (Nanos(low), high as f64 > low as f64 * 1.01)
    }

    /// Returns the summary as stored in records.
    pub fn summary(&self) -> Summary {
        if self.count() == 0 {
            return Summary::default();
        }
        let all = self.all();
        let mut longest_is_bound = false;
        // The age of a request that was cut off early must not become the minimum.
        let mut min = self.known.min();
        let mut shortest_is_bound = false;
        if let Some(censored) = self.bounds() {
            shortest_is_bound = self.known.is_empty();
            if shortest_is_bound {
                min = censored.min();
            }
            longest_is_bound = censored.max() >= self.known.max() || self.known.is_empty();
        }
        let mut at_least = Vec::new();
        if shortest_is_bound {
            at_least.push("min".to_owned());
        }
        let mut at = |name: &str, quantile: f64| {
            let (value, bound) = self.quantile_of(&all, quantile);
            if bound {
                at_least.push(name.to_owned());
            }
            micros(value.0 as f64)
        };
        let (p50, p75) = (at("p50", 0.5), at("p75", 0.75));
        let (p90, p95) = (at("p90", 0.9), at("p95", 0.95));
        let (p99, p99_9) = (at("p99", 0.99), at("p99_9", 0.999));
        if longest_is_bound {
            at_least.push("max".to_owned());
        }
        Summary {
            min: micros(min as f64),
            mean: micros(all.mean()),
            p50,
            p75: Some(p75),
            p90,
            p95: Some(p95),
            p99,
            p99_9,
            max: micros(all.max() as f64),
            stdev: (!self.known.is_empty()).then(|| micros(self.known.stdev())),
            at_least,
        }
    }

    /// Encodes the histogram as HDR V2 with deflate, in base64. Lower bounds are included as
    /// ordinary values. Returns `None` if the distribution is empty.
    pub fn encode(&self) -> Option<String> {
        if self.count() == 0 {
            return None;
        }
        encode(&self.all())
    }

    /// Encodes only the lower bounds, in the same format.
    pub fn encode_bounds(&self) -> Option<String> {
        self.bounds().and_then(encode)
    }

    /// Decodes the output of [`Distribution::encode`] and [`Distribution::encode_bounds`]. Returns
    /// `None` if the input is invalid.
    pub fn decode_with_bounds(encoded: &str, bounds: Option<&str>) -> Option<Distribution> {
        let mut all = Distribution::decode(encoded)?;
        if let Some(bounds) = bounds {
            let bounds = Distribution::decode(bounds)?.known;
            all.known.subtract(&bounds).ok()?;
            all.censored = Some(Box::new(bounds));
        }
        Some(all)
    }

    /// Decodes the output of [`Distribution::encode`]; lower bounds are decoded as ordinary values.
    /// Returns `None` if the input is invalid.
    pub fn decode(encoded: &str) -> Option<Distribution> {
        let bytes = BASE64.decode(encoded).ok()?;
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
        // Earlier versions stored longer times, up to the end of the last bucket.
        if read.max() >= LONGEST_NS.next_power_of_two() {
            return None;
        }
        let mut all = Distribution::new();
        all.known.add(read).ok()?;
        Some(all)
    }
}

fn add_histogram(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    // `Histogram::add` visits every bucket, which takes tens of microseconds. The times within half
    // a second usually differ little, so visit only the buckets between the shortest and the
    // longest time.
    let (min, max) = (from.min_nz(), from.max());
    if min.leading_zeros() <= max.leading_zeros() + NARROW_OCTAVES {
        add_times(into, Nanos::ZERO, from.count_at(0));
        let mut value = min;
        while value <= max {
            let count = from.count_at(value);
            if count > 0 {
                add_times(into, Nanos(value), count);
            }
            value = from.next_non_equivalent(value);
        }
        return;
    }
    into.add(from)
        .expect("all of this crate's histograms have the same number of digits and can grow");
}

fn encode(histogram: &Histogram<u64>) -> Option<String> {
    // The encoded form contains the histogram's range, which must not depend on the order in which
    // the histogram grew.
    let mut full = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS).ok()?;
    full.add(histogram).ok()?;
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&full, &mut bytes)
        .ok()?;
    Some(BASE64.encode(bytes))
}

/// Converts nanoseconds to microseconds, rounded to the nanosecond.
fn micros(nanos: f64) -> f64 {
    nanos.round() / 1e3
}

/// Summary of a distribution, in microseconds. All values are zero if the distribution is empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Shortest known time, or the shortest lower bound if there are only lower bounds.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile; absent in records written by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p75: Option<f64>,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile; absent in records written by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Maximum.
    pub max: f64,
    /// Standard deviation of the known times. Absent if there are none, and in records written by
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdev: Option<f64>,
    /// Names of the values that are lower bounds because of timeouts or unfinished requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<String>,
}

impl Summary {
    /// Returns a percentile in microseconds, and whether it is only a lower bound. Returns `None`
    /// for a percentile that is not stored.
    pub fn percentile(&self, percentile: f64) -> Option<(f64, bool)> {
        let kept = [
            (50.0, "p50", Some(self.p50)),
            (75.0, "p75", self.p75),
            (90.0, "p90", Some(self.p90)),
            (95.0, "p95", self.p95),
            (99.0, "p99", Some(self.p99)),
            (99.9, "p99_9", Some(self.p99_9)),
        ];
        let (_, name, value) = kept.into_iter().find(|(at, ..)| *at == percentile)?;
        Some((value?, self.at_least.iter().any(|it| it == name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(known: &[u64], censored: &[u64]) -> Distribution {
        let mut all = Distribution::new();
        known.iter().for_each(|&v| all.record(Nanos(v)));
        censored.iter().for_each(|&v| all.record_at_least(Nanos(v)));
        all
    }

    #[test]
    fn a_percentile_among_lower_bounds_is_marked() {
        // 98 requests were fast, and two were abandoned after 5 ms.
        let quick = [1_000_000; 98];
        let with_bounds = of(&quick, &[5_000_000; 2]).summary();
        assert!((with_bounds.p50 / 1000.0 - 1.0).abs() < 0.001);
        assert!(!with_bounds.at_least.contains(&"p50".to_owned()));
        assert_eq!(with_bounds.at_least, ["p99", "p99_9", "max"]);
        assert!((with_bounds.stdev.unwrap()).abs() < 1.0);
    }

    #[test]
    fn the_minimum_is_a_complete_time() {
        let cut = of(&[2_000_000, 1_000_000], &[3_000]).summary();
        assert!((cut.min / 1000.0 - 1.0).abs() < 0.001, "{}", cut.min);
        assert!(!cut.at_least.contains(&"min".to_owned()));
        let none = of(&[], &[3_000, 5_000]).summary();
        assert!((none.min - 3.0).abs() < 0.01, "{}", none.min);
        assert_eq!(none.at_least[0], "min");
    }

    #[test]
    fn a_short_lower_bound_can_not_improve_a_percentile() {
        // Half of the requests were cut off immediately, so the true median may be any higher
        // value.
        let cut = of(&[1_000_000; 50], &[1_000; 50]);
        let (_, bound) = cut.quantile(0.5);
        assert!(bound);
        // A few requests that were cut off immediately don't affect the median of 10,000 equal
        // times.
        let few = of(&[1_000_000; 10_000], &[1_000; 3]);
        assert!(!few.quantile(0.5).1);
        assert!(few.quantile(0.9999).1);
    }

    #[test]
    fn encoded_distributions_are_decoded() {
        let all = of(&[10, 2_000, 30_000, 2_000], &[400]);
        let read = Distribution::decode(&all.encode().unwrap()).unwrap();
        assert_eq!((read.count(), read.censored()), (5, 0));
        assert_eq!(read.encode(), all.encode());
        let bounds = all.encode_bounds().unwrap();
        let whole = all.encode().unwrap();
        assert_eq!(
            Distribution::decode_with_bounds(&whole, Some(&bounds)),
            Some(all)
        );
        // The arguments are swapped, so there are more lower bounds than values.
        assert_eq!(
            Distribution::decode_with_bounds(&bounds, Some(&whole)),
            None
        );
        for bad in ["", "!", "aGVsbG8="] {
            assert!(Distribution::decode(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn merging_equals_recording_all_at_once() {
        let mut merged = of(&[10, 2_000, 30_000], &[400]);
        merged.merge(&of(&[5, 700_000], &[9, 1_000_000]));
        let whole = of(&[10, 2_000, 30_000, 5, 700_000], &[400, 9, 1_000_000]);
        assert_eq!(merged.summary(), whole.summary());
        assert_eq!(merged.encode(), whole.encode());
        assert_eq!((merged.count(), merged.censored()), (8, 3));
        assert_eq!(merged, whole);
    }

    #[test]
    fn long_times_are_counted_with_lower_bounds_among_them() {
        let times = of(&[10, 2_000, 3_000], &[400, 2_500]);
        assert_eq!(times.count_from(Nanos(0)), 5);
        assert_eq!(times.count_from(Nanos(2_000)), 3);
        assert_eq!(times.count_from(Nanos(9_000)), 0);
    }

    #[test]
    fn a_cleared_distribution_is_like_a_new_one() {
        let mut cleared = of(&[10, 2_000], &[400]);
        assert_ne!(cleared, Distribution::new());
        cleared.clear();
        assert_eq!(cleared, Distribution::new());
        assert_eq!(cleared.quantile(0.5), Distribution::new().quantile(0.5));
        cleared.merge(&of(&[7], &[]));
        assert_eq!(cleared, of(&[7], &[]));
    }

    #[test]
    fn times_beyond_the_range_count_as_the_longest() {
        let all = of(&[u64::MAX], &[]);
        assert!(all.summary().max >= LONGEST_NS as f64 / 1e3 * 0.99);
    }

    #[test]
    fn an_empty_distribution_has_zeros_and_no_histogram() {
        assert_eq!(Distribution::new().summary(), Summary::default());
        assert_eq!(Distribution::new().encode(), None);
    }
}
