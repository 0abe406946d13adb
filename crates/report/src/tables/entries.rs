//! Tables of the entries of a list.

use prony_record::{EntryResult, EntryResults};
use prony_wording::load::time_at;

use crate::number;
use crate::table::Table;

/// Maximum number of rows for the entries with the largest share of failures.
const FAILING_MAX: usize = 3;

/// Returns at most `most` of the worst entries: those with the largest share of failures, then
/// those with the highest p99. The row of combined other entries is never included.
pub fn worst_entries(entries: &EntryResults, most: usize) -> Vec<&EntryResult> {
    let sent = entries.each.iter().filter(|it| it.is_sent());
    let rated = sent.map(|it| (it, (it.failed_share(), it.response_time_us.p99)));
    worst_first(rated.collect(), most)
}

/// Returns at most `most` of the worst rows: up to [`FAILING_MAX`] with the largest share of
/// failures, then those with the highest p99. Each row is given with these two values.
pub(super) fn worst_first<T>(mut rows: Vec<(T, (f64, f64))>, most: usize) -> Vec<T> {
    rows.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let failing = rows.iter().take_while(|(_, (share, _))| *share > 0.0);
    let failing = failing.count().min(FAILING_MAX).min(most);
    rows[failing..].sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    rows.truncate(most);
    rows.into_iter().map(|(row, _)| row).collect()
}

/// Builds a table with a row for each of the given entries.
pub(crate) fn entries_table<'a>(rows: impl IntoIterator<Item = &'a EntryResult>) -> Table {
    named_table("entry", rows)
}

/// Builds a table with a row for each step of a journey.
pub(crate) fn steps_table(steps: &EntryResults) -> Table {
    named_table("step", steps.rows())
}

fn named_table<'a>(heading: &str, rows: impl IntoIterator<Item = &'a EntryResult>) -> Table {
    Table::of(rows)
        .left(heading, |it| it.name.as_str())
        .right("requests", |it| number::count(it.started))
        .right("ok/s", |it| number::rate_figure(it.ok_per_s))
        .right("failed", failed)
        .right("p50", p50)
        .right("p99", p99)
        .build()
}

/// The median response time; `–` if no request finished.
pub(super) fn p50(row: &EntryResult) -> String {
    time(row, "p50", row.response_time_us.p50)
}

pub(super) fn p99(row: &EntryResult) -> String {
    time(row, "p99", row.response_time_us.p99)
}

fn time(row: &EntryResult, name: &str, us: f64) -> String {
    match row.response_time_us.max {
        max if max > 0.0 => time_at(&row.response_time_us, name, us),
        _ => "–".to_owned(),
    }
}

/// Formats the number of failed requests with their share.
pub(super) fn failed(row: &EntryResult) -> String {
    match row.failed {
        0 => "0".to_owned(),
        failed => format!(
            "{} ({})",
            number::count(failed),
            number::share(row.failed_share())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, ok: u64, failed: u64, p99: f64) -> EntryResult {
        let mut entry = EntryResult {
            name: name.to_owned(),
            started: ok + failed,
            ok,
            failed,
            ..EntryResult::default()
        };
        (entry.response_time_us.p99, entry.response_time_us.max) = (p99, p99);
        entry
    }

    #[test]
    fn failing_entries_come_first_and_leave_room_for_slow_ones() {
        let failing = (0..6).map(|n| entry(&format!("failing {n}"), 90 - n, 10 + n, 1.0));
        let slow = [
            entry("slow", 9, 0, 9_000.0),
            entry("slower", 9, 0, 19_000.0),
        ];
        let entries = EntryResults {
            each: failing
                .chain([entry("fast", 9, 0, 1.0)])
                .chain(slow)
                .chain([entry("unused", 0, 0, 0.0)])
                .collect(),
            other: Some(entry("other", 1, 99, 1e9)),
            ..EntryResults::default()
        };
        let names = |most| -> Vec<String> {
            let worst = worst_entries(&entries, most);
            worst.iter().map(|it| it.name.clone()).collect()
        };
        let expected = ["failing 5", "failing 4", "failing 3", "slower", "slow"];
        assert_eq!(names(5), expected);
        assert_eq!(names(1), ["failing 5"]);
        assert_eq!(names(100).len(), 9);
        assert!(names(0).is_empty());
    }

    #[test]
    fn a_row_shows_failures_with_their_share_and_no_time_that_was_not_measured() {
        let mut failing = entry("GET /a", 75, 25, 2_000.0);
        failing.response_time_us.p50 = 1_000.0;
        failing.response_time_us.at_least = vec!["p99".to_owned()];
        failing.ok_per_s = 7.5;
        let table = entries_table([&failing, &entry("GET /b", 0, 0, 0.0)]);
        let cells = |row: usize| -> Vec<String> {
            table.rows[row]
                .iter()
                .map(|it| it.main().to_owned())
                .collect()
        };
        let expected = ["GET /a", "100", "7.50", "25 (25%)", "1.00 ms", "≥ 2.00 ms"];
        assert_eq!(cells(0), expected);
        assert_eq!(cells(1)[3..], ["0", "–", "–"]);
    }
}
