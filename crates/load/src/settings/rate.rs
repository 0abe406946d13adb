//! The settings of an open loop's arrival rate.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use prony_record::quantity::{self, HIGHEST_RATE_PER_S};
use prony_record::{RateProfile, RateStage, StagedRate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{LoadSettings, text};
use crate::error::SettingsError;

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
    type Err = String;

    fn from_str(text: &str) -> Result<ArrivalRate, String> {
        let Some((from, to)) = text.split_once(':') else {
            return quantity::rate(text).map(ArrivalRate::Constant);
        };
        let (Some(from_per_s), Some(to_per_s)) = (rate_or_zero(from), rate_or_zero(to)) else {
            return Err(format!(
                "\"{text}\" is not a changing rate; write the requests per second at the start and at the \
                 end, such as 100:5000"
            ));
        };
        if from_per_s == 0.0 && to_per_s == 0.0 {
            return Err(format!("\"{text}\" never rises above zero"));
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

impl Serialize for ArrivalRate {
    /// A constant rate is stored as a number, as in earlier versions.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ArrivalRate::Constant(rate_per_s) => serializer.serialize_f64(*rate_per_s),
            ArrivalRate::Linear { .. } => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for ArrivalRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ArrivalRate, D::Error> {
        text::one(deserializer)
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
    type Err = String;

    fn from_str(text: &str) -> Result<Stage, String> {
        let expected = || {
            format!(
                "\"{text}\" is not a stage; write its final rate and its length, such as 2000@1m"
            )
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

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Stage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stage, D::Error> {
        text::one(deserializer)
    }
}

/// Parses a rate that may be zero.
fn rate_or_zero(text: &str) -> Option<f64> {
    let rate_per_s = quantity::per_second(text.trim())?;
    (rate_per_s <= HIGHEST_RATE_PER_S).then_some(rate_per_s)
}

/// Maximum number of stages in messages from agents and in plans.
const STAGES_MAX: usize = 10_000;
/// Maximum total length of all stages.
const STAGES_LENGTH_MAX: Duration = Duration::from_secs(365 * 86_400);

impl LoadSettings {
    /// Returns true if requests follow a schedule.
    pub fn is_open(&self) -> bool {
        self.rate.is_some() || !self.stages.is_empty()
    }

    /// The constant arrival rate of an open loop; `None` if it changes.
    pub fn constant_rate(&self) -> Option<f64> {
        self.rate.and_then(ArrivalRate::constant)
    }

    /// The stages of an open loop whose rate changes; empty for any other loop.
    pub fn rate_stages(&self) -> Vec<RateStage> {
        match (self.rate, self.duration) {
            (Some(ArrivalRate::Constant(_)), _) => Vec::new(),
            (
                Some(ArrivalRate::Linear {
                    from_per_s,
                    to_per_s,
                }),
                _,
            ) => {
                let stage = |rate_per_s, length_s| RateStage {
                    rate_per_s,
                    length_s,
                };
                let length = self.planned().unwrap_or_default();
                vec![
                    stage(from_per_s, 0.0),
                    stage(to_per_s, length.as_secs_f64()),
                ]
            }
            (None, _) => self.stages.iter().copied().map(RateStage::from).collect(),
        }
    }

    /// The arrival rate of an open loop.
    pub fn rate_profile(&self) -> Option<RateProfile> {
        match self.rate {
            Some(ArrivalRate::Constant(rate_per_s)) => Some(RateProfile::Constant(rate_per_s)),
            _ if !self.is_open() => None,
            _ => Some(RateProfile::Staged(StagedRate::new(&self.rate_stages()))),
        }
    }

    /// Total length of the stages, if there are any.
    pub(super) fn stages_length(&self) -> Option<Duration> {
        let lengths = self.stages.iter().map(|stage| stage.length);
        let all = lengths.fold(Duration::ZERO, Duration::saturating_add);
        (!self.stages.is_empty()).then_some(all)
    }

    /// Checks that the rate is in range, and that the length of a changing rate is given exactly
    /// once.
    pub(super) fn check_rate(&self) -> Result<(), SettingsError> {
        self.check_stages()?;
        match self.rate {
            Some(ArrivalRate::Constant(rate)) if !(rate > 0.0 && rate <= HIGHEST_RATE_PER_S) => {
                let range = format!(
                    ": the rate must be above 0 and at most {HIGHEST_RATE_PER_S} per second"
                );
                Err(SettingsError::value("rate", rate).text(range))
            }
            Some(rate @ ArrivalRate::Linear { .. }) if self.planned().is_none() => {
                let error = SettingsError::value("rate", rate)
                    .text(" needs ")
                    .name("duration");
                Err(error
                    .text(" as well, over which the rate changes")
                    .text("; ")
                    .name("requests")
                    .text(" may end the load earlier"))
            }
            _ => Ok(()),
        }
    }

    fn check_stages(&self) -> Result<(), SettingsError> {
        let Some(length) = self.stages_length() else {
            return Ok(());
        };
        let error = SettingsError::of("stages");
        if let Some(rate) = self.rate {
            let error = error
                .text(" can't be combined with ")
                .and_value("rate", rate);
            let hint = match rate {
                ArrivalRate::Constant(rate) => {
                    format!("; to start at that rate, begin with the stage {rate}@0s")
                }
                ArrivalRate::Linear { .. } => "; remove one of them".to_owned(),
            };
            return Err(error.text(hint));
        }
        if self.duration.is_some() {
            let error = error.text(" can't be combined with ").name("duration");
            return Err(error.text("; the stages determine the length of the load"));
        }
        if self.stages.len() > STAGES_MAX {
            let text = format!(
                ": {} stages are too many; use at most {STAGES_MAX}",
                self.stages.len()
            );
            return Err(error.text(text));
        }
        if length > STAGES_LENGTH_MAX {
            return Err(error.text(": the stages add up to more than a year"));
        }
        let stages = self.rate_stages();
        if StagedRate::new(&stages).arrivals_until(length.as_secs_f64()) <= 0.0 {
            let text = ": no request is due, because the rate never rises above zero; write each \
                stage's final rate and length, such as 500@30s,2000@1m";
            return Err(error.text(text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &str) -> LoadSettings {
        LoadSettings::typed(words)
    }

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
            let error = bad.parse::<Stage>().unwrap_err();
            assert!(error.contains("such as 2000@1m"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_linear_rate_and_stages_become_the_same_profile() {
        let linear = settings("-r 100:5000 -d 30s");
        let stages = settings("--stages 100@0s,5000@30s");
        assert_eq!(linear.rate_stages(), stages.rate_stages());
        assert_eq!(linear.rate_profile(), stages.rate_profile());
        assert_eq!(stages.planned(), Some(Duration::from_secs(30)));
        assert!(linear.is_open() && stages.is_open() && !settings("").is_open());
        assert_eq!(settings("-r 0:10").planned(), Some(Duration::from_secs(10)));
        assert_eq!(
            settings("-r 7").rate_profile(),
            Some(RateProfile::Constant(7.0))
        );
        assert_eq!(settings("-c 7").rate_profile(), None);
    }

    #[test]
    fn contradictions_name_the_flags() {
        for (words, expected) in [
            (
                "-r 1:2 -n 5",
                "--rate 1:2 needs --duration as well, over which the rate changes",
            ),
            (
                "--stages 5@1s -d 1s",
                "--stages can't be combined with --duration; the stages determine",
            ),
            (
                "--stages 5@1s -r 7",
                "--stages can't be combined with --rate 7; to start at that rate, begin with the stage 7@0s",
            ),
            (
                "--stages 5@1s -r 7:8",
                "--stages can't be combined with --rate 7:8",
            ),
            (
                "--stages 0@1s,0@5s",
                "--stages: no request is due, because the rate never rises above zero",
            ),
            (
                "--stages 50@0s",
                "--stages: no request is due, because the rate never rises above zero",
            ),
            ("--stages 5@0s,5@5000h,0@5000h", "more than a year"),
            ("--arrivals poisson", "--arrivals needs --rate or --stages"),
        ] {
            let error = settings(words).check().unwrap_err().to_string();
            assert!(error.contains(expected), "{words}: {error}");
        }
        for words in [
            "-r 1:2 -n 5 -d 1s",
            "--stages 5@1s -n 5",
            "--stages 0@1s,5@0s,5@1s --arrivals poisson",
            "--stages 5@1s --warmup 1s",
        ] {
            settings(words).check().unwrap();
        }
    }
}
