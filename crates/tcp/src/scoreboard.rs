//! Data that the peer has received out of order, from its SACK options (RFC 2018, RFC 6675).

use crate::segment::SackBlocks;
use crate::sequence::Sequence;

/// Maximum number of ranges. Additional ranges are ignored; their data may be sent again, which
/// does no harm.
const RANGES_MAX: usize = 32;

/// Ranges above the acknowledged data, sorted and non-overlapping.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    ranges: Vec<(Sequence, Sequence)>,
}

impl Scoreboard {
    /// Adds the blocks of a segment that are between the acknowledged data and the last byte sent.
    /// Returns true if any of them reports new data.
    pub(crate) fn add(
        &mut self,
        blocks: &SackBlocks,
        acknowledged: Sequence,
        sent: Sequence,
    ) -> bool {
        let before = self.bytes();
        for (start, end) in blocks.iter() {
            let is_plausible =
                start.is_before(end) && !start.is_before(acknowledged) && end.is_up_to(sent);
            if is_plausible {
                self.insert(start, end);
            }
        }
        self.bytes() > before
    }

    fn insert(&mut self, mut start: Sequence, mut end: Sequence) {
        let first = self.ranges.partition_point(|&(_, e)| e.is_before(start));
        let mut last = first;
        while let Some(&(s, e)) = self.ranges.get(last).filter(|r| r.0.is_up_to(end)) {
            start = start.min(s);
            end = end.max(e);
            last += 1;
        }
        if last > first || self.ranges.len() < RANGES_MAX {
            self.ranges.splice(first..last, [(start, end)]);
        }
    }

    /// Removes acknowledged data.
    pub(crate) fn acknowledge(&mut self, up_to: Sequence) {
        self.ranges.retain_mut(|(start, end)| {
            *start = start.max(up_to);
            start.is_before(*end)
        });
    }

    /// Returns the number of bytes received out of order.
    pub(crate) fn bytes(&self) -> u32 {
        self.ranges
            .iter()
            .map(|(start, end)| end.since(*start))
            .sum()
    }

    /// Returns the number of bytes received out of order below a position.
    pub(crate) fn bytes_below(&self, position: Sequence) -> u32 {
        let below = self
            .ranges
            .iter()
            .filter(|(start, _)| start.is_before(position));
        below
            .map(|(start, end)| end.min(position).since(*start))
            .sum()
    }

    /// Returns the end of the highest range.
    pub(crate) fn highest(&self) -> Option<Sequence> {
        self.ranges.last().map(|range| range.1)
    }

    /// Returns the first missing range at or above a position, and below the highest received byte.
    pub(crate) fn next_hole(&self, from: Sequence) -> Option<(Sequence, Sequence)> {
        let mut at = from;
        for &(start, end) in &self.ranges {
            if at.is_before(start) {
                return Some((at, start));
            }
            at = at.max(end);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(ranges: &[(u32, u32)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for &(start, end) in ranges {
            let mut blocks = SackBlocks::default();
            blocks.push(Sequence(start), Sequence(end));
            board.add(&blocks, Sequence(5), Sequence(100_000));
        }
        board
    }

    #[test]
    fn ranges_merge_and_holes_are_found() {
        let mut board = board(&[(10, 20), (30, 40), (20, 25), (39, 50), (90, 95)]);
        assert_eq!(board.bytes(), 15 + 20 + 5);
        assert_eq!(board.bytes_below(Sequence(35)), 20);
        assert_eq!(
            board.next_hole(Sequence(5)),
            Some((Sequence(5), Sequence(10)))
        );
        assert_eq!(
            board.next_hole(Sequence(12)),
            Some((Sequence(25), Sequence(30)))
        );
        assert_eq!(
            board.next_hole(Sequence(60)),
            Some((Sequence(60), Sequence(90)))
        );
        assert_eq!(board.next_hole(Sequence(91)), None);
        board.acknowledge(Sequence(35));
        assert_eq!(board.bytes(), 20);
        assert_eq!(board.highest(), Some(Sequence(95)));
    }

    #[test]
    fn implausible_and_too_many_blocks_are_ignored() {
        assert_eq!(board(&[(4, 8), (9, 9), (20, 10), (10, 200_000)]).bytes(), 0);
        let many: Vec<_> = (1..100).map(|n| (n * 10, n * 10 + 5)).collect();
        assert_eq!(board(&many).bytes(), 5 * RANGES_MAX as u32);
    }
}
