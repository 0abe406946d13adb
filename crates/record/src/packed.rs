//! A delta on its way to another machine: what is not zero in it, and nothing else.

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::series::{Series, SliceCounts};
use crate::{Delta, Nanos, Outcome};

/// A [`Delta`] in as few numbers as it takes. Packed and added up elsewhere it is the same, to the last
/// bucket.
///
/// Whatever comes from elsewhere may be nonsense: [`Packed::add_to`] takes no numbers that no stretch of
/// a load can have, and no more memory than there is in what came.
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

/// A number in a packed delta can't be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Implausible;

impl std::fmt::Display for Implausible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a count of what was recorded is beyond anything that can have happened")
    }
}

impl std::error::Error for Implausible {}

/// Half seconds in a week: no series is longer.
const MOST_SLICES: usize = 2 * 86_400 * 7;
/// More requests, or bytes, than any stretch of a load can have: thousands of such deltas can still be
/// added up.
const MOST: u64 = 1 << 50;

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

    /// Adds it to a delta; nothing of it, where a number in it is beyond anything that can have been
    /// counted.
    ///
    /// # Errors
    ///
    /// [`Implausible`].
    pub fn add_to(&self, delta: &mut Delta) -> Result<(), Implausible> {
        match self.is_plausible() {
            true => self.add_all_to(delta),
            false => return Err(Implausible),
        }
        Ok(())
    }

    /// The same in pieces, of which each has up to so many buckets of distributions, 1 at least: for
    /// ways that carry only messages of a limited length. All pieces add up to what was split.
    pub fn split(mut self, most: usize) -> Vec<Packed> {
        let distributions = std::mem::take(&mut self.times);
        let mut pieces = vec![self];
        let mut room = most.max(1);
        for (place, times) in distributions.into_iter().enumerate() {
            for (is_known, mut buckets) in [(true, times.known), (false, times.at_least)] {
                while !buckets.is_empty() {
                    if room == 0 {
                        pieces.push(Packed::default());
                        room = most.max(1);
                    }
                    let rest = buckets.split_off(room.min(buckets.len()));
                    room -= buckets.len();
                    if let Some(piece) = pieces.last_mut() {
                        piece.put(place, is_known, buckets);
                    }
                    buckets = rest;
                }
            }
        }
        pieces
    }

    /// Buckets of the distribution at this place.
    fn put(&mut self, place: usize, is_known: bool, buckets: Vec<(u64, u64)>) {
        if self.times.len() <= place {
            self.times.resize_with(place + 1, Times::default);
        }
        match is_known {
            true => self.times[place].known = buckets,
            false => self.times[place].at_least = buckets,
        }
    }

    fn is_plausible(&self) -> bool {
        let few = |count: &u64| *count < MOST;
        let few_of_each = |times: &[(u64, u64)]| times.iter().all(|(_, count)| few(count));
        let last_slice = self.first_slice as usize + self.slices.len();
        self.counts.iter().all(few)
            && self.outcomes.iter().all(|(_, count)| few(count))
            && self.statuses.iter().all(|(_, count)| few(count))
            && self
                .times
                .iter()
                .all(|times| few_of_each(&times.known) && few_of_each(&times.at_least))
            && self.slices.iter().all(|slice| {
                [slice.ok, slice.failed, slice.bytes_in].iter().all(few)
                    && few_of_each(&slice.times)
            })
            && last_slice <= MOST_SLICES
    }

    fn add_all_to(&self, delta: &mut Delta) {
        if let Some((begin, end)) = self.span {
            let (begin, end) = (Nanos(begin), Nanos(end));
            let before = delta.span.unwrap_or((begin, end));
            delta.span = Some((before.0.min(begin), before.1.max(end)));
        }
        for (count, more) in delta.counts_mut().into_iter().zip(&self.counts) {
            *count += more;
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
        let slices = self.slices.iter().map(PackedSlice::unpacked).collect();
        let series = Series::of(self.first_slice as usize, slices);
        delta.series.merge(&series);
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

    fn refused(change: impl Fn(&mut Packed)) {
        let mut packed = Packed {
            times: vec![Times::default(); 8],
            slices: vec![PackedSlice::default()],
            ..Packed::default()
        };
        let mut delta = Delta::default();
        packed.add_to(&mut delta).unwrap();
        change(&mut packed);
        let before = delta.clone();
        assert_eq!(packed.add_to(&mut delta), Err(Implausible));
        assert_eq!(delta, before);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_whole() {
        refused(|it| it.counts = vec![u64::MAX; 30]);
        refused(|it| it.outcomes = vec![(Outcome::Ok, u64::MAX)]);
        refused(|it| it.statuses = vec![(200, 1 << 50)]);
        refused(|it| it.times[7].known = vec![(1, 1), (2, u64::MAX)]);
        refused(|it| it.times[0].at_least = vec![(1, u64::MAX)]);
        refused(|it| it.slices[0].bytes_in = u64::MAX);
        refused(|it| it.slices[0].times = vec![(0, u64::MAX)]);
        refused(|it| it.first_slice = u32::MAX);
    }

    #[test]
    fn pieces_add_up_to_what_was_split() {
        let mut whole = Delta {
            started: 7,
            ..Delta::default()
        };
        for n in 1..2_000u64 {
            whole.response_time.record(Nanos(n * 1_000));
            whole.first_byte.record(Nanos(n * 3_000));
            whole.tls_time.record_at_least(Nanos(n * n));
        }
        let packed = Packed::of(&whole);
        for (most, count) in [(0, None), (7, None), (1_000, None), (100_000, Some(1))] {
            let pieces = packed.clone().split(most);
            assert!(count.is_none_or(|count| pieces.len() == count));
            let mut sum = Delta::default();
            for piece in pieces.iter().rev() {
                let buckets = piece.times.iter();
                let buckets: usize = buckets.map(|it| it.known.len() + it.at_least.len()).sum();
                assert!(buckets <= most.max(1));
                piece.add_to(&mut sum).unwrap();
            }
            assert!(sum == whole, "{most}");
        }
        assert_eq!(Packed::default().split(1), [Packed::default()]);
    }

    #[test]
    fn what_is_only_odd_is_added_up_without_a_panic() {
        let odd = Packed {
            span: Some((u64::MAX, 0)),
            counts: vec![1; 30],
            statuses: vec![(u16::MAX, 1)],
            times: vec![
                Times {
                    known: vec![(u64::MAX, 3), (0, 7), (0, 7)],
                    at_least: vec![(u64::MAX, 3)],
                };
                30
            ],
            ..Packed::default()
        };
        let mut delta = Delta::default();
        odd.add_to(&mut delta).unwrap();
        odd.add_to(&mut delta).unwrap();
        assert_eq!(delta.length(), Nanos::ZERO);
        assert_eq!(delta.response_time.count(), 40);
        assert!(delta.response_time.summary().max > 0.0);
    }
}
