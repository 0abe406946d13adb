//! Sentences about the comparison of two runs.

use super::{counted, statement};
use crate::change::Change;
use crate::comparison::{Effect, Verdict};
use crate::design::INTERVAL_BLOCKS_MIN;
use crate::metric::{Metric, Scale};
use crate::run_comparison::{RelativeChange, RunComparison, RunInfo, RunPairInfo};

/// Name of a variant in one of the runs: `tcp in B`.
fn within(name: &str, label: &str) -> String {
    if name.is_empty() {
        label.to_owned()
    } else {
        format!("{name} in {label}")
    }
}

/// Basis of an estimate: `95% interval 2.2% to 4.0%, 8 and 6 blocks`.
fn basis(between: &RunComparison, about: &RunPairInfo, range: Option<String>) -> String {
    let (old, new) = (between.old_trials, between.new_trials);
    let unit = &about.new.unit;
    let counts = match (old, new) {
        (1, 1) => format!("1 {unit} each"),
        (old, new) if old == new => format!("{old} {unit}s each"),
        (old, new) => format!("{old} and {}", counted(new, unit)),
    };
    match range {
        Some(range) => format!("95% interval {range}, {counts}"),
        None => counts,
    }
}

/// Subject of a sentence: `p99 response time of tcp in B against A`.
fn subject(between: &RunComparison, about: &RunPairInfo) -> String {
    format!(
        "{} against {}",
        within(&between.name, &about.new.label),
        about.old.label
    )
}

pub(crate) fn verdict(
    between: &RunComparison,
    verdict: Verdict,
    about: &RunPairInfo,
    margin: f64,
) -> String {
    let Some(change) = Change::of(between.metric, &between.effect) else {
        return String::new();
    };
    let (new, old) = (
        within(&between.name, &about.new.label),
        within(&between.name, &about.old.label),
    );
    let noun = between.metric.noun();
    match verdict {
        Verdict::Faster | Verdict::Slower => {
            let word = match (between.metric, verdict) {
                (Metric::RatePerS | Metric::CapacityPerS, _) => "",
                (Metric::P50Us | Metric::P99Us, Verdict::Faster) => "faster; ",
                (Metric::P50Us | Metric::P99Us, _) => "slower; ",
                (_, Verdict::Faster) => "better; ",
                _ => "worse; ",
            };
            format!(
                "{} ({word}{})",
                statement(between.metric, &new, &old, &change),
                basis(between, about, change.range())
            )
        }
        Verdict::Equivalent => {
            let margin = (margin * 1e6).round() / 1e4;
            let unit = match between.metric.scale() {
                Scale::Ratio => "%",
                Scale::Difference => " points",
            };
            format!(
                "{new} and {old} are equivalent within ±{margin}{unit} ({noun} {}, {})",
                change.signed(),
                basis(between, about, change.signed_range())
            )
        }
        Verdict::Undecided | Verdict::Withheld => format!(
            "{new} and {old} can't be distinguished: {noun} {} ({}); more or longer {}s would \
             narrow the interval",
            change.signed(),
            basis(between, about, change.signed_range()),
            about.new.unit
        ),
    }
}

pub(crate) fn withheld(between: &RunComparison, about: &RunPairInfo, reason: &str) -> String {
    let subject = subject(between, about);
    let noun = between.metric.noun();
    match Change::of(between.metric, &between.effect) {
        Some(change) => format!(
            "{subject}: {noun} {} ({}), verdict withheld: {reason}",
            change.signed(),
            basis(between, about, change.signed_range())
        ),
        None => format!("{subject}: {noun}, verdict withheld: {reason}"),
    }
}

/// Reason why one run's verdict was withheld, as a phrase that completes a sentence.
pub(crate) fn withheld_in(run: &RunInfo, reason: &str) -> String {
    format!("in {}, {reason}", run.label)
}

/// Reason why a run lacks values of a metric, as a phrase that completes a sentence.
pub(crate) fn unmeasured(run: &RunInfo, metric: Metric, numbers: &[String]) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!(
        "{} has no {} in {}{plural} {} (zero, or not measured)",
        run.label,
        metric.noun(),
        run.unit,
        numbers.join(", ")
    )
}

/// Reason why there are too few trials for a verdict, as a phrase that completes a sentence.
pub(crate) fn too_few(about: &RunPairInfo, old: usize, new: usize) -> String {
    let unit = &about.new.unit;
    match (old, new) {
        (1, 1) => format!(
            "one {unit} per run doesn't show how much {unit}s vary; an interval needs \
             {INTERVAL_BLOCKS_MIN} per run"
        ),
        _ => format!(
            "an interval needs {INTERVAL_BLOCKS_MIN} {unit}s per run, but {} has {old} and {} has {new}",
            about.old.label, about.new.label
        ),
    }
}

pub(crate) fn description(between: &RunComparison, about: &RunPairInfo) -> String {
    let Some(change) = Change::of(between.metric, &between.effect) else {
        return String::new();
    };
    format!(
        "{}: {} {} ({})",
        subject(between, about),
        between.metric.noun(),
        change.signed(),
        basis(between, about, change.signed_range())
    )
}

/// Returns `tcp against unix: request rate −3.1% in A, −4.9% in B; the ratio changed by −1.9% (95%
/// interval …)`.
pub(crate) fn relative(relative: &RelativeChange, about: &RunPairInfo) -> String {
    let Some(change) = Change::of(relative.metric, &relative.effect) else {
        return String::new();
    };
    let shown = |value: f64| {
        let is_ratio = relative.metric.scale() == Scale::Ratio;
        let effect = Effect {
            ratio: is_ratio.then_some(value),
            difference: (!is_ratio).then_some(value),
            low: None,
            high: None,
        };
        Change::of(relative.metric, &effect).map_or(String::new(), |change| change.signed())
    };
    let what = match relative.metric.scale() {
        Scale::Ratio => "the ratio",
        Scale::Difference => "the difference",
    };
    let range = change.signed_range();
    format!(
        "{} against {}: {} {} in {}, {} in {}; {what} changed by {}{}",
        relative.name,
        relative.against_name,
        relative.metric.noun(),
        shown(relative.old),
        about.old.label,
        shown(relative.new),
        about.new.label,
        change.signed(),
        range.map_or(String::new(), |range| format!(" (95% interval {range})"))
    )
}
