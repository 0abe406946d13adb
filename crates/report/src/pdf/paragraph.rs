//! Texts as blocks: headings, paragraphs, lists, findings, code.

use super::block::{Block, ElementId, Op, Role, Story};
use super::style::{MUTED, Style, WIDTH};
use super::wrap::wrap;
use crate::table::plain;

/// A text and how it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Paragraph<'a> {
    pub(super) text: &'a str,
    pub(super) style: Style,
    /// What stays free above it.
    pub(super) before: f64,
    /// What stays free at its left.
    pub(super) indent: f64,
    /// Whether what follows has to stand on the same page.
    pub(super) keep: bool,
    /// What stands at the left of its first line.
    pub(super) label: Option<(&'a str, Style)>,
    /// The colour of a bar at its left.
    pub(super) bar: Option<u32>,
}

impl<'a> Paragraph<'a> {
    pub(super) fn new(text: &'a str, style: Style) -> Paragraph<'a> {
        Paragraph {
            text,
            style,
            before: 6.0,
            indent: 0.0,
            keep: false,
            label: None,
            bar: None,
        }
    }

    pub(super) fn before(self, before: f64) -> Self {
        Paragraph { before, ..self }
    }

    pub(super) fn indent(self, indent: f64) -> Self {
        Paragraph { indent, ..self }
    }

    pub(super) fn keep(self) -> Self {
        Paragraph { keep: true, ..self }
    }

    pub(super) fn label(self, label: &'a str, style: Style) -> Self {
        Paragraph {
            label: Some((label, style)),
            ..self
        }
    }

    pub(super) fn bar(self, color: u32) -> Self {
        Paragraph {
            bar: Some(color),
            ..self
        }
    }
}

/// How wide a bar at the left of a paragraph is.
const BAR: f64 = 3.0;

impl Story {
    /// Adds a paragraph, a block for each line. No page begins or ends with a single line of it.
    pub(super) fn paragraph(&mut self, paragraph: &Paragraph<'_>) {
        let element = self.element(Role::Paragraph, None);
        self.lines(paragraph, element);
    }

    /// The same as part of an element that is there.
    fn lines(&mut self, paragraph: &Paragraph<'_>, element: ElementId) {
        let Paragraph { style, indent, .. } = *paragraph;
        let lines = wrap(&plain(paragraph.text), style, WIDTH - indent);
        let count = lines.len();
        for (place, line) in lines.into_iter().enumerate() {
            let is_first = place == 0;
            let before = if is_first { paragraph.before } else { 0.0 };
            let mut ops = Vec::new();
            if let Some(color) = paragraph.bar {
                ops.extend(bar(color, style.leading));
            }
            ops.push(Op::Begin(element));
            if let (true, Some((label, style))) = (is_first, paragraph.label) {
                let text = plain(label);
                let y = paragraph.style.ascent();
                let x = if paragraph.bar.is_some() { 12.0 } else { 0.0 };
                ops.push(Op::Text { x, y, text, style });
            }
            ops.push(Op::Text {
                x: indent,
                y: style.ascent(),
                text: line,
                style,
            });
            ops.push(Op::End);
            let is_last = place + 1 == count;
            self.push(Block {
                ops,
                height: style.leading,
                before,
                keep: if is_last {
                    paragraph.keep
                } else {
                    is_first || place + 2 == count
                },
                ..Block::default()
            });
        }
    }

    /// A section's heading, kept with what follows, and its bookmark.
    pub(super) fn section(&mut self, title: &str) {
        self.heading(title, Role::Section, (Style::SECTION, 26.0), 0);
    }

    /// A heading within a section.
    pub(super) fn subsection(&mut self, title: &str) {
        self.heading(title, Role::Subsection, (Style::SUBSECTION, 13.0), 1);
    }

    fn heading(&mut self, title: &str, role: Role, (style, before): (Style, f64), level: u8) {
        let first = self.blocks.len();
        let paragraph = Paragraph::new(title, style).before(before).keep();
        self.heading_lines(&paragraph, role);
        self.blocks[first].bookmark = Some((level, plain(title)));
    }

    /// A heading without a bookmark: its lines stand together, and with what follows.
    pub(super) fn heading_lines(&mut self, heading: &Paragraph<'_>, role: Role) {
        let element = self.element(role, None);
        let first = self.blocks.len();
        self.lines(heading, element);
        for block in &mut self.blocks[first..] {
            block.keep = true;
        }
    }

    /// An item of a list.
    pub(super) fn item(&mut self, text: &str, style: Style) {
        let bullet = style.color(MUTED);
        let item = Paragraph::new(text, style).before(3.0).indent(12.0);
        self.paragraph(&item.label("•", bullet));
    }

    /// A text of several lines, each of which begins where it begins.
    pub(super) fn code(&mut self, text: &str) {
        let style = Style::CODE;
        let element = self.element(Role::Code, None);
        for line in text.lines() {
            let indent = line.len() - line.trim_start_matches(' ').len();
            let indent = (indent as f64 * style.width_of(" ")).min(WIDTH / 2.0);
            let paragraph = Paragraph::new(line, style).before(0.0);
            self.lines(&paragraph.indent(indent), element);
        }
    }

    /// Lines on a tinted ground, with a bar at their left.
    pub(super) fn card(&mut self, lines: &[(&str, Style)], bar_color: u32, ground: u32) {
        const PAD: f64 = 9.0;
        const LEFT: f64 = 14.0;
        let element = self.element(Role::Paragraph, None);
        let mut y = PAD;
        let mut texts = Vec::new();
        for &(text, style) in lines {
            for line in wrap(&plain(text), style, WIDTH - 2.0 * LEFT) {
                texts.push(Op::Text {
                    x: LEFT,
                    y: y + style.ascent(),
                    text: line,
                    style,
                });
                y += style.leading;
            }
        }
        let height = y + PAD;
        let rect = |width, color| Op::Rect {
            x: 0.0,
            y: 0.0,
            width,
            height,
            color,
            opacity: 1.0,
        };
        let mut ops = vec![
            Op::Decoration,
            rect(WIDTH, ground),
            rect(BAR, bar_color),
            Op::End,
            Op::Begin(element),
        ];
        ops.append(&mut texts);
        ops.push(Op::End);
        self.push(Block {
            ops,
            height,
            before: 14.0,
            ..Block::default()
        });
    }
}

/// A bar at the left of a line.
fn bar(color: u32, height: f64) -> [Op; 3] {
    let rect = Op::Rect {
        x: 0.0,
        y: 0.0,
        width: BAR,
        height,
        color,
        opacity: 1.0,
    };
    [Op::Decoration, rect, Op::End]
}
