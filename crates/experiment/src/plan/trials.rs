//! How often and how long is measured: `[trials]`, `margin` and `metrics`.

use std::time::Duration;

use prony_stats::{Direction, MOST_BLOCKS, Metric};

use super::error::{Fault, did_you_mean};
use super::node::{Node, Value};
use super::reader::Reader;
use super::units;

/// The keys of `[trials]`.
pub(crate) const KEYS: &[&str] = &["blocks", "warmup", "duration", "budget", "seed"];

/// The keys of `blocks`.
pub(crate) const BLOCKS_KEYS: &[&str] = &["min", "max"];

/// The margin within which two variants count as equivalent, where the plan names none.
const MARGIN: f64 = 0.02;

/// How often and how long each variant is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trials {
    /// Blocks before the first verdict; at least 1.
    pub blocks_min: usize,
    /// Blocks after which undecided stays undecided; at least `blocks_min`.
    pub blocks_max: usize,
    /// Load before each measurement, which the record leaves out.
    pub warmup: Duration,
    /// Load that is measured.
    pub duration: Duration,
    /// No new block begins that would end after this time.
    pub budget: Option<Duration>,
    /// What shuffles the blocks; drawn by the runner where the plan has none.
    pub seed: Option<u64>,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            blocks_min: 5,
            blocks_max: 15,
            warmup: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            budget: None,
            seed: None,
        }
    }
}

pub(crate) fn read_trials(node: Option<&Node>, reader: &mut Reader<'_>) -> Trials {
    let mut trials = Trials::default();
    let Some(table) = node.and_then(|node| reader.table(node, "trials")) else {
        return trials;
    };
    reader.known_keys(table, "[trials]", KEYS);
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
            reader.refuse(
                Fault::BadValue,
                line,
                "duration is 0; nothing would be measured",
            );
        } else {
            trials.duration = duration;
        }
    }
    trials.budget = budget.map(|(budget, _)| budget);
    trials.seed = table
        .get("seed")
        .and_then(|node| reader.whole(node, "seed", 0..=u64::try_from(i64::MAX).unwrap_or(0)));
    trials
}

fn read_blocks(node: &Node, trials: &mut Trials, reader: &mut Reader<'_>) {
    let count = |node: &Node, what: &str, reader: &mut Reader<'_>| {
        let number = reader.whole(node, what, 1..=u64::from(MOST_BLOCKS))?;
        usize::try_from(number).ok()
    };
    let Value::Table(table) = &node.value else {
        if let Some(number) = count(node, "blocks", reader) {
            (trials.blocks_min, trials.blocks_max) = (number, number);
        }
        return;
    };
    reader.known_keys(table, "blocks", BLOCKS_KEYS);
    let min = table
        .get("min")
        .and_then(|node| count(node, "blocks.min", reader));
    let max = table
        .get("max")
        .and_then(|node| count(node, "blocks.max", reader));
    match (min, max) {
        (Some(min), Some(max)) if min > max => {
            let what = format!("blocks.min is {min}, more than blocks.max, which is {max}");
            reader.refuse(Fault::BadValue, node.line, what);
        }
        (min, max) => {
            // The bound that is not given makes room for the one that is.
            trials.blocks_min = min.unwrap_or(trials.blocks_min.min(max.unwrap_or(usize::MAX)));
            trials.blocks_max = max.unwrap_or(trials.blocks_max.max(trials.blocks_min));
        }
    }
}

/// `margin = "2%"` as 0.02.
pub(crate) fn read_margin(node: Option<&Node>, reader: &mut Reader<'_>) -> f64 {
    let Some(node) = node else { return MARGIN };
    let Some(text) = reader.scalar(node, "margin") else {
        return MARGIN;
    };
    match units::percent(&text) {
        Some(margin) if margin > 0.0 && margin <= 0.5 => margin,
        _ => {
            let what = format!("margin is \"{text}\", not a percentage above 0% and up to 50%");
            reader.refuse_with(Fault::BadValue, node.line, what, "such as \"2%\"");
            MARGIN
        }
    }
}

/// The metrics to decide by: their names in `verdict.json`, whose unit may be left out.
pub(crate) fn read_metrics(node: &Node, reader: &mut Reader<'_>) -> Vec<Metric> {
    let typed = reader.texts(node, "metrics");
    if typed.as_ref().is_some_and(Vec::is_empty) {
        reader.refuse_with(
            Fault::BadValue,
            node.line,
            "metrics is empty; a verdict needs one",
            "leave it out for the rate (closed loop) or p99 (open loop)",
        );
    }
    let mut metrics: Vec<Metric> = Vec::new();
    for name in typed.unwrap_or_default() {
        match metric_to_judge(&name) {
            Ok(metric) if metrics.contains(&metric) => {
                reader.refuse(
                    Fault::Structure,
                    node.line,
                    format!("metric \"{name}\" stands twice"),
                );
            }
            Ok(metric) => metrics.push(metric),
            Err(mend) => {
                let what = format!("no verdict can be given on \"{name}\"");
                reader.refuse_with(Fault::BadValue, node.line, what, mend);
            }
        }
    }
    metrics
}

/// The metric of this name, with or without its unit, if verdicts can be given on it.
///
/// # Errors
/// A hint at the names that exist.
pub fn metric_to_judge(name: &str) -> Result<Metric, String> {
    let judged = Metric::ALL.iter().copied();
    let judged = judged.filter(|metric| metric.direction() != Direction::Neither);
    let mut found = judged.clone();
    let found = found.find(|metric| metric.name() == name || short(*metric) == name);
    found.ok_or_else(|| {
        let names = judged.map(|metric| metric.name());
        did_you_mean(name, names.clone())
            .unwrap_or_else(|| format!("known are: {}", names.collect::<Vec<_>>().join(", ")))
    })
}

/// `rate` for `rate_per_s`, `p99` for `p99_us`.
fn short(metric: Metric) -> &'static str {
    let name = metric.name();
    ["_per_s", "_us", "_percent", "_bytes", "_share"]
        .iter()
        .find_map(|unit| name.strip_suffix(unit))
        .unwrap_or(name)
}
