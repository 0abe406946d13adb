//! Cache of decoded blocks.
//!
//! A server sends mostly the same bytes in response to the same request: the date changes once per
//! second, and little else. Comparing a block with one decoded before takes a tenth of the time of
//! decoding it. No check is lost, because every check was made when the block was decoded.
//!
//! The meaning of a block depends on its bytes and, if it refers to the dynamic table, on the
//! table. Such a block is recognized only while the table is unchanged. Its insertions into the
//! table are repeated, unless the table is full of exactly these entries and would not change.

use super::fields::{Field, Fields};
use super::table::Table;

/// Number of cached blocks; 8 suffice for the responses of several URLs.
const CACHED_BLOCKS_MAX: usize = 8;

/// Largest cached block, in bytes, which bounds the memory of a connection.
const CACHED_BLOCK_BYTES_MAX: usize = 1_024;

/// Cached blocks, indexed by a hash of their bytes.
#[derive(Debug, Default)]
pub(super) struct BlockCache {
    entries: [CachedBlock; CACHED_BLOCKS_MAX],
    /// Effects of the block being decoded.
    effects: BlockEffects,
}

#[derive(Debug, Default)]
struct CachedBlock {
    block: Vec<u8>,
    fields: Fields,
    effects: BlockEffects,
    /// Generation of the table that the block's insertions leave unchanged.
    settled: Option<u64>,
}

/// Effects of a block other than its fields.
#[derive(Debug, Default)]
struct BlockEffects {
    /// Insertions into the dynamic table, in order: at most one per two bytes of the block.
    inserted: Vec<Field>,
    /// Generation of the table before the block, if the block refers to the table.
    refers_to: Option<u64>,
    /// True if the block is not to be cached: it is too long, or changes the table's size, which is
    /// rare.
    uncacheable: bool,
}

impl BlockCache {
    /// Returns the fields of a cached block, and applies its effects to the table.
    #[inline]
    pub(super) fn recall(&mut self, block: &[u8], table: &mut Table) -> Option<Fields> {
        let known = &mut self.entries[bucket(block)];
        if known.block != block {
            return None;
        }
        let refers_to = known.effects.refers_to;
        if refers_to.is_some_and(|generation| generation != table.generation()) {
            return None;
        }
        if known.settled != Some(table.generation()) {
            known.settled = table.insert_all(&known.effects.inserted);
        }
        Some(known.fields)
    }

    /// Starts to record the effects of a block.
    pub(super) fn begin(&mut self, block: &[u8]) {
        self.effects.inserted.clear();
        self.effects.refers_to = None;
        self.effects.uncacheable = block.len() > CACHED_BLOCK_BYTES_MAX;
    }

    /// Records a reference to the table, which had this generation when the block began.
    pub(super) fn note_reference(&mut self, generation: u64) {
        self.effects.refers_to = Some(generation);
    }

    /// Records an insertion.
    pub(super) fn note_insertion(&mut self, field: Field) {
        if !self.effects.uncacheable {
            self.effects.inserted.push(field);
        }
    }

    /// Records a change of the table's size.
    pub(super) fn note_resize(&mut self) {
        self.effects.uncacheable = true;
    }

    /// Caches a block that was decoded without error.
    pub(super) fn end(&mut self, block: &[u8], fields: Fields) {
        if self.effects.uncacheable {
            return;
        }
        let known = &mut self.entries[bucket(block)];
        known.block.clear();
        known.block.extend_from_slice(block);
        known.fields = fields;
        known.settled = None;
        std::mem::swap(&mut known.effects, &mut self.effects);
    }
}

/// Hash of a block. It mixes all bytes, eight at a time, because the responses to different
/// requests may differ in few of them.
#[inline]
fn bucket(block: &[u8]) -> usize {
    let mut mixed = block.len() as u64;
    let mut mix = |word: u64| mixed = mixed.rotate_left(7).wrapping_add(word);
    let (words, rest) = block.as_chunks();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    match block.last_chunk() {
        // Overlapping words, so that the remaining bytes needn't be mixed one by one.
        Some(word) => mix(u64::from_le_bytes(*word)),
        None => rest.iter().for_each(|byte| mix(u64::from(*byte))),
    }
    // The highest bits of a product with an odd number depend on all bits (Fibonacci hashing).
    let product = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> (64 - CACHED_BLOCKS_MAX.ilog2())) as usize
}
