//! The report that compares two runs.

use prony_stats::gate::GateResult;
use prony_stats::runs::{RunComparison, RunsDocument};
use prony_wording::Tone;
use prony_wording::VerdictLine;
use prony_wording::runs as wording;
use prony_wording::verdict::{capitalized, verdict_mark, word};

use super::findings_section;
use crate::captions;
use crate::document::Audience::{Everyone, Pages};
use crate::document::{Block, Blocks, Document, Section};
use crate::figures;
use crate::tables::runs as tables;

impl Document {
    /// Builds the report that compares two runs.
    pub fn of_runs(runs: &RunsDocument) -> Document {
        let title = wording::title(runs);
        let mut document = Document {
            title: title.clone(),
            subject: title,
            kind: "two runs compared by prony",
            question: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            header: header(runs),
            sections: Vec::new(),
        };
        for metric in wording::family(runs) {
            let table = tables::results(runs, metric);
            let figure = figures::of_runs(runs, metric);
            let section = Section::new(&capitalized(metric.noun()));
            let section = section.with(Everyone, Block::Table(table));
            document.push(section.with(Pages, figure.map(Block::Chart)));
        }
        if !runs.relative.is_empty() {
            let texts = runs.relative.iter().map(|one| one.text.clone()).collect();
            let section = Section::new("Each variant against its own baseline");
            let section = section.intro(captions::RELATIVE);
            document.push(section.with(Everyone, Block::List(texts)));
        }
        document.push(described(runs));
        document
            .push(Section::new("The two runs").with(Everyone, Block::Table(tables::sides(runs))));
        let differences = match tables::differences(runs) {
            Some(table) => Block::Table(table),
            None => Block::Paragraph(wording::nothing_differs(runs)),
        };
        let unrecorded = wording::unrecorded(runs).map(Block::Paragraph);
        let section = Section::new("What else differs").with(Everyone, differences);
        document.push(section.with(Everyone, unrecorded));
        document.push(findings(runs));
        let caveat = Block::Note(captions::UNPAIRED_RUNS.to_owned());
        let section = Section::new("How to read this comparison").untitled_on_terminal();
        document.push(section.with(Everyone, caveat));
        if !runs.gates.is_empty() {
            let lines = conditions(&runs.gates);
            let section = Section::new("Conditions").untitled_on_terminal();
            document.push(section.with(Everyone, Block::Verdicts(lines)));
        }
        document
    }
}

fn header(runs: &RunsDocument) -> Blocks {
    let mut header = Blocks::default();
    header.push(Block::Lead {
        text: wording::title(runs),
        detail: None,
    });
    let lines: Vec<VerdictLine> = runs.comparisons.iter().map(comparison).collect();
    if lines.is_empty() {
        header.push(Block::Paragraph(captions::NO_COMMON_VARIANT.to_owned()))
    } else {
        header.push(Block::Verdicts(lines))
    }
    for text in wording::unmatched(runs) {
        header.push(Block::Paragraph(text));
    }
    header
}

fn comparison(between: &RunComparison) -> VerdictLine {
    VerdictLine {
        mark: Some(between.verdict.map_or("·", verdict_mark)),
        word: between.verdict.map_or("", word),
        tone: between.verdict.map_or(Tone::Muted, Tone::from),
        text: between.text.clone(),
        summarized: Vec::new(),
        variant: None,
    }
}

/// A line for each condition: its result, the condition, and the measured value.
pub(crate) fn conditions(gates: &[GateResult]) -> Vec<VerdictLine> {
    let line = |gate: &GateResult| VerdictLine {
        mark: None,
        word: wording::ruling_word(gate.ruling),
        tone: gate.ruling.into(),
        text: format!("{}: {}", gate.gate, gate.text),
        summarized: Vec::new(),
        variant: None,
    };
    gates.iter().map(line).collect()
}

/// The metrics without verdicts: a table of those that changed, and the names of the others.
fn described(runs: &RunsDocument) -> Section {
    let mut section = Section::new("Other metrics");
    let (table, unchanged) = tables::described(runs);
    if table.is_some() || unchanged.is_some() {
        section = section.intro(captions::DESCRIBED_RUNS);
    }
    section
        .with(Everyone, table.map(Block::Table))
        .with(Everyone, unchanged.map(Block::Paragraph))
}

fn findings(runs: &RunsDocument) -> Section {
    let of_runs = wording::findings(runs);
    if of_runs.is_empty() {
        return findings_section(&[], "None in either run.");
    }
    let mut section = Section::new("Findings");
    for (label, findings) in of_runs {
        section = section
            .with(Everyone, Block::Subheading(format!("In {label}")))
            .with(Everyone, Block::Findings(findings, ""));
    }
    section
}
