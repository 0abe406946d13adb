//! The charts of one load.

use prony_record::{Record, Slice};

use super::times::of_load;
use crate::chart::{self, Chart, TimedLine, palette};
use crate::{load_times, load_view, number};

/// Bars of the distribution, about.
const BARS: u32 = 36;

/// A chart of a load, and what stands above it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct LoadFigure {
    pub(crate) title: &'static str,
    pub(crate) note: &'static str,
    pub(crate) chart: Chart,
}

/// All charts of a load, in the order of its page.
pub(crate) fn load_figures(record: &Record) -> Vec<LoadFigure> {
    let figure = |title, note, chart: Option<Chart>| {
        let chart = chart?;
        Some(LoadFigure { title, note, chart })
    };
    let all = [
        figure("Completions over time", "By half seconds.", of_load(record)),
        figure(
            "Response times over time",
            "Percentiles of what ended in each half second.",
            percentiles(record),
        ),
        figure("Failures over time", "By half seconds.", failures(record)),
        figure(
            "Distribution of response times",
            "Requests that were seen to their end.",
            distribution(record),
        ),
    ];
    all.into_iter().flatten().collect()
}

/// The percentiles of each half second; none where the record has no series.
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
        load_view::time_at(times, "p50", times.p50),
        load_view::time_at(times, "p99", times.p99)
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

/// Failures a second; none where nothing failed.
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

/// Response times by how often they came; none where the record has no histogram.
fn distribution(record: &Record) -> Option<Chart> {
    let bins = load_times::bins(record, BARS);
    if bins.is_empty() {
        return None;
    }
    let times = &record.response_time_us;
    let marked = [("p50", times.p50), ("p90", times.p90), ("p99", times.p99)];
    let in_words =
        marked.map(|(name, us)| format!("{name} {}", load_view::time_at(times, name, us)));
    let label = format!("Histogram of response times: {}.", in_words.join(", "));
    let marked = marked.map(|(name, us)| (name.to_owned(), us));
    Some(chart::distribution(label, &bins, &marked))
}

/// A figure of each slice in which something ended, at the slice's middle.
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
    fn a_chart_is_drawn_of_each_thing_that_the_record_has() {
        let titles = |record: &Record| -> Vec<&str> {
            load_figures(record).iter().map(|it| it.title).collect()
        };
        let mut record = Record::default();
        assert!(load_figures(&record).is_empty());
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
        // Where nothing ended there is no point, and an older record has no p90.
        assert_eq!(points(&record.series, |it| it.p50_us).len(), 3);
        record.series[2].failed = 4;
        let mut times = Distribution::new();
        (1..100).for_each(|n| times.record(Nanos::from_micros(n)));
        record.keep_distribution("response_time", &times);
        assert_eq!(titles(&record).len(), 4);
    }
}
