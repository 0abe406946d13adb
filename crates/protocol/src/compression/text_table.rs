//! A dynamic table that stores text, and the formatting of fields as lines of text.

use std::collections::VecDeque;

use super::FIELD_OVERHEAD_BYTES;

/// Name and value of a field.
pub(crate) type FieldText = (Vec<u8>, Vec<u8>);

/// Dynamic table (RFC 7541 §2.3.2, RFC 9204 §3.2) for the few callers that need fields as text.
#[derive(Debug)]
pub(crate) struct TextTable {
    /// Entries, the newest first.
    entries: VecDeque<FieldText>,
    bytes: usize,
    max_bytes: usize,
}

impl TextTable {
    /// Creates an empty table with this maximum size, in bytes.
    pub(crate) fn new(max_bytes: u32) -> TextTable {
        TextTable {
            entries: VecDeque::new(),
            bytes: 0,
            max_bytes: max_bytes as usize,
        }
    }

    /// Returns an empty table with this maximum size, which takes over the memory.
    pub(crate) fn renewed(&mut self, max_bytes: u32) -> TextTable {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        TextTable {
            entries,
            ..TextTable::new(max_bytes)
        }
    }

    /// Returns the entry at an index. Index 0 is the newest entry.
    pub(crate) fn get(&self, index: usize) -> Option<&FieldText> {
        self.entries.get(index)
    }

    /// Inserts an entry (RFC 7541 §4.4).
    pub(crate) fn insert(&mut self, field: FieldText) {
        let bytes = counted(&field);
        self.evict(self.max_bytes.saturating_sub(bytes));
        if bytes <= self.max_bytes {
            self.bytes += bytes;
            self.entries.push_front(field);
        }
    }

    /// Changes the size of the table (RFC 7541 §4.3).
    pub(crate) fn resize(&mut self, max_bytes: u32) {
        self.max_bytes = max_bytes as usize;
        self.evict(self.max_bytes);
    }

    fn evict(&mut self, max_bytes: usize) {
        while self.bytes > max_bytes
            && let Some(field) = self.entries.pop_back()
        {
            self.bytes -= counted(&field);
        }
    }

    /// Returns the number of entries and the sum of their sizes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }
}

/// Returns the size of an entry (RFC 7541 §4.1).
fn counted((name, value): &FieldText) -> usize {
    name.len() + value.len() + FIELD_OVERHEAD_BYTES as usize
}

/// Size of the output, in bytes, beyond which no lines are added. It exceeds the longest accepted
/// list.
const LINES_BYTES_MAX: usize = 256 * 1024;

/// Appends a field as a line that ends with CRLF. `:status` becomes a status line that begins with
/// `version`. Does nothing if `out` already exceeds every limit on lists of fields: such a list is
/// rejected, and a peer could make it very long by repeating a long entry of the table thousands of
/// times.
pub(crate) fn write_line(version: &str, (name, value): &FieldText, out: &mut Vec<u8>) {
    if out.len() > LINES_BYTES_MAX {
        return;
    }
    let parts: [&[u8]; 4] = match &name[..] {
        b":status" => [version.as_bytes(), b" ", value, b"\r\n"],
        name => [name, b": ", value, b"\r\n"],
    };
    for part in parts {
        out.extend_from_slice(part);
    }
}
