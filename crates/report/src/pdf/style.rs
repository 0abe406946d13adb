//! Sizes and colours, in points of 1/72 inch and as `RRGGBB`.

use crate::verdict_view::Tone;

use super::face::Face;
use crate::chart::palette;

/// The page: A4.
pub(super) const PAGE_WIDTH: f64 = 595.28;
pub(super) const PAGE_HEIGHT: f64 = 841.89;
/// What stays free at both sides.
pub(super) const MARGIN: f64 = 56.0;
/// Where blocks begin and end.
pub(super) const TOP: f64 = 54.0;
pub(super) const BOTTOM: f64 = PAGE_HEIGHT - 62.0;
/// The base line of the page's number.
pub(super) const FOOT: f64 = PAGE_HEIGHT - 36.0;
/// The width of all that is printed.
pub(super) const WIDTH: f64 = PAGE_WIDTH - 2.0 * MARGIN;

pub(super) const INK: u32 = palette::INK.light;
pub(super) const MUTED: u32 = palette::MUTED.light;
pub(super) const LINE: u32 = 0xD5D8DF;
pub(super) const GOOD: u32 = 0x0F7A55;
pub(super) const CARE: u32 = 0x8A5A00;
pub(super) const BAD: u32 = 0xB3261E;
pub(super) const GOOD_TINT: u32 = 0xE8F5EF;
pub(super) const CARE_TINT: u32 = 0xFBF3E0;
pub(super) const BAD_TINT: u32 = 0xFCEBE9;

/// The colour of a verdict or a ruling.
pub(super) fn of_tone(tone: Tone) -> u32 {
    match tone {
        Tone::Good => GOOD,
        Tone::Care => CARE,
        Tone::Muted => MUTED,
        Tone::Bad => BAD,
    }
}

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Style {
    pub(super) face: Face,
    /// In points.
    pub(super) size: f64,
    /// From one base line to the next, in points.
    pub(super) leading: f64,
    pub(super) color: u32,
}

const fn style(face: Face, size: f64, leading: f64, color: u32) -> Style {
    Style {
        face,
        size,
        leading,
        color,
    }
}

impl Style {
    pub(super) const EYEBROW: Style = style(Face::Regular, 8.5, 12.0, MUTED);
    pub(super) const QUESTION: Style = style(Face::Regular, 12.0, 16.5, MUTED);
    pub(super) const LEAD: Style = style(Face::Bold, 19.0, 24.0, INK);
    pub(super) const SECTION: Style = style(Face::Bold, 13.5, 18.0, INK);
    pub(super) const SUBSECTION: Style = style(Face::Bold, 10.0, 14.0, INK);
    pub(super) const BODY: Style = style(Face::Regular, 9.5, 14.0, INK);
    pub(super) const NOTE: Style = style(Face::Regular, 8.5, 12.5, MUTED);
    pub(super) const CELL: Style = style(Face::Regular, 8.5, 12.0, INK);
    pub(super) const CELL_HEAD: Style = style(Face::Bold, 7.8, 10.5, MUTED);
    pub(super) const CODE: Style = style(Face::Mono, 7.6, 11.0, INK);
    pub(super) const FOOT: Style = style(Face::Regular, 7.8, 10.0, MUTED);

    pub(super) fn bold(self) -> Style {
        Style {
            face: Face::Bold,
            ..self
        }
    }

    pub(super) fn color(self, color: u32) -> Style {
        Style { color, ..self }
    }

    pub(super) fn size(self, size: f64) -> Style {
        Style { size, ..self }
    }

    /// How wide a text is in points.
    pub(super) fn width_of(self, text: &str) -> f64 {
        self.face.width_of(text) * self.size
    }

    /// From the top of a line to its base line: letters stand in the middle of the leading.
    pub(super) fn ascent(self) -> f64 {
        // About the height of capitals in all three faces.
        (self.leading + self.size * 0.72) / 2.0
    }
}
