//! How a packed delta is written: bits in base64.
//!
//! Most of it are buckets. A list of them is how many there are, and for each how many buckets lie
//! between it and the one before and how often it was hit, less 1: mostly 0 and 0, so that a bucket takes
//! a few bits. What is there already is not written again: a distribution that is the same as an earlier
//! one is its distance to it, and the times of the last slice are what the other slices left of the
//! response times, where they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

use super::bits::{Reader, Writer};
use super::{BUCKETS, Bucket, DISTRIBUTIONS, Packed, PackedSlice, Times};
use crate::Outcome;
use crate::series::coarse_bucket;
use crate::tally::start_of;

pub(super) fn write(packed: &Packed) -> String {
    let mut to = Writer::default();
    to.flag(packed.span.is_some());
    if let Some((begin, end)) = packed.span {
        to.number(begin);
        to.number(end);
    }
    packed.counts.iter().for_each(|&count| to.number(count));
    let outcomes = packed.outcomes.iter();
    let outcomes: Vec<Bucket> = outcomes.map(|&(it, n)| (it as u32, n)).collect();
    write_list(&mut to, &outcomes);
    let statuses = packed.statuses.iter();
    let statuses: Vec<Bucket> = statuses.map(|&(it, n)| (it.into(), n)).collect();
    write_list(&mut to, &statuses);
    to.number(packed.times.len() as u64);
    for (place, times) in packed.times.iter().enumerate() {
        let before = packed.times[..place].iter().rev();
        let same = before.zip(1..).find(|(other, _)| *other == times);
        to.number(same.map_or(0, |(_, distance)| distance));
        if same.is_none() {
            write_list(&mut to, &times.known);
            write_list(&mut to, &times.at_least);
        }
    }
    write_slices(&mut to, packed);
    BASE64.encode(to.into_bytes())
}

fn write_slices(to: &mut Writer, packed: &Packed) {
    to.number(packed.slices.len() as u64);
    let Some((last, before)) = packed.slices.split_last() else {
        return;
    };
    to.number(packed.first_slice.into());
    for slice in &packed.slices {
        to.number(slice.ok);
        to.number(slice.failed);
        to.number(slice.bytes_in);
    }
    for slice in before {
        write_list(to, &slice.times);
    }
    let is_rest = rest(&packed.times, before).is_some_and(|rest| rest == last.times);
    to.flag(is_rest);
    if !is_rest {
        write_list(to, &last.times);
    }
}

fn write_list(to: &mut Writer, buckets: &[Bucket]) {
    to.number(buckets.len() as u64);
    let mut next = 0;
    for &(bucket, count) in buckets {
        // Lists go upwards, and have no empty buckets.
        to.number(bucket.wrapping_sub(next).into());
        to.number(count.wrapping_sub(1));
        next = bucket.wrapping_add(1);
    }
}

/// What was written, or none where it is something else. It takes no more memory than the longest
/// distributions that there are, and otherwise so much for each bit.
pub(super) fn read(text: &str) -> Option<Packed> {
    let bytes = BASE64.decode(text).ok()?;
    let mut from = Reader::new(&bytes);
    let mut packed = Packed::default();
    if from.flag()? {
        packed.span = Some((from.number()?, from.number()?));
    }
    for count in &mut packed.counts {
        *count = from.number()?;
    }
    for (number, count) in read_list(&mut from, Outcome::ALL.len())? {
        packed
            .outcomes
            .push((*Outcome::ALL.get(number as usize)?, count));
    }
    for (status, count) in read_list(&mut from, 1 << u16::BITS)? {
        packed.statuses.push((u16::try_from(status).ok()?, count));
    }
    let distributions = from.number()?;
    for place in 0..usize::try_from(distributions).ok()? {
        if place >= DISTRIBUTIONS {
            return None;
        }
        let times = match usize::try_from(from.number()?).ok()? {
            0 => Times {
                known: read_list(&mut from, BUCKETS)?,
                at_least: read_list(&mut from, BUCKETS)?,
            },
            distance => packed.times.get(place.checked_sub(distance)?)?.clone(),
        };
        packed.times.push(times);
    }
    read_slices(&mut from, &mut packed)?;
    from.is_at_end().then_some(packed)
}

fn read_slices(from: &mut Reader<'_>, packed: &mut Packed) -> Option<()> {
    let slices = from.number()?;
    if slices == 0 {
        return Some(());
    }
    packed.first_slice = u32::try_from(from.number()?).ok()?;
    for _ in 0..slices {
        packed.slices.push(PackedSlice {
            ok: from.number()?,
            failed: from.number()?,
            bytes_in: from.number()?,
            times: Vec::new(),
        });
    }
    let (last, before) = packed.slices.split_last_mut()?;
    for slice in &mut *before {
        slice.times = read_list(from, COARSE_BUCKETS)?;
    }
    last.times = match from.flag()? {
        true => rest(&packed.times, before)?,
        false => read_list(from, COARSE_BUCKETS)?,
    };
    Some(())
}

const COARSE_BUCKETS: usize = coarse_bucket(u64::MAX) as usize + 1;

/// A list whose buckets are below this number.
fn read_list(from: &mut Reader<'_>, below: usize) -> Option<Vec<Bucket>> {
    let length = from.number()?;
    // Each takes two bits at least, whatever the length says.
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

/// What the response times hold that these slices don't, in the buckets of slices; none where they hold
/// less.
fn rest(times: &[Times], slices: &[PackedSlice]) -> Option<Vec<Bucket>> {
    let mut rest: Vec<Bucket> = Vec::new();
    for &(bucket, count) in &times.first()?.known {
        let bucket = coarse_bucket(start_of(bucket as usize).0);
        match rest.last_mut() {
            Some((last, sum)) if *last == bucket => *sum = sum.checked_add(count)?,
            _ => rest.push((bucket, count)),
        }
    }
    for (bucket, count) in slices.iter().flat_map(|slice| &slice.times) {
        let place = rest.binary_search_by_key(bucket, |it| it.0).ok()?;
        rest[place].1 = rest[place].1.checked_sub(*count)?;
    }
    rest.retain(|(_, count)| *count > 0);
    Some(rest)
}
