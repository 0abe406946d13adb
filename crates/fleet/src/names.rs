//! Names of agents and runs, and the subjects and keys that are made of them.
//!
//! What a role may do is said in subjects ([`crate::permissions`]), so a name is nothing that could
//! mean two of them: no dots, no wildcards.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name.
const LONGEST: usize = 64;

/// The bucket in which agents are registered.
pub const AGENTS: &str = "prony_agents";
/// The bucket of runs' leases.
pub const LEASES: &str = "prony_leases";
/// The bucket of runs: what was asked of whom.
pub const RUNS: &str = "prony_runs";
/// The stream of results.
pub const RESULTS: &str = "PRONY_RESULTS";

/// An agent's name: letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName(String);

/// A run's name, of the same letters; those of later runs sort behind those of earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// An enrollment token's name, of the same letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

/// A text that is no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadName(String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no name: up to {LONGEST} letters, digits, - and _",
            self.0
        )
    }
}

impl std::error::Error for BadName {}

fn checked(text: String) -> Result<String, BadName> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !text.is_empty() && text.len() <= LONGEST && text.chars().all(is_good) {
        true => Ok(text),
        false => Err(BadName(text)),
    }
}

macro_rules! name {
    ($name:ident) => {
        impl $name {
            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<$name, BadName> {
                $name::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<$name, BadName> {
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
    /// A name out of a host's: what can't be in a name becomes `-`.
    pub fn of_host(host: &str) -> AgentName {
        let name: String = host
            .chars()
            .take(LONGEST)
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        match name.is_empty() {
            true => AgentName("agent".to_owned()),
            false => AgentName(name),
        }
    }

    /// Stands for a name that has not been read from a key or subject yet.
    pub(crate) fn unknown() -> AgentName {
        AgentName("unknown".to_owned())
    }

    /// Where it is told what to do.
    pub fn orders(&self) -> String {
        format!("prony.agent.{self}.do")
    }

    /// Where it tells the time.
    pub fn clock(&self) -> String {
        format!("prony.agent.{self}.clock")
    }

    /// Where those who have this name find each other: two of them are one too many.
    pub fn namesakes(&self) -> String {
        format!("prony.agent.{self}.namesakes")
    }

    /// Where it sends what it measured in a run.
    pub fn results(&self, run: &RunId) -> String {
        format!("prony.result.{self}.{run}")
    }

    /// Below which answers to its own questions come.
    pub fn inbox(&self) -> String {
        format!("_INBOX_agent_{self}")
    }
}

impl TokenId {
    /// A name out of a random number.
    pub fn of_number(number: u64) -> TokenId {
        TokenId(format!("{number:016x}"))
    }

    /// Subject at which agents with this token ask to be enrolled.
    pub fn requests(&self) -> String {
        format!("prony.enroll.{self}")
    }
}

impl RunId {
    /// A new one: the time to the millisecond, of which the last three hexadecimal digits of it stand after
    /// the `-`, so that they sort, and something that two runs of a millisecond don't share.
    pub fn new(now: std::time::SystemTime) -> RunId {
        let time = humantime::format_rfc3339_seconds(now).to_string();
        let time: String = time.chars().filter(char::is_ascii_digit).collect();
        let since = now.duration_since(std::time::UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.subsec_millis());
        let random: u32 = rand::random_range(0..1 << 20);
        RunId(format!("{time}-{ms:03x}{random:05x}"))
    }

    /// Where all agents' results of the run come.
    pub fn all_results(&self) -> String {
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
        assert_eq!(name.orders(), "prony.agent.web-1_a.do");
    }

    #[test]
    fn a_host_has_a_name_whatever_it_is_called() {
        assert_eq!(
            AgentName::of_host("web1.example.org").as_str(),
            "web1-example-org"
        );
        assert_eq!(AgentName::of_host("").as_str(), "agent");
        for host in ["ÄÖ", "...", &"y".repeat(300)] {
            AgentName::of_host(host)
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
        // Of a second's runs the later one is the newer.
        let ms = |ms| RunId::new(std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms));
        assert!(ms(1_007) < ms(1_100) && ms(1_100) < ms(1_999) && ms(1_999) < ms(2_000));
        assert_ne!(at(0), at(0));
        one.as_str().parse::<RunId>().unwrap();
    }
}
