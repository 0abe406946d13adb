//! Completions over time, for plotting scripts.

use prony_record::Record;

/// Returns the output of `prony load --timeline`: a JSON array of `[seconds, completions since the
/// last entry]` for each half second. Completions are successes. The last entry may cover less than
/// half a second.
pub fn timeline(record: &Record) -> String {
    let entries: Vec<(f64, u64)> = record.series.iter().map(|s| (s.t_s, s.ok)).collect();
    let lines: Vec<String> = entries
        .iter()
        .map(|(t_s, ok)| format!("[{t_s},{ok}]"))
        .collect();
    format!("[{}]\n", lines.join(",\n "))
}
