//! Order of the trials within a block.

use std::fmt;
use std::time::Duration;

use prony_record::number;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Order of the trials within a block: interleaved or sequential. Displays as a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum TrialMode {
    /// The services of all variants run at the same time, and the load alternates between the
    /// variants.
    #[serde(rename = "interleaved")]
    Sliced {
        /// Requested length of a slice. If `None`, it is chosen from the request rates during the
        /// warm-ups.
        #[serde(
            default,
            rename = "slice_s",
            skip_serializing_if = "Option::is_none",
            serialize_with = "write_seconds",
            deserialize_with = "read_seconds"
        )]
        length: Option<Duration>,
    },
    /// Each trial starts after the previous one has ended.
    Sequential {
        /// Reason for not interleaving, as a clause that follows a colon.
        reason: String,
    },
}

impl TrialMode {
    /// Returns true if the load alternates between the variants.
    pub fn is_interleaved(&self) -> bool {
        matches!(self, TrialMode::Sliced { .. })
    }
}

impl fmt::Display for TrialMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialMode::Sliced { length } => {
                f.write_str("Variants are interleaved in slices")?;
                if let Some(length) = length {
                    let microseconds = length.as_secs_f64() * 1e6;
                    write!(f, " of {}", number::time(microseconds))?;
                }
                f.write_str(" (services of all variants run at the same time).")
            }
            TrialMode::Sequential { reason } => {
                write!(f, "Trials run one after the other: {reason}.")
            }
        }
    }
}

fn write_seconds<S: Serializer>(
    length: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    length.map(|it| it.as_secs_f64()).serialize(serializer)
}

fn read_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds: Option<f64> = Option::deserialize(deserializer)?;
    let length = seconds.map(Duration::try_from_secs_f64).transpose();
    length.map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_a_sentence_and_survives_json() {
        let sliced = |length| TrialMode::Sliced { length };
        let modes = [
            (
                sliced(Some(Duration::from_millis(250))),
                "Variants are interleaved in slices of 250 ms (services of all variants run at the \
                 same time).",
            ),
            (
                sliced(None),
                "Variants are interleaved in slices (services of all variants run at the same time).",
            ),
            (
                TrialMode::Sequential {
                    reason: "variant \"tcp\" sets kernel settings".to_owned(),
                },
                "Trials run one after the other: variant \"tcp\" sets kernel settings.",
            ),
        ];
        for (mode, sentence) in modes {
            assert_eq!(mode.to_string(), sentence);
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(serde_json::from_str::<TrialMode>(&json).unwrap(), mode);
        }
    }

    #[test]
    fn the_length_of_slices_is_stored_in_seconds() {
        let json = r#"{"mode":"interleaved","slice_s":0.25}"#;
        let mode: TrialMode = serde_json::from_str(json).unwrap();
        assert!(mode.is_interleaved());
        assert_eq!(serde_json::to_string(&mode).unwrap(), json);
        let negative = r#"{"mode":"interleaved","slice_s":-1}"#;
        assert!(serde_json::from_str::<TrialMode>(negative).is_err());
    }
}
