//! The rings that a socket shares with the kernel. Each ring has one producer and one consumer, one
//! of which is the kernel.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::umem::SharedMemory;

/// Flag of a ring whose kernel side sleeps until it is woken (XDP_RING_NEED_WAKEUP).
const NEED_WAKEUP: u32 = 1;

/// A ring whose entries have the type `T`, a structure of integers.
#[derive(Debug)]
struct Ring<T> {
    memory: SharedMemory,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    size: u32,
    _entries: PhantomData<T>,
}

/// Location of a ring in the socket's mappable memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingPlace {
    pub(crate) descriptor: i32,
    pub(crate) file_offset: i64,
    pub(crate) offsets: libc::xdp_ring_offset,
    /// Number of entries in the ring, which is a power of two.
    pub(crate) size: u32,
}

impl<T: Copy> Ring<T> {
    fn new(place: RingPlace) -> io::Result<Ring<T>> {
        let entries = place.offsets.desc as usize;
        let bytes = entries + place.size as usize * size_of::<T>();
        Ok(Ring {
            memory: SharedMemory::of_ring(place.descriptor, bytes, place.file_offset)?,
            producer: place.offsets.producer as usize,
            consumer: place.offsets.consumer as usize,
            flags: place.offsets.flags as usize,
            entries,
            size: place.size,
            _entries: PhantomData,
        })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the kernel returned this offset in the mapping, which begins at a page boundary.
        // Both sides access the word atomically.
        unsafe { &*self.memory.start().as_ptr().add(offset).cast::<AtomicU32>() }
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.entries + (index & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: the index is masked, so the entry is within the mapping.
        unsafe { self.memory.start().as_ptr().add(at).cast() }
    }

    fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// A ring that this process fills.
#[derive(Debug)]
pub(crate) struct ProducerRing<T> {
    ring: Ring<T>,
    /// Index of the next entry to write.
    next: u32,
    /// Position of the consumer when it was last read.
    consumed: u32,
}

impl<T: Copy> ProducerRing<T> {
    pub(crate) fn new(place: RingPlace) -> io::Result<ProducerRing<T>> {
        Ok(ProducerRing {
            ring: Ring::new(place)?,
            next: 0,
            consumed: 0,
        })
    }

    /// Writes an entry, which the kernel sees after [`ProducerRing::submit`]. Returns false if the
    /// ring is full.
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.next.wrapping_sub(self.consumed) == self.ring.size {
            self.consumed = self.consumed_now();
            if self.next.wrapping_sub(self.consumed) == self.ring.size {
                return false;
            }
        }
        // SAFETY: the consumer has read this entry, and doesn't read it again before `submit`.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Publishes all entries that were written.
    pub(crate) fn submit(&self) {
        self.ring
            .word(self.ring.producer)
            .store(self.next, Ordering::Release);
    }

    /// Returns the number of entries that the kernel has not consumed yet.
    pub(crate) fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.consumed_now())
    }

    fn consumed_now(&self) -> u32 {
        self.ring.word(self.ring.consumer).load(Ordering::Acquire)
    }

    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that the kernel fills.
#[derive(Debug)]
pub(crate) struct ConsumerRing<T> {
    ring: Ring<T>,
    /// Index of the next entry to read.
    next: u32,
    /// Position of the producer when it was last read.
    produced: u32,
}

impl<T: Copy> ConsumerRing<T> {
    pub(crate) fn new(place: RingPlace) -> io::Result<ConsumerRing<T>> {
        Ok(ConsumerRing {
            ring: Ring::new(place)?,
            next: 0,
            produced: 0,
        })
    }

    /// Returns true if no entry can be read.
    pub(crate) fn is_empty(&mut self) -> bool {
        if self.next == self.produced {
            self.produced = self.ring.word(self.ring.producer).load(Ordering::Acquire);
        }
        self.next == self.produced
    }

    /// Returns the number of entries that can be read.
    pub(crate) fn available(&mut self) -> u32 {
        self.produced = self.ring.word(self.ring.producer).load(Ordering::Acquire);
        self.produced.wrapping_sub(self.next)
    }

    /// Reads the next entry; `None` if the ring is empty.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the producer has published this entry, and doesn't write it again before
        // `release`.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Returns all entries that were read to the kernel.
    pub(crate) fn release(&self) {
        self.ring
            .word(self.ring.consumer)
            .store(self.next, Ordering::Release);
    }
}
