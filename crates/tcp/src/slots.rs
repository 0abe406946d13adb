//! A slab whose handles become invalid when their entry is removed.

/// Handle of an entry, valid as long as the entry exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Position in the slab. Positions are reused.
    pub(crate) index: u32,
    /// Generation, which differs for each entry at the same position.
    pub(crate) generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

/// A slab of entries.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the number of positions that have or had an entry.
    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn insert(&mut self, entry: T) -> Handle {
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        if index as usize == self.slots.len() {
            self.slots.push(Slot {
                generation: 0,
                entry: None,
            });
        }
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.entry = Some(entry);
        Handle {
            index,
            generation: slot.generation,
        }
    }

    /// Returns the handle of the entry at a position.
    pub(crate) fn handle(&self, index: u32) -> Option<Handle> {
        let slot = self.slots.get(index as usize)?;
        slot.entry.as_ref()?;
        Some(Handle {
            index,
            generation: slot.generation,
        })
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.slots.get(handle.index as usize)?;
        slot.entry
            .as_ref()
            .filter(|_| slot.generation == handle.generation)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        slot.entry
            .as_mut()
            .filter(|_| slot.generation == handle.generation)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        self.get(handle)?;
        let removed = self.slots[handle.index as usize].entry.take();
        self.free.push(handle.index);
        removed
    }
}
