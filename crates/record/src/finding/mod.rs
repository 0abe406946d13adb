//! Findings: observations that qualify a result.
//!
//! [`FindingId`] is the registry. Its rows ([`FindingInfo`]) give a finding's possible severities,
//! the verdicts that it withholds, its meaning and the recommended action; docs/findings.md is
//! generated from them. Code that reacts to a finding matches on [`FindingId`] or reads its row,
//! and never compares text.

mod experiment;
mod fleet;
mod info;
mod load;
mod registry;
mod trial;

use serde::{Deserialize, Serialize};

pub use info::{FindingInfo, FindingScope, TrialFolding, WithheldVerdicts};
pub use registry::{FindingId, FindingName};

/// Severity of a finding. An error withholds the verdicts that it may have distorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The finding is informational.
    Note,
    /// The result must be interpreted with care.
    Warning,
    /// The result can't support a verdict.
    Error,
}

impl Severity {
    /// Returns the severity's name in JSON and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// An observation that qualifies a result: what was seen, what it means, what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// ID of the finding.
    pub id: FindingName,
    /// Severity of the finding.
    pub severity: Severity,
    /// Text of one to three sentences for the user.
    pub text: String,
}

impl Finding {
    /// Creates a finding. Its severity must be one that the registry lists for `id`.
    pub fn new(id: FindingId, severity: Severity, text: impl Into<String>) -> Finding {
        debug_assert!(
            id.info().can_have(severity),
            "{id} is listed without the severity {severity:?}"
        );
        Finding {
            id: id.into(),
            severity,
            text: text.into(),
        }
    }

    /// Returns the finding's registry row, or `None` if the ID is from another version of prony.
    pub fn info(&self) -> Option<&'static FindingInfo> {
        self.id.known().map(FindingId::info)
    }
}
