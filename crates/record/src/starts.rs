//! How an open loop's starts were made: how late, and how far apart.

use serde::{Deserialize, Serialize};

use crate::{Distribution, Nanos};

/// What one worker saw of the starts that its schedule asked for. Merged, the gaps are still those
/// of each worker by itself: a worker knows nothing of when the others started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Starts {
    pub(crate) late: Distribution,
    intended_gaps: Distribution,
    actual_gaps: Distribution,
    /// The last start: when it was due and when it was made.
    last: Option<(Nanos, Nanos)>,
}

/// The same times; where the next gap counts from is no matter.
impl PartialEq for Starts {
    fn eq(&self, other: &Self) -> bool {
        self.late == other.late
            && self.intended_gaps == other.intended_gaps
            && self.actual_gaps == other.actual_gaps
    }
}

impl Starts {
    /// The next start was due at `intended` and made at `actual`, later by `late` than the generator
    /// could have made it.
    #[inline]
    pub(crate) fn record(&mut self, intended: Nanos, actual: Nanos, late: Nanos) {
        self.late.record(late);
        if let Some((intended_before, actual_before)) = self.last {
            self.intended_gaps.record(intended.since(intended_before));
            self.actual_gaps.record(actual.since(actual_before));
        }
        self.last = Some((intended, actual));
    }

    /// Forgets all but the last start, from which the next gap counts.
    pub(crate) fn clear(&mut self) {
        self.late.clear();
        self.intended_gaps.clear();
        self.actual_gaps.clear();
    }

    /// How late, and the gaps, intended and actual.
    pub(crate) fn times(&self) -> [&Distribution; 3] {
        [&self.late, &self.intended_gaps, &self.actual_gaps]
    }

    /// In the order of [`Starts::times`].
    pub(crate) fn times_mut(&mut self) -> [&mut Distribution; 3] {
        [
            &mut self.late,
            &mut self.intended_gaps,
            &mut self.actual_gaps,
        ]
    }

    pub(crate) fn merge(&mut self, other: &Starts) {
        self.late.merge(&other.late);
        self.intended_gaps.merge(&other.intended_gaps);
        self.actual_gaps.merge(&other.actual_gaps);
    }

    /// The gaps in a few figures; nothing where there was no gap.
    pub(crate) fn gaps(&self) -> Option<StartGaps> {
        (self.actual_gaps.count() > 0).then(|| StartGaps {
            intended: Gaps::of(&self.intended_gaps),
            actual: Gaps::of(&self.actual_gaps),
        })
    }
}

/// The gaps between successive starts of a worker: those of its part of the schedule, and those
/// that came about. One worker has the whole schedule; of *n* workers each has every *n*-th arrival,
/// so that the gaps are *n* times as long on average, and those of Poisson arrivals vary less.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StartGaps {
    /// Between the intended starts of the requests that were started.
    pub intended: Gaps,
    /// Between their actual starts.
    pub actual: Gaps,
}

/// A distribution of gaps in a few figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gaps {
    /// The arithmetic mean.
    pub mean_us: f64,
    /// The coefficient of variation, standard deviation / mean: 0 where all gaps are equal, 1 where
    /// they are exponential, more where starts come in bursts.
    pub variation: f64,
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Gaps {
    fn of(gaps: &Distribution) -> Gaps {
        let summary = gaps.summary();
        Gaps {
            mean_us: summary.mean,
            variation: (gaps.variation() * 1e4).round() / 1e4,
            p50_us: summary.p50,
            p99_us: summary.p99,
            max_us: summary.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts every 50 µs of which each was as late as `late_ns` says.
    fn started(late_ns: &[u64]) -> Starts {
        let mut starts = Starts::default();
        for (number, &late) in (0u64..).zip(late_ns) {
            let due = Nanos(number * 50_000);
            starts.record(due, due + Nanos(late), Nanos(late));
        }
        starts
    }

    fn close_to(seen: f64, expected: f64) {
        assert!((seen / expected - 1.0).abs() < 0.002, "{seen} {expected}");
    }

    #[test]
    fn starts_in_time_have_the_gaps_of_their_schedule() {
        let gaps = started(&[7_000; 100]).gaps().unwrap();
        assert_eq!(gaps.intended, gaps.actual);
        close_to(gaps.actual.mean_us, 50.0);
        close_to(gaps.actual.max_us, 50.0);
        assert_eq!(gaps.actual.variation, 0.0);
    }

    #[test]
    fn a_burst_shows_in_the_gaps_that_came_about_and_in_no_others() {
        // Every other start waits for the one after it.
        let late: Vec<u64> = (0..1001).map(|n| (n % 2) * 50_000).collect();
        let gaps = started(&late).gaps().unwrap();
        assert_eq!(gaps.intended.variation, 0.0);
        // Gaps of 100 and of 0 µs, alternately: as much deviation as mean.
        close_to(gaps.actual.mean_us, 50.0);
        close_to(gaps.actual.variation, 1.0);
        close_to(gaps.actual.max_us, 100.0);
        assert_eq!(gaps.actual.p50_us, 0.0);
    }

    #[test]
    fn workers_merge_without_a_gap_between_them() {
        let mut both = started(&[0, 0, 0]);
        both.merge(&started(&[1_000, 1_000]));
        assert_eq!(both.late.count(), 5);
        assert_eq!(both.actual_gaps.count(), 3);
        close_to(both.gaps().unwrap().actual.max_us, 50.0);
    }

    #[test]
    fn one_start_has_no_gap() {
        assert_eq!(started(&[3]).gaps(), None);
    }
}
