//! Detects stalls of the generator. In a stall, its process was stopped, or its machine was paused
//! or suspended. During a stall, the load starts no requests and reads responses late, which looks
//! like a slow server.
//!
//! The evidence is a gap between two readings of a worker's clock that no wait explains: the worker
//! asked to be woken at some time and read the clock much later, or the clock jumped between two
//! completions. Suspending the machine also stops the worker's clock. In this case, the evidence is
//! the suspended time that the system reports.

use prony_record::{Nanos, Stalls};

/// Minimum length of a stall. Shorter gaps occur on a busy machine; the finding `generator-starved`
/// covers them.
const STALL_MIN: Nanos = Nanos::from_millis(500);
/// Interval between checks of the machine's total suspended time.
const SUSPENSION_INTERVAL: Nanos = Nanos::from_millis(100);

/// Stalls of one worker within the measured part.
#[derive(Debug)]
pub(crate) struct StallWatch {
    /// Start of the measured part.
    from: Nanos,
    /// Planned end of the load.
    end: Nanos,
    /// Time of the next check for suspensions.
    next_suspension_check: Nanos,
    /// Total suspended time at the last check.
    suspended: Option<Nanos>,
    stalls: Stalls,
}

impl StallWatch {
    pub(crate) fn new(from: Nanos, end: Nanos) -> StallWatch {
        StallWatch {
            from,
            end,
            next_suspension_check: from,
            suspended: None,
            stalls: Stalls::default(),
        }
    }

    /// Records a clock reading of `now` that was due by `expected`. Returns the part of the gap
    /// that counts as a stall within the measured part.
    #[inline]
    pub(crate) fn gap(&mut self, expected: Nanos, now: Nanos) -> Nanos {
        if now.since(expected) < STALL_MIN {
            Nanos::ZERO
        } else {
            self.stalled(expected, now)
        }
    }

    #[cold]
    fn stalled(&mut self, expected: Nanos, now: Nanos) -> Nanos {
        let begin = expected.max(self.from);
        let length = now.min(self.end).since(begin);
        if length < STALL_MIN {
            return Nanos::ZERO;
        }
        self.add(begin, length);
        length
    }

    /// Returns true if a call to [`StallWatch::suspended`] is due.
    #[inline]
    pub(crate) fn is_suspension_check_due(&self, now: Nanos) -> bool {
        now >= self.next_suspension_check
    }

    /// Records that the machine has been suspended for `total` since it was started. The worker's
    /// clock does not include this time.
    pub(crate) fn suspended(&mut self, total: Nanos, now: Nanos) {
        let before = self.suspended.unwrap_or(total);
        let length = total.since(before);
        if length >= STALL_MIN {
            self.add(now, length);
        }
        self.suspended = Some(before.max(total));
        self.next_suspension_check = now + SUSPENSION_INTERVAL;
    }

    /// Resumes watching after a pause. Suspensions within the pause don't count.
    pub(crate) fn resume(&mut self) {
        self.suspended = None;
        self.next_suspension_check = self.from;
    }

    fn add(&mut self, begin: Nanos, length: Nanos) {
        let length_s = length.as_secs_f64();
        self.stalls = self.stalls.and(Stalls {
            count: 1,
            total_s: length_s,
            longest_s: length_s,
            longest_at_s: begin.since(self.from).as_secs_f64(),
        });
    }

    pub(crate) fn stalls(&self) -> Stalls {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> StallWatch {
        StallWatch::new(Nanos::from_secs(1), Nanos::from_secs(10))
    }

    #[test]
    fn only_the_part_of_a_gap_within_the_measured_part_is_a_stall() {
        let mut watch = watch();
        let ms = Nanos::from_millis;
        // A gap within the warm-up, a gap on a busy machine, and a gap from the warm-up to shortly
        // after the start of the measured part.
        assert_eq!(watch.gap(ms(0), ms(900)), Nanos::ZERO);
        assert_eq!(watch.gap(ms(2_000), ms(2_499)), Nanos::ZERO);
        assert_eq!(watch.gap(ms(100), ms(1_400)), Nanos::ZERO);
        assert_eq!(watch.stalls(), Stalls::default());
        assert_eq!(watch.gap(ms(100), ms(2_000)), ms(1_000));
        assert_eq!(watch.gap(ms(3_000), ms(5_000)), ms(2_000));
        assert_eq!(watch.gap(ms(9_000), ms(60_000)), ms(1_000));
        let stalls = watch.stalls();
        assert_eq!((stalls.count, stalls.total_s), (3, 4.0));
        assert_eq!((stalls.longest_s, stalls.longest_at_s), (2.0, 2.0));
    }

    #[test]
    fn a_suspension_of_the_machine_is_a_stall_although_the_clock_stood_still() {
        let mut watch = watch();
        let secs = Nanos::from_secs;
        assert!(!watch.is_suspension_check_due(Nanos::from_millis(999)));
        // Suspensions before the load don't count.
        watch.suspended(secs(3_600), secs(1));
        assert!(!watch.is_suspension_check_due(Nanos::from_millis(1_099)));
        // Two clocks are not read at exactly the same time, so their difference varies slightly in
        // both directions.
        watch.suspended(secs(3_600) + Nanos(900), secs(2));
        watch.suspended(secs(3_600), secs(3));
        assert_eq!(watch.stalls(), Stalls::default());
        watch.suspended(secs(3_630), secs(4));
        watch.suspended(secs(3_630), secs(5));
        let stalls = watch.stalls();
        assert_eq!((stalls.count, stalls.longest_at_s), (1, 3.0));
        assert!((stalls.total_s - 30.0).abs() < 0.001);
    }
}
