//! The memory of a socket's frames (UMEM).

use std::io;
use std::ptr::NonNull;

/// Memory that this process has mapped with mmap(2) and shares with the kernel.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, which is not copied.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Allocates memory that is filled with zeros.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has too little memory.
    pub(crate) fn new(bytes: usize) -> io::Result<SharedMemory> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: the call creates a new mapping at an address that the kernel chooses.
        unsafe { SharedMemory::map(bytes, flags, -1, 0) }
    }

    /// Maps the memory of a socket's ring.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket doesn't have this ring.
    pub(crate) fn of_ring(descriptor: i32, bytes: usize, offset: i64) -> io::Result<SharedMemory> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the call creates a new mapping at an address that the kernel chooses. The mapping
        // keeps the ring alive.
        unsafe { SharedMemory::map(bytes, flags, descriptor, offset) }
    }

    unsafe fn map(
        bytes: usize,
        flags: i32,
        descriptor: i32,
        offset: i64,
    ) -> io::Result<SharedMemory> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the callers don't ask for a fixed address.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                flags,
                descriptor,
                offset,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(place) if start != libc::MAP_FAILED => Ok(SharedMemory {
                start: place,
                bytes,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the size of the memory in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this value mapped the memory, and there is no other reference to it.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.bytes);
        }
    }
}

/// Memory that is divided into frames of equal size.
#[derive(Debug)]
pub(crate) struct FrameMemory {
    memory: SharedMemory,
    frame_bytes: usize,
}

impl FrameMemory {
    pub(crate) fn new(frames: u32, frame_bytes: usize) -> io::Result<FrameMemory> {
        Ok(FrameMemory {
            memory: SharedMemory::new(frames as usize * frame_bytes)?,
            frame_bytes,
        })
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.start().as_ptr() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Returns the bytes of a received frame; empty if the frame is not within this memory.
    pub(crate) fn bytes(&self, offset: u64, length: u32) -> &[u8] {
        let (offset, length) = (offset as usize, length as usize);
        if offset
            .checked_add(length)
            .is_none_or(|end| end > self.len())
        {
            return &[];
        }
        // SAFETY: the range is within the mapping. The kernel doesn't write to a frame that is
        // neither in the fill ring nor in the transmit ring, and the socket tracks the frames in
        // both.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().add(offset), length) }
    }

    /// Returns the whole frame that begins at an offset; empty if the frame is not within this
    /// memory.
    pub(crate) fn frame_mut(&mut self, offset: u64) -> &mut [u8] {
        let offset = offset as usize;
        let end = offset.checked_add(self.frame_bytes);
        if end.is_none_or(|end| end > self.len()) {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and the exclusive borrow excludes other references.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.start().as_ptr().add(offset),
                self.frame_bytes,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_outside_of_the_memory_are_empty() {
        let mut memory = FrameMemory::new(4, 2048).unwrap();
        memory.frame_mut(2048).fill(7);
        assert_eq!(memory.bytes(2047, 3), [0, 7, 7]);
        assert_eq!(memory.bytes(8190, 2).len(), 2);
        assert!(memory.bytes(8190, 3).is_empty());
        assert!(memory.bytes(u64::MAX, 9).is_empty());
        assert!(memory.frame_mut(6145).is_empty());
        assert!(memory.frame_mut(u64::MAX).is_empty());
    }
}
