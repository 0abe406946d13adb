//! Bytes that are queued or in flight, kept until they are acknowledged.

use std::collections::VecDeque;

/// Bytes to send.
#[derive(Debug)]
pub enum Chunk<'a> {
    /// Bytes that outlive the connection.
    Shared(&'a [u8]),
    /// Bytes in a buffer that the connection owns. Unused buffers are returned by
    /// [`TcpStack::take_spare_buffer`](crate::TcpStack::take_spare_buffer).
    Owned(Vec<u8>),
}

impl Chunk<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Shared(bytes) => bytes,
            Chunk::Owned(bytes) => bytes,
        }
    }
}

/// Chunks in the order in which they are sent.
#[derive(Debug, Default)]
pub(crate) struct SendQueue<'a> {
    /// The first chunk. It is usually the only one, so the queue rarely allocates memory.
    first: Option<Chunk<'a>>,
    others: VecDeque<Chunk<'a>>,
    /// Number of acknowledged bytes in the first chunk.
    acknowledged: usize,
    /// Number of bytes that are not acknowledged.
    length: usize,
}

impl<'a> SendQueue<'a> {
    /// Returns the number of bytes that are not acknowledged yet.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn push(&mut self, chunk: Chunk<'a>) {
        self.length += chunk.bytes().len();
        match self.first {
            None => self.first = Some(chunk),
            Some(_) => self.others.push_back(chunk),
        }
    }

    /// Copies bytes to `target`, beginning at this offset from the first unacknowledged byte.
    pub(crate) fn copy(&self, mut offset: usize, mut target: &mut [u8]) {
        offset += self.acknowledged;
        for chunk in self.first.iter().chain(&self.others) {
            let bytes = chunk.bytes();
            if let Some(bytes) = bytes.get(offset..).filter(|b| !b.is_empty()) {
                let count = bytes.len().min(target.len());
                let (now, later) = target.split_at_mut(count);
                now.copy_from_slice(&bytes[..count]);
                target = later;
                offset = 0;
                if target.is_empty() {
                    return;
                }
            } else {
                offset -= bytes.len();
            }
        }
    }

    /// Removes acknowledged bytes, and adds buffers that became free to `spare`.
    pub(crate) fn acknowledge(&mut self, bytes: usize, spare: &mut Vec<Vec<u8>>) {
        let bytes = bytes.min(self.length);
        self.length -= bytes;
        self.acknowledged += bytes;
        while let Some(first) = &self.first {
            let size = first.bytes().len();
            if self.acknowledged < size {
                return;
            }
            self.acknowledged -= size;
            let next = self.others.pop_front();
            if let Some(Chunk::Owned(buffer)) = std::mem::replace(&mut self.first, next) {
                spare.push(buffer);
            }
        }
    }

    /// Adds all buffers to `spare`.
    pub(crate) fn free(mut self, spare: &mut Vec<Vec<u8>>) {
        self.acknowledge(self.length, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_across_chunks_and_buffers_come_back() {
        let (mut queue, mut spare) = (SendQueue::default(), Vec::new());
        queue.push(Chunk::Shared(b"abc"));
        queue.push(Chunk::Owned(b"defg".to_vec()));
        queue.push(Chunk::Shared(b"hi"));
        let copy = |queue: &SendQueue, offset, length| {
            let mut target = vec![0; length];
            queue.copy(offset, &mut target);
            String::from_utf8(target).unwrap()
        };
        assert_eq!(copy(&queue, 0, 9), "abcdefghi");
        assert_eq!(copy(&queue, 3, 1), "d");
        queue.acknowledge(4, &mut spare);
        assert_eq!((queue.len(), spare.len()), (5, 0));
        assert_eq!(copy(&queue, 1, 4), "fghi");
        queue.acknowledge(3, &mut spare);
        assert_eq!(spare, [b"defg".to_vec()]);
        assert_eq!(copy(&queue, 0, 2), "hi");
        queue.push(Chunk::Owned(b"jk".to_vec()));
        queue.free(&mut spare);
        assert_eq!(spare, [b"defg".to_vec(), b"jk".to_vec()]);
    }
}
