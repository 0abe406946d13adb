//! Why a fleet gave no record.

use std::fmt;

use super::choice::ChoiceError;
use crate::division::DivisionError;
use crate::link::LinkError;
use crate::messages::Reply;
use crate::names::{AgentName, RunId};

/// Why a fleet did not do what was asked of it. No load runs then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetError {
    /// The NATS server.
    Link(LinkError),
    /// There are no such agents, or too few, or they are busy.
    Agents(ChoiceError),
    /// What was asked is wrong, whoever is to do it.
    Wrong(String),
    /// An agent's policy refuses it.
    Refused {
        /// The agent.
        agent: AgentName,
        /// The rule, such as `load.targets`.
        rule: String,
        /// What was asked, and what the rule allows.
        text: String,
    },
    /// An agent says that what was asked is wrong.
    AgentSays {
        /// The agent.
        agent: AgentName,
        /// What.
        text: String,
    },
    /// Somebody else has an agent.
    Busy {
        /// The agent.
        agent: AgentName,
        /// Who has it, and until when, as far as that is known.
        text: String,
    },
    /// An agent can't do it, or is gone.
    Agent {
        /// The agent.
        agent: AgentName,
        /// Why.
        text: String,
    },
    /// An agent's clock is not known well enough.
    ClockBound {
        /// The agent.
        agent: AgentName,
        /// The error that its clock may have, in nanoseconds.
        bound_ns: u64,
        /// The error that is borne.
        allowed_ns: u64,
    },
    /// There is no such run, or none at all.
    NoRun(Option<RunId>),
    /// Nothing was measured in a run.
    Empty {
        /// The run.
        run: RunId,
        /// What became of it.
        text: String,
    },
    /// It was called off before it began.
    CalledOff,
    /// The user stopped watching a run that another coordinator leads; it goes on.
    Detached(RunId),
}

impl FleetError {
    /// What an agent's reply means that is not the one hoped for.
    pub(super) fn of_reply(agent: &AgentName, reply: Reply) -> FleetError {
        let agent = agent.clone();
        match reply {
            Reply::Refused { rule, text } => FleetError::Refused { agent, rule, text },
            Reply::Busy { text } => FleetError::Busy { agent, text },
            Reply::Wrong { text } => FleetError::AgentSays { agent, text },
            Reply::Environment { text } => FleetError::Agent { agent, text },
            Reply::Done | Reply::Ready(_) | Reply::Checked(_) | Reply::Host(_) => {
                FleetError::Agent {
                    agent,
                    text: "it answered something else than it was asked".to_owned(),
                }
            }
        }
    }

    /// What it means that an agent gave no answer.
    pub(super) fn of_silence(agent: &AgentName, error: LinkError) -> FleetError {
        let text = match error {
            LinkError::NobodyThere(_) => "it is not there any more".to_owned(),
            LinkError::Silent { .. } => "it doesn't answer".to_owned(),
            other => other.to_string(),
        };
        FleetError::Agent {
            agent: agent.clone(),
            text,
        }
    }

    /// Whether what was asked is at fault, and not a machine.
    pub fn is_wrong(&self) -> bool {
        matches!(
            self,
            FleetError::Wrong(_)
                | FleetError::AgentSays { .. }
                | FleetError::NoRun(_)
                | FleetError::Link(LinkError::Credentials(_))
        )
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FleetError::Link(error) => error.fmt(f),
            FleetError::Agents(error) => error.fmt(f),
            FleetError::Wrong(text) => f.write_str(text),
            FleetError::Refused { agent, rule, text } => {
                write!(f, "agent {agent}: rejected by policy rule {rule}: {text}")
            }
            FleetError::AgentSays { agent, text }
            | FleetError::Agent { agent, text }
            | FleetError::Busy { agent, text } => {
                write!(f, "agent {agent}: {text}")
            }
            FleetError::ClockBound {
                agent,
                bound_ns,
                allowed_ns,
            } => {
                let ms = |ns: u64| ns as f64 / 1e6;
                write!(
                    f,
                    "agent {agent}: its clock is known to within {:.3} ms only, and {:.3} ms is the \
                     most (--clock-bound): the way there takes too long for a common start",
                    ms(*bound_ns),
                    ms(*allowed_ns)
                )
            }
            FleetError::NoRun(Some(run)) => {
                write!(f, "there is no run {run}; the server keeps them for a week")
            }
            FleetError::NoRun(None) => f.write_str("the server knows of no run"),
            FleetError::Empty { run, text } => write!(f, "run {run}: {text}"),
            FleetError::CalledOff => {
                f.write_str("the load was called off before it began; no agent makes any")
            }
            FleetError::Detached(run) => write!(
                f,
                "detached from run {run}, which goes on under its own coordinator"
            ),
        }
    }
}

impl std::error::Error for FleetError {}

impl From<LinkError> for FleetError {
    fn from(error: LinkError) -> FleetError {
        FleetError::Link(error)
    }
}

impl From<ChoiceError> for FleetError {
    fn from(error: ChoiceError) -> FleetError {
        FleetError::Agents(error)
    }
}

impl From<DivisionError> for FleetError {
    fn from(error: DivisionError) -> FleetError {
        FleetError::Wrong(error.to_string())
    }
}
