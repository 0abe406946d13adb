//! Results of each entry, as records store them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{EntryDelta, EntryDeltas, EntryGrouping, EntryInfo, EntryList, SparseTimes};
use crate::{Distribution, Nanos, Outcome, Summary, unmeasured};

/// Name of the row that combines the entries that have no results of their own.
const OTHER: &str = "other";

/// Results of the entries of a load's list. Their counts add up to the whole load's counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EntryResults {
    /// Property that the requests of an entry have in common.
    pub grouping: EntryGrouping,
    /// Number of entries, including those that have no results of their own.
    pub count: u64,
    /// Results of the entries that are reported individually, in the order of the list.
    pub each: Vec<EntryResult>,
    /// Combined results of all other entries; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<EntryResult>,
}

/// Results of one entry, over the measured part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EntryResult {
    /// Method and URL or path.
    pub name: String,
    /// Number of list lines that belong to the entry.
    pub lines: u64,
    /// Requests that began to connect or to send.
    pub started: u64,
    /// Successful requests.
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests in flight when the load ended.
    pub unfinished: u64,
    /// Requests that were due but not started when the load ended.
    pub unstarted: u64,
    /// Requests by outcome; outcomes that did not occur are absent.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Successful requests per second.
    pub ok_per_s: f64,
    /// HTTP bytes received, not counting TLS.
    pub bytes_in: u64,
    /// HTTP bytes sent, not counting TLS.
    pub bytes_out: u64,
    /// Response times of successful requests, from the intended start to the last byte of the
    /// response, and lower bounds on the response times of requests that timed out or were cut off.
    /// Values are exact within 0.4%.
    #[serde(with = "unmeasured")]
    pub response_time_us: Summary,
    /// Histogram of the response times, in the format of
    /// [`Record::histograms`](crate::Record::histograms). It contains lower bounds as ordinary
    /// values. Absent in results of running loads, in pooled results, and in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
    /// Histogram of the lower bounds of response times; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram_at_least: Option<String>,
}

impl EntryResults {
    /// Computes the results of a list's entries. `elapsed` is the length of the measured part.
    pub fn of(list: &EntryList, deltas: &EntryDeltas, elapsed: Nanos) -> EntryResults {
        let none = EntryDelta::default();
        let result = |number: usize, info: EntryInfo| {
            let delta = deltas.0.get(number).unwrap_or(&none);
            EntryResult::of(info, delta, elapsed)
        };
        let each = list.each.iter().cloned().enumerate();
        let each: Vec<EntryResult> = each.map(|(number, info)| result(number, info)).collect();
        // A script may send requests that are not in any list.
        let is_used = deltas.0.get(each.len()).is_some_and(|it| *it != none);
        let other = list.other.unwrap_or_default();
        EntryResults {
            grouping: list.grouping,
            count: each.len() as u64 + other.entries,
            other: (is_used || other.entries > 0).then(|| {
                let info = EntryInfo {
                    name: OTHER.to_owned(),
                    lines: other.lines,
                };
                result(each.len(), info)
            }),
            each,
        }
    }

    /// Adds the histograms of response times. Encoding them takes too long while a load is running.
    pub(crate) fn keep_histograms(&mut self, deltas: &EntryDeltas) {
        for (result, delta) in self.each.iter_mut().chain(&mut self.other).zip(&deltas.0) {
            let times = delta.times.to_distribution();
            result.histogram = times.encode();
            result.histogram_at_least = times.encode_bounds();
        }
    }

    /// Returns all rows: the entries, followed by the row that combines all others.
    pub fn rows(&self) -> impl Iterator<Item = &EntryResult> {
        self.each.iter().chain(&self.other)
    }
}

impl EntryResult {
    fn of(info: EntryInfo, delta: &EntryDelta, elapsed: Nanos) -> EntryResult {
        let outcomes = &delta.outcomes;
        let ok = outcomes.get(Outcome::Ok);
        EntryResult {
            name: info.name,
            lines: info.lines,
            started: delta.started.saturating_sub(delta.unmeasured),
            ok,
            failed: outcomes.failed(),
            unfinished: outcomes.get(Outcome::Unfinished),
            unstarted: outcomes.get(Outcome::Unstarted),
            outcomes: outcomes.happened().collect(),
            ok_per_s: match elapsed.0 {
                0 => 0.0,
                _ => ok as f64 / elapsed.as_secs_f64(),
            },
            bytes_in: delta.bytes_in,
            bytes_out: delta.bytes_out,
            response_time_us: delta.times.summary(),
            histogram: None,
            histogram_at_least: None,
        }
    }

    /// Returns the response times, or `None` if their histogram is missing or invalid.
    pub(super) fn times(&self) -> Option<SparseTimes> {
        let is_unmeasured = self.response_time_us == Summary::default();
        match &self.histogram {
            Some(all) => {
                let bounds = self.histogram_at_least.as_deref();
                let times = Distribution::decode_with_bounds(all, bounds)?;
                Some(SparseTimes::of_distribution(&times))
            }
            None => is_unmeasured.then(SparseTimes::default),
        }
    }

    /// Returns true if any request of this entry was due, even if none was started.
    pub fn is_sent(&self) -> bool {
        self.started + self.unstarted > 0
    }

    /// Returns the share of the finished requests that failed, 0 to 1.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / (self.ok + self.failed).max(1) as f64
    }
}
