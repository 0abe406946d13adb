//! The `interleave` key of `[trials]`: the mode in which the trials of a block run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use prony_record::quantity;

use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlNode};

/// Minimum slice length that a user can request. Shorter slices would mostly measure the switches
/// between variants.
const SLICE_MIN: Duration = Duration::from_millis(20);
/// Maximum slice length that a user can request. With longer slices, drift of the machine would
/// affect the variants differently.
const SLICE_MAX: Duration = Duration::from_secs(60);

/// Mode in which the trials of a block run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interleave {
    /// Alternate between the variants in slices if they can run at the same time.
    #[default]
    Auto,
    /// Alternate in slices of this length. If the variants can't run at the same time, the
    /// experiment is rejected.
    Slices(Duration),
    /// Run trials sequentially.
    Off,
}

impl Interleave {
    /// Value in plans and on the command line that selects slices of the default length.
    pub const DEFAULT_NAME: &str = "auto";
}

/// A value that is neither a mode nor a length of slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidInterleave;

/// Formats the accepted values as a hint.
impl fmt::Display for InvalidInterleave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write auto, off, or a slice length from 20ms to 1m, such as 250ms")
    }
}

impl std::error::Error for InvalidInterleave {}

impl FromStr for Interleave {
    type Err = InvalidInterleave;

    fn from_str(written: &str) -> Result<Self, InvalidInterleave> {
        match written {
            Self::DEFAULT_NAME => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => match quantity::time(written) {
                Ok(length) if (SLICE_MIN..=SLICE_MAX).contains(&length) => Ok(Self::Slices(length)),
                _ => Err(InvalidInterleave),
            },
        }
    }
}

impl fmt::Display for Interleave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(Self::DEFAULT_NAME),
            Self::Slices(length) => f.write_str(&quantity::time_text(*length)),
            Self::Off => f.write_str("off"),
        }
    }
}

/// Reads `interleave`. Reports an invalid value and returns the default instead.
pub(super) fn read_interleave(node: &TomlNode, reader: &mut PlanReader<'_>) -> Interleave {
    let Some(written) = reader.scalar(node, "interleave") else {
        return Interleave::default();
    };
    written
        .parse()
        .unwrap_or_else(|expected: InvalidInterleave| {
            let message = format!("interleave is \"{written}\"");
            reader.report_with_hint(
                DiagnosticKind::BadValue,
                node.line,
                message,
                expected.to_string(),
            );
            Interleave::default()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_as_it_is_read() {
        for written in ["auto", "off", "20ms", "250ms", "60s"] {
            let mode: Interleave = written.parse().unwrap();
            assert_eq!(mode.to_string(), written);
        }
        assert_eq!("1m".parse(), Ok(Interleave::Slices(SLICE_MAX)));
    }

    #[test]
    fn other_words_and_lengths_out_of_range_are_refused() {
        for written in ["", "on", "true", "Auto", "0", "19ms", "61s", "-1s", "1e9s"] {
            let refused = written.parse::<Interleave>();
            assert_eq!(refused, Err(InvalidInterleave), "{written}");
        }
    }
}
