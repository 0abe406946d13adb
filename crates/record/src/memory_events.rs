//! What happened at the memory limit of a control group.

use serde::{Deserialize, Serialize};

/// Memory limit of a control group, and how often its processes reached it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryEvents {
    /// Memory that the group may use, in bytes.
    pub limit_bytes: u64,
    /// Times at which an allocation would have exceeded the limit, so that the kernel had to
    /// reclaim memory from the group, such as cached files, or to kill a process. Some kernels count
    /// none in version 1.
    pub limit_hits: u64,
    /// Processes of the group that the kernel killed because it could not reclaim enough memory.
    pub oom_kills: u64,
}

impl MemoryEvents {
    /// Returns the increase of totals since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &MemoryEvents) -> MemoryEvents {
        MemoryEvents {
            limit_bytes: self.limit_bytes,
            limit_hits: self.limit_hits.saturating_sub(earlier.limit_hits),
            oom_kills: self.oom_kills.saturating_sub(earlier.oom_kills),
        }
    }

    /// Adds a later interval of the same group.
    #[must_use]
    pub fn and(self, later: MemoryEvents) -> MemoryEvents {
        MemoryEvents {
            limit_bytes: later.limit_bytes,
            limit_hits: self.limit_hits + later.limit_hits,
            oom_kills: self.oom_kills + later.oom_kills,
        }
    }
}
