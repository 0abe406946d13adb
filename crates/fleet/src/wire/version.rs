//! Versions of prony and of its messages, which must be the same for a coordinator and its agents.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Version of prony.
pub const PRONY_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Version of the message format. Increase it with every change that earlier versions can't read.
pub const WIRE_VERSION: u32 = 5;

/// Versions of prony and of the message format that a message's sender uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderVersion {
    /// Version of prony.
    #[serde(rename = "version")]
    pub prony: String,
    /// Version of the message format; 0 if the message doesn't contain it.
    #[serde(rename = "wire_version", default)]
    pub wire: u32,
}

impl SenderVersion {
    /// Returns the versions of this program.
    pub fn own() -> SenderVersion {
        SenderVersion {
            prony: PRONY_VERSION.to_owned(),
            wire: WIRE_VERSION,
        }
    }

    /// Returns true if the sender has the same versions as this program.
    pub fn is_own(&self) -> bool {
        *self == SenderVersion::own()
    }
}

impl fmt::Display for SenderVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wire {
            0 => write!(f, "{} (unknown wire format)", self.prony),
            wire => write!(f, "{} (wire format {wire})", self.prony),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_or_format_is_not_own_and_is_named() {
        assert!(SenderVersion::own().is_own());
        let other = SenderVersion {
            wire: WIRE_VERSION + 1,
            ..SenderVersion::own()
        };
        assert!(!other.is_own());
        let format = format!(" (wire format {})", WIRE_VERSION + 1);
        assert!(other.to_string().ends_with(&format));
        let earlier: SenderVersion = serde_json::from_str(r#"{"version":"0.0.1"}"#).unwrap();
        assert!(!earlier.is_own());
        assert_eq!(earlier.to_string(), "0.0.1 (unknown wire format)");
    }
}
