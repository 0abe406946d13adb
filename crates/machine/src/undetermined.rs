//! Properties that an examination could not determine.

use serde::Serialize;

/// A property that could not be determined, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undetermined {
    /// Name of the property, as shown to the user.
    #[serde(rename = "what")]
    pub subject: String,
    /// Reason why the property could not be determined.
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
