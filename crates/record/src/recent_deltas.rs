//! Sums of counts and times over the last seconds of a running load.

use std::collections::VecDeque;

use crate::{Delta, Nanos};

/// Additional time for which deltas are kept, because workers publish their deltas at different
/// times.
const PUBLICATION_DELAY_MAX: Nanos = Nanos::from_secs(5);

/// A sliding window over the deltas of a running load.
#[derive(Debug)]
pub struct RecentDeltas {
    /// Length of the window.
    length: Nanos,
    /// Deltas without their time series, in the order of publication.
    deltas: VecDeque<Delta>,
    /// Latest end of any delta so far.
    latest: Nanos,
}

impl RecentDeltas {
    /// Creates an empty window of the given length.
    pub fn new(length: Nanos) -> RecentDeltas {
        RecentDeltas {
            length,
            deltas: VecDeque::new(),
            latest: Nanos::ZERO,
        }
    }

    /// Removes all deltas.
    #[must_use]
    pub fn emptied(self) -> RecentDeltas {
        RecentDeltas::new(self.length)
    }

    /// Adds a delta, and drops those that are too old for any later sum.
    pub fn add(&mut self, delta: &Delta) {
        let Some((_, end)) = delta.span else {
            return;
        };
        let mut delta = delta.clone();
        delta.drop_series();
        self.deltas.push_back(delta);
        self.latest = self.latest.max(end);
        let oldest = self.latest.since(self.length + PUBLICATION_DELAY_MAX);
        self.deltas
            .retain(|delta| delta.span.is_some_and(|(_, end)| end >= oldest));
    }

    /// Returns the sum of the deltas that end within the window before `until`, or `None` if there
    /// are none.
    pub fn before(&self, until: Nanos) -> Option<Delta> {
        let from = until.since(self.length);
        let mut sum: Option<Delta> = None;
        for delta in &self.deltas {
            if delta
                .span
                .is_some_and(|(_, end)| end > from && end <= until)
            {
                match &mut sum {
                    None => sum = Some(delta.clone()),
                    Some(sum) => sum.merge(delta),
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(begin_ms: u64, end_ms: u64, started: u64) -> Delta {
        Delta {
            span: Some((Nanos::from_millis(begin_ms), Nanos::from_millis(end_ms))),
            started,
            ..Delta::default()
        }
    }

    #[test]
    fn the_window_slides_and_waits_for_slow_workers() {
        let mut recent = RecentDeltas::new(Nanos::from_secs(1));
        assert_eq!(recent.before(Nanos::from_secs(1)), None);
        recent.add(&Delta::default());
        for (begin_ms, end_ms, started) in [
            (0, 500, 1),
            (500, 1_000, 10),
            (1_000, 1_500, 100),
            // Another worker publishes this delta late.
            (0, 1_000, 1_000),
        ] {
            recent.add(&delta(begin_ms, end_ms, started));
        }
        let started = |until_ms| {
            let window = recent.before(Nanos::from_millis(until_ms));
            window.map(|window| window.started)
        };
        assert_eq!(started(1_000), Some(1_011));
        assert_eq!(started(1_500), Some(1_110));
        assert_eq!(started(500), Some(1));
        assert_eq!(started(9_000), None);
        let window = recent.before(Nanos::from_secs(1)).unwrap();
        assert_eq!(window.span, Some((Nanos::ZERO, Nanos::from_secs(1))));
    }

    #[test]
    fn old_deltas_are_dropped() {
        let mut recent = RecentDeltas::new(Nanos::from_secs(1));
        for second in 0..100 {
            recent.add(&delta(second * 1_000, second * 1_000 + 1_000, 1));
        }
        assert!(recent.deltas.len() < 10);
        let window = recent.before(Nanos::from_secs(100)).unwrap();
        assert_eq!(window.started, 1);
    }
}
