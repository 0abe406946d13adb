//! Checks whether agents could generate a load.

use std::time::Duration;

use prony_load::LoadSettings;
use prony_record::Finding;

use super::choice::{AgentChoice, ListedAgent};
use super::error::FleetError;
use super::fleet::Fleet;
use super::orders;
use crate::clock::ClockOffset;
use crate::division::AgentShard;
use crate::names::{AgentName, RunId};
use crate::wire::{Command, LoadOrder, Reply};

/// Timeout for an agent to check the target.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Result of checking one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedAgent {
    /// Registration of the agent.
    pub listed: ListedAgent,
    /// Result of comparing the agent's clock with this machine's clock.
    pub clock: ClockCheck,
    /// Result of connecting to the target; `None` if no target was given.
    pub target: Option<TargetCheck>,
}

/// Result of comparing an agent's clock with this machine's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockCheck {
    /// The offset is known precisely enough.
    Known(ClockOffset),
    /// The offset is known, but not precisely enough for a simultaneous start.
    TooCoarse(ClockOffset),
    /// The clock could not be compared.
    Unknown(String),
}

/// Result of connecting from an agent to the target.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetCheck {
    /// The target responds.
    Answers {
        /// Summary of the response.
        answer: String,
        /// Problems predicted for a load, even though the target responds.
        forecast: Vec<Finding>,
    },
    /// The target doesn't respond, or the policy forbids it. Contains the reason.
    Fails(String),
}

impl CheckedAgent {
    /// Returns true if the agent can't generate a load now.
    pub fn is_wrong(&self) -> bool {
        self.listed.unavailability().is_some()
            || !matches!(self.clock, ClockCheck::Known(_))
            || matches!(self.target, Some(TargetCheck::Fails(_)))
    }
}

impl Fleet {
    /// Checks agents: their versions, their clocks, and whether they get a response from the
    /// target.
    ///
    /// # Errors
    ///
    /// Returns an error if no agent matches `choice`; see [`FleetError`].
    pub fn check(
        &self,
        choice: &AgentChoice,
        url: Option<&str>,
        clock_bound: Duration,
    ) -> Result<Vec<CheckedAgent>, FleetError> {
        let listed = self.agents()?;
        let mut meant = choice.among(&listed)?;
        if let AgentChoice::Count(count) = choice {
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
        // Each agent checks a separate load, which has one connection.
        let load = LoadOrder {
            url: Some(url.to_owned()),
            settings: check_settings(),
            shard: AgentShard {
                first: 0,
                workers: 1,
                of: 1,
            },
            lease_ms: 0,
        };
        let replies = orders::send_all(
            &self.link,
            &run,
            names,
            &Command::Check(load),
            CHECK_TIMEOUT,
        );
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

/// Returns the options of the check. As for loads, `PRONY_PUBLIC` permits public targets if the
/// agents' policies allow them.
fn check_settings() -> LoadSettings {
    LoadSettings {
        connections: Some(1),
        ..LoadSettings::from_environment()
    }
}
