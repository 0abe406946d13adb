//! Sample results of the entries of a list.

use prony_record::{
    Distribution, EntryGrouping, EntryResult, EntryResults, Nanos, Outcome, Record,
};

/// Number of entries that are combined.
const OTHERS: u64 = 4;
/// Response times of an entry as multiples of its median, with their relative frequencies.
const SPREAD: [(f64, u64); 6] = [
    (0.7, 20),
    (0.9, 25),
    (1.0, 30),
    (1.4, 18),
    (2.1, 5),
    (3.4, 2),
];

/// Divides the requests of a record among entries; `None` without entries.
pub(super) fn of_trial(
    entries: &[(&'static str, f64, f64, f64, f64)],
    record: &Record,
    is_new: bool,
) -> Option<EntryResults> {
    if entries.is_empty() {
        return None;
    }
    let (ok, failed) = (record.totals.ok, record.totals.failed);
    let elapsed_s = record.totals.elapsed_s;
    let each_ok = ok / (entries.len() as u64 + 1);
    let mut rest_failed = failed;
    let each: Vec<EntryResult> = entries
        .iter()
        .map(|&(name, p50_us, factor, old, new)| {
            let part = if is_new { new } else { old };
            let own_failed = ((failed as f64 * part) as u64).min(rest_failed);
            rest_failed -= own_failed;
            let p50_us = p50_us * if is_new { factor } else { 1.0 };
            entry(name, (each_ok, own_failed), p50_us, elapsed_s)
        })
        .collect();
    let rest_ok = ok - each_ok * entries.len() as u64;
    let other = entry("other", (rest_ok, rest_failed), 400.0, elapsed_s);
    Some(EntryResults {
        grouping: EntryGrouping::Path,
        count: entries.len() as u64 + OTHERS,
        each,
        other: Some(other),
    })
}

fn entry(name: &str, (ok, failed): (u64, u64), p50_us: f64, elapsed_s: f64) -> EntryResult {
    let mut times = Distribution::new();
    let all: u64 = SPREAD.iter().map(|(_, part)| part).sum();
    let mut left = ok;
    for (factor, part) in SPREAD {
        let count = (ok * part / all).min(left);
        left -= count;
        times.record_many(Nanos((p50_us * factor * 1e3) as u64), count);
    }
    times.record_many(Nanos((p50_us * 1e3) as u64), left);
    let outcomes = [(Outcome::Ok, ok), (Outcome::UnexpectedStatus, failed)];
    EntryResult {
        name: name.to_owned(),
        lines: 1,
        started: ok + failed,
        ok,
        failed,
        outcomes: outcomes
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect(),
        ok_per_s: ok as f64 / elapsed_s,
        bytes_in: ok * 1_213,
        bytes_out: (ok + failed) * 74,
        response_time_us: times.summary(),
        histogram: times.encode(),
        ..EntryResult::default()
    }
}
