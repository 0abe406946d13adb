//! Reasons why an agent can't start or can't continue.

use std::fmt;

use crate::credentials::CredentialsError;
use crate::names::AgentName;

/// Reason why an agent can't start or can't continue.
#[derive(Debug)]
pub enum AgentError {
    /// The credentials, the server's address or another setting is wrong.
    Wrong(String),
    /// A credentials file can't be used.
    Credentials(CredentialsError),
    /// The agent's key can't be used.
    Key(nkeys::error::Error),
    /// No key can be generated for the agent.
    NewKey(nkeys::error::Error),
    /// The machine or the server refused an operation.
    Environment(String),
    /// Another agent of this name is connected.
    NameTaken {
        /// Name of both agents.
        name: AgentName,
        /// Host name of the other agent's machine.
        host: String,
    },
    /// The agent was stopped before it was connected.
    Interrupted,
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::Wrong(text) | AgentError::Environment(text) => f.write_str(text),
            AgentError::Credentials(error) => error.fmt(f),
            AgentError::Key(error) => write!(f, "can't use the key: {error}"),
            AgentError::NewKey(error) => error.fmt(f),
            AgentError::NameTaken { name, host } => write!(
                f,
                "another agent is connected as {name}, on {host}; stop the other agent, or use different credentials here"
            ),
            AgentError::Interrupted => f.write_str("the agent was stopped before it was connected"),
        }
    }
}

impl std::error::Error for AgentError {}
