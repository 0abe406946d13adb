//! Summaries of the individual variants.

use std::collections::BTreeMap;

use prony_record::EntryResults;
use serde::{Deserialize, Serialize};

use crate::design::{Design, Levels, Pair};
use crate::estimate::{Estimate, mean};
use crate::metric::{Direction, Metric, Scale, Unit};
use crate::pairing;
use crate::trials::Block;

/// Probability that the interval of a variant's mean does not contain the true mean.
const MISS_PROBABILITY: f64 = 0.05;

/// Summary of one metric of one variant over the complete blocks. Absent if no trial measured the
/// metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// Median of the trials.
    pub median: f64,
    /// Mean over the blocks: geometric if variants are compared by ratio and no block's value is
    /// zero. Every report shows this mean, because the ratio of two of these means is the reported
    /// ratio. Absent in documents written by earlier versions; see [`MetricSummary::level`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Lower end of the 95% t interval of the geometric mean (of the arithmetic mean for shares).
    /// Absent below three blocks.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Value of the best trial: the lowest if lower is better, otherwise the highest.
    pub best: f64,
}

impl MetricSummary {
    /// Returns the mean over the blocks. Documents written by earlier versions lack the mean, but
    /// their interval is centered on it on the averaging scale.
    pub fn level(&self, metric: Metric) -> f64 {
        let center = match (self.low.zip(self.high), metric.scale()) {
            (Some((low, high)), Scale::Ratio) if low > 0.0 => Some((low * high).sqrt()),
            // The interval is centered on the mean only if neither end was clamped to 0 or 1.
            (Some((low, high)), Scale::Difference) if low > 0.0 && high < 1.0 => {
                Some(f64::midpoint(low, high))
            }
            _ => None,
        };
        let known = self.mean.or(center);
        known.filter(|mean| mean.is_finite()).unwrap_or(self.median)
    }
}

/// Summary of one variant over the complete blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantSummary {
    /// Levels of the variant.
    pub levels: Levels,
    /// Name of the variant in sentences.
    pub name: String,
    /// Number of trials: one for each complete block.
    pub trials: u32,
    /// Request rate as a percentage of the baseline's (geometric mean over blocks); 100 for a
    /// baseline. Absent if it can't be computed.
    pub relative_percent: Option<f64>,
    /// Summaries by metric.
    pub metrics: BTreeMap<Metric, MetricSummary>,
    /// Results of each entry of the request list, over all trials and without intervals. Absent
    /// unless the load has a list of at least two entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<EntryResults>,
    /// CPU time per request of each service in microseconds, by the service's name. Empty if there
    /// are fewer than two services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_cpu_us_per_request: BTreeMap<String, MetricSummary>,
}

pub(crate) fn variant_summaries(design: &Design, blocks: &[Block<'_>]) -> Vec<VariantSummary> {
    (0..design.variants.len())
        .map(|variant| VariantSummary {
            levels: design.variants[variant].clone(),
            name: design.name_of(variant),
            trials: u32::try_from(blocks.len()).unwrap_or(u32::MAX),
            relative_percent: relative_percent(design, blocks, variant),
            entries: None,
            service_cpu_us_per_request: BTreeMap::new(),
            metrics: Metric::ALL
                .iter()
                .filter_map(|&metric| Some((metric, summarize(blocks, variant, metric)?)))
                .collect(),
        })
        .collect()
}

fn relative_percent(design: &Design, blocks: &[Block<'_>], variant: usize) -> Option<f64> {
    let against = design.counterpart(variant)?;
    let logs = pairing::present(blocks, Pair { variant, against }, Metric::RatePerS);
    let percent = 100.0 * mean(&logs).exp();
    (!logs.is_empty() && percent.is_finite()).then_some(percent)
}

fn summarize(blocks: &[Block<'_>], variant: usize, metric: Metric) -> Option<MetricSummary> {
    let mut values: Vec<f64> = blocks
        .iter()
        .filter_map(|block| block.value(variant, metric))
        .collect();
    values.sort_by(f64::total_cmp);
    let best = match metric.direction() {
        Direction::Lower => *values.first()?,
        Direction::Higher | Direction::Neither => *values.last()?,
    };
    let averaged: Option<Vec<f64>> = blocks
        .iter()
        .map(|block| pairing::averaged(block, variant, metric))
        .collect();
    let interval = averaged
        .and_then(|values| Estimate::from_blocks(&values))
        .map(|estimate| estimate.interval(MISS_PROBABILITY))
        .map(|interval| match metric.scale() {
            Scale::Ratio => interval.map(f64::exp),
            Scale::Difference if metric.unit() == Unit::Share => {
                interval.map(|share| share.clamp(0.0, 1.0))
            }
            Scale::Difference => interval.map(|count| count.max(0.0)),
        })
        .filter(|interval| interval.low.is_finite() && interval.high.is_finite());
    Some(MetricSummary {
        median: median(&values)?,
        mean: pairing::shown_mean(blocks, variant, metric).filter(|mean| mean.is_finite()),
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        best,
    })
}

/// Returns the median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}
