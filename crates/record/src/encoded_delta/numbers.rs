//! The numbers of a delta that are encoded.

use crate::buckets::BucketCount;
use crate::delta::DELTA_COUNTS;
use crate::distribution::LONGEST_NS;
use crate::events::EVENT_COUNTS;
use crate::fast_histogram::bucket_of;
use crate::{EntryDelta, Outcome};

/// The nonzero numbers of a [`Delta`]. They serialize to one base64 string, which decodes to the
/// same delta, bucket by bucket.
///
/// Input from other machines may be invalid. Reading it takes memory in proportion to its length,
/// and [`EncodedDelta::add_to`] rejects numbers that no load can have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EncodedDelta {
    pub(super) span: Option<(u64, u64)>,
    pub(super) counts: [u64; DELTA_COUNTS],
    /// Counts of events of streamed responses.
    pub(super) events: [u64; EVENT_COUNTS],
    pub(super) outcomes: Vec<(Outcome, u64)>,
    pub(super) statuses: Vec<(u16, u64)>,
    pub(super) times: Vec<EncodedTimes>,
    pub(super) first_half_second: u32,
    pub(super) half_seconds: Vec<EncodedHalfSecond>,
    /// Entries of the load's list, up to the last entry that has a request.
    pub(super) entries: Vec<EntryDelta>,
}

/// Number of distributions in a delta.
pub(super) const DISTRIBUTIONS: usize = 11;
/// Number of buckets in a distribution, up to the end of the octave that contains the longest time.
pub(super) const BUCKETS: usize = bucket_of(LONGEST_NS.next_power_of_two() - 1) + 1;

/// Buckets of a distribution that are in use, numbered by [`bucket_of`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct EncodedTimes {
    pub(super) known: Vec<BucketCount>,
    /// Nonempty buckets of the lower bounds.
    pub(super) at_least: Vec<BucketCount>,
}

/// Half second of the time series, with its times in the buckets of [`coarse_bucket`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct EncodedHalfSecond {
    pub(super) ok: u64,
    pub(super) failed: u64,
    pub(super) bytes_in: u64,
    pub(super) times: Vec<BucketCount>,
    /// Journeys and events, if there were any.
    pub(super) other: Option<Box<EncodedOtherCounts>>,
}

/// Counts and times of journeys and events, in the order of [`crate::series::OtherCounts`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct EncodedOtherCounts {
    pub(super) counts: [u64; 3],
    pub(super) times: [Vec<BucketCount>; 3],
}
