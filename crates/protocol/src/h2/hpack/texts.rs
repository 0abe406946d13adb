//! Decoding of fields as text, for the few callers that need heads as text.

use super::{DEFAULT_TABLE_BYTES, static_table};
use crate::buffer::emptied;
use crate::compression::{CodedString, FieldText, TextTable, decode_integer, write_line};

/// Fields of the last block as text, decoded with a separate dynamic table (RFC 7541 §2.3.2).
///
/// Each block must have been accepted by the [`Decoder`](super::Decoder), so it is known to contain
/// no errors and to be within the decoder's limits.
#[derive(Debug)]
pub(crate) struct FieldTexts {
    table: TextTable,
    /// The last block, one line per field.
    lines: Vec<u8>,
}

impl FieldTexts {
    pub(crate) fn new() -> FieldTexts {
        FieldTexts {
            table: TextTable::new(DEFAULT_TABLE_BYTES),
            lines: Vec::new(),
        }
    }

    /// Returns the texts of a new connection, which take over the memory.
    pub(crate) fn renewed(&mut self) -> FieldTexts {
        FieldTexts {
            table: self.table.renewed(DEFAULT_TABLE_BYTES),
            lines: emptied(&mut self.lines),
        }
    }

    /// Returns the fields of the last block, as `name: value` with CRLF. In a head, the status line
    /// `HTTP/2 200` comes first.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Reads a block that the decoder has accepted.
    pub(crate) fn read(&mut self, block: &[u8]) {
        self.lines.clear();
        let mut rest = block;
        // The loop ends early only for a block that the decoder rejects.
        while !rest.is_empty() && self.field(&mut rest).is_some() {}
    }

    /// Reads one field, or a dynamic table size update (RFC 7541 §6).
    fn field(&mut self, rest: &mut &[u8]) -> Option<()> {
        let field = match *rest.first()? {
            0x80.. => self.entry(decode_integer(7, rest).ok()?)?,
            0x40.. => {
                let field = self.literal(6, rest)?;
                self.table.insert(field.clone());
                field
            }
            0x20.. => {
                self.table.resize(decode_integer(5, rest).ok()?);
                return Some(());
            }
            _ => self.literal(4, rest)?,
        };
        write_line("HTTP/2", &field, &mut self.lines);
        Some(())
    }

    fn literal(&self, bits: u32, rest: &mut &[u8]) -> Option<FieldText> {
        let name = match decode_integer(bits, rest).ok()? {
            0 => string(rest)?,
            index => self.entry(index)?.0,
        };
        Some((name, string(rest)?))
    }

    fn entry(&self, index: u32) -> Option<FieldText> {
        let at = (index as usize).checked_sub(1)?;
        match static_table::TEXTS.get(at) {
            Some((name, value)) => Some((name.as_bytes().to_vec(), value.as_bytes().to_vec())),
            None => self.table.get(at - static_table::ENTRIES).cloned(),
        }
    }
}

/// Parses a string at the start of `rest` and consumes it (RFC 7541 §5.2).
fn string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    CodedString::take(7, rest).ok()?.to_vec().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the examples of RFC 7541 §C.6, with a table of 256 bytes from which entries are
    /// evicted.
    #[test]
    fn the_examples_of_the_rfc_in_words() {
        let blocks: [&[u8]; 3] = [
            b"\x3f\xe1\x01\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\
              \x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\
              \xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3",
            b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf",
            b"\x88\xc1\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\
              \x84\xa6\x2d\x1b\xff\xc0\x5a\x83\x9b\xd9\xab\x77\xad\x94\xe7\x82\x1d\xd7\xf2\xe6\xc7\
              \xb3\x35\xdf\xdf\xcd\x5b\x39\x60\xd5\xaf\x27\x08\x7f\x36\x72\xc1\xab\x27\x0f\xb5\x29\
              \x1f\x95\x87\x31\x60\x65\xc0\x03\xed\x4e\xe5\xb1\x06\x3d\x50\x07",
        ];
        let common = "cache-control: private\r\ndate: Mon, 21 Oct 2013 20:13:21 GMT\r\n\
                      location: https://www.example.com\r\n";
        let mut texts = FieldTexts::new();
        for (block, lines) in blocks.into_iter().zip([
            format!("HTTP/2 302\r\n{common}"),
            format!("HTTP/2 307\r\n{common}"),
            "HTTP/2 200\r\ncache-control: private\r\ndate: Mon, 21 Oct 2013 20:13:22 GMT\r\n\
             location: https://www.example.com\r\ncontent-encoding: gzip\r\n\
             set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\r\n"
                .to_owned(),
        ]) {
            texts.read(block);
            assert_eq!(String::from_utf8_lossy(texts.lines()), lines);
        }
        assert_eq!(texts.table.size(), (3, 215));
        texts = texts.renewed();
        texts.read(b"\x88");
        assert_eq!(
            (texts.lines(), texts.table.size()),
            (&b"HTTP/2 200\r\n"[..], (0, 0))
        );
    }

    #[test]
    fn what_no_decoder_takes_is_left() {
        for block in [
            &b"\xbe\x88"[..],
            b"\x40\x05a",
            b"\xff\xff\xff\xff\xff\xff\x0f",
        ] {
            let mut texts = FieldTexts::new();
            texts.read(block);
            assert_eq!(texts.lines(), b"");
        }
    }
}
