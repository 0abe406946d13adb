//! The results of `prony doctor` as stored in JSON.

use prony_record::sampling::ServerProfile;
use serde::Deserialize;

/// A document of the format `prony.doctor/1`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DoctorDocument {
    /// Results for each server, followed by those for the machine.
    pub subjects: Vec<StoredSubject>,
}

/// Results for one server, or for the machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StoredSubject {
    /// The name of the server or machine.
    pub name: String,
    /// The results of the checks.
    pub lines: Vec<StoredCheck>,
    /// The checks that could not determine a result.
    pub unknown: Vec<UnknownCheck>,
    /// The functions that use the CPU time, if the server was sampled.
    #[serde(default)]
    pub profile: Option<ServerProfile>,
}

/// The severity of a check's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// The value is as expected.
    Ok,
    /// The value is reported for information only.
    Note,
    /// The value can limit a load.
    Warning,
    /// The value limits a load.
    Error,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredCheck {
    /// Stable name of the check.
    pub id: String,
    /// Severity of the result.
    pub level: CheckLevel,
    /// The observed value.
    pub seen: String,
    /// The recommended value.
    pub expected: String,
    /// Effect of the observed value on a load.
    pub why: String,
    /// The command or setting that changes the value.
    pub change: String,
    /// Documentation that the check is based on, such as `listen(2)`.
    pub source: String,
}

/// A check without a result, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct UnknownCheck {
    /// Name of the check.
    pub what: String,
    /// Reason why the check has no result.
    pub why: String,
}

impl DoctorDocument {
    /// Parses a document from JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a document of the format `prony.doctor/1`.
    pub fn read(json: &str) -> Result<DoctorDocument, serde_json::Error> {
        serde_json::from_str(json)
    }
}

impl StoredSubject {
    /// Returns the checks to show, the most severe first. Passed checks are included only if `all`
    /// is true.
    pub(crate) fn shown(&self, all: bool) -> Vec<&StoredCheck> {
        let wanted = |line: &&StoredCheck| all || line.level > CheckLevel::Ok;
        let mut shown: Vec<&StoredCheck> = self.lines.iter().filter(wanted).collect();
        shown.sort_by_key(|line| std::cmp::Reverse(line.level));
        shown
    }

    /// The number of passed checks.
    pub(crate) fn fine(&self) -> usize {
        let fine = self
            .lines
            .iter()
            .filter(|line| line.level == CheckLevel::Ok);
        fine.count()
    }
}
