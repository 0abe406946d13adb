//! Results for each entry of a URL list, combined over all trials of a variant.

use prony_record::EntryResults;
use prony_stats::VerdictDocument;

use super::trial_result::TrialResult;

/// Adds the pooled results of the URL list's entries to each variant. Experiments with capacity
/// searches have no such results, because each search stores the record of only one probe.
pub(crate) fn add(document: VerdictDocument, results: &[TrialResult]) -> VerdictDocument {
    if !document.goals.is_empty() {
        return document;
    }
    // Use only trials of complete blocks.
    let counted = |result: &&TrialResult| result.block <= document.blocks;
    let mut variants = document.variants;
    for (variant, summary) in variants.iter_mut().enumerate() {
        let trials = results.iter().filter(|it| it.variant == variant);
        let records = trials.filter(counted).filter_map(|it| it.record.as_ref());
        let entries: Option<Vec<_>> = records
            .map(|record| Some((record.entries.as_ref()?, record.totals.elapsed_s)))
            .collect();
        summary.entries = entries.and_then(EntryResults::pooled);
    }
    VerdictDocument {
        variants,
        ..document
    }
}
