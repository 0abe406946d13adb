//! Two runs against one another as a document.

use prony_stats::runs::RunsDocument;

use super::block::Story;
use super::paragraph::Paragraph;
use super::style::{self, Style};
use super::table::Grid;
use super::{About, flow, write};
use crate::report_view::capitalised;
use crate::runs_view as view;
use crate::verdict_view::word;
use crate::{figures, table::Table};

/// Two runs as a PDF: what their page holds.
pub fn runs(document: &RunsDocument) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let title = view::title(document);
    let about = About {
        running: format!("{title} · with prony {version}"),
        title,
        version: version.to_owned(),
    };
    let story = story(document);
    let (pages, bookmarks) = flow::pages(&story, &about);
    write::file(&pages, &bookmarks, &story.elements, &about)
}

pub(super) fn story(document: &RunsDocument) -> Story {
    let mut story = Story::default();
    let eyebrow = ("Two runs", "against one another, with prony");
    story.title(eyebrow, "", &view::title(document), None);
    story.section("Results");
    if document.comparisons.is_empty() {
        let none = "The two have no variant in common: nothing can be compared.";
        story.paragraph(&Paragraph::new(none, Style::BODY));
    }
    for between in &document.comparisons {
        let verdict = between.verdict;
        let word = verdict.map_or("", word);
        let color = verdict.map_or(style::MUTED, |verdict| style::of_tone(verdict.into()));
        let label = Style::BODY.bold().color(color);
        let sentence = Paragraph::new(&between.text, Style::BODY).before(5.0);
        story.paragraph(&sentence.indent(70.0).label(word, label));
    }
    for sentence in view::unmatched(document) {
        story.paragraph(&Paragraph::new(&sentence, Style::BODY));
    }
    for metric in view::family(document) {
        story.section(&capitalised(metric.noun()));
        story.ready(&view::result_table(document, metric));
        if let Some(chart) = figures::of_runs(document, metric) {
            story.chart(&chart, 16.0, true);
            let caption = "The band holds what counts as no difference.";
            story.paragraph(&Paragraph::new(caption, Style::NOTE));
        }
    }
    story.ready(&view::sides(document));
    story.section("What else differs");
    match view::differences(document) {
        Some(differences) => story.ready(&differences),
        None => story.paragraph(&Paragraph::new(view::SAME, Style::BODY)),
    }
    rest(&mut story, document);
    story
}

fn rest(story: &mut Story, document: &RunsDocument) {
    if !document.relative.is_empty() {
        story.section("Each against its own baseline");
        story.sub("Within the blocks of each run, so what a run's blocks share cancels.");
        for one in &document.relative {
            story.item(&one.text, Style::BODY);
        }
    }
    if let Some(gates) = view::gates_table(&document.gates) {
        story.section("Conditions");
        story.ready(&gates);
    }
    let (described, folded) = view::described(document);
    if described.is_some() || folded.is_some() {
        story.section("Other metrics");
        story.sub(
            "Without a verdict: each interval stands alone, so one in twenty misses by chance.",
        );
    }
    if let Some(described) = described {
        story.ready(&described);
    }
    if let Some(folded) = folded {
        story.paragraph(&Paragraph::new(&folded, Style::BODY).before(8.0));
    }
    story.section("Findings");
    let findings = view::findings(document);
    if findings.is_empty() {
        story.paragraph(&Paragraph::new("None in either run.", Style::BODY));
    }
    for (label, findings) in findings {
        story.subsection(&format!("In {label}"));
        for finding in findings {
            story.finding(finding);
        }
    }
    story.paragraph(&Paragraph::new(view::CAVEAT, Style::NOTE).before(14.0));
}

impl Story {
    /// A table of ready texts below what introduces it.
    fn ready(&mut self, table: &Table) {
        self.grid(&Grid::plain(table), 6.0);
    }
}
