//! The `order-effect` finding: the result depends on the position of a trial within its block, or
//! of a slice within its round.
//!
//! The test is the same for both kinds of position. It removes the effects of the row (a block or a
//! round) and of the variant, and compares the slope of the values' logarithm over the position
//! with the error of the slope. A variant's effect is constant only within a group of rows. All
//! blocks form one group of trials. In interleaved experiments, the rounds of each block form a
//! group, because services are restarted between blocks.

use std::collections::BTreeMap;

use prony_record::Severity;
use prony_record::finding::{OrderEffect, OrderedPart};
use prony_stats::{Metric, RoundMetric, critical};

use super::experiment_finding::ExperimentFinding;
use super::rounds;
use super::trial_result::TrialResult;

/// Probability of reporting the finding by chance alone.
const ORDER_ALPHA: f64 = 0.01;
/// Minimum number of rows for a test.
const ROWS_MIN: usize = 3;
/// Minimum slope over the positions of slices that is reported. With many rounds, even an
/// irrelevant slope can be significant.
const SLICE_SLOPE_MIN: f64 = 0.005;

/// For each variant in one block or round, its position and the logarithm of its value.
type Row = Vec<(f64, f64)>;

/// Tests the positions of slices if there are any, and otherwise the positions of trials.
pub(super) fn finding(results: &[TrialResult], variants: usize) -> Option<ExperimentFinding> {
    let figures = if results.iter().any(|result| !result.slices.is_empty()) {
        of_slices(results, variants)?
    } else {
        of_trials(results, variants)?
    };
    Some(ExperimentFinding::of_all(Severity::Warning, &figures))
}

fn of_trials(results: &[TrialResult], variants: usize) -> Option<OrderEffect> {
    let mut blocks: BTreeMap<u32, BTreeMap<usize, (f64, f64)>> = BTreeMap::new();
    for result in results {
        let rate = result.values.get(&Metric::RatePerS);
        if let Some(&rate) = rate.filter(|&&rate| rate > 0.0) {
            let cell = (result.position as f64, rate.ln());
            let block = blocks.entry(result.block).or_default();
            block.insert(result.variant, cell);
        }
    }
    let slope = slope(&[complete(blocks.into_values(), variants)], variants)?;
    Some(OrderEffect {
        part: OrderedPart::TrialRate,
        ratio: slope.exp(),
    })
}

/// Collects the position and value of each slice, by round and variant.
type RoundsOfBlock = BTreeMap<u32, BTreeMap<usize, (f64, f64)>>;

fn of_slices(results: &[TrialResult], variants: usize) -> Option<OrderEffect> {
    let metric = rounds::metric(results);
    let mut blocks: BTreeMap<u32, RoundsOfBlock> = BTreeMap::new();
    for result in results {
        let block = blocks.entry(result.block).or_default();
        for slice in &result.slices {
            if let Some(value) = rounds::value(metric, slice) {
                let cell = (f64::from(slice.position), value.ln());
                let round = block.entry(slice.round).or_default();
                round.insert(result.variant, cell);
            }
        }
    }
    let groups = blocks.into_values();
    let groups: Vec<Vec<Row>> = groups
        .map(|rounds| complete(rounds.into_values(), variants))
        .collect();
    let slope = slope(&groups, variants).filter(|slope| slope.abs() >= SLICE_SLOPE_MIN)?;
    Some(OrderEffect {
        part: match metric {
            RoundMetric::RatePerS => OrderedPart::SliceRate,
            RoundMetric::MeanResponseUs => OrderedPart::SliceResponseTime,
        },
        ratio: slope.exp(),
    })
}

/// Returns the rows that contain a value for each variant.
fn complete(rows: impl Iterator<Item = BTreeMap<usize, (f64, f64)>>, variants: usize) -> Vec<Row> {
    let complete = rows.filter(|row| row.len() == variants);
    complete.map(|row| row.into_values().collect()).collect()
}

/// Returns the slope over the position if it is significant; otherwise `None`.
fn slope(groups: &[Vec<Row>], variants: usize) -> Option<f64> {
    let rows: usize = groups.iter().map(Vec::len).sum();
    if rows < ROWS_MIN || variants < 2 {
        return None;
    }
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for rows in groups {
        for (x, y) in residuals(rows, variants) {
            (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
        }
    }
    let per_variant: usize = groups.iter().map(|rows| rows.len().saturating_sub(1)).sum();
    let freedom = (per_variant * (variants - 1)).checked_sub(1)?;
    let freedom = u32::try_from(freedom).ok().filter(|&freedom| freedom > 0)?;
    if xx < 1e-9 {
        return None;
    }
    let slope = xy / xx;
    let error = ((yy - slope * xy).max(0.0) / f64::from(freedom) / xx).sqrt();
    let is_established = slope.abs() > critical(ORDER_ALPHA, freedom) * error && error >= 1e-9;
    is_established.then_some(slope)
}

/// Subtracts the means of the row and of the variant from the values. From the positions, subtracts
/// only the variant's mean, because the mean position is the same in every row.
fn residuals(rows: &[Row], variants: usize) -> Vec<(f64, f64)> {
    let mean = average(rows.iter().flatten().map(|cell| cell.1));
    let of_variant = |variant: usize, part: fn(&(f64, f64)) -> f64| {
        average(rows.iter().map(|row| part(&row[variant])))
    };
    let means: Vec<(f64, f64)> = (0..variants)
        .map(|variant| (of_variant(variant, |c| c.0), of_variant(variant, |c| c.1)))
        .collect();
    let mut residuals = Vec::with_capacity(rows.len() * variants);
    for row in rows {
        let row_mean = average(row.iter().map(|cell| cell.1));
        for ((position, value), (of_position, of_value)) in row.iter().zip(&means) {
            residuals.push((position - of_position, value - row_mean - of_value + mean));
        }
    }
    residuals
}

fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

#[cfg(test)]
#[path = "order_effect_tests.rs"]
mod tests;
