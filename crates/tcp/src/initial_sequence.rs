//! Initial sequence numbers (RFC 6528). They are chosen so that a peer in TIME-WAIT accepts a new
//! connection (RFC 9293 §3.4.2, RFC 6191).

use crate::sequence::Sequence;
use crate::tuple::FourTuple;

/// Number of groups of tuples. Each group has its own offset, so that many short connections of one
/// tuple don't change the numbers of all other tuples.
const GROUPS: usize = 1 << 10;
/// Duration of a clock step, in nanoseconds (RFC 6528 §3).
const TICK: u64 = 4_000;

/// Source of initial sequence numbers.
#[derive(Debug)]
pub(crate) struct InitialSequences {
    /// Sequence number at time zero, before the offset of the tuple is added.
    base: u32,
    secret: u64,
    /// Offset of each group. It grows when connections of the group use more sequence numbers than
    /// the clock has advanced.
    offsets: Vec<u32>,
}

impl InitialSequences {
    /// Creates the source. `clock_base_millis` is the clock's reading in milliseconds at time zero.
    pub(crate) fn new(clock_base_millis: u64, secret: u64) -> InitialSequences {
        InitialSequences {
            base: clock_base_millis.wrapping_mul(1_000_000 / TICK) as u32,
            secret,
            offsets: vec![0; GROUPS],
        }
    }

    /// Returns the number for a connection that begins now.
    pub(crate) fn next(&self, tuple: &FourTuple, now: u64) -> Sequence {
        let mixed = tuple.mix(self.secret);
        let clock = self.base.wrapping_add((now / TICK) as u32);
        Sequence(clock.wrapping_add(mixed as u32)) + self.offsets[group(mixed)]
    }

    /// Records the first and the last number of a connection that has ended, so that the next
    /// connection of the same tuple begins after them. The clock alone would keep up with only 250
    /// KB/s.
    pub(crate) fn note_used(
        &mut self,
        tuple: &FourTuple,
        first: Sequence,
        last: Sequence,
        now: u64,
    ) {
        // The SYN and the FIN each use a sequence number, and the number of the next SYN must be
        // higher.
        let used = last.since(first).saturating_add(2);
        let passed = self.next(tuple, now).since(first);
        if used > passed {
            let offset = &mut self.offsets[group(tuple.mix(self.secret))];
            *offset = offset.wrapping_add(used - passed);
        }
    }
}

fn group(mixed: u64) -> usize {
    (mixed >> 32) as usize % GROUPS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(port: u16) -> FourTuple {
        FourTuple {
            local: ([10, 0, 0, 1], port).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        }
    }

    #[test]
    fn numbers_move_forward_past_everything_that_was_used() {
        let mut sequences = InitialSequences::new(1_700_000_000_000, 3);
        let tuple = tuple(1_024);
        let mut now = 5_000_000;
        let mut first = sequences.next(&tuple, now);
        // Connections that last a millisecond and use only the SYN, a few numbers, or a gigabyte.
        for bytes in [0, 1, 500, 1 << 30, 7, 0] {
            let last = first + bytes;
            now += 1_000_000;
            sequences.note_used(&tuple, first, last, now);
            let next = sequences.next(&tuple, now);
            assert!(next.is_after(last + 1), "{bytes} bytes");
            first = next;
        }
    }

    #[test]
    fn a_slow_connection_leaves_the_clock_alone() {
        let mut sequences = InitialSequences::new(0, 3);
        let first = sequences.next(&tuple(1), 0);
        sequences.note_used(&tuple(1), first, first + 1_000, 1_000_000_000);
        assert_eq!(
            sequences.next(&tuple(1), 1_000_000_000),
            first + 250_000,
            "one second"
        );
    }

    #[test]
    fn tuples_begin_at_unrelated_numbers() {
        let sequences = InitialSequences::new(0, 3);
        let mut numbers: Vec<u32> = (0..1_000)
            .map(|port| sequences.next(&tuple(port), 0).0 >> 20)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        // 1,000 draws from 4,096 values yield 887 different values on average.
        assert!(numbers.len() > 840, "{}", numbers.len());
    }
}
