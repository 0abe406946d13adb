//! Reports as PDF: A4 pages for sending and printing, made without a browser.
//!
//! The same document gives the same bytes, because no clock, system font or random number is used.
//! `render` turns the document's blocks into [`block`]s of fixed height, with [`paragraph`],
//! [`table`] and [`drawing`]; [`flow`] places them on pages; [`write`] turns pages into a file. No
//! text can make rendering fail: a character that the fonts lack is shown as a replacement and
//! stays searchable.

mod block;
mod drawing;
mod face;
mod flow;
mod font_file;
mod paragraph;
mod render;
mod style;
mod table;
mod wrap;
mod write;

use crate::document::Document;

/// Renders the report as a PDF.
pub fn render(document: &Document) -> Vec<u8> {
    let info = PdfInfo {
        title: document.title.clone(),
        footer: format!(
            "{} · {} {}",
            document.subject, document.kind, document.version
        ),
        version: document.version.clone(),
    };
    let story = render::story(document);
    let (pages, bookmarks) = flow::pages(&story, &info);
    write::file(&pages, &bookmarks, &story.elements, &info)
}

/// The text of a PDF that isn't part of the report itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PdfInfo {
    /// The title that viewers show in the window.
    title: String,
    /// The text in the footer of every page.
    footer: String,
    /// The version of prony that made the measurement.
    version: String,
}

#[cfg(test)]
mod layout_tests;
