//! `[trials]`, `margin` and `metrics`: the number and length of trials, and the settings for their
//! evaluation.

use std::fmt;
use std::time::Duration;

use prony_record::quantity;
use prony_stats::{BLOCKS_MAX, Direction, Metric};

use super::interleave::{Interleave, read_interleave};
use crate::diagnostic::{DiagnosticKind, did_you_mean_or_list};
use crate::reference::PlanTable;
use crate::syntax::{PlanReader, TomlNode, TomlValue};

/// Default relative difference within which two variants count as equivalent.
const DEFAULT_MARGIN: f64 = 0.02;

/// Number of blocks and length of trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialSettings {
    /// Number of blocks before the first verdict; at least 1.
    pub blocks_min: usize,
    /// Number of blocks after which the experiment ends; at least `blocks_min`.
    pub blocks_max: usize,
    /// Duration of the warm-up before each measurement. The record doesn't include it.
    pub warmup: Duration,
    /// Duration of the measured load.
    pub duration: Duration,
    /// Maximum time for all blocks. A block that would end later is not started.
    pub budget: Option<Duration>,
    /// Mode in which the trials of a block run.
    pub interleave: Interleave,
    /// Seed that determines the order of trials within blocks; if `None`, the runner chooses one.
    pub seed: Option<u64>,
}

impl Default for TrialSettings {
    fn default() -> Self {
        Self {
            blocks_min: 5,
            blocks_max: 15,
            warmup: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            budget: None,
            interleave: Interleave::default(),
            seed: None,
        }
    }
}

pub(crate) fn read_trials(node: Option<&TomlNode>, reader: &mut PlanReader<'_>) -> TrialSettings {
    let mut trials = TrialSettings::default();
    let Some(table) = node.and_then(|node| reader.table(node, "trials")) else {
        return trials;
    };
    reader.report_unknown_keys(table, "[trials]", &PlanTable::Trials.names());
    if let Some(node) = table.get("blocks") {
        read_blocks(node, &mut trials, reader);
    }
    let mut time = |key: &str| {
        let node = table.get(key)?;
        Some((reader.duration(node, key)?, node.line))
    };
    let (warmup, duration, budget) = (time("warmup"), time("duration"), time("budget"));
    if let Some((warmup, _)) = warmup {
        trials.warmup = warmup;
    }
    if let Some((duration, line)) = duration {
        if duration.is_zero() {
            reader.report(
                DiagnosticKind::BadValue,
                line,
                "duration is 0, so nothing would be measured",
            );
        } else {
            trials.duration = duration;
        }
    }
    trials.budget = budget.map(|(budget, _)| budget);
    if let Some(node) = table.get("interleave") {
        trials.interleave = read_interleave(node, reader);
    }
    trials.seed = table
        .get("seed")
        .and_then(|node| reader.whole(node, "seed", 0..=u64::try_from(i64::MAX).unwrap_or(0)));
    trials
}

fn read_blocks(node: &TomlNode, trials: &mut TrialSettings, reader: &mut PlanReader<'_>) {
    let count = |node: &TomlNode, subject: &str, reader: &mut PlanReader<'_>| {
        let number = reader.whole(node, subject, 1..=u64::from(BLOCKS_MAX))?;
        usize::try_from(number).ok()
    };
    let TomlValue::Table(table) = &node.value else {
        if let Some(number) = count(node, "blocks", reader) {
            (trials.blocks_min, trials.blocks_max) = (number, number);
        }
        return;
    };
    reader.report_unknown_keys(table, "blocks", &PlanTable::Blocks.names());
    let min = table
        .get("min")
        .and_then(|node| count(node, "blocks.min", reader));
    let max = table
        .get("max")
        .and_then(|node| count(node, "blocks.max", reader));
    match (min, max) {
        (Some(min), Some(max)) if min > max => {
            let message = format!("blocks.min ({min}) is more than blocks.max ({max})");
            reader.report(DiagnosticKind::BadValue, node.line, message);
        }
        (min, max) => {
            // If the plan sets only one bound, beyond the default of the other, adjust that
            // default.
            trials.blocks_min = min.unwrap_or(trials.blocks_min.min(max.unwrap_or(usize::MAX)));
            trials.blocks_max = max.unwrap_or(trials.blocks_max.max(trials.blocks_min));
        }
    }
}

/// Reads the margin; `"2%"` becomes 0.02.
pub(crate) fn read_margin(node: Option<&TomlNode>, reader: &mut PlanReader<'_>) -> f64 {
    let Some(node) = node else {
        return DEFAULT_MARGIN;
    };
    let Some(text) = reader.scalar(node, "margin") else {
        return DEFAULT_MARGIN;
    };
    match quantity::percent(&text) {
        Some(margin) if margin > 0.0 && margin <= 0.5 => margin,
        _ => {
            let message =
                format!("margin is \"{text}\", not a percentage above 0% and at most 50%");
            reader.report_with_hint(
                DiagnosticKind::BadValue,
                node.line,
                message,
                "such as \"2%\"",
            );
            DEFAULT_MARGIN
        }
    }
}

/// Reads the metrics that get a verdict. Names are the same as in `verdict.json`, with or without
/// the unit.
pub(crate) fn read_metrics(node: &TomlNode, reader: &mut PlanReader<'_>) -> Vec<Metric> {
    let text = reader.texts(node, "metrics");
    if text.as_ref().is_some_and(Vec::is_empty) {
        reader.report_with_hint(
            DiagnosticKind::BadValue,
            node.line,
            "metrics is empty; a verdict needs at least one",
            "remove the key to get the default: rate (closed loop) or p99 (open loop)",
        );
    }
    let mut metrics: Vec<Metric> = Vec::new();
    for name in text.unwrap_or_default() {
        match metric_to_judge(&name) {
            Ok(metric) if metrics.contains(&metric) => {
                reader.report(
                    DiagnosticKind::Structure,
                    node.line,
                    format!("metric \"{name}\" is listed twice"),
                );
            }
            Ok(metric) => metrics.push(metric),
            Err(hint) => {
                let message = format!("\"{name}\" is not a metric that can have a verdict");
                let hint = hint.to_string();
                reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
            }
        }
    }
    metrics
}

/// Finds a metric that can have a verdict, by its name with or without the unit.
///
/// # Errors
/// No such metric can have a verdict.
pub fn metric_to_judge(name: &str) -> Result<Metric, NotJudged> {
    let found = judged().find(|metric| metric.name() == name || short(*metric) == name);
    found.ok_or_else(|| NotJudged(name.to_owned()))
}

/// Metrics that can have a verdict.
fn judged() -> impl Iterator<Item = Metric> + Clone {
    let all = Metric::ALL.iter().copied();
    all.filter(|metric| metric.direction() != Direction::Neither)
}

/// The name of no metric that can have a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJudged(String);

/// Formats a hint with the valid names.
impl fmt::Display for NotJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = judged().map(|metric| metric.name());
        f.write_str(&did_you_mean_or_list(&self.0, names, "known metrics"))
    }
}

impl std::error::Error for NotJudged {}

/// Returns the metric's name without its unit: `rate` for `rate_per_s`, `p99` for `p99_us`.
fn short(metric: Metric) -> &'static str {
    let name = metric.name();
    ["_per_s", "_us", "_percent", "_bytes", "_share"]
        .iter()
        .find_map(|unit| name.strip_suffix(unit))
        .unwrap_or(name)
}
