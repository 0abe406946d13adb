//! Selects the agents for a load.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::names::{AgentName, InvalidName, RunId};
use crate::wire::{Registration, SenderVersion};

/// A registered agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedAgent {
    /// The agent's registration.
    pub agent: Registration,
    /// Time since the registration was written.
    pub age: Duration,
}

impl ListedAgent {
    /// Returns the reason why the agent can't take part in a run now, as the predicate of a
    /// sentence.
    pub fn unavailability(&self) -> Option<String> {
        if !self.agent.sender.is_own() {
            return Some(format!(
                "runs version {}, but this is version {}",
                self.agent.sender,
                SenderVersion::own()
            ));
        }
        if let Some(absurdity) = self.agent.implausibility() {
            return Some(absurdity);
        }
        if let Some(reservation) = &self.agent.reserved {
            return Some(format!("is {reservation}"));
        }
        let busy = self.agent.busy_with.as_ref();
        busy.map(|run| format!("is busy with run {run}"))
    }

    /// Returns true if the agent is taking part in a run or is reserved for an experiment.
    fn is_busy(&self) -> bool {
        self.agent.busy_with.is_some() || self.agent.reserved.is_some()
    }

    /// Treats the agent as free if it is busy with, or reserved for, `run`.
    pub(super) fn forget_run(&mut self, run: Option<&RunId>) {
        let agent = &mut self.agent;
        agent.busy_with.take_if(|busy| Some(&*busy) == run);
        agent
            .reserved
            .take_if(|reserved| Some(&reserved.run) == run);
    }
}

/// Selector of agents, as given with `--agents`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentChoice {
    /// All agents.
    All,
    /// This number of free agents, selected in the order of their names.
    Count(usize),
    /// This number of free agents with these labels.
    CountOf(usize, BTreeMap<String, String>),
    /// All agents with these labels.
    Labels(BTreeMap<String, String>),
    /// The agents with these names.
    Names(Vec<AgentName>),
}

/// Reason why a selector of agents is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidChoice {
    /// A load needs an agent.
    Zero,
    /// This is not a number of agents.
    NoNumber(String),
    /// This is not a label.
    NoLabel(String),
    /// The selector has names and labels.
    Mixed,
    /// A name is invalid.
    Name(InvalidName),
    /// The selector names an agent twice.
    Twice(String),
}

impl fmt::Display for InvalidChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidChoice::Zero => f.write_str("a load needs at least one agent"),
            InvalidChoice::NoNumber(text) => write!(
                f,
                "{text:?} is not a number of agents; write N@KEY=VALUE, such as 4@site=west"
            ),
            InvalidChoice::NoLabel(text) => write!(
                f,
                "{text:?} is not a label; write N@KEY=VALUE, such as 4@site=west"
            ),
            InvalidChoice::Mixed => f.write_str("write names or labels, not both"),
            InvalidChoice::Name(error) => error.fmt(f),
            InvalidChoice::Twice(text) => write!(f, "{text:?} names an agent twice"),
        }
    }
}

impl std::error::Error for InvalidChoice {}

impl FromStr for AgentChoice {
    type Err = InvalidChoice;

    /// Parses `N`, `KEY=VALUE,…`, `N@KEY=VALUE,…` or `NAME,…`.
    fn from_str(text: &str) -> Result<AgentChoice, InvalidChoice> {
        let count = |text: &str| match text.parse::<usize>() {
            Ok(0) => Some(Err(InvalidChoice::Zero)),
            Ok(count) => Some(Ok(count)),
            Err(_) => None,
        };
        if let Some(count) = count(text) {
            return Ok(AgentChoice::Count(count?));
        }
        if let Some((number, labels)) = text.split_once('@') {
            let count = count(number);
            let count = count.ok_or_else(|| InvalidChoice::NoNumber(number.to_owned()))??;
            return match labels.parse()? {
                AgentChoice::Labels(labels) => Ok(AgentChoice::CountOf(count, labels)),
                _ => Err(InvalidChoice::NoLabel(labels.to_owned())),
            };
        }
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.iter().all(|part| part.contains('=')) {
            let labels = parts.iter().filter_map(|part| part.split_once('='));
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            return Ok(AgentChoice::Labels(labels.collect()));
        }
        if parts.iter().any(|part| part.contains('=')) {
            return Err(InvalidChoice::Mixed);
        }
        let names = parts.iter().map(|part| part.parse::<AgentName>());
        let names: Vec<_> = names
            .collect::<Result<_, _>>()
            .map_err(InvalidChoice::Name)?;
        if names.iter().collect::<BTreeSet<_>>().len() == names.len() {
            Ok(AgentChoice::Names(names))
        } else {
            Err(InvalidChoice::Twice(text.to_owned()))
        }
    }
}

/// Error for a selector that doesn't match enough usable agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceError {
    text: String,
    is_busy: bool,
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ChoiceError {}

impl ChoiceError {
    /// Returns true if the problem is temporary: an agent is busy or reserved, and may become free.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }
}

impl AgentChoice {
    /// Returns the selected agents, whether or not they are free. Agents selected by name keep the
    /// order of the selector.
    ///
    /// # Errors
    ///
    /// Returns an error if a named agent is missing, or no agent is selected.
    pub fn among<'a>(
        &self,
        listed: &'a [ListedAgent],
    ) -> Result<Vec<&'a ListedAgent>, ChoiceError> {
        let meant: Vec<&ListedAgent> = match self {
            AgentChoice::All | AgentChoice::Count(_) => listed.iter().collect(),
            AgentChoice::Labels(labels) | AgentChoice::CountOf(_, labels) => listed
                .iter()
                .filter(|one| {
                    let has = |(key, value)| one.agent.labels.get(key) == Some(value);
                    labels.iter().all(has)
                })
                .collect(),
            AgentChoice::Names(names) => {
                let find = |name: &AgentName| {
                    let found = listed.iter().find(|one| one.agent.name == *name);
                    found.ok_or_else(|| error(&format!("there is no agent {name}"), listed, false))
                };
                names.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        match (meant.is_empty(), self) {
            (false, _) => Ok(meant),
            (true, AgentChoice::Labels(labels) | AgentChoice::CountOf(_, labels)) => {
                let what = format!("no agent has the label {}", joined(labels));
                Err(error(&what, listed, false))
            }
            (true, _) => Err(error("no agent is registered", listed, false)),
        }
    }

    /// Returns the selected agents that can generate a load now because they are free and have this
    /// version of prony.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too few free agents. The error lists the registered agents,
    /// and the reasons why some of them can't be used.
    pub fn free<'a>(
        &self,
        listed: &'a [ListedAgent],
    ) -> Result<Vec<&'a Registration>, ChoiceError> {
        let meant = self.among(listed)?;
        if let AgentChoice::Count(count) | AgentChoice::CountOf(count, _) = self {
            let free = meant.iter().filter(|one| one.unavailability().is_none());
            let free: Vec<_> = free.map(|one| &one.agent).take(*count).collect();
            return match free.len() {
                there if there == *count => Ok(free),
                there => {
                    let with = match self {
                        AgentChoice::CountOf(_, labels) => {
                            format!(" with the label {}", joined(labels))
                        }
                        _ => String::new(),
                    };
                    let what =
                        format!("too few free agents{with}: {count} requested, {there} free");
                    let is_busy = meant.iter().any(|one| one.is_busy());
                    Err(error(&what, listed, is_busy))
                }
            };
        }
        let hindered = meant.iter().find_map(|one| {
            let why = one.unavailability()?;
            Some((format!("agent {} {why}", one.agent.name), one.is_busy()))
        });
        match hindered {
            Some((why, is_busy)) => Err(error(&why, listed, is_busy)),
            None => Ok(meant.into_iter().map(|one| &one.agent).collect()),
        }
    }
}

/// Formats labels as text.
fn joined(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    labels.join(" and ")
}

/// Creates an error that lists the registered agents.
fn error(what: &str, listed: &[ListedAgent], is_busy: bool) -> ChoiceError {
    let there = listed.iter().map(|one| {
        let name = &one.agent.name;
        match one.unavailability() {
            Some(why) => format!("{name} ({why})"),
            None => name.to_string(),
        }
    });
    let there: Vec<String> = there.collect();
    let text = if there.is_empty() {
        format!("{what}; start agents with `prony agent`")
    } else {
        format!("{what}; registered agents: {}", there.join(", "))
    };
    ChoiceError { text, is_busy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PRONY_VERSION;

    fn listed(name: &str, label: &str, busy: Option<&str>, version: &str) -> ListedAgent {
        let (key, value) = label.split_once('=').unwrap();
        ListedAgent {
            agent: Registration {
                sender: SenderVersion {
                    prony: version.to_owned(),
                    ..SenderVersion::own()
                },
                labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
                busy_with: busy.map(|run| run.parse().unwrap()),
                ..Registration::new(name.parse().unwrap())
            },
            age: Duration::ZERO,
        }
    }

    fn four() -> Vec<ListedAgent> {
        vec![
            listed("a", "site=x", None, PRONY_VERSION),
            listed("b", "site=y", Some("r7"), PRONY_VERSION),
            listed("c", "site=x", None, PRONY_VERSION),
            listed("d", "site=z", None, "9.9.9"),
        ]
    }

    fn free(choice: &str) -> Result<Vec<String>, ChoiceError> {
        let choice: AgentChoice = choice.parse().unwrap();
        let listed = four();
        let free = choice.free(&listed)?;
        Ok(free.iter().map(|one| one.name.to_string()).collect())
    }

    #[test]
    fn agents_are_chosen_by_number_label_or_name() {
        let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(free("2"), names(&["a", "c"]));
        assert_eq!(free("site=x"), names(&["a", "c"]));
        assert_eq!(free("c,a"), names(&["c", "a"]));
        assert_eq!(free("c"), names(&["c"]));
        assert_eq!(free("1@site=x"), names(&["a"]));
        assert_eq!(free("2@site=x"), names(&["a", "c"]));
    }

    #[test]
    fn errors_name_missing_and_busy_agents() {
        let there = "registered agents: a, b (is busy with run r7), c, d (runs version 9.9.9";
        for (choice, what) in [
            ("3", "too few free agents: 3 requested, 2 free"),
            ("site=y", "agent b is busy with run r7"),
            ("site=z", "agent d runs version 9.9.9"),
            ("site=q", "no agent has the label site=q"),
            ("1@site=q", "no agent has the label site=q"),
            (
                "3@site=x",
                "too few free agents with the label site=x: 3 requested, 2 free",
            ),
            ("a,e", "there is no agent e"),
        ] {
            let error = free(choice).unwrap_err().to_string();
            assert!(error.starts_with(what) && error.contains(there), "{error}");
        }
        let error = AgentChoice::All.free(&[]).unwrap_err().to_string();
        assert!(error.contains("prony agent"), "{error}");
        for bad in [
            "0", "a,b=c", "a.b", "a,a", "", "0@a=b", "x@a=b", "2@", "2@a", "2@3@a=b",
        ] {
            assert!(bad.parse::<AgentChoice>().is_err(), "{bad:?}");
        }
    }
}
