//! Converts the blocks of a document to blocks on pages.

use prony_record::{Finding, Severity};

use super::block::{DrawOp, Role, Story};
use super::paragraph::Paragraph;
use super::style::{self, BOTTOM, FontStyle, TOP, WIDTH};
use super::table::{Grid, GridCell};
use crate::chart::palette;
use crate::document::{Block, Callout, Document, Figure, Medium, VerdictLine};
use crate::table::{Align, plain};

/// The indentation of a sentence next to its verdict.
const VERDICT_INDENT: f64 = 78.0;

/// Converts the whole report to blocks on pages.
pub(super) fn story(document: &Document) -> Story {
    let mut story = Story::default();
    match document.subject_above() {
        Some(subject) => story.eyebrow(subject, document.kind),
        None => story.paragraph(&Paragraph::new(document.kind, FontStyle::EYEBROW).keep()),
    }
    if !document.question.is_empty() {
        let question = Paragraph::new(&document.question, FontStyle::QUESTION);
        story.paragraph(&question.before(16.0).keep());
    }
    for block in document.header.shown(Medium::Page) {
        story.block(block);
    }
    for (section, blocks) in document.sections_for(Medium::Page) {
        if let [Block::Environment(facts)] = blocks[..] {
            story.environment(&section.title, facts);
            continue;
        }
        story.section(&section.title);
        for (place, block) in blocks.iter().enumerate() {
            let next = blocks.get(place + 1);
            story.block(block);
            // A table stays on the same page as the explanation or chart before it.
            let is_table =
                next.is_some_and(|next| matches!(next, Block::Table(_) | Block::Folded { .. }));
            if is_table && !matches!(block, Block::Table(_)) {
                story.keep_last();
            }
        }
    }
    story
}

impl Story {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Lead { text, detail } => {
                let lead = Paragraph::new(text, FontStyle::LEAD).before(10.0).keep();
                self.heading_lines(&lead, Role::Title);
                if let Some(detail) = detail {
                    let style = FontStyle::BODY.color(style::MUTED);
                    self.paragraph(&Paragraph::new(detail, style).before(6.0));
                }
            }
            Block::Callout(callout) => self.callout(callout),
            Block::Subheading(text) => self.subsection(text),
            Block::Intro(text) => {
                let style = FontStyle::BODY.color(style::MUTED).size(9.0);
                self.paragraph(&Paragraph::new(text, style).before(2.0).keep());
            }
            Block::Paragraph(text) => self.paragraph(&Paragraph::new(text, FontStyle::BODY)),
            Block::Note(text) => {
                self.paragraph(&Paragraph::new(text, FontStyle::NOTE).before(7.0));
            }
            Block::Verdicts(lines) => self.verdicts(lines),
            Block::List(items) => items
                .iter()
                .for_each(|item| self.item(item, FontStyle::BODY)),
            Block::Facts(facts) => facts.iter().for_each(|(name, text)| self.fact(name, text)),
            Block::Table(table) => self.grid(&Grid::of(table), 6.0),
            Block::Chart(figure) => self.figure(figure),
            Block::Findings(findings, none) if findings.is_empty() => {
                self.paragraph(&Paragraph::new(none, FontStyle::BODY).before(4.0));
            }
            Block::Findings(findings, _) => findings.iter().for_each(|one| self.finding(one)),
            Block::Code(text) => self.code(text),
            Block::Environment(facts) => self.environment("The environment", facts),
            Block::Folded { summary, blocks } => {
                // A single table needs no separate heading, but a list of blocks does.
                if !matches!(blocks[..], [Block::Table(_)]) {
                    self.subsection(summary);
                }
                blocks.iter().for_each(|block| self.block(block));
            }
            Block::Histogram(_) => {}
        }
    }

    /// The line above everything else: the subject in bold, then the kind of report.
    fn eyebrow(&mut self, subject: &str, kind: &str) {
        let strong = FontStyle::EYEBROW.bold().color(style::INK);
        let room = WIDTH - FontStyle::EYEBROW.width_of(kind) - 12.0;
        let width = strong.width_of(&plain(subject));
        if width <= room {
            let kind = format!("· {kind}");
            let line = Paragraph::new(&kind, FontStyle::EYEBROW).indent(width + 4.0);
            self.paragraph(&line.label(subject, strong).keep());
        } else {
            self.paragraph(&Paragraph::new(subject, strong).keep());
            let kind = Paragraph::new(kind, FontStyle::EYEBROW);
            self.paragraph(&kind.before(0.0).keep());
        }
    }

    fn callout(&mut self, callout: &Callout) {
        let sentence = callout.sentence();
        let mut lines = match &callout.parts[..] {
            [(question, true), (answer, _)] => vec![
                (question.as_str(), FontStyle::BODY.bold()),
                (answer.trim_start(), FontStyle::BODY),
            ],
            _ => vec![(sentence.as_str(), FontStyle::BODY)],
        };
        if !callout.detail.is_empty() {
            lines.push((&callout.detail, FontStyle::NOTE));
        }
        self.card(
            &lines,
            style::of_tone(callout.tone),
            style::tint_of(callout.tone),
        );
    }

    /// Adds sentences, each next to its verdict and the dot of its variant.
    fn verdicts(&mut self, lines: &[VerdictLine]) {
        let has_dots = lines.iter().any(|line| line.variant.is_some());
        for (place, line) in lines.iter().enumerate() {
            let first = self.blocks.len();
            let word = format!("{}{}", if has_dots { "    " } else { "" }, line.word);
            let label = FontStyle::BODY.bold().color(style::of_tone(line.tone));
            let sentence = Paragraph::new(&line.text, FontStyle::BODY);
            let sentence = sentence.before(if place == 0 { 14.0 } else { 5.0 });
            self.paragraph(&sentence.indent(VERDICT_INDENT).label(&word, label));
            if let Some(variant) = line.variant {
                self.dot(first, 3.0, palette::variant(variant).light);
            }
        }
    }

    fn figure(&mut self, figure: &Figure) {
        self.chart(&figure.chart, 12.0, figure.caption.is_some());
        if let Some(caption) = figure.caption {
            self.paragraph(&Paragraph::new(caption, FontStyle::NOTE).before(6.0));
        }
    }

    /// Adds a finding: severity and name, with the text below.
    fn finding(&mut self, finding: &Finding) {
        let (word, color) = match finding.severity {
            Severity::Error => ("Error", style::BAD),
            Severity::Warning => ("Warning", style::CARE),
            Severity::Note => ("Note", style::MUTED),
        };
        let label = FontStyle::NOTE.bold().color(color);
        let left = 12.0;
        let indent = left + label.width_of(word) + 7.0;
        let head = Paragraph::new(finding.id.as_str(), FontStyle::BODY.bold());
        let head = head.before(9.0).indent(indent).label(word, label);
        self.paragraph(&head.bar(color).keep());
        let text = Paragraph::new(&finding.text, FontStyle::BODY).before(0.0);
        self.paragraph(&text.indent(left).bar(color));
    }

    /// Adds a name with its value in a column to the right.
    fn fact(&mut self, name: &str, text: &str) {
        let label = FontStyle::BODY.color(style::MUTED);
        let fact = Paragraph::new(text, FontStyle::BODY)
            .before(3.0)
            .indent(120.0);
        self.paragraph(&fact.label(name, label));
    }

    /// Adds a colored dot to the left of a block's first line.
    fn dot(&mut self, block: usize, x: f64, color: u32) {
        if let Some(block) = self.blocks.get_mut(block) {
            let style = FontStyle::BODY;
            block.ops.extend([
                DrawOp::Decoration,
                DrawOp::Dot {
                    center: (x, style.ascent() - style.size * 0.36),
                    radius: 2.9,
                    color,
                    opacity: 1.0,
                },
                DrawOp::End,
            ]);
        }
    }

    /// Adds the environment on one page. If it is longer than a page, only its first entries are
    /// shown.
    fn environment(&mut self, title: &str, facts: &[(String, String)]) {
        let made = |shown: usize| environment_part(title, facts, shown);
        let height = |part: &Story| {
            let blocks = part.blocks.iter();
            blocks.map(|block| block.before + block.height).sum::<f64>()
        };
        let mut shown = facts.len();
        while shown > 1 && height(&made(shown)) > BOTTOM - TOP {
            shown = shown * 9 / 10;
        }
        // The environment is not split. If the rest of the current page is too short, it starts a
        // new page.
        let first = self.blocks.len();
        self.append(made(shown));
        let count = self.blocks.len();
        for block in &mut self.blocks[first..count - 1] {
            block.keep = true;
        }
    }
}

/// The first `shown` entries of the environment.
fn environment_part(title: &str, facts: &[(String, String)], shown: usize) -> Story {
    /// Maximum number of lines of a value. A longer value is truncated.
    const LINES_MAX: usize = 2;
    const CHARACTERS_MAX: usize = 140;
    let small = FontStyle::CELL.size(7.2);
    let row = |(path, text): &(String, String)| {
        let mut value = GridCell::default();
        for line in text.lines().take(LINES_MAX) {
            let mut short: String = line.chars().take(CHARACTERS_MAX).collect();
            if short.len() < line.len() {
                short.push('…');
            }
            value = value.line(&short, small);
        }
        vec![GridCell::new(path, small.color(style::MUTED)), value]
    };
    let mut part = Story::default();
    part.section(title);
    let rest = facts.len() - shown;
    if rest > 0 {
        let text = format!("{rest} further entries are in environment.json.");
        part.block(&Block::Intro(text));
    }
    let grid = Grid {
        head: Vec::new(),
        align: vec![Align::Left, Align::Left],
        rows: facts[..shown].iter().map(row).collect(),
    };
    part.columns(&grid, &[WIDTH * 0.42, WIDTH * 0.58 - 12.0], 4.0);
    part
}
