//! The charts of one load.

use prony_record::{Record, Slice};

use super::times::of_one_load;
use super::titled;
use crate::chart::{self, Chart, TimedLine, palette};
use crate::document::Figure;
use crate::number;
use crate::tables::times;
use crate::wording::load::time_at;

/// The most bars of the distribution.
const BARS_MAX: u32 = 36;

/// All charts of a load in the report's order, each with the remark above it.
pub(crate) fn of_load(record: &Record) -> Vec<(Figure, &'static str)> {
    let all = [
        (
            "Completions over time",
            "In half-second steps.",
            of_one_load(record),
        ),
        (
            "Response times over time",
            "Percentiles of the requests that ended in each half second.",
            percentiles(record),
        ),
        (
            "Failures over time",
            "In half-second steps.",
            failures(record),
        ),
        (
            "Distribution of response times",
            "Completed requests only.",
            distribution(record),
        ),
    ];
    let figures = all.into_iter();
    let figures = figures.filter_map(|(title, intro, chart)| Some((titled(title, chart?), intro)));
    figures.collect()
}

/// The percentiles of each half second; none if the record has no series.
fn percentiles(record: &Record) -> Option<Chart> {
    let line = |name: &str, place: usize, pick: fn(&Slice) -> f64| TimedLine {
        name: name.to_owned(),
        color: palette::variant(place),
        points: points(&record.series, pick),
    };
    let lines = [
        line("p50", 0, |slice| slice.p50_us),
        line("p90", 6, |slice| slice.p90_us),
        line("p99", 3, |slice| slice.p99_us),
    ];
    let lines: Vec<TimedLine> = lines
        .into_iter()
        .filter(|line| !line.points.is_empty())
        .collect();
    if lines.is_empty() {
        return None;
    }
    let times = &record.response_time_us;
    let label = format!(
        "Line chart of response times over time; over the whole load p50 is {} and p99 {}.",
        time_at(times, "p50", times.p50),
        time_at(times, "p99", times.p99)
    );
    let length_s = record.totals.elapsed_s;
    Some(chart::timed(
        label,
        "response time",
        number::time,
        length_s,
        &lines,
    ))
}

/// Failures per second; none if nothing failed.
fn failures(record: &Record) -> Option<Chart> {
    if record.series.iter().all(|slice| slice.failed == 0) {
        return None;
    }
    let mut previous_s = 0.0;
    let rates = record.series.iter().map(|slice| {
        let length_s = slice.t_s - std::mem::replace(&mut previous_s, slice.t_s);
        (slice.t_s - length_s / 2.0, slice.failed as f64 / length_s)
    });
    let line = TimedLine {
        name: "failed".to_owned(),
        color: palette::variant(1),
        points: rates.collect(),
    };
    let label = format!(
        "Line chart of failures per second over time; {} failed in all.",
        number::plural(record.totals.failed, "request", "requests")
    );
    let length_s = record.totals.elapsed_s;
    let mark = number::rate_figure;
    Some(chart::timed(
        label,
        "failures per second",
        mark,
        length_s,
        &[line],
    ))
}

/// The distribution of response times; none if the record has no histogram.
fn distribution(record: &Record) -> Option<Chart> {
    let bins = times::bins(record, BARS_MAX);
    if bins.is_empty() {
        return None;
    }
    let response = &record.response_time_us;
    let marked = [
        ("p50", response.p50),
        ("p90", response.p90),
        ("p99", response.p99),
    ];
    let in_words = marked.map(|(name, us)| format!("{name} {}", time_at(response, name, us)));
    let label = format!("Histogram of response times: {}.", in_words.join(", "));
    let marked = marked.map(|(name, us)| (name.to_owned(), us));
    Some(chart::distribution(label, &bins, &marked))
}

/// A value of each slice in which a request ended, at the slice's middle.
fn points(series: &[Slice], pick: fn(&Slice) -> f64) -> Vec<(f64, f64)> {
    let mut previous_s = 0.0;
    let all = series.iter().map(|slice| {
        let length_s = slice.t_s - std::mem::replace(&mut previous_s, slice.t_s);
        (slice.t_s - length_s / 2.0, pick(slice))
    });
    all.filter(|(_, value)| *value > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use prony_record::{Distribution, Nanos};

    use super::*;

    #[test]
    fn a_record_has_a_chart_for_each_kind_of_data_in_it() {
        let titles = |record: &Record| -> Vec<String> {
            of_load(record)
                .iter()
                .map(|(it, _)| it.title.clone())
                .collect()
        };
        let mut record = Record::default();
        assert!(of_load(&record).is_empty());
        let slice = |n: u64| Slice {
            t_s: n as f64 / 2.0,
            ok: 10 * (n % 2),
            p50_us: 100.0 * (n % 2) as f64,
            p99_us: 900.0 * (n % 2) as f64,
            ..Slice::default()
        };
        record.series = (1..=6).map(slice).collect();
        record.totals.elapsed_s = 3.0;
        assert_eq!(
            titles(&record),
            ["Completions over time", "Response times over time"]
        );
        // A slice without requests has no point, and an older record has no p90.
        assert_eq!(points(&record.series, |it| it.p50_us).len(), 3);
        record.series[2].failed = 4;
        let mut times = Distribution::new();
        (1..100).for_each(|n| times.record(Nanos::from_micros(n)));
        record.keep_distribution("response_time", &times);
        assert_eq!(titles(&record).len(), 4);
    }
}
