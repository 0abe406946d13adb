//! Sentences about two compared runs.

use prony_record::Finding;
use prony_stats::Metric;
use prony_stats::gate::GateOutcome;
use prony_stats::runs::{RunComparison, RunsDocument, Unrecorded};

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

/// The sentence for two runs of which all stored facts are equal.
pub(crate) fn nothing_differs(document: &RunsDocument) -> String {
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
pub(crate) fn unrecorded(document: &RunsDocument) -> Option<String> {
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
