//! Sentences about results over time.

use prony_record::number;
use prony_stats::Scale;
use prony_stats::history::{HistoryChange, HistoryPoint, HistorySeries};

/// Digits of a commit that are shown.
const COMMIT_DIGITS: usize = 12;

/// Returns the name of a series: its metric and variant.
pub fn series_name(series: &HistorySeries) -> String {
    format!("{} of {}", series.metric.noun(), series.variant)
}

/// Returns the commit of a point with its subject; the run's folder if the commit is unknown.
pub fn point_name(point: &HistoryPoint) -> String {
    let Some(commit) = &point.commit else {
        return point.run.clone();
    };
    let (hash, mark) = match commit.split_once('-') {
        Some((hash, _)) => (hash, " with changes"),
        None => (commit.as_str(), ""),
    };
    let hash = hash.get(..COMMIT_DIGITS).unwrap_or(hash);
    match &point.subject {
        Some(subject) => format!("{hash} \"{subject}\"{mark}"),
        None => format!("{hash}{mark}"),
    }
}

/// Returns a change of a series as one sentence.
pub fn change(series: &HistorySeries, change: &HistoryChange) -> String {
    let shown = |value| series.metric.unit().shown(value);
    let relative = match series.metric.scale() {
        Scale::Ratio if change.before > 0.0 => {
            format!(" ({})", number::change(change.after / change.before))
        }
        _ => String::new(),
    };
    let since = series.points.get(change.point).map(point_name);
    format!(
        "{}: {} → {}{relative} since {}",
        series_name(series),
        shown(change.before),
        shown(change.after),
        since.unwrap_or_default()
    )
}
