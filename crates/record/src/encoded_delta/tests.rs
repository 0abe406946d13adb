//! Checks that encoded deltas are decoded without loss, and that invalid input does no harm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::numbers::{BUCKETS, DISTRIBUTIONS};
use super::*;
use crate::Outcome;
use crate::delta::DELTA_COUNTS;
use crate::series::coarse_times;

fn refused(change: impl Fn(&mut EncodedDelta)) {
    let mut encoded = EncodedDelta {
        times: vec![EncodedTimes::default(); 9],
        half_seconds: vec![EncodedHalfSecond::default()],
        ..EncodedDelta::default()
    };
    let mut delta = Delta::default();
    encoded.add_to(&mut delta).unwrap();
    change(&mut encoded);
    let before = delta.clone();
    assert_eq!(encoded.add_to(&mut delta), Err(ImplausibleDelta));
    assert_eq!(delta, before);
}

#[test]
fn impossible_numbers_are_rejected_whole() {
    refused(|it| it.counts = [u64::MAX; DELTA_COUNTS]);
    refused(|it| it.events[5] = u64::MAX);
    refused(|it| it.outcomes = vec![(Outcome::Ok, u64::MAX)]);
    refused(|it| it.statuses = vec![(200, 1 << 50)]);
    refused(|it| it.times[7].known = vec![(1, 1), (2, u64::MAX)]);
    refused(|it| it.times[0].at_least = vec![(1, u64::MAX)]);
    refused(|it| it.half_seconds[0].bytes_in = u64::MAX);
    refused(|it| it.half_seconds[0].times = vec![(0, u64::MAX)]);
    refused(|it| it.first_half_second = u32::MAX);
    let entry = |started, known| EntryDelta {
        started,
        times: crate::SparseTimes {
            known,
            at_least: Vec::new(),
        },
        ..EntryDelta::default()
    };
    refused(|it| it.entries = vec![entry(0, vec![(1, u64::MAX)])]);
    refused(|it| it.entries = vec![entry(1, Vec::new())]);
    refused(|it| {
        it.counts[0] = u64::MAX;
        it.entries = vec![entry(u64::MAX, Vec::new())];
    });
    refused(|it| {
        it.outcomes = vec![(Outcome::Ok, 3)];
        it.entries = vec![entry(0, Vec::new())];
    });
}

#[test]
fn too_many_entries_are_not_read() {
    let mut encoded = EncodedDelta {
        entries: vec![EntryDelta::default(); crate::ENTRIES_MAX + 1],
        ..EncodedDelta::default()
    };
    assert!(written_and_read(&encoded).unwrap() == encoded);
    encoded.entries.push(EntryDelta::default());
    assert!(written_and_read(&encoded).is_none());
    encoded.entries = vec![EntryDelta::default()];
    encoded.entries[0].times.known = vec![(1 << 20, 1)];
    assert!(written_and_read(&encoded).is_none());
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
    let encoded = EncodedDelta::of(&whole);
    for (most, count) in [(0, None), (7, None), (1_000, None), (100_000, Some(1))] {
        let pieces = encoded.clone().split(most);
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
    assert_eq!(EncodedDelta::default().split(1), [EncodedDelta::default()]);
}

#[test]
fn odd_but_possible_numbers_are_added() {
    let last = BUCKETS as u32 - 1;
    let odd = EncodedDelta {
        span: Some((u64::MAX, 0)),
        counts: [1; DELTA_COUNTS],
        statuses: vec![(u16::MAX, 1)],
        times: vec![
            EncodedTimes {
                known: vec![(0, 14), (last, 3)],
                at_least: vec![(last, 3)],
            };
            DISTRIBUTIONS
        ],
        ..EncodedDelta::default()
    };
    let odd = written_and_read(&odd).unwrap();
    let mut delta = Delta::default();
    odd.add_to(&mut delta).unwrap();
    odd.add_to(&mut delta).unwrap();
    assert_eq!(delta.length(), Nanos::ZERO);
    assert_eq!(delta.response_time.count(), 40);
    assert!(delta.response_time.summary().max > 0.0);
}

fn written_and_read(encoded: &EncodedDelta) -> Option<EncodedDelta> {
    let json = serde_json::to_string(encoded).unwrap();
    serde_json::from_str(&json).ok()
}

/// Generator of random numbers with a fixed seed.
struct Random(ChaCha8Rng);

impl Random {
    fn new(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.random()
    }

    /// Returns a number with a random bit length, so that small numbers are as likely as large
    /// ones.
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

    /// Adds entries whose counts add up to the counts of the delta.
    fn entries(&mut self, delta: &mut Delta) {
        let mut sum = EntryDelta::default();
        let mut entries = vec![EntryDelta::default(); 1 + (self.next() % 9) as usize];
        for entry in &mut entries {
            for count in entry.counts_mut() {
                *count = self.up_to_bits(45);
            }
            entry.outcomes.add_many(Outcome::Ok, self.up_to_bits(30));
            entry.outcomes.add_many(Outcome::Reset, self.up_to_bits(3));
            entry.times.known = vec![(3, 1 + self.up_to_bits(40)), (4, 7), (900, 2)];
            entry.times.at_least = vec![(17, 1 + self.up_to_bits(40))];
            sum.merge_counts(entry);
        }
        (delta.started, delta.unmeasured) = (sum.started, sum.unmeasured);
        (delta.bytes_in, delta.bytes_out) = (sum.bytes_in, sum.bytes_out);
        delta.outcomes = sum.outcomes;
        delta.entries.merge_all(&entries);
    }

    fn delta(&mut self) -> Delta {
        let mut delta = Delta::default();
        for count in delta.counts_mut() {
            *count = self.up_to_bits(49);
        }
        for count in delta.events.counts_mut() {
            *count = self.up_to_bits(49);
        }
        for &outcome in Outcome::ALL {
            delta.outcomes.add_many(outcome, self.up_to_bits(30) / 4);
        }
        if self.next().is_multiple_of(3) {
            self.entries(&mut delta);
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
        let mut half_seconds = vec![HalfSecondCounts::default(); (self.next() % 4) as usize];
        for half_second in &mut half_seconds {
            half_second.bytes_in = self.up_to_bits(49);
            let mut times = Distribution::new();
            self.times(&mut times);
            half_second.times = coarse_times(&times);
            if self.next().is_multiple_of(2) {
                let other = half_second.other.get_or_insert_default();
                for count in other.counts_mut() {
                    *count = self.up_to_bits(49);
                }
                other.event_gaps.clone_from(&half_second.times);
            }
            // As in a recorder, the times of a half second are also among the delta's response
            // times.
            if first.is_multiple_of(2) {
                delta.response_time.merge(&times);
            }
        }
        if !half_seconds.is_empty() {
            delta.series = Series::of(first, half_seconds);
            delta.span = Some((Nanos(self.up_to_bits(63)), Nanos(self.next())));
        }
        delta
    }
}

#[test]
fn decoding_gives_the_same_buckets() {
    for seed in 0..300 {
        let delta = Random::new(seed).delta();
        let encoded = EncodedDelta::of(&delta);
        let read = written_and_read(&encoded).unwrap();
        assert!(read == encoded, "{seed}");
        let mut sum = Delta::default();
        read.add_to(&mut sum).unwrap();
        assert!(sum == delta, "{seed}");
        let mut counted = DeltaTotals::default();
        read.count_into(&mut counted);
        assert_eq!((counted.span, counted.ended()), (delta.span, delta.ended()));
        assert_eq!(counted.in_flight(), delta.in_flight());
        for piece in encoded.split(50) {
            assert!(written_and_read(&piece).unwrap() == piece, "{seed}");
        }
    }
}

#[test]
fn repeated_distributions_are_written_once() {
    let mut times = Distribution::new();
    Random::new(1).times(&mut times);
    let half_second = HalfSecondCounts {
        times: coarse_times(&times),
        ..HalfSecondCounts::default()
    };
    let mut delta = Delta {
        response_time: times.clone(),
        ..Delta::default()
    };
    let length = |delta: &Delta| wire::write_delta(&EncodedDelta::of(delta)).len();
    let once = length(&delta);
    delta.service_time = times.clone();
    delta.first_byte = times;
    delta.series = Series::of(0, vec![half_second]);
    assert!(length(&delta) < once + 10, "{} {once}", length(&delta));
}

#[test]
fn invalid_input_is_an_error_or_is_added_without_a_panic() {
    let mut random = Random::new(5);
    let (mut read, mut taken) = (0, 0);
    let mut sum = Delta::default();
    for round in 0..3_000 {
        // Some inputs are entirely random; others have a valid beginning.
        let mut bits = match round % 3 {
            0 => Vec::new(),
            _ => BASE64
                .decode(wire::write_delta(&EncodedDelta::of(&random.delta())))
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
        let Some(encoded) = wire::read_delta(&BASE64.encode(bits)) else {
            continue;
        };
        read += 1;
        let buckets = encoded.times.iter();
        let buckets: usize = buckets.map(|it| it.known.len() + it.at_least.len()).sum();
        assert!(buckets <= 2 * DISTRIBUTIONS * BUCKETS);
        taken += usize::from(encoded.add_to(&mut sum).is_ok());
        sum.clear();
    }
    assert!(read > 100 && taken > 50, "{read} {taken}");
}

#[test]
fn a_false_length_allocates_no_memory() {
    let mut list = bits::BitWriter::default();
    // The delta has no span and no counts, followed by an endless list of outcomes.
    list.flag(false);
    (0..9).for_each(|_| list.number(0));
    list.number(u64::MAX);
    assert_eq!(wire::read_delta(&BASE64.encode(list.into_bytes())), None);
    for bad in ["", "=", "AAAA", "no base64", "\u{e4}"] {
        assert_eq!(wire::read_delta(bad), None, "{bad}");
    }
    for bad in ["7", "null", "{}", "[1]", "\"\""] {
        assert!(serde_json::from_str::<EncodedDelta>(bad).is_err(), "{bad}");
    }
}
