//! A delta on its way to another machine: what is not zero in it, and nothing else.

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::series::{Series, SliceCounts};
use crate::{Delta, Nanos, Outcome};

/// A [`Delta`] in as few numbers as it takes. Packed and added up elsewhere it is the same, to the last
/// bucket.
///
/// Whatever comes from elsewhere may be nonsense: adding it up can give nonsense, but never a panic, nor
/// more memory than it takes itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Packed {
    span: Option<(u64, u64)>,
    counts: Vec<u64>,
    outcomes: Vec<(Outcome, u64)>,
    statuses: Vec<(u16, u64)>,
    times: Vec<Times>,
    first_slice: u32,
    slices: Vec<PackedSlice>,
}

/// A distribution: its buckets that are not empty, by their value in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Times {
    known: Vec<(u64, u64)>,
    /// Those that are lower bounds.
    at_least: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct PackedSlice {
    ok: u64,
    failed: u64,
    bytes_in: u64,
    times: Vec<(u64, u64)>,
}

/// Half seconds in a week: no series is longer.
const MOST_SLICES: usize = 2 * 86_400 * 7;

impl Packed {
    /// All of a delta.
    pub fn of(delta: &Delta) -> Packed {
        let mut slices = delta.series.numbered().peekable();
        let first_slice = slices.peek().map_or(0, |(number, _)| *number as u32);
        Packed {
            span: delta.span.map(|(begin, end)| (begin.0, end.0)),
            counts: delta.counts().to_vec(),
            outcomes: delta.outcomes.happened().collect(),
            statuses: delta.statuses.iter().collect(),
            times: delta.all_times().map(Times::of).collect(),
            first_slice,
            slices: slices.map(|(_, slice)| PackedSlice::of(slice)).collect(),
        }
    }

    /// Adds it to a delta.
    pub fn add_to(&self, delta: &mut Delta) {
        if let Some((begin, end)) = self.span {
            let (begin, end) = (Nanos(begin), Nanos(end));
            let before = delta.span.unwrap_or((begin, end));
            delta.span = Some((before.0.min(begin), before.1.max(end)));
        }
        for (count, more) in delta.counts_mut().into_iter().zip(&self.counts) {
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
        let first = self.first_slice as usize;
        if first + self.slices.len() <= MOST_SLICES {
            let slices = self.slices.iter().map(PackedSlice::unpacked).collect();
            delta.series.merge(&Series::of(first, slices));
        }
    }
}

impl Times {
    fn of(times: &Distribution) -> Times {
        let packed = |(time, count): (Nanos, u64)| (time.0, count);
        Times {
            known: times.buckets().map(packed).collect(),
            at_least: times.buckets_at_least().map(packed).collect(),
        }
    }

    fn add_to(&self, times: &mut Distribution) {
        for &(time, count) in &self.known {
            times.record_many(Nanos(time), count);
        }
        for &(time, count) in &self.at_least {
            times.record_many_at_least(Nanos(time), count);
        }
    }
}

impl PackedSlice {
    fn of(slice: &SliceCounts) -> PackedSlice {
        PackedSlice {
            ok: slice.ok,
            failed: slice.failed,
            bytes_in: slice.bytes_in,
            times: slice.times.iter().map(|&(time, n)| (time.0, n)).collect(),
        }
    }

    fn unpacked(&self) -> SliceCounts {
        SliceCounts {
            ok: self.ok,
            failed: self.failed,
            bytes_in: self.bytes_in,
            times: self
                .times
                .iter()
                .map(|&(time, n)| (Nanos(time), n))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_added_up_without_a_panic() {
        let slice = PackedSlice {
            ok: u64::MAX,
            times: vec![(u64::MAX, u64::MAX), (0, 1), (0, u64::MAX)],
            ..PackedSlice::default()
        };
        let mut nonsense = Packed {
            span: Some((u64::MAX, 0)),
            counts: vec![u64::MAX; 30],
            outcomes: vec![(Outcome::Ok, u64::MAX), (Outcome::Ok, u64::MAX)],
            statuses: vec![(u16::MAX, u64::MAX), (999, u64::MAX)],
            times: vec![
                Times {
                    known: vec![(u64::MAX, u64::MAX), (0, 7)],
                    at_least: vec![(u64::MAX, u64::MAX), (0, 7)],
                };
                30
            ],
            first_slice: 3,
            slices: vec![slice; 2],
        };
        let mut delta = Delta::default();
        nonsense.add_to(&mut delta);
        nonsense.add_to(&mut delta);
        nonsense.first_slice = u32::MAX;
        nonsense.add_to(&mut delta);
        assert_eq!(delta.bytes_in, u64::MAX);
        assert_eq!(delta.length(), Nanos::ZERO);
        assert_eq!(delta.slices().count(), 2);
        assert!(delta.response_time.summary().max > 0.0);
    }
}
