//! The report on the connections that were opened before a load.

use prony_record::finding::ConnectionsLate;
use prony_record::{Finding, Severity};

use crate::engine::reasons::Reasons;

/// Result of opening connections before a load.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreconnectReport {
    pub(super) wanted: u32,
    /// Number of connections that were open when the load began.
    pub(super) open: u32,
    /// Reasons why the remaining connections were not open.
    pub(super) reasons: Reasons,
}

impl PreconnectReport {
    /// Adds another worker's report.
    pub(crate) fn merge(&mut self, other: PreconnectReport) {
        self.wanted += other.wanted;
        self.open += other.open;
        self.reasons.merge(other.reasons);
    }

    /// The reasons by outcome and text, with their numbers.
    pub(super) fn named_reasons(&self) -> impl Iterator<Item = (String, u64)> {
        let reasons = self.reasons.by_count().into_iter();
        reasons.map(|(outcome, reason, count)| (format!("{}: {reason}", outcome.name()), count))
    }

    /// The finding about missing connections, if any are missing.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let missing = self.wanted - self.open;
        if missing == 0 {
            return None;
        }
        let late = ConnectionsLate {
            missing: missing.into(),
            wanted: self.wanted.into(),
            reasons: self.named_reasons().collect(),
        };
        Some(Finding::of(Severity::Note, &late))
    }
}
