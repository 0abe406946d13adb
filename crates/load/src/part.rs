//! One process's part of a load that several processes generate together.

use crate::pacing::Share;

/// The workers of a load that run in this process. The rate, the connections, the requests and the
/// list of URLs are divided among all workers by their number, so that each item is assigned
/// exactly once, wherever the workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the first worker in this process, from 0.
    pub first: u32,
    /// Number of workers in this process.
    pub workers: u32,
    /// Number of workers in the whole load.
    pub of: u32,
}

impl Part {
    /// The whole of a load with this many workers.
    pub(crate) fn whole(workers: u32) -> Part {
        Part {
            first: 0,
            workers,
            of: workers,
        }
    }

    /// Returns the share of local worker number `here`.
    pub(crate) fn share(self, here: u64) -> Share {
        Share {
            worker: u64::from(self.first) + here,
            of: u64::from(self.of),
        }
    }

    /// Returns the number of `whole` items that are assigned to this process.
    pub(crate) fn of_whole(self, whole: u64) -> u64 {
        let before = |worker: u32| {
            let share = Share {
                worker: u64::from(worker),
                of: u64::from(self.of),
            };
            share.parts_before(whole)
        };
        before(self.first + self.workers) - before(self.first)
    }

    /// Converts an item's number in the whole load into its number in this process. Items are
    /// assigned to the workers in turn.
    pub(crate) fn number_here(self, among_all: u64) -> u64 {
        let (of, workers) = (u64::from(self.of.max(1)), u64::from(self.workers));
        let worker = (among_all % of).saturating_sub(u64::from(self.first));
        among_all / of * workers + worker
    }

    /// Returns true if the numbers are consistent.
    pub(crate) fn is_sound(self) -> bool {
        let end = self.first.checked_add(self.workers);
        self.workers > 0 && end.is_some_and(|end| end <= self.of)
    }
}
