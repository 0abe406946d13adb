//! What is put onto pages: blocks of fixed height, and what is drawn in them.

use std::rc::Rc;

use super::style::Style;

/// An element of the document's structure: its place among all of them.
pub(super) type ElementId = usize;

/// What an element is to a reader that speaks the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    Title,
    Section,
    Subsection,
    Paragraph,
    Code,
    Table,
    Row,
    HeadCell,
    Cell,
    /// A picture, and what it shows in words.
    Figure(String),
}

/// An element of the document's structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) role: Role,
    /// The element that it is part of; none for the document itself.
    pub(super) parent: Option<ElementId>,
}

/// Something drawn, in points from the upper left corner of its block or page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Op {
    /// One line of text from `x` on, whose base line is at `y`.
    Text {
        x: f64,
        y: f64,
        text: String,
        style: Style,
    },
    /// A line through all points.
    Path {
        points: Vec<(f64, f64)>,
        color: u32,
        width: f64,
        opacity: f64,
    },
    /// A filled rectangle.
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        color: u32,
        opacity: f64,
    },
    /// A filled disc.
    Dot {
        center: (f64, f64),
        radius: f64,
        color: u32,
        opacity: f64,
    },
    /// Until [`Op::Unclip`] nothing is shown outside of this rectangle.
    Clip {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
    },
    Unclip,
    /// Until [`Op::End`] all that is drawn is this element's.
    Begin(ElementId),
    /// Until [`Op::End`] all that is drawn is decoration, or said elsewhere.
    Decoration,
    End,
}

impl Op {
    /// The same further right and down.
    pub(super) fn moved(&self, dx: f64, dy: f64) -> Op {
        let mut op = self.clone();
        match &mut op {
            Op::Text { x, y, .. } | Op::Rect { x, y, .. } | Op::Clip { x, y, .. } => {
                *x += dx;
                *y += dy;
            }
            Op::Path { points, .. } => {
                for point in points {
                    point.0 += dx;
                    point.1 += dy;
                }
            }
            Op::Dot { center, .. } => {
                center.0 += dx;
                center.1 += dy;
            }
            Op::Unclip | Op::Begin(_) | Op::Decoration | Op::End => {}
        }
        op
    }
}

/// A part of the report that is never torn apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Block {
    pub(super) ops: Vec<Op>,
    /// In points.
    pub(super) height: f64,
    /// What stays free above it, unless it is the first on its page.
    pub(super) before: f64,
    /// Whether the next block has to stand on the same page.
    pub(super) keep: bool,
    /// What is repeated above it where it begins a page.
    pub(super) header: Option<Rc<Block>>,
    /// The bookmark that leads here: its level, from 0, and its text.
    pub(super) bookmark: Option<(u8, String)>,
}

/// The report as it grows: blocks, and the structure that they belong to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Story {
    pub(super) blocks: Vec<Block>,
    pub(super) elements: Vec<Element>,
}

impl Story {
    /// A new element of the structure.
    pub(super) fn element(&mut self, role: Role, parent: Option<ElementId>) -> ElementId {
        self.elements.push(Element { role, parent });
        self.elements.len() - 1
    }

    /// Adds a block.
    pub(super) fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds the blocks of another story.
    pub(super) fn append(&mut self, other: Story) {
        let offset = self.elements.len();
        let moved = |id: ElementId| id + offset;
        self.elements
            .extend(other.elements.into_iter().map(|element| Element {
                parent: element.parent.map(moved),
                ..element
            }));
        for mut block in other.blocks {
            for op in &mut block.ops {
                if let Op::Begin(id) = op {
                    *id = moved(*id);
                }
            }
            self.push(block);
        }
    }

    /// Requires the last block and what comes next to stand on the same page.
    pub(super) fn keep_last(&mut self) {
        if let Some(last) = self.blocks.last_mut() {
            last.keep = true;
        }
    }
}
