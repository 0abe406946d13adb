//! Combined results of several loads of the same list.

use super::{EntryResult, EntryResults, SparseTimes};
use crate::Summary;

impl EntryResults {
    /// Combines the results of several loads. `loads` contains the results of each load and its
    /// measured time in seconds. Counts are added, rates refer to the total time, and times come
    /// from the merged histograms. If an entry lacks a histogram in one of the loads, the combined
    /// entry has no times. Returns `None` if the loads have different entries.
    pub fn pooled<'a>(
        loads: impl IntoIterator<Item = (&'a EntryResults, f64)>,
    ) -> Option<EntryResults> {
        let loads: Vec<(&EntryResults, f64)> = loads.into_iter().collect();
        let (&(first, _), rest) = loads.split_first()?;
        if !rest.iter().all(|(other, _)| is_same_list(first, other)) {
            return None;
        }
        let elapsed_s = loads.iter().map(|(_, elapsed_s)| elapsed_s).sum();
        let each = (0..first.each.len()).map(|number| {
            let rows = loads.iter().map(|(load, _)| &load.each[number]);
            pooled_row(rows.collect(), elapsed_s)
        });
        // The row `other` exists only in loads that sent requests of entries outside `each`.
        let other: Vec<&EntryResult> = loads.iter().filter_map(|it| it.0.other.as_ref()).collect();
        Some(EntryResults {
            grouping: first.grouping,
            count: first.count,
            each: each.collect(),
            other: (!other.is_empty()).then(|| pooled_row(other, elapsed_s)),
        })
    }
}

fn is_same_list(one: &EntryResults, other: &EntryResults) -> bool {
    let names = |of: &EntryResults| -> Vec<String> {
        of.each.iter().map(|entry| entry.name.clone()).collect()
    };
    one.grouping == other.grouping && one.count == other.count && names(one) == names(other)
}

/// Combines the results of the same entry in several loads.
fn pooled_row(rows: Vec<&EntryResult>, elapsed_s: f64) -> EntryResult {
    let mut pooled = EntryResult::default();
    let mut times = Some(SparseTimes::default());
    for row in rows {
        pooled.name.clone_from(&row.name);
        pooled.lines = row.lines;
        for (mine, theirs) in [
            (&mut pooled.started, row.started),
            (&mut pooled.ok, row.ok),
            (&mut pooled.failed, row.failed),
            (&mut pooled.unfinished, row.unfinished),
            (&mut pooled.unstarted, row.unstarted),
            (&mut pooled.bytes_in, row.bytes_in),
            (&mut pooled.bytes_out, row.bytes_out),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        for (outcome, count) in &row.outcomes {
            let all = pooled.outcomes.entry(*outcome).or_default();
            *all = all.saturating_add(*count);
        }
        times = times.zip(row.times()).map(|(mut all, row)| {
            all.merge(&row);
            all
        });
    }
    if elapsed_s > 0.0 {
        pooled.ok_per_s = pooled.ok as f64 / elapsed_s;
    }
    pooled.response_time_us = times.map_or_else(Summary::default, |times| times.summary());
    pooled
}
