//! Blocks that came before.
//!
//! A server answers the same request with mostly the same bytes: its date changes once a second,
//! and little else does. Comparing a block with one that was decoded before takes a tenth of the
//! time that decoding it takes, and every check of the decoder stays in force, as it was made when
//! the block came first.
//!
//! What a block means depends on itself and, where it refers to the dynamic table, on that. So a
//! block that refers to it is known again only while the table is what it was then. What a block
//! puts into the table is put there again, unless the table is full of just that already and would
//! be as it was.

use super::fields::{Field, Fields};
use super::table::Table;

/// How many blocks are remembered; 8 tells several URLs' answers apart.
const PLACES: usize = 8;

/// Larger blocks are not remembered, so that a connection's memory is bounded.
const BLOCK_BYTES: usize = 1_024;

/// The blocks remembered, each in the place that its bytes lead to.
#[derive(Debug, Default)]
pub(super) struct Memo {
    places: [Known; PLACES],
    /// What the block under way did.
    draft: Draft,
}

#[derive(Debug, Default)]
struct Known {
    block: Vec<u8>,
    fields: Fields,
    draft: Draft,
    /// What it puts into the table leaves a table of this generation as it is.
    settled: Option<u64>,
}

/// What a block does besides listing fields.
#[derive(Debug, Default)]
struct Draft {
    /// What it puts into the dynamic table, in order. At most one for each two bytes of the block.
    inserted: Vec<Field>,
    /// The table's generation before, if it refers to the table.
    refers_to: Option<u64>,
    /// It is not to be remembered: it is too long, or it changes the table's size, which is seldom.
    passing: bool,
}

impl Memo {
    /// The fields of a block that is known, with its effect on the table.
    #[inline]
    pub(super) fn recall(&mut self, block: &[u8], table: &mut Table) -> Option<Fields> {
        let known = &mut self.places[place(block)];
        if known.block != block {
            return None;
        }
        let refers_to = known.draft.refers_to;
        if refers_to.is_some_and(|generation| generation != table.generation()) {
            return None;
        }
        if known.settled != Some(table.generation()) {
            known.settled = table.insert_all(&known.draft.inserted);
        }
        Some(known.fields)
    }

    /// A block is about to be decoded.
    pub(super) fn begin(&mut self, block: &[u8]) {
        self.draft.inserted.clear();
        self.draft.refers_to = None;
        self.draft.passing = block.len() > BLOCK_BYTES;
    }

    /// It refers to the table, which had this generation when the block began.
    pub(super) fn note_reference(&mut self, generation: u64) {
        self.draft.refers_to = Some(generation);
    }

    /// It put this into the table.
    pub(super) fn note_insertion(&mut self, field: Field) {
        if !self.draft.passing {
            self.draft.inserted.push(field);
        }
    }

    /// It changed the table's size.
    pub(super) fn note_resize(&mut self) {
        self.draft.passing = true;
    }

    /// It was decoded without an error.
    pub(super) fn end(&mut self, block: &[u8], fields: Fields) {
        if self.draft.passing {
            return;
        }
        let known = &mut self.places[place(block)];
        known.block.clear();
        known.block.extend_from_slice(block);
        known.fields = fields;
        known.settled = None;
        std::mem::swap(&mut known.draft, &mut self.draft);
    }
}

/// Which place a block belongs to. Mixes all of its bytes, eight at a time, as answers to different
/// requests may differ in few of them.
#[inline]
fn place(block: &[u8]) -> usize {
    let mut mixed = block.len() as u64;
    let mut mix = |word: u64| mixed = mixed.rotate_left(7).wrapping_add(word);
    let (words, rest) = block.as_chunks();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    match block.last_chunk() {
        // Some bytes twice, rather than each of the rest by itself.
        Some(word) => mix(u64::from_le_bytes(*word)),
        None => rest.iter().for_each(|byte| mix(u64::from(*byte))),
    }
    // The highest bits of a product with an odd number depend on all bits (Fibonacci hashing).
    let product = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> (64 - PLACES.ilog2())) as usize
}
