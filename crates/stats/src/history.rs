//! Results of plans over time: one series for each plan, machine, variant and metric.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::change_points::change_points;
use crate::comparison::Verdict;
use crate::document::VerdictDocument;
use crate::metric::Metric;

/// Value of `schema` in new documents.
pub const HISTORY_SCHEMA: &str = "prony.history/1";

/// A stored run.
#[derive(Debug, Clone)]
pub struct HistoryRun {
    /// Path of its folder.
    pub path: String,
    /// Time of its start, as in RFC 3339.
    pub started_at: String,
    /// Description of the machines that it ran on.
    pub machine: String,
    /// Commit of the services' working directories, if all have the same.
    pub commit: Option<String>,
    /// Its results.
    pub verdict: VerdictDocument,
}

/// Histories. Readers ignore unknown keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryDocument {
    /// Always [`HISTORY_SCHEMA`].
    pub schema: String,
    /// The series.
    pub series: Vec<HistorySeries>,
}

/// One metric of one variant over time. All runs were on the same machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistorySeries {
    /// Name of the plan.
    pub plan: String,
    /// Description of the machine.
    pub machine: String,
    /// Name of the variant.
    pub variant: String,
    /// The metric.
    pub metric: Metric,
    /// The runs, oldest first.
    pub points: Vec<HistoryPoint>,
    /// Changes, oldest first.
    pub changes: Vec<HistoryChange>,
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// Path of the run's folder.
    pub run: String,
    /// Time of its start, as in RFC 3339.
    pub started_at: String,
    /// Commit of the server, if known.
    pub commit: Option<String>,
    /// First line of the commit's message, if known.
    pub subject: Option<String>,
    /// Mean over the run's blocks.
    pub value: f64,
    /// Lower end of its 95% interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

/// A change point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// Index of the first point after the change.
    pub point: usize,
    /// Mean of the points before the change, back to the change before.
    pub before: f64,
    /// Mean of the points after the change, up to the next change.
    pub after: f64,
}

/// Forms the series. `runs` are ordered from the oldest to the newest. Without `metrics`, each run
/// contributes the metrics that decided it. Values whose verdict was withheld are left out.
pub fn histories(runs: &[HistoryRun], metrics: &[Metric]) -> HistoryDocument {
    let mut series: BTreeMap<(&str, &str, &str, Metric), Vec<HistoryPoint>> = BTreeMap::new();
    for run in runs {
        let verdict = &run.verdict;
        let judged = verdict.comparisons.iter().map(|it| it.metric);
        let mut own: Vec<Metric> = metrics.to_vec();
        if own.is_empty() {
            own.extend(judged);
            own.sort_unstable();
            own.dedup();
        }
        for variant in &verdict.variants {
            let mut revisions = verdict.revisions.iter();
            let built = revisions.find(|it| it.variant == variant.name);
            let is_dirty = built
                .and_then(|it| it.worktree)
                .is_some_and(|it| it.is_dirty());
            let commit = built.map(|it| {
                let mark = if is_dirty { "-dirty" } else { "" };
                format!("{}{mark}", it.commit)
            });
            for &metric in &own {
                let is_withheld = verdict.comparisons.iter().any(|it| {
                    it.levels == variant.levels
                        && it.metric == metric
                        && it.verdict == Verdict::Withheld
                });
                let Some(summary) = variant.metrics.get(&metric).filter(|_| !is_withheld) else {
                    continue;
                };
                let key = (&*verdict.name, &*run.machine, &*variant.name, metric);
                series.entry(key).or_default().push(HistoryPoint {
                    run: run.path.clone(),
                    started_at: run.started_at.clone(),
                    commit: commit.clone().or_else(|| run.commit.clone()),
                    subject: built.map(|it| it.subject.clone()),
                    value: summary.level(metric),
                    low: summary.low,
                    high: summary.high,
                });
            }
        }
    }
    let series = series.into_iter();
    let series = series.map(|((plan, machine, variant, metric), points)| HistorySeries {
        plan: plan.to_owned(),
        machine: machine.to_owned(),
        variant: variant.to_owned(),
        metric,
        changes: changes(&points),
        points,
    });
    HistoryDocument {
        schema: HISTORY_SCHEMA.to_owned(),
        series: series.collect(),
    }
}

fn changes(points: &[HistoryPoint]) -> Vec<HistoryChange> {
    let values: Vec<f64> = points.iter().map(|it| it.value).collect();
    let found = change_points(&values);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let change = |(index, &point): (usize, &usize)| {
        let start = if index == 0 { 0 } else { found[index - 1] };
        let end = found.get(index + 1).copied().unwrap_or(values.len());
        HistoryChange {
            point,
            before: mean(&values[start..point]),
            after: mean(&values[point..end]),
        }
    };
    found.iter().enumerate().map(change).collect()
}
