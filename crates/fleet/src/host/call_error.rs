//! Errors of calls to agents' machines.

use std::fmt;

use crate::link::LinkError;
use crate::wire::Reply;

/// Reason why a call has no result.
#[derive(Debug)]
pub(super) enum SessionCallError {
    /// The call or its reply can't be encoded.
    Json(serde_json::Error),
    /// The call or its reply was not delivered.
    Link(LinkError),
    /// The agent rejected the call with this text.
    Agent(String),
    /// The reply doesn't match the call.
    Unexpected(Box<Reply>),
}

impl fmt::Display for SessionCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionCallError::Json(error) => error.fmt(f),
            SessionCallError::Link(error) => error.fmt(f),
            SessionCallError::Agent(text) => f.write_str(text),
            SessionCallError::Unexpected(reply) => write!(f, "unexpected reply: {reply:?}"),
        }
    }
}

impl From<serde_json::Error> for SessionCallError {
    fn from(error: serde_json::Error) -> SessionCallError {
        SessionCallError::Json(error)
    }
}

impl From<LinkError> for SessionCallError {
    fn from(error: LinkError) -> SessionCallError {
        SessionCallError::Link(error)
    }
}
