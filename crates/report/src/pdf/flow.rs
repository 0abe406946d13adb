//! Pagination: distributes blocks over pages.

use super::PdfInfo;
use super::block::{DrawOp, PageBlock, Story};
use super::style::{BOTTOM, FOOT, FontStyle, LINE, MARGIN, PAGE_WIDTH, TOP, WIDTH};

/// A page. Coordinates are in points, measured from its upper left corner.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Page {
    pub(super) ops: Vec<DrawOp>,
}

/// A bookmark and its destination.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bookmark {
    /// The level, from 0.
    pub(super) level: u8,
    pub(super) text: String,
    /// The index of the page, from 0.
    pub(super) page: usize,
    /// The distance from the page's upper edge.
    pub(super) y: f64,
}

/// Distributes a story over pages. Returns the pages (at least one) and the bookmarks.
pub(super) fn pages(story: &Story, info: &PdfInfo) -> (Vec<Page>, Vec<Bookmark>) {
    let mut flow = Flow::default();
    let mut rest = story.blocks.as_slice();
    while !rest.is_empty() {
        let (chain, others) = rest.split_at(chain_length(rest));
        flow.place_chain(chain);
        rest = others;
    }
    let Flow {
        mut pages,
        bookmarks,
        ..
    } = flow;
    let count = pages.len();
    for (place, page) in pages.iter_mut().enumerate() {
        foot(page, info, place + 1, count);
    }
    (pages, bookmarks)
}

/// Returns the number of blocks at the start of `blocks` that must be on the same page.
fn chain_length(blocks: &[PageBlock]) -> usize {
    let kept = blocks.iter().take_while(|block| block.keep).count();
    (kept + 1).min(blocks.len())
}

struct Flow {
    pages: Vec<Page>,
    bookmarks: Vec<Bookmark>,
    /// Vertical position of the next block.
    y: f64,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            pages: vec![Page::default()],
            bookmarks: Vec::new(),
            y: TOP,
        }
    }
}

impl Flow {
    fn is_fresh(&self) -> bool {
        self.y <= TOP
    }

    fn turn(&mut self) {
        self.pages.push(Page::default());
        self.y = TOP;
    }

    /// The height of the table heading that is repeated above this block.
    fn header_height(block: &PageBlock) -> f64 {
        block.header.as_ref().map_or(0.0, |header| header.height)
    }

    /// Places blocks that must be on the same page. If they are too tall for one page, places them
    /// individually.
    fn place_chain(&mut self, chain: &[PageBlock]) {
        let Some(first) = chain.first() else { return };
        let further: f64 = chain[1..].iter().map(|b| b.before + b.height).sum();
        let together = first.height + further;
        let fits_a_page = Self::header_height(first) + together <= BOTTOM - TOP;
        if fits_a_page && !self.is_fresh() && self.y + first.before + together > BOTTOM {
            self.turn();
        }
        for block in chain {
            self.place(block);
        }
    }

    fn place(&mut self, block: &PageBlock) {
        if !self.is_fresh() && self.y + block.before + block.height > BOTTOM {
            self.turn();
        }
        if !self.is_fresh() {
            self.y += block.before;
        } else if let Some(header) = &block.header {
            self.draw(header);
        }
        if let Some((level, text)) = &block.bookmark {
            self.bookmarks.push(Bookmark {
                level: *level,
                text: text.clone(),
                page: self.pages.len() - 1,
                y: self.y,
            });
        }
        self.draw(block);
    }

    fn draw(&mut self, block: &PageBlock) {
        let y = self.y;
        if let Some(page) = self.pages.last_mut() {
            let moved = block.ops.iter().map(|op| op.moved(MARGIN, y));
            page.ops.extend(moved);
        }
        self.y += block.height;
    }
}

/// Adds the footer of a page.
fn foot(page: &mut Page, info: &PdfInfo, number: usize, count: usize) {
    let style = FontStyle::FOOT;
    let number = format!("page {number} of {count}");
    let end = style.width_of(&number);
    let room = WIDTH - end - 20.0;
    let mut running = info.footer.clone();
    while style.width_of(&running) > room {
        // Only very long names are shortened.
        let kept = running.chars().count().saturating_sub(2);
        running = running.chars().take(kept).chain(['…']).collect();
    }
    let text = |x: f64, text: String| DrawOp::Text {
        x,
        y: FOOT,
        text,
        style,
    };
    page.ops.extend([
        DrawOp::Decoration,
        DrawOp::Path {
            points: vec![(MARGIN, FOOT - 14.0), (PAGE_WIDTH - MARGIN, FOOT - 14.0)],
            color: LINE,
            width: 0.5,
            opacity: 1.0,
        },
        text(MARGIN, running),
        text(PAGE_WIDTH - MARGIN - end, number),
        DrawOp::End,
    ]);
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn about() -> PdfInfo {
        PdfInfo {
            title: String::new(),
            footer: "x".repeat(500),
            version: String::new(),
        }
    }

    fn block(height: f64, keep: bool) -> PageBlock {
        PageBlock {
            height,
            keep,
            before: 5.0,
            ops: vec![DrawOp::Unclip],
            ..PageBlock::default()
        }
    }

    /// The number of blocks and repeated headings on each page.
    fn block_counts(blocks: Vec<PageBlock>) -> Vec<usize> {
        let story = Story {
            blocks,
            elements: Vec::new(),
        };
        let (pages, _) = pages(&story, &about());
        let blocks = |page: &Page| page.ops.iter().filter(|op| **op == DrawOp::Unclip).count();
        pages.iter().map(blocks).collect()
    }

    #[test]
    fn a_heading_stays_with_the_next_block() {
        let page = BOTTOM - TOP;
        let filler = block(page - 40.0, false);
        let fits = vec![filler.clone(), block(10.0, true), block(20.0, false)];
        assert_eq!(block_counts(fits), [3]);
        let split = vec![filler, block(10.0, true), block(30.0, false)];
        assert_eq!(block_counts(split), [1, 2]);
    }

    #[test]
    fn a_chain_higher_than_a_page_is_placed_one_by_one() {
        let page = BOTTOM - TOP;
        let chain = vec![
            block(page * 0.6, true),
            block(page * 0.6, true),
            block(9.0, false),
        ];
        assert_eq!(block_counts(chain), [1, 2]);
        assert_eq!(
            block_counts(vec![block(page * 3.0, false), block(9.0, false)]),
            [1, 1]
        );
        assert_eq!(block_counts(Vec::new()), [0], "a page without blocks");
    }

    #[test]
    fn table_headings_are_repeated_at_the_top_of_pages() {
        let header = Rc::new(block(20.0, false));
        let row = PageBlock {
            header: Some(header),
            before: 0.0,
            ..block((BOTTOM - TOP) / 4.0, false)
        };
        let mut blocks = vec![block(20.0, true)];
        blocks.extend(vec![row; 7]);
        assert_eq!(
            block_counts(blocks),
            [4, 4, 2],
            "a header and three rows, and so on"
        );
    }
}
