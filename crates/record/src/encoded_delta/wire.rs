//! The serialization of an encoded delta: a bit stream in base64.
//!
//! Most of the stream consists of buckets. A list of buckets is written as its length and, for each
//! bucket, the number of empty buckets before it and its count minus 1. Both are mostly 0, so a
//! bucket takes only a few bits. Duplicate data are avoided: a distribution that equals an earlier
//! one is written as the distance to it, and the times of the last half second are usually omitted,
//! because they equal the response times minus the times of the other half seconds.
//!
//! HDR V2 with deflate has a similar size (`examples/message_cost.rs` prints both). It is not used
//! for two reasons: each decoded histogram is dense and takes 300 KB for each of ten
//! distributions, and the header and the compression allow a short hostile message to claim a large
//! amount of memory.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

use super::bits::{BitReader, BitWriter};
use super::numbers::{
    BUCKETS, DISTRIBUTIONS, EncodedDelta, EncodedHalfSecond, EncodedOtherCounts, EncodedTimes,
};
use crate::buckets::BucketCount;
use crate::entries::TIME_BUCKETS;
use crate::fast_histogram::start_of;
use crate::series::coarse_bucket;
use crate::{ENTRIES_MAX, EntryDelta, Outcome};

pub(super) fn write_delta(encoded: &EncodedDelta) -> String {
    let mut to = BitWriter::default();
    to.flag(encoded.span.is_some());
    if let Some((begin, end)) = encoded.span {
        to.number(begin);
        to.number(end);
    }
    let counts = encoded.counts.iter().chain(&encoded.events);
    counts.for_each(|&count| to.number(count));
    let outcomes = encoded.outcomes.iter();
    let outcomes: Vec<BucketCount> = outcomes.map(|&(it, n)| (it.index() as u32, n)).collect();
    write_list(&mut to, &outcomes);
    let statuses = encoded.statuses.iter();
    let statuses: Vec<BucketCount> = statuses.map(|&(it, n)| (it.into(), n)).collect();
    write_list(&mut to, &statuses);
    to.number(encoded.times.len() as u64);
    for (place, times) in encoded.times.iter().enumerate() {
        let before = encoded.times[..place].iter().rev();
        let same = before.zip(1..).find(|(other, _)| *other == times);
        to.number(same.map_or(0, |(_, distance)| distance));
        if same.is_none() {
            write_list(&mut to, &times.known);
            write_list(&mut to, &times.at_least);
        }
    }
    write_slices(&mut to, encoded);
    write_entries(&mut to, &encoded.entries);
    BASE64.encode(to.into_bytes())
}

fn write_slices(to: &mut BitWriter, encoded: &EncodedDelta) {
    to.number(encoded.half_seconds.len() as u64);
    let Some((last, before)) = encoded.half_seconds.split_last() else {
        return;
    };
    to.number(encoded.first_half_second.into());
    for half_second in &encoded.half_seconds {
        to.number(half_second.ok);
        to.number(half_second.failed);
        to.number(half_second.bytes_in);
        to.flag(half_second.other.is_some());
        if let Some(other) = &half_second.other {
            other.counts.iter().for_each(|&count| to.number(count));
            other.times.iter().for_each(|times| write_list(to, times));
        }
    }
    for half_second in before {
        write_list(to, &half_second.times);
    }
    let is_rest =
        last_half_second_times(&encoded.times, before).is_some_and(|rest| rest == last.times);
    to.flag(is_rest);
    if !is_rest {
        write_list(to, &last.times);
    }
}

fn write_entries(to: &mut BitWriter, entries: &[EntryDelta]) {
    to.number(entries.len() as u64);
    for entry in entries {
        entry.counts().iter().for_each(|&count| to.number(count));
        let outcomes = entry.outcomes.happened();
        let outcomes: Vec<BucketCount> = outcomes.map(|(it, n)| (it.index() as u32, n)).collect();
        write_list(to, &outcomes);
        write_list(to, &entry.times.known);
        write_list(to, &entry.times.at_least);
    }
}

fn write_list(to: &mut BitWriter, buckets: &[BucketCount]) {
    to.number(buckets.len() as u64);
    let mut next = 0;
    for &(bucket, count) in buckets {
        // The list is sorted and has no empty buckets, so both differences are at least zero.
        to.number(bucket.wrapping_sub(next).into());
        to.number(count.wrapping_sub(1));
        next = bucket.wrapping_add(1);
    }
}

/// Parses a serialized delta. Returns `None` if it is invalid. Memory is bounded by the length of
/// the text and the size of the largest distributions.
pub(super) fn read_delta(text: &str) -> Option<EncodedDelta> {
    let bytes = BASE64.decode(text).ok()?;
    let mut from = BitReader::new(&bytes);
    let mut encoded = EncodedDelta::default();
    if from.flag()? {
        encoded.span = Some((from.number()?, from.number()?));
    }
    for count in encoded.counts.iter_mut().chain(&mut encoded.events) {
        *count = from.number()?;
    }
    encoded.outcomes = read_outcomes(&mut from)?;
    for (status, count) in read_list(&mut from, 1 << u16::BITS)? {
        encoded.statuses.push((u16::try_from(status).ok()?, count));
    }
    let distributions = from.number()?;
    for place in 0..usize::try_from(distributions).ok()? {
        if place >= DISTRIBUTIONS {
            return None;
        }
        let times = match usize::try_from(from.number()?).ok()? {
            0 => EncodedTimes {
                known: read_list(&mut from, BUCKETS)?,
                at_least: read_list(&mut from, BUCKETS)?,
            },
            distance => encoded.times.get(place.checked_sub(distance)?)?.clone(),
        };
        encoded.times.push(times);
    }
    read_slices(&mut from, &mut encoded)?;
    encoded.entries = read_entries(&mut from)?;
    from.is_at_end().then_some(encoded)
}

fn read_outcomes(from: &mut BitReader<'_>) -> Option<Vec<(Outcome, u64)>> {
    let numbers = read_list(from, Outcome::ALL.len())?.into_iter();
    let outcomes = numbers.map(|(it, count)| Some((*Outcome::ALL.get(it as usize)?, count)));
    outcomes.collect()
}

fn read_entries(from: &mut BitReader<'_>) -> Option<Vec<EntryDelta>> {
    let length = usize::try_from(from.number()?).ok()?;
    // One additional entry combines all entries that have no results of their own.
    if length > ENTRIES_MAX + 1 {
        return None;
    }
    let mut entries = Vec::new();
    for _ in 0..length {
        let mut entry = EntryDelta::default();
        for count in entry.counts_mut() {
            *count = from.number()?;
        }
        for (outcome, count) in read_outcomes(from)? {
            entry.outcomes.add_many(outcome, count);
        }
        entry.times.known = read_list(from, TIME_BUCKETS)?;
        entry.times.at_least = read_list(from, TIME_BUCKETS)?;
        entries.push(entry);
    }
    Some(entries)
}

fn read_slices(from: &mut BitReader<'_>, encoded: &mut EncodedDelta) -> Option<()> {
    let half_seconds = from.number()?;
    if half_seconds == 0 {
        return Some(());
    }
    encoded.first_half_second = u32::try_from(from.number()?).ok()?;
    for _ in 0..half_seconds {
        let mut half_second = EncodedHalfSecond {
            ok: from.number()?,
            failed: from.number()?,
            bytes_in: from.number()?,
            ..EncodedHalfSecond::default()
        };
        if from.flag()? {
            let mut other = Box::<EncodedOtherCounts>::default();
            for count in &mut other.counts {
                *count = from.number()?;
            }
            for times in &mut other.times {
                *times = read_list(from, COARSE_BUCKETS)?;
            }
            half_second.other = Some(other);
        }
        encoded.half_seconds.push(half_second);
    }
    let (last, before) = encoded.half_seconds.split_last_mut()?;
    for half_second in &mut *before {
        half_second.times = read_list(from, COARSE_BUCKETS)?;
    }
    last.times = if from.flag()? {
        last_half_second_times(&encoded.times, before)?
    } else {
        read_list(from, COARSE_BUCKETS)?
    };
    Some(())
}

const COARSE_BUCKETS: usize = coarse_bucket(u64::MAX) as usize + 1;

/// Reads a list of buckets whose numbers are below `below`.
fn read_list(from: &mut BitReader<'_>, below: usize) -> Option<Vec<BucketCount>> {
    let length = from.number()?;
    // Each bucket takes at least two bits, which bounds the allocation if the length is wrong.
    let most = (from.left() / 2).min(below);
    let mut buckets = Vec::with_capacity(usize::try_from(length).map_or(most, |it| it.min(most)));
    let mut next = 0_u64;
    for _ in 0..length {
        let bucket = next.checked_add(from.number()?)?;
        if bucket >= below as u64 {
            return None;
        }
        buckets.push((bucket as u32, from.number()?.checked_add(1)?));
        next = bucket + 1;
    }
    Some(buckets)
}

/// Returns the response times minus the times of `half_seconds`, in coarse buckets. Returns `None`
/// if the half seconds contain times that are not among the response times.
fn last_half_second_times(
    times: &[EncodedTimes],
    half_seconds: &[EncodedHalfSecond],
) -> Option<Vec<BucketCount>> {
    let mut rest: Vec<BucketCount> = Vec::new();
    for &(bucket, count) in &times.first()?.known {
        let bucket = coarse_bucket(start_of(bucket as usize).0);
        match rest.last_mut() {
            Some((last, sum)) if *last == bucket => *sum = sum.checked_add(count)?,
            _ => rest.push((bucket, count)),
        }
    }
    for (bucket, count) in half_seconds
        .iter()
        .flat_map(|half_second| &half_second.times)
    {
        let index = rest.binary_search_by_key(bucket, |it| it.0).ok()?;
        rest[index].1 = rest[index].1.checked_sub(*count)?;
    }
    rest.retain(|(_, count)| *count > 0);
    Some(rest)
}
