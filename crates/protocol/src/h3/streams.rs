//! Streams of the requests in flight, in a fixed number of slots.

use super::stream::{ExchangeStage, Stream};
use crate::h1::Expects;
use crate::response_stage::ResponseStage;

/// Value of an unused entry in the index.
const VACANT: u32 = u32::MAX;

/// Streams in slots, found by their identifiers.
///
/// QUIC assigns successive identifiers, and a slow stream may outlive many later ones, so the
/// identifier alone can't determine the slot. A hash table with linear probing maps identifiers to
/// slots; the first entry examined is nearly always the right one. The table has at least twice as
/// many entries as there are slots. Its hash spreads successive identifiers over the table, because
/// removing one from a row of occupied entries means examining the whole row.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Box<[Stream]>,
    /// Slots without a live stream. The last one in the list is used next.
    vacant: Vec<u32>,
    /// Slots of the live streams, by identifier. The number of entries is a power of two.
    index: Box<[u32]>,
}

impl Streams {
    /// Creates slots for `capacity` concurrent streams.
    pub(super) fn new(capacity: u32) -> Streams {
        let index = (capacity as usize * 2).next_power_of_two().max(2);
        Streams {
            slots: (0..capacity).map(|_| Stream::default()).collect(),
            vacant: (0..capacity).rev().collect(),
            index: vec![VACANT; index].into_boxed_slice(),
        }
    }

    /// Returns the streams of a new connection, which take over the memory, except large buffers.
    pub(super) fn renewed(&mut self) -> Streams {
        let mut slots = std::mem::take(&mut self.slots);
        for stream in &mut slots {
            *stream = stream.renewed();
        }
        let mut vacant = std::mem::take(&mut self.vacant);
        vacant.clear();
        vacant.extend((0..slots.len() as u32).rev());
        let mut index = std::mem::take(&mut self.index);
        index.fill(VACANT);
        Streams {
            slots,
            vacant,
            index,
        }
    }

    /// Returns the number of live streams.
    pub(super) fn active(&self) -> u32 {
        (self.slots.len() - self.vacant.len()) as u32
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn at(&mut self, slot: usize) -> &mut Stream {
        &mut self.slots[slot]
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().filter(|stream| stream.is_live())
    }

    /// Returns the entry of the index at which the search for an identifier starts: the upper bits
    /// of the identifier times 2^64 divided by the golden ratio (Fibonacci hashing; Knuth, The Art
    /// of Computer Programming, volume 3, section 6.4). The two lowest bits of an identifier are
    /// ignored, because they are the same for all request streams (RFC 9000 §2.1).
    #[inline]
    fn home(&self, id: u64) -> usize {
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let unused_bits = u64::BITS - self.index.len().trailing_zeros();
        ((id >> 2).wrapping_mul(MULTIPLIER) >> unused_bits) as usize
    }

    /// Returns the entry of the index for a live stream.
    #[inline]
    fn entry(&self, id: u64) -> Option<usize> {
        let mut at = self.home(id);
        loop {
            match self.index[at] {
                VACANT => return None,
                slot if self.slots[slot as usize].id == id => return Some(at),
                _ => at = (at + 1) & (self.index.len() - 1),
            }
        }
    }

    /// Returns the slot of a live stream.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<usize> {
        self.entry(id).map(|at| self.index[at] as usize)
    }

    /// Returns a live stream.
    pub(super) fn get(&self, id: u64) -> Option<&Stream> {
        self.find(id).map(|slot| &self.slots[slot])
    }

    /// Returns the slot of the live stream with this tag.
    pub(super) fn find_tag(&self, tag: u32) -> Option<usize> {
        let has_tag = |stream: &Stream| stream.tag == tag && stream.is_live();
        self.slots.iter().position(has_tag)
    }

    /// Opens a stream, unless all slots are used.
    #[inline]
    pub(super) fn open(&mut self, id: u64, tag: u32, expects: Expects) {
        debug_assert!(
            self.find(id).is_none(),
            "a stream identifier must not be used twice"
        );
        let Some(slot) = self.vacant.pop() else {
            return;
        };
        let mut at = self.home(id);
        while self.index[at] != VACANT {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = slot;
        let stream = &mut self.slots[slot as usize];
        stream.id = id;
        stream.tag = tag;
        stream.stage = ExchangeStage::Response(ResponseStage::START);
        stream.expects = expects;
    }

    /// Ends a live stream.
    #[inline]
    pub(super) fn close(&mut self, slot: usize) {
        if let Some(at) = self.entry(self.slots[slot].id) {
            self.vacate(at);
        }
        let stream = &mut self.slots[slot];
        *stream = stream.renewed();
        self.vacant.push(slot as u32);
    }

    /// Removes an entry from the index. Moves later entries if a search for them would otherwise
    /// stop at the gap.
    fn vacate(&mut self, mut hole: usize) {
        let mask = self.index.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.index[at];
            if slot == VACANT {
                break;
            }
            let home = self.home(self.slots[slot as usize].id);
            let distance = |from: usize| at.wrapping_sub(from) & mask;
            if distance(home) >= distance(hole) {
                self.index[hole] = slot;
                hole = at;
            }
        }
        self.index[hole] = VACANT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(streams: &mut Streams, id: u64) {
        streams.open(id, id as u32 + 1, Expects::Body);
    }

    fn close(streams: &mut Streams, id: u64) {
        let slot = streams.find(id).expect("a live stream");
        streams.close(slot);
        assert_eq!(streams.find(id), None);
    }

    #[test]
    fn a_slow_stream_is_found_among_later_ones() {
        let mut streams = Streams::new(2);
        open(&mut streams, 0);
        for id in (4..4_000).step_by(4) {
            open(&mut streams, id);
            assert_eq!(streams.active(), 2);
            assert_eq!(streams.get(0).map(|stream| stream.tag), Some(1));
            assert_eq!(streams.get(id).map(|stream| stream.id), Some(id));
            close(&mut streams, id);
        }
        assert_eq!(streams.find_tag(1), streams.find(0));
        streams = streams.renewed();
        assert_eq!((streams.active(), streams.find(0)), (0, None));
        assert_eq!(streams.find_tag(1), None);
    }

    /// Opens and closes streams in many orders, with identifiers that share the same first entry.
    /// Compares the result with a list.
    #[test]
    fn streams_are_found_in_any_order() {
        let mut streams = Streams::new(8);
        let mut live: Vec<u64> = Vec::new();
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let choice = (random >> 33) as usize;
            if live.len() == 8 || choice.is_multiple_of(2) && !live.is_empty() {
                let id = live.swap_remove(choice / 2 % live.len());
                close(&mut streams, id);
            } else {
                let id = (choice as u64 / 2 % 40) * 4;
                if !live.contains(&id) {
                    open(&mut streams, id);
                    live.push(id);
                }
            }
            assert_eq!(streams.active() as usize, live.len());
            for id in (0..160).step_by(4) {
                assert_eq!(streams.find(id).is_some(), live.contains(&id), "{id}");
            }
        }
    }

    #[test]
    fn large_buffers_are_not_kept() {
        let mut streams = Streams::new(1);
        for (bytes, is_kept) in [(100, true), (100_000, false)] {
            open(&mut streams, 0);
            streams.at(0).kept.resize(bytes, 0);
            close(&mut streams, 0);
            assert_eq!(streams.at(0).kept.len(), 0);
            assert_eq!(streams.at(0).kept.capacity() > 0, is_kept);
        }
    }
}
