//! Layout of text.

/// Options for the layout of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// True to color the text with escape sequences.
    pub color: bool,
    /// Maximum length of a line in a paragraph, in characters. Tables with many numbers may be
    /// wider.
    pub width: usize,
    /// True to include a histogram of a load's response times.
    pub histogram: bool,
}

impl TextOptions {
    /// Options for a file or another program.
    pub const PLAIN: TextOptions = TextOptions {
        color: false,
        width: 96,
        histogram: false,
    };

    /// Options for a terminal that shows colors.
    pub const COLORED: TextOptions = TextOptions {
        color: true,
        ..TextOptions::PLAIN
    };
}
