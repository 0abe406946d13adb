//! Arrival rate of an open loop as a function of time: constant, or piecewise linear.
//!
//! Time zero is the start of the measured part. With Λ(t), the integral of the rate from zero to t,
//! Λ(t) requests have arrived by time t. [`ArrivalTimes`] computes the inverse of Λ.

use serde::{Deserialize, Serialize};

/// A stage of a rate profile. The rate changes linearly to `rate_per_s`, from the rate of the
/// previous stage or, in the first stage, from zero. A stage of length zero is a jump.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RateStage {
    /// Requests per second at the end of the stage.
    pub rate_per_s: f64,
    /// Length of the stage in seconds.
    pub length_s: f64,
}

/// The arrival rate of an open loop.
#[derive(Debug, Clone, PartialEq)]
pub enum RateProfile {
    /// A constant number of requests per second.
    Constant(f64),
    /// A rate that changes over time.
    Staged(StagedRate),
}

impl From<f64> for RateProfile {
    fn from(rate_per_s: f64) -> RateProfile {
        RateProfile::Constant(rate_per_s)
    }
}

impl RateProfile {
    /// Returns the rate, in requests per second, at a time in seconds. At negative times, as in the
    /// warm-up, the rate is the initial rate. After the last stage, it is zero.
    pub fn rate_at(&self, time_s: f64) -> f64 {
        match self {
            RateProfile::Constant(rate_per_s) => *rate_per_s,
            RateProfile::Staged(staged) => staged.rate_at(time_s),
        }
    }

    /// Returns the number of arrivals from the start to a time in seconds.
    pub fn arrivals_until(&self, time_s: f64) -> f64 {
        match self {
            RateProfile::Constant(rate_per_s) => rate_per_s * time_s.max(0.0),
            RateProfile::Staged(staged) => staged.arrivals_until(time_s),
        }
    }

    /// Returns the mean rate between two times in seconds, or the rate at that time if both are
    /// equal.
    pub fn mean_between(&self, from_s: f64, to_s: f64) -> f64 {
        match self {
            RateProfile::Constant(rate_per_s) => *rate_per_s,
            RateProfile::Staged(staged) if to_s > from_s => {
                (staged.arrivals_until(to_s) - staged.arrivals_until(from_s)) / (to_s - from_s)
            }
            RateProfile::Staged(staged) => staged.rate_at(from_s),
        }
    }

    /// Returns the highest rate at any time.
    pub fn highest(&self) -> f64 {
        match self {
            RateProfile::Constant(rate_per_s) => *rate_per_s,
            RateProfile::Staged(staged) => {
                let rates = staged.segments.iter();
                rates.fold(0.0, |most, it| most.max(it.from_per_s).max(it.to_per_s))
            }
        }
    }

    /// Returns the profile preceded by a warm-up at its initial rate. Times in the new profile
    /// count from the start of the warm-up.
    #[must_use]
    pub fn after_warmup(&self, warmup_s: f64) -> RateProfile {
        match self {
            RateProfile::Constant(rate_per_s) => RateProfile::Constant(*rate_per_s),
            RateProfile::Staged(staged) => RateProfile::Staged(staged.after_warmup(warmup_s)),
        }
    }

    /// Returns the last time, in seconds, at which no more than `arrivals` requests have arrived,
    /// or `None` if `arrivals` is never exceeded.
    pub fn time_of(&self, arrivals: f64) -> Option<f64> {
        match self {
            RateProfile::Constant(rate_per_s) => Some(arrivals / rate_per_s),
            RateProfile::Staged(staged) => staged.inverse(arrivals, 0).map(|(at_s, _)| at_s),
        }
    }
}

/// A piecewise linear rate.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StagedRate {
    segments: Vec<Segment>,
    /// Number of arrivals until the end of the last stage.
    arrivals: f64,
}

/// Period of nonzero length in which the rate changes linearly or stays constant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Segment {
    begin_s: f64,
    length_s: f64,
    from_per_s: f64,
    to_per_s: f64,
    arrivals_before: f64,
}

impl Segment {
    /// Returns the slope: the change of the rate (requests per second) in one second.
    fn slope(&self) -> f64 {
        (self.to_per_s - self.from_per_s) / self.length_s
    }

    /// Returns the number of arrivals in the first `elapsed_s` seconds of the segment.
    fn arrivals_in(&self, elapsed_s: f64) -> f64 {
        elapsed_s * (self.from_per_s + self.slope() * elapsed_s / 2.0)
    }

    /// Returns the time from the start of the segment until `arrivals` requests have arrived in the
    /// segment.
    fn elapsed_at(&self, arrivals: f64) -> f64 {
        if arrivals <= 0.0 {
            return 0.0;
        }
        // Solves arrivals = from·x + slope·x²/2 in a form that avoids cancellation.
        let square = self.from_per_s * self.from_per_s + 2.0 * self.slope() * arrivals;
        let elapsed_s = 2.0 * arrivals / (self.from_per_s + square.max(0.0).sqrt());
        elapsed_s.min(self.length_s)
    }
}

impl StagedRate {
    /// Computes the rate that the stages describe.
    pub fn new(stages: &[RateStage]) -> StagedRate {
        let mut rate = StagedRate::default();
        let (mut begin_s, mut from_per_s) = (0.0, 0.0);
        for stage in stages {
            if stage.length_s > 0.0 {
                rate.push(begin_s, stage.length_s, (from_per_s, stage.rate_per_s));
            }
            begin_s += stage.length_s.max(0.0);
            from_per_s = stage.rate_per_s;
        }
        rate
    }

    fn push(&mut self, begin_s: f64, length_s: f64, (from_per_s, to_per_s): (f64, f64)) {
        self.segments.push(Segment {
            begin_s,
            length_s,
            from_per_s,
            to_per_s,
            arrivals_before: self.arrivals,
        });
        self.arrivals += length_s * (from_per_s + to_per_s) / 2.0;
    }

    /// Returns the rate preceded by a warm-up at its initial value. Times in the new rate count
    /// from the start of the warm-up.
    #[must_use]
    pub fn after_warmup(&self, warmup_s: f64) -> StagedRate {
        let mut all = StagedRate::default();
        if warmup_s > 0.0 {
            let start_per_s = self.rate_at(0.0);
            all.push(0.0, warmup_s, (start_per_s, start_per_s));
        }
        for segment in &self.segments {
            let rates = (segment.from_per_s, segment.to_per_s);
            all.push(segment.begin_s + warmup_s, segment.length_s, rates);
        }
        all
    }

    fn rate_at(&self, time_s: f64) -> f64 {
        let time_s = time_s.max(0.0);
        let mut segments = self.segments.iter();
        let segment = segments.find(|it| time_s < it.begin_s + it.length_s);
        segment.map_or(0.0, |it| it.from_per_s + it.slope() * (time_s - it.begin_s))
    }

    /// Returns the number of arrivals from the start to a time in seconds.
    pub fn arrivals_until(&self, time_s: f64) -> f64 {
        let mut segments = self.segments.iter();
        match segments.find(|it| time_s < it.begin_s + it.length_s) {
            Some(segment) => {
                let elapsed_s = (time_s - segment.begin_s).max(0.0);
                segment.arrivals_before + segment.arrivals_in(elapsed_s)
            }
            None => self.arrivals,
        }
    }

    /// Returns the last time, in seconds, at which no more than `arrivals` requests have arrived,
    /// and the index of the segment that contains it. Returns `None` if `arrivals` is never
    /// exceeded. The search begins at `segment`, which must not be after the resulting segment.
    fn inverse(&self, arrivals: f64, mut segment: usize) -> Option<(f64, usize)> {
        if arrivals.is_nan() || arrivals >= self.arrivals {
            return None;
        }
        while let Some(next) = self.segments.get(segment + 1)
            && arrivals >= next.arrivals_before
        {
            segment += 1;
        }
        let at = self.segments.get(segment)?;
        let elapsed_s = at.elapsed_at(arrivals - at.arrivals_before);
        Some((at.begin_s + elapsed_s, segment))
    }
}

/// Inverse of the integrated rate: the time of each arrival, for ascending numbers of arrivals.
#[derive(Debug, Clone)]
pub struct ArrivalTimes {
    rate: StagedRate,
    /// Index of the segment that contains the most recent result.
    segment: usize,
}

impl ArrivalTimes {
    /// Creates the inverse of the integral of `rate`.
    pub fn new(rate: StagedRate) -> ArrivalTimes {
        ArrivalTimes { rate, segment: 0 }
    }

    /// Returns the last time, in seconds, at which no more than `arrivals` requests have arrived.
    /// The last time is used so that no request arrives while the rate is zero. Returns `None` if
    /// `arrivals` is never exceeded. `arrivals` must not be less than in the previous call.
    pub fn at(&mut self, arrivals: f64) -> Option<f64> {
        let (at_s, segment) = self.rate.inverse(arrivals, self.segment)?;
        self.segment = segment;
        Some(at_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(stages: &[(f64, f64)]) -> StagedRate {
        let stages = stages.iter().map(|&(rate_per_s, length_s)| RateStage {
            rate_per_s,
            length_s,
        });
        StagedRate::new(&stages.collect::<Vec<_>>())
    }

    #[test]
    fn rates_are_linear_between_the_stages_and_jump_at_stages_without_a_length() {
        // The rate rises from 0 to 100 in 10 s, stays at 100 for 5 s, jumps to 400, and falls to 0
        // in 10 s.
        let rate = staged(&[(100.0, 10.0), (100.0, 5.0), (400.0, 0.0), (0.0, 10.0)]);
        let profile = RateProfile::Staged(rate.clone());
        for (time_s, rate_per_s) in [
            (-1.0, 0.0),
            (0.0, 0.0),
            (5.0, 50.0),
            (12.0, 100.0),
            (15.0, 400.0),
            (20.0, 200.0),
            (25.0, 0.0),
            (99.0, 0.0),
        ] {
            assert_eq!(profile.rate_at(time_s), rate_per_s, "{time_s}");
        }
        for (time_s, arrivals) in [
            (0.0, 0.0),
            (5.0, 125.0),
            (10.0, 500.0),
            (15.0, 1_000.0),
            (20.0, 2_500.0),
            (25.0, 3_000.0),
            (99.0, 3_000.0),
        ] {
            assert_eq!(profile.arrivals_until(time_s), arrivals, "{time_s}");
        }
        assert_eq!(profile.mean_between(5.0, 10.0), 75.0);
        assert_eq!(profile.mean_between(15.0, 15.0), 400.0);
        assert_eq!(profile.highest(), 400.0);
        // The warm-up runs at the initial rate.
        let warmed = staged(&[(40.0, 0.0), (80.0, 1.0)]).after_warmup(2.0);
        assert_eq!(warmed.arrivals_until(2.0), 80.0);
        assert_eq!(warmed.arrivals_until(3.0), 140.0);
    }

    #[test]
    fn arrival_times_are_the_inverse_of_the_integral() {
        let rate = staged(&[
            (30.0, 0.0),
            (500.0, 7.0),
            (500.0, 1.0),
            (3.0, 4.0),
            (3.0, 2.0),
        ]);
        let mut times = ArrivalTimes::new(rate.clone());
        let (mut before, mut number) = (0.0, 0.0);
        while let Some(at_s) = times.at(number) {
            assert!(at_s >= before, "{number}");
            assert!(
                (rate.arrivals_until(at_s) - number).abs() < 1e-6,
                "{number} {at_s}"
            );
            before = at_s;
            number += 0.5;
        }
        assert!(number - rate.arrivals <= 0.5, "{number}");
    }

    #[test]
    fn nothing_arrives_while_the_rate_is_zero() {
        let rate = staged(&[
            (0.0, 3.0),
            (10.0, 0.0),
            (10.0, 1.0),
            (0.0, 0.0),
            (0.0, 5.0),
            (8.0, 2.0),
        ]);
        let mut times = ArrivalTimes::new(rate);
        assert_eq!(times.at(0.0), Some(3.0));
        assert_eq!(times.at(5.0), Some(3.5));
        assert_eq!(times.at(10.0), Some(9.0));
        assert_eq!(times.at(18.0), None);
        let mut never = ArrivalTimes::new(staged(&[(0.0, 5.0)]));
        assert_eq!(never.at(0.0), None);
        assert_eq!(ArrivalTimes::new(StagedRate::default()).at(0.0), None);
    }
}
