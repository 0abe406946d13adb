//! Monotone fits of a goal's excess against the offered rate.
//!
//! The first fit is isotonic regression by the pool-adjacent-violators algorithm (Ayer, Brunk,
//! Ewing, Reid and Silverman, "An empirical distribution function for sampling with incomplete
//! information", Annals of Mathematical Statistics 26, 1955). The share of requests beyond a limit
//! is an unbiased estimate at each rate, even if requests are correlated, and so are the pooled
//! means. Percentiles of short probes are biased.
//!
//! Slow responses come in clusters, so the excess of a probe is skewed, and an isotonic fit then
//! crosses the goal at too high a rate. The second fit is a straight line on both log scales near
//! that crossing, by quasi-likelihood with a log link (Wedderburn, "Quasi-likelihood functions,
//! generalized linear models, and the Gauss-Newton method", Biometrika 61, 1974). It uses the means
//! of all nearby probes and never takes the logarithm of a single probe. Where the excess jumps,
//! only the first fit is used.

/// Range that the next probes should cover on each side of the goal: a difference between
/// logarithms of the excess.
const EXCESS_RANGE: f64 = 1.2;

/// A rise in the excess, within the window of a line, from the reciprocal of this value to this
/// value counts as a jump.
const JUMP_EXCESS: f64 = 25.0;
/// Minimum number of points for a line.
const LINE_POINTS_MIN: usize = 4;
/// Maximum number of iterations in the line fit.
const LINE_STEPS: usize = 60;
/// Maximum variance, on the log scale, that is used to correct the line.
const VARIANCE_MAX: f64 = 0.5;
/// Minimum slope of a line on the log scales.
const SLOPE_MIN: f64 = 0.3;
const SLOPE_FIRST: f64 = 10.0;
const SLOPE_MAX: f64 = 400.0;

/// Excess of one probe at its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FitPoint {
    /// Natural logarithm of the rate.
    pub(super) log_rate: f64,
    /// See [`GoalReading::excess`](super::GoalReading::excess).
    pub(super) excess: f64,
    /// Excess that corresponds to half a request.
    pub(super) resolution: f64,
    /// Number of requests in the probe.
    pub(super) weight: f64,
}

/// Position of the edge relative to the probed rates. The edge is the rate at which the excess
/// reaches 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Crossing {
    /// The fit exceeds the goal even at the lowest rates.
    Below,
    /// The fit crosses the goal.
    At {
        /// Logarithm of the rate at which the fit crosses the goal.
        log_rate: f64,
        /// Distance from `log_rate`, on the log scale, within which the next probes should look for
        /// the crossing.
        reach: f64,
    },
    /// The fit meets the goal even at the highest rates.
    Above,
}

impl Crossing {
    /// Returns the logarithm of the rate at the crossing; infinite if the fit doesn't cross the
    /// goal.
    pub(super) fn log_rate(&self) -> f64 {
        match self {
            Crossing::Below => f64::NEG_INFINITY,
            Crossing::At { log_rate, .. } => *log_rate,
            Crossing::Above => f64::INFINITY,
        }
    }
}

/// Adjacent points, merged into their weighted mean.
#[derive(Debug, Clone, Copy)]
struct Pool {
    log_rate: f64,
    excess: f64,
    resolution: f64,
    weight: f64,
}

impl Pool {
    fn merge(self, other: Pool) -> Pool {
        let weight = self.weight + other.weight;
        let mean = |a: f64, b: f64| (a * self.weight + b * other.weight) / weight;
        Pool {
            log_rate: mean(self.log_rate, other.log_rate),
            excess: mean(self.excess, other.excess),
            resolution: self.resolution.min(other.resolution),
            weight,
        }
    }

    fn log_excess(&self) -> f64 {
        self.excess.max(self.resolution).ln()
    }
}

/// Fits the points and finds the rate at which the excess is 1, by interpolation between the pools
/// on log scales.
pub(super) fn crossing(points: &[FitPoint]) -> Crossing {
    let pools = pooled(points);
    let Some(above) = pools.iter().position(|pool| pool.excess >= 1.0) else {
        return Crossing::Above;
    };
    let Some(below) = above.checked_sub(1) else {
        return Crossing::Below;
    };
    let (below, above) = (pools[below], pools[above]);
    let rise = above.log_excess() - below.log_excess();
    let distance = above.log_rate - below.log_rate;
    let part = if rise > 0.0 {
        (-below.log_excess() / rise).clamp(0.0, 1.0)
    } else {
        0.5
    };
    Crossing::At {
        log_rate: below.log_rate + part * distance,
        reach: if rise > 0.0 {
            (EXCESS_RANGE / rise).max(0.5) * distance
        } else {
            distance
        },
    }
}

/// Refines a crossing by fitting a line, on log scales, to the points within `reach` of it.
pub(super) fn refined(points: &[FitPoint], log_rate: f64, reach: f64) -> f64 {
    let window = 1.05 * reach;
    let near: Vec<FitPoint> = points
        .iter()
        .filter(|point| (point.log_rate - log_rate).abs() <= window)
        .copied()
        .collect();
    let pools = pooled(&near);
    let ends = pools.first().zip(pools.last());
    let jumps = |(first, last): (&Pool, &Pool)| {
        last.excess >= JUMP_EXCESS && first.excess <= 1.0 / JUMP_EXCESS
    };
    if near.len() < LINE_POINTS_MIN || ends.is_none_or(jumps) {
        return log_rate;
    }
    match fitted_edge(&near, log_rate) {
        Some(offset) => log_rate + offset.clamp(-2.0 * reach, 2.0 * reach),
        None => log_rate,
    }
}

/// Fits `ln excess = level + slope * (log_rate - origin)` and returns the position of the edge
/// relative to the origin, or `None` if the points don't determine the line.
fn fitted_edge(points: &[FitPoint], origin: f64) -> Option<f64> {
    let (mut level, mut slope) = (0.0, SLOPE_FIRST);
    let mut sums = LineSums::default();
    for _ in 0..LINE_STEPS {
        sums = LineSums::of(points, origin, level, slope);
        let determinant = sums.determinant()?;
        let up = (sums.s2 * sums.score - sums.s1 * sums.moment) / determinant;
        let steeper = (sums.s0 * sums.moment - sums.s1 * sums.score) / determinant;
        level += up.clamp(-1.0, 1.0);
        slope = (slope + steeper.clamp(-SLOPE_FIRST, SLOPE_FIRST)).clamp(SLOPE_MIN, SLOPE_MAX);
    }
    let offset: f64 = -level / slope;
    // On average, the logarithm of a mean of skewed numbers is too low by half of its variance
    // (Jensen's inequality), so the line would cross the goal at too high a rate.
    let freedom = points.len().saturating_sub(2).max(1) as f64;
    let dispersion = sums.squares / freedom;
    let spread = sums.s2 - 2.0 * offset * sums.s1 + offset * offset * sums.s0;
    let variance = dispersion * spread / sums.determinant()?;
    let late = 0.5 * variance.min(VARIANCE_MAX) / slope;
    let offset = offset - late;
    offset.is_finite().then_some(offset)
}

/// Sums over the points, for one iteration of the line fit.
#[derive(Debug, Clone, Copy, Default)]
struct LineSums {
    score: f64,
    moment: f64,
    s0: f64,
    s1: f64,
    s2: f64,
    /// Sum of the squared residuals, each relative to its expected variance.
    squares: f64,
}

impl LineSums {
    fn of(points: &[FitPoint], origin: f64, level: f64, slope: f64) -> LineSums {
        let mut sums = LineSums::default();
        for point in points {
            let x = point.log_rate - origin;
            let expected = (level + slope * x).exp();
            let residual = point.weight * (point.excess - expected);
            let information = point.weight * expected;
            sums.score += residual;
            sums.moment += x * residual;
            sums.s0 += information;
            sums.s1 += x * information;
            sums.s2 += x * x * information;
            // A probe without requests has no residual.
            if information > 0.0 {
                sums.squares += residual * residual / information;
            }
        }
        sums
    }

    fn determinant(&self) -> Option<f64> {
        let determinant = self.s0 * self.s2 - self.s1 * self.s1;
        (determinant.is_normal() && determinant > 0.0).then_some(determinant)
    }
}

/// Pools adjacent points until the excess never decreases as the rate rises.
fn pooled(points: &[FitPoint]) -> Vec<Pool> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.log_rate.total_cmp(&b.log_rate));
    let mut pools: Vec<Pool> = Vec::new();
    for point in points {
        let mut pool = Pool {
            log_rate: point.log_rate,
            excess: point.excess,
            resolution: point.resolution,
            weight: point.weight.max(1.0),
        };
        while let Some(last) = pools.pop_if(|last| last.excess > pool.excess) {
            pool = last.merge(pool);
        }
        pools.push(pool);
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: &[(f64, f64)]) -> Vec<FitPoint> {
        let point = |&(rate, excess): &(f64, f64)| FitPoint {
            log_rate: rate.ln(),
            excess,
            resolution: 0.01,
            weight: 1_000.0,
        };
        of.iter().map(point).collect()
    }

    #[test]
    fn pools_never_fall() {
        let excess = [0.0, 0.4, 0.2, 0.9, 0.5, 3.0, 2.0];
        let at: Vec<_> = (1..).map(f64::from).zip(excess).collect();
        let pools = pooled(&points(&at));
        assert!(
            pools
                .windows(2)
                .all(|pair| pair[0].excess <= pair[1].excess)
        );
        assert_eq!(pools.iter().map(|pool| pool.weight).sum::<f64>(), 7_000.0);
    }

    #[test]
    fn the_edge_is_interpolated_on_log_scales() {
        let Crossing::At { log_rate, .. } = crossing(&points(&[(100.0, 0.5), (400.0, 2.0)])) else {
            panic!("no crossing");
        };
        assert!((log_rate.exp() - 200.0).abs() < 1e-9);
        assert_eq!(
            crossing(&points(&[(1.0, 2.0), (2.0, 3.0)])),
            Crossing::Below
        );
        assert_eq!(
            crossing(&points(&[(1.0, 0.2), (2.0, 0.3)])),
            Crossing::Above
        );
    }
}
