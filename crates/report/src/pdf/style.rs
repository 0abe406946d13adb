//! Sizes in points (1/72 inch) and colors as `RRGGBB`.

use super::face::Face;
use crate::chart::palette;
use crate::tone::Tone;

/// The page size: A4.
pub(super) const PAGE_WIDTH: f64 = 595.28;
pub(super) const PAGE_HEIGHT: f64 = 841.89;
/// The left and right margin.
pub(super) const MARGIN: f64 = 56.0;
/// The upper and lower limit of the blocks on a page.
pub(super) const TOP: f64 = 54.0;
pub(super) const BOTTOM: f64 = PAGE_HEIGHT - 62.0;
/// The baseline of the page number.
pub(super) const FOOT: f64 = PAGE_HEIGHT - 36.0;
/// The width between the margins.
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

/// The background color of a highlighted statement.
pub(super) fn tint_of(tone: Tone) -> u32 {
    match tone {
        Tone::Good => GOOD_TINT,
        Tone::Care => CARE_TINT,
        Tone::Bad => BAD_TINT,
        Tone::Muted => LINE,
    }
}

/// The color of a verdict or a condition's result.
pub(super) fn of_tone(tone: Tone) -> u32 {
    match tone {
        Tone::Good => GOOD,
        Tone::Care => CARE,
        Tone::Muted => MUTED,
        Tone::Bad => BAD,
    }
}

/// Font, size and color of text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FontStyle {
    pub(super) face: Face,
    /// Size of the font, in points.
    pub(super) size: f64,
    /// The distance between baselines, in points.
    pub(super) leading: f64,
    pub(super) color: u32,
}

const fn style(face: Face, size: f64, leading: f64, color: u32) -> FontStyle {
    FontStyle {
        face,
        size,
        leading,
        color,
    }
}

impl FontStyle {
    pub(super) const EYEBROW: FontStyle = style(Face::Regular, 8.5, 12.0, MUTED);
    pub(super) const QUESTION: FontStyle = style(Face::Regular, 12.0, 16.5, MUTED);
    pub(super) const LEAD: FontStyle = style(Face::Bold, 19.0, 24.0, INK);
    pub(super) const SECTION: FontStyle = style(Face::Bold, 13.5, 18.0, INK);
    pub(super) const SUBSECTION: FontStyle = style(Face::Bold, 10.0, 14.0, INK);
    pub(super) const BODY: FontStyle = style(Face::Regular, 9.5, 14.0, INK);
    pub(super) const NOTE: FontStyle = style(Face::Regular, 8.5, 12.5, MUTED);
    pub(super) const CELL: FontStyle = style(Face::Regular, 8.5, 12.0, INK);
    pub(super) const CELL_HEAD: FontStyle = style(Face::Bold, 7.8, 10.5, MUTED);
    pub(super) const CODE: FontStyle = style(Face::Mono, 7.6, 11.0, INK);
    pub(super) const FOOT: FontStyle = style(Face::Regular, 7.8, 10.0, MUTED);

    pub(super) fn bold(self) -> FontStyle {
        FontStyle {
            face: Face::Bold,
            ..self
        }
    }

    pub(super) fn color(self, color: u32) -> FontStyle {
        FontStyle { color, ..self }
    }

    pub(super) fn size(self, size: f64) -> FontStyle {
        FontStyle { size, ..self }
    }

    /// The width of text in points.
    pub(super) fn width_of(self, text: &str) -> f64 {
        self.face.width_of(text) * self.size
    }

    /// The distance from the top of a line to its baseline, chosen so that capitals are centered
    /// vertically in the line.
    pub(super) fn ascent(self) -> f64 {
        // 0.72 is the height of capitals in all three fonts.
        (self.leading + self.size * 0.72) / 2.0
    }
}
