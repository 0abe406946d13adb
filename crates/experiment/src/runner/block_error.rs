//! Failure of an interleaved block.

use std::fmt;

use super::TrialError;

/// Failure of an interleaved block.
#[derive(Debug)]
pub(super) struct BlockError {
    /// Index of the variant that failed; `None` if no single variant is at fault.
    pub(super) variant: Option<usize>,
    pub(super) error: Box<TrialError>,
    /// True if not all services could run at the same time, so nothing was measured.
    pub(super) is_before_load: bool,
}

impl BlockError {
    /// Creates the error of a block in which one variant failed.
    pub(super) fn of(variant: usize, error: impl Into<TrialError>) -> BlockError {
        BlockError {
            variant: Some(variant),
            ..BlockError::from(error.into())
        }
    }
}

impl fmt::Display for BlockError {
    /// Formats the first line of the error, without the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.error.to_string();
        f.write_str(text.lines().next().unwrap_or_default())
    }
}

impl From<TrialError> for BlockError {
    fn from(error: TrialError) -> BlockError {
        BlockError {
            variant: None,
            error: Box::new(error),
            is_before_load: false,
        }
    }
}
