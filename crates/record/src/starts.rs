//! Lateness of the starts in an open loop, and gaps between starts.

use serde::{Deserialize, Serialize};

use crate::{Distribution, Nanos};

/// Lateness of starts, and gaps between starts. Each gap is between two starts of the same worker,
/// even after merging.
#[derive(Debug, Clone, Default)]
pub(crate) struct Starts {
    pub(crate) late: Distribution,
    intended_gaps: Distribution,
    actual_gaps: Distribution,
    /// Intended and actual time of the last start.
    last: Option<(Nanos, Nanos)>,
}

/// Equality ignores the time of the last start.
impl PartialEq for Starts {
    fn eq(&self, other: &Self) -> bool {
        self.late == other.late
            && self.intended_gaps == other.intended_gaps
            && self.actual_gaps == other.actual_gaps
    }
}

impl Starts {
    /// Records a request that was due at `intended` and started at `actual`. `late` is the part of
    /// the delay that the generator is responsible for.
    #[inline]
    pub(crate) fn record(&mut self, intended: Nanos, actual: Nanos, late: Nanos) {
        self.late.record(late);
        if let Some((intended_before, actual_before)) = self.last {
            self.intended_gaps.record(intended.since(intended_before));
            self.actual_gaps.record(actual.since(actual_before));
        }
        self.last = Some((intended, actual));
    }

    /// Clears everything except the last start, at which the next gap begins.
    pub(crate) fn clear(&mut self) {
        self.late.clear();
        self.intended_gaps.clear();
        self.actual_gaps.clear();
    }

    /// Returns the lateness, the intended gaps and the actual gaps.
    pub(crate) fn times(&self) -> [&Distribution; 3] {
        [&self.late, &self.intended_gaps, &self.actual_gaps]
    }

    /// Returns mutable references to the distributions, in the order of [`Starts::times`].
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

    /// Returns a summary of the gaps, or `None` if there was no gap.
    pub(crate) fn gaps(&self) -> Option<StartGaps> {
        (self.actual_gaps.count() > 0).then(|| StartGaps {
            intended: GapSummary::of(&self.intended_gaps),
            actual: GapSummary::of(&self.actual_gaps),
        })
    }
}

/// Gaps between consecutive starts of the same worker. Each of *n* workers starts every *n*-th
/// request of the schedule, so these gaps are on average *n* times as long as the gaps of the
/// schedule. With Poisson arrivals, they also vary less.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StartGaps {
    /// Gaps between the intended starts of the requests that were started.
    pub intended: GapSummary,
    /// Gaps between the actual starts of the same requests.
    pub actual: GapSummary,
}

/// Summary of a distribution of gaps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GapSummary {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Coefficient of variation (standard deviation / mean): 0 for equal gaps, 1 for exponential
    /// ones, more for bursts.
    pub variation: f64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Maximum.
    pub max_us: f64,
}

impl GapSummary {
    fn of(gaps: &Distribution) -> GapSummary {
        let summary = gaps.summary();
        GapSummary {
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

    /// Records starts that are due every 50 µs. `late_ns` contains the delay of each start.
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
        // Every other start is delayed until the next start.
        let late: Vec<u64> = (0..1001).map(|n| (n % 2) * 50_000).collect();
        let gaps = started(&late).gaps().unwrap();
        assert_eq!(gaps.intended.variation, 0.0);
        // Gaps alternate between 100 and 0 µs, so the standard deviation equals the mean.
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
