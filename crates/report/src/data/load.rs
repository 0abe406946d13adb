//! The tables of one load.

use prony_record::{EntryResult, EntryResults, Record, Summary};

use super::{DataCell, DataTable};
use crate::text::severity_name;

/// All tables of a load.
pub fn load(record: &Record) -> Vec<DataTable> {
    let mut all = DataTable::new("loads", &[]);
    all.columns = record_columns();
    all.push(record_cells(record));
    let mut outcomes = DataTable::new("outcomes", &["outcome", "requests"]);
    for (outcome, count) in &record.outcomes {
        outcomes.push(vec![outcome.name().into(), (*count).into()]);
    }
    let mut statuses = DataTable::new("statuses", &["status", "requests"]);
    for (status, count) in &record.status {
        statuses.push(vec![u64::from(*status).into(), (*count).into()]);
    }
    let mut findings = DataTable::new("findings", &["severity", "id", "text"]);
    for finding in &record.findings {
        findings.push(vec![
            severity_name(finding.severity).into(),
            finding.id.as_str().into(),
            (&finding.text).into(),
        ]);
    }
    vec![
        all,
        series(record),
        outcomes,
        statuses,
        findings,
        times(record),
        entries(record),
    ]
}

/// A row for each entry of the list, and one for the other entries combined.
fn entries(record: &Record) -> DataTable {
    let mut entries = DataTable::new("entries", &ENTRY_COLUMNS);
    for row in record.entries.iter().flat_map(EntryResults::rows) {
        entries.push(entry_cells(row));
    }
    entries
}

/// The columns of [`entry_cells`].
pub(super) const ENTRY_COLUMNS: [&str; 16] = [
    "entry",
    "lines",
    "started",
    "ok",
    "failed",
    "unfinished",
    "unstarted",
    "ok_per_s",
    "bytes_in",
    "bytes_out",
    "mean_us",
    "p50_us",
    "p90_us",
    "p99_us",
    "max_us",
    "at_least",
];

pub(super) fn entry_cells(row: &EntryResult) -> Vec<DataCell> {
    let times = &row.response_time_us;
    let time = |us: f64| match times.max > 0.0 {
        true => DataCell::from(us),
        false => DataCell::Empty,
    };
    vec![
        (&row.name).into(),
        row.lines.into(),
        row.started.into(),
        row.ok.into(),
        row.failed.into(),
        row.unfinished.into(),
        row.unstarted.into(),
        row.ok_per_s.into(),
        row.bytes_in.into(),
        row.bytes_out.into(),
        time(times.mean),
        time(times.p50),
        time(times.p90),
        time(times.p99),
        time(times.max),
        DataCell::Text(times.at_least.join(" ")),
    ]
}

/// A row for each kind of time that was measured.
fn times(record: &Record) -> DataTable {
    let columns = [
        "time", "min_us", "mean_us", "p50_us", "p90_us", "p99_us", "p99_9_us", "max_us",
        "at_least", "p75_us", "p95_us", "stdev_us",
    ];
    let mut times = DataTable::new("times", &columns);
    for (name, summary) in [
        ("response", &record.response_time_us),
        ("service", &record.service_time_us),
        ("first_byte", &record.first_byte_us),
        ("connect", &record.connect_time_us),
        ("tls", &record.tls_time_us),
        ("late", &record.generator.late_us),
    ] {
        if *summary == Summary::default() {
            continue;
        }
        let cell = |figure: Option<f64>| figure.map_or(DataCell::Empty, DataCell::from);
        times.push(vec![
            name.into(),
            summary.min.into(),
            summary.mean.into(),
            summary.p50.into(),
            summary.p90.into(),
            summary.p99.into(),
            summary.p99_9.into(),
            summary.max.into(),
            DataCell::Text(summary.at_least.join(" ")),
            cell(summary.p75),
            cell(summary.p95),
            cell(summary.stdev),
        ]);
    }
    times
}

/// The series of a load: a row for each half second.
pub(crate) fn series(record: &Record) -> DataTable {
    let mut series = DataTable::new("series", &SERIES);
    for row in series_rows(record) {
        series.push(row);
    }
    series
}

/// Names of the columns of [`series_rows`].
pub(super) const SERIES: [&str; 9] = [
    "t_s",
    "ok",
    "failed",
    "ok_per_s",
    "bytes_in",
    "p50_us",
    "p99_us",
    "p90_us",
    "offered_per_s",
];

/// A row for each half second of a load. Percentiles are empty if no request finished in the half
/// second. The offered rate is empty for a closed loop.
pub(super) fn series_rows(record: &Record) -> Vec<Vec<DataCell>> {
    let percentile = |us: f64| match us > 0.0 {
        true => DataCell::from(us),
        false => DataCell::Empty,
    };
    let mut previous_s = 0.0;
    let rows = record.series.iter().map(|slice| {
        let length_s = slice.t_s - std::mem::replace(&mut previous_s, slice.t_s);
        vec![
            slice.t_s.into(),
            slice.ok.into(),
            slice.failed.into(),
            (slice.ok as f64 / length_s).into(),
            slice.bytes_in.into(),
            percentile(slice.p50_us),
            percentile(slice.p99_us),
            percentile(slice.p90_us),
            slice.offered_per_s.into(),
        ]
    });
    rows.collect()
}

/// The columns that describe a whole record; [`record_cells`] are their values.
pub(super) fn record_columns() -> Vec<String> {
    [
        "url",
        "model",
        "connections",
        "streams",
        "rate_per_s",
        "http",
        "tls",
        "cipher",
        "started_at",
        "elapsed_s",
        "started",
        "ok",
        "failed",
        "unfinished",
        "unstarted",
        "retried",
        "ok_per_s",
        "offered_per_s",
        "bytes_in",
        "body_bytes_in",
        "bytes_out",
        "connections_opened",
        "response_p50_us",
        "response_p90_us",
        "response_p99_us",
        "response_p99_9_us",
        "response_max_us",
        "service_p50_us",
        "service_p99_us",
        "first_byte_p50_us",
        "first_byte_p99_us",
        "generator_cpu_s",
        "generator_busy_share",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(super) fn record_cells(record: &Record) -> Vec<DataCell> {
    let (load, totals) = (&record.load, &record.totals);
    let negotiated = &record.negotiated;
    let (response, service) = (&record.response_time_us, &record.service_time_us);
    let generator = &record.generator;
    vec![
        (&load.url).into(),
        (&load.model).into(),
        load.connections.into(),
        load.streams.into(),
        load.rate_per_s.into(),
        negotiated.http.as_ref().unwrap_or(&load.http).into(),
        negotiated.tls.as_ref().into(),
        negotiated.cipher.as_ref().into(),
        (&record.started_at).into(),
        totals.elapsed_s.into(),
        totals.started.into(),
        totals.ok.into(),
        totals.failed.into(),
        totals.unfinished.into(),
        totals.unstarted.into(),
        totals.retried.into(),
        record.rate.ok_per_s.into(),
        record.rate.offered_per_s.into(),
        totals.bytes_in.into(),
        totals.body_bytes_in.into(),
        totals.bytes_out.into(),
        totals.connections_opened.into(),
        response.p50.into(),
        response.p90.into(),
        response.p99.into(),
        response.p99_9.into(),
        response.max.into(),
        service.p50.into(),
        service.p99.into(),
        record.first_byte_us.p50.into(),
        record.first_byte_us.p99.into(),
        (generator.cpu_user_s + generator.cpu_system_s).into(),
        generator.busy_share.into(),
    ]
}
