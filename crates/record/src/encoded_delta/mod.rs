//! Compact form of a [`Delta`], which agents send as messages. It contains only nonzero numbers.

mod bits;
mod numbers;
#[cfg(test)]
mod tests;
mod wire;

use std::borrow::Cow;

pub use numbers::EncodedDelta;
use numbers::{EncodedHalfSecond, EncodedOtherCounts, EncodedTimes};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::buckets::BucketCount;
use crate::distribution::Distribution;
use crate::fast_histogram::{bucket_of, start_of};
use crate::series::{
    CoarseTimes, HalfSecondCounts, OtherCounts, Series, coarse_bucket, coarse_time,
};
use crate::{Delta, EntryDelta, Nanos, OutcomeCounts};

impl Serialize for EncodedDelta {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&wire::write_delta(self))
    }
}

impl<'de> Deserialize<'de> for EncodedDelta {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<EncodedDelta, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        wire::read_delta(&text).ok_or_else(|| D::Error::custom("invalid encoded delta"))
    }
}

/// Sums of the counts of encoded deltas, without times. Keeping the times of each agent separately
/// would take megabytes per agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeltaTotals {
    /// See [`Delta::span`].
    pub span: Option<(Nanos, Nanos)>,
    /// See [`Delta::started`].
    pub started: u64,
    /// See [`Delta::unmeasured`].
    pub unmeasured: u64,
    /// See [`Delta::outcomes`].
    pub outcomes: OutcomeCounts,
}

impl DeltaTotals {
    /// See [`Delta::ended`].
    pub fn ended(&self) -> u64 {
        self.unmeasured.saturating_add(self.outcomes.ended())
    }

    /// See [`Delta::in_flight`].
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended())
    }
}

/// Error for an encoded delta that contains an impossible number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImplausibleDelta;

impl std::fmt::Display for ImplausibleDelta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a recorded count is impossibly large")
    }
}

impl std::error::Error for ImplausibleDelta {}

/// Maximum number of half seconds: the number of half seconds in a week.
const HALF_SECONDS_MAX: usize = 2 * 86_400 * 7;
/// Exclusive limit of each count. No real count reaches it, and thousands of deltas can be added
/// without overflow.
const COUNT_MAX: u64 = 1 << 50;

impl EncodedDelta {
    /// Encodes a delta.
    pub fn of(delta: &Delta) -> EncodedDelta {
        let mut half_seconds = delta.series.numbered().peekable();
        let first_half_second = half_seconds.peek().map_or(0, |(number, _)| *number as u32);
        EncodedDelta {
            span: delta.span.map(|(begin, end)| (begin.0, end.0)),
            counts: delta.counts(),
            events: delta.events.counts(),
            outcomes: delta.outcomes.happened().collect(),
            statuses: delta.statuses.iter().collect(),
            times: delta.all_times().map(EncodedTimes::of).collect(),
            first_half_second,
            half_seconds: half_seconds
                .map(|(_, half_second)| EncodedHalfSecond::of(half_second))
                .collect(),
            entries: delta.entries.used().to_vec(),
        }
    }

    /// Adds this encoded delta to `delta`. Adds nothing if one of its numbers is impossible.
    ///
    /// # Errors
    ///
    /// Returns [`ImplausibleDelta`] if a count or a half second number exceeds its limit.
    pub fn add_to(&self, delta: &mut Delta) -> Result<(), ImplausibleDelta> {
        if self.is_plausible() {
            self.add_all_to(delta)
        } else {
            return Err(ImplausibleDelta);
        }
        Ok(())
    }

    /// Adds the counts of this delta to `counted`. [`EncodedDelta::add_to`] must have accepted the
    /// delta.
    pub fn count_into(&self, counted: &mut DeltaTotals) {
        counted.span = self.span_with(counted.span);
        let [started, unmeasured, ..] = self.counts;
        counted.started = counted.started.saturating_add(started);
        counted.unmeasured = counted.unmeasured.saturating_add(unmeasured);
        for &(outcome, more) in &self.outcomes {
            counted.outcomes.add_many(outcome, more);
        }
    }

    /// Returns the interval that covers both this delta's interval and `other`.
    fn span_with(&self, other: Option<(Nanos, Nanos)>) -> Option<(Nanos, Nanos)> {
        let Some((begin, end)) = self.span else {
            return other;
        };
        let (begin, end) = (Nanos(begin), Nanos(end));
        let other = other.unwrap_or((begin, end));
        Some((other.0.min(begin), other.1.max(end)))
    }

    /// Splits the delta for transports with a limited message size: each piece has at most
    /// `buckets_max` buckets of distributions. There is at least one piece, and the pieces add up
    /// to the delta.
    pub fn split(mut self, buckets_max: usize) -> Vec<EncodedDelta> {
        let lists = self.take_lists();
        let mut pieces = vec![self];
        let mut room = buckets_max.max(1);
        for (list, mut buckets) in lists {
            while !buckets.is_empty() {
                if room == 0 {
                    pieces.push(EncodedDelta::default());
                    room = buckets_max.max(1);
                }
                let rest = buckets.split_off(room.min(buckets.len()));
                room -= buckets.len();
                if let Some(piece) = pieces.last_mut() {
                    *piece.list_mut(list) = buckets;
                }
                buckets = rest;
            }
        }
        pieces
    }

    /// Removes all lists of buckets from this delta and returns them.
    fn take_lists(&mut self) -> Vec<(BucketList, Vec<BucketCount>)> {
        let times = std::mem::take(&mut self.times);
        let of_times = times.into_iter().enumerate().flat_map(|(index, times)| {
            [
                (BucketList::Known(index), times.known),
                (BucketList::AtLeast(index), times.at_least),
            ]
        });
        let of_entries = self.entries.iter_mut().enumerate();
        let of_entries = of_entries.flat_map(|(index, entry)| {
            [
                (
                    BucketList::EntryKnown(index),
                    std::mem::take(&mut entry.times.known),
                ),
                (
                    BucketList::EntryAtLeast(index),
                    std::mem::take(&mut entry.times.at_least),
                ),
            ]
        });
        of_times.chain(of_entries).collect()
    }

    fn list_mut(&mut self, list: BucketList) -> &mut Vec<BucketCount> {
        match list {
            BucketList::Known(index) => &mut element_at(&mut self.times, index).known,
            BucketList::AtLeast(index) => &mut element_at(&mut self.times, index).at_least,
            BucketList::EntryKnown(index) => &mut element_at(&mut self.entries, index).times.known,
            BucketList::EntryAtLeast(index) => {
                &mut element_at(&mut self.entries, index).times.at_least
            }
        }
    }

    /// Returns the number of half seconds from the start of the measured part to the last half
    /// second in this delta, or 0 if the delta has no half seconds.
    pub fn half_seconds(&self) -> usize {
        match self.half_seconds.len() {
            0 => 0,
            count => (self.first_half_second as usize).saturating_add(count),
        }
    }

    /// Returns the end of the interval in nanoseconds since the start of the load, or 0 if there is
    /// no interval.
    pub fn latest_ns(&self) -> u64 {
        self.span.map_or(0, |(begin, end)| begin.max(end))
    }

    fn is_plausible(&self) -> bool {
        let few = |count: &u64| *count < COUNT_MAX;
        let few_of_each = |times: &[BucketCount]| times.iter().all(|(_, count)| few(count));
        let last_half_second =
            (self.first_half_second as usize).saturating_add(self.half_seconds.len());
        self.counts.iter().chain(&self.events).all(few)
            && self.outcomes.iter().all(|(_, count)| few(count))
            && self.statuses.iter().all(|(_, count)| few(count))
            && self
                .times
                .iter()
                .all(|times| few_of_each(&times.known) && few_of_each(&times.at_least))
            && self.half_seconds.iter().all(|half_second| {
                [half_second.ok, half_second.failed, half_second.bytes_in]
                    .iter()
                    .all(few)
                    && few_of_each(&half_second.times)
                    && half_second.other.iter().all(|other| {
                        other.counts.iter().all(few)
                            && other.times.iter().all(|times| few_of_each(times))
                    })
            })
            && last_half_second <= HALF_SECONDS_MAX
            && self.entries_add_up()
    }

    /// Returns true if the counts of the entries (if any) are possible and their sums equal the
    /// counts of all requests.
    fn entries_add_up(&self) -> bool {
        let few = |count: &u64| *count < COUNT_MAX;
        let are_few = self.entries.iter().all(|entry| {
            let lists = entry.times.known.iter().chain(&entry.times.at_least);
            let outcomes = entry.outcomes.happened();
            entry.counts().iter().all(few)
                && outcomes.into_iter().all(|(_, count)| few(&count))
                && lists.into_iter().all(|(_, count)| few(count))
        });
        if self.entries.is_empty() || !are_few {
            return are_few;
        }
        let mut sum = EntryDelta::default();
        for entry in &self.entries {
            sum.merge_counts(entry);
        }
        let [started, unmeasured, _, _, bytes_in, _, bytes_out, ..] = self.counts;
        sum.counts() == [started, unmeasured, bytes_in, bytes_out]
            && sum.outcomes.happened().eq(self.outcomes.iter().copied())
    }

    fn add_all_to(&self, delta: &mut Delta) {
        delta.span = self.span_with(delta.span);
        for (count, more) in delta.counts_mut().into_iter().zip(&self.counts) {
            *count = count.saturating_add(*more);
        }
        let events = delta.events.counts_mut().into_iter();
        for (count, more) in events.zip(&self.events) {
            *count = count.saturating_add(*more);
        }
        for &(outcome, more) in &self.outcomes {
            delta.outcomes.add_many(outcome, more);
        }
        for &(status, more) in &self.statuses {
            delta.statuses.add_many(status, more);
        }
        for (times, more) in delta.all_times_mut().into_iter().zip(&self.times) {
            more.add_to(times);
        }
        let half_seconds = self
            .half_seconds
            .iter()
            .map(EncodedHalfSecond::decoded)
            .collect();
        let series = Series::of(self.first_half_second as usize, half_seconds);
        delta.series.merge(&series);
        delta.entries.merge_all(&self.entries);
    }
}

/// Identifies a list of buckets in an encoded delta: the known times or the lower bounds of a
/// distribution or of an entry. The number in each variant is the index of that distribution or
/// entry.
#[derive(Debug, Clone, Copy)]
enum BucketList {
    Known(usize),
    AtLeast(usize),
    EntryKnown(usize),
    EntryAtLeast(usize),
}

/// Returns the element at `index`. If the list is too short, extends it with default elements.
fn element_at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

impl EncodedTimes {
    fn of(times: &Distribution) -> EncodedTimes {
        let encoded = |(time, count): (Nanos, u64)| (bucket_of(time.0) as u32, count);
        EncodedTimes {
            known: times.buckets().map(encoded).collect(),
            at_least: times.buckets_at_least().map(encoded).collect(),
        }
    }

    fn add_to(&self, times: &mut Distribution) {
        for &(bucket, count) in &self.known {
            times.record_many(start_of(bucket as usize), count);
        }
        for &(bucket, count) in &self.at_least {
            times.record_many_at_least(start_of(bucket as usize), count);
        }
    }
}

impl EncodedHalfSecond {
    fn of(half_second: &HalfSecondCounts) -> EncodedHalfSecond {
        let encoded = |times: &CoarseTimes| -> Vec<BucketCount> {
            let buckets = times.iter();
            buckets
                .map(|&(time, n)| (coarse_bucket(time.0), n))
                .collect()
        };
        EncodedHalfSecond {
            ok: half_second.ok,
            failed: half_second.failed,
            bytes_in: half_second.bytes_in,
            times: encoded(&half_second.times),
            other: half_second.other.as_ref().map(|other| {
                Box::new(EncodedOtherCounts {
                    counts: other.counts(),
                    times: other.times().map(encoded),
                })
            }),
        }
    }

    fn decoded(&self) -> HalfSecondCounts {
        let decoded = |times: &Vec<BucketCount>| -> CoarseTimes {
            let buckets = times.iter();
            buckets
                .map(|&(bucket, n)| (coarse_time(bucket), n))
                .collect()
        };
        HalfSecondCounts {
            ok: self.ok,
            failed: self.failed,
            bytes_in: self.bytes_in,
            times: decoded(&self.times),
            other: self.other.as_ref().map(|encoded| {
                let mut other = OtherCounts::default();
                for (count, &own) in other.counts_mut().into_iter().zip(&encoded.counts) {
                    *count = own;
                }
                for (times, own) in other.times_mut().into_iter().zip(&encoded.times) {
                    *times = decoded(own);
                }
                Box::new(other)
            }),
        }
    }
}
