//! The page of two runs against one another.

use minijinja::context;
use prony_stats::gate::GateResult;
use prony_stats::runs::RunsDocument;
use serde::Serialize;

use crate::chart::Chart;
use crate::figures;
use crate::report_view::capitalised;
use crate::runs_view as view;
use crate::verdict_view::{Tone, word};

/// Two runs as a page.
pub fn runs(document: &RunsDocument) -> String {
    let lines: Vec<Line> = document.comparisons.iter().map(Line::of).collect();
    let results: Vec<Block> = view::family(document)
        .into_iter()
        .map(|metric| Block {
            title: capitalised(metric.noun()),
            table: view::result_table(document, metric),
            chart: figures::of_runs(document, metric),
        })
        .collect();
    let (described, folded) = view::described(document);
    let context = context! {
        style => super::style(),
        version => env!("CARGO_PKG_VERSION"),
        title => view::title(document),
        sides => view::sides(document),
        differences => view::differences(document),
        same => view::SAME,
        lines,
        unmatched => view::unmatched(document),
        results,
        relative => document.relative.iter().map(|one| &one.text).collect::<Vec<_>>(),
        described,
        folded,
        gates => document.gates.iter().map(GateLine::of).collect::<Vec<_>>(),
        findings => view::findings(document),
        caveat => view::CAVEAT,
    };
    super::render("runs.html", context)
}

/// A comparison's sentence next to its word.
#[derive(Serialize)]
struct Line<'a> {
    word: &'static str,
    tone: Tone,
    text: &'a str,
}

impl Line<'_> {
    fn of(between: &prony_stats::runs::Between) -> Line<'_> {
        Line {
            word: between.verdict.map_or("", word),
            tone: between.verdict.map_or(Tone::Muted, Tone::from),
            text: &between.text,
        }
    }
}

/// A condition beside what became of it.
#[derive(Serialize)]
struct GateLine<'a> {
    tone: Tone,
    word: &'static str,
    gate: &'a str,
    text: &'a str,
}

impl GateLine<'_> {
    fn of(gate: &GateResult) -> GateLine<'_> {
        GateLine {
            tone: gate.ruling.into(),
            word: view::ruling_word(gate.ruling),
            gate: &gate.gate,
            text: &gate.text,
        }
    }
}

/// One metric: table and chart.
#[derive(Serialize)]
struct Block {
    title: String,
    table: crate::table::Table,
    chart: Option<Chart>,
}
