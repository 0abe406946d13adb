//! A link in virtual time with faults drawn from a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A small generator of random numbers (SplitMix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below the limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns true with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    /// Probability that a packet is lost. The next two fields are also probabilities per packet.
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    pub(crate) corruption: f64,
    /// Minimum delay, in nanoseconds. A random delay is added to it.
    pub(crate) delay: u64,
    pub(crate) jitter: u64,
}

/// One direction of a link: packets, ordered by arrival time.
#[derive(Debug)]
pub(crate) struct Link {
    faults: Faults,
    random: Random,
    packets: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>,
    sequence: u64,
}

impl Link {
    pub(crate) fn new(faults: Faults, seed: u64) -> Link {
        Link {
            faults,
            random: Random(seed),
            packets: BinaryHeap::new(),
            sequence: 0,
        }
    }

    pub(crate) fn send(&mut self, now: u64, mut packet: Vec<u8>) {
        if self.random.chance(self.faults.loss) {
            return;
        }
        if self.random.chance(self.faults.corruption) {
            let bit = self.random.below(packet.len() as u64 * 8);
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        if self.random.chance(self.faults.duplication) {
            self.deliver(now, packet.clone());
        }
        self.deliver(now, packet);
    }

    fn deliver(&mut self, now: u64, packet: Vec<u8>) {
        let at = now + self.faults.delay + self.random.below(self.faults.jitter);
        self.sequence += 1;
        self.packets.push(Reverse((at, self.sequence, packet)));
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.packets.peek().map(|packet| packet.0.0)
    }

    /// Returns the next packet that has arrived.
    pub(crate) fn receive(&mut self, now: u64) -> Option<Vec<u8>> {
        self.next_arrival().filter(|at| *at <= now)?;
        self.packets.pop().map(|packet| packet.0.2)
    }
}
