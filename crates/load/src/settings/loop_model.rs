//! The loop that the settings describe: its rate, its length and its pauses.

use std::time::Duration;

use prony_record::quantity::{self, HIGHEST_RATE_PER_S};
use prony_record::{RateProfile, RateStage, StagedRate};

use super::rate::ArrivalRate;
use super::table::LoadSettings;
use crate::values::error::SettingsError;

/// Maximum number of stages in messages from agents and in plans.
const STAGES_MAX: usize = 10_000;
/// Maximum total length of all stages.
const STAGES_LENGTH_MAX: Duration = Duration::from_secs(365 * 86_400);

impl LoadSettings {
    /// Returns true if requests follow a schedule.
    pub fn is_open(&self) -> bool {
        self.arrival_rate().is_some() || !self.stages.is_empty() || self.has_recorded_timing()
    }

    /// The arrival rate of requests or, equally, of connections.
    fn arrival_rate(&self) -> Option<ArrivalRate> {
        self.rate.or(self.connection_rate)
    }

    /// The constant arrival rate of an open loop; `None` if it changes.
    pub fn constant_rate(&self) -> Option<f64> {
        self.arrival_rate().and_then(ArrivalRate::constant)
    }

    /// The stages of an open loop whose rate changes; empty for any other loop.
    pub fn rate_stages(&self) -> Vec<RateStage> {
        match (self.arrival_rate(), self.duration) {
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
        match self.arrival_rate() {
            Some(ArrivalRate::Constant(rate_per_s)) => Some(RateProfile::Constant(rate_per_s)),
            _ if self.stages.is_empty() && self.arrival_rate().is_none() => None,
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
        let key = match self.connection_rate {
            Some(_) => "connection_rate",
            None => "rate",
        };
        match self.arrival_rate() {
            Some(ArrivalRate::Constant(rate)) if !(rate > 0.0 && rate <= HIGHEST_RATE_PER_S) => {
                let range = format!(
                    ": the rate must be above 0 and at most {HIGHEST_RATE_PER_S} per second"
                );
                Err(SettingsError::value(key, rate).text(range))
            }
            Some(rate @ ArrivalRate::Linear { .. }) if self.planned().is_none() => {
                let error = SettingsError::value(key, rate)
                    .text(" needs ")
                    .name("duration");
                let error = error.text(" as well, over which the rate changes");
                let error = error.hint("").name("requests");
                Err(error.text(" may end the load earlier"))
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
                    format!("to start at that rate, begin with the stage {rate}@0s")
                }
                ArrivalRate::Linear { .. } => "remove one of them".to_owned(),
            };
            return Err(error.hint(hint));
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

    /// Checks that think times are not longer than the load. Otherwise many users would never send
    /// a request.
    pub(crate) fn check_think(&self) -> Result<(), SettingsError> {
        let (Some(think), Some(planned)) = (self.think, self.planned()) else {
            return Ok(());
        };
        let length = planned + self.warmup();
        if think.mean <= length {
            return Ok(());
        }
        let length = quantity::time_text(length);
        let error = SettingsError::value("think", think).text(format!(
            ": the think time is longer than the load ({length}), and many users would never send a \
             request"
        ));
        let error = error.hint("use a longer ").name("duration");
        Err(error.text(" or shorter pauses"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &str) -> LoadSettings {
        LoadSettings::from_flags(words)
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

    #[test]
    fn think_times_fit_into_the_load() {
        for (words, is_fine) in [
            ("--think 10s", true),
            ("--think 11s", false),
            ("--think exp:11s --warmup 1s", true),
            ("--think 1m -n 5", true),
            ("--think 1m -n 5 -d 30s", false),
        ] {
            let checked = LoadSettings::from_flags(words).check_think();
            assert_eq!(checked.is_ok(), is_fine, "{words}");
        }
        let error = LoadSettings::from_flags("--think 1m")
            .check_think()
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("--think 60s") && text.contains("--duration"),
            "{text}"
        );
    }
}
