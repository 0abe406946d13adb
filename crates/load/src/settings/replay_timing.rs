//! Timing of the requests of a log.

use std::fmt;
use std::str::FromStr;

use super::table::LoadSettings;
use crate::values::error::SettingsError;

/// Factor by which recorded traffic is faster than it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySpeed(pub f64);

impl FromStr for ReplaySpeed {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<ReplaySpeed, SettingsError> {
        let speed = text.strip_suffix(['x', '\u{d7}']).unwrap_or(text).parse();
        match speed {
            Ok(speed) if (0.001..=1_000_000.0).contains(&speed) => Ok(ReplaySpeed(speed)),
            _ => Err(format!("\"{text}\" is not a speed from 0.001 to 1000000, such as 2").into()),
        }
    }
}

impl fmt::Display for ReplaySpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Times at which the requests of a log are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReplayTiming {
    /// As recorded, at this speed.
    Recorded(ReplaySpeed),
    /// In order at the rate of the load.
    AtRate,
    /// In order, each as soon as a connection is free.
    AsFastAsPossible,
}

impl LoadSettings {
    /// Returns the timing of a load that replays a log.
    pub fn replay_timing(&self) -> ReplayTiming {
        match (self.speed, self.rate, self.connections) {
            (Some(speed), _, _) => ReplayTiming::Recorded(speed),
            (None, Some(_), _) => ReplayTiming::AtRate,
            (None, None, Some(_)) => ReplayTiming::AsFastAsPossible,
            (None, None, None) => ReplayTiming::Recorded(ReplaySpeed(1.0)),
        }
    }

    /// Returns true if requests are due when the log says.
    pub fn has_recorded_timing(&self) -> bool {
        self.replay.is_some() && matches!(self.replay_timing(), ReplayTiming::Recorded(_))
    }
}
