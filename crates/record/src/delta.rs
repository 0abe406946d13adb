//! What was recorded in one stretch of a load: everything of it that adds up.

use std::fmt;
use std::ops::AddAssign;

use crate::series::Series;
use crate::starts::Starts;
use crate::{Distribution, Nanos, Outcome, OutcomeCounts};

/// One place for each three-digit status.
const STATUSES: usize = 1000;

/// Counts and times of a stretch of a load, of one worker or of several. Deltas of the same load merge
/// in any order, and exactly: those of all stretches and workers are the load, to the last bucket.
///
/// A request counts where it ends; the one count of starts is [`Delta::started`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    /// The stretch, from the start of the load; none of it is warm-up. Merged, from the first's begin
    /// to the last's end.
    pub span: Option<(Nanos, Nanos)>,
    /// Requests whose connect or send began, those of the warm-up included.
    pub started: u64,
    /// Requests that ended and don't belong to the measured part; all others here do.
    pub unmeasured: u64,
    /// How they ended.
    pub outcomes: OutcomeCounts,
    /// Final answers by status.
    pub statuses: Statuses,
    /// Requests sent once more because a reused connection had lost them.
    pub retried: u64,
    /// Redirects that were followed within requests.
    pub redirected: u64,
    /// HTTP bytes received, above TLS.
    pub bytes_in: u64,
    /// Bodies among them.
    pub body_bytes_in: u64,
    /// HTTP bytes sent, above TLS.
    pub bytes_out: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// TLS handshakes among them that went on from an earlier session.
    pub tls_resumed: u64,
    /// From the intended start to the last byte, over successes and lower bounds.
    pub response_time: Distribution,
    /// From the first byte sent to the last byte received.
    pub service_time: Distribution,
    /// From the first byte sent to the first byte received, over successes.
    pub first_byte: Distribution,
    /// Connects, over connections opened.
    pub connect_time: Distribution,
    /// TLS handshakes, over connections opened.
    pub tls_time: Distribution,
    pub(crate) starts: Starts,
    pub(crate) series: Series,
}

impl Delta {
    /// Adds another stretch, or the same of another worker.
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
        self.starts.merge(&other.starts);
        self.series.merge(&other.series);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.span = None;
        self.counts_mut().into_iter().for_each(|count| *count = 0);
        self.outcomes = OutcomeCounts::default();
        self.statuses.clear();
        self.times_mut().into_iter().for_each(Distribution::clear);
        self.starts.clear();
        self.series.clear();
    }

    /// Forgets the time series, which alone grows with the stretch's length.
    pub fn drop_series(&mut self) {
        self.series.clear();
    }

    /// Each slice of the time series, by its number from the start of the measured part: successes and
    /// failures that ended in it, and the bytes that they received.
    pub fn slices(&self) -> impl Iterator<Item = SliceTotals> + '_ {
        self.series.numbered().map(|(number, slice)| SliceTotals {
            number,
            ok: slice.ok,
            failed: slice.failed,
            bytes_in: slice.bytes_in,
        })
    }

    /// How late those starts were that were due and had a connection; open loop only.
    pub fn late(&self) -> &Distribution {
        &self.starts.late
    }

    /// Requests that ended, in or before the measured part; those that never began are left out.
    pub fn ended(&self) -> u64 {
        ended(self.unmeasured, &self.outcomes)
    }

    /// Of all of a load up to a moment: requests that have begun and not ended.
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended())
    }

    /// The stretch's length.
    pub fn length(&self) -> Nanos {
        self.span
            .map_or(Nanos::ZERO, |(begin, end)| end.since(begin))
    }

    pub(crate) fn counts_mut(&mut self) -> [&mut u64; 9] {
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
        ]
    }

    /// In the order of [`Delta::counts_mut`].
    pub(crate) fn counts(&self) -> [u64; 9] {
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
        ]
    }

    /// Every distribution there is, those of the starts among them.
    pub(crate) fn all_times(&self) -> impl Iterator<Item = &Distribution> {
        self.times().into_iter().chain(self.starts.times())
    }

    /// In the order of [`Delta::all_times`].
    pub(crate) fn all_times_mut(&mut self) -> [&mut Distribution; 8] {
        let [late, intended_gaps, actual_gaps] = self.starts.times_mut();
        [
            &mut self.response_time,
            &mut self.service_time,
            &mut self.first_byte,
            &mut self.connect_time,
            &mut self.tls_time,
            late,
            intended_gaps,
            actual_gaps,
        ]
    }

    fn times_mut(&mut self) -> [&mut Distribution; 5] {
        [
            &mut self.response_time,
            &mut self.service_time,
            &mut self.first_byte,
            &mut self.connect_time,
            &mut self.tls_time,
        ]
    }

    /// In the order of [`Delta::times_mut`].
    fn times(&self) -> [&Distribution; 5] {
        [
            &self.response_time,
            &self.service_time,
            &self.first_byte,
            &self.connect_time,
            &self.tls_time,
        ]
    }
}

/// See [`Delta::ended`].
pub(crate) fn ended(unmeasured: u64, outcomes: &OutcomeCounts) -> u64 {
    let ended = outcomes.happened().map(|(_, n)| n);
    let ended = ended.fold(unmeasured, u64::saturating_add);
    ended.saturating_sub(outcomes.get(Outcome::Unstarted))
}

/// One half second in counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceTotals {
    /// Its number, from 0 where the measured part begins.
    pub number: usize,
    /// Successes that ended within it.
    pub ok: u64,
    /// Failures that ended within it.
    pub failed: u64,
    /// HTTP bytes received by the requests that ended within it.
    pub bytes_in: u64,
}

/// How often each status came.
#[derive(Clone, PartialEq, Eq)]
pub struct Statuses(Box<[u64; STATUSES]>);

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Statuses(Box::new([0; STATUSES]))
    }
}

impl Statuses {
    #[inline]
    pub(crate) fn add(&mut self, status: u16) {
        self.add_many(status, 1);
    }

    pub(crate) fn add_many(&mut self, status: u16, n: u64) {
        let count = &mut self.0[usize::from(status) % STATUSES];
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

    /// Each status that came, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counts = (0u16..).zip(self.0.iter().copied());
        counts.filter(|&(_, n)| n > 0)
    }
}
