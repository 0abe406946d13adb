//! Division of a load among workers, which may run in several processes.

/// One worker's share of the requests, arrivals and connections of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Zero-based index of the worker among all workers of the load.
    pub worker: u64,
    /// Number of workers in the whole load.
    pub of: u64,
}

impl Shard {
    /// Number of items that are assigned to this worker if the load has `whole` items. If they
    /// can't be divided evenly, the first workers have one more item.
    pub(crate) fn items(self, whole: u64) -> u64 {
        whole / self.of + u64::from(self.worker < whole % self.of)
    }

    /// Number of items that are assigned to workers with a lower index if the load has `whole`
    /// items.
    pub(crate) fn items_before(self, whole: u64) -> u64 {
        whole / self.of * self.worker + self.worker.min(whole % self.of)
    }
}

/// The workers of a load that run in this process. The rate, the connections, the requests and the
/// list of URLs are divided among all workers by their numbers, so each item is assigned exactly
/// once, no matter where the workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRange {
    /// Index of the first worker in this process among all workers of the load, from 0.
    pub first: u32,
    /// Number of workers in this process.
    pub workers: u32,
    /// Number of workers in the whole load.
    pub of: u32,
}

impl ShardRange {
    /// Creates the range of a load whose workers all run in this process.
    pub(crate) fn whole(workers: u32) -> ShardRange {
        ShardRange {
            first: 0,
            workers,
            of: workers,
        }
    }

    /// Returns the shard of the worker with index `here` among the workers in this process.
    pub(crate) fn shard(self, here: u64) -> Shard {
        Shard {
            worker: u64::from(self.first) + here,
            of: u64::from(self.of),
        }
    }

    /// Number of items that are assigned to this process if the load has `whole` items.
    pub(crate) fn items(self, whole: u64) -> u64 {
        let before = |worker: u32| {
            let shard = Shard {
                worker: u64::from(worker),
                of: u64::from(self.of),
            };
            shard.items_before(whole)
        };
        before(self.first + self.workers) - before(self.first)
    }

    /// Converts an item's number in the whole load to its number in this process. Items are
    /// assigned to the workers in turn.
    pub(crate) fn number_here(self, among_all: u64) -> u64 {
        let (of, workers) = (u64::from(self.of.max(1)), u64::from(self.workers));
        let worker = (among_all % of).saturating_sub(u64::from(self.first));
        among_all / of * workers + worker
    }

    /// Returns true if the numbers are consistent.
    pub(crate) fn is_valid(self) -> bool {
        let end = self.first.checked_add(self.workers);
        self.workers > 0 && end.is_some_and(|end| end <= self.of)
    }
}
