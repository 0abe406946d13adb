//! Which agents make a load.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::messages::{Registration, VERSION};
use crate::names::{AgentName, RunId};

/// An agent that is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// What it says about itself.
    pub agent: Registration,
    /// How long ago it said so last.
    pub age: Duration,
}

impl Listed {
    /// Why it can't take part in a run now; none where it can.
    pub fn hindrance(&self) -> Option<String> {
        if self.agent.version != VERSION {
            return Some(format!(
                "is of version {}, and this is {VERSION}",
                self.agent.version
            ));
        }
        if let Some(absurdity) = self.agent.absurdity() {
            return Some(absurdity);
        }
        if let Some(reservation) = &self.agent.reserved {
            return Some(format!("is {reservation}"));
        }
        let busy = self.agent.busy_with.as_ref();
        busy.map(|run| format!("is busy with run {run}"))
    }

    /// Takes the agent for free if nothing but this run has it.
    pub(super) fn forget_run(&mut self, run: Option<&RunId>) {
        let agent = &mut self.agent;
        agent.busy_with.take_if(|busy| Some(&*busy) == run);
        agent
            .reserved
            .take_if(|reserved| Some(&reserved.run) == run);
    }
}

/// `--agents`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// All that are there.
    All,
    /// This many, the first by name that are free.
    Count(usize),
    /// This many of those that have these labels.
    CountOf(usize, BTreeMap<String, String>),
    /// All that have these labels.
    Labels(BTreeMap<String, String>),
    /// These.
    Names(Vec<AgentName>),
}

impl FromStr for Choice {
    type Err = String;

    /// `N`, `KEY=VALUE,…`, `N@KEY=VALUE,…` or `NAME,…`.
    fn from_str(text: &str) -> Result<Choice, String> {
        let count = |text: &str| match text.parse::<usize>() {
            Ok(0) => Some(Err("a load needs an agent".to_owned())),
            Ok(count) => Some(Ok(count)),
            Err(_) => None,
        };
        if let Some(count) = count(text) {
            return Ok(Choice::Count(count?));
        }
        if let Some((number, labels)) = text.split_once('@') {
            let count = count(number).ok_or_else(|| {
                format!("{number:?} is no number of agents; write N@KEY=VALUE, such as 4@site=west")
            })??;
            return match labels.parse()? {
                Choice::Labels(labels) => Ok(Choice::CountOf(count, labels)),
                _ => Err(format!(
                    "{labels:?} is no label; write N@KEY=VALUE, such as 4@site=west"
                )),
            };
        }
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.iter().all(|part| part.contains('=')) {
            let labels = parts.iter().filter_map(|part| part.split_once('='));
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            return Ok(Choice::Labels(labels.collect()));
        }
        if parts.iter().any(|part| part.contains('=')) {
            return Err("write names or labels, not both".to_owned());
        }
        let names = parts.iter().map(|part| part.parse::<AgentName>());
        let names: Vec<_> = names
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        match names.iter().collect::<BTreeSet<_>>().len() == names.len() {
            true => Ok(Choice::Names(names)),
            false => Err(format!("{text:?} names an agent twice")),
        }
    }
}

/// Why there are no agents for a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceError(String);

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ChoiceError {}

impl Choice {
    /// The agents that it means, whether they are free or not; those asked for by name in their order.
    ///
    /// # Errors
    ///
    /// Where one that was named isn't there, or there is none at all.
    pub fn among<'a>(&self, listed: &'a [Listed]) -> Result<Vec<&'a Listed>, ChoiceError> {
        let meant: Vec<&Listed> = match self {
            Choice::All | Choice::Count(_) => listed.iter().collect(),
            Choice::Labels(labels) | Choice::CountOf(_, labels) => listed
                .iter()
                .filter(|one| {
                    let has = |(key, value)| one.agent.labels.get(key) == Some(value);
                    labels.iter().all(has)
                })
                .collect(),
            Choice::Names(names) => {
                let find = |name: &AgentName| {
                    let found = listed.iter().find(|one| one.agent.name == *name);
                    found.ok_or_else(|| error(&format!("there is no agent {name}"), listed))
                };
                names.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        match (meant.is_empty(), self) {
            (false, _) => Ok(meant),
            (true, Choice::Labels(labels) | Choice::CountOf(_, labels)) => {
                let what = format!("no agent has the label {}", joined(labels));
                Err(error(&what, listed))
            }
            (true, _) => Err(error("no agent is registered", listed)),
        }
    }

    /// The agents that are to make a load: each is free and of this version.
    ///
    /// # Errors
    ///
    /// Where there are too few: who is there, and what keeps them.
    pub fn free<'a>(&self, listed: &'a [Listed]) -> Result<Vec<&'a Registration>, ChoiceError> {
        let meant = self.among(listed)?;
        if let Choice::Count(count) | Choice::CountOf(count, _) = self {
            let free = meant.iter().filter(|one| one.hindrance().is_none());
            let free: Vec<_> = free.map(|one| &one.agent).take(*count).collect();
            return match free.len() {
                there if there == *count => Ok(free),
                there => {
                    let with = match self {
                        Choice::CountOf(_, labels) => format!(" with the label {}", joined(labels)),
                        _ => String::new(),
                    };
                    let what = format!("{count} agents{with} were asked for, and {there} are free");
                    Err(error(&what, listed))
                }
            };
        }
        let hindered = meant.iter().find_map(|one| {
            let why = one.hindrance()?;
            Some(format!("agent {} {why}", one.agent.name))
        });
        match hindered {
            Some(why) => Err(error(&why, listed)),
            None => Ok(meant.into_iter().map(|one| &one.agent).collect()),
        }
    }
}

/// Labels in words.
fn joined(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    labels.join(" and ")
}

/// What is the matter, and who is there.
fn error(what: &str, listed: &[Listed]) -> ChoiceError {
    let there = listed.iter().map(|one| {
        let name = &one.agent.name;
        match one.hindrance() {
            Some(why) => format!("{name} ({why})"),
            None => name.to_string(),
        }
    });
    let there: Vec<String> = there.collect();
    ChoiceError(match there.is_empty() {
        true => format!("{what}; start some with `prony agent`"),
        false => format!("{what}; there are: {}", there.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, label: &str, busy: Option<&str>, version: &str) -> Listed {
        let (key, value) = label.split_once('=').unwrap();
        Listed {
            agent: Registration {
                schema: crate::messages::AGENT_SCHEMA.to_owned(),
                version: version.to_owned(),
                name: name.parse().unwrap(),
                instance: "i".to_owned(),
                labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
                cores: 2,
                addresses: Vec::new(),
                system: "Linux".to_owned(),
                host: name.to_owned(),
                open_files: 1024,
                clock: None,
                policy: String::new(),
                busy_with: busy.map(|run| run.parse().unwrap()),
                reserved: None,
                sending: BTreeSet::new(),
            },
            age: Duration::ZERO,
        }
    }

    fn four() -> Vec<Listed> {
        vec![
            listed("a", "site=x", None, VERSION),
            listed("b", "site=y", Some("r7"), VERSION),
            listed("c", "site=x", None, VERSION),
            listed("d", "site=z", None, "9.9.9"),
        ]
    }

    fn free(choice: &str) -> Result<Vec<String>, String> {
        let choice: Choice = choice.parse()?;
        let listed = four();
        let free = choice.free(&listed).map_err(|error| error.to_string())?;
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
    fn who_is_missing_and_what_keeps_the_others_is_said() {
        let there = "there are: a, b (is busy with run r7), c, d (is of version 9.9.9";
        for (choice, what) in [
            ("3", "3 agents were asked for, and 2 are free"),
            ("site=y", "agent b is busy with run r7"),
            ("site=z", "agent d is of version 9.9.9"),
            ("site=q", "no agent has the label site=q"),
            ("1@site=q", "no agent has the label site=q"),
            (
                "3@site=x",
                "3 agents with the label site=x were asked for, and 2 are free",
            ),
            ("a,e", "there is no agent e"),
        ] {
            let error = free(choice).unwrap_err();
            assert!(error.starts_with(what) && error.contains(there), "{error}");
        }
        let error = Choice::All.free(&[]).unwrap_err().to_string();
        assert!(error.contains("prony agent"), "{error}");
        for bad in [
            "0", "a,b=c", "a.b", "a,a", "", "0@a=b", "x@a=b", "2@", "2@a", "2@3@a=b",
        ] {
            assert!(bad.parse::<Choice>().is_err(), "{bad:?}");
        }
    }
}
