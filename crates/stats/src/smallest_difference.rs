//! Smallest difference that an experiment on a machine would see, from the noise of equal variants.

use crate::estimate::{Estimate, critical};

/// Probability that a difference of the returned size is found.
const POWER: f64 = 0.8;
/// Error probability of the test.
const MISS: f64 = 0.05;

/// Returns the relative difference that a comparison of two variants finds with a probability of 80%
/// after a number of blocks, if it is tested once. `noise` is the standard deviation of the logarithms
/// of the blocks' ratios. Returns `None` for fewer than two blocks.
pub fn smallest_difference(noise: f64, blocks: u32) -> Option<f64> {
    let freedom = blocks.checked_sub(1).filter(|freedom| *freedom > 0)?;
    let reach = critical(MISS, freedom) + critical(2.0 * (1.0 - POWER), freedom);
    Some((reach * noise / f64::from(blocks).sqrt()).exp_m1())
}

/// Returns the estimate of the mean logarithm of the ratios of equal variants; its deviation is the
/// noise.
pub fn noise_of_ratios(ratios: &[f64]) -> Option<Estimate> {
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    Estimate::from_blocks(&logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_blocks_see_smaller_differences() {
        // t is 2.776 and 0.941 with 4 degrees of freedom.
        let five = smallest_difference(0.01, 5).unwrap();
        assert!(
            (five - (0.03717_f64 / 5.0_f64.sqrt()).exp_m1()).abs() < 1e-5,
            "{five}"
        );
        assert!(smallest_difference(0.01, 20).unwrap() < five / 2.0);
        assert_eq!(smallest_difference(0.01, 1), None);
        let noise = noise_of_ratios(&[1.0, 1.02, 0.98, 1.0]).unwrap();
        assert!((noise.deviation - 0.0163).abs() < 0.001, "{noise:?}");
    }
}
