//! The settings of an open loop's arrival rate.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use prony_record::RateStage;
use prony_record::quantity::{self, HIGHEST_RATE_PER_S};

use crate::values::error::SettingsError;

/// Requests per second: constant, such as `2000`, or linear over the duration, such as `100:5000`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArrivalRate {
    /// A constant rate.
    Constant(f64),
    /// A rate that changes linearly over the measured part.
    Linear {
        /// Rate at the start.
        from_per_s: f64,
        /// Rate at the end.
        to_per_s: f64,
    },
}

impl From<f64> for ArrivalRate {
    fn from(rate_per_s: f64) -> ArrivalRate {
        ArrivalRate::Constant(rate_per_s)
    }
}

impl ArrivalRate {
    /// The rate, if it is constant.
    pub fn constant(self) -> Option<f64> {
        match self {
            ArrivalRate::Constant(rate_per_s) => Some(rate_per_s),
            ArrivalRate::Linear { .. } => None,
        }
    }
}

impl FromStr for ArrivalRate {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<ArrivalRate, SettingsError> {
        let Some((from, to)) = text.split_once(':') else {
            return Ok(ArrivalRate::Constant(quantity::rate(text)?));
        };
        let (Some(from_per_s), Some(to_per_s)) = (rate_or_zero(from), rate_or_zero(to)) else {
            let error = SettingsError::from(format!("\"{text}\" is not a changing rate"));
            let hint =
                "write the requests per second at the start and at the end, such as 100:5000";
            return Err(error.hint(hint));
        };
        if from_per_s == 0.0 && to_per_s == 0.0 {
            return Err(format!("\"{text}\" never rises above zero").into());
        }
        Ok(ArrivalRate::Linear {
            from_per_s,
            to_per_s,
        })
    }
}

impl fmt::Display for ArrivalRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrivalRate::Constant(rate_per_s) => write!(f, "{rate_per_s}"),
            ArrivalRate::Linear {
                from_per_s,
                to_per_s,
            } => write!(f, "{from_per_s}:{to_per_s}"),
        }
    }
}

/// A stage of a load profile, such as `2000@1m`: the rate changes linearly to `rate_per_s`, from
/// the rate of the previous stage or, in the first stage, from zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Requests per second at the end of the stage.
    pub rate_per_s: f64,
    /// Length of the stage; zero for a jump.
    pub length: Duration,
}

impl From<Stage> for RateStage {
    fn from(stage: Stage) -> RateStage {
        RateStage {
            rate_per_s: stage.rate_per_s,
            length_s: stage.length.as_secs_f64(),
        }
    }
}

impl FromStr for Stage {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Stage, SettingsError> {
        let expected = || {
            SettingsError::from(format!("\"{text}\" is not a stage"))
                .hint("write its final rate and its length, such as 2000@1m")
        };
        let (rate, length) = text.trim().split_once('@').ok_or_else(expected)?;
        Ok(Stage {
            rate_per_s: rate_or_zero(rate).ok_or_else(expected)?,
            length: quantity::time(length).map_err(|_| expected())?,
        })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = quantity::time_text(self.length);
        write!(f, "{}@{length}", self.rate_per_s)
    }
}

/// Parses a rate that may be zero.
fn rate_or_zero(text: &str) -> Option<f64> {
    let rate_per_s = quantity::per_second(text.trim())?;
    (rate_per_s <= HIGHEST_RATE_PER_S).then_some(rate_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_stages_are_written_as_they_are_read() {
        for text in ["2000", "2.5", "100:5000", "0:20000", "5000:0"] {
            assert_eq!(text.parse::<ArrivalRate>().unwrap().to_string(), text);
        }
        let short: ArrivalRate = "90/m:20k".parse().unwrap();
        assert_eq!(short.to_string(), "1.5:20000");
        for text in ["500@30s", "0@1500ms", "0.5@0s"] {
            assert_eq!(text.parse::<Stage>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            ":",
            "5:",
            ":5",
            "-1:5",
            "1:2:3",
            "nan:1",
            "0:0",
            "1:1e9",
            "1:2000000k",
        ] {
            assert!(bad.parse::<ArrivalRate>().is_err(), "{bad}");
        }
        for bad in [
            "",
            "@",
            "5",
            "5@",
            "@1s",
            "-1@1s",
            "5@-1s",
            "5@1s@2s",
            "5@1y",
            "2000000k@1s",
        ] {
            let error = bad.parse::<Stage>().unwrap_err().to_string();
            assert!(error.contains("such as 2000@1m"), "{bad}: {error}");
        }
    }
}
