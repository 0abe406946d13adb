//! Sentences about the comparison of two runs.

use prony_record::Finding;
use prony_stats::gate::GateOutcome;
use prony_stats::runs::{
    RelativeChange, RunComparison, RunInfo, RunWithheld, RunsDocument, Unrecorded,
};
use prony_stats::{Effect, INTERVAL_BLOCKS_MIN, Metric, Scale, Verdict};

use crate::change::Change;
use crate::comparisons::reason;
use crate::statement::{counted, numbered, statement};

/// The two runs that sentences name by their labels.
#[derive(Clone, Copy)]
struct Sides<'a> {
    old: &'a RunInfo,
    new: &'a RunInfo,
}

/// Composes the sentences of a comparison of two runs.
pub fn compose(document: &mut RunsDocument) {
    let about = Sides {
        old: &document.old,
        new: &document.new,
    };
    for one in &mut document.comparisons {
        one.text = match (&one.withheld, one.verdict) {
            (Some(because), _) => withheld(one, about, because),
            (None, Some(of)) => verdict(one, of, about, document.margin),
            (None, None) => String::new(),
        };
    }
    for one in &mut document.described {
        one.text = description(one, about);
    }
    for one in &mut document.relative {
        one.text = relative(one, about);
    }
}

/// Name of a variant in one of the runs: `tcp in B`.
fn within(name: &str, label: &str) -> String {
    if name.is_empty() {
        label.to_owned()
    } else {
        format!("{name} in {label}")
    }
}

/// Basis of an estimate: `95% interval 2.2% to 4.0%, 8 and 6 blocks`.
fn basis(between: &RunComparison, about: Sides<'_>, range: Option<String>) -> String {
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
fn subject(between: &RunComparison, about: Sides<'_>) -> String {
    format!(
        "{} against {}",
        within(&between.name, &about.new.label),
        about.old.label
    )
}

fn verdict(between: &RunComparison, verdict: Verdict, about: Sides<'_>, margin: f64) -> String {
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
                (metric, _) if metric.is_rate() => "",
                (metric, Verdict::Faster) if metric.is_time() => "faster; ",
                (metric, _) if metric.is_time() => "slower; ",
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

fn withheld(between: &RunComparison, about: Sides<'_>, because: &RunWithheld) -> String {
    let reason = withheld_reason(between, about, because);
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

/// Returns the reason why there is no verdict, as a phrase that completes a sentence.
fn withheld_reason(between: &RunComparison, about: Sides<'_>, because: &RunWithheld) -> String {
    let unit = &about.new.unit;
    match because {
        RunWithheld::Own { run, because } => {
            let own = reason(
                because,
                between.metric.noun(),
                [&between.name, "its baseline"],
            );
            format!("in {run}, {own}")
        }
        RunWithheld::Unmeasured { run, trials } => {
            let of = if *run == about.old.label {
                about.old
            } else {
                about.new
            };
            format!(
                "{run} has no {} in {} (zero, or not measured)",
                between.metric.noun(),
                numbered(&of.unit, trials)
            )
        }
        RunWithheld::TooFew { old: 1, new: 1 } => format!(
            "one {unit} per run doesn't show how much {unit}s vary; an interval needs \
             {INTERVAL_BLOCKS_MIN} per run"
        ),
        RunWithheld::TooFew { old, new } => format!(
            "an interval needs {INTERVAL_BLOCKS_MIN} {unit}s per run, but {} has {old} and {} has \
             {new}",
            about.old.label, about.new.label
        ),
    }
}

fn description(between: &RunComparison, about: Sides<'_>) -> String {
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
fn relative(relative: &RelativeChange, about: Sides<'_>) -> String {
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

/// The report's title: `NAME: NEW against OLD`.
pub fn title(document: &RunsDocument) -> String {
    let name = match document.new.name.as_str() {
        "" => String::new(),
        name => format!("{name}: "),
    };
    format!(
        "{name}{} against {}",
        document.new.label, document.old.label
    )
}

/// The metrics that have verdicts, in the order of the document.
pub fn family(document: &RunsDocument) -> Vec<Metric> {
    let mut family = Vec::new();
    for between in &document.comparisons {
        if !family.contains(&between.metric) {
            family.push(between.metric);
        }
    }
    family
}

/// A sentence for each run that has variants that the other run lacks.
pub fn unmatched(document: &RunsDocument) -> Vec<String> {
    [
        (&document.old, &document.only_old),
        (&document.new, &document.only_new),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(run, names)| format!("Only {} has {}.", run.label, names.join("; ")))
    .collect()
}

/// The sentence for two runs of which all stored facts are equal.
pub fn nothing_differs(document: &RunsDocument) -> String {
    let lacks = |is_of: fn(&Unrecorded) -> bool| document.unrecorded.iter().any(is_of);
    let equal = if lacks(|it| matches!(it, Unrecorded::LoadFiles)) {
        "machine and settings of the load"
    } else if lacks(|it| {
        matches!(
            it,
            Unrecorded::Sources { .. } | Unrecorded::PlanFiles { .. }
        )
    }) {
        "machine, programs, plan and load"
    } else {
        "machine, programs, files that commands or the plan name, Git commits, plan and load"
    };
    format!("No other stored fact differs: {equal} are the same.")
}

/// States what is not known about the two runs; `None` if everything is stored.
pub fn unrecorded(document: &RunsDocument) -> Option<String> {
    let of = |services: &[String]| match services {
        [one] => format!("service {one}"),
        many => format!("services {}", many.join(", ")),
    };
    let parts = document.unrecorded.iter().map(|fact| match fact {
        Unrecorded::Sources { runs } => format!(
            "the contents of files that commands name, and Git commits (not recorded in {})",
            runs.join(" and ")
        ),
        Unrecorded::PlanFiles { runs } => {
            let runs = runs.join(" and ");
            format!("the contents of files that the plan names (not recorded in {runs})")
        }
        Unrecorded::UnnamedFiles { services } => format!(
            "files of {} that the command does not name (Git's state of the working directory is \
             not known)",
            of(services)
        ),
        Unrecorded::UntrackedFiles { services } => format!(
            "files of {} that the command does not name and that are not committed (the working \
             directory has such files)",
            of(services)
        ),
        Unrecorded::Libraries => {
            "the contents of shared libraries, and of packages outside of the \
             working directories"
                .to_owned()
        }
        Unrecorded::LoadFiles => "the contents of lists, bodies and data files".to_owned(),
        Unrecorded::OtherServers => "what runs on servers that prony did not start".to_owned(),
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("Not recorded, so it may differ: {}.", parts.join("; ")))
}

/// Each regression that is established or can't be ruled out, with its ruling.
pub fn regressions(document: &RunsDocument) -> Vec<(&RunComparison, GateOutcome)> {
    let all = document.comparisons.iter();
    let mut found: Vec<(&RunComparison, GateOutcome)> = all
        .filter_map(|between| Some((between, between.regression?)))
        .filter(|(_, ruling)| *ruling != GateOutcome::Passed)
        .collect();
    found.sort_by_key(|(_, ruling)| *ruling);
    found
}

/// The findings of each run that has any, the most severe first.
pub fn findings(document: &RunsDocument) -> Vec<(&str, Vec<Finding>)> {
    let runs = [&document.old.label, &document.new.label].into_iter();
    let each = runs.map(|label| {
        let own = document.findings.iter().filter(|one| one.run == *label);
        let mut own: Vec<Finding> = own.map(|one| one.finding.clone()).collect();
        own.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        (label.as_str(), own)
    });
    each.filter(|(_, own)| !own.is_empty()).collect()
}

/// The result of a condition as a word.
pub fn ruling_word(ruling: GateOutcome) -> &'static str {
    match ruling {
        GateOutcome::Failed => "failed",
        GateOutcome::Unclear => "inconclusive",
        GateOutcome::Passed => "passed",
    }
}
