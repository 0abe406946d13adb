//! Results of the entries of a request list: counts and response times of each.
//!
//! An entry is a method and a URL, or a group of URLs. At most [`ENTRIES_MAX`] entries of a load
//! have results of their own; all others are combined. A load with a single entry has no results by
//! entry.

mod delta;
mod list;
mod pooled;
mod results;
mod times;

pub use delta::{EntryDelta, EntryDeltas};
pub use list::{EntryGrouping, EntryInfo, EntryList, OtherEntries};
pub use results::{EntryResult, EntryResults};
pub use times::SparseTimes;
pub(crate) use times::{DenseTimes, TIME_BUCKETS};

/// Maximum number of entries that have results of their own.
pub const ENTRIES_MAX: usize = 100;

#[cfg(test)]
mod tests;
