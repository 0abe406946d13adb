//! For GitHub: a summary in its Markdown, and annotations of what failed.

use super::{Case, Fate, Judged};
use crate::stored::Content;
use crate::table::{Align, plain};
use crate::table::{Table, markdown as escaped};
use crate::{markdown, runs_markdown, runs_view};

/// The summary: a line, a table with every verdict and condition, and the whole report folded below.
pub fn summary(judged: &Judged<'_>) -> String {
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
            out += &format!("\n#### {title}\n\n{}", table(&own).to_markdown());
        }
    }
    if let Some(runs) = judged.runs {
        let differences = match runs_view::differences(runs) {
            Some(table) => table.to_markdown(),
            None => format!("{}\n", escaped(runs_view::SAME)),
        };
        out += &folded("What else differs between the two runs", &differences);
        out += &folded("Both runs in full", &lowered(&runs_markdown::runs(runs)));
    }
    if let Content::Experiment(experiment) = &judged.new.content {
        out += &folded("The whole report", &lowered(&markdown::report(experiment)));
    }
    out
}

/// How many of what.
fn headline(cases: &[Case]) -> String {
    let with = |fate: Fate| cases.iter().filter(|case| case.fate == fate).count();
    let (failed, skipped) = (with(Fate::Failed), with(Fate::Skipped));
    match (failed, skipped) {
        (0, 0) => format!("✓ {} judged, none failed.", cases.len()),
        (0, skipped) => {
            format!(
                "✓ {} judged, none failed; {skipped} can't be told.",
                cases.len()
            )
        }
        (failed, 0) => format!("× **{failed} of {} failed.**", cases.len()),
        (failed, skipped) => format!(
            "× **{failed} of {} failed**; {skipped} can't be told.",
            cases.len()
        ),
    }
}

fn table(cases: &[&Case]) -> Table {
    let mut table = Table::new("", &["result", "what", "in words"]);
    for (_, align) in &mut table.columns {
        *align = Align::Left;
    }
    for case in cases {
        let mark = match (case.fate, case.word) {
            (Fate::Failed, _) => "×",
            (Fate::Skipped, _) => "?",
            (Fate::Passed, "faster") => "▲",
            (Fate::Passed, "slower") => "▼",
            (Fate::Passed, "equivalent") => "=",
            (Fate::Passed, _) => "✓",
        };
        table.push(vec![
            format!("{mark} {}", case.word),
            case.name.clone(),
            case.text.clone(),
        ]);
    }
    table
}

fn folded(title: &str, markdown: &str) -> String {
    format!("\n<details><summary>{title}</summary>\n\n{markdown}\n</details>\n")
}

/// The same with its headings further down, as part of a larger text.
fn lowered(markdown: &str) -> String {
    let lines = markdown.lines().map(|line| match line.starts_with('#') {
        true => format!("###{line}\n"),
        false => format!("{line}\n"),
    });
    lines.collect()
}

/// A line for each thing that failed, as GitHub reads it from a step's log:
/// `::error title=…::…`; for what can't be told `::notice`.
pub fn annotations(judged: &Judged<'_>) -> String {
    let cases = judged.cases();
    let lines = cases.iter().filter_map(|case| {
        let level = match (case.fate, case.kind) {
            (Fate::Failed, _) => "error",
            (Fate::Skipped, "condition") => "notice",
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

/// A message as workflow commands carry it.
fn data(text: &str) -> String {
    plain(text).replace('%', "%25")
}

/// A property, in which two further characters mean something.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
