//! The embedded fonts: the glyphs in use, and their characters.

use std::collections::BTreeMap;

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref, Str};
use subsetter::GlyphRemapper;

use super::{Numbers, compressed};
use crate::pdf::block::DrawOp;
use crate::pdf::face::Face;
use crate::pdf::flow::Page;
use crate::pdf::font_file::table;

/// Character collection in which character codes are glyph numbers of the embedded font.
const SYSTEM: SystemInfo<'_> = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};

/// The subset of one font that is in use.
#[derive(Debug)]
struct UsedFont {
    face: Face,
    glyphs: GlyphRemapper,
    /// The character of each glyph, by the glyph's number in the PDF.
    characters: BTreeMap<u16, char>,
}

/// The subsets of all fonts.
#[derive(Debug)]
pub(super) struct Fonts {
    used: Vec<UsedFont>,
}

/// A piece of text that is set in one font.
#[derive(Debug, PartialEq)]
pub(super) struct GlyphRun {
    pub(super) face: Face,
    /// Glyph numbers, two bytes each.
    pub(super) codes: Vec<u8>,
    /// The original characters, if the glyphs show replacements.
    pub(super) stands_for: Option<String>,
}

impl Fonts {
    pub(super) fn used_by(pages: &[Page]) -> Fonts {
        let mut fonts = Fonts {
            used: Face::ALL.map(UsedFont::new).into(),
        };
        for op in pages.iter().flat_map(|page| &page.ops) {
            let DrawOp::Text { text, style, .. } = op else {
                continue;
            };
            for c in text.chars() {
                if let Some(glyph) = style.face.glyph(c) {
                    let used = &mut fonts.used[glyph.face as usize];
                    let id = used.glyphs.remap(glyph.id);
                    let character = if glyph.replaces { '\u{fffd}' } else { c };
                    used.characters.entry(id).or_insert(character);
                }
            }
        }
        fonts.used.retain(|used| !used.characters.is_empty());
        fonts
    }

    /// Resource name by which the pages of the PDF refer to a font.
    pub(super) fn name(face: Face) -> String {
        format!("F{}", face as u8)
    }

    /// Splits text into runs of one font each.
    pub(super) fn runs(&self, face: Face, text: &str) -> Vec<GlyphRun> {
        let mut runs: Vec<GlyphRun> = Vec::new();
        for c in text.chars() {
            let Some(glyph) = face.glyph(c) else { continue };
            let Some(used) = self.used.iter().find(|used| used.face == glyph.face) else {
                continue;
            };
            let code = used.glyphs.get(glyph.id).unwrap_or(0);
            // Several characters may share a glyph, but only one of them is registered for it.
            let stands_for = glyph.replaces || used.characters.get(&code) != Some(&c);
            let goes_on = runs.last().is_some_and(|run| {
                run.face == glyph.face && run.stands_for.is_some() == stands_for
            });
            if !goes_on {
                runs.push(GlyphRun {
                    face: glyph.face,
                    codes: Vec::new(),
                    stands_for: stands_for.then(String::new),
                });
            }
            if let Some(run) = runs.last_mut() {
                run.codes.extend(code.to_be_bytes());
                if let Some(original) = &mut run.stands_for {
                    original.push(c);
                }
            }
        }
        runs
    }

    /// Writes all fonts. Returns their names and references.
    pub(super) fn write(&self, pdf: &mut Pdf, numbers: &mut Numbers) -> Vec<(String, Ref)> {
        let each = self.used.iter();
        each.map(|used| (Fonts::name(used.face), used.write(pdf, numbers)))
            .collect()
    }
}

impl UsedFont {
    fn new(face: Face) -> UsedFont {
        UsedFont {
            face,
            glyphs: GlyphRemapper::new(),
            characters: BTreeMap::new(),
        }
    }

    /// Name of the font subset. It begins with a tag of six letters, which depends on the glyphs.
    fn name(&self) -> String {
        // FNV-1a suffices to distinguish subsets of one font.
        let ids = self.glyphs.remapped_gids().flat_map(u16::to_be_bytes);
        let hash = ids.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let letter = |place: u32| char::from(b'A' + (hash >> (place * 8) & 0xFF) as u8 % 26);
        let tag: String = (0..6).map(letter).collect();
        format!("{tag}+{}", self.face.name())
    }

    /// Writes the font, the subset of its font file, and the characters of its glyphs.
    fn write(&self, pdf: &mut Pdf, numbers: &mut Numbers) -> Ref {
        let [font, cid, descriptor, cmap, file] = std::array::from_fn(|_| numbers.next());
        let font_file = self.face.font();
        let name = self.name();
        let is_cff = font_file.is_cff;
        // If the outlines are cubic, the name includes the encoding.
        let base = match is_cff {
            true => format!("{name}-Identity-H"),
            false => name.clone(),
        };
        let mut written = pdf.type0_font(font);
        written.base_font(Name(base.as_bytes()));
        written.encoding_predefined(Name(b"Identity-H"));
        written.descendant_font(cid);
        written.to_unicode(cmap);
        written.finish();

        let per_em = f32::from(font_file.units_per_em);
        let thousandths = |units: f32| (units / per_em * 1000.0 * 10.0).round() / 10.0;
        let mut written = pdf.cid_font(cid);
        written.subtype(if is_cff {
            CidFontType::Type0
        } else {
            CidFontType::Type2
        });
        written.base_font(Name(name.as_bytes()));
        written.system_info(SYSTEM);
        written.font_descriptor(descriptor);
        written.default_width(0.0);
        if !is_cff {
            written.cid_to_gid_map_predefined(Name(b"Identity"));
        }
        let widths = self.glyphs.remapped_gids();
        let widths = widths.map(|id| thousandths(f32::from(font_file.advance(id))));
        written.widths().consecutive(0, widths);
        written.finish();

        let corner = |units: i16| thousandths(f32::from(units));
        let mut flags = FontFlags::SYMBOLIC;
        flags.set(FontFlags::FIXED_PITCH, self.face == Face::Mono);
        let mut written = pdf.font_descriptor(descriptor);
        written.name(Name(name.as_bytes()));
        written.flags(flags);
        let [left, bottom, right, top] = font_file.bounds.map(corner);
        written.bbox(Rect::new(left, bottom, right, top));
        written.italic_angle(0.0);
        written.ascent(corner(font_file.ascender));
        written.descent(corner(font_file.descender));
        written.cap_height(corner(font_file.cap_height));
        written.stem_v(if self.face == Face::Bold { 120.0 } else { 80.0 });
        match is_cff {
            true => written.font_file3(file),
            false => written.font_file2(file),
        };
        written.finish();

        self.write_characters(pdf, cmap);
        let data = compressed(&self.subset());
        let mut stream = pdf.stream(file, &data);
        stream.filter(Filter::FlateDecode);
        if is_cff {
            stream.pair(Name(b"Subtype"), Name(b"CIDFontType0C"));
        }
        stream.finish();
        font
    }

    /// Writes the character of each glyph, for searching and copying.
    fn write_characters(&self, pdf: &mut Pdf, id: Ref) {
        let mut cmap = UnicodeCmap::new(Name(b"Custom"), SYSTEM);
        for (&glyph, &character) in &self.characters {
            cmap.pair(glyph, character);
        }
        let data = compressed(cmap.finish().as_slice());
        pdf.cmap(id, &data).filter(Filter::FlateDecode);
    }

    /// The subset of the font file. If the outlines are cubic, the PDF format requires only the
    /// outlines.
    fn subset(&self) -> Vec<u8> {
        let whole = || self.face.data().to_vec();
        let part = subsetter::subset(self.face.data(), 0, &self.glyphs).unwrap_or_else(|_| whole());
        let outlines = table(&part, *b"CFF ").map(<[u8]>::to_vec);
        outlines.unwrap_or(part)
    }
}
