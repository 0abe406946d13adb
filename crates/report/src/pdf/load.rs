//! One load as a document.

use prony_record::{Finding, Record, Severity};

use super::block::{Op, Role, Story};
use super::paragraph::Paragraph;
use super::style::{self, Style, WIDTH};
use super::table::Grid;
use super::{About, flow, write};
use crate::load_times::{self, PERCENTILES};
use crate::load_view::Tone;
use crate::table::plain;
use crate::{figures, load_view};

/// One load as a PDF: what its page holds.
pub fn load(record: &Record) -> Vec<u8> {
    let mut story = Story::default();
    let headline = load_view::headline(record);
    let eyebrow = (record.load.url.as_str(), "one load with prony");
    story.title(eyebrow, "", &headline, Some(&load_view::how(record)));
    if let Some(shortfall) = load_view::shortfall(record) {
        let line = (shortfall.as_str(), Style::BODY);
        story.card(&[line], style::CARE, style::CARE_TINT);
    }
    let (requests, failed) = load_view::requests(record);
    let (bar, ground) = match load_view::tone(record) {
        Tone::Bad => (style::BAD, style::BAD_TINT),
        Tone::Care => (style::CARE, style::CARE_TINT),
        Tone::Good => (style::GOOD, style::GOOD_TINT),
    };
    let counted = [Some(requests), failed, load_view::in_flight(record)];
    let counted: Vec<String> = counted.into_iter().flatten().collect();
    let counted = counted.join(", ");
    let gravest = load_view::gravest(record).unwrap_or_default();
    let mut lines = vec![(counted.as_str(), Style::BODY)];
    if !gravest.is_empty() {
        lines.push((&gravest, Style::NOTE));
    }
    story.card(&lines, bar, ground);

    story.section("Times");
    if !record.response_time_us.at_least.is_empty() {
        story.sub(load_view::BOUNDS);
    }
    story.grid(&Grid::plain(&load_times::table(record, &PERCENTILES)), 6.0);
    if let Some(caveat) = load_view::closed_loop_caveat(record) {
        story.paragraph(&Paragraph::new(caveat, Style::NOTE).before(8.0));
    }
    let outcomes = load_view::outcomes(record);
    if outcomes.rows.len() > 1 {
        story.section("How requests ended");
        story.grid(&Grid::plain(&outcomes), 6.0);
    }
    let agents = load_view::agents_table(record);
    if !agents.rows.is_empty() {
        story.section("Agents");
        story.grid(&Grid::plain(&agents), 6.0);
    }
    for figure in figures::load_figures(record) {
        story.section(figure.title);
        story.sub(figure.note);
        story.chart(&figure.chart, 8.0, false);
    }
    story.findings(&record.findings);
    story.section("How it was measured");
    let facts = load_view::facts(record).into_iter();
    for (name, text) in load_view::provenance(record).into_iter().chain(facts) {
        story.fact(name, &text);
    }
    let about = About {
        title: format!("{headline} · {}", record.load.url),
        running: format!(
            "{} · one load with prony {}",
            record.load.url, record.version
        ),
        version: record.version.clone(),
    };
    let (pages, bookmarks) = flow::pages(&story, &about);
    write::file(&pages, &bookmarks, &story.elements, &about)
}

impl Story {
    /// What the first page begins with: what it is of, the question, the first sentence and what
    /// belongs below it.
    pub(super) fn title(
        &mut self,
        (name, kind): (&str, &str),
        question: &str,
        lead: &str,
        detail: Option<&str>,
    ) {
        let strong = Style::EYEBROW.bold().color(style::INK);
        let room = WIDTH - Style::EYEBROW.width_of(kind) - 12.0;
        let width = strong.width_of(&plain(name));
        if width <= room {
            let kind = format!("· {kind}");
            let line = Paragraph::new(&kind, Style::EYEBROW).indent(width + 4.0);
            self.paragraph(&line.label(name, strong).keep());
        } else {
            self.paragraph(&Paragraph::new(name, strong).keep());
            self.paragraph(&Paragraph::new(kind, Style::EYEBROW).before(0.0).keep());
        }
        if !question.is_empty() {
            self.paragraph(
                &Paragraph::new(question, Style::QUESTION)
                    .before(16.0)
                    .keep(),
            );
        }
        let lead = Paragraph::new(lead, Style::LEAD).before(10.0).keep();
        self.heading_lines(&lead, Role::Title);
        if let Some(detail) = detail {
            let style = Style::BODY.color(style::MUTED);
            self.paragraph(&Paragraph::new(detail, style).before(6.0));
        }
    }

    /// What a section shows, in smaller type below its heading.
    pub(super) fn sub(&mut self, text: &str) {
        let style = Style::BODY.color(style::MUTED).size(9.0);
        self.paragraph(&Paragraph::new(text, style).before(2.0).keep());
    }

    /// The section of what was found.
    pub(super) fn findings(&mut self, findings: &[Finding]) {
        self.section("Findings");
        if findings.is_empty() {
            let none = "None: no check found anything that qualifies these results.";
            self.paragraph(&Paragraph::new(none, Style::BODY).before(4.0));
            return;
        }
        self.sub("What was seen, what it means, what to do.");
        let mut sorted: Vec<&Finding> = findings.iter().collect();
        sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        for finding in sorted {
            self.finding(finding);
        }
    }

    /// A finding: how grave it is, its name, and below it what it says.
    pub(super) fn finding(&mut self, finding: &Finding) {
        let (word, color) = match finding.severity {
            Severity::Error => ("Error", style::BAD),
            Severity::Warning => ("Warning", style::CARE),
            Severity::Note => ("Note", style::MUTED),
        };
        let label = Style::NOTE.bold().color(color);
        let left = 12.0;
        let indent = left + label.width_of(word) + 7.0;
        let head = Paragraph::new(finding.id.as_str(), Style::BODY.bold());
        let head = head.before(9.0).indent(indent).label(word, label);
        self.paragraph(&head.bar(color).keep());
        let text = Paragraph::new(&finding.text, Style::BODY).before(0.0);
        self.paragraph(&text.indent(left).bar(color));
    }

    /// A fact: its name, and beside it the text.
    pub(super) fn fact(&mut self, name: &str, text: &str) {
        let label = Style::BODY.color(style::MUTED);
        let fact = Paragraph::new(text, Style::BODY).before(3.0).indent(120.0);
        self.paragraph(&fact.label(name, label));
    }

    /// A coloured dot at the left of the last block's first line.
    pub(super) fn dot(&mut self, first: usize, x: f64, color: u32) {
        if let Some(block) = self.blocks.get_mut(first) {
            block.ops.extend([
                Op::Decoration,
                Op::Dot {
                    center: (x, Style::BODY.ascent() - Style::BODY.size * 0.36),
                    radius: 2.9,
                    color,
                    opacity: 1.0,
                },
                Op::End,
            ]);
        }
    }
}
