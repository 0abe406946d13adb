//! The times of one load: a table of percentiles, and the distribution of response times.

use prony_record::{Distribution, Record, Summary};
use prony_wording::load::time_at;

use crate::chart::Bin;
use crate::number;
use crate::table::Table;

/// The percentiles that a report shows by default.
pub const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// One kind of time.
struct TimeColumn<'a> {
    name: &'static str,
    summary: &'a Summary,
    /// The whole distribution. It is decoded only if the summary lacks a percentile.
    all: Option<Distribution>,
}

/// A kind of time: its name, its summary, and the name of its histogram.
type TimeRow<'a> = (&'static str, &'a Summary, &'static str);

/// The times of requests: a column for each kind of time that was measured, and a row for each
/// percentile or other statistic.
pub(crate) fn times_table(record: &Record, percentiles: &[f64]) -> Table {
    let all = [
        ("response time", &record.response_time_us, "response_time"),
        ("service time", &record.service_time_us, "service_time"),
        ("first byte", &record.first_byte_us, "first_byte"),
        ("connect", &record.connect_time_us, "connect_time"),
        ("TLS handshake", &record.tls_time_us, "tls_time"),
    ];
    let journeys = record.journeys.as_ref();
    let journeys = journeys.map(|it| ("journey", &it.journey_time_us, "journey_time"));
    let all: Vec<TimeRow<'_>> = all.into_iter().chain(journeys).collect();
    table_of(record, &all, percentiles)
}

/// The times of the events of streamed responses, in the same form. Empty for other loads.
pub(crate) fn event_times_table(record: &Record, percentiles: &[f64]) -> Table {
    let Some(events) = &record.events else {
        return Table::new(&[]);
    };
    let all = [
        ("first event", &events.first_event_us, "first_event"),
        ("event gap", &events.event_gap_us, "event_gap"),
    ];
    table_of(record, &all, percentiles)
}

fn table_of(record: &Record, all: &[TimeRow<'_>], percentiles: &[f64]) -> Table {
    let mut ascending = percentiles.to_vec();
    ascending.sort_by(f64::total_cmp);
    ascending.dedup();
    let measured = all
        .iter()
        .copied()
        .filter(|(_, summary, _)| is_measured(summary));
    let columns: Vec<TimeColumn<'_>> = measured
        .map(|(name, summary, key)| TimeColumn {
            name,
            summary,
            all: if ascending.iter().all(|&p| summary.percentile(p).is_some()) {
                None
            } else {
                record.distribution(key)
            },
        })
        .collect();
    let headings: Vec<&str> = std::iter::once("")
        .chain(columns.iter().map(|column| column.name))
        .collect();
    let mut table = Table::new(&headings);
    if columns.is_empty() {
        return table;
    }
    let mut row = |name: String, cell: &dyn Fn(&TimeColumn<'_>) -> String| {
        table.push(
            std::iter::once(name)
                .chain(columns.iter().map(cell))
                .collect(),
        );
    };
    let figure = |key: &'static str, pick: fn(&Summary) -> f64| {
        move |column: &TimeColumn<'_>| time_at(column.summary, key, pick(column.summary))
    };
    row("min".to_owned(), &figure("min", |it| it.min));
    for &percentile in &ascending {
        row(format!("p{percentile}"), &|it| it.percentile(percentile));
    }
    row("max".to_owned(), &figure("max", |it| it.max));
    row("mean".to_owned(), &figure("mean", |it| it.mean));
    row("stdev".to_owned(), &|it| match it.summary.stdev {
        // A distribution without spread, such as a single value, has no standard deviation to show.
        Some(us) if it.summary.min < it.summary.max => number::time(us),
        _ => "–".to_owned(),
    });
    table
}

impl TimeColumn<'_> {
    fn percentile(&self, percentile: f64) -> String {
        let known = self.summary.percentile(percentile);
        let read = || {
            let (value, is_bound) = self.all.as_ref()?.quantile(percentile / 100.0);
            Some((value.as_micros_f64(), is_bound))
        };
        match known.or_else(read) {
            Some((us, true)) => format!("≥ {}", number::time(us)),
            Some((us, false)) => number::time(us),
            None => "–".to_owned(),
        }
    }
}

/// Returns true if a summary contains values.
fn is_measured(summary: &Summary) -> bool {
    *summary != Summary::default()
}

/// Groups the response times into at most `wanted` bins of about equal width on a logarithmic
/// scale. Times of which only a lower bound is known are excluded. Returns no bins if the record
/// has no histogram.
pub(crate) fn bins(record: &Record, wanted: u32) -> Vec<Bin> {
    let Some(times) = record.distribution("response_time") else {
        return Vec::new();
    };
    let buckets: Vec<(f64, u64)> = times
        .buckets()
        .map(|(time, count)| (time.as_micros_f64(), count))
        .collect();
    let (Some(&(least, _)), Some(&(most, _))) = (buckets.first(), buckets.last()) else {
        return Vec::new();
    };
    let least = least.max(1e-3);
    let ratio = most / least;
    let digits = if ratio < 3.0 { 3 } else { 2 };
    let limits =
        (1..wanted).map(|n| rounded(least * ratio.powf(f64::from(n) / f64::from(wanted)), digits));
    let mut bins: Vec<Bin> = limits
        .chain([most])
        .map(|up_to_us| Bin { up_to_us, count: 0 })
        .collect();
    bins.dedup_by(|next, kept| next.up_to_us <= kept.up_to_us);
    let last = bins.len() - 1;
    for (time, count) in buckets {
        let place = bins.partition_point(|bin| bin.up_to_us < time).min(last);
        bins[place].count += count;
    }
    bins
}

/// Rounds a value to a number of significant digits.
fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits - 1 - value.log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use prony_record::Nanos;

    use super::*;

    fn record(times_us: &[u64], bounds_us: &[u64]) -> Record {
        let mut all = Distribution::new();
        times_us
            .iter()
            .for_each(|&us| all.record(Nanos::from_micros(us)));
        bounds_us
            .iter()
            .for_each(|&us| all.record_at_least(Nanos::from_micros(us)));
        let mut record = Record {
            response_time_us: all.summary(),
            ..Record::default()
        };
        record.keep_distribution("response_time", &all);
        record
    }

    #[test]
    fn rows_ascend_and_include_any_percentile() {
        let times: Vec<u64> = (1..=1000).collect();
        let table = times_table(&record(&times, &[2_000; 20]), &[99.0, 50.0, 99.5, 12.5]);
        let names: Vec<&str> = table.rows.iter().map(|row| row[0].main()).collect();
        assert_eq!(
            names,
            [
                "min", "p12.5", "p50", "p99", "p99.5", "max", "mean", "stdev"
            ]
        );
        assert_eq!(table.rows[1][1], "128 µs");
        assert_eq!(table.rows[4][1], "≥ 2.00 ms");
        assert_eq!(table.columns.len(), 2, "the other kinds were not measured");
    }

    #[test]
    fn a_percentile_that_an_old_record_lacks_is_a_dash() {
        let mut older = record(&[100, 200], &[]);
        older.histograms.clear();
        (older.response_time_us.p75, older.response_time_us.stdev) = (None, None);
        let table = times_table(&older, &[50.0, 75.0]);
        let cells: Vec<&str> = table.rows.iter().map(|row| row[1].main()).collect();
        assert_eq!(cells[2], "–");
        assert_eq!(cells[5], "–");
        assert!(bins(&older, 10).is_empty());
    }

    #[test]
    fn bins_contain_every_response_time() {
        for times in [
            (1..=1000).collect::<Vec<u64>>(),
            vec![500; 7],
            vec![31_000, 32_000, 33_900],
            vec![10, 10_000_000],
        ] {
            let bins = bins(&record(&times, &[5]), 10);
            let count: u64 = bins.iter().map(|bin| bin.count).sum();
            assert_eq!(count, times.len() as u64);
            assert!(bins.is_sorted_by(|one, next| one.up_to_us < next.up_to_us));
            assert!(bins.len() <= 10);
        }
    }
}
