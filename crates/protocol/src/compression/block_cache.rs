//! Cache of decoded field blocks.
//!
//! A server's responses to the same request consist mostly of the same bytes. Little changes except
//! the date, which changes once per second. Comparing a block with a cached one takes a tenth of
//! the time needed to decode it. No check is skipped, because all checks were made when the cached
//! block was decoded.
//!
//! The meaning of a block depends on its bytes and, if it refers to a dynamic table, on the table.
//! The `effects` of a cached block contain the information about the table that the decoder needs.

use super::Fields;

/// Number of cached blocks; 8 suffice for the responses of several URLs.
const CACHED_BLOCKS_MAX: usize = 8;

/// Maximum size of a cached block, in bytes. It bounds the memory of a connection.
const CACHED_BLOCK_BYTES_MAX: usize = 1_024;

/// Cached blocks, indexed by a hash of their bytes.
#[derive(Debug, Default)]
pub(crate) struct BlockCache<E> {
    entries: [CachedBlock<E>; CACHED_BLOCKS_MAX],
}

/// A block that was decoded without error.
#[derive(Debug, Default)]
pub(crate) struct CachedBlock<E> {
    block: Vec<u8>,
    pub(crate) fields: Fields,
    pub(crate) effects: E,
}

impl<E> BlockCache<E> {
    /// Returns the cached block that consists of exactly these bytes, if there is one.
    #[inline]
    pub(crate) fn find(&mut self, block: &[u8]) -> Option<&mut CachedBlock<E>> {
        let known = &mut self.entries[bucket(block)];
        (known.block == block).then_some(known)
    }

    /// Returns true if a block of this length can be cached.
    pub(crate) fn is_cacheable(block: &[u8]) -> bool {
        block.len() <= CACHED_BLOCK_BYTES_MAX
    }

    /// Caches a block. Returns the effects of the block that it replaces, for the caller to
    /// overwrite.
    pub(crate) fn store(&mut self, block: &[u8], fields: Fields) -> &mut E {
        let known = &mut self.entries[bucket(block)];
        known.block.clear();
        known.block.extend_from_slice(block);
        known.fields = fields;
        &mut known.effects
    }
}

/// Returns a hash of a block. All bytes contribute to the hash, eight at a time, because the
/// responses to different requests may differ in only a few bytes.
#[inline]
fn bucket(block: &[u8]) -> usize {
    let mut mixed = block.len() as u64;
    let mut mix = |word: u64| mixed = mixed.rotate_left(7).wrapping_add(word);
    let (words, rest) = block.as_chunks();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    match block.last_chunk() {
        // The words overlap, so the remaining bytes need not be mixed individually.
        Some(word) => mix(u64::from_le_bytes(*word)),
        None => rest.iter().for_each(|byte| mix(u64::from(*byte))),
    }
    // The highest bits of a product with an odd number depend on all bits (Fibonacci hashing).
    let product = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> (64 - CACHED_BLOCKS_MAX.ilog2())) as usize
}
