//! The report as a PDF: pages of A4 to send on and to print, made without a browser.
//!
//! Enters what the page is made of, leaves bytes: the same folder gives the same bytes, since no
//! clock, machine font or random number takes part. The way: `experiment` and `load` say what the
//! report holds, as [`block`]s; [`paragraph`], [`table`] and [`drawing`] make blocks out of texts,
//! tables and charts; [`flow`] puts blocks onto pages; [`write`] turns pages into a file. Nothing
//! that a plan or a server put into a text can make it fail: what the fonts lack is shown as a
//! replacement, and its characters stay searchable.

mod block;
mod drawing;
mod experiment;
mod face;
mod flow;
mod load;
mod paragraph;
mod runs;
mod style;
mod table;
mod wrap;
mod write;

pub use experiment::report;
pub use load::load;
pub use runs::runs;

/// What a PDF says of itself beside its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct About {
    /// What viewers show in the window's title.
    title: String,
    /// What stands at the foot of every page.
    running: String,
    /// The prony that measured.
    version: String,
}

#[cfg(test)]
mod layout_tests;
