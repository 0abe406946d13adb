//! Mean over blocks with its uncertainty, which is computed by Student's t distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::design::INTERVAL_BLOCKS_MIN;

/// Threshold for the ratio of the standard deviation to the largest magnitude. If the ratio is
/// below it, the values are treated as equal, because they differ only by rounding.
const ROUNDING_TOLERANCE: f64 = 1e-12;

/// A closed range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end of the range.
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
}

impl Interval {
    /// Returns true if `value` is in the interval, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns true if the whole interval is in `other`, ends included.
    pub fn within(&self, other: &Interval) -> bool {
        other.low <= self.low && self.high <= other.high
    }

    /// Returns the intersection. If it is empty, `low > high`.
    pub(crate) fn intersect(&self, other: &Interval) -> Interval {
        Interval {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        }
    }

    /// Applies an increasing function to both ends.
    pub(crate) fn map(&self, increasing: impl Fn(f64) -> f64) -> Interval {
        Interval {
            low: increasing(self.low),
            high: increasing(self.high),
        }
    }
}

/// Mean of one number per block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Arithmetic mean of the numbers.
    pub mean: f64,
    /// Standard deviation between blocks (divisor n − 1); exactly zero if all blocks have the same
    /// value.
    pub deviation: f64,
    /// Number of blocks.
    pub blocks: u32,
}

impl Estimate {
    /// Computes the estimate from one finite number per block. Returns `None` for fewer than
    /// [`INTERVAL_BLOCKS_MIN`] blocks.
    pub fn from_blocks(values: &[f64]) -> Option<Estimate> {
        let blocks = u32::try_from(values.len()).ok()?;
        if blocks < INTERVAL_BLOCKS_MIN {
            return None;
        }
        let mean = mean(values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / f64::from(blocks - 1)).sqrt();
        let largest = values
            .iter()
            .fold(0.0_f64, |most, value| most.max(value.abs()));
        Some(Estimate {
            mean,
            deviation: if deviation <= ROUNDING_TOLERANCE * largest {
                0.0
            } else {
                deviation
            },
            blocks,
        })
    }

    /// Returns the standard error of the mean.
    pub fn error(&self) -> f64 {
        self.deviation / f64::from(self.blocks).sqrt()
    }

    /// Returns the two-sided p-value of the hypothesis that the mean is zero. If all blocks have
    /// the same value, the p-value is 1 for a mean of zero and 0 for any other mean.
    pub fn p_value(&self) -> f64 {
        if self.deviation == 0.0 {
            return if self.mean == 0.0 { 1.0 } else { 0.0 };
        }
        2.0 * upper_tail((self.mean / self.error()).abs(), self.blocks - 1)
    }

    /// Returns the interval that misses the true mean with probability `miss` (0 to 1, half on each
    /// side).
    pub fn interval(&self, miss: f64) -> Interval {
        let reach = match self.error() {
            error if error > 0.0 => critical(miss, self.blocks - 1) * error,
            _ => 0.0,
        };
        Interval {
            low: self.mean - reach,
            high: self.mean + reach,
        }
    }
}

/// Returns the arithmetic mean, or zero if there are no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    match values {
        [] => 0.0,
        _ => values.iter().sum::<f64>() / values.len() as f64,
    }
}

/// Returns the critical value of Student's t: the magnitude that `|t|` exceeds with probability
/// `miss`, for `freedom` ≥ 1 degrees of freedom. Infinite if `miss` ≤ 0, and zero if `miss` ≥ 1.
pub fn critical(miss: f64, freedom: u32) -> f64 {
    critical_fractional(miss, f64::from(freedom))
}

/// Like [`critical`], for fractional degrees of freedom, as in Welch's test.
pub(crate) fn critical_fractional(miss: f64, freedom: f64) -> f64 {
    if miss <= 0.0 {
        return f64::INFINITY;
    }
    if miss >= 1.0 {
        return 0.0;
    }
    match student(freedom) {
        Some(student) => -student.inverse_cdf(miss / 2.0),
        None => f64::INFINITY,
    }
}

/// Returns the probability that Student's t exceeds `t`, which must be at least 0.
pub(crate) fn upper_tail(t: f64, freedom: u32) -> f64 {
    upper_tail_fractional(t, f64::from(freedom))
}

/// Like [`upper_tail`], for fractional degrees of freedom.
pub(crate) fn upper_tail_fractional(t: f64, freedom: f64) -> f64 {
    student(freedom).map_or(1.0, |student| student.sf(t))
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}
