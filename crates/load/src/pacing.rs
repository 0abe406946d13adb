//! Pacing: intended start times of requests, as pure functions of a seed and a count.
//!
//! An open loop has **one** schedule for the whole load, whatever the number of workers: arrival
//! *k* has the same time in every run with the same seed, and worker *w* of *n* takes those with
//! *k* ≡ *w* (mod *n*). Nothing is queued: a worker keeps only its next arrival, so a server that
//! stalls for an hour costs no memory.
//!
//! - constant: t(k) = k / rate
//! - Poisson: t(k) = t(k−1) + −ln(1 − u) / rate, u uniform in [0, 1)
//!
//! Both are rounded to the nanosecond. A float is more precise than that for the first hundred
//! days. Constant arrivals are computed from their number, not accumulated, so they don't drift.
//! The schedule is independent of connections and workers, so there is no burst at the start.
//!
//! A closed loop has no schedule: a request is due as soon as its connection is free.

use prony_record::Nanos;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::shard::Shard;

/// Distribution of the gaps between arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps.
    Constant,
    /// Exponential, independent gaps.
    Poisson,
}

impl Arrivals {
    /// Name in flags and records.
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
        }
    }
}

/// One worker's arrivals in an open loop's schedule, from the first one on.
#[derive(Debug, Clone)]
pub struct ArrivalSchedule {
    spacing: Spacing,
    /// Time from which `at` counts.
    begin: Nanos,
    /// Time of this worker's next arrival.
    at: Nanos,
    /// Number of earlier arrivals of the whole load that count towards `end.requests`.
    counted: u64,
    shard: Shard,
    end: ScheduleEnd,
}

/// Method by which arrival times are computed.
#[derive(Debug, Clone)]
enum Spacing {
    Constant {
        rate_per_s: f64,
        /// Number of the next arrival in the whole load, from 0.
        number: u64,
        /// The first number that counts.
        first_counted: u64,
    },
    Poisson {
        mean_gap_ns: f64,
        /// Time of the next arrival, in nanoseconds.
        at_ns: f64,
        random: Box<ChaCha8Rng>,
    },
}

/// End of a schedule: the limit that is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleEnd {
    /// Number of arrivals of the whole load from `counted_from` on.
    pub requests: u64,
    /// End of the warm-up, whose arrivals don't count.
    pub counted_from: Nanos,
    /// Time from which on there are no arrivals.
    pub at: Nanos,
}

impl ArrivalSchedule {
    /// Creates the schedule of one `shard`, with `rate_per_s` arrivals per second in total.
    pub fn new(
        arrivals: Arrivals,
        rate_per_s: f64,
        seed: u64,
        shard: Shard,
        end: ScheduleEnd,
    ) -> ArrivalSchedule {
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
        let mut schedule = ArrivalSchedule {
            spacing,
            begin: Nanos::ZERO,
            at,
            counted: 0,
            shard,
            end,
        };
        schedule.pass(shard.worker);
        schedule
    }

    /// The same schedule, shifted so that it begins at `begin` instead of zero.
    pub(crate) fn beginning_at(self, begin: Nanos) -> ArrivalSchedule {
        ArrivalSchedule { begin, ..self }
    }

    /// Time of this worker's next arrival, or `None` at the end.
    #[inline]
    pub fn peek(&self) -> Option<Nanos> {
        let at = self.begin + self.at;
        (self.counted < self.end.requests && at < self.end.at).then_some(at)
    }

    /// Advances to the following arrival.
    pub fn advance(&mut self) {
        self.pass(self.shard.of);
    }

    /// Advances by this number of arrivals of the whole load.
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

/// Largest number of Poisson arrivals that [`arrivals_by_worker`] draws; more would take seconds.
const DRAWN_ARRIVALS_MAX: f64 = 5e7;

/// Number of arrivals from `end.counted_from` on of each of `workers` workers. Constant
/// arrivals are computed, Poisson arrivals are drawn; `None` if too many would have to be drawn.
pub fn arrivals_by_worker(
    arrivals: Arrivals,
    rate_per_s: f64,
    seed: u64,
    workers: u32,
    end: ScheduleEnd,
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
    let all = Shard { worker: 0, of: 1 };
    let mut parts = vec![0; of as usize];
    for (number, at) in ArrivalSchedule::new(arrivals, rate_per_s, seed, all, end).enumerate() {
        let worker = number % parts.len();
        parts[worker] += u64::from(at >= end.counted_from);
    }
    Some(parts)
}

/// Time of arrival `number` at a constant rate.
fn constant(number: u64, rate_per_s: f64) -> Nanos {
    rounded(number as f64 * 1e9 / rate_per_s)
}

/// Number of the first arrival at a constant rate that isn't before `moment`.
fn first_from(moment: Nanos, rate_per_s: f64) -> u64 {
    let mut number = (moment.as_secs_f64() * rate_per_s) as u64;
    // Rounding may make the estimate wrong by one.
    number = number.saturating_sub(1);
    while constant(number, rate_per_s) < moment {
        number += 1;
    }
    number
}

/// A gap between Poisson arrivals. The largest with 53 random bits is 37 times the mean; a longer
/// one has a probability of 10^-16.
fn exponential(random: &mut ChaCha8Rng, mean: f64) -> f64 {
    -(1.0 - random.random::<f64>()).ln() * mean
}

fn rounded(at_ns: f64) -> Nanos {
    Nanos(at_ns.round() as u64)
}

impl Iterator for ArrivalSchedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let at = self.peek()?;
        self.advance();
        Some(at)
    }
}

#[cfg(test)]
mod tests;
