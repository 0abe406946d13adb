//! Buffers for received bytes: a ring of buffers from which the kernel picks the next one
//! (io_uring_register_buf_ring(3)).
//!
//! Since Linux 6.12, a buffer can be consumed piece by piece: small responses share a buffer, and
//! large ones arrive in one piece. In older kernels, each receive uses a whole buffer.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

/// Identifier of the only buffer group of a ring.
pub(super) const GROUP: u16 = 0;
/// Alignment of the buffer ring, in bytes. The kernel requires the ring to begin on a page
/// boundary.
const PAGE: usize = 4096;
/// `IOU_PBUF_RING_INC` of linux/io_uring.h: buffers are consumed piece by piece.
const INCREMENTAL: u16 = 2;

/// Number of buffers, which is a power of two, and size of each buffer in bytes.
#[derive(Clone, Copy)]
struct BufferLayout {
    count: u16,
    bytes: u32,
}

/// Unit in which the kernel consumes buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::socket) enum BufferUse {
    /// Each receive consumes a piece of a buffer.
    Piecewise,
    /// Each receive consumes a whole buffer.
    Whole,
}

/// Buffers that are consumed piece by piece. All of them together fit into a core's cache, and each
/// can hold a body of 100 KiB.
const PIECEWISE: BufferLayout = BufferLayout {
    count: 4,
    bytes: 256 * 1024,
};
/// Buffers that are consumed whole. There are more of them, because each receive takes one even for
/// a few bytes.
const WHOLE: BufferLayout = BufferLayout {
    count: 64,
    bytes: 32 * 1024,
};

/// The buffer ring and its buffers. They must outlive the `IoUring` that they are registered with.
pub(super) struct ReceiveBuffers {
    usage: BufferUse,
    shape: BufferLayout,
    memory: PageMemory,
    entries: PageMemory,
    /// Number of bytes that the kernel has consumed of each buffer.
    used: Vec<u32>,
    tail: u16,
}

impl ReceiveBuffers {
    /// Registers buffers with `ring`. The kernel may fill all of them.
    ///
    /// # Errors
    ///
    /// The kernel does not support rings of buffers (before Linux 5.19).
    pub(super) fn register(ring: &IoUring) -> io::Result<ReceiveBuffers> {
        match ReceiveBuffers::used(ring, BufferUse::Piecewise) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                ReceiveBuffers::used(ring, BufferUse::Whole)
            }
            result => result,
        }
    }

    /// Like [`ReceiveBuffers::register`], but the kernel consumes the buffers in the given unit.
    ///
    /// # Errors
    ///
    /// See [`ReceiveBuffers::register`].
    pub(super) fn used(ring: &IoUring, usage: BufferUse) -> io::Result<ReceiveBuffers> {
        let (shape, flags) = match usage {
            BufferUse::Piecewise => (PIECEWISE, INCREMENTAL),
            BufferUse::Whole => (WHOLE, 0),
        };
        let count = usize::from(shape.count);
        let entries = PageMemory::zeroed(count * size_of::<BufRingEntry>());
        let address = entries.start.as_ptr() as u64;
        // SAFETY: the memory has room for this number of entries, and the caller drops the ring
        // first.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(address, shape.count, GROUP, flags)?;
        }
        let mut buffers = ReceiveBuffers {
            usage,
            shape,
            memory: PageMemory::zeroed(count * shape.bytes as usize),
            entries,
            used: vec![0; count],
            tail: 0,
        };
        for buffer in 0..shape.count {
            buffers.give_back(buffer);
        }
        Ok(buffers)
    }

    /// Returns the range of the received bytes, and the buffer if it is used up and must be
    /// returned to the kernel. Returns `None` for a completion without a buffer.
    ///
    /// A receive of zero bytes (the peer's close) never uses up a piecewise buffer, even if the
    /// kernel reports, as for other operations, that it does. Otherwise, the buffer would be in the
    /// ring twice.
    pub(super) fn taken(&mut self, length: u32, flags: u32) -> Option<(Range<usize>, Option<u16>)> {
        let buffer = cqueue::buffer_select(flags)?;
        let used = self.used.get_mut(usize::from(buffer))?;
        if length > self.shape.bytes - *used {
            // No kernel reports more bytes than the buffer has left. Without this check, the code
            // below could then read beyond the buffer.
            return None;
        }
        let start = usize::from(buffer) * self.shape.bytes as usize + *used as usize;
        *used += length;
        let done = !cqueue::buffer_more(flags) && (length > 0 || self.usage == BufferUse::Whole);
        Some((start..start + length as usize, done.then_some(buffer)))
    }

    /// Returns the bytes of a range that [`ReceiveBuffers::taken`] returned.
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        debug_assert!(range.end <= self.memory.layout.size());
        // SAFETY: the range is within the memory. The kernel writes there again only after the
        // buffer was returned, which needs a mutable borrow of `self`.
        unsafe {
            std::slice::from_raw_parts(self.memory.start.as_ptr().add(range.start), range.len())
        }
    }

    /// Returns a buffer to the kernel.
    pub(super) fn give_back(&mut self, buffer: u16) {
        let ring = self.entries.start.cast::<BufRingEntry>().as_ptr();
        let position = usize::from(self.tail & (self.shape.count - 1));
        let start = usize::from(buffer) * self.shape.bytes as usize;
        self.used[usize::from(buffer)] = 0;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the entry is within the ring, and the kernel reads entries only up to the tail,
        // which is published afterwards. The tail shares memory with a reserved part of the first
        // entry, which `set_*` don't touch.
        unsafe {
            let entry = &mut *ring.add(position);
            entry.set_addr(self.memory.start.as_ptr().add(start) as u64);
            entry.set_len(self.shape.bytes);
            entry.set_bid(buffer);
            let tail = BufRingEntry::tail(ring).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Zeroed, page-aligned memory. Pages that are never touched use no physical memory.
struct PageMemory {
    start: NonNull<u8>,
    layout: Layout,
}

impl PageMemory {
    fn zeroed(bytes: usize) -> PageMemory {
        let layout = Layout::from_size_align(bytes.max(PAGE), PAGE)
            .expect("buffer sizes are constants far below the limit");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout);
        };
        PageMemory { start, layout }
    }
}

impl Drop for PageMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
