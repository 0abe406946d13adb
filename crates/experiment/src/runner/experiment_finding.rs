//! Findings about an experiment, with the variants that they concern.

use prony_record::finding::FindingKind;
use prony_record::{Finding, Severity};
use serde::{Deserialize, Serialize};

/// Minimum number of blocks for useful intervals.
pub(super) const FEW_BLOCKS: u32 = 5;

/// A finding, and the indexes of the variants that it concerns; empty if it concerns all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExperimentFinding {
    pub(crate) finding: Finding,
    pub(crate) variants: Vec<usize>,
}

impl ExperimentFinding {
    pub(crate) fn of_all<F: FindingKind>(severity: Severity, figures: &F) -> ExperimentFinding {
        ExperimentFinding::about(Vec::new(), severity, figures)
    }

    pub(crate) fn about<F: FindingKind>(
        variants: Vec<usize>,
        severity: Severity,
        figures: &F,
    ) -> ExperimentFinding {
        ExperimentFinding {
            finding: Finding::of(severity, figures),
            variants,
        }
    }
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
