//! Describes errors of scripts.

use std::fmt;

/// A script's error message, with its position if Lua reports one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFault(pub(crate) String);

impl fmt::Display for ScriptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ScriptFault {
    /// Converts an error. If one of our functions raised it, Lua's message has no position, and the
    /// innermost line of Lua on the stack is used.
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
        ScriptFault(match place {
            Some(place) => format!("{place}: {text}"),
            None => text,
        })
    }
}

/// The first `file:line` of a traceback, except those of the prelude.
fn innermost(traceback: &str) -> Option<String> {
    traceback.lines().find_map(|line| {
        let (place, _) = line.trim_start().split_once(": in ")?;
        let (file, number) = place.rsplit_once(':')?;
        let is_line = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_line && file != "wrk").then(|| place.to_owned())
    })
}
