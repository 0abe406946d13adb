//! Results of checks, including properties that could not be determined.

use serde::Serialize;

pub use crate::undetermined::Undetermined;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// No action is needed.
    Ok,
    /// For information only: the value limits nothing at present.
    Note,
    /// The value can limit a load or distort a measurement.
    Warning,
    /// The value limits a load or distorts a measurement.
    Error,
}

impl CheckStatus {
    /// Returns `Warning` if `condition` is true, and otherwise `Ok`.
    pub(super) fn warning_if(condition: bool) -> CheckStatus {
        if condition {
            CheckStatus::Warning
        } else {
            CheckStatus::Ok
        }
    }
}

/// Result of one check of a server or machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorCheck {
    /// Stable ID of the check, such as `listen-backlog`.
    pub id: &'static str,
    /// Severity of the result.
    #[serde(rename = "level")]
    pub status: CheckStatus,
    /// The observed value, with units.
    #[serde(rename = "seen")]
    pub observed: String,
    /// Recommended value, with units.
    pub expected: String,
    /// Explanation of why the value matters.
    pub why: &'static str,
    /// Suggested way to change the value.
    pub change: String,
    /// Documentation of the setting: a manual page, kernel or program documentation, or an article.
    pub source: &'static str,
}

impl DoctorCheck {
    /// Replaces the suggested change with a more specific one.
    #[must_use]
    pub(super) fn with_change(mut self, change: impl Into<String>) -> DoctorCheck {
        self.change = change.into();
        self
    }
}

/// Parts of a check that don't depend on the observed value.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckTopic {
    pub(super) id: &'static str,
    pub(super) expected: &'static str,
    pub(super) why: &'static str,
    pub(super) change: &'static str,
    pub(super) source: &'static str,
}

impl CheckTopic {
    /// Creates a check of this topic with the given result.
    pub(super) fn check(&self, status: CheckStatus, observed: impl Into<String>) -> DoctorCheck {
        DoctorCheck {
            id: self.id,
            status,
            observed: observed.into(),
            expected: self.expected.to_owned(),
            why: self.why,
            change: self.change.to_owned(),
            source: self.source,
        }
    }
}

/// Results of one group of checks.
#[derive(Debug, Default)]
pub(super) struct CheckResults {
    pub(super) checks: Vec<DoctorCheck>,
    pub(super) undetermined: Vec<Undetermined>,
}

impl CheckResults {
    pub(super) fn add(&mut self, check: DoctorCheck) {
        self.checks.push(check);
    }

    pub(super) fn add_undetermined(
        &mut self,
        subject: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.undetermined.push(Undetermined::new(subject, reason));
    }

    pub(super) fn extend(&mut self, other: CheckResults) {
        self.checks.extend(other.checks);
        self.undetermined.extend(other.undetermined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_ordered() {
        assert!(CheckStatus::Ok < CheckStatus::Note && CheckStatus::Warning < CheckStatus::Error);
    }
}
