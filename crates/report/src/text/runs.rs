//! Two runs against one another, and gates, on a terminal.

use prony_stats::gate::GateResult;
use prony_stats::runs::RunsDocument;

use super::Look;
use super::{Paint, findings};
use crate::runs_view as view;
use crate::table::{Table, plain};

/// Differences with longer texts are cut here; every file has them whole.
const LONGEST: usize = 200;

/// Two runs: the verdicts and their tables, then which runs they are and what else differs.
pub fn runs(document: &RunsDocument, look: Look) -> String {
    let paint = Paint::new(look);
    let mut out = format!("{}\n\n", paint.bold(&plain(&view::title(document))));
    for between in &document.comparisons {
        let Some(verdict) = between.verdict else {
            continue;
        };
        let mark = paint.toned(verdict.into(), view::verdict_mark(verdict));
        out += &paint.paragraph(&format!("{mark} "), 2, &between.text);
    }
    if document.comparisons.is_empty() {
        out += "The two have no variant in common: nothing can be compared.\n";
    }
    for text in view::unmatched(document) {
        out += &paint.paragraph("", 0, &text);
    }
    for metric in view::family(document) {
        let table = view::result_table(document, metric);
        out += &format!("\n{}\n", paint.dim(&table.title));
        out += &paint.table("  ", &table);
    }
    if !document.relative.is_empty() {
        out += &format!(
            "\n{}\n",
            paint.dim("each against its own baseline, then and now")
        );
        for relative in &document.relative {
            out += &paint.paragraph("  ", 2, &relative.text);
        }
    }
    let (described, folded) = view::described(document);
    if let Some(table) = described {
        out += &format!("\n{}\n", paint.dim(&table.title));
        out += &paint.table("  ", &table);
    }
    if let Some(folded) = folded {
        out.push('\n');
        out += &paint.paragraph("", 0, &folded);
    }
    out += &format!("\n{}", paint.table("", &view::sides(document)));
    out.push('\n');
    match view::differences(document) {
        Some(table) => {
            out += &format!("{}\n", paint.yellow(&table.title));
            out += &paint.table("  ", &shortened(table));
        }
        None => out += &paint.paragraph("", 0, view::SAME),
    }
    out.push('\n');
    for run in [&document.old, &document.new] {
        let own = document.findings.iter().filter(|one| one.run == run.label);
        let own: Vec<_> = own.map(|one| one.finding.clone()).collect();
        if !own.is_empty() {
            out += &format!(
                "{}\n",
                paint.dim(&format!("found in {}", plain(&run.label)))
            );
            out += &findings(&own, paint);
        }
    }
    out += &paint.dim(&paint.paragraph("", 0, view::CAVEAT));
    out + &gates(&document.gates, look)
}

fn shortened(mut table: Table) -> Table {
    for cell in table.rows.iter_mut().flatten() {
        if cell.chars().count() > LONGEST {
            *cell = cell.chars().take(LONGEST - 1).chain(['…']).collect();
        }
    }
    table
}

/// What became of each condition; empty where there were none.
pub fn gates(gates: &[GateResult], look: Look) -> String {
    let paint = Paint::new(look);
    let mut out = String::new();
    if !gates.is_empty() {
        out.push('\n');
    }
    for gate in gates {
        let word = format!("{:<11}", view::ruling_word(gate.ruling));
        let word = paint.toned(gate.ruling.into(), &word);
        out += &paint.paragraph(&word, 11, &format!("{}: {}", gate.gate, gate.text));
    }
    out
}
