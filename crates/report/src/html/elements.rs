//! Pieces of markup that the whole page uses.

use crate::chart::palette;
use crate::table::{plain_lines, xml};

/// Escapes text for content and attributes. Replaces control characters, which may come from a
/// stored file.
pub(super) fn escaped(text: &str) -> String {
    xml(&plain_lines(text)).replace('\'', "&#39;")
}

/// A dot in a variant's color, with a word joiner that keeps it on the line of the name.
pub(super) fn swatch(variant: Option<usize>) -> String {
    let dot = |place| {
        let property = palette::property(place);
        format!("<span class=\"swatch\" style=\"--of:var({property})\"></span>&#8288;")
    };
    variant.map_or(String::new(), dot)
}
