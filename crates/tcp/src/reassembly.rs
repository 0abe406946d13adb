//! Data that arrived out of order, that is, before the data that precedes it in the stream.

use crate::segment::{SACK_BLOCKS_MAX, SackBlocks};
use crate::sequence::Sequence;

/// Maximum number of separate pieces. It bounds the memory used for tiny segments.
const PIECES_MAX: usize = 256;
/// Estimated memory of a piece in addition to its data, in bytes. It counts toward the limit,
/// because otherwise a peer could exceed the limit with tiny pieces.
const PIECE_OVERHEAD: usize = 64;

/// Received pieces above the next expected byte, sorted and non-overlapping.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    pieces: Vec<Piece>,
    /// Start of the segment that arrived last, which the first SACK block reports (RFC 2018 §4).
    latest: Sequence,
}

#[derive(Debug)]
struct Piece {
    start: Sequence,
    data: Vec<u8>,
}

impl Piece {
    fn end(&self) -> Sequence {
        self.start + self.data.len() as u32
    }
}

impl Reassembly {
    /// Stores the ranges of a segment that are not stored yet. Returns the memory that they use in
    /// bytes, and true if all of them were stored. Ranges are dropped if there are too many pieces.
    pub(crate) fn insert(&mut self, start: Sequence, data: &[u8]) -> (usize, bool) {
        let end = start + data.len() as u32;
        self.latest = start;
        let (mut at, mut index, mut stored) = (start, 0, 0);
        while at.is_before(end) {
            let Some(piece) = self.pieces.get(index) else {
                return self.add(index, at, &data[at.since(start) as usize..], stored);
            };
            if at.is_before(piece.start) {
                let gap_end = piece.start.min(end);
                let gap = &data[at.since(start) as usize..gap_end.since(start) as usize];
                let (sum, complete) = self.add(index, at, gap, stored);
                if !complete {
                    return (sum, false);
                }
                stored = sum;
                at = gap_end;
            } else {
                at = at.max(piece.end());
            }
            index += 1;
        }
        (stored, true)
    }

    fn add(&mut self, index: usize, start: Sequence, data: &[u8], stored: usize) -> (usize, bool) {
        if self.pieces.len() >= PIECES_MAX {
            return (stored, false);
        }
        let data = data.to_vec();
        let sum = stored + data.len() + PIECE_OVERHEAD;
        self.pieces.insert(index, Piece { start, data });
        (sum, true)
    }

    /// Removes the first piece if it begins at or before `next`, the next expected byte. Returns
    /// the piece's bytes from `next` on, if any, and the memory that the piece used.
    pub(crate) fn take(&mut self, next: Sequence) -> Option<(Vec<u8>, usize)> {
        let first = self.pieces.first()?;
        if first.start.is_after(next) {
            return None;
        }
        let mut piece = self.pieces.remove(0);
        let size = piece.data.len();
        let known = (next.since(piece.start) as usize).min(size);
        piece.data.drain(..known);
        Some((piece.data, size + PIECE_OVERHEAD))
    }

    /// Returns true if nothing is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the memory that the stored pieces use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let size = |piece: &Piece| piece.data.len() + PIECE_OVERHEAD;
        self.pieces.iter().map(size).sum()
    }

    /// Returns the stored ranges as SACK blocks. The range with the latest segment comes first.
    pub(crate) fn sack_blocks(&self) -> SackBlocks {
        let mut ranges: Vec<(Sequence, Sequence)> = Vec::new();
        for piece in &self.pieces {
            match ranges.last_mut() {
                Some((_, end)) if *end == piece.start => *end = piece.end(),
                _ => ranges.push((piece.start, piece.end())),
            }
        }
        let is_latest = |&(start, end): &(Sequence, Sequence)| {
            start.is_up_to(self.latest) && self.latest.is_before(end)
        };
        let first = ranges.iter().position(is_latest).unwrap_or(0);
        let mut blocks = SackBlocks::default();
        for (start, end) in ranges
            .iter()
            .skip(first)
            .chain(ranges.iter().take(first))
            .take(SACK_BLOCKS_MAX)
        {
            blocks.push(*start, *end);
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(reassembly: &mut Reassembly, mut next: Sequence) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some((data, _)) = reassembly.take(next) {
            next += data.len() as u32;
            all.extend(data);
        }
        all
    }

    #[test]
    fn overlapping_segments_in_any_order_give_the_bytes_once() {
        let whole: Vec<u8> = (0..100).collect();
        let base = Sequence(u32::MAX - 40);
        for step in [1usize, 3, 7, 11] {
            let mut reassembly = Reassembly::default();
            for turn in 0..100 {
                let start = (turn * 37) % 100;
                let end = (start + step).min(100);
                reassembly.insert(base + start as u32, &whole[start..end]);
            }
            assert_eq!(taken(&mut reassembly, base), whole, "step {step}");
            assert!(reassembly.is_empty());
        }
    }

    #[test]
    fn the_number_of_pieces_is_bounded() {
        let mut reassembly = Reassembly::default();
        let results: Vec<_> = (0..1_000)
            .map(|n| reassembly.insert(Sequence(10 + 2 * n), &[1]))
            .collect();
        assert_eq!(results.iter().filter(|r| r.1).count(), PIECES_MAX);
        let sum: usize = results.iter().map(|result| result.0).sum();
        assert_eq!(sum, PIECES_MAX * (1 + PIECE_OVERHEAD));
        assert_eq!(reassembly.memory(), sum);
    }

    #[test]
    fn blocks_merge_and_begin_with_the_latest() {
        let mut reassembly = Reassembly::default();
        for (start, length) in [(10, 5), (30, 5), (15, 5), (50, 1), (70, 1)] {
            reassembly.insert(Sequence(start), &vec![0; length]);
        }
        reassembly.insert(Sequence(35), &[0]);
        let blocks: Vec<_> = reassembly
            .sack_blocks()
            .iter()
            .map(|(s, e)| (s.0, e.0))
            .collect();
        assert_eq!(blocks, [(30, 36), (50, 51), (70, 71)]);
    }
}
