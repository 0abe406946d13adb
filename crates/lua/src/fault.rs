//! Describes errors of scripts.

use std::fmt;
use std::time::Duration;

use prony_record::number;

/// A script's error message, with its position if Lua reports one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFault {
    text: String,
    is_interrupt: bool,
}

/// The error with which prony stops a script.
#[derive(Debug)]
pub(crate) struct StoppedScript {
    /// Position of the error, as file and line.
    pub(crate) position: String,
    pub(crate) cause: StopCause,
}

/// The reason why a script is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// The load was interrupted.
    Interrupt,
    /// A call of the script took longer than this limit.
    TooLong(Duration),
}

impl fmt::Display for StoppedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            StopCause::Interrupt => write!(f, "{}: interrupted", self.position),
            StopCause::TooLong(limit) => write!(
                f,
                "{}: the call did not return within {}; it may be an endless loop",
                self.position,
                number::span(limit.as_secs_f64())
            ),
        }
    }
}

impl std::error::Error for StoppedScript {}

impl fmt::Display for ScriptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Name of prony's own code in error positions, which distinguishes it from the script's.
pub(crate) const OWN_CHUNK: &str = "wrk";

impl ScriptFault {
    /// Creates an error from its message.
    pub(crate) fn new(text: String) -> ScriptFault {
        ScriptFault {
            text,
            is_interrupt: false,
        }
    }

    /// Returns true if the script was stopped because the load was interrupted.
    pub fn is_interrupt(&self) -> bool {
        self.is_interrupt
    }

    /// Converts a Lua error. If a function of this crate raised the error, Lua's message has no
    /// position, so the innermost line of Lua code on the stack is used.
    pub(super) fn of(error: &mlua::Error) -> ScriptFault {
        let mut place = None;
        let mut cause = error;
        while let mlua::Error::CallbackError {
            traceback,
            cause: inner,
        } = cause
        {
            place = place.or_else(|| innermost(traceback));
            cause = inner;
        }
        if let Some(stopped) = cause.downcast_ref::<StoppedScript>() {
            return ScriptFault {
                text: stopped.to_string(),
                is_interrupt: stopped.cause == StopCause::Interrupt,
            };
        }
        let text = match cause {
            mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => {
                text.clone()
            }
            other => other.to_string(),
        };
        let text = match text.split_once("\nstack traceback:") {
            Some((text, _)) => text.to_owned(),
            None => text,
        };
        ScriptFault::new(match place {
            Some(place) => format!("{place}: {text}"),
            None => text,
        })
    }
}

/// Returns the first `file:line` of a traceback that is not in prony's own code.
fn innermost(traceback: &str) -> Option<String> {
    traceback.lines().find_map(|line| {
        let (place, _) = line.trim_start().split_once(": in ")?;
        let (file, number) = place.rsplit_once(':')?;
        let is_line = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_line && file != OWN_CHUNK).then(|| place.to_owned())
    })
}
