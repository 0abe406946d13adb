//! Charts of rates and response times over time.

use prony_record::{HalfSecond, Record};
use prony_wording::load::headline;

use super::titled;
use crate::Experiment;
use crate::chart::{self, Chart, RatePanel, Strip, StripGroup, palette};
use crate::document::Figure;

/// Successes per second over time, with a panel for each variant; `None` if no trial has a series.
pub(crate) fn over_time(experiment: &Experiment) -> Option<Figure> {
    let verdict = &experiment.verdict;
    let panels: Vec<RatePanel> = verdict
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| {
            let trials = experiment.trials_of(place);
            let lengths = trials.iter().map(|trial| trial.record.totals.elapsed_s);
            RatePanel {
                name: variant.name.clone(),
                color: palette::variant(place),
                length_s: lengths.fold(0.0, f64::max),
                lines: trials
                    .iter()
                    .map(|trial| rates(&trial.record.series))
                    .collect(),
            }
        })
        .collect();
    panels.iter().any(|panel| !panel.lines.is_empty()).then(|| {
        let spoken: Vec<String> = panels
            .iter()
            .map(|p| format!("{}: {} trials", p.name, p.lines.len()))
            .collect();
        let label = format!(
            "Line charts of successes per second over time, one for each variant: {}.",
            spoken.join("; ")
        );
        titled("Completions over time", chart::over_time(label, &panels))
    })
}

/// The percentiles of every trial, by variant.
pub(crate) fn latency_groups(experiment: &Experiment) -> Vec<StripGroup> {
    let variants = &experiment.verdict.variants;
    type Pick = fn(&prony_record::Summary) -> f64;
    let percentiles: [(&str, &str, Pick); 4] = [
        ("p50", "p50", |s| s.p50),
        ("p90", "p90", |s| s.p90),
        ("p99", "p99", |s| s.p99),
        ("p99.9", "p99_9", |s| s.p99_9),
    ];
    let strip = |place: usize, key: &str, pick: Pick| Strip {
        name: variants[place].name.clone(),
        color: palette::variant(place),
        values_us: experiment
            .trials_of(place)
            .iter()
            .map(|trial| {
                let times = &trial.record.response_time_us;
                (pick(times), times.at_least.iter().any(|name| name == key))
            })
            .collect(),
    };
    percentiles
        .into_iter()
        .map(|(title, key, pick)| StripGroup {
            title: title.to_owned(),
            strips: (0..variants.len())
                .map(|place| strip(place, key, pick))
                .collect(),
        })
        .collect()
}

/// Chart with a dot for each trial and percentile; `None` without trials.
pub(crate) fn latency(groups: &[StripGroup]) -> Option<Figure> {
    let strips = || groups.iter().flat_map(|group| &group.strips);
    strips().any(|strip| !strip.values_us.is_empty()).then(|| {
        let spoken: Vec<String> = groups
            .iter()
            .map(|group| {
                let ranges = group.strips.iter().map(chart::range_in_words);
                format!("{} {}", group.title, ranges.collect::<Vec<_>>().join(", "))
            })
            .collect();
        let label = format!(
            "Response times, with a dot for each trial: {}.",
            spoken.join("; ")
        );
        titled("Response times", chart::strips(label, groups))
    })
}

/// Successes per second of one load; `None` if it has no series.
pub(super) fn of_one_load(record: &Record) -> Option<Chart> {
    (!record.series.is_empty()).then(|| {
        let headline = headline(record);
        let label = format!("Line chart of successes per second over time: {headline}.");
        let panel = RatePanel {
            name: "all connections".to_owned(),
            color: palette::variant(0),
            length_s: record.totals.elapsed_s,
            lines: vec![rates(&record.series)],
        };
        chart::over_time(label, &[panel])
    })
}

/// Successes per second in each half second, at the half second's middle. If the last half second
/// is much shorter than the others, it is omitted, because its few requests give no reliable rate.
pub(super) fn rates(series: &[HalfSecond]) -> Vec<(f64, f64)> {
    let mut previous_s = 0.0;
    let longest = series.first().map_or(0.0, |half_second| half_second.t_s);
    let mut points = Vec::with_capacity(series.len());
    for half_second in series {
        let length_s = half_second.t_s - previous_s;
        if length_s > longest / 2.0 {
            points.push((
                previous_s + length_s / 2.0,
                half_second.ok as f64 / length_s,
            ));
        }
        previous_s = half_second.t_s;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_last_slice_is_omitted() {
        let half_second = |t_s, ok| HalfSecond {
            t_s,
            ok,
            failed: 0,
            bytes_in: 0,
            ..HalfSecond::default()
        };
        let points = rates(&[
            half_second(0.5, 100),
            half_second(1.0, 110),
            half_second(1.01, 1),
        ]);
        assert_eq!(points, [(0.25, 200.0), (0.75, 220.0)]);
        assert!(rates(&[]).is_empty());
    }
}
