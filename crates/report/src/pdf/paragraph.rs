//! Headings, paragraphs, lists and code as blocks.

use super::block::{DrawOp, ElementId, PageBlock, Role, Story};
use super::style::{FontStyle, MUTED, WIDTH};
use super::wrap::wrap;
use crate::table::plain;

/// Text of a paragraph with its layout.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Paragraph<'a> {
    pub(super) text: &'a str,
    pub(super) style: FontStyle,
    /// Space above the paragraph, in points.
    pub(super) before: f64,
    /// Indentation of the paragraph, in points.
    pub(super) indent: f64,
    /// True if the next block must be on the same page.
    pub(super) keep: bool,
    /// Text to the left of the first line.
    pub(super) label: Option<(&'a str, FontStyle)>,
    /// Color of a bar to the left of the paragraph.
    pub(super) bar: Option<u32>,
}

impl<'a> Paragraph<'a> {
    pub(super) fn new(text: &'a str, style: FontStyle) -> Paragraph<'a> {
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

    pub(super) fn label(self, label: &'a str, style: FontStyle) -> Self {
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

/// The width of a bar to the left of a paragraph.
const BAR_WIDTH: f64 = 3.0;

impl Story {
    /// Adds a paragraph with one block per line. A page never begins or ends with a single line of
    /// a paragraph.
    pub(super) fn paragraph(&mut self, paragraph: &Paragraph<'_>) {
        let element = self.element(Role::Paragraph, None);
        self.lines(paragraph, element);
    }

    /// Adds the lines of a paragraph to an existing element.
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
            ops.push(DrawOp::Begin(element));
            if let (true, Some((label, style))) = (is_first, paragraph.label) {
                let text = plain(label);
                let y = paragraph.style.ascent();
                let x = if paragraph.bar.is_some() { 12.0 } else { 0.0 };
                ops.push(DrawOp::Text { x, y, text, style });
            }
            ops.push(DrawOp::Text {
                x: indent,
                y: style.ascent(),
                text: line,
                style,
            });
            ops.push(DrawOp::End);
            let is_last = place + 1 == count;
            self.push(PageBlock {
                ops,
                height: style.leading,
                before,
                keep: if is_last {
                    paragraph.keep
                } else {
                    is_first || place + 2 == count
                },
                ..PageBlock::default()
            });
        }
    }

    /// Adds a section's heading with a bookmark.
    pub(super) fn section(&mut self, title: &str) {
        self.heading(title, Role::Section, (FontStyle::SECTION, 26.0), 0);
    }

    /// Adds a heading within a section.
    pub(super) fn subsection(&mut self, title: &str) {
        self.heading(title, Role::Subsection, (FontStyle::SUBSECTION, 13.0), 1);
    }

    fn heading(&mut self, title: &str, role: Role, (style, before): (FontStyle, f64), level: u8) {
        let first = self.blocks.len();
        let paragraph = Paragraph::new(title, style).before(before).keep();
        self.heading_lines(&paragraph, role);
        self.blocks[first].bookmark = Some((level, plain(title)));
    }

    /// Adds a heading without a bookmark. It stays on the same page as the next block.
    pub(super) fn heading_lines(&mut self, heading: &Paragraph<'_>, role: Role) {
        let element = self.element(role, None);
        let first = self.blocks.len();
        self.lines(heading, element);
        for block in &mut self.blocks[first..] {
            block.keep = true;
        }
    }

    /// Adds an item of a list.
    pub(super) fn item(&mut self, text: &str, style: FontStyle) {
        let bullet = style.color(MUTED);
        let item = Paragraph::new(text, style).before(3.0).indent(12.0);
        self.paragraph(&item.label("•", bullet));
    }

    /// Adds text line by line, keeping its indentation.
    pub(super) fn code(&mut self, text: &str) {
        let style = FontStyle::CODE;
        let element = self.element(Role::Code, None);
        for line in text.lines() {
            let indent = line.len() - line.trim_start_matches(' ').len();
            let indent = (indent as f64 * style.width_of(" ")).min(WIDTH / 2.0);
            let paragraph = Paragraph::new(line, style).before(0.0);
            self.lines(&paragraph.indent(indent), element);
        }
    }

    /// Adds lines on a tinted background, with a bar to the left of the lines.
    pub(super) fn card(&mut self, lines: &[(&str, FontStyle)], bar_color: u32, ground: u32) {
        const PAD: f64 = 9.0;
        const LEFT: f64 = 14.0;
        let element = self.element(Role::Paragraph, None);
        let mut y = PAD;
        let mut texts = Vec::new();
        for &(text, style) in lines {
            for line in wrap(&plain(text), style, WIDTH - 2.0 * LEFT) {
                texts.push(DrawOp::Text {
                    x: LEFT,
                    y: y + style.ascent(),
                    text: line,
                    style,
                });
                y += style.leading;
            }
        }
        let height = y + PAD;
        let rect = |width, color| DrawOp::Rect {
            x: 0.0,
            y: 0.0,
            width,
            height,
            color,
            opacity: 1.0,
        };
        let mut ops = vec![
            DrawOp::Decoration,
            rect(WIDTH, ground),
            rect(BAR_WIDTH, bar_color),
            DrawOp::End,
            DrawOp::Begin(element),
        ];
        ops.append(&mut texts);
        ops.push(DrawOp::End);
        self.push(PageBlock {
            ops,
            height,
            before: 14.0,
            ..PageBlock::default()
        });
    }
}

/// A bar to the left of a line.
fn bar(color: u32, height: f64) -> [DrawOp; 3] {
    let rect = DrawOp::Rect {
        x: 0.0,
        y: 0.0,
        width: BAR_WIDTH,
        height,
        color,
        opacity: 1.0,
    };
    [DrawOp::Decoration, rect, DrawOp::End]
}
