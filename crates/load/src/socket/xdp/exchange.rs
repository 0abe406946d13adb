//! Passes packets between workers. A packet may arrive at a queue of one worker although it belongs
//! to a connection of another worker.
//!
//! The interface chooses the receive queue of a packet by a hash that may be unknown, and an AF_XDP
//! socket receives from one queue only.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Maximum number of packets in a worker's inbox. When the inbox is full, further packets are
/// dropped, as they are when a ring is full.
const PACKETS_MAX: usize = 4096;

/// Packet inboxes, one per worker.
#[derive(Debug)]
pub(super) struct Exchange(Vec<Inbox>);

#[derive(Debug)]
struct Inbox {
    packets: Mutex<Vec<Vec<u8>>>,
    /// True if the inbox contains packets and its event is set.
    is_set: AtomicBool,
    event: OwnedFd,
}

impl Exchange {
    pub(super) fn new(workers: u32) -> io::Result<Exchange> {
        let inbox = |_| {
            Ok(Inbox {
                packets: Mutex::default(),
                is_set: AtomicBool::new(false),
                event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            })
        };
        (0..workers)
            .map(inbox)
            .collect::<io::Result<_>>()
            .map(Exchange)
    }

    /// Puts a packet into a worker's inbox, and wakes the worker. Returns false if the inbox is
    /// full.
    pub(super) fn give(&self, worker: u32, packet: &[u8]) -> bool {
        let Some(inbox) = self.0.get(worker as usize) else {
            return false;
        };
        let mut packets = inbox.packets.lock().unwrap_or_else(|it| it.into_inner());
        if packets.len() >= PACKETS_MAX {
            return false;
        }
        packets.push(packet.to_vec());
        if !inbox.is_set.swap(true, Ordering::AcqRel) {
            // The event's counter can't overflow, because the event is not set again until it has
            // been read.
            let _ = rustix::io::write(&inbox.event, &1u64.to_ne_bytes());
        }
        true
    }

    /// Moves all packets from a worker's inbox into `list`, which must be empty.
    pub(super) fn take(&self, worker: u32, list: &mut Vec<Vec<u8>>) {
        let Some(inbox) = self.0.get(worker as usize) else {
            return;
        };
        if !inbox.is_set.load(Ordering::Acquire) {
            return;
        }
        let mut packets = inbox.packets.lock().unwrap_or_else(|it| it.into_inner());
        inbox.is_set.store(false, Ordering::Release);
        // The read fails only if the event is not set.
        let _ = rustix::io::read(&inbox.event, &mut [0; 8]);
        std::mem::swap(&mut *packets, list);
    }

    /// Returns true if a worker's inbox contains packets.
    pub(super) fn has(&self, worker: u32) -> bool {
        self.0
            .get(worker as usize)
            .is_some_and(|inbox| inbox.is_set.load(Ordering::Acquire))
    }

    /// Returns the event that becomes readable when packets arrive in a worker's inbox; `None` if
    /// there is only one worker.
    pub(super) fn event(&self, worker: u32) -> Option<BorrowedFd<'_>> {
        let inbox = self.0.get(worker as usize)?;
        (self.0.len() > 1).then(|| inbox.event.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_reach_their_worker_and_are_bounded() {
        let exchange = Exchange::new(2).unwrap();
        let mut list = Vec::new();
        exchange.take(0, &mut list);
        assert!(list.is_empty() && !exchange.has(0));
        assert!(exchange.give(0, b"a") && exchange.give(0, b"b"));
        assert!(exchange.has(0) && !exchange.has(1));
        exchange.take(0, &mut list);
        assert_eq!(list, [b"a", b"b"]);
        assert!(!exchange.has(0));
        for _ in 0..PACKETS_MAX {
            assert!(exchange.give(1, b"c"));
        }
        assert!(!exchange.give(1, b"c") && !exchange.give(2, b"c"));
        assert!(exchange.event(1).is_some());
        assert!(Exchange::new(1).unwrap().event(0).is_none());
    }
}
