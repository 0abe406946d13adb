//! Charts of results over time.

use prony_stats::Unit;
use prony_stats::history::HistorySeries;
use prony_wording::history;
use prony_wording::verdict::capitalized;

use super::titled;
use crate::chart::{self, TimedLine, palette};
use crate::document::Figure;
use crate::number;

/// One series, with the mean between each two changes.
pub(crate) fn history(series: &HistorySeries) -> Figure {
    let numbered = (1..).zip(&series.points);
    let values = TimedLine {
        name: series.variant.clone(),
        color: palette::variant(0),
        points: numbered
            .map(|(number, it)| (f64::from(number), it.value))
            .collect(),
    };
    let mut lines = vec![values];
    if let Some(first) = series.changes.first() {
        let mut points = vec![(1.0, first.before)];
        for change in &series.changes {
            let at = change.point as f64 + 0.5;
            points.extend([(at, change.before), (at, change.after)]);
        }
        let last = series.changes.last().map_or(first.after, |it| it.after);
        points.push((series.points.len() as f64, last));
        lines.push(TimedLine {
            name: "mean between changes".to_owned(),
            color: palette::variant(1),
            points,
        });
    }
    let mark = match series.metric.unit() {
        Unit::Micros => number::time,
        Unit::Share => number::share,
        Unit::Bytes => number::bytes,
        Unit::BitsPerS => number::bits_per_s,
        Unit::PerS | Unit::JourneysPerS | Unit::EventsPerS | Unit::Percent | Unit::Count => {
            number::rate_figure
        }
    };
    let name = history::series_name(series);
    let label = format!("{name} in {} runs.", series.points.len());
    let unit = series.metric.noun();
    let chart = chart::by_run(label, unit, mark, series.points.len(), &lines);
    titled(&capitalized(&name), chart)
}
