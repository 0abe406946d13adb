//! Blocks onto pages.

use super::About;
use super::block::{Block, Op, Story};
use super::style::{BOTTOM, FOOT, LINE, MARGIN, PAGE_WIDTH, Style, TOP, WIDTH};

/// A page, in points from its upper left corner.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Page {
    pub(super) ops: Vec<Op>,
}

/// Where a bookmark leads.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bookmark {
    /// From 0.
    pub(super) level: u8,
    pub(super) text: String,
    /// From 0.
    pub(super) page: usize,
    /// From the page's upper edge.
    pub(super) y: f64,
}

/// The pages of a story, at least one, and its bookmarks in their order.
pub(super) fn pages(story: &Story, about: &About) -> (Vec<Page>, Vec<Bookmark>) {
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
        foot(page, about, place + 1, count);
    }
    (pages, bookmarks)
}

/// How many blocks from the first on have to stand together.
fn chain_length(blocks: &[Block]) -> usize {
    let kept = blocks.iter().take_while(|block| block.keep).count();
    (kept + 1).min(blocks.len())
}

struct Flow {
    pages: Vec<Page>,
    bookmarks: Vec<Bookmark>,
    /// Where the next block would begin.
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

    /// What stands at the top of a page before this block.
    fn header_height(block: &Block) -> f64 {
        block.header.as_ref().map_or(0.0, |header| header.height)
    }

    /// Places blocks that have to stand together; those that no page can hold together, one by one.
    fn place_chain(&mut self, chain: &[Block]) {
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

    fn place(&mut self, block: &Block) {
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

    fn draw(&mut self, block: &Block) {
        let y = self.y;
        if let Some(page) = self.pages.last_mut() {
            let moved = block.ops.iter().map(|op| op.moved(MARGIN, y));
            page.ops.extend(moved);
        }
        self.y += block.height;
    }
}

/// The line at the foot of a page.
fn foot(page: &mut Page, about: &About, number: usize, count: usize) {
    let style = Style::FOOT;
    let number = format!("page {number} of {count}");
    let end = style.width_of(&number);
    let room = WIDTH - end - 20.0;
    let mut running = about.running.clone();
    while style.width_of(&running) > room {
        // Only a name that no one can read in full is cut.
        let kept = running.chars().count().saturating_sub(2);
        running = running.chars().take(kept).chain(['…']).collect();
    }
    let text = |x: f64, text: String| Op::Text {
        x,
        y: FOOT,
        text,
        style,
    };
    page.ops.extend([
        Op::Decoration,
        Op::Path {
            points: vec![(MARGIN, FOOT - 14.0), (PAGE_WIDTH - MARGIN, FOOT - 14.0)],
            color: LINE,
            width: 0.5,
            opacity: 1.0,
        },
        text(MARGIN, running),
        text(PAGE_WIDTH - MARGIN - end, number),
        Op::End,
    ]);
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn about() -> About {
        About {
            title: String::new(),
            running: "x".repeat(500),
            version: String::new(),
        }
    }

    fn block(height: f64, keep: bool) -> Block {
        Block {
            height,
            keep,
            before: 5.0,
            ops: vec![Op::Unclip],
            ..Block::default()
        }
    }

    /// How many blocks, or headers, stand on each page.
    fn shape(blocks: Vec<Block>) -> Vec<usize> {
        let story = Story {
            blocks,
            elements: Vec::new(),
        };
        let (pages, _) = pages(&story, &about());
        let blocks = |page: &Page| page.ops.iter().filter(|op| **op == Op::Unclip).count();
        pages.iter().map(blocks).collect()
    }

    #[test]
    fn a_heading_goes_with_what_follows() {
        let page = BOTTOM - TOP;
        let filler = block(page - 40.0, false);
        let fits = vec![filler.clone(), block(10.0, true), block(20.0, false)];
        assert_eq!(shape(fits), [3]);
        let parted = vec![filler, block(10.0, true), block(30.0, false)];
        assert_eq!(shape(parted), [1, 2]);
    }

    #[test]
    fn what_no_page_can_hold_together_is_placed_one_by_one() {
        let page = BOTTOM - TOP;
        let chain = vec![
            block(page * 0.6, true),
            block(page * 0.6, true),
            block(9.0, false),
        ];
        assert_eq!(shape(chain), [1, 2]);
        assert_eq!(
            shape(vec![block(page * 3.0, false), block(9.0, false)]),
            [1, 1]
        );
        assert_eq!(shape(Vec::new()), [0], "a page without blocks");
    }

    #[test]
    fn headers_are_repeated_at_the_top_of_pages_alone() {
        let header = Rc::new(block(20.0, false));
        let row = Block {
            header: Some(header),
            before: 0.0,
            ..block((BOTTOM - TOP) / 4.0, false)
        };
        let mut blocks = vec![block(20.0, true)];
        blocks.extend(vec![row; 7]);
        assert_eq!(
            shape(blocks),
            [4, 4, 2],
            "a header and three rows, and so on"
        );
    }
}
