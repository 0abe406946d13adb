//! Scaling of a metric with a numeric factor, such as cores, workers or connections.
//!
//! The scaling is computed from the variants' means over the blocks, with one line for each
//! combination of the other factors' levels. It is descriptive and has no verdict.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::design::{Design, Factor, Levels};
use crate::metric::{Direction, Metric, Scale};
use crate::summary::VariantSummary;

/// Scaling of one metric with one factor while the other factors are fixed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Name of the numeric factor.
    pub factor: String,
    /// Levels of the other factors.
    pub levels: Levels,
    /// Metric whose scaling is described.
    pub metric: Metric,
    /// Points in ascending order of the level; at least two.
    pub points: Vec<ScalingPoint>,
    /// Increase of the metric per unit of the level: the slope of the least-squares line.
    pub slope: f64,
    /// Fraction of the variance between the points that the line explains (R², 0 to 1). Absent with
    /// fewer than three points, because a line always fits two.
    pub straightness: Option<f64>,
}

/// Level of the factor and the metric's value at that level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// The level as a number.
    pub at: u32,
    /// Geometric mean of the metric over the blocks. The field's name dates from earlier versions,
    /// which stored the median of the trials.
    pub median: f64,
    /// Lower end of the 95% interval, if known.
    pub low: Option<f64>,
    /// Upper end of the 95% interval.
    pub high: Option<f64>,
    /// The metric's value divided by the value that linear scaling from the first level would give;
    /// 1 means linear scaling.
    pub in_step: f64,
}

impl ScalingPoint {
    /// Returns the value to report: the mean over the blocks. Earlier versions stored the median of
    /// the trials instead, but their interval is centered on this mean on the log scale.
    pub fn level(&self) -> f64 {
        match self.low.zip(self.high) {
            Some((low, high)) if low > 0.0 => (low * high).sqrt(),
            _ => self.median,
        }
    }
}

/// Returns one line for each numeric factor, each metric of the family for which higher is better,
/// and each combination of the other factors' levels.
pub(crate) fn scaling_lines(design: &Design, variants: &[VariantSummary]) -> Vec<Scaling> {
    let grows = |metric: &&Metric| {
        metric.direction() == Direction::Higher && metric.scale() == Scale::Ratio
    };
    let numbered = design.factors.iter().filter(|factor| is_numbered(factor));
    let pairs = numbered.flat_map(|factor| {
        let metrics = design.family.iter().filter(grows);
        metrics.map(move |&metric| (factor, metric))
    });
    pairs
        .flat_map(|(factor, metric)| along(factor, metric, variants))
        .collect()
}

/// Parses a level as a positive number. Returns `None` for any other level, which is then not part
/// of a line.
fn numeric_level(level: &str) -> Option<u32> {
    level.parse().ok().filter(|&number| number > 0)
}

fn is_numbered(factor: &Factor) -> bool {
    factor
        .levels
        .iter()
        .filter_map(|level| numeric_level(level))
        .count()
        > 1
}

fn along(factor: &Factor, metric: Metric, variants: &[VariantSummary]) -> Vec<Scaling> {
    let mut lines: Vec<(Levels, BTreeMap<u32, ScalingPoint>)> = Vec::new();
    for variant in variants {
        let level = variant.levels.get(&factor.name);
        let (Some(at), Some(summary)) = (
            level.and_then(|level| numeric_level(level)),
            variant.metrics.get(&metric),
        ) else {
            continue;
        };
        let point = ScalingPoint {
            at,
            median: summary.level(metric),
            low: summary.low,
            high: summary.high,
            in_step: 1.0,
        };
        let mut others = variant.levels.clone();
        others.shift_remove(&factor.name);
        match lines.iter_mut().find(|(levels, _)| *levels == others) {
            Some((_, points)) => drop(points.insert(at, point)),
            None => lines.push((others, BTreeMap::from([(at, point)]))),
        }
    }
    let lines = lines.into_iter().filter(|(_, points)| points.len() > 1);
    lines
        .map(|(levels, points)| {
            let mut points: Vec<ScalingPoint> = points.into_values().collect();
            let first = points[0];
            for point in &mut points {
                let in_proportion = first.median * f64::from(point.at) / f64::from(first.at);
                point.in_step = point.median / in_proportion;
            }
            let (slope, straightness) = straight_line(&points);
            Scaling {
                factor: factor.name.clone(),
                levels,
                metric,
                points,
                slope,
                straightness,
            }
        })
        .collect()
}

/// Returns the slope of the least-squares line and the fraction of variance that it explains.
fn straight_line(points: &[ScalingPoint]) -> (f64, Option<f64>) {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| f64::from(point.at)).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.median).sum::<f64>() / count;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for point in points {
        let (x, y) = (f64::from(point.at) - mean_x, point.median - mean_y);
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    let slope = xy / xx;
    // If the metric is constant, its variance is zero, and a horizontal line fits exactly.
    let explained = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
    (slope, (points.len() > 2).then_some(explained))
}

#[cfg(test)]
#[path = "scaling_tests.rs"]
mod tests;
