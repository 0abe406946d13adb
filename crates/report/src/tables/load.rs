//! Tables of one load.

use prony_record::{HalfSecond, Outcome, Record, RunInterval};
use prony_wording::load::meaning;
use prony_wording::run_intervals;

use crate::number;
use crate::table::Table;

/// Requests by outcome, with an explanation of each outcome. Requests that were in flight at the
/// end have no outcome and are omitted.
pub(crate) fn outcomes(record: &Record) -> Table {
    let totals = &record.totals;
    let all = (totals.ok + totals.failed + totals.unstarted).max(1) as f64;
    let known = record.outcomes.iter();
    Table::of(known.filter(|(outcome, _)| **outcome != Outcome::Unfinished))
        .left("outcome", |(outcome, _)| outcome.name())
        .right("requests", |(_, n)| number::count(*n))
        .right("share", |(_, n)| number::share(*n as f64 / all))
        .left("meaning", |(outcome, _)| meaning(*outcome))
        .build()
}

/// The intervals of metrics within the load.
pub(crate) fn intervals(record: &Record) -> Table {
    let width = |it: &RunInterval| {
        let width = it.relative_half_width.filter(|_| it.refused.is_none());
        let wanted = it
            .wanted
            .map(|wanted| format!(" ({} wanted)", run_intervals::half_width(wanted)));
        width.map_or("–".to_owned(), run_intervals::half_width) + &wanted.unwrap_or_default()
    };
    Table::of(&record.intervals)
        .left("metric", |it| it.metric.clone())
        .right("value", run_intervals::value)
        .left("95% interval", run_intervals::ends)
        .left("precision", width)
        .left("batches", run_intervals::batches)
        .build()
}

/// The half seconds of a series, each with its length in seconds.
pub(crate) fn with_lengths(series: &[HalfSecond]) -> impl Iterator<Item = (f64, &HalfSecond)> {
    let mut previous_s = 0.0;
    series.iter().map(move |half_second| {
        let length_s = half_second.t_s - std::mem::replace(&mut previous_s, half_second.t_s);
        (length_s, half_second)
    })
}

/// Number of rows in the table of offered rates.
const RATE_RANGES: u32 = 8;

/// The half seconds of a load whose rate changes, grouped by offered rate. For any other load, the
/// table has no rows. Percentiles of half seconds can't be merged, so each percentile in the table
/// is the median over its group.
pub(crate) fn by_offered_rate(record: &Record) -> Table {
    let mut table = Table::new(&["offered", "achieved", "p50", "p99", "failed", "time"]);
    if record.load.stages.is_empty() {
        return table;
    }
    let half_seconds = with_lengths(&record.series);
    let half_seconds: Vec<_> = half_seconds
        .filter_map(|(length_s, half_second)| {
            Some((half_second.offered_per_s?, length_s, half_second))
        })
        .collect();
    let rates = || half_seconds.iter().map(|(offered, ..)| *offered);
    let (lowest, highest) = (
        rates().fold(f64::MAX, f64::min),
        rates().fold(0.0, f64::max),
    );
    let width = (highest - lowest) / f64::from(RATE_RANGES);
    let range_of = |offered: f64| {
        if width > 0.0 {
            (((offered - lowest) / width) as u32).min(RATE_RANGES - 1)
        } else {
            0
        }
    };
    for range in 0..RATE_RANGES {
        let group: Vec<_> = half_seconds
            .iter()
            .filter(|it| range_of(it.0) == range)
            .collect();
        let length_s: f64 = group.iter().map(|(_, length_s, _)| length_s).sum();
        if group.is_empty() || length_s <= 0.0 {
            continue;
        }
        let per_s = |count: f64| number::rate_figure(count / length_s);
        let offered: f64 = group
            .iter()
            .map(|(offered, length_s, _)| offered * length_s)
            .sum();
        let ok: u64 = group.iter().map(|(.., half_second)| half_second.ok).sum();
        let failed: u64 = group
            .iter()
            .map(|(.., half_second)| half_second.failed)
            .sum();
        let percentile = |pick: fn(&HalfSecond) -> f64| {
            let measured = group.iter().map(|(.., half_second)| pick(half_second));
            let mut measured: Vec<f64> = measured.filter(|us| *us > 0.0).collect();
            measured.sort_by(f64::total_cmp);
            let median = measured.get(measured.len() / 2);
            median.map_or_else(|| "–".to_owned(), |us| number::time(*us))
        };
        table.push(vec![
            format!("{} req/s", per_s(offered)),
            format!("{} req/s", per_s(ok as f64)),
            percentile(|half_second| half_second.p50_us),
            percentile(|half_second| half_second.p99_us),
            number::count(failed),
            number::span(length_s),
        ]);
    }
    table
}

/// Each agent's share of a load. If the load had no agents, the table has no rows.
pub(crate) fn agents(record: &Record) -> Table {
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "–".to_owned());
    Table::of(record.fleet.iter().flat_map(|fleet| &fleet.agents))
        .left("agent", |it| it.name.as_str())
        .right("ok/s", |it| {
            let rate = it.ok_per_s.map(|rate| rate.round() as u64);
            or_none(rate.map(number::count))
        })
        .right("p99", |it| {
            let at_least = if it.p99_at_least { "≥ " } else { "" };
            or_none(
                it.p99_us
                    .map(|us| format!("{at_least}{}", number::time(us))),
            )
        })
        .right("failed", |it| number::count(it.failed))
        .right("CPU", |it| {
            or_none(it.cpu_percent.map(|percent| format!("{percent:.0}%")))
        })
        .right("start skew", |it| {
            or_none(it.start_skew_us.map(number::time))
        })
        .right("ended", |it| it.ended_because.as_str())
        .build()
}

#[cfg(test)]
mod tests {
    use prony_record::RateStage;

    use super::*;

    #[test]
    fn half_seconds_are_grouped_by_their_offered_rates() {
        let mut record = Record::default();
        let half_second = |n: u32| HalfSecond {
            t_s: f64::from(n) / 2.0,
            ok: u64::from(n.min(40)) * 5,
            offered_per_s: Some(f64::from(n) * 10.0),
            p99_us: if n == 1 { 0.0 } else { f64::from(n) * 100.0 },
            ..HalfSecond::default()
        };
        record.series = (1..=80).map(half_second).collect();
        assert!(by_offered_rate(&record).is_empty());
        record.load.stages = vec![RateStage {
            rate_per_s: 800.0,
            length_s: 40.0,
        }];
        let table = by_offered_rate(&record);
        assert_eq!(table.rows.len(), 8);
        // In the last ten half seconds, unlike the first ten, the server achieves only half of the
        // offered rate.
        assert_eq!(table.rows[0][0], "55.0 req/s");
        assert_eq!(table.rows[0][1], "55.0 req/s");
        assert_eq!(table.rows[0][5], "5 s");
        assert_eq!(table.rows[7][1], "400 req/s");
        assert_eq!(table.rows[7][2], "–");
        // A constant rate gives one row, and an empty record none.
        for half_second in &mut record.series {
            half_second.offered_per_s = Some(7.0);
        }
        assert_eq!(by_offered_rate(&record).rows.len(), 1);
        record.series.clear();
        assert!(by_offered_rate(&record).is_empty());
    }
}
