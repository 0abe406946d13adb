//! Sentences about two compared runs.

use prony_record::Finding;
use prony_stats::Metric;
use prony_stats::gate::GateOutcome;
use prony_stats::runs::{RunComparison, RunsDocument};

/// The report's title: `NAME: NEW against OLD`.
pub(crate) fn title(document: &RunsDocument) -> String {
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
pub(crate) fn family(document: &RunsDocument) -> Vec<Metric> {
    let mut family = Vec::new();
    for between in &document.comparisons {
        if !family.contains(&between.metric) {
            family.push(between.metric);
        }
    }
    family
}

/// A sentence for each run that has variants that the other run lacks.
pub(crate) fn unmatched(document: &RunsDocument) -> Vec<String> {
    [
        (&document.old, &document.only_old),
        (&document.new, &document.only_new),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(run, names)| format!("Only {} has {}.", run.label, names.join("; ")))
    .collect()
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
pub(crate) fn findings(document: &RunsDocument) -> Vec<(&str, Vec<Finding>)> {
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
pub(crate) fn ruling_word(ruling: GateOutcome) -> &'static str {
    match ruling {
        GateOutcome::Failed => "failed",
        GateOutcome::Unclear => "inconclusive",
        GateOutcome::Passed => "passed",
    }
}
