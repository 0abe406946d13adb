//! Reads the tables of a font file that a PDF needs: the glyphs of characters, their widths, and
//! the metrics of the font.

use std::collections::HashMap;

/// A parsed font file.
#[derive(Debug)]
pub(super) struct FontFile {
    /// Glyphs by character.
    glyphs: HashMap<char, u16>,
    /// The advance width of each glyph, in font units. The last one applies to all remaining
    /// glyphs.
    advances: Vec<u16>,
    pub(super) units_per_em: u16,
    /// The bounding box of all glyphs: left, bottom, right, top.
    pub(super) bounds: [i16; 4],
    pub(super) ascender: i16,
    pub(super) descender: i16,
    pub(super) cap_height: i16,
    /// True if the outlines are cubic (a `CFF ` table) rather than quadratic.
    pub(super) is_cff: bool,
}

impl FontFile {
    /// Parses a font; `None` if a table is missing or truncated.
    pub(super) fn read(data: &[u8]) -> Option<FontFile> {
        let head = table(data, *b"head")?;
        let hhea = table(data, *b"hhea")?;
        let hmtx = table(data, *b"hmtx")?;
        let os2 = table(data, *b"OS/2")?;
        let metrics = usize::from(u16_at(hhea, 34)?);
        let advances = (0..metrics).map(|glyph| u16_at(hmtx, glyph * 4));
        let corner = |place: usize| i16_at(head, 36 + 2 * place);
        Some(FontFile {
            glyphs: glyphs(table(data, *b"cmap")?)?,
            advances: advances.collect::<Option<_>>()?,
            units_per_em: u16_at(head, 18)?.max(1),
            bounds: [corner(0)?, corner(1)?, corner(2)?, corner(3)?],
            ascender: i16_at(hhea, 4)?,
            descender: i16_at(hhea, 6)?,
            cap_height: i16_at(os2, 88).unwrap_or(0),
            is_cff: table(data, *b"CFF ").is_some(),
        })
    }

    /// The glyph of a character.
    pub(super) fn glyph(&self, c: char) -> Option<u16> {
        self.glyphs.get(&c).copied()
    }

    /// The advance width of a glyph in font units.
    pub(super) fn advance(&self, glyph: u16) -> u16 {
        let own = self.advances.get(usize::from(glyph));
        own.or(self.advances.last()).copied().unwrap_or(0)
    }
}

/// Finds a table of a font file.
pub(super) fn table(data: &[u8], tag: [u8; 4]) -> Option<&[u8]> {
    let count = usize::from(u16_at(data, 4)?);
    let entry = |place: usize| data.get(12 + place * 16..12 + (place + 1) * 16);
    let entry = (0..count).filter_map(entry).find(|it| it[..4] == tag)?;
    let (offset, length) = (u32_at(entry, 8)?, u32_at(entry, 12)?);
    data.get(offset..offset.checked_add(length)?)
}

/// Reads all characters of a `cmap` table with their glyphs, from the Unicode subtables. Formats
/// other than 4 are ignored, because the embedded fonts have no characters above U+FFFF.
fn glyphs(cmap: &[u8]) -> Option<HashMap<char, u16>> {
    let mut all = HashMap::new();
    for place in 0..usize::from(u16_at(cmap, 2)?) {
        let entry = 4 + place * 8;
        let is_unicode = matches!(
            (u16_at(cmap, entry)?, u16_at(cmap, entry + 2)?),
            (0, _) | (3, 1)
        );
        let subtable = cmap.get(u32_at(cmap, entry + 4)?..)?;
        if is_unicode && u16_at(subtable, 0)? == 4 {
            segments(subtable, &mut all)?;
        }
    }
    Some(all)
}

/// Reads a subtable of format 4: ranges of characters up to U+FFFF.
fn segments(subtable: &[u8], all: &mut HashMap<char, u16>) -> Option<()> {
    let count = usize::from(u16_at(subtable, 6)?) / 2;
    let (ends, starts) = (14, 16 + 2 * count);
    let (deltas, offsets) = (starts + 2 * count, starts + 4 * count);
    for segment in (0..2 * count).step_by(2) {
        let (start, end) = (
            u16_at(subtable, starts + segment)?,
            u16_at(subtable, ends + segment)?,
        );
        let delta = u16_at(subtable, deltas + segment)?;
        let offset = usize::from(u16_at(subtable, offsets + segment)?);
        for code in start..=end {
            let glyph = match offset {
                0 => code.wrapping_add(delta),
                // The offset is relative to the position at which it is stored.
                _ => {
                    let index = offsets + segment + offset + 2 * usize::from(code - start);
                    match u16_at(subtable, index) {
                        None | Some(0) => 0,
                        Some(glyph) => glyph.wrapping_add(delta),
                    }
                }
            };
            if let (Some(c), 1..) = (char::from_u32(code.into()), glyph) {
                all.insert(c, glyph);
            }
        }
    }
    Some(())
}

fn u16_at(data: &[u8], offset: usize) -> Option<u16> {
    let bytes = data.get(offset..offset + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn i16_at(data: &[u8], offset: usize) -> Option<i16> {
    u16_at(data, offset).map(u16::cast_signed)
}

fn u32_at(data: &[u8], offset: usize) -> Option<usize> {
    let bytes = data.get(offset..offset + 4)?;
    let value = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::super::face::Face;
    use super::*;

    #[test]
    fn metrics_are_those_of_the_fonts() {
        for face in Face::ALL {
            let font = FontFile::read(face.data()).unwrap();
            assert_eq!(font.is_cff, face != Face::Mono, "{face:?}");
            let em = i32::from(font.units_per_em);
            assert!(font.glyph('A').is_some() && font.glyph('漢').is_none());
            let height = i32::from(font.cap_height);
            assert!((em / 2..em).contains(&height), "{face:?}: {height} of {em}");
            assert!(font.ascender > font.cap_height && font.descender < 0);
            assert!(font.bounds[0] < font.bounds[2] && font.bounds[1] < font.bounds[3]);
        }
    }

    #[test]
    fn a_font_truncated_anywhere_is_refused_or_read_without_a_panic() {
        let data = Face::Mono.data();
        for length in (0..data.len()).step_by(997) {
            let _ = FontFile::read(&data[..length]);
        }
        assert!(FontFile::read(&data[..11]).is_none());
    }
}
