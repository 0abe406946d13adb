//! Think times: the pauses of virtual users between their requests.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use prony_record::quantity;

use crate::values::error::SettingsError;

/// Prefix of exponential think times.
const EXPONENTIAL: &str = "exp:";

/// Pauses of each virtual user between its requests, such as `1s`, or `exp:1s` for exponentially
/// distributed pauses with that mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkTime {
    /// Mean length of the pauses.
    pub mean: Duration,
    /// Distribution of their lengths.
    pub distribution: ThinkDistribution,
}

/// Distribution of think times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkDistribution {
    /// All pauses have the same length.
    Constant,
    /// The lengths are exponentially distributed.
    Exponential,
}

impl ThinkDistribution {
    /// Name of the distribution in records.
    pub fn name(self) -> &'static str {
        match self {
            ThinkDistribution::Constant => "constant",
            ThinkDistribution::Exponential => "exponential",
        }
    }
}

impl FromStr for ThinkTime {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<ThinkTime, SettingsError> {
        let (distribution, time) = match text.strip_prefix(EXPONENTIAL) {
            Some(time) => (ThinkDistribution::Exponential, time),
            None => (ThinkDistribution::Constant, text),
        };
        let mean = quantity::positive_time(time).map_err(|error| {
            SettingsError::from(error)
                .hint("write a pause like 1s")
                .hint("exp:1s for exponential pauses with that mean")
        })?;
        Ok(ThinkTime { mean, distribution })
    }
}

impl fmt::Display for ThinkTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.distribution == ThinkDistribution::Exponential {
            f.write_str(EXPONENTIAL)?;
        }
        f.write_str(&quantity::time_text(self.mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_are_written_as_they_are_read() {
        for text in ["1s", "250ms", "exp:1500ms"] {
            assert_eq!(text.parse::<ThinkTime>().unwrap().to_string(), text);
        }
        for text in ["", "0s", "exp:", "exp:0s", "poisson:1s", "soon"] {
            let error = text.parse::<ThinkTime>().unwrap_err().to_string();
            assert!(error.contains("exp:1s"), "{text}: {error}");
        }
    }
}
