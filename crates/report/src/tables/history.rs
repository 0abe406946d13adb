//! The tables of results over time.

use prony_stats::history::HistorySeries;
use prony_wording::history;

use crate::number;
use crate::table::Table;

/// Number of the newest points that a line of blocks shows.
const BLOCKS_SHOWN_MAX: usize = 40;

/// Characters from the lowest to the highest value.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One row for each series.
pub(crate) fn overview(series: &[&HistorySeries]) -> Table {
    let newest = |it: &HistorySeries| {
        let value = it
            .points
            .last()
            .map(|point| it.metric.unit().shown(point.value));
        value.unwrap_or_default()
    };
    Table::of(series.iter().copied())
        .left("series", history::series_name)
        .right("runs", |it| it.points.len().to_string())
        .left("oldest to newest", blocks)
        .right("newest", newest)
        .right("changes", |it| it.changes.len().to_string())
        .build()
}

/// Draws the newest values as a line of blocks.
fn blocks(series: &HistorySeries) -> String {
    let skipped = series.points.len().saturating_sub(BLOCKS_SHOWN_MAX);
    let values = || series.points[skipped..].iter().map(|it| it.value);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let block = |value: f64| {
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.5
        };
        BLOCKS[((share * 7.0).round() as usize).min(BLOCKS.len() - 1)]
    };
    values().map(block).collect()
}

/// One row for each point, the newest first.
pub(crate) fn points(series: &HistorySeries) -> Table {
    let shown = |value: f64| series.metric.unit().shown(value);
    let points = series.points.iter().enumerate().rev();
    Table::of(points)
        .right("number", |(index, _)| number::count(index as u64 + 1))
        .left("started", |(_, it)| it.started_at.clone())
        .left("commit", |(_, it)| history::point_name(it))
        .right(series.metric.noun(), |(_, it)| shown(it.value))
        .right("95% interval", |(_, it)| match it.low.zip(it.high) {
            Some((low, high)) => format!("{} to {}", shown(low), shown(high)),
            None => String::new(),
        })
        .build()
}
