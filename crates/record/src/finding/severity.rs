//! Severity of a finding.

use serde::{Deserialize, Serialize};

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
