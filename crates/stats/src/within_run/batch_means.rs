//! Interval of a ratio of sums over the successive windows of one run, by batch means.

use crate::estimate::critical;

/// Minimum number of batches.
pub(super) const BATCHES_MIN: usize = 12;
/// Probability that an interval misses the true value.
const MISS: f64 = 0.05;
/// Error probability of the test for drift. It is small, because it is repeated while a load runs.
const DRIFT_MISS: f64 = 0.001;
/// Minimum number of windows that the search for a warm-up leaves.
const STEADY_WINDOWS_MIN: usize = 5;

/// Sums over one window, whose ratio is estimated: requests and seconds, or requests beyond a time
/// and all requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    pub(super) numerator: f64,
    pub(super) denominator: f64,
}

/// Ratio of the sums of all windows, with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RatioEstimate {
    pub(super) ratio: f64,
    pub(super) half_width: f64,
    pub(super) batches: usize,
    /// Number of windows in each batch.
    pub(super) joined: usize,
    pub(super) lag1: f64,
}

/// Reason why a ratio has no interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NoEstimate {
    TooShort,
    Autocorrelated {
        lag1: f64,
    },
    /// The ratio changes from the first to the last batch, by this share of its value.
    Drifting {
        change: f64,
    },
}

/// Returns the number of windows at the beginning that belong to the warm-up, by the marginal
/// standard error rule (MSER): the number that minimizes the variance of the remaining values
/// divided by their number. It is at most half of the windows.
pub(super) fn warm_up(values: &[f64]) -> usize {
    let (mut least, mut warm_up) = (f64::INFINITY, 0);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0);
    // The first value is subtracted, because large values with small differences lose precision.
    let origin = values.last().copied().unwrap_or(0.0);
    for (first, value) in values.iter().enumerate().rev() {
        let value = value - origin;
        sum += value;
        squares += value * value;
        count += 1;
        if count < STEADY_WINDOWS_MIN || 2 * first > values.len() {
            continue;
        }
        let n = count as f64;
        let error = (squares - sum * sum / n).max(0.0) / (n * n);
        if error <= least {
            (least, warm_up) = (error, first);
        }
    }
    warm_up
}

/// Estimates the ratio. Successive windows are joined to ever longer batches, until the correlation
/// between successive batches is at most 1/√k for k batches. What remains of it widens the interval
/// as in a first-order autoregressive process.
pub(super) fn estimate(windows: &[Window]) -> Result<RatioEstimate, NoEstimate> {
    let sum = |part: fn(&Window) -> f64| windows.iter().map(part).sum::<f64>();
    let (numerator, denominator) = (sum(|it| it.numerator), sum(|it| it.denominator));
    let mut refused = NoEstimate::TooShort;
    let mut joined = 1;
    while windows.len() / joined >= BATCHES_MIN && denominator > 0.0 {
        let batches = Batches::of(windows, numerator / denominator, joined);
        let drift = batches.drift(numerator * joined as f64 / windows.len() as f64);
        let k = batches.residuals.len() as f64;
        if batches.lag1 <= k.sqrt().recip() {
            if let Some(change) = drift {
                return Err(NoEstimate::Drifting { change });
            }
            // Joining more windows may reveal a slower variation that single windows hide.
            let longer = [2, 4].into_iter().map(|factor| joined * factor);
            let longer = longer.filter(|joined| windows.len() / joined >= BATCHES_MIN);
            let longer =
                longer.map(|joined| Batches::of(windows, numerator / denominator, joined).error);
            let error = longer.fold(batches.error, f64::max);
            let mean_denominator = denominator / windows.len() as f64;
            let freedom = batches.residuals.len() as u32 - 1;
            return Ok(RatioEstimate {
                ratio: numerator / denominator,
                half_width: critical(MISS, freedom) * error / mean_denominator,
                batches: batches.residuals.len(),
                joined,
                lag1: batches.lag1,
            });
        }
        refused = match drift {
            Some(change) => NoEstimate::Drifting { change },
            None => NoEstimate::Autocorrelated { lag1: batches.lag1 },
        };
        joined = (joined + 1).max(joined * 5 / 4);
    }
    Err(refused)
}

/// Residuals of a ratio, summed over batches of equally many windows.
struct Batches {
    /// Deviations from their mean.
    residuals: Vec<f64>,
    lag1: f64,
    /// Standard error of the mean residual per window.
    error: f64,
}

impl Batches {
    fn of(windows: &[Window], ratio: f64, joined: usize) -> Batches {
        // The first windows don't fill a batch. They are the ones that the warm-up may still affect.
        let batched = &windows[windows.len() % joined..];
        let residual = |window: &Window| window.numerator - ratio * window.denominator;
        let sums = batched.chunks(joined);
        let sums: Vec<f64> = sums.map(|batch| batch.iter().map(residual).sum()).collect();
        let k = sums.len() as f64;
        let mean = sums.iter().sum::<f64>() / k;
        let residuals: Vec<f64> = sums.iter().map(|sum| sum - mean).collect();
        let squares: f64 = residuals.iter().map(|it| it * it).sum();
        let products = residuals.windows(2).map(|pair| pair[0] * pair[1]);
        let lag1 = match products.sum::<f64>() / squares {
            lag1 if squares > 0.0 => lag1,
            _ => 0.0,
        };
        let positive = lag1.max(0.0);
        let inflation = ((1.0 + positive) / (1.0 - positive)).sqrt();
        let deviation = (squares / (k - 1.0)).sqrt();
        Batches {
            residuals,
            lag1,
            error: deviation / k.sqrt() * inflation / joined as f64,
        }
    }

    /// Returns the change over all batches divided by `mean`, a batch's mean numerator, if a
    /// straight line through the residuals rises or falls more than by chance.
    fn drift(&self, mean: f64) -> Option<f64> {
        let k = self.residuals.len() as f64;
        let at = |index: usize| index as f64 - (k - 1.0) / 2.0;
        let positions = (0..self.residuals.len()).map(at);
        let products = self.residuals.iter().zip(positions);
        let spread = (k * k * k - k) / 12.0;
        let slope = products.clone().map(|(y, x)| x * y).sum::<f64>() / spread;
        let rest: f64 = products.map(|(y, x)| (y - slope * x).powi(2)).sum();
        let error = (rest / (k - 2.0) / spread).sqrt();
        let freedom = self.residuals.len() as u32 - 2;
        let is_drift = slope.abs() > critical(DRIFT_MISS, freedom) * error && mean > 0.0;
        is_drift.then(|| slope * (k - 1.0) / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(values: impl IntoIterator<Item = f64>) -> Vec<Window> {
        let window = |numerator| Window {
            numerator,
            denominator: 1.0,
        };
        values.into_iter().map(window).collect()
    }

    /// Independent values around 100.
    fn noise(count: u64) -> impl Iterator<Item = f64> {
        (0..count).map(|n| 99.0 + 2.0 * prony_record::random_at(7, n) as f64 / u64::MAX as f64)
    }

    #[test]
    fn the_warm_up_ends_where_the_values_become_steady() {
        let rising = (0..10).map(|n| f64::from(n) * 10.0);
        let values: Vec<f64> = rising.chain(noise(50)).collect();
        assert_eq!(warm_up(&values), 10);
        assert_eq!(warm_up(&[5.0; 40]), 0);
        assert_eq!(warm_up(&[]), 0);
        assert!(warm_up(&Vec::from_iter((0..40).map(f64::from))) >= 18);
    }

    #[test]
    fn independent_windows_are_not_joined() {
        let found = estimate(&windows(noise(100))).unwrap();
        assert_eq!((found.joined, found.batches), (1, 100));
        // The standard deviation of the noise is 1/√3.
        let expected = 1.98 * 3.0_f64.sqrt().recip() / 10.0;
        assert!((found.half_width / expected - 1.0).abs() < 0.4, "{found:?}");
    }

    #[test]
    fn slow_variation_is_joined_or_refused_and_a_slope_is_a_drift() {
        let waves = (0..400).map(|n| 100.0 + (f64::from(n) / 3.0).sin());
        let found = estimate(&windows(
            waves.clone().zip(noise(400)).map(|(a, b)| a + b / 10.0),
        ));
        assert!(found.unwrap().joined > 3);
        let swing = (0..60).map(|n| 100.0 + (f64::from(n) / 10.0).cos());
        let refused = estimate(&windows(swing));
        assert!(
            matches!(refused, Err(NoEstimate::Autocorrelated { .. })),
            "{refused:?}"
        );
        let slope = noise(200)
            .zip(0..)
            .map(|(value, n)| value + f64::from(n) / 150.0);
        let Err(NoEstimate::Drifting { change }) = estimate(&windows(slope)) else {
            panic!("no drift was found");
        };
        assert!((change - 200.0 / 150.0 / 100.0).abs() < 0.005, "{change}");
        assert_eq!(estimate(&windows(noise(8))), Err(NoEstimate::TooShort));
        assert_eq!(
            estimate(&[Window::default(); 20]),
            Err(NoEstimate::TooShort)
        );
    }
}
