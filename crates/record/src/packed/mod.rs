//! A delta on its way to another machine: what is not zero in it, and nothing else.

mod bits;
mod wire;

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::delta::ended;
use crate::distribution::{Distribution, LONGEST_NS};
use crate::series::{Series, SliceCounts, coarse_bucket, coarse_time};
use crate::tally::{bucket_of, start_of};
use crate::{Delta, Nanos, Outcome, OutcomeCounts};

/// A [`Delta`] in as few numbers as it takes, and in as few bytes where it is written: one text of
/// base64. Packed, written, read and added up elsewhere it is the same, to the last bucket.
///
/// Whatever comes from elsewhere may be nonsense: what is read takes no more memory than there is in what
/// came, and [`Packed::add_to`] takes no numbers that no stretch of a load can have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packed {
    span: Option<(u64, u64)>,
    counts: [u64; 9],
    outcomes: Vec<(Outcome, u64)>,
    statuses: Vec<(u16, u64)>,
    times: Vec<Times>,
    first_slice: u32,
    slices: Vec<PackedSlice>,
}

/// A bucket's number, and how often it was hit. Lists of them go upwards and hold no empty ones.
type Bucket = (u32, u64);

/// How many distributions a delta has.
const DISTRIBUTIONS: usize = 8;
/// How many buckets a distribution has: they go on to the end of the octave of the longest time.
const BUCKETS: usize = bucket_of(LONGEST_NS.next_power_of_two() - 1) + 1;

/// A distribution: its buckets that are not empty, as [`bucket_of`] numbers them.
#[derive(Debug, Clone, PartialEq, Default)]
struct Times {
    known: Vec<Bucket>,
    /// Those that are lower bounds.
    at_least: Vec<Bucket>,
}

/// A slice, its times as [`coarse_bucket`] numbers them.
#[derive(Debug, Clone, PartialEq, Default)]
struct PackedSlice {
    ok: u64,
    failed: u64,
    bytes_in: u64,
    times: Vec<Bucket>,
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&wire::write(self))
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Packed, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        wire::read(&text).ok_or_else(|| D::Error::custom("no packed counts"))
    }
}

/// What packed deltas count, without their times: those of many agents by themselves would take megabytes
/// each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counted {
    /// As [`Delta::span`].
    pub span: Option<(Nanos, Nanos)>,
    /// As [`Delta::started`].
    pub started: u64,
    /// As [`Delta::unmeasured`].
    pub unmeasured: u64,
    /// As [`Delta::outcomes`].
    pub outcomes: OutcomeCounts,
}

impl Counted {
    /// As [`Delta::ended`].
    pub fn ended(&self) -> u64 {
        ended(self.unmeasured, &self.outcomes)
    }

    /// As [`Delta::in_flight`].
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended())
    }
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
            counts: delta.counts(),
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

    /// Adds its counts alone; what is not plausible of it must not be added.
    pub fn count_into(&self, counted: &mut Counted) {
        counted.span = self.span_with(counted.span);
        let [started, unmeasured, ..] = self.counts;
        counted.started = counted.started.saturating_add(started);
        counted.unmeasured = counted.unmeasured.saturating_add(unmeasured);
        for &(outcome, more) in &self.outcomes {
            counted.outcomes.add_many(outcome, more);
        }
    }

    /// The stretch from the earlier begin to the later end.
    fn span_with(&self, other: Option<(Nanos, Nanos)>) -> Option<(Nanos, Nanos)> {
        let Some((begin, end)) = self.span else {
            return other;
        };
        let (begin, end) = (Nanos(begin), Nanos(end));
        let other = other.unwrap_or((begin, end));
        Some((other.0.min(begin), other.1.max(end)))
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
    fn put(&mut self, place: usize, is_known: bool, buckets: Vec<Bucket>) {
        if self.times.len() <= place {
            self.times.resize_with(place + 1, Times::default);
        }
        match is_known {
            true => self.times[place].known = buckets,
            false => self.times[place].at_least = buckets,
        }
    }

    /// The number of half seconds from the begin of the measured part to the end of the last one in it;
    /// 0 where it holds none.
    pub fn slices(&self) -> usize {
        match self.slices.len() {
            0 => 0,
            count => (self.first_slice as usize).saturating_add(count),
        }
    }

    /// The end of the stretch, since the load's start, in nanoseconds; 0 where it has none.
    pub fn latest_ns(&self) -> u64 {
        self.span.map_or(0, |(begin, end)| begin.max(end))
    }

    fn is_plausible(&self) -> bool {
        let few = |count: &u64| *count < MOST;
        let few_of_each = |times: &[Bucket]| times.iter().all(|(_, count)| few(count));
        let last_slice = (self.first_slice as usize).saturating_add(self.slices.len());
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
        delta.span = self.span_with(delta.span);
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
        let slices = self.slices.iter().map(PackedSlice::unpacked).collect();
        let series = Series::of(self.first_slice as usize, slices);
        delta.series.merge(&series);
    }
}

impl Times {
    fn of(times: &Distribution) -> Times {
        let packed = |(time, count): (Nanos, u64)| (bucket_of(time.0) as u32, count);
        Times {
            known: times.buckets().map(packed).collect(),
            at_least: times.buckets_at_least().map(packed).collect(),
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

impl PackedSlice {
    fn of(slice: &SliceCounts) -> PackedSlice {
        let packed = |&(time, count): &(Nanos, u64)| (coarse_bucket(time.0), count);
        PackedSlice {
            ok: slice.ok,
            failed: slice.failed,
            bytes_in: slice.bytes_in,
            times: slice.times.iter().map(packed).collect(),
        }
    }

    fn unpacked(&self) -> SliceCounts {
        let unpacked = |&(bucket, count): &Bucket| (coarse_time(bucket), count);
        SliceCounts {
            ok: self.ok,
            failed: self.failed,
            bytes_in: self.bytes_in,
            times: self.times.iter().map(unpacked).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

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
        refused(|it| it.counts = [u64::MAX; 9]);
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
        let last = BUCKETS as u32 - 1;
        let odd = Packed {
            span: Some((u64::MAX, 0)),
            counts: [1; 9],
            statuses: vec![(u16::MAX, 1)],
            times: vec![
                Times {
                    known: vec![(0, 14), (last, 3)],
                    at_least: vec![(last, 3)],
                };
                DISTRIBUTIONS
            ],
            ..Packed::default()
        };
        let odd = written_and_read(&odd).unwrap();
        let mut delta = Delta::default();
        odd.add_to(&mut delta).unwrap();
        odd.add_to(&mut delta).unwrap();
        assert_eq!(delta.length(), Nanos::ZERO);
        assert_eq!(delta.response_time.count(), 40);
        assert!(delta.response_time.summary().max > 0.0);
    }

    fn written_and_read(packed: &Packed) -> Option<Packed> {
        let json = serde_json::to_string(packed).unwrap();
        serde_json::from_str(&json).ok()
    }

    /// Draws numbers.
    struct Random(ChaCha8Rng);

    impl Random {
        fn new(seed: u64) -> Random {
            Random(ChaCha8Rng::seed_from_u64(seed))
        }

        fn next(&mut self) -> u64 {
            self.0.random()
        }

        /// Of any size, small ones as often as large ones.
        fn up_to_bits(&mut self, bits: u64) -> u64 {
            let bits = self.next() % (bits + 1);
            self.next().checked_shr(64 - bits as u32).unwrap_or(0)
        }

        fn times(&mut self, times: &mut Distribution) {
            for _ in 0..self.up_to_bits(7) {
                let (time, count) = (Nanos(self.up_to_bits(64)), 1 + self.up_to_bits(40));
                match self.next() % 4 {
                    0 => times.record_many_at_least(time, count),
                    _ => times.record_many(time, count),
                }
            }
        }

        fn delta(&mut self) -> Delta {
            let mut delta = Delta::default();
            for count in delta.counts_mut() {
                *count = self.up_to_bits(49);
            }
            for &outcome in Outcome::ALL {
                delta.outcomes.add_many(outcome, self.up_to_bits(30) / 4);
            }
            for _ in 0..self.next() % 4 {
                let status = 100 + (self.next() % 500) as u16;
                delta.statuses.add_many(status, self.up_to_bits(40));
            }
            for times in delta.all_times_mut() {
                self.times(times);
            }
            if self.next().is_multiple_of(3) {
                delta.service_time = delta.response_time.clone();
            }
            let first = self.up_to_bits(20) as usize;
            let mut slices = vec![SliceCounts::default(); (self.next() % 4) as usize];
            for slice in &mut slices {
                slice.bytes_in = self.up_to_bits(49);
                let mut times = Distribution::new();
                self.times(&mut times);
                slice.keep_times(&times);
                // As recorders have it: what ends in a slice is among the response times.
                if first.is_multiple_of(2) {
                    delta.response_time.merge(&times);
                }
            }
            if !slices.is_empty() {
                delta.series = Series::of(first, slices);
                delta.span = Some((Nanos(self.up_to_bits(63)), Nanos(self.next())));
            }
            delta
        }
    }

    #[test]
    fn written_and_read_it_is_the_same_to_the_last_bucket() {
        for seed in 0..300 {
            let delta = Random::new(seed).delta();
            let packed = Packed::of(&delta);
            let read = written_and_read(&packed).unwrap();
            assert!(read == packed, "{seed}");
            let mut sum = Delta::default();
            read.add_to(&mut sum).unwrap();
            assert!(sum == delta, "{seed}");
            let mut counted = Counted::default();
            read.count_into(&mut counted);
            assert_eq!((counted.span, counted.ended()), (delta.span, delta.ended()));
            assert_eq!(counted.in_flight(), delta.in_flight());
            for piece in packed.split(50) {
                assert!(written_and_read(&piece).unwrap() == piece, "{seed}");
            }
        }
    }

    #[test]
    fn what_is_there_already_is_not_written_again() {
        let mut times = Distribution::new();
        Random::new(1).times(&mut times);
        let mut slice = SliceCounts::default();
        slice.keep_times(&times);
        let mut delta = Delta {
            response_time: times.clone(),
            ..Delta::default()
        };
        let length = |delta: &Delta| wire::write(&Packed::of(delta)).len();
        let once = length(&delta);
        delta.service_time = times.clone();
        delta.first_byte = times;
        delta.series = Series::of(0, vec![slice]);
        assert!(length(&delta) < once + 10, "{} {once}", length(&delta));
    }

    #[test]
    fn what_is_nonsense_is_an_error_or_adds_up_without_a_panic() {
        let mut random = Random::new(5);
        let (mut read, mut taken) = (0, 0);
        let mut sum = Delta::default();
        for round in 0..3_000 {
            // Some are all nonsense, and some begin well.
            let mut bits = match round % 3 {
                0 => Vec::new(),
                _ => BASE64
                    .decode(wire::write(&Packed::of(&random.delta())))
                    .unwrap(),
            };
            match round % 3 {
                0 => bits.extend((0..random.next() % 40).map(|_| random.next() as u8)),
                1 => bits.truncate(random.next() as usize % bits.len()),
                _ => {
                    let place = random.next() as usize % bits.len();
                    bits[place] ^= 1 << (random.next() % 8);
                }
            }
            let Some(packed) = wire::read(&BASE64.encode(bits)) else {
                continue;
            };
            read += 1;
            let buckets = packed.times.iter();
            let buckets: usize = buckets.map(|it| it.known.len() + it.at_least.len()).sum();
            assert!(buckets <= 2 * DISTRIBUTIONS * BUCKETS);
            taken += usize::from(packed.add_to(&mut sum).is_ok());
            sum.clear();
        }
        assert!(read > 100 && taken > 50, "{read} {taken}");
    }

    #[test]
    fn what_claims_to_be_long_takes_no_memory() {
        let mut list = bits::Writer::default();
        // No span, no counts; then a list of outcomes without end.
        list.flag(false);
        (0..9).for_each(|_| list.number(0));
        list.number(u64::MAX);
        assert_eq!(wire::read(&BASE64.encode(list.into_bytes())), None);
        for bad in ["", "=", "AAAA", "no base64", "\u{e4}"] {
            assert_eq!(wire::read(bad), None, "{bad}");
        }
        for bad in ["7", "null", "{}", "[1]", "\"\""] {
            assert!(serde_json::from_str::<Packed>(bad).is_err(), "{bad}");
        }
    }
}
