//! A mean over blocks with its uncertainty: Student's t.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::design::LEAST_BLOCKS;

/// Values whose standard deviation is under this share of the largest of them are the same value,
/// but for rounding.
const SAME: f64 = 1e-12;

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside or on an end.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether the whole interval lies inside `other`, ends included.
    pub fn within(&self, other: &Interval) -> bool {
        other.low <= self.low && self.high <= other.high
    }

    /// What lies in both; `low > high` when nothing does.
    pub(crate) fn intersect(&self, other: &Interval) -> Interval {
        Interval {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        }
    }

    /// Both ends through an increasing function.
    pub(crate) fn map(&self, increasing: impl Fn(f64) -> f64) -> Interval {
        Interval {
            low: increasing(self.low),
            high: increasing(self.high),
        }
    }
}

/// The mean of one number a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Standard deviation between blocks (divisor n − 1); exactly zero when all blocks agree.
    pub deviation: f64,
    /// How many blocks.
    pub blocks: u32,
}

impl Estimate {
    /// From one finite number a block; `None` from fewer than [`LEAST_BLOCKS`].
    pub fn from_blocks(values: &[f64]) -> Option<Estimate> {
        let blocks = u32::try_from(values.len()).ok()?;
        if blocks < LEAST_BLOCKS {
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
            deviation: if deviation <= SAME * largest {
                0.0
            } else {
                deviation
            },
            blocks,
        })
    }

    /// Standard error of the mean.
    pub fn error(&self) -> f64 {
        self.deviation / f64::from(self.blocks).sqrt()
    }

    /// Two-sided p-value of "the mean is zero". When all blocks agree it is 1 for zero and 0 else.
    pub fn p_value(&self) -> f64 {
        if self.deviation == 0.0 {
            return if self.mean == 0.0 { 1.0 } else { 0.0 };
        }
        2.0 * upper_tail((self.mean / self.error()).abs(), self.blocks - 1)
    }

    /// The interval that misses the true mean with chance `miss` (0 to 1, half on each side).
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

/// Arithmetic mean; zero for no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    match values {
        [] => 0.0,
        _ => values.iter().sum::<f64>() / values.len() as f64,
    }
}

/// How far out `|t|` lies that is passed with chance `miss`, for `freedom` ≥ 1 degrees of freedom.
/// Infinite for a `miss` of zero, zero for one of 1 and above.
pub fn critical(miss: f64, freedom: u32) -> f64 {
    critical_between(miss, f64::from(freedom))
}

/// [`critical`] for degrees of freedom between whole numbers, as two samples of different noise
/// have them.
pub(crate) fn critical_between(miss: f64, freedom: f64) -> f64 {
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

/// Chance that t lies above `t` ≥ 0.
pub(crate) fn upper_tail(t: f64, freedom: u32) -> f64 {
    upper_tail_between(t, f64::from(freedom))
}

/// [`upper_tail`] for degrees of freedom between whole numbers.
pub(crate) fn upper_tail_between(t: f64, freedom: f64) -> f64 {
    student(freedom).map_or(1.0, |student| student.sf(t))
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}
