//! Journeys of virtual users: counts and times of what is made of several requests.

use serde::{Deserialize, Serialize};

use crate::{Nanos, Summary, unmeasured};

/// End of a journey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JourneyEnd {
    /// All of its steps succeeded.
    Completed,
    /// A step failed, which ended the journey.
    Failed,
    /// The load ended first.
    Unfinished,
    /// The journey was due, but no user was free to begin it.
    Unstarted,
}

/// A journey that ended. All times count from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Journey {
    /// Time at which the journey was due.
    pub intended: Nanos,
    /// Time at which it ended.
    pub ended: Nanos,
    /// Sum of its steps' response times, without the pauses between the steps.
    pub time: Nanos,
    /// The journey's end.
    pub end: JourneyEnd,
    /// True if the journey began in the settling part of a slice.
    pub is_settling: bool,
}

/// Number of journeys by their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JourneyCounts {
    /// Journeys that began, including those of the warm-up.
    pub begun: u64,
    /// Journeys that ended but do not belong to the measured part. `unstarted` ones are never
    /// counted here.
    pub unmeasured: u64,
    /// Journeys of which all steps succeeded.
    pub completed: u64,
    /// Journeys that ended with a step that failed.
    pub failed: u64,
    /// Journeys that the end of the load cut off.
    pub unfinished: u64,
    /// Journeys that were due but never began.
    pub unstarted: u64,
}

impl JourneyCounts {
    pub(crate) fn add(&mut self, end: JourneyEnd) {
        let count = match end {
            JourneyEnd::Completed => &mut self.completed,
            JourneyEnd::Failed => &mut self.failed,
            JourneyEnd::Unfinished => &mut self.unfinished,
            JourneyEnd::Unstarted => &mut self.unstarted,
        };
        *count += 1;
    }

    /// Returns the number of journeys that have begun but not ended. The counts must cover the load
    /// from its start.
    pub fn under_way(&self) -> u64 {
        let ended = self.unmeasured + self.completed + self.failed + self.unfinished;
        self.begun.saturating_sub(ended)
    }

    /// Counts the journeys that have not ended as unfinished.
    pub fn end_under_way(&mut self) {
        self.unfinished += self.under_way();
    }
}

/// Results of the journeys of a load, over the measured part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JourneyResults {
    /// Journeys that began. At the end of a load, `started` = `completed` + `failed` +
    /// `unfinished`.
    pub started: u64,
    /// Journeys of which all steps succeeded.
    pub completed: u64,
    /// Journeys that ended with a step that failed. The results of the steps show at which one.
    pub failed: u64,
    /// Journeys that the end of the load cut off.
    pub unfinished: u64,
    /// Journeys that were due but never began, because no user was free.
    pub unstarted: u64,
    /// Completed journeys per second.
    pub completed_per_s: f64,
    /// Journeys per second that were due on the schedule; open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Times of completed journeys: the sum of the steps' response times, each from its intended
    /// start, without the pauses between the steps.
    #[serde(with = "unmeasured")]
    pub journey_time_us: Summary,
}

impl JourneyResults {
    /// Computes the results of a load. `elapsed` is the length of the measured part.
    pub(crate) fn of(
        counts: JourneyCounts,
        journey_time_us: Summary,
        elapsed: Nanos,
        is_open: bool,
    ) -> JourneyResults {
        let JourneyCounts {
            begun,
            unmeasured,
            completed,
            failed,
            unfinished,
            unstarted,
        } = counts;
        let per_s = |count: u64| match elapsed.0 {
            0 => 0.0,
            _ => count as f64 / elapsed.as_secs_f64(),
        };
        let started = begun.saturating_sub(unmeasured);
        JourneyResults {
            started,
            completed,
            failed,
            unfinished,
            unstarted,
            completed_per_s: per_s(completed),
            offered_per_s: is_open.then(|| per_s(started + unstarted)),
            journey_time_us,
        }
    }

    /// Returns the share of the ended journeys that failed, 0 to 1.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / (self.completed + self.failed).max(1) as f64
    }
}
