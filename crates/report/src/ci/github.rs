//! Summary in GitHub-flavored Markdown, and annotations for failures.

use prony_wording::runs as wording;

use super::{Case, CaseStatus, RunVerdicts};
use crate::document::Document;
use crate::markdown;
use crate::stored::StoredContent;
use crate::table::{Table, markdown as escaped, plain};
use crate::tables;

/// Returns the summary: a headline, a table of all verdicts and conditions, and the whole report
/// collapsed below.
pub fn summary(judged: &RunVerdicts<'_>) -> String {
    let cases = judged.cases();
    let mut out = format!("### prony: {}\n\n", escaped(&judged.name()));
    out += &format!("{}\n", headline(&cases));
    for (kind, title) in [
        ("condition", "Conditions"),
        ("against", "Against the stored run"),
        ("comparison", "Verdicts"),
    ] {
        let own: Vec<&Case> = cases.iter().filter(|case| case.kind == kind).collect();
        if !own.is_empty() {
            out += &format!("\n#### {title}\n\n{}", cases_table(&own).to_markdown());
        }
    }
    if let Some(runs) = judged.runs {
        let differences = match tables::runs::differences(runs) {
            Some(table) => table.to_markdown(),
            None => format!("{}\n", escaped(&wording::nothing_differs(runs))),
        };
        let unrecorded = wording::unrecorded(runs);
        let unrecorded = unrecorded.map(|text| format!("\n{}\n", escaped(&text)));
        let differences = differences + &unrecorded.unwrap_or_default();
        out += &folded("What else differs between the two runs", &differences);
        out += &folded(
            "Both runs in full",
            &markdown::render_below(&Document::of_runs(runs), 3),
        );
    }
    if let StoredContent::Experiment(experiment) = &judged.new.content {
        out += &folded(
            "The whole report",
            &markdown::render_below(&Document::of_experiment(experiment), 3),
        );
    }
    out
}

/// States the number of results and failures.
fn headline(cases: &[Case]) -> String {
    let with = |status: CaseStatus| cases.iter().filter(|case| case.status == status).count();
    let (failed, skipped) = (with(CaseStatus::Failed), with(CaseStatus::Skipped));
    match (failed, skipped) {
        (0, 0) => format!("✓ {} judged, none failed.", cases.len()),
        (0, skipped) => {
            format!(
                "✓ {} judged, none failed; {skipped} undecided.",
                cases.len()
            )
        }
        (failed, 0) => format!("× **{failed} of {} failed.**", cases.len()),
        (failed, skipped) => format!(
            "× **{failed} of {} failed**; {skipped} undecided.",
            cases.len()
        ),
    }
}

fn cases_table(cases: &[&Case]) -> Table {
    Table::of(cases.iter().copied())
        .left("result", |case| {
            let mark = match (case.status, case.word) {
                (CaseStatus::Failed, _) => "×",
                (CaseStatus::Skipped, _) => "?",
                (CaseStatus::Passed, "faster") => "▲",
                (CaseStatus::Passed, "slower") => "▼",
                (CaseStatus::Passed, "equivalent") => "=",
                (CaseStatus::Passed, _) => "✓",
            };
            format!("{mark} {}", case.word)
        })
        .left("what", |case| case.name.as_str())
        .left("in words", |case| case.text.as_str())
        .build()
}

fn folded(title: &str, markdown: &str) -> String {
    format!("\n<details><summary>{title}</summary>\n\n{markdown}\n</details>\n")
}

/// Returns a workflow command for each failure, which GitHub reads from the step's log: `::error
/// title=…::…`, or `::notice` for an inconclusive condition.
pub fn annotations(judged: &RunVerdicts<'_>) -> String {
    let cases = judged.cases();
    let lines = cases.iter().filter_map(|case| {
        let level = match (case.status, case.kind) {
            (CaseStatus::Failed, _) => "error",
            (CaseStatus::Skipped, "condition") => "notice",
            _ => return None,
        };
        let title = format!("prony: {}", case.name);
        Some(format!(
            "::{level} title={}::{}\n",
            property(&title),
            data(&case.text)
        ))
    });
    lines.collect()
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    plain(text).replace('%', "%25")
}

/// Escapes a property of a workflow command, in which two more characters are special.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
