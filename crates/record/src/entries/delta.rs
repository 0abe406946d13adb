//! Counts and response times of each entry in one interval of a load.

use crate::buckets::BucketCount;
use crate::distribution::LONGEST_NS;
use crate::{Distribution, Nanos, Outcome, OutcomeCounts, buckets};

/// Significant bits of a response time. The middle of a bucket is within 0.4% of each time in it.
const TIME_BITS: u32 = 8;

/// Number of buckets up to the longest time.
pub(crate) const TIME_BUCKETS: usize = bucket_of(Nanos(LONGEST_NS)) as usize + 1;

const fn bucket_of(time: Nanos) -> u32 {
    let nanos = if time.0 < LONGEST_NS {
        time.0
    } else {
        LONGEST_NS
    };
    buckets::bucket_of(TIME_BITS, nanos)
}

/// Counts and response times of one entry in one interval of a load. A request counts in the interval in
/// which it ends; only [`EntryDelta::started`] counts starts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EntryDelta {
    /// Requests whose connect or send began, including those of the warm-up.
    pub started: u64,
    /// Requests that ended outside the measured part. The other counts are of the measured part.
    pub unmeasured: u64,
    /// Requests by outcome.
    pub outcomes: OutcomeCounts,
    /// HTTP bytes received, above TLS.
    pub bytes_in: u64,
    /// HTTP bytes sent, above TLS.
    pub bytes_out: u64,
    /// Response times of the successes.
    pub(crate) known: Vec<BucketCount>,
    /// Lower bounds of response times.
    pub(crate) at_least: Vec<BucketCount>,
}

impl EntryDelta {
    /// Adds another interval, or the same interval of another worker.
    fn merge(&mut self, other: &EntryDelta) {
        self.merge_counts(other);
        buckets::add(&mut self.known, &other.known);
        buckets::add(&mut self.at_least, &other.at_least);
    }

    /// Adds everything but the response times.
    pub(crate) fn merge_counts(&mut self, other: &EntryDelta) {
        for (mine, theirs) in self.counts_mut().into_iter().zip(other.counts()) {
            *mine = mine.saturating_add(theirs);
        }
        self.outcomes.merge(&other.outcomes);
    }

    /// Resets everything without freeing memory.
    fn clear(&mut self) {
        self.counts_mut().into_iter().for_each(|count| *count = 0);
        self.outcomes = OutcomeCounts::default();
        self.known.clear();
        self.at_least.clear();
    }

    /// Requests that have begun and not ended, if this covers the load from its start.
    pub fn in_flight(&self) -> u64 {
        let ended = self.unmeasured.saturating_add(self.outcomes.ended());
        self.started.saturating_sub(ended)
    }

    /// Adds a lower bound of a response time.
    pub(crate) fn record_at_least(&mut self, time: Nanos) {
        let bucket = bucket_of(time);
        match self.at_least.binary_search_by_key(&bucket, |it| it.0) {
            Ok(place) => self.at_least[place].1 += 1,
            Err(place) => self.at_least.insert(place, (bucket, 1)),
        }
    }

    /// Replaces the content of `times` with the response times and their lower bounds.
    pub fn response_times(&self, times: &mut Distribution) {
        let middle = |bucket| Nanos(buckets::middle_of(TIME_BITS, bucket));
        times.clear();
        for &(bucket, count) in &self.known {
            times.record_many(middle(bucket), count);
        }
        for &(bucket, count) in &self.at_least {
            times.record_many_at_least(middle(bucket), count);
        }
    }

    pub(crate) fn counts_mut(&mut self) -> [&mut u64; 4] {
        [
            &mut self.started,
            &mut self.unmeasured,
            &mut self.bytes_in,
            &mut self.bytes_out,
        ]
    }

    /// The counts in the order of [`EntryDelta::counts_mut`].
    pub(crate) fn counts(&self) -> [u64; 4] {
        [self.started, self.unmeasured, self.bytes_in, self.bytes_out]
    }
}

/// The entries of a load in one interval, by number. The last one holds all entries that have no results
/// of their own. Empty if the load has a single entry.
#[derive(Debug, Clone, Default)]
pub struct EntryDeltas(pub(crate) Vec<EntryDelta>);

/// Equal if all entries are equal; an entry without requests equals a missing one.
impl PartialEq for EntryDeltas {
    fn eq(&self, other: &EntryDeltas) -> bool {
        let common = self.0.len().min(other.0.len());
        let (mine, theirs) = (self.0.split_at(common), other.0.split_at(common));
        let mut rest = mine.1.iter().chain(theirs.1);
        mine.0 == theirs.0 && rest.all(|entry| *entry == EntryDelta::default())
    }
}

impl EntryDeltas {
    /// This number of entries without requests.
    pub(crate) fn new(entries: usize) -> EntryDeltas {
        EntryDeltas(vec![EntryDelta::default(); entries])
    }

    /// The entries by number.
    pub fn iter(&self) -> impl Iterator<Item = &EntryDelta> {
        self.0.iter()
    }

    /// The entry with this number, or the last one for a number beyond it; `None` if no entries are
    /// counted.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut EntryDelta> {
        let last = self.0.len().checked_sub(1)?;
        self.0.get_mut(last.min(number as usize))
    }

    pub(crate) fn merge(&mut self, other: &EntryDeltas) {
        self.merge_all(&other.0);
    }

    /// Adds entries by number.
    pub(crate) fn merge_all(&mut self, others: &[EntryDelta]) {
        if self.0.len() < others.len() {
            self.0.resize_with(others.len(), EntryDelta::default);
        }
        for (mine, theirs) in self.0.iter_mut().zip(others) {
            mine.merge(theirs);
        }
    }

    /// The entries up to the last one with a request.
    pub(crate) fn used(&self) -> &[EntryDelta] {
        let unused = EntryDelta::default();
        let used = self.0.iter().rposition(|entry| *entry != unused);
        &self.0[..used.map_or(0, |last| last + 1)]
    }

    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(EntryDelta::clear);
    }

    /// Counts all requests in flight as unfinished. The deltas must cover the load from its start.
    pub fn end_in_flight(&mut self) {
        for entry in &mut self.0 {
            let in_flight = entry.in_flight();
            entry.outcomes.add_many(Outcome::Unfinished, in_flight);
        }
    }
}

/// Response times of the current slice by entry: dense buckets, so that a request adds to one number.
/// Zeros take no memory until they are written to.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryTimes {
    /// [`TIME_BUCKETS`] for each entry. 32 bits suffice, because they are emptied every half second.
    counts: Vec<u32>,
    /// First and last used bucket of each entry.
    used: Vec<(u32, u32)>,
}

const UNUSED: (u32, u32) = (u32::MAX, 0);

impl EntryTimes {
    pub(crate) fn new(entries: usize) -> EntryTimes {
        EntryTimes {
            counts: vec![0; entries * TIME_BUCKETS],
            used: vec![UNUSED; entries],
        }
    }

    /// Adds a response time of an entry.
    #[inline]
    pub(crate) fn record(&mut self, entry: u32, time: Nanos) {
        let bucket = bucket_of(time);
        let entry = (entry as usize).min(self.used.len().saturating_sub(1));
        if let (Some(used), Some(count)) = (
            self.used.get_mut(entry),
            self.counts.get_mut(entry * TIME_BUCKETS + bucket as usize),
        ) {
            *used = (used.0.min(bucket), used.1.max(bucket));
            *count += 1;
        }
    }

    /// Moves all times into `entries`, which have none.
    pub(crate) fn take(&mut self, entries: &mut EntryDeltas) {
        let each = self.used.iter_mut().zip(&mut entries.0).enumerate();
        for (place, (used, entry)) in each {
            let (first, last) = std::mem::replace(used, UNUSED);
            let counts = &mut self.counts[place * TIME_BUCKETS..][..TIME_BUCKETS];
            for bucket in first..=last {
                let count = std::mem::take(&mut counts[bucket as usize]);
                if count > 0 {
                    entry.known.push((bucket, u64::from(count)));
                }
            }
        }
    }
}
