//! A question that an examination could not answer, with the reason.

use serde::Serialize;

/// Something that could not be determined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undetermined {
    /// The thing in question.
    #[serde(rename = "what")]
    pub subject: String,
    /// The reason why it could not be determined.
    #[serde(rename = "why")]
    pub reason: String,
}

impl Undetermined {
    pub(crate) fn new(subject: impl Into<String>, reason: impl Into<String>) -> Undetermined {
        Undetermined {
            subject: subject.into(),
            reason: reason.into(),
        }
    }
}
