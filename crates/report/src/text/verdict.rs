//! What `prony compare` prints at its end.

use std::path::Path;

use prony_stats::{Verdict, VerdictDocument};

use super::Look;
use super::{Paint, findings};
use crate::table::plain;
use crate::verdict_view as view;

/// A terminal shows so many of the things that moved; the report has all of them.
const MOVED: usize = 5;

/// What moved with each difference; nothing where there is none.
fn why(verdict: &VerdictDocument, paint: Paint) -> String {
    let mut out = String::new();
    for why in &verdict.why {
        out += &format!("\nwhy: {}\n", plain(&view::heading(why)));
        out += &paint.paragraph("  ", 2, &why.text);
        for limit in &why.limits {
            out += &paint.paragraph("  - ", 4, &limit.text);
        }
        if let Some(table) = view::moved_table(why, MOVED) {
            out += &table.to_text("  ");
        }
        if let Some(more) = why.moved.len().checked_sub(MOVED + 1) {
            out += &paint.dim(&format!("  {} more moved; the report has them\n", more + 1));
        }
    }
    out
}

/// The verdict of an experiment: its sentences, the table, the effects of the factors, the
/// findings, and where the report lies (if it was written).
pub fn verdict(verdict: &VerdictDocument, report: Option<&Path>, look: Look) -> String {
    let paint = Paint::new(look);
    let mut out = String::new();
    if !verdict.question.is_empty() {
        out += &format!("{}\n\n", paint.bold(&plain(&verdict.question)));
    }
    if let Some(lead) = view::lead(verdict) {
        out += &paint.paragraph("", 0, &lead);
    }
    for comparison in &verdict.comparisons {
        let mark = match comparison.verdict {
            Verdict::Faster => paint.green("▲"),
            Verdict::Slower => paint.yellow("▼"),
            Verdict::Equivalent => paint.green("="),
            Verdict::Undecided => paint.dim("?"),
            Verdict::Withheld => paint.red("×"),
        };
        out += &paint.paragraph(&format!("{mark} "), 2, &comparison.text);
    }
    if verdict.comparisons.is_empty() {
        out += "No complete block: nothing can be compared.\n";
    }
    for metric in view::family(verdict) {
        let table = view::result_table(verdict, metric);
        out += &format!("\n{}\n", paint.dim(&table.title));
        out += &table.to_text("  ");
    }
    let effects = view::effects(verdict);
    if !effects.is_empty() {
        out.push('\n');
    }
    for effect in effects {
        out += &paint.paragraph("", 0, effect);
    }
    out += &why(verdict, paint);
    if let Some(table) = view::cpu_table(verdict) {
        out += &format!("\n{}\n", paint.dim(&table.title));
        out += &table.to_text("  ");
    }
    out.push('\n');
    if !verdict.findings.is_empty() {
        out += &findings(&verdict.findings, paint);
        out.push('\n');
    }
    out += &paint.dim(&view::basis(verdict));
    out.push('\n');
    if let Some(report) = report {
        out += &format!("report: {}\n", plain(&report.display().to_string()));
    }
    out
}
