//! Something that qualifies a result.

use serde::{Deserialize, Serialize};

/// How much a finding weighs. An error withholds the verdicts that it can have distorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Read the result with care.
    Warning,
    /// The result can't carry a verdict.
    Error,
}

/// What was seen, what it means, what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its stable name, such as `generator-saturated`; `docs/findings.md` lists them.
    pub id: String,
    /// How much it weighs.
    pub severity: Severity,
    /// One to three sentences for a person.
    pub text: String,
}

impl Finding {
    /// A finding of this name, weight and text.
    pub fn new(id: &str, severity: Severity, text: impl Into<String>) -> Finding {
        Finding {
            id: id.to_owned(),
            severity,
            text: text.into(),
        }
    }
}
