//! The charts of one load.

use prony_record::{HalfSecond, Record};
use prony_wording::load::{headline, time_at};

use super::times::{of_one_load, rates};
use super::titled;
use crate::captions;
use crate::chart::{self, Chart, HeatColumn, RateDots, TimedLine, palette};
use crate::document::Figure;
use crate::number;
use crate::tables::load::with_lengths;
use crate::tables::times;

/// Maximum number of bars in the distribution.
const BARS_MAX: u32 = 36;

/// All charts of a load in the report's order, each with the caption above it.
pub(crate) fn of_load(record: &Record) -> Vec<(Figure, &'static str)> {
    let all = [
        match offered_and_achieved(record) {
            None => (
                "Completions over time",
                "In half-second steps.",
                of_one_load(record),
            ),
            chart => (
                "Offered and achieved rate over time",
                "In half-second steps. Achieved: requests that finished successfully.",
                chart,
            ),
        },
        (
            "Response times over time",
            "Percentiles of the requests that finished in each half second.",
            percentiles(record),
        ),
        (
            "Heat map of response times",
            "The darker, the more of the requests that finished at that time took that long.",
            heat_map(record),
        ),
        (
            "Response times against the offered rate",
            captions::AGAINST_RATE,
            percentiles_against_rate(record),
        ),
        (
            "Failures over time",
            "In half-second steps.",
            failures(record),
        ),
        (
            "Journeys over time",
            "In half-second steps.",
            timed_lines(
                record,
                "journeys per second",
                number::rate_figure,
                &JOURNEYS,
            ),
        ),
        (
            "Journey times over time",
            "Percentiles of the journeys that completed in each half second.",
            timed_lines(record, "journey time", number::time, &JOURNEY_TIMES),
        ),
        (
            "Events over time",
            "In half-second steps.",
            timed_lines(record, "events per second", number::rate_figure, &EVENTS),
        ),
        (
            "Times to the first event over time",
            "Percentiles of the streams that ended in each half second.",
            timed_lines(
                record,
                "time to the first event",
                number::time,
                &FIRST_EVENTS,
            ),
        ),
        (
            "Gaps between events over time",
            "Percentiles of the gaps before the events of each half second.",
            timed_lines(record, "gap between events", number::time, &EVENT_GAPS),
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

/// The rates of an open loop; `None` for a closed loop, and for a record that an earlier version
/// wrote.
fn offered_and_achieved(record: &Record) -> Option<Chart> {
    let offered = offered_rates(&record.series)?;
    let line = |name: &str, color, points| TimedLine {
        name: name.to_owned(),
        color,
        points,
    };
    let highest = offered.iter().map(|point| point.1).fold(0.0, f64::max);
    let label = format!(
        "Line chart of the offered and the achieved rate over time: up to {} offered, {}.",
        number::rate(highest),
        headline(record)
    );
    let lines = [
        line("offered", palette::MUTED, offered),
        line("achieved", palette::variant(0), rates(&record.series)),
    ];
    let length_s = record.totals.elapsed_s;
    let (unit, mark) = ("requests per second", number::rate_figure);
    Some(chart::timed(label, unit, mark, length_s, &lines))
}

/// The offered rate of each half second, at the half second's middle; `None` if any half second
/// lacks it.
fn offered_rates(series: &[HalfSecond]) -> Option<Vec<(f64, f64)>> {
    let mut previous_s = 0.0;
    let rates = series.iter().map(|half_second| {
        let middle_s = f64::midpoint(previous_s, half_second.t_s);
        previous_s = half_second.t_s;
        Some((middle_s, half_second.offered_per_s?))
    });
    let rates: Vec<_> = rates.collect::<Option<_>>()?;
    (!rates.is_empty()).then_some(rates)
}

/// Maximum number of dots for each percentile against the offered rate.
const RATE_DOTS_MAX: usize = 240;

/// Name of a percentile, index of its color, and a function that returns its value in a half
/// second.
type HalfSecondPercentile = (&'static str, usize, fn(&HalfSecond) -> f64);

const PERCENTILES: [HalfSecondPercentile; 3] = [
    ("p50", 0, |half_second| half_second.p50_us),
    ("p90", 6, |half_second| half_second.p90_us),
    ("p99", 3, |half_second| half_second.p99_us),
];

/// The percentiles of each half second, by offered rate; `None` if the rate is constant.
fn percentiles_against_rate(record: &Record) -> Option<Chart> {
    if record.load.stages.is_empty() {
        return None;
    }
    let dots = PERCENTILES.map(|(name, place, pick)| {
        let ended = record
            .series
            .iter()
            .filter(|half_second| pick(half_second) > 0.0);
        let points =
            ended.filter_map(|half_second| Some((half_second.offered_per_s?, pick(half_second))));
        RateDots {
            name: name.to_owned(),
            color: palette::variant(place),
            points: medians(points.collect(), RATE_DOTS_MAX),
        }
    });
    if dots.iter().all(|each| each.points.is_empty()) {
        return None;
    }
    let label = format!(
        "Scatter chart of response times against the offered rate, {}.",
        number::rate_stages(&record.load.stages, record.load.rate_unit())
    );
    let (unit, mark) = ("response time", number::time);
    Some(chart::against_rate(label, unit, mark, &dots))
}

/// Reduces points to at most `count`, ordered by rate. Each remaining point is the median of
/// neighboring points.
fn medians(mut points: Vec<(f64, f64)>, count: usize) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let each = points.len().div_ceil(count).max(1);
    let groups = points.chunks_mut(each).map(|group| {
        let rate = group[group.len() / 2].0;
        group.sort_by(|a, b| a.1.total_cmp(&b.1));
        (rate, group[group.len() / 2].1)
    });
    groups.collect()
}

/// The percentiles of each half second; `None` if the record has no series.
fn percentiles(record: &Record) -> Option<Chart> {
    let lines = PERCENTILES.map(|(name, place, pick)| TimedLine {
        name: name.to_owned(),
        color: palette::variant(place),
        points: points(&record.series, pick),
    });
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
    let (unit, mark) = ("response time", number::time);
    Some(chart::timed(label, unit, mark, length_s, &lines))
}

/// The response times of each half second; `None` if the record doesn't have them.
fn heat_map(record: &Record) -> Option<Chart> {
    let columns = with_lengths(&record.series).map(|(length_s, half_second)| HeatColumn {
        from_s: half_second.t_s - length_s,
        to_s: half_second.t_s,
        times: half_second
            .times
            .iter()
            .map(|&(time, count)| (time.as_secs_f64() * 1e6, count))
            .collect(),
    });
    let columns: Vec<HeatColumn> = columns.collect();
    if columns.iter().all(|column| column.times.is_empty()) {
        return None;
    }
    let times = &record.response_time_us;
    let label = format!(
        "Heat map of response times over time, from {} to {}.",
        time_at(times, "min", times.min),
        time_at(times, "max", times.max)
    );
    Some(chart::heat(label, &columns))
}

/// Name of a line, index of its color, and a function that returns its value in a half second of
/// the given length in seconds; `None` if there is none.
type HalfSecondLine = (&'static str, usize, fn(&HalfSecond, f64) -> Option<f64>);

const JOURNEYS: [HalfSecondLine; 2] = [
    ("completed", 0, |it, length_s| {
        Some(it.journeys?.completed as f64 / length_s)
    }),
    ("failed", 1, |it, length_s| {
        let failed = it.journeys?.failed;
        (failed > 0).then_some(failed as f64 / length_s)
    }),
];
const JOURNEY_TIMES: [HalfSecondLine; 2] = [
    ("p50", 0, |it, _| Some(it.journeys?.p50_us)),
    ("p99", 3, |it, _| Some(it.journeys?.p99_us)),
];
const EVENTS: [HalfSecondLine; 1] = [("events", 0, |it, length_s| {
    Some(it.events?.events as f64 / length_s)
})];
const FIRST_EVENTS: [HalfSecondLine; 2] = [
    ("p50", 0, |it, _| Some(it.events?.first_event_p50_us)),
    ("p99", 3, |it, _| Some(it.events?.first_event_p99_us)),
];
const EVENT_GAPS: [HalfSecondLine; 2] = [
    ("p50", 0, |it, _| Some(it.events?.event_gap_p50_us)),
    ("p99", 3, |it, _| Some(it.events?.event_gap_p99_us)),
];

/// A chart of lines over time. Times of zero were not measured. `None` if there is no value.
fn timed_lines(
    record: &Record,
    unit: &str,
    mark: fn(f64) -> String,
    lines: &[HalfSecondLine],
) -> Option<Chart> {
    let is_rate = unit.ends_with("per second");
    let lines = lines.iter().map(|(name, place, pick)| {
        let values = with_lengths(&record.series).filter_map(|(length_s, half_second)| {
            let value = pick(half_second, length_s)?;
            let middle_s = half_second.t_s - length_s / 2.0;
            (is_rate || value > 0.0).then_some((middle_s, value))
        });
        TimedLine {
            name: (*name).to_owned(),
            color: palette::variant(*place),
            points: values.collect(),
        }
    });
    let lines: Vec<TimedLine> = lines.filter(|line| !line.points.is_empty()).collect();
    if lines.is_empty() {
        return None;
    }
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let label = format!("Line chart of {unit} over time: {}.", names.join(", "));
    let length_s = record.totals.elapsed_s;
    Some(chart::timed(label, unit, mark, length_s, &lines))
}

/// Failures per second; `None` if nothing failed.
fn failures(record: &Record) -> Option<Chart> {
    if record
        .series
        .iter()
        .all(|half_second| half_second.failed == 0)
    {
        return None;
    }
    let rates = with_lengths(&record.series).map(|(length_s, half_second)| {
        (
            half_second.t_s - length_s / 2.0,
            half_second.failed as f64 / length_s,
        )
    });
    let line = TimedLine {
        name: "failed".to_owned(),
        color: palette::variant(1),
        points: rates.collect(),
    };
    let label = format!(
        "Line chart of failures per second over time; {} failed in total.",
        number::plural(record.totals.failed, "request", "requests")
    );
    let length_s = record.totals.elapsed_s;
    let (unit, mark) = ("failures per second", number::rate_figure);
    Some(chart::timed(label, unit, mark, length_s, &[line]))
}

/// The distribution of response times; `None` if the record has no histogram.
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

/// A value of each half second in which a request finished, at the middle of the half second.
fn points(series: &[HalfSecond], pick: fn(&HalfSecond) -> f64) -> Vec<(f64, f64)> {
    let all = with_lengths(series)
        .map(|(length_s, half_second)| (half_second.t_s - length_s / 2.0, pick(half_second)));
    all.filter(|(_, value)| *value > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use prony_record::{Distribution, Nanos};

    use super::*;

    #[test]
    fn a_record_has_a_chart_for_each_kind_of_its_data() {
        let titles = |record: &Record| -> Vec<String> {
            of_load(record)
                .iter()
                .map(|(it, _)| it.title.clone())
                .collect()
        };
        let mut record = Record::default();
        assert!(of_load(&record).is_empty());
        let half_second = |n: u64| HalfSecond {
            t_s: n as f64 / 2.0,
            ok: 10 * (n % 2),
            p50_us: 100.0 * (n % 2) as f64,
            p99_us: 900.0 * (n % 2) as f64,
            ..HalfSecond::default()
        };
        record.series = (1..=6).map(half_second).collect();
        record.totals.elapsed_s = 3.0;
        assert_eq!(
            titles(&record),
            ["Completions over time", "Response times over time"]
        );
        assert_eq!(percentiles_against_rate(&record), None);
        for half_second in &mut record.series {
            half_second.offered_per_s = Some(20.0 * half_second.t_s);
        }
        record.load.stages = vec![prony_record::RateStage {
            rate_per_s: 60.0,
            length_s: 3.0,
        }];
        assert_eq!(
            titles(&record),
            [
                "Offered and achieved rate over time",
                "Response times over time",
                "Response times against the offered rate"
            ]
        );
        // A half second without requests has no point, and an older record has no p90.
        assert_eq!(points(&record.series, |it| it.p50_us).len(), 3);
        record.series[2].failed = 4;
        let mut times = Distribution::new();
        (1..100).for_each(|n| times.record(Nanos::from_micros(n)));
        record.keep_distribution("response_time", &times);
        assert_eq!(titles(&record).len(), 5);
        // A record of an earlier version has no offered rate.
        record.series[0].offered_per_s = None;
        assert_eq!(titles(&record)[0], "Completions over time");
    }

    #[test]
    fn many_points_are_thinned_to_medians_of_neighbors() {
        let points = [(3.0, 9.0), (1.0, 5.0), (1.1, 70.0), (1.2, 6.0)];
        assert_eq!(medians(points.to_vec(), 2), [(1.1, 70.0), (3.0, 9.0)]);
        assert_eq!(medians(points.to_vec(), 9).len(), 4);
        assert_eq!(medians(Vec::new(), 9), []);
    }
}
