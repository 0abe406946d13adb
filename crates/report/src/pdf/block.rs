//! Blocks of fixed height that are placed on pages, and their drawing operations.

use std::rc::Rc;

use super::style::FontStyle;

/// The index of an element in the document's structure.
pub(super) type ElementId = usize;

/// The role of an element for a screen reader.
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
    /// A chart, with its description in words.
    Figure(String),
}

/// An element of the document's structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StructureElement {
    pub(super) role: Role,
    /// The enclosing element; `None` for the top level.
    pub(super) parent: Option<ElementId>,
}

/// A drawing operation, in points from the upper left corner of its block or page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DrawOp {
    /// One line of text that starts at `x` with its baseline at `y`.
    Text {
        x: f64,
        y: f64,
        text: String,
        style: FontStyle,
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
    /// Restricts drawing to this rectangle until [`DrawOp::Unclip`].
    Clip {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
    },
    Unclip,
    /// Begins the content of an element, which ends at [`DrawOp::End`].
    Begin(ElementId),
    /// Begins decoration, which screen readers skip. It ends at [`DrawOp::End`].
    Decoration,
    End,
}

impl DrawOp {
    /// Returns the operation moved right by `dx` and down by `dy`.
    pub(super) fn moved(&self, dx: f64, dy: f64) -> DrawOp {
        let mut op = self.clone();
        match &mut op {
            DrawOp::Text { x, y, .. } | DrawOp::Rect { x, y, .. } | DrawOp::Clip { x, y, .. } => {
                *x += dx;
                *y += dy;
            }
            DrawOp::Path { points, .. } => {
                for point in points {
                    point.0 += dx;
                    point.1 += dy;
                }
            }
            DrawOp::Dot { center, .. } => {
                center.0 += dx;
                center.1 += dy;
            }
            DrawOp::Unclip | DrawOp::Begin(_) | DrawOp::Decoration | DrawOp::End => {}
        }
        op
    }
}

/// A block of the report that is never split between pages.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct PageBlock {
    pub(super) ops: Vec<DrawOp>,
    /// Height in points.
    pub(super) height: f64,
    /// Space above the block in points. Ignored at the top of a page.
    pub(super) before: f64,
    /// True if the next block must be on the same page.
    pub(super) keep: bool,
    /// A table heading, repeated above the block if it starts a page.
    pub(super) header: Option<Rc<PageBlock>>,
    /// The level (from 0) and the text of a bookmark to this block.
    pub(super) bookmark: Option<(u8, String)>,
}

/// The content of a report before pagination: blocks, and the structure of elements.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Story {
    pub(super) blocks: Vec<PageBlock>,
    pub(super) elements: Vec<StructureElement>,
}

impl Story {
    /// Adds an element to the structure.
    pub(super) fn element(&mut self, role: Role, parent: Option<ElementId>) -> ElementId {
        self.elements.push(StructureElement { role, parent });
        self.elements.len() - 1
    }

    pub(super) fn push(&mut self, block: PageBlock) {
        self.blocks.push(block);
    }

    /// Appends the blocks and elements of another story.
    pub(super) fn append(&mut self, other: Story) {
        let offset = self.elements.len();
        let moved = |id: ElementId| id + offset;
        self.elements
            .extend(other.elements.into_iter().map(|element| StructureElement {
                parent: element.parent.map(moved),
                ..element
            }));
        for mut block in other.blocks {
            for op in &mut block.ops {
                if let DrawOp::Begin(id) = op {
                    *id = moved(*id);
                }
            }
            self.push(block);
        }
    }

    /// Requires the last block to be on the same page as the next one.
    pub(super) fn keep_last(&mut self) {
        if let Some(last) = self.blocks.last_mut() {
            last.keep = true;
        }
    }
}
