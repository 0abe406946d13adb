//! The reasons why an agent can't start or can't continue.

use std::fmt;

use crate::names::AgentName;

/// The reason why an agent can't start or can't continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentError {
    /// The agent's settings are wrong: the credentials, or the server's address.
    Wrong(String),
    /// The machine or the server does not permit it.
    Environment(String),
    /// Another agent of this name is connected.
    NameTaken {
        /// The name.
        name: AgentName,
        /// The other agent's machine.
        host: String,
    },
    /// The agent was stopped before it was connected.
    Interrupted,
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::Wrong(text) | AgentError::Environment(text) => f.write_str(text),
            AgentError::NameTaken { name, host } => write!(
                f,
                "another agent is connected as {name}, on {host}; stop that one, or give this one \
                 credentials of its own"
            ),
            AgentError::Interrupted => f.write_str("stopped before it was connected"),
        }
    }
}

impl std::error::Error for AgentError {}
