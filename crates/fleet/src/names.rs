//! Names of agents, runs and tokens, and the NATS subjects that contain them.
//!
//! Permissions are lists of subjects ([`crate::permissions`]), so a name must be exactly one part
//! of a subject: it contains no dots and no wildcards.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 64;

/// Bucket of the agents' registrations.
pub const AGENTS_BUCKET: &str = "prony_agents";
/// Bucket of the runs' manifests.
pub const RUNS_BUCKET: &str = "prony_runs";
/// Stream of results.
pub const RESULTS_STREAM: &str = "PRONY_RESULTS";

/// Name of an agent: letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName(String);

/// ID of a run, with the same characters as an agent's name. IDs sort by the start times of the
/// runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// ID of an enrollment token, with the same characters as an agent's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

/// Error for text that is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidName(String);

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a valid name: use up to {NAME_CHARS_MAX} letters, digits, - and _",
            self.0
        )
    }
}

impl std::error::Error for InvalidName {}

fn checked(text: String) -> Result<String, InvalidName> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.chars().all(is_good) {
        Ok(text)
    } else {
        Err(InvalidName(text))
    }
}

macro_rules! name {
    ($name:ident) => {
        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<$name, InvalidName> {
                $name::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<$name, InvalidName> {
                checked(text).map($name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(AgentName);
name!(RunId);
name!(TokenId);

impl AgentName {
    /// Converts a host name to an agent's name. Characters that a name can't contain become `-`.
    pub fn from_hostname(host: &str) -> AgentName {
        let name: String = host
            .chars()
            .take(NAME_CHARS_MAX)
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        if name.is_empty() {
            AgentName("agent".to_owned())
        } else {
            AgentName(name)
        }
    }

    /// Placeholder until the name has been read from a key or subject.
    pub(crate) fn unknown() -> AgentName {
        AgentName("unknown".to_owned())
    }

    /// Returns the subject of orders to this agent.
    pub fn orders_subject(&self) -> String {
        format!("prony.agent.{self}.do")
    }

    /// Returns the subject of clock requests to this agent.
    pub fn clock_subject(&self) -> String {
        format!("prony.agent.{self}.clock")
    }

    /// Returns the subject on which agents with the same name detect each other.
    pub fn namesakes_subject(&self) -> String {
        format!("prony.agent.{self}.namesakes")
    }

    /// Returns the subject of this agent's results in a run.
    pub fn results_subject(&self, run: &RunId) -> String {
        format!("prony.result.{self}.{run}")
    }

    /// Returns the prefix of the subjects on which this agent receives replies.
    pub fn inbox_prefix(&self) -> String {
        format!("_INBOX_agent_{self}")
    }
}

impl TokenId {
    /// Formats a random number as an ID.
    pub fn of_number(number: u64) -> TokenId {
        TokenId(format!("{number:016x}"))
    }

    /// Returns the subject of enrollment requests with this token.
    pub fn requests_subject(&self) -> String {
        format!("prony.enroll.{self}")
    }
}

impl RunId {
    /// Creates an ID from the time and a random number. The time includes milliseconds, as three
    /// hexadecimal digits after the `-`, so that IDs sort by time.
    pub fn new(now: std::time::SystemTime) -> RunId {
        let time = humantime::format_rfc3339_seconds(now).to_string();
        let time: String = time.chars().filter(char::is_ascii_digit).collect();
        let since = now.duration_since(std::time::UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.subsec_millis());
        let random: u32 = rand::random_range(0..1 << 20);
        RunId(format!("{time}-{ms:03x}{random:05x}"))
    }

    /// Returns the subject of all agents' results in the run.
    pub fn results_subject(&self) -> String {
        format!("prony.result.*.{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_one_part_of_one_subject_only() {
        for bad in ["", ".", "a.b", "*", ">", "a b", "a\n", "ä", "a/b", "$SYS"] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad:?}");
            let json = serde_json::to_string(bad).unwrap();
            assert!(serde_json::from_str::<RunId>(&json).is_err(), "{bad:?}");
        }
        assert!("x".repeat(65).parse::<AgentName>().is_err());
        let name: AgentName = "web-1_a".parse().unwrap();
        assert_eq!(name.orders_subject(), "prony.agent.web-1_a.do");
    }

    #[test]
    fn every_host_name_makes_a_valid_agent_name() {
        assert_eq!(
            AgentName::from_hostname("web1.example.org").as_str(),
            "web1-example-org"
        );
        assert_eq!(AgentName::from_hostname("").as_str(), "agent");
        for host in ["ÄÖ", "...", &"y".repeat(300)] {
            AgentName::from_hostname(host)
                .as_str()
                .parse::<AgentName>()
                .unwrap();
        }
    }

    #[test]
    fn runs_sort_by_their_time() {
        let at = |s| RunId::new(std::time::UNIX_EPOCH + std::time::Duration::from_secs(s));
        let (one, two) = (at(1_700_000_000), at(1_700_000_001));
        assert!(one < two && one.as_str().starts_with("20231114221320-"));
        // Runs that start within the same second sort by milliseconds.
        let ms = |ms| RunId::new(std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms));
        assert!(ms(1_007) < ms(1_100) && ms(1_100) < ms(1_999) && ms(1_999) < ms(2_000));
        assert_ne!(at(0), at(0));
        one.as_str().parse::<RunId>().unwrap();
    }
}
