//! The page of two runs against one another.

use minijinja::context;
use prony_record::Finding;
use prony_stats::runs::RunsDocument;
use serde::Serialize;

use crate::chart::{self, ForestRow, palette};
use crate::report_view::capitalised;
use crate::runs_view as view;
use crate::verdict_view::word;

/// Two runs as a page.
pub fn runs(document: &RunsDocument) -> String {
    let lines: Vec<Line> = document.comparisons.iter().map(Line::of).collect();
    let results: Vec<Block> = view::family(document)
        .into_iter()
        .map(|metric| Block {
            title: capitalised(metric.noun()),
            table: view::result_table(document, metric),
            chart: forest(document, metric),
        })
        .collect();
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
        described => view::described_table(document),
        gates => view::gates_table(&document.gates),
        findings => findings(document),
        caveat => view::CAVEAT,
    };
    super::render("runs.html", context)
}

/// Each run's findings, the gravest first; none for a run without any.
fn findings(document: &RunsDocument) -> Vec<(&str, Vec<&Finding>)> {
    let runs = [&document.old.label, &document.new.label].into_iter();
    let each = runs.map(|label| {
        let own = document.findings.iter().filter(|one| one.run == *label);
        let mut own: Vec<&Finding> = own.map(|one| &one.finding).collect();
        own.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        (label.as_str(), own)
    });
    each.filter(|(_, own)| !own.is_empty()).collect()
}

/// A comparison's sentence beside its word.
#[derive(Serialize)]
struct Line<'a> {
    word: &'static str,
    text: &'a str,
}

impl Line<'_> {
    fn of(between: &prony_stats::runs::Between) -> Line<'_> {
        Line {
            word: between.verdict.map_or("", word),
            text: &between.text,
        }
    }
}

/// One metric: table and chart.
#[derive(Serialize)]
struct Block {
    title: String,
    table: crate::table::Table,
    chart: Option<chart::Chart>,
}

fn forest(document: &RunsDocument, metric: prony_stats::Metric) -> Option<chart::Chart> {
    let rows: Vec<ForestRow> = document
        .comparisons
        .iter()
        .filter(|between| between.metric == metric)
        .enumerate()
        .map(|(place, between)| ForestRow {
            name: match between.name.as_str() {
                "" => "the load".to_owned(),
                name => name.to_owned(),
            },
            color: palette::variant(place),
            ratio: between.effect.ratio,
            interval: between
                .effect
                .ratio
                .and(between.effect.low.zip(between.effect.high)),
            verdict: between.verdict.map_or("", word).to_owned(),
        })
        .collect();
    rows.iter().any(|row| row.ratio.is_some()).then(|| {
        let label = format!(
            "{} in {} as percent of {}, with 95% intervals.",
            capitalised(metric.noun()),
            document.new.label,
            document.old.label
        );
        chart::forest(label, &rows, document.margin)
    })
}
