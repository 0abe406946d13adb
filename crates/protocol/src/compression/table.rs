//! Dynamic table (RFC 7541 §2.3.2 and §4, RFC 9204 §3.2) that stores meanings instead of text.

use std::collections::VecDeque;

use super::fields::Field;

/// Dynamic table of a decoder.
///
/// Every entry uses the same small amount of memory, whatever the field's size, and counts as at
/// least 32 bytes of the table's size. The limit on that size therefore bounds the memory.
#[derive(Debug)]
pub(crate) struct Table {
    /// Entries, the newest first.
    entries: VecDeque<Field>,
    /// Sum of the entries' sizes, in bytes.
    bytes: u32,
    /// Limit on `bytes`, chosen by the encoder.
    max_bytes: u32,
    /// Incremented whenever the meaning of an index changes.
    generation: u64,
}

impl Table {
    /// Creates an empty table with this maximum size, in bytes.
    pub(crate) fn new(max_bytes: u32) -> Table {
        Table {
            entries: VecDeque::new(),
            bytes: 0,
            max_bytes,
            generation: 0,
        }
    }

    /// Returns an empty table with this maximum size, which takes over the memory. The generation
    /// changes even if the table was empty, so that no block cached for this table is valid for it.
    pub(crate) fn renewed(&mut self, max_bytes: u32) -> Table {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        Table {
            entries,
            generation: self.generation + 1,
            ..Table::new(max_bytes)
        }
    }

    /// Returns the entry at an index. Index 0 is the newest entry.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&Field> {
        self.entries.get(index)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn max_bytes(&self) -> u32 {
        self.max_bytes
    }

    /// Inserts an entry at the front, and evicts others from the end. An entry larger than the
    /// whole table empties it (RFC 7541 §4.4).
    #[inline]
    pub(crate) fn insert(&mut self, field: Field) {
        let fits = field.bytes <= self.max_bytes;
        self.evict(if fits {
            self.max_bytes - field.bytes
        } else {
            0
        });
        if fits {
            self.bytes += field.bytes;
            self.entries.push_front(field);
            self.generation += 1;
        }
    }

    /// Inserts entries in order, unless the insertions would change nothing. Returns the generation
    /// if the table is unchanged.
    pub(crate) fn insert_all(&mut self, fields: &[Field]) -> Option<u64> {
        if fields.is_empty() || self.is_full_of(fields) {
            return Some(self.generation);
        }
        for field in fields {
            self.insert(*field);
        }
        None
    }

    /// Returns true if the table consists only of repetitions of these fields. Each insertion then
    /// evicts an equal entry, and all indices keep their meaning.
    fn is_full_of(&self, fields: &[Field]) -> bool {
        let entries = &self.entries;
        entries.iter().take(fields.len()).eq(fields.iter().rev())
            && entries
                .iter()
                .skip(fields.len())
                .eq(entries.iter().take(entries.len() - fields.len()))
            && self.evictions(fields) == Some(fields.len())
    }

    /// Returns the number of entries that these fields would evict, or `None` if some of the fields
    /// would themselves be evicted.
    fn evictions(&self, fields: &[Field]) -> Option<usize> {
        let mut oldest = self.entries.iter().rev();
        let mut bytes = self.bytes;
        for field in fields {
            let rest_bytes = self.max_bytes.checked_sub(field.bytes)?;
            while bytes > rest_bytes {
                bytes -= oldest.next()?.bytes;
            }
            bytes += field.bytes;
        }
        Some(self.entries.len() - oldest.len())
    }

    /// Changes the size of the table (RFC 7541 §4.3).
    pub(crate) fn resize(&mut self, max_bytes: u32) {
        self.max_bytes = max_bytes;
        self.evict(max_bytes);
    }

    /// Evicts entries from the end until the rest fits.
    fn evict(&mut self, max_bytes: u32) {
        while self.bytes > max_bytes
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.bytes;
            self.generation += 1;
        }
    }

    #[cfg(test)]
    pub(crate) fn forget_generation(&mut self) {
        self.generation = 0;
    }

    /// Returns true if both tables have the same entries, regardless of their history.
    #[cfg(test)]
    pub(crate) fn is_like(&self, other: &Table) -> bool {
        (&self.entries, self.bytes) == (&other.entries, other.bytes)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Name;
    use super::*;

    fn field(value_bytes: usize) -> Field {
        Field::read(Name::read(b"a"), &vec![b'v'; value_bytes])
    }

    #[test]
    fn the_newest_entry_is_first_and_the_oldest_is_evicted_first() {
        let mut table = Table::new(4_096);
        table.resize(100);
        table.insert(field(0));
        table.insert(field(10));
        assert_eq!(
            (table.bytes(), table.get(0), table.get(1)),
            (76, Some(&field(10)), Some(&field(0)))
        );
        table.insert(field(20));
        assert_eq!(
            (table.bytes(), table.get(0), table.get(1)),
            (96, Some(&field(20)), Some(&field(10)))
        );
        assert_eq!(table.get(2), None);
    }

    #[test]
    fn what_is_larger_than_the_table_empties_it() {
        let mut table = Table::new(4_096);
        table.resize(100);
        table.insert(field(5));
        let before = table.generation();
        table.insert(field(68));
        assert_eq!((table.bytes(), table.get(0)), (0, None));
        assert_ne!(table.generation(), before);
        table.insert(field(67));
        assert_eq!(table.bytes(), 100);
    }

    #[test]
    fn a_smaller_size_evicts_at_once() {
        let mut table = Table::new(4_096);
        for _ in 0..10 {
            table.insert(field(0));
        }
        table.resize(70);
        assert_eq!(table.bytes(), 66);
        table.resize(0);
        assert_eq!(table.bytes(), 0);
        let before = table.generation();
        table.insert(field(0));
        assert_eq!((table.get(0), table.generation()), (None, before));
    }

    #[test]
    fn entries_are_bounded_by_the_size() {
        let mut table = Table::new(4_096);
        for _ in 0..10_000 {
            table.insert(Field::read(Name::read(b""), b""));
        }
        assert_eq!(table.entries.len(), 128);
    }
}
