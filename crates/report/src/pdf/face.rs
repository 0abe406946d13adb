//! The embedded fonts, and the glyphs of characters.

use std::sync::OnceLock;

use super::font_file::FontFile;

/// A font: Inter with digits of equal width, or Noto Sans Mono.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Face {
    Regular,
    Bold,
    Mono,
}

/// The glyph of a character.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Glyph {
    pub(super) face: Face,
    /// Index of the glyph in the font.
    pub(super) id: u16,
    /// Advance width as a fraction of the font size.
    pub(super) advance: f64,
    /// True if the glyph replaces a character that is in none of the fonts.
    pub(super) replaces: bool,
}

/// End of the character range whose glyphs are cached.
const CACHED_END: u32 = 0x180;

/// Replacement for a character that is in none of the fonts.
const REPLACEMENT: char = '\u{fffd}';

impl Face {
    pub(super) const ALL: [Face; 3] = [Face::Regular, Face::Bold, Face::Mono];

    /// The font file.
    pub(super) fn data(self) -> &'static [u8] {
        match self {
            Face::Regular => include_bytes!("fonts/Inter-Regular.otf"),
            Face::Bold => include_bytes!("fonts/Inter-SemiBold.otf"),
            Face::Mono => include_bytes!("fonts/NotoSansMono-Regular.ttf"),
        }
    }

    /// The font's name within the document.
    pub(super) fn name(self) -> &'static str {
        match self {
            Face::Regular => "Inter-Regular",
            Face::Bold => "Inter-SemiBold",
            Face::Mono => "NotoSansMono-Regular",
        }
    }

    /// Returns the parsed font. It is parsed only once.
    pub(super) fn font(self) -> &'static FontFile {
        static FONTS: [OnceLock<FontFile>; 3] = [const { OnceLock::new() }; 3];
        FONTS[self as usize]
            .get_or_init(|| FontFile::read(self.data()).expect("the embedded fonts are valid"))
    }

    fn own_glyph(self, c: char) -> Option<Glyph> {
        let font = self.font();
        let id = font.glyph(c)?;
        Some(Glyph {
            face: self,
            id,
            advance: f64::from(font.advance(id)) / f64::from(font.units_per_em),
            replaces: false,
        })
    }

    /// Returns the glyph of a character: from another font if this font lacks the character, or a
    /// replacement if all fonts lack it. Returns `None` if the character is invisible.
    pub(super) fn glyph(self, c: char) -> Option<Glyph> {
        // The glyphs of Latin characters are cached, because nearly all characters are Latin, and
        // every text is measured several times.
        static LATIN: [OnceLock<Vec<Option<Glyph>>>; 3] = [const { OnceLock::new() }; 3];
        let latin = LATIN[self as usize].get_or_init(|| {
            let each = (0..CACHED_END).filter_map(char::from_u32);
            each.map(|c| self.found(c)).collect()
        });
        match latin.get(c as usize) {
            Some(glyph) => *glyph,
            None => self.found(c),
        }
    }

    fn found(self, c: char) -> Option<Glyph> {
        if is_invisible(c) {
            return None;
        }
        let own = self.own_glyph(c);
        own.or_else(|| Face::Mono.own_glyph(c))
            .or_else(|| Face::Regular.own_glyph(c))
            .or_else(|| {
                let replacement = Face::Mono.own_glyph(REPLACEMENT)?;
                Some(Glyph {
                    replaces: true,
                    ..replacement
                })
            })
    }

    /// The width of text as a fraction of the font size.
    pub(super) fn width_of(self, text: &str) -> f64 {
        let glyphs = text.chars().filter_map(|c| self.glyph(c));
        glyphs.map(|glyph| glyph.advance).sum()
    }
}

/// Returns true for characters without a shape, which join, separate or modify others.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_text_fonts_have_every_character_that_reports_use() {
        for face in [Face::Regular, Face::Bold] {
            for c in "×±µμ–−≥≤…→·›≈•äßŁжЖΩ%/ ".chars() {
                let glyph = face.glyph(c).unwrap();
                assert_eq!((glyph.face, glyph.replaces), (face, false), "{c}");
            }
        }
    }

    #[test]
    fn digits_are_of_equal_width() {
        for face in Face::ALL {
            let widths = ('0'..='9').map(|c| face.glyph(c).unwrap().advance);
            let widths: Vec<f64> = widths.collect();
            let within = |width: &f64| (width - widths[0]).abs() < 0.005;
            assert!(widths.iter().all(within), "{face:?}: {widths:?}");
        }
    }

    #[test]
    fn missing_characters_are_replaced_and_invisible_ones_left_out() {
        for c in ['漢', 'ش', 'א', '🚀', '\u{10ffff}'] {
            assert!(Face::Bold.glyph(c).unwrap().replaces, "{c}");
        }
        assert_eq!(Face::Regular.glyph('\u{200d}'), None);
        assert_eq!(Face::Regular.glyph('│').unwrap().face, Face::Mono);
    }
}
