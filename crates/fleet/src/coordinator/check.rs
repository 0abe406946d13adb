//! Whether agents could make a load, looked at from here and from each of them.

use std::time::Duration;

use prony_load::LoadOptions;
use prony_record::Finding;

use super::choice::{Choice, Listed};
use super::error::FleetError;
use super::{Fleet, orders};
use crate::clock::Offset;
use crate::division::Stretch;
use crate::messages::{Load, Reply, What};
use crate::names::{AgentName, RunId};

/// How long an agent may take to see whether the target answers.
const LOOK: Duration = Duration::from_secs(30);

/// What was seen of one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedAgent {
    /// What it says about itself.
    pub listed: Listed,
    /// Its clock.
    pub clock: ClockCheck,
    /// Whether the target answers it; none where no target was given.
    pub target: Option<TargetCheck>,
}

/// An agent's clock against this machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockCheck {
    /// It is known well enough.
    Known(Offset),
    /// It is known, and not well enough for a common start.
    TooCoarse(Offset),
    /// It can't be compared.
    Unknown(String),
}

/// Whether the target answers an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetCheck {
    /// It does.
    Answers {
        /// How, in a few words.
        answer: String,
        /// What may go wrong even so.
        forecast: Vec<Finding>,
    },
    /// It doesn't, or the agent may not ask it; why.
    Fails(String),
}

impl CheckedAgent {
    /// Whether something is wrong with it.
    pub fn is_wrong(&self) -> bool {
        self.listed.hindrance().is_some()
            || !matches!(self.clock, ClockCheck::Known(_))
            || matches!(self.target, Some(TargetCheck::Fails(_)))
    }
}

impl Fleet {
    /// Looks at agents: their versions, their clocks, and whether a target answers each of them.
    ///
    /// # Errors
    ///
    /// Where there are no such agents; see [`FleetError`].
    pub fn check(
        &self,
        choice: &Choice,
        url: Option<&str>,
        clock_bound: Duration,
    ) -> Result<Vec<CheckedAgent>, FleetError> {
        let listed = self.agents()?;
        let mut meant = choice.among(&listed)?;
        if let Choice::Count(count) = choice {
            meant.truncate(*count);
        }
        let names: Vec<&AgentName> = meant.iter().map(|one| &one.agent.name).collect();
        let clocks = orders::clocks(&self.link, &self.clock, &names);
        let clocks = clocks.into_iter().map(|offset| match offset {
            Ok(offset) if Duration::from_nanos(offset.bound_ns) > clock_bound => {
                ClockCheck::TooCoarse(offset)
            }
            Ok(offset) => ClockCheck::Known(offset),
            Err(FleetError::Agent { text, .. }) => ClockCheck::Unknown(text),
            Err(error) => ClockCheck::Unknown(error.to_string()),
        });
        let targets = match url {
            Some(url) => self.targets(&names, url)?.into_iter().map(Some).collect(),
            None => vec![None; names.len()],
        };
        let each = meant.iter().zip(clocks).zip(targets);
        let checked = each.map(|((listed, clock), target)| CheckedAgent {
            listed: (*listed).clone(),
            clock,
            target,
        });
        Ok(checked.collect())
    }

    fn targets(&self, names: &[&AgentName], url: &str) -> Result<Vec<TargetCheck>, FleetError> {
        let run = RunId::new(std::time::SystemTime::now());
        // Each is asked as if it were to load alone, with as few connections as there can be.
        let load = Load {
            url: Some(url.to_owned()),
            words: words_of_environment(),
            stretch: Stretch {
                first: 0,
                workers: 1,
                of: 1,
            },
            lease_ms: 0,
        };
        let replies = orders::give_all(&self.link, &run, names, &What::Check(load), LOOK);
        let read = names.iter().zip(replies).map(|(name, reply)| match reply {
            Ok(Reply::Checked(checked)) => match checked.target {
                Ok(answer) => TargetCheck::Answers {
                    answer,
                    forecast: checked.forecast,
                },
                Err(why) => TargetCheck::Fails(why),
            },
            Ok(Reply::Refused { rule, text }) => {
                TargetCheck::Fails(format!("rejected by policy rule {rule}: {text}"))
            }
            Ok(Reply::Wrong { text } | Reply::Environment { text }) => TargetCheck::Fails(text),
            Ok(other) => TargetCheck::Fails(FleetError::of_reply(name, other).to_string()),
            Err(error) => match FleetError::of_silence(name, error) {
                FleetError::Agent { text, .. } => TargetCheck::Fails(text),
                other => TargetCheck::Fails(other.to_string()),
            },
        });
        Ok(read.collect())
    }
}

/// `PRONY_PUBLIC` counts for agents, too, as far as their policies allow.
fn words_of_environment() -> Vec<String> {
    match LoadOptions::default().public {
        true => vec!["--public".to_owned(), "--connections=1".to_owned()],
        false => vec!["--connections=1".to_owned()],
    }
}
