//! Counts and times of one interval of a load, in a form that can be added exactly.

use std::fmt;
use std::ops::AddAssign;

use crate::entries::EntryDeltas;
use crate::events::EventDelta;
use crate::journeys::JourneyCounts;
use crate::series::{HalfSecondCounts, OtherCounts, Series, coarse_times};
use crate::starts::Starts;
use crate::tls_groups::{TLS_GROUPS, TlsGroupCounts};
use crate::{Distribution, LoadHistory, Nanos, Outcome, OutcomeCounts};

/// Number of counts in [`Delta::counts`].
pub(crate) const DELTA_COUNTS: usize = 16 + TLS_GROUPS;
/// Number of three-digit status codes.
const STATUS_COUNT: usize = 1000;

/// Counts and times of one or more workers in one interval of a load. Deltas of the same load
/// merge exactly and in any order: the deltas of all intervals and workers add up to the whole
/// load, bucket by bucket.
///
/// A request is counted in the interval in which it ends, except in [`Delta::started`], which
/// counts starts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    /// Start and end of the interval, relative to the start of the load. The interval never
    /// includes the warm-up. Merging yields the range from the earliest start to the latest end.
    pub span: Option<(Nanos, Nanos)>,
    /// Requests that began to connect or to send, including those during the warm-up.
    pub started: u64,
    /// Requests that finished but do not belong to the measured part. Except for `started`, all
    /// other counts refer to the measured part.
    pub unmeasured: u64,
    /// Requests by outcome.
    pub outcomes: OutcomeCounts,
    /// Final responses by status.
    pub statuses: Statuses,
    /// Number of retries after a reused connection lost a request.
    pub retried: u64,
    /// Redirects followed within requests.
    pub redirected: u64,
    /// HTTP bytes received, not counting TLS.
    pub bytes_in: u64,
    /// Bytes of response bodies, included in `bytes_in`.
    pub body_bytes_in: u64,
    /// HTTP bytes sent, not counting TLS.
    pub bytes_out: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// TLS handshakes that resumed an earlier session.
    pub tls_resumed: u64,
    /// TLS handshakes in which the server asked for another key share (HelloRetryRequest).
    pub tls_hello_retries: u64,
    /// TLS handshakes by key exchange group.
    pub tls_groups: TlsGroupCounts,
    /// Response times of successful requests, from the intended start to the last byte of the
    /// response, and lower bounds on the response times of requests that timed out or were cut off.
    pub response_time: Distribution,
    /// Service times: from the first byte sent to the last byte received.
    pub service_time: Distribution,
    /// Times from the first byte sent to the first byte received, for successful requests only.
    pub first_byte: Distribution,
    /// Time to connect, one value for each opened connection.
    pub connect_time: Distribution,
    /// Durations of the TLS handshakes of opened connections.
    pub tls_time: Distribution,
    /// Journeys by their ends.
    pub journeys: JourneyCounts,
    /// Times of completed journeys, and lower bounds on the times of unfinished ones.
    pub journey_time: Distribution,
    /// Counts and response times of each entry of the load's list.
    pub entries: EntryDeltas,
    /// Events of streamed responses.
    pub events: EventDelta,
    pub(crate) starts: Starts,
    pub(crate) series: Series,
}

impl Delta {
    /// Adds the delta of another interval, or of the same interval and another worker.
    pub fn merge(&mut self, other: &Delta) {
        self.span = match (self.span, other.span) {
            (Some(mine), Some(theirs)) => Some((mine.0.min(theirs.0), mine.1.max(theirs.1))),
            (mine, theirs) => mine.or(theirs),
        };
        for (mine, theirs) in self.counts_mut().into_iter().zip(other.counts()) {
            mine.add_assign(theirs);
        }
        self.outcomes.merge(&other.outcomes);
        self.statuses.merge(&other.statuses);
        for (mine, theirs) in self.times_mut().into_iter().zip(other.times()) {
            mine.merge(theirs);
        }
        self.entries.merge(&other.entries);
        self.events.merge(&other.events);
        self.starts.merge(&other.starts);
        self.series.merge(&other.series);
    }

    /// Clears all counts and times without freeing their memory.
    pub fn clear(&mut self) {
        self.span = None;
        self.counts_mut().into_iter().for_each(|count| *count = 0);
        self.outcomes = OutcomeCounts::default();
        self.statuses.clear();
        self.times_mut().into_iter().for_each(Distribution::clear);
        self.entries.clear();
        self.events.clear();
        self.starts.clear();
        self.series.clear();
    }

    /// Returns the counts and times as an element of the time series.
    pub(crate) fn half_second_counts(&self) -> HalfSecondCounts {
        let other = OtherCounts {
            journeys_completed: self.journeys.completed,
            journeys_failed: self.journeys.failed,
            events: self.events.events,
            journey_times: coarse_times(&self.journey_time),
            first_event_times: coarse_times(&self.events.first_event),
            event_gaps: coarse_times(&self.events.event_gap),
        };
        HalfSecondCounts {
            ok: self.outcomes.get(Outcome::Ok),
            failed: self.outcomes.failed(),
            bytes_in: self.bytes_in,
            times: coarse_times(&self.response_time),
            other: (other != OtherCounts::default()).then(|| Box::new(other)),
        }
    }

    /// Drops the time series, which is the only part that grows with the interval's length.
    pub fn drop_series(&mut self) {
        self.series.clear();
    }

    /// Returns the half seconds of the time series. Half second 0 is the first of the measured
    /// part.
    pub fn half_seconds(&self) -> impl Iterator<Item = HalfSecondTotals> + '_ {
        self.series
            .numbered()
            .map(|(number, half_second)| HalfSecondTotals {
                number,
                ok: half_second.ok,
                failed: half_second.failed,
                bytes_in: half_second.bytes_in,
            })
    }

    /// Returns the complete half seconds of a measured part of the given length.
    pub fn history(&self, length: Nanos) -> LoadHistory {
        let half_seconds = self.series.iter();
        LoadHistory::of(half_seconds.map(|it| (it.ok, &it.times)), length)
    }

    /// Returns the lateness of requests that found a free connection; open loop only.
    pub fn late(&self) -> &Distribution {
        &self.starts.late
    }

    /// Returns the number of finished requests, including those outside the measured part. Excludes
    /// requests that never began.
    pub fn ended(&self) -> u64 {
        self.unmeasured.saturating_add(self.outcomes.ended())
    }

    /// Returns the number of requests that have begun but not ended. The delta must cover the load
    /// from its start.
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended())
    }

    /// Returns the length of the interval.
    pub fn length(&self) -> Nanos {
        self.span
            .map_or(Nanos::ZERO, |(begin, end)| end.since(begin))
    }

    pub(crate) fn counts_mut(&mut self) -> [&mut u64; DELTA_COUNTS] {
        let [g0, g1, g2, g3, g4, g5, g6, g7] = &mut self.tls_groups.0;
        [
            &mut self.started,
            &mut self.unmeasured,
            &mut self.retried,
            &mut self.redirected,
            &mut self.bytes_in,
            &mut self.body_bytes_in,
            &mut self.bytes_out,
            &mut self.connections_opened,
            &mut self.tls_resumed,
            &mut self.journeys.begun,
            &mut self.journeys.unmeasured,
            &mut self.journeys.completed,
            &mut self.journeys.failed,
            &mut self.journeys.unfinished,
            &mut self.journeys.unstarted,
            &mut self.tls_hello_retries,
            g0,
            g1,
            g2,
            g3,
            g4,
            g5,
            g6,
            g7,
        ]
    }

    /// Returns the counts in the order of [`Delta::counts_mut`].
    pub(crate) fn counts(&self) -> [u64; DELTA_COUNTS] {
        let [g0, g1, g2, g3, g4, g5, g6, g7] = self.tls_groups.0;
        [
            self.started,
            self.unmeasured,
            self.retried,
            self.redirected,
            self.bytes_in,
            self.body_bytes_in,
            self.bytes_out,
            self.connections_opened,
            self.tls_resumed,
            self.journeys.begun,
            self.journeys.unmeasured,
            self.journeys.completed,
            self.journeys.failed,
            self.journeys.unfinished,
            self.journeys.unstarted,
            self.tls_hello_retries,
            g0,
            g1,
            g2,
            g3,
            g4,
            g5,
            g6,
            g7,
        ]
    }

    /// Returns all distributions, including those of lateness, of the gaps between starts, and of
    /// events.
    pub(crate) fn all_times(&self) -> impl Iterator<Item = &Distribution> {
        let of_events = [&self.events.first_event, &self.events.event_gap];
        let times = self.times().into_iter().chain(self.starts.times());
        times.chain(of_events)
    }

    /// Returns mutable references to all distributions, in the order of [`Delta::all_times`].
    pub(crate) fn all_times_mut(&mut self) -> [&mut Distribution; 11] {
        let [late, intended_gaps, actual_gaps] = self.starts.times_mut();
        [
            &mut self.response_time,
            &mut self.service_time,
            &mut self.first_byte,
            &mut self.connect_time,
            &mut self.tls_time,
            &mut self.journey_time,
            late,
            intended_gaps,
            actual_gaps,
            &mut self.events.first_event,
            &mut self.events.event_gap,
        ]
    }

    fn times_mut(&mut self) -> [&mut Distribution; 6] {
        [
            &mut self.response_time,
            &mut self.service_time,
            &mut self.first_byte,
            &mut self.connect_time,
            &mut self.tls_time,
            &mut self.journey_time,
        ]
    }

    /// Returns the distributions in the order of [`Delta::times_mut`].
    fn times(&self) -> [&Distribution; 6] {
        [
            &self.response_time,
            &self.service_time,
            &self.first_byte,
            &self.connect_time,
            &self.tls_time,
            &self.journey_time,
        ]
    }
}

/// Counts of one half second of the time series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfSecondTotals {
    /// Index of the half second; half second 0 is the first of the measured part.
    pub number: usize,
    /// Requests that succeeded within the half second.
    pub ok: u64,
    /// Requests that failed within the half second.
    pub failed: u64,
    /// HTTP bytes received by the requests that finished within the half second.
    pub bytes_in: u64,
}

/// Responses by status code.
#[derive(Clone, PartialEq, Eq)]
pub struct Statuses(Box<[u64; STATUS_COUNT]>);

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Statuses(Box::new([0; STATUS_COUNT]))
    }
}

impl Statuses {
    #[inline]
    pub(crate) fn add(&mut self, status: u16) {
        self.add_many(status, 1);
    }

    pub(crate) fn add_many(&mut self, status: u16, n: u64) {
        let count = &mut self.0[usize::from(status) % STATUS_COUNT];
        *count = count.saturating_add(n);
    }

    fn merge(&mut self, other: &Statuses) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0.iter()) {
            *mine += theirs;
        }
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Returns each status that occurred, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counts = (0u16..).zip(self.0.iter().copied());
        counts.filter(|&(_, n)| n > 0)
    }
}
