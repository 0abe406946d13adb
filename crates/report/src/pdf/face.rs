//! The fonts that come with the program, and which of them has a character.

use std::sync::OnceLock;

/// A font. The first two are Inter, with digits of equal width; the third is Noto Sans Mono.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Face {
    Regular,
    Bold,
    Mono,
}

/// A character as a face shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Glyph {
    pub(super) face: Face,
    /// Its place in the face.
    pub(super) id: u16,
    /// In shares of the size.
    pub(super) advance: f64,
    /// Whether it stands for a character that no face has.
    pub(super) replaces: bool,
}

/// The end of the characters whose glyphs are looked for once.
const LATIN_END: u32 = 0x180;

/// What a character is shown as that no face has.
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

    /// Its name within the document.
    pub(super) fn name(self) -> &'static str {
        match self {
            Face::Regular => "Inter-Regular",
            Face::Bold => "Inter-SemiBold",
            Face::Mono => "NotoSansMono-Regular",
        }
    }

    /// The font, parsed once.
    pub(super) fn parsed(self) -> &'static ttf_parser::Face<'static> {
        static PARSED: [OnceLock<ttf_parser::Face<'static>>; 3] = [const { OnceLock::new() }; 3];
        PARSED[self as usize].get_or_init(|| {
            ttf_parser::Face::parse(self.data(), 0)
                .expect("the fonts are constants that every test parses")
        })
    }

    fn own_glyph(self, c: char) -> Option<Glyph> {
        let parsed = self.parsed();
        let id = parsed.glyph_index(c)?;
        let advance = parsed.glyph_hor_advance(id).unwrap_or(0);
        Some(Glyph {
            face: self,
            id: id.0,
            advance: f64::from(advance) / f64::from(parsed.units_per_em()),
            replaces: false,
        })
    }

    /// What a character is shown as in this face: from another face where this one lacks it, a
    /// replacement where all do, nothing where it has no shape of its own.
    pub(super) fn glyph(self, c: char) -> Option<Glyph> {
        // Nearly all texts are of these, and every text is measured several times.
        static LATIN: [OnceLock<Vec<Option<Glyph>>>; 3] = [const { OnceLock::new() }; 3];
        let latin = LATIN[self as usize].get_or_init(|| {
            let each = (0..LATIN_END).filter_map(char::from_u32);
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

    /// How wide a text is, in shares of the size.
    pub(super) fn width_of(self, text: &str) -> f64 {
        let glyphs = text.chars().filter_map(|c| self.glyph(c));
        glyphs.map(|glyph| glyph.advance).sum()
    }
}

/// Characters that join, part or vary others and have no shape.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_of_ours_has_a_shape_in_both_text_faces() {
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
    fn what_no_face_has_is_replaced_and_what_has_no_shape_left_out() {
        for c in ['漢', 'ش', 'א', '🚀', '\u{10ffff}'] {
            assert!(Face::Bold.glyph(c).unwrap().replaces, "{c}");
        }
        assert_eq!(Face::Regular.glyph('\u{200d}'), None);
        assert_eq!(Face::Regular.glyph('│').unwrap().face, Face::Mono);
    }
}
