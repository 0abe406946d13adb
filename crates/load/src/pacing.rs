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
//! Both are rounded to the nanosecond. A float holds a moment to less than that for the first
//! hundred days, and constant arrivals are computed from their number, not summed up: they don't
//! drift. The schedule knows neither connections nor workers, so the start has no burst of them.
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
    spacing: Spacing,
    /// The moment of this worker's next arrival.
    at: Nanos,
    /// Arrivals of the whole load before it that count towards `end.requests`.
    counted: u64,
    share: Share,
    end: End,
}

/// What the moments of arrivals follow from.
#[derive(Debug, Clone)]
enum Spacing {
    Constant {
        rate_per_s: f64,
        /// The next arrival's number in the whole load, from 0.
        number: u64,
        /// The first number that counts.
        first_counted: u64,
    },
    Poisson {
        mean_gap_ns: f64,
        /// The moment of the next arrival in nanoseconds.
        at_ns: f64,
        random: Box<ChaCha8Rng>,
    },
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
        let (spacing, at) = match arrivals {
            Arrivals::Constant => {
                let spacing = Spacing::Constant {
                    rate_per_s,
                    number: 0,
                    first_counted: first_from(end.counted_from, rate_per_s),
                };
                (spacing, Nanos::ZERO)
            }
            Arrivals::Poisson => {
                let mean_gap_ns = 1e9 / rate_per_s;
                let mut random = Box::new(ChaCha8Rng::seed_from_u64(seed));
                let at_ns = exponential(&mut random, mean_gap_ns);
                let spacing = Spacing::Poisson {
                    mean_gap_ns,
                    at_ns,
                    random,
                };
                (spacing, rounded(at_ns))
            }
        };
        let mut schedule = Schedule {
            spacing,
            at,
            counted: 0,
            share,
            end,
        };
        schedule.pass(share.worker);
        schedule
    }

    /// The moment of this worker's next arrival, if there is one.
    #[inline]
    pub fn peek(&self) -> Option<Nanos> {
        (self.counted < self.end.requests && self.at < self.end.at).then_some(self.at)
    }

    /// Goes on to the arrival after the next.
    pub fn advance(&mut self) {
        self.pass(self.share.of);
    }

    /// Goes on by so many arrivals of the whole load.
    fn pass(&mut self, arrivals: u64) {
        match &mut self.spacing {
            Spacing::Constant {
                rate_per_s,
                number,
                first_counted,
            } => {
                *number += arrivals;
                self.at = constant(*number, *rate_per_s);
                self.counted = number.saturating_sub(*first_counted);
            }
            Spacing::Poisson {
                mean_gap_ns,
                at_ns,
                random,
            } => {
                for _ in 0..arrivals {
                    self.counted += u64::from(self.at >= self.end.counted_from);
                    *at_ns += exponential(random, *mean_gap_ns);
                    self.at = rounded(*at_ns);
                }
            }
        }
    }
}

/// Poisson arrivals that [`arrivals_by_worker`] draws at most; more would take seconds.
const DRAWN_ARRIVALS_MAX: f64 = 5e7;

/// Number of arrivals from `end.counted_from` on that each of `workers` workers gets from its part of
/// the schedule. Constant arrivals are computed, Poisson arrivals are drawn; none where too many would
/// have to be drawn.
pub fn arrivals_by_worker(
    arrivals: Arrivals,
    rate_per_s: f64,
    seed: u64,
    workers: u32,
    end: End,
) -> Option<Vec<u64>> {
    let of = u64::from(workers.max(1));
    if arrivals == Arrivals::Constant {
        let first = first_from(end.counted_from, rate_per_s);
        let until = match end.at {
            Nanos(u64::MAX) => u64::MAX,
            at => first_from(at, rate_per_s),
        };
        let until = until.min(first.saturating_add(end.requests));
        // Worker w takes the numbers k with k mod n = w.
        let below = |number: u64, worker: u64| number / of + u64::from(worker < number % of);
        let part = |worker| below(until, worker).saturating_sub(below(first, worker));
        return Some((0..of).map(part).collect());
    }
    let counted = (end.at.as_secs_f64() * rate_per_s).min(end.requests as f64);
    if counted + end.counted_from.as_secs_f64() * rate_per_s > DRAWN_ARRIVALS_MAX {
        return None;
    }
    let all = Share { worker: 0, of: 1 };
    let mut parts = vec![0; of as usize];
    for (number, at) in Schedule::new(arrivals, rate_per_s, seed, all, end).enumerate() {
        let worker = number % parts.len();
        parts[worker] += u64::from(at >= end.counted_from);
    }
    Some(parts)
}

/// The moment of arrival `number` at a constant rate.
fn constant(number: u64, rate_per_s: f64) -> Nanos {
    rounded(number as f64 * 1e9 / rate_per_s)
}

/// The number of the first arrival at a constant rate that is not before `moment`.
fn first_from(moment: Nanos, rate_per_s: f64) -> u64 {
    let mut number = (moment.as_secs_f64() * rate_per_s) as u64;
    // The estimate may be one beside the truth, by its rounding.
    number = number.saturating_sub(1);
    while constant(number, rate_per_s) < moment {
        number += 1;
    }
    number
}

/// A gap of Poisson arrivals. The largest that 53 random bits can give is 37 times the mean; a
/// longer one is due once in 10^16.
fn exponential(random: &mut ChaCha8Rng, mean: f64) -> f64 {
    -(1.0 - random.random::<f64>()).ln() * mean
}

fn rounded(at_ns: f64) -> Nanos {
    Nanos(at_ns.round() as u64)
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
mod tests;
