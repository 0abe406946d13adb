//! Cache of decoded blocks, with their effects on the dynamic table.
//!
//! A block that refers to the dynamic table is recognized only while the table is unchanged. When a
//! block is recognized, its insertions into the table are repeated, unless the table consists of
//! exactly these entries and would not change.

use crate::compression::{BlockCache, Field, Fields, Table};

/// Cached blocks.
#[derive(Debug, Default)]
pub(super) struct CachedBlocks {
    blocks: BlockCache<CachedEffects>,
    /// Effects of the block being decoded.
    effects: BlockEffects,
    /// True if the block being decoded must not be cached, because it is too long or, in rare
    /// cases, changes the table's size.
    uncacheable: bool,
}

#[derive(Debug, Default)]
struct CachedEffects {
    effects: BlockEffects,
    /// Generation of the table in which repeating the block's insertions changes nothing.
    settled: Option<u64>,
}

/// Effects of a block on the dynamic table, and its dependence on the table.
#[derive(Debug, Default)]
struct BlockEffects {
    /// Insertions into the dynamic table, in order: at most one per two bytes of the block.
    inserted: Vec<Field>,
    /// Generation of the table before the block was decoded, if the block refers to the table.
    refers_to: Option<u64>,
}

impl CachedBlocks {
    /// Returns what `accept` returns for the fields of a cached block, and applies the block's
    /// effects to the table. Changes nothing if `accept` returns `None`.
    #[inline]
    pub(super) fn recall<T>(
        &mut self,
        block: &[u8],
        table: &mut Table,
        accept: impl FnOnce(&Fields) -> Option<T>,
    ) -> Option<T> {
        let known = self.blocks.find(block)?;
        let CachedEffects { effects, settled } = &mut known.effects;
        let refers_to = effects.refers_to;
        if refers_to.is_some_and(|generation| generation != table.generation()) {
            return None;
        }
        let accepted = accept(&known.fields)?;
        if *settled != Some(table.generation()) {
            *settled = table.insert_all(&effects.inserted);
        }
        Some(accepted)
    }

    /// Starts recording the effects of a block.
    pub(super) fn begin(&mut self, block: &[u8]) {
        self.effects.inserted.clear();
        self.effects.refers_to = None;
        self.uncacheable = !BlockCache::<CachedEffects>::is_cacheable(block);
    }

    /// Records a reference to the table, and the table's generation at the start of the block.
    pub(super) fn note_reference(&mut self, generation: u64) {
        self.effects.refers_to = Some(generation);
    }

    /// Records an insertion.
    pub(super) fn note_insertion(&mut self, field: Field) {
        if !self.uncacheable {
            self.effects.inserted.push(field);
        }
    }

    /// Records a dynamic table size update.
    pub(super) fn note_resize(&mut self) {
        self.uncacheable = true;
    }

    /// Caches a block that was decoded without error.
    pub(super) fn end(&mut self, block: &[u8], fields: Fields) {
        if self.uncacheable {
            return;
        }
        let replaced = self.blocks.store(block, fields);
        replaced.settled = None;
        std::mem::swap(&mut replaced.effects, &mut self.effects);
    }
}
