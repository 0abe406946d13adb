//! Results of the probes from which the capacity is estimated.

use super::fit::{Crossing, FitPoint, crossing, refined};
use super::probe::ProbeResult;

/// Excess assigned to a probe during which the server doesn't keep up.
const OVERLOAD_EXCESS: f64 = 100.0;

/// Results of the probes that enter the fit, with the logarithms of their rates.
#[derive(Debug, Clone, Default)]
pub(super) struct EdgeResults(Vec<(f64, ProbeResult)>);

impl EdgeResults {
    pub(super) fn push(&mut self, log_rate: f64, result: ProbeResult) {
        self.0.push((log_rate, result));
    }

    /// Returns the logarithms of the lowest and the highest rate.
    pub(super) fn range(&self) -> (f64, f64) {
        let logs = self.0.iter().map(|(log_rate, _)| *log_rate);
        logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| {
            (low.min(log), high.max(log))
        })
    }

    /// Returns the crossing of the goal that is exceeded at the lowest rate.
    pub(super) fn lowest_crossing(&self) -> Crossing {
        let crossings = (0..self.goal_count()).map(|goal| crossing(&self.points(goal)));
        crossings
            .min_by(|a, b| a.log_rate().total_cmp(&b.log_rate()))
            .unwrap_or(Crossing::Below)
    }

    /// Returns the logarithm of the lowest rate at which a goal is exceeded, computed from the
    /// probes within `reach` of `log_rate`, an earlier estimate. Returns negative infinity if a
    /// goal is exceeded at all rates and no line can be fitted.
    pub(super) fn refined_crossing(&self, log_rate: f64, reach: f64) -> f64 {
        let refine = |points: &[FitPoint]| {
            let first = match crossing(points) {
                Crossing::At { log_rate: at, .. } if (at - log_rate).abs() <= reach => at,
                Crossing::Below => f64::NEG_INFINITY,
                _ => log_rate,
            };
            // The window is centered on the rate around which the probes were chosen, not on the
            // crossing, because the crossing depends on the results of the probes.
            match refined(points, log_rate, reach) {
                unchanged if unchanged == log_rate => first,
                refined => refined,
            }
        };
        let lowest = (0..self.goal_count())
            .filter(|&goal| crossing(&self.points(goal)) != Crossing::Above)
            .map(|goal| refine(&self.points(goal)))
            .fold(f64::INFINITY, f64::min);
        if lowest == f64::INFINITY {
            log_rate
        } else {
            lowest
        }
    }

    /// Returns true if the generator was saturated in most of the failed probes within `reach` of
    /// `log_rate`.
    pub(super) fn is_saturated_at(&self, log_rate: f64, reach: f64) -> bool {
        let near = |at: f64| (at - log_rate).abs() <= reach;
        let failed = self
            .0
            .iter()
            .filter(|(at, result)| near(*at) && !result.is_met());
        let (mut saturated, mut all) = (0, 0);
        for (_, result) in failed {
            all += 1;
            saturated += usize::from(result.generator_saturated);
        }
        2 * saturated > all
    }

    /// Returns true if, over the probes at rates up to `log_rate`, the mean excess of some goal is
    /// at least `excess`.
    pub(super) fn is_far_from_met_at(&self, log_rate: f64, excess: f64) -> bool {
        (0..self.goal_count()).any(|goal| {
            let points = self.points(goal).into_iter();
            let (sum, weight) = points
                .filter(|point| point.log_rate <= log_rate)
                .fold((0.0, 0.0), |(sum, weight), point| {
                    (sum + point.weight * point.excess, weight + point.weight)
                });
            sum >= excess * weight
        })
    }

    /// Returns the number of goals, or 1 if no probe has a reading, so that probes without readings
    /// count as overload.
    fn goal_count(&self) -> usize {
        let goals = self.0.iter().map(|(_, result)| result.goals.len());
        goals.max().unwrap_or(0).max(1)
    }

    /// Returns the results as points for the fit of one goal.
    fn points(&self, goal: usize) -> Vec<FitPoint> {
        self.0
            .iter()
            .map(|(log_rate, result)| point(*log_rate, result, goal))
            .collect()
    }
}

/// Returns the reading of one goal as a point for the fit.
fn point(log_rate: f64, result: &ProbeResult, goal: usize) -> FitPoint {
    let weight = result.requests as f64;
    match result.goals.get(goal) {
        Some(reading) => FitPoint {
            log_rate,
            excess: if result.keeps_up() {
                reading.excess
            } else {
                reading.excess.max(OVERLOAD_EXCESS)
            },
            resolution: reading.resolution,
            weight,
        },
        None => FitPoint {
            log_rate,
            excess: OVERLOAD_EXCESS,
            resolution: OVERLOAD_EXCESS,
            weight,
        },
    }
}
