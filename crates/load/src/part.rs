//! One process's part of a load that several make together.

use crate::pacing::Share;

/// The workers of a load that run here, out of all that it has. Each takes its part of the rate, the
/// connections, the requests and the list of URLs by its number among all, so that nothing is lost and
/// nothing done twice, wherever they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The number of the first worker here, from 0.
    pub first: u32,
    /// How many run here.
    pub workers: u32,
    /// How many there are in all.
    pub of: u32,
}

impl Part {
    /// All of a load with so many workers.
    pub(crate) fn whole(workers: u32) -> Part {
        Part {
            first: 0,
            workers,
            of: workers,
        }
    }

    /// What worker number `here` of those that run here takes.
    pub(crate) fn share(self, here: u64) -> Share {
        Share {
            worker: u64::from(self.first) + here,
            of: u64::from(self.of),
        }
    }

    /// How many of `whole` things fall to those that run here.
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

    /// Workers take turns: which of those things it is that fall to those that run here, of the one with
    /// this number among all.
    pub(crate) fn number_here(self, among_all: u64) -> u64 {
        let (of, workers) = (u64::from(self.of.max(1)), u64::from(self.workers));
        let worker = (among_all % of).saturating_sub(u64::from(self.first));
        among_all / of * workers + worker
    }

    /// Whether there can be such a part.
    pub(crate) fn is_sound(self) -> bool {
        let end = self.first.checked_add(self.workers);
        self.workers > 0 && end.is_some_and(|end| end <= self.of)
    }
}
