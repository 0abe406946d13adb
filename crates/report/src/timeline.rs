//! Completions over time, the least that a plotting script needs.

use prony_record::Record;

/// What `prony load --timeline` writes: a JSON array of `[seconds, completions since the last]`,
/// one for each half second of the measured part. Completions are successes; the last entry may
/// span less than half a second.
pub fn timeline(record: &Record) -> String {
    let entries: Vec<(f64, u64)> = record.series.iter().map(|s| (s.t_s, s.ok)).collect();
    let lines: Vec<String> = entries
        .iter()
        .map(|(t_s, ok)| format!("[{t_s},{ok}]"))
        .collect();
    format!("[{}]\n", lines.join(",\n "))
}
