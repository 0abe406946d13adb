//! What a report says around its charts and tables, whether it is a page or a document: the first
//! sentence, the method, what was fixed beforehand, the environment as lines.

mod environment;

use prony_stats::{Metric, Verdict, VerdictDocument};

use crate::verdict_view as view;
use crate::{Experiment, load_view, number};

pub(crate) use environment::{environment_rank, flattened};

/// What a chart of ratios shows.
pub(crate) const FOREST_CAPTION: &str = "The band holds what the plan counts as no difference. An \
    interval inside it is equivalent; one that leaves out zero may be faster or slower.";
/// What the section on CPU shows.
pub(crate) const CPU: &str = "User mode and kernel, of all processes together: means over the \
    blocks, and the share of each mode.";
/// Explains the softirq column, by the way this kernel accounts for interrupts.
pub(crate) fn softirq(included: Option<bool>) -> &'static str {
    match included {
        Some(true) => {
            "Softirq is the kernel's network processing on the whole machine, the load's share \
             included. On this kernel it is part of the other columns as well: don't add it to them."
        }
        Some(false) => {
            "Softirq is the kernel's network processing on the whole machine, the load's share \
             included. On this kernel it is charged to no process, so it comes on top of the other \
             columns."
        }
        None => {
            "Softirq is the kernel's network processing on the whole machine, the load's share \
             included. It may be part of the other columns as well: don't add it to them."
        }
    }
}
/// How to read a metric along a factor.
pub(crate) const SCALING: &str =
    "Each panel has its own scale; the grey line is growth in proportion.";
/// What the completions of loads that end with their last request are.
pub(crate) const UNTIL_DONE: &str = "Every trial asks for the same number of requests. \
    Completions since the mark before, all variants in one picture.";
/// How to read completions over time.
pub(crate) const OVER_TIME: &str = "One line for each trial, by half seconds. Lines that sink, \
    climb or jump say that the server had not settled.";
/// What comparisons without verdicts are worth.
pub(crate) const DESCRIBED: &str = "Each interval stands alone: no error rate is shared among \
    these, so one in twenty misses by chance.";

/// What the figures of a result are.
pub(crate) const RESULT: &str = "Mean over the blocks (geometric, but arithmetic for shares), and \
    the change against the reference with its 95% interval.";

/// A report's first sentence and what belongs below it in smaller type.
pub(crate) fn lead(verdict: &VerdictDocument) -> (String, Option<String>) {
    if let Some(lead) = view::lead(verdict) {
        return (lead, None);
    }
    let Some(comparison) = verdict.comparisons.first() else {
        return (
            "No complete block: nothing can be compared.".to_owned(),
            None,
        );
    };
    let text = || Some(comparison.text.clone());
    match comparison.verdict {
        Verdict::Withheld => (view::NO_VERDICT.to_owned(), text()),
        Verdict::Undecided => {
            let (name, against) = (&comparison.name, &comparison.against_name);
            (
                format!("{name} and {against} can't be told apart yet."),
                text(),
            )
        }
        // The interval reads better below the claim than within it.
        _ => match comparison.text.split_once(" (") {
            Some((claim, rest)) if rest.ends_with(')') && !rest.contains(" (") => (
                claim.to_owned(),
                Some(rest.trim_end_matches(')').to_owned()),
            ),
            _ => (comparison.text.clone(), None),
        },
    }
}

/// The method in a few sentences.
pub(crate) fn method(verdict: &VerdictDocument) -> String {
    format!(
        "Every variant ran once in each block, in an order shuffled anew for each block by the \
         seed. Services that the plan starts were started fresh for every trial, warmed up, measured \
         and stopped. A variant is compared with its baseline within the block; estimates and intervals come from \
         the {}, never from the requests inside one trial.",
        number::plural(verdict.blocks.into(), "block", "blocks")
    )
}

/// What was fixed beforehand, as names and texts.
pub(crate) fn facts(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let verdict = &experiment.verdict;
    let baseline = verdict.baseline.iter().map(|(f, l)| format!("{f} = {l}"));
    let judged = view::family(verdict).into_iter().map(Metric::noun);
    let looks = verdict.looks.iter().map(|look| look.blocks.to_string());
    let mut facts = vec![
        ("Baseline", baseline.collect::<Vec<_>>().join(", ")),
        (
            "Margin",
            format!("{} counts as no difference", number::margin(verdict.margin)),
        ),
        ("Judged on", judged.collect::<Vec<_>>().join(", ")),
        ("Blocks", number::count(verdict.blocks.into())),
        ("Seed", verdict.seed.to_string()),
    ];
    if !verdict.looks.is_empty() {
        let text = format!("after block {}", looks.collect::<Vec<_>>().join(", "));
        facts.push(("Verdicts sought", text));
    }
    if let Some(trial) = experiment.trials.first() {
        let load = &trial.record.load;
        let length = match (load.requests, load.duration_s) {
            (Some(requests), _) => number::plural(requests, "request", "requests"),
            (None, Some(duration_s)) => number::span(duration_s),
            (None, None) => number::span(trial.record.totals.elapsed_s),
        };
        let loads = load_view::all_loads(&experiment.trials);
        facts.extend(loads.into_iter().map(|load| ("Load", load)));
        facts.push((
            "Each trial",
            format!("{length}, after {} of warm-up", number::span(load.warmup_s)),
        ));
        facts.push(("Begun", trial.record.started_at.clone()));
    }
    facts
}

/// A noun as a heading. `p99` stays as it is.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_alphabetic() => {
            first.to_uppercase().collect::<String>() + chars.as_str()
        }
        _ => text.to_owned(),
    }
}
