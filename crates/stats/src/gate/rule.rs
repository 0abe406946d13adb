//! A gate as data.

use prony_record::measure::Relation;

use crate::comparison::Verdict;
use crate::metric::Metric;
use crate::observable::Observable;

/// A gate that has been parsed and checked against the existing variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub(super) input: String,
    /// Indices of the variants that the gate applies to.
    pub(super) subjects: Vec<usize>,
    pub(super) rule: GateRule,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum GateRule {
    Figure {
        observable: Observable,
        relation: Relation,
        limit: GateLimit,
    },
    Verdict {
        metric: Option<Metric>,
        wanted: Vec<Verdict>,
        is: bool,
    },
}

/// Limit with which a measured value is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum GateLimit {
    /// A value in the observable's unit, or a fraction of the total if `is_share` is true.
    Fixed { value: f64, is_share: bool },
    /// `factor` times the reference's value, plus `shift`.
    Relative {
        to: GateReference,
        factor: f64,
        shift: f64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GateReference {
    /// The baseline of each variant.
    Baseline,
    /// The same variant in the stored run.
    Stored,
    /// A variant of the same run, by index.
    Variant(usize),
}
