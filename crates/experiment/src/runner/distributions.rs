//! Differences between the variants' distributions of response times, by percentile.

use prony_stats::{
    Design, DistributionDifference, Evaluation, TrialTimes, compare_distributions, percentile_times,
};

use super::trial_result::TrialResult;

/// Compares the distributions of each variant and its baseline over all blocks. The result is empty
/// for capacity searches, because each search stores the record of only one probe.
pub(crate) fn compare(
    design: &Design,
    evaluation: &Evaluation,
    results: &[TrialResult],
) -> Vec<DistributionDifference> {
    if !design.goals.is_empty() {
        return Vec::new();
    }
    let times_of = |result: &TrialResult| {
        let times = result.record.as_ref()?.distribution("response_time")?;
        Some(TrialTimes {
            block: result.block,
            variant: result.variant,
            times: percentile_times(&times),
        })
    };
    let trials: Vec<TrialTimes> = results.iter().filter_map(times_of).collect();
    compare_distributions(design, evaluation, &trials)
}
