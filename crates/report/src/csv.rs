//! Figures for spreadsheets and scripts: plain numbers, units in the column names, no rounding.
//!
//! One load is one row for each half second ([`series`]); many loads are one row each ([`records`]).
//! Fields are quoted where they need it (RFC 4180), lines end with a line feed.

use prony_record::Record;

use crate::table::Table;

/// The series of one load, what `prony load --csv` writes: a row for each half second.
pub fn series(record: &Record) -> String {
    let headings = [
        "t_s", "ok", "failed", "ok_per_s", "bytes_in", "p50_us", "p99_us",
    ];
    let mut previous_s = 0.0;
    let rows = record.series.iter().map(|slice| {
        let length_s = slice.t_s - std::mem::replace(&mut previous_s, slice.t_s);
        let ok_per_s = if length_s > 0.0 {
            slice.ok as f64 / length_s
        } else {
            0.0
        };
        vec![
            slice.t_s.to_string(),
            slice.ok.to_string(),
            slice.failed.to_string(),
            ok_per_s.to_string(),
            slice.bytes_in.to_string(),
            slice.p50_us.to_string(),
            slice.p99_us.to_string(),
        ]
    });
    write(&headings, rows)
}

/// The columns that describe one record as a whole, with [`record_cells`] as their values.
const RECORD_HEADINGS: [&str; 18] = [
    "url",
    "model",
    "connections",
    "elapsed_s",
    "started",
    "ok",
    "failed",
    "unfinished",
    "unstarted",
    "ok_per_s",
    "bytes_in",
    "bytes_out",
    "response_p50_us",
    "response_p90_us",
    "response_p99_us",
    "response_p99_9_us",
    "response_max_us",
    "generator_cpu_s",
];

fn record_cells(record: &Record) -> Vec<String> {
    let (totals, times) = (&record.totals, &record.response_time_us);
    vec![
        record.load.url.clone(),
        record.load.model.clone(),
        record.load.connections.to_string(),
        totals.elapsed_s.to_string(),
        totals.started.to_string(),
        totals.ok.to_string(),
        totals.failed.to_string(),
        totals.unfinished.to_string(),
        totals.unstarted.to_string(),
        record.rate.ok_per_s.to_string(),
        totals.bytes_in.to_string(),
        totals.bytes_out.to_string(),
        times.p50.to_string(),
        times.p90.to_string(),
        times.p99.to_string(),
        times.p99_9.to_string(),
        times.max.to_string(),
        (record.generator.cpu_user_s + record.generator.cpu_system_s).to_string(),
    ]
}

/// One row for each record, with cells of the caller's choice (a trial's block and levels) before
/// it.
pub fn records<'a>(
    keys: &[&str],
    rows: impl IntoIterator<Item = (Vec<String>, &'a Record)>,
) -> String {
    let headings: Vec<&str> = keys.iter().copied().chain(RECORD_HEADINGS).collect();
    let rows = rows.into_iter().map(|(mut cells, record)| {
        cells.extend(record_cells(record));
        cells
    });
    write(&headings, rows)
}

/// A printed table, its texts as they are.
pub fn table(table: &Table) -> String {
    let headings: Vec<&str> = table.columns.iter().map(|(h, _)| h.as_str()).collect();
    write(&headings, table.rows.iter().cloned())
}

/// Headings and rows as CSV.
pub(crate) fn write(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = csv::WriterBuilder::new()
        .flexible(true)
        .from_writer(Vec::new());
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        // Writing to memory has no way to fail.
        let _ = out.write_record(cells);
    };
    line(&mut headings.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    let bytes = out.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_quotes_has_them() {
        let text = write(&["a", "b"], [vec!["x,\"y\"".into(), "-1.5".into()]]);
        assert_eq!(text, "a,b\n\"x,\"\"y\"\"\",-1.5\n");
    }
}
