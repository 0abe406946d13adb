//! When requests are due: pure functions of a seed and a count.
//!
//! An open loop has **one** schedule for the whole load, whatever the number of workers: arrival
//! *k* is at the same moment in every run with the same seed, and worker *w* of *n* takes those
//! with *k* ≡ *w* (mod *n*). Nothing is queued: a worker keeps the one arrival that is next, so a
//! server that stalls for an hour costs no memory.
//!
//! - constant: t(k) = k / rate
//! - Poisson: t(k) = t(k−1) + −ln(1 − u) / rate, u uniform in [0, 1)
//!
//! In a closed loop nothing is scheduled: a request is due the moment its connection is free.

use prony_record::Nanos;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How the gaps between arrivals are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps are equal.
    Constant,
    /// Gaps are exponential, independent of each other.
    Poisson,
}

impl Arrivals {
    /// The name in flags and records.
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
        }
    }
}

/// One worker's part of an open loop's schedule, from its first arrival on.
#[derive(Debug, Clone)]
pub struct Schedule {
    gap_ns: f64,
    random: Option<ChaCha8Rng>,
    /// Arrivals of the whole load that were passed, this worker's or not.
    passed: u64,
    /// Those of them that count towards `end.requests`.
    counted: u64,
    /// The moment of arrival `passed`, in nanoseconds; a float loses less than a nanosecond in
    /// the first hundred days.
    at_ns: f64,
    share: Share,
    end: End,
}

/// Which arrivals of the load are a worker's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The worker's number, from 0.
    pub worker: u64,
    /// How many workers there are.
    pub of: u64,
}

impl Share {
    /// This worker's part of `whole` things; the remainder goes to the first workers.
    pub(crate) fn part(self, whole: u64) -> u64 {
        whole / self.of + u64::from(self.worker < whole % self.of)
    }

    /// What the workers before this one have of `whole` things.
    pub(crate) fn parts_before(self, whole: u64) -> u64 {
        whole / self.of * self.worker + self.worker.min(whole % self.of)
    }
}

/// Where a schedule ends; the first that is reached counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Arrivals of the whole load, from the moment `counted_from` on.
    pub requests: u64,
    /// The end of the warm-up, whose arrivals don't count.
    pub counted_from: Nanos,
    /// No arrival is due at or after this moment.
    pub at: Nanos,
}

impl Schedule {
    /// The part `share` of the schedule with `rate_per_s` arrivals a second in total.
    pub fn new(arrivals: Arrivals, rate_per_s: f64, seed: u64, share: Share, end: End) -> Schedule {
        let random = match arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson => Some(ChaCha8Rng::seed_from_u64(seed)),
        };
        let mut schedule = Schedule {
            gap_ns: 1e9 / rate_per_s,
            random,
            passed: 0,
            counted: 0,
            at_ns: 0.0,
            share,
            end,
        };
        if schedule.random.is_some() {
            schedule.at_ns = schedule.random_gap();
        }
        schedule.skip_to_own();
        schedule
    }

    /// The moment of this worker's next arrival, if there is one.
    #[inline]
    pub fn peek(&self) -> Option<Nanos> {
        let at = Nanos(self.at_ns as u64);
        (self.counted < self.end.requests && at < self.end.at).then_some(at)
    }

    /// Goes on to the arrival after the next.
    pub fn advance(&mut self) {
        self.step();
        self.skip_to_own();
    }

    fn skip_to_own(&mut self) {
        while self.passed % self.share.of != self.share.worker {
            self.step();
        }
    }

    fn step(&mut self) {
        self.passed += 1;
        self.counted += u64::from(Nanos(self.at_ns as u64) >= self.end.counted_from);
        self.at_ns = match self.random {
            // Not a sum of gaps, which would gather rounding errors.
            None => self.passed as f64 * self.gap_ns,
            Some(_) => self.at_ns + self.random_gap(),
        };
    }

    fn random_gap(&mut self) -> f64 {
        match &mut self.random {
            Some(random) => -(1.0 - random.random::<f64>()).ln() * self.gap_ns,
            None => self.gap_ns,
        }
    }
}

impl Iterator for Schedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let at = self.peek()?;
        self.advance();
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREVER: End = End {
        requests: u64::MAX,
        counted_from: Nanos::ZERO,
        at: Nanos::MAX,
    };

    fn alone(arrivals: Arrivals, rate: f64, seed: u64, end: End) -> Schedule {
        Schedule::new(arrivals, rate, seed, Share { worker: 0, of: 1 }, end)
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced_for_ever() {
        let all: Vec<_> = alone(Arrivals::Constant, 1000.0, 0, FOREVER)
            .take(5)
            .collect();
        assert_eq!(all, [0, 1, 2, 3, 4].map(Nanos::from_millis));
        // 0.3 requests a second have a gap that is no whole number of nanoseconds.
        let late = alone(Arrivals::Constant, 0.3, 0, FOREVER)
            .nth(3_000_000)
            .unwrap();
        assert_eq!(late, Nanos::from_secs(10_000_000));
    }

    #[test]
    fn workers_share_one_schedule_exactly() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let end = End {
                requests: 1000,
                counted_from: Nanos::ZERO,
                at: Nanos::from_millis(600),
            };
            let whole: Vec<_> = alone(arrivals, 1000.0, 7, end).collect();
            let mut shared: Vec<_> = (0..3)
                .flat_map(|worker| Schedule::new(arrivals, 1000.0, 7, Share { worker, of: 3 }, end))
                .collect();
            shared.sort();
            assert_eq!(shared, whole);
        }
    }

    #[test]
    fn a_schedule_ends_at_its_count_or_its_time() {
        let by_count = End {
            requests: 10,
            ..FOREVER
        };
        assert_eq!(alone(Arrivals::Poisson, 100.0, 1, by_count).count(), 10);
        let by_time = End {
            at: Nanos::from_secs(1),
            ..FOREVER
        };
        assert_eq!(alone(Arrivals::Constant, 100.0, 1, by_time).count(), 100);
        // Ten after a warm-up of half a second, in which fifty are due.
        let warmed = End {
            counted_from: Nanos::from_millis(500),
            ..by_count
        };
        assert_eq!(alone(Arrivals::Constant, 100.0, 1, warmed).count(), 60);
    }

    /// Anderson–Darling against the exponential distribution with known mean (case 0): below
    /// 2.492 at the 5% level (D'Agostino and Stephens, Goodness-of-Fit Techniques, table 4.2).
    #[test]
    fn poisson_gaps_are_exponential() {
        let arrivals: Vec<_> = alone(Arrivals::Poisson, 20_000.0, 42, FOREVER)
            .take(20_001)
            .collect();
        let mut uniform: Vec<f64> = arrivals
            .windows(2)
            .map(|pair| 1.0 - (-pair[1].since(pair[0]).as_secs_f64() * 20_000.0).exp())
            .collect();
        uniform.sort_by(f64::total_cmp);
        let n = uniform.len();
        let sum: f64 = (0..n)
            .map(|i| {
                let low = uniform[i].max(1e-12).ln();
                let high = (1.0 - uniform[n - 1 - i]).max(1e-12).ln();
                (2 * i + 1) as f64 * (low + high)
            })
            .sum();
        let statistic = -(n as f64) - sum / n as f64;
        assert!(statistic < 2.492, "A² = {statistic}");
    }
}
