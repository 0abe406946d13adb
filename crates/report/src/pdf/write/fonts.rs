//! The fonts in the file: of each what is used, and what its glyphs say.

use std::collections::BTreeMap;

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref, Str};
use subsetter::GlyphRemapper;

use super::{Numbers, compressed};
use crate::pdf::block::Op;
use crate::pdf::face::Face;
use crate::pdf::flow::Page;

/// Codes are glyphs; which those are is the font's own business.
const SYSTEM: SystemInfo<'_> = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};

/// What of one face is used.
#[derive(Debug)]
struct Used {
    face: Face,
    glyphs: GlyphRemapper,
    /// What each glyph says, by its number in the file.
    says: BTreeMap<u16, char>,
}

/// What of all faces is used.
#[derive(Debug)]
pub(super) struct Fonts {
    used: Vec<Used>,
}

/// A part of a text in one face.
#[derive(Debug, PartialEq)]
pub(super) struct Run {
    pub(super) face: Face,
    /// Two bytes for each glyph.
    pub(super) codes: Vec<u8>,
    /// The characters that its glyphs stand for without showing them.
    pub(super) stands_for: Option<String>,
}

impl Fonts {
    pub(super) fn used_by(pages: &[Page]) -> Fonts {
        let mut fonts = Fonts {
            used: Face::ALL.map(Used::new).into(),
        };
        for op in pages.iter().flat_map(|page| &page.ops) {
            let Op::Text { text, style, .. } = op else {
                continue;
            };
            for c in text.chars() {
                if let Some(glyph) = style.face.glyph(c) {
                    let used = &mut fonts.used[glyph.face as usize];
                    let id = used.glyphs.remap(glyph.id);
                    let says = if glyph.replaces { '\u{fffd}' } else { c };
                    used.says.entry(id).or_insert(says);
                }
            }
        }
        fonts.used.retain(|used| !used.says.is_empty());
        fonts
    }

    /// What pages call a face.
    pub(super) fn name(face: Face) -> String {
        format!("F{}", face as u8)
    }

    /// A text in runs of one face each.
    pub(super) fn runs(&self, face: Face, text: &str) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for c in text.chars() {
            let Some(glyph) = face.glyph(c) else { continue };
            let Some(used) = self.used.iter().find(|used| used.face == glyph.face) else {
                continue;
            };
            let code = used.glyphs.get(glyph.id).unwrap_or(0);
            // Two characters may share a glyph, of which only one is what it says.
            let stands_for = glyph.replaces || used.says.get(&code) != Some(&c);
            let goes_on = runs.last().is_some_and(|run| {
                run.face == glyph.face && run.stands_for.is_some() == stands_for
            });
            if !goes_on {
                runs.push(Run {
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

    /// Writes all; their names and numbers.
    pub(super) fn write(&self, pdf: &mut Pdf, numbers: &mut Numbers) -> Vec<(String, Ref)> {
        let each = self.used.iter();
        each.map(|used| (Fonts::name(used.face), used.write(pdf, numbers)))
            .collect()
    }
}

impl Used {
    fn new(face: Face) -> Used {
        Used {
            face,
            glyphs: GlyphRemapper::new(),
            says: BTreeMap::new(),
        }
    }

    /// The name of the part that is used: six letters that differ with it.
    fn name(&self) -> String {
        // FNV-1a, which is enough to tell two parts of one font from another.
        let ids = self.glyphs.remapped_gids().flat_map(u16::to_be_bytes);
        let hash = ids.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let letter = |place: u32| char::from(b'A' + (hash >> (place * 8) & 0xFF) as u8 % 26);
        let tag: String = (0..6).map(letter).collect();
        format!("{tag}+{}", self.face.name())
    }

    /// Writes the font, its part of the font file, and what its glyphs say.
    fn write(&self, pdf: &mut Pdf, numbers: &mut Numbers) -> Ref {
        let [font, cid, descriptor, cmap, file] = std::array::from_fn(|_| numbers.next());
        let parsed = self.face.parsed();
        let name = self.name();
        let is_cff = parsed.tables().cff.is_some();
        // Of a font with cubic outlines the encoding is part of the name.
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

        let per_em = f32::from(parsed.units_per_em());
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
        let widths = self.glyphs.remapped_gids().map(|id| {
            let advance = parsed.glyph_hor_advance(ttf_parser::GlyphId(id));
            thousandths(f32::from(advance.unwrap_or(0)))
        });
        written.widths().consecutive(0, widths);
        written.finish();

        let bounds = parsed.global_bounding_box();
        let corner = |units: i16| thousandths(f32::from(units));
        let mut flags = FontFlags::SYMBOLIC;
        flags.set(FontFlags::FIXED_PITCH, self.face == Face::Mono);
        let mut written = pdf.font_descriptor(descriptor);
        written.name(Name(name.as_bytes()));
        written.flags(flags);
        written.bbox(Rect::new(
            corner(bounds.x_min),
            corner(bounds.y_min),
            corner(bounds.x_max),
            corner(bounds.y_max),
        ));
        written.italic_angle(0.0);
        written.ascent(corner(parsed.ascender()));
        written.descent(corner(parsed.descender()));
        written.cap_height(corner(parsed.capital_height().unwrap_or(0)));
        written.stem_v(if self.face == Face::Bold { 120.0 } else { 80.0 });
        match is_cff {
            true => written.font_file3(file),
            false => written.font_file2(file),
        };
        written.finish();

        self.write_meaning(pdf, cmap);
        let data = compressed(&self.subset());
        let mut stream = pdf.stream(file, &data);
        stream.filter(Filter::FlateDecode);
        if is_cff {
            stream.pair(Name(b"Subtype"), Name(b"CIDFontType0C"));
        }
        stream.finish();
        font
    }

    /// Writes what each glyph says, for whoever searches or copies.
    fn write_meaning(&self, pdf: &mut Pdf, id: Ref) {
        let mut cmap = UnicodeCmap::new(Name(b"Custom"), SYSTEM);
        for (&glyph, &says) in &self.says {
            cmap.pair(glyph, says);
        }
        let data = compressed(cmap.finish().as_slice());
        pdf.cmap(id, &data).filter(Filter::FlateDecode);
    }

    /// The part of the font file that is used: outlines alone, as the format wants them.
    fn subset(&self) -> Vec<u8> {
        let whole = || self.face.data().to_vec();
        let part = subsetter::subset(self.face.data(), 0, &self.glyphs).unwrap_or_else(|_| whole());
        let tag = ttf_parser::Tag::from_bytes(b"CFF ");
        let outlines = ttf_parser::RawFace::parse(&part, 0).ok();
        let outlines = outlines.and_then(|face| face.table(tag).map(<[u8]>::to_vec));
        outlines.unwrap_or(part)
    }
}
