//! Errors of a coordinator.

use std::fmt;

use super::choice::ChoiceError;
use super::files::NamedFileError;
use super::sources::SourceDivisionError;
use crate::division::DivisionError;
use crate::link::LinkError;
use crate::names::{AgentName, RunId};
use crate::wire::Reply;

/// Reason why a coordinator could not carry out a request. No load is running in this case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetError {
    /// Communication with the NATS server failed.
    Link(LinkError),
    /// The selected agents are missing or busy.
    Agents(ChoiceError),
    /// The request itself is invalid.
    Wrong(String),
    /// A file that the settings name can't be sent to the agents.
    File(NamedFileError),
    /// The source addresses can't be divided among the agents.
    Sources(SourceDivisionError),
    /// The policy of an agent forbids the load.
    Refused {
        /// Name of the agent.
        agent: AgentName,
        /// Policy rule, such as `load.targets`.
        rule: String,
        /// The requested value, and the values that the rule allows.
        text: String,
    },
    /// An agent rejected the request as invalid.
    AgentSays {
        /// Name of the agent.
        agent: AgentName,
        /// The agent's message.
        text: String,
    },
    /// An agent is in use by another run or experiment.
    Busy {
        /// Name of the agent.
        agent: AgentName,
        /// Run or experiment that uses the agent, with its forecast end if known.
        text: String,
    },
    /// An agent can't carry out the request, or doesn't respond.
    Agent {
        /// Name of the agent.
        agent: AgentName,
        /// Reason given by the agent or, without a reply, the reason why none arrived.
        text: String,
    },
    /// The error bound of an agent's clock is too large.
    ClockBound {
        /// Name of the agent.
        agent: AgentName,
        /// Error bound of the agent's clock, in nanoseconds.
        bound_ns: u64,
        /// Maximum accepted error bound, in nanoseconds.
        allowed_ns: u64,
    },
    /// The run with this ID doesn't exist. Without an ID: no runs exist.
    NoRun(Option<RunId>),
    /// The run has no results.
    Empty {
        /// ID of the run.
        run: RunId,
        /// Reason why there are no results.
        text: String,
    },
    /// The load was canceled before its start.
    Canceled,
    /// The user stopped watching this run, which continues under another coordinator.
    Detached(RunId),
}

impl FleetError {
    /// Converts an unexpected reply into an error.
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
                    text: "the agent sent an unexpected reply".to_owned(),
                }
            }
        }
    }

    /// Converts a missing reply into an error.
    pub(super) fn of_silence(agent: &AgentName, error: LinkError) -> FleetError {
        let text = match error {
            LinkError::NoResponders(_) => "no longer connected".to_owned(),
            LinkError::Timeout { .. } => "no response".to_owned(),
            other => other.to_string(),
        };
        FleetError::Agent {
            agent: agent.clone(),
            text,
        }
    }

    /// Returns true if the request is to blame, rather than a machine or the network.
    pub fn is_wrong(&self) -> bool {
        matches!(
            self,
            FleetError::Wrong(_)
                | FleetError::File(_)
                | FleetError::Sources(_)
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
            FleetError::File(error) => error.fmt(f),
            FleetError::Sources(error) => error.fmt(f),
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
                    "agent {agent}: its clock may be off by {:.3} ms, but the limit is {:.3} ms (raise --clock-bound, or use a NATS server with shorter round trips)",
                    ms(*bound_ns),
                    ms(*allowed_ns)
                )
            }
            FleetError::NoRun(Some(run)) => {
                write!(
                    f,
                    "run {run} is not on the server, which keeps runs for a week"
                )
            }
            FleetError::NoRun(None) => f.write_str("the server has no runs"),
            FleetError::Empty { run, text } => write!(f, "run {run}: {text}"),
            FleetError::Canceled => f.write_str("the load was canceled before its start"),
            FleetError::Detached(run) => write!(
                f,
                "detached from run {run}, which continues under its own coordinator"
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
