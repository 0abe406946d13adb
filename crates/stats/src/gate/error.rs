//! Parse error of a gate.

use std::fmt;

/// Parse error of a gate, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateError {
    pub(super) input: String,
    /// Start of the error in `input`, in bytes. `to` is its end.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Description of the error, with the accepted alternatives.
    pub what: String,
}

/// Prints the message, followed by the condition with the error underlined.
impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.input[..self.from].chars().count();
        let length = self.input[self.from..self.to].chars().count().max(1);
        write!(
            f,
            "{}\n  {}\n  {}{}",
            self.what,
            self.input,
            " ".repeat(before),
            "^".repeat(length)
        )
    }
}

impl std::error::Error for GateError {}
