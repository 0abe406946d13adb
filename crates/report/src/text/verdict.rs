//! What `prony compare` prints at its end.

use std::path::Path;

use prony_stats::VerdictDocument;

use super::Look;
use super::{Paint, findings};
use crate::runs_view::verdict_mark;
use crate::table::{Table, plain};
use crate::verdict_view as view;

/// Most changes that a terminal shows of one difference; the report has all of them.
const MOVED_MAX: usize = 5;

/// The verdict of an experiment: the lead, the table of the leading metric, rate, response times and
/// failures of each variant, the verdicts in words, the effects of the factors, what changed along,
/// the findings, and the path of the report (if it was written).
pub fn verdict(verdict: &VerdictDocument, report: Option<&Path>, look: Look) -> String {
    let paint = Paint::new(look);
    let mut out = String::new();
    if !verdict.question.is_empty() {
        out += &format!("{}\n\n", paint.bold(&plain(&verdict.question)));
    }
    let lines = view::lines(verdict);
    let is_one = verdict.comparisons.len() == 1;
    match view::lead(verdict) {
        Some(lead) => out += &paint.paragraph("", 0, &lead),
        None if is_one => out += &words(&lines, paint),
        None => out += "No complete block: nothing can be compared.\n",
    }
    if let Some(noise) = view::noise(verdict) {
        out += &paint.paragraph("", 0, &noise);
    }
    let family = view::family(verdict).into_iter();
    let mut tables = family.map(|metric| view::result_list(verdict, metric));
    out += &tables
        .next()
        .map_or(String::new(), |first| titled(&first, paint));
    out += &titled(&view::variants_table(verdict), paint);
    out += &tables
        .map(|table| titled(&table, paint))
        .collect::<String>();
    if !is_one && !lines.is_empty() {
        out.push('\n');
        out += &words(&lines, paint);
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
        out += &titled(&table, paint);
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

/// The comparisons in words, each with its verdict's mark.
fn words(lines: &[view::Line], paint: Paint) -> String {
    let line = |line: &view::Line| {
        let mark = paint.toned(line.tone, verdict_mark(line.verdict));
        paint.paragraph(&format!("{mark} "), 2, &line.text)
    };
    lines.iter().map(line).collect()
}

/// A table below its title; none without rows.
fn titled(table: &Table, paint: Paint) -> String {
    match table.rows.is_empty() {
        true => String::new(),
        false => format!(
            "\n{}\n{}",
            paint.dim(&table.title),
            paint.table("  ", table)
        ),
    }
}

/// What changed along with each difference.
fn why(verdict: &VerdictDocument, paint: Paint) -> String {
    let mut out = String::new();
    for why in view::whys(verdict) {
        out += &format!("\nwhy: {}\n", plain(&view::heading(why)));
        out += &paint.paragraph("  ", 2, &why.text);
        for limit in &why.limits {
            out += &paint.paragraph("  - ", 4, &limit.text);
        }
        if let Some(table) = view::moved_table(why, MOVED_MAX) {
            out += &paint.table("  ", &table);
        }
        let more = why.moved.len().saturating_sub(MOVED_MAX);
        if more > 0 {
            out += &paint.dim(&format!("  {more} more; the report has all of them"));
            out.push('\n');
        }
    }
    out
}
