//! Observables to which gates refer, and parsing of their limits.

use std::fmt;

use prony_record::Record;
use prony_record::measure::{Amount, AmountKind, MEASURES, Measure, MeasureError};
use prony_record::quantity::{QuantityError, bit_rate, bytes};

use crate::metric::{Metric, Scale, Unit};
use crate::observed;

/// Aliases of frequently used metrics.
const SHORT_NAMES: [(&str, Metric); 7] = [
    ("rate", Metric::RatePerS),
    ("capacity", Metric::CapacityPerS),
    ("p50", Metric::P50Us),
    ("p99", Metric::P99Us),
    ("cpu", Metric::ServerCpuUsPerRequest),
    ("memory", Metric::ServerMemoryBytes),
    ("total_time", Metric::TotalTimeUs),
];

/// A number that each trial yields, such as a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Observable {
    /// Name as the user wrote it.
    pub(crate) name: String,
    pub(crate) what: ObservableSource,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ObservableSource {
    /// A metric, taken from the trial's values.
    Metric(Metric),
    /// A measure, computed from the trial's record.
    Measure(Measure),
}

/// Reason why a name is not that of an observable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservableNameError {
    /// An experiment has no such metric.
    Unknown(String),
    /// A load has no such metric, or records don't contain it.
    Measure(MeasureError),
    /// The metric is measured in experiments, but not in a single load.
    OnlyInExperiments(String),
}

impl fmt::Display for ObservableNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObservableNameError::Unknown(name) => {
                write!(f, "there is no metric \"{name}\"; {}", known_names())
            }
            ObservableNameError::Measure(error) => error.fmt(f),
            ObservableNameError::OnlyInExperiments(name) => write!(
                f,
                "\"{name}\" is measured only in experiments, not in a single load"
            ),
        }
    }
}

impl std::error::Error for ObservableNameError {}

impl Observable {
    /// Finds an observable of an experiment by name.
    ///
    /// # Errors
    /// Returns the accepted names if there is no such observable.
    pub fn parse(name: &str) -> Result<Observable, ObservableNameError> {
        let what = match (metric(name), Measure::parse(name)) {
            (Some(metric), _) => ObservableSource::Metric(metric),
            (None, Ok(measure)) => ObservableSource::Measure(measure),
            (None, Err(MeasureError::Unknown(name))) => {
                return Err(ObservableNameError::Unknown(name));
            }
            (None, Err(error)) => return Err(ObservableNameError::Measure(error)),
        };
        Ok(Observable {
            name: name.to_owned(),
            what,
        })
    }

    /// Finds an observable of a single load by name. Measures take precedence because, unlike metrics,
    /// they are also defined if no request succeeded.
    pub(crate) fn parse_of_load(name: &str) -> Result<Observable, ObservableNameError> {
        let what = match (Measure::parse(name), metric(name)) {
            (Ok(measure), _) => ObservableSource::Measure(measure),
            (Err(_), Some(metric)) if observed::is_of_record(metric) => {
                ObservableSource::Metric(metric)
            }
            (Err(_), Some(_)) => {
                return Err(ObservableNameError::OnlyInExperiments(name.to_owned()));
            }
            (Err(error), None) => return Err(ObservableNameError::Measure(error)),
        };
        Ok(Observable {
            name: name.to_owned(),
            what,
        })
    }

    /// Returns the scale on which two values are compared.
    pub(crate) fn scale(&self) -> Scale {
        match &self.what {
            ObservableSource::Metric(metric) => metric.scale(),
            ObservableSource::Measure(measure) => match measure.kind() {
                AmountKind::Time | AmountKind::Rate => Scale::Ratio,
                AmountKind::Count | AmountKind::Share => Scale::Difference,
            },
        }
    }

    /// Returns the measure if the observable counts requests. A count of requests is a fact rather
    /// than an estimate when it is compared with a fixed limit.
    pub(crate) fn counts(&self) -> Option<Measure> {
        match &self.what {
            ObservableSource::Measure(measure) if measure.kind() == AmountKind::Count => {
                Some(measure.clone())
            }
            _ => None,
        }
    }

    /// Returns true if the value is known only after the load has ended.
    pub(crate) fn is_known_at_end(&self) -> bool {
        match &self.what {
            ObservableSource::Measure(measure) => measure.is_known_at_end(),
            ObservableSource::Metric(_) => true,
        }
    }

    /// Returns the count in a record and the total of which it is a part, for observables that count
    /// requests.
    pub(crate) fn count(&self, record: &Record) -> Option<(u64, u64)> {
        self.counts()?.count(record)
    }

    /// Returns the value in a record that a limit is compared with, in which a failed request is
    /// beyond every limit of a percentile; see [`Measure::judged`].
    pub(crate) fn judged_in(&self, record: &Record) -> Option<f64> {
        match self.percentile() {
            Some(measure) => Some(measure.judged(record)?.value()),
            None => self.value_in(record),
        }
    }

    /// Returns the measure if the observable is a percentile of times.
    pub(crate) fn percentile(&self) -> Option<Measure> {
        let measure = match &self.what {
            ObservableSource::Measure(measure) => measure.clone(),
            ObservableSource::Metric(Metric::P50Us) => Measure::parse("p50").ok()?,
            ObservableSource::Metric(Metric::P99Us) => Measure::parse("p99").ok()?,
            ObservableSource::Metric(Metric::FirstEventP50Us) => {
                Measure::parse("first_event.p50").ok()?
            }
            ObservableSource::Metric(Metric::FirstEventP99Us) => {
                Measure::parse("first_event.p99").ok()?
            }
            ObservableSource::Metric(Metric::EventGapP50Us) => {
                Measure::parse("event_gap.p50").ok()?
            }
            ObservableSource::Metric(Metric::EventGapP99Us) => {
                Measure::parse("event_gap.p99").ok()?
            }
            ObservableSource::Metric(_) => return None,
        };
        measure.quantile().map(|_| measure)
    }

    /// Returns the value in a record, or `None` if the load did not measure it.
    pub(crate) fn value_in(&self, record: &Record) -> Option<f64> {
        match &self.what {
            ObservableSource::Measure(measure) => Some(measure.amount(record)?.value()),
            ObservableSource::Metric(metric) => observed::of_record(record).get(metric).copied(),
        }
    }

    /// Parses a limit in the observable's unit. The returned flag is true if the limit is a fraction
    /// of the total.
    pub(crate) fn value(&self, text: &str) -> Result<(f64, bool), QuantityError> {
        let wrong = |what| QuantityError::new(text, what);
        let of_kind = |kind: AmountKind| {
            let amount = kind.amount(text)?;
            Ok((amount.value(), matches!(amount, Amount::Share(_))))
        };
        match &self.what {
            ObservableSource::Measure(measure) => of_kind(measure.kind()),
            ObservableSource::Metric(metric) => match metric.unit() {
                Unit::Micros => of_kind(AmountKind::Time),
                Unit::PerS | Unit::JourneysPerS | Unit::EventsPerS => of_kind(AmountKind::Rate),
                Unit::Share => of_kind(AmountKind::Share),
                Unit::Percent => plain(text.strip_suffix('%').unwrap_or(text))
                    .ok_or_else(|| wrong("is not a percentage of a core, such as 80%")),
                Unit::Bytes => bytes(text)
                    .map(|bytes| (bytes, false))
                    .ok_or_else(|| wrong("is not a size, such as 512 or 100MiB")),
                Unit::BitsPerS => bit_rate(text)
                    .map(|rate| (rate, false))
                    .or_else(|| plain(text))
                    .ok_or_else(|| wrong("is not a rate, such as 940Mbit")),
                Unit::Count => plain(text).ok_or_else(|| wrong("is not a number, such as 1.5")),
            },
        }
    }

    /// Formats a value with its unit.
    pub fn shown(&self, value: f64) -> String {
        let unit = match &self.what {
            ObservableSource::Metric(metric) => metric.unit(),
            ObservableSource::Measure(measure) => match measure.kind() {
                AmountKind::Time => Unit::Micros,
                AmountKind::Rate if measure.counts_events() => Unit::EventsPerS,
                AmountKind::Rate => Unit::PerS,
                AmountKind::Share => Unit::Share,
                AmountKind::Count => Unit::Count,
            },
        };
        let sign = if value < 0.0 { "−" } else { "" };
        format!("{sign}{}", unit.shown(value.abs()))
    }
}

/// Finds a metric by its name or short name.
pub(crate) fn metric(name: &str) -> Option<Metric> {
    let short = SHORT_NAMES.iter().find(|(short, _)| *short == name);
    short
        .map(|(_, metric)| *metric)
        .or_else(|| name.parse().ok())
}

/// Lists the accepted names as a clause of an error message.
fn known_names() -> String {
    let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    format!(
        "{MEASURES}; cpu (server CPU per request), memory, total_time, capacity; and {}",
        names.join(", ")
    )
}

/// Parses a number without a unit.
fn plain(text: &str) -> Option<(f64, bool)> {
    let number = text.parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number, false))
}
