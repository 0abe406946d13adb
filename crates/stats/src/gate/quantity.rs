//! What a gate can be about, and how its limits are typed.

use prony_record::condition::{Amount, Kind, MEASURES, Measure};

use crate::metric::{Metric, Scale, Unit};

/// Short names of metrics, for those that are typed often.
const SHORT: [(&str, Metric); 6] = [
    ("rate", Metric::RatePerS),
    ("p50", Metric::P50Us),
    ("p99", Metric::P99Us),
    ("cpu", Metric::ServerCpuUsPerRequest),
    ("memory", Metric::ServerMemoryBytes),
    ("total_time", Metric::TotalTimeUs),
];

/// One number of each trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quantity {
    /// As it was typed.
    pub(super) name: String,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    /// Of the trial's values.
    Metric(Metric),
    /// Of the trial's record.
    Measure(Measure),
}

impl Quantity {
    /// The quantity of this name.
    pub(super) fn parse(name: &str) -> Result<Quantity, String> {
        let what = match metric(name) {
            Some(metric) => What::Metric(metric),
            None => {
                let measure =
                    Measure::parse(name).map_err(|error| match error.contains("kept") {
                        true => error,
                        false => format!("there is no metric \"{name}\"; {}", known()),
                    })?;
                What::Measure(measure)
            }
        };
        Ok(Quantity {
            name: name.to_owned(),
            what,
        })
    }

    /// How two of its figures are set against each other.
    pub(super) fn scale(&self) -> Scale {
        match self.what {
            What::Metric(metric) => metric.scale(),
            What::Measure(measure) => match measure.kind() {
                Kind::Time | Kind::Rate => Scale::Ratio,
                Kind::Count | Kind::Share => Scale::Difference,
            },
        }
    }

    /// Whether its figures count requests, which are facts against a fixed limit.
    pub(super) fn counts(&self) -> Option<Measure> {
        match self.what {
            What::Measure(measure) if measure.kind() == Kind::Count => Some(measure),
            _ => None,
        }
    }

    /// Reads a value in its unit; whether it is a share of a whole.
    pub(super) fn value(&self, text: &str) -> Result<(f64, bool), String> {
        let of_kind = |kind: Kind| {
            let amount = kind.amount(text)?;
            Ok((amount.value(), matches!(amount, Amount::Share(_))))
        };
        match self.what {
            What::Measure(measure) => of_kind(measure.kind()),
            What::Metric(metric) => match metric.unit() {
                Unit::Micros => of_kind(Kind::Time),
                Unit::PerS => of_kind(Kind::Rate),
                Unit::Share => of_kind(Kind::Share),
                Unit::Percent => number(text.strip_suffix('%').unwrap_or(text), &[])
                    .ok_or_else(|| format!("\"{text}\" is not percent of a core, such as 80%")),
                Unit::Bytes => number(text, &BYTES)
                    .ok_or_else(|| format!("\"{text}\" is not a size, such as 512 or 100MiB")),
                Unit::BitsPerS => number(text, &BITS)
                    .ok_or_else(|| format!("\"{text}\" is not a rate, such as 940Mbit")),
                Unit::Count => number(text, &[])
                    .ok_or_else(|| format!("\"{text}\" is not a number, such as 1.5")),
            },
        }
    }

    /// A value with its unit, for people.
    pub(super) fn shown(&self, value: f64) -> String {
        let unit = match self.what {
            What::Metric(metric) => metric.unit(),
            What::Measure(measure) => match measure.kind() {
                Kind::Time => Unit::Micros,
                Kind::Rate => Unit::PerS,
                Kind::Share => Unit::Share,
                Kind::Count => Unit::Count,
            },
        };
        let sign = if value < 0.0 { "−" } else { "" };
        format!("{sign}{}", unit.shown(value.abs()))
    }
}

/// The metric of this name or short name.
pub(super) fn metric(name: &str) -> Option<Metric> {
    let short = SHORT.iter().find(|(short, _)| *short == name);
    short
        .map(|(_, metric)| *metric)
        .or_else(|| name.parse().ok())
}

/// What can be measured, in a clause.
fn known() -> String {
    let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    format!(
        "{MEASURES}; cpu (server CPU per request), memory, total_time; and {}",
        names.join(", ")
    )
}

const BYTES: [(&str, f64); 10] = [
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1_024.0),
    ("GB", 1_073_741_824.0),
    ("MB", 1_048_576.0),
    ("KB", 1_024.0),
    ("G", 1_073_741_824.0),
    ("M", 1_048_576.0),
    ("K", 1_024.0),
    ("B", 1.0),
];

const BITS: [(&str, f64); 4] = [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];

fn number(text: &str, units: &[(&str, f64)]) -> Option<(f64, bool)> {
    let split = units
        .iter()
        .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (digits, size) = split.unwrap_or((text, 1.0));
    let number = digits.trim().parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * size, false))
}
