//! Per-round statistics of interleaved blocks, computed from their slices.

use prony_stats::{Design, Evaluation, RoundComparison, RoundMetric, RoundValues, compare_rounds};

use super::trial_result::{SliceResult, TrialResult};

/// Compares each variant with its baseline, round by round, over all blocks. The result is empty if
/// there are no slices.
pub(crate) fn compare(
    design: &Design,
    evaluation: &Evaluation,
    results: &[TrialResult],
) -> Vec<RoundComparison> {
    let metric = metric(results);
    let values: Vec<RoundValues> = (0..design.variants.len())
        .map(|variant| {
            let trials = results.iter().filter(|it| it.variant == variant);
            let slices = trials.flat_map(|it| it.slices.iter().map(|slice| (it.block, slice)));
            let values = slices
                .filter_map(|(block, slice)| Some(((block, slice.round), value(metric, slice)?)));
            values.collect()
        })
        .collect();
    compare_rounds(design, evaluation, metric, &values)
}

/// Returns the metric by which slices are compared. For an open loop, it isn't the rate, because
/// the schedule determines the rate.
pub(super) fn metric(results: &[TrialResult]) -> RoundMetric {
    let mut records = results.iter().filter_map(|it| it.record.as_ref());
    if records.any(|record| record.load.model == "open") {
        RoundMetric::MeanResponseUs
    } else {
        RoundMetric::RatePerS
    }
}

/// Returns the metric's value for a slice; `None` if no request succeeded in the slice.
pub(super) fn value(metric: RoundMetric, slice: &SliceResult) -> Option<f64> {
    metric.value(slice.ok, slice.length_s, slice.mean_response_us)
}
