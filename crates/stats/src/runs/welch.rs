//! Welch's t-test of two samples that share no blocks.
//!
//! The two runs may have different noise, so their variances aren't pooled: the standard error is
//! √(s₁²/n₁ + s₂²/n₂), and Student's t has the degrees of freedom of Welch (1947) and Satterthwaite
//! (1946). If the variances are equal, this test has nearly as much power as the pooled test; if
//! they differ, the pooled test would be wrong.

use crate::estimate::{Estimate, Interval, critical_fractional, mean, upper_tail_fractional};

/// Mean of the second sample minus the mean of the first, with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanDifference {
    /// Difference of the means, on the averaging scale.
    pub(crate) mean: f64,
    error: f64,
    freedom: f64,
}

impl MeanDifference {
    /// Computes the difference from one finite number per block. Returns `None` if either sample
    /// has too few blocks.
    pub(crate) fn between(old: &[f64], new: &[f64]) -> Option<MeanDifference> {
        let (old, new) = (Estimate::from_blocks(old)?, Estimate::from_blocks(new)?);
        let parts = [old, new].map(|side| side.error().powi(2));
        let whole: f64 = parts.iter().sum();
        let weighed: f64 = [old, new]
            .iter()
            .zip(parts)
            .map(|(side, part)| part * part / f64::from(side.blocks - 1))
            .sum();
        Some(MeanDifference {
            mean: new.mean - old.mean,
            error: whole.sqrt(),
            freedom: whole * whole / weighed,
        })
    }

    /// Computes the difference of a new run's mean from the means of earlier runs. The new run is
    /// one more value with the same spread, so the standard error is s·√(1 + 1/n). Returns `None` if
    /// there are too few earlier runs, or if the new run has no value.
    pub(crate) fn of_next_run(runs: &[f64], new: &[f64]) -> Option<MeanDifference> {
        let old = Estimate::from_blocks(runs)?;
        let count = f64::from(old.blocks);
        (!new.is_empty()).then(|| MeanDifference {
            mean: mean(new) - old.mean,
            error: old.error() * (count + 1.0).sqrt(),
            freedom: count - 1.0,
        })
    }

    /// Returns the two-sided p-value of the hypothesis that there is no difference. If neither
    /// sample varies, the p-value is 1 for equal means and 0 otherwise.
    pub(crate) fn p_value(&self) -> f64 {
        if self.error == 0.0 {
            return if self.mean == 0.0 { 1.0 } else { 0.0 };
        }
        2.0 * upper_tail_fractional((self.mean / self.error).abs(), self.freedom)
    }

    /// Returns the interval that misses the true difference with probability `miss` (0 to 1).
    pub(crate) fn interval(&self, miss: f64) -> Interval {
        let reach = match self.error {
            error if error > 0.0 => critical_fractional(miss, self.freedom) * error,
            _ => 0.0,
        };
        Interval {
            low: self.mean - reach,
            high: self.mean + reach,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_matches_a_textbook_example() {
        // Computed by hand from the variances 0.085 and 0.287: t = 4.839, 6.178 degrees of freedom.
        let old = [10.1, 9.6, 10.4, 9.9, 10.0];
        let new = [11.2, 12.1, 10.9, 11.6, 10.8];
        let gap = MeanDifference::between(&old, &new).unwrap();
        assert!((gap.mean - 1.32).abs() < 1e-12);
        let t = gap.mean / gap.error;
        let (s_old, s_new): (f64, f64) = (0.085, 0.287);
        let by_hand = 1.32 / ((s_old + s_new) / 5.0_f64).sqrt();
        assert!((t - by_hand).abs() < 1e-9, "{t} {by_hand}");
        let freedom = (s_old + s_new).powi(2) / ((s_old.powi(2) + s_new.powi(2)) / 4.0);
        assert!((gap.freedom - freedom).abs() < 1e-9);
        assert!((t - 4.8394).abs() < 1e-4 && (freedom - 6.1783).abs() < 1e-4);
        let inside = gap.interval(0.05);
        assert!(inside.low > 0.0 && gap.p_value() < 0.05);
        let edge = gap.interval(gap.p_value());
        assert!(
            edge.low.abs() < 1e-6,
            "an interval that misses with the p-value ends at zero"
        );
    }

    #[test]
    fn without_variance_an_interval_is_a_point() {
        let gap = MeanDifference::between(&[1.0; 3], &[1.0; 4]).unwrap();
        assert_eq!((gap.p_value(), gap.interval(0.05).low), (1.0, 0.0));
        let gap = MeanDifference::between(&[1.0; 3], &[2.0; 3]).unwrap();
        assert_eq!((gap.p_value(), gap.interval(0.05).high), (0.0, 1.0));
        assert_eq!(MeanDifference::between(&[1.0; 2], &[2.0; 9]), None);
    }
}
