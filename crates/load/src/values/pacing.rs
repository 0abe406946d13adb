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
//! A rate that changes over time is a piecewise linear function. With Λ(t), its integral from zero
//! to t:
//!
//! - constant arrivals: Λ(t(k)) = k
//! - Poisson: Λ(t(k)) = s(k), s(k) = s(k−1) + −ln(1 − u), an inhomogeneous Poisson process by time
//!   rescaling
//!
//! Therefore, by time T, ⌈Λ(T)⌉ constant arrivals are due. The warm-up runs at the profile's first
//! rate.
//!
//! All times are rounded to the nanosecond. A float is more precise than that for the first hundred
//! days. Constant arrivals are computed from their number, not accumulated, so they don't drift.
//! The schedule is independent of connections and workers, so there is no burst at the start.
//!
//! A closed loop has no schedule: a request is due as soon as its connection is free.

use prony_record::{ArrivalTimes, Nanos, RateProfile, StagedRate};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::values::shard::Shard;

/// Distribution of the gaps between arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps.
    Constant,
    /// Exponential, independent gaps.
    Poisson,
}

impl Arrivals {
    /// Name of the distribution in flags and records.
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
        }
    }
}

/// Remaining arrivals of one worker in the schedule of an open loop.
#[derive(Debug, Clone)]
pub struct ArrivalSchedule {
    spacing: Spacing,
    /// Time to which `at` is relative.
    begin: Nanos,
    /// Time of this worker's next arrival.
    at: Nanos,
    /// Number of earlier arrivals in the whole load that count towards `end.requests`.
    counted: u64,
    shard: Shard,
    end: ScheduleEnd,
}

/// Method by which arrival times are computed.
#[derive(Debug, Clone)]
enum Spacing {
    Constant {
        rate_per_s: f64,
        /// Index of the next arrival in the whole load, counted from 0.
        number: u64,
        /// Index of the first arrival that counts towards the limit on requests.
        first_counted: u64,
    },
    Poisson {
        mean_gap_ns: f64,
        /// Time of the next arrival, in nanoseconds.
        at_ns: f64,
        random: Box<ChaCha8Rng>,
    },
    /// Constant arrivals at a rate that changes.
    Profile {
        times: ArrivalTimes,
        /// Index of the next arrival in the whole load, counted from 0.
        number: u64,
        /// Index of the first arrival that counts towards the limit on requests.
        first_counted: u64,
    },
    /// Poisson arrivals at a rate that changes.
    PoissonProfile {
        times: ArrivalTimes,
        /// Integral of the rate at the next arrival.
        integral: f64,
        random: Box<ChaCha8Rng>,
    },
}

/// End of a schedule. The limit that is reached first applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleEnd {
    /// Maximum number of arrivals in the whole load, not counting those before `counted_from`.
    pub requests: u64,
    /// End of the warm-up, whose arrivals don't count. A changing rate begins to change at this
    /// time.
    pub counted_from: Nanos,
    /// Time after which there are no arrivals.
    pub at: Nanos,
}

impl ArrivalSchedule {
    /// Creates the schedule of one `shard`. `rate` is the rate of the whole load.
    pub fn new(
        arrivals: Arrivals,
        rate: &RateProfile,
        seed: u64,
        shard: Shard,
        end: ScheduleEnd,
    ) -> ArrivalSchedule {
        let (spacing, at) = Spacing::first(arrivals, rate, seed, end.counted_from);
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

    /// Returns the same schedule, shifted so that it begins at `begin` instead of zero.
    pub(crate) fn beginning_at(self, begin: Nanos) -> ArrivalSchedule {
        ArrivalSchedule { begin, ..self }
    }

    /// Time of this worker's next arrival, or `None` at the end.
    #[inline]
    pub fn peek(&self) -> Option<Nanos> {
        let at = self.begin + self.at;
        (self.counted < self.end.requests && at < self.end.at).then_some(at)
    }

    /// Advances to this worker's next arrival.
    pub fn advance(&mut self) {
        self.pass(self.shard.of);
    }

    /// Advances by `arrivals` arrivals of the whole load.
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
            Spacing::Profile {
                times,
                number,
                first_counted,
            } => {
                *number += arrivals;
                self.at = time_at(times, *number as f64);
                self.counted = number.saturating_sub(*first_counted);
            }
            Spacing::PoissonProfile {
                times,
                integral,
                random,
            } => {
                for _ in 0..arrivals {
                    self.counted += u64::from(self.at >= self.end.counted_from);
                    *integral += exponential(random, 1.0);
                    self.at = time_at(times, *integral);
                }
            }
        }
    }
}

impl Spacing {
    /// Returns the time of the whole load's first arrival, and the method that computes the later
    /// arrivals from it.
    fn first(arrivals: Arrivals, rate: &RateProfile, seed: u64, warmup: Nanos) -> (Spacing, Nanos) {
        let random = || Box::new(ChaCha8Rng::seed_from_u64(seed));
        match (arrivals, rate) {
            (Arrivals::Constant, RateProfile::Constant(rate_per_s)) => {
                let spacing = Spacing::Constant {
                    rate_per_s: *rate_per_s,
                    number: 0,
                    first_counted: first_from(warmup, *rate_per_s),
                };
                (spacing, Nanos::ZERO)
            }
            (Arrivals::Poisson, RateProfile::Constant(rate_per_s)) => {
                let mean_gap_ns = 1e9 / rate_per_s;
                let mut random = random();
                let at_ns = exponential(&mut random, mean_gap_ns);
                let spacing = Spacing::Poisson {
                    mean_gap_ns,
                    at_ns,
                    random,
                };
                (spacing, rounded(at_ns))
            }
            (Arrivals::Constant, RateProfile::Staged(staged)) => {
                let staged = staged.after_warmup(warmup.as_secs_f64());
                let first_counted = first_staged_from(warmup, &staged);
                let mut times = ArrivalTimes::new(staged);
                let at = time_at(&mut times, 0.0);
                let spacing = Spacing::Profile {
                    times,
                    number: 0,
                    first_counted,
                };
                (spacing, at)
            }
            (Arrivals::Poisson, RateProfile::Staged(staged)) => {
                let staged = staged.after_warmup(warmup.as_secs_f64());
                let mut times = ArrivalTimes::new(staged);
                let mut random = random();
                let integral = exponential(&mut random, 1.0);
                let at = time_at(&mut times, integral);
                let spacing = Spacing::PoissonProfile {
                    times,
                    integral,
                    random,
                };
                (spacing, at)
            }
        }
    }
}

/// Maximum number of Poisson arrivals that [`arrivals_by_worker`] draws; more would take seconds.
const DRAWN_ARRIVALS_MAX: f64 = 5e7;

/// Returns the number of arrivals for each of `workers` workers, not counting those before
/// `end.counted_from`. The number of constant arrivals is computed; Poisson arrivals are drawn one
/// by one. Returns `None` if too many would have to be drawn.
pub fn arrivals_by_worker(
    arrivals: Arrivals,
    rate: &RateProfile,
    seed: u64,
    workers: u32,
    end: ScheduleEnd,
) -> Option<Vec<u64>> {
    let of = u64::from(workers.max(1));
    if arrivals == Arrivals::Constant {
        let (first, until) = counted_numbers(rate, end);
        let until = until.min(first.saturating_add(end.requests));
        // Worker w has the arrivals k with k mod n = w.
        let below = |number: u64, worker: u64| number / of + u64::from(worker < number % of);
        let part = |worker| below(until, worker).saturating_sub(below(first, worker));
        return Some((0..of).map(part).collect());
    }
    let warmup_s = end.counted_from.as_secs_f64();
    let counted = match rate {
        RateProfile::Constant(rate_per_s) => end.at.as_secs_f64() * rate_per_s,
        RateProfile::Staged(staged) => staged.arrivals_until(end.at.as_secs_f64() - warmup_s),
    };
    let counted = counted.min(end.requests as f64);
    if counted + warmup_s * rate.rate_at(0.0) > DRAWN_ARRIVALS_MAX {
        return None;
    }
    let all = Shard { worker: 0, of: 1 };
    let mut parts = vec![0; of as usize];
    for (number, at) in ArrivalSchedule::new(arrivals, rate, seed, all, end).enumerate() {
        let worker = number % parts.len();
        parts[worker] += u64::from(at >= end.counted_from);
    }
    Some(parts)
}

/// Indices of the first constant arrival that counts and of the first arrival after the end.
fn counted_numbers(rate: &RateProfile, end: ScheduleEnd) -> (u64, u64) {
    match rate {
        RateProfile::Constant(rate_per_s) => {
            let until = match end.at {
                Nanos(u64::MAX) => u64::MAX,
                at => first_from(at, *rate_per_s),
            };
            (first_from(end.counted_from, *rate_per_s), until)
        }
        RateProfile::Staged(staged) => {
            let staged = staged.after_warmup(end.counted_from.as_secs_f64());
            let first = first_staged_from(end.counted_from, &staged);
            (first, first_staged_from(end.at, &staged))
        }
    }
}

/// Time of arrival `number` at a constant rate.
fn constant(number: u64, rate_per_s: f64) -> Nanos {
    rounded(number as f64 * 1e9 / rate_per_s)
}

/// Index of the first arrival at or after `moment`, at a constant rate.
fn first_from(moment: Nanos, rate_per_s: f64) -> u64 {
    let mut number = (moment.as_secs_f64() * rate_per_s) as u64;
    // The estimate may be off by one because of rounding.
    number = number.saturating_sub(1);
    while constant(number, rate_per_s) < moment {
        number += 1;
    }
    number
}

/// Time at which the integral of a rate reaches this value; [`Nanos::MAX`] if it never does.
fn time_at(times: &mut ArrivalTimes, integral: f64) -> Nanos {
    let at_s = times.at(integral);
    at_s.map_or(Nanos::MAX, |at_s| rounded(at_s * 1e9))
}

/// Index of the first constant arrival at or after `moment`, at a changing rate.
fn first_staged_from(moment: Nanos, staged: &StagedRate) -> u64 {
    let mut times = ArrivalTimes::new(staged.clone());
    let mut number = staged.arrivals_until(moment.as_secs_f64()) as u64;
    // The estimate may be off by one because of rounding.
    number = number.saturating_sub(1);
    while time_at(&mut times, number as f64) < moment {
        number += 1;
    }
    number
}

/// Draws a gap between Poisson arrivals. With 53 random bits, the longest gap is 37 times the mean;
/// a longer one would have a probability of 10^-16.
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
