//! Measured values, and statistics over them.

use std::collections::BTreeMap;

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// User and system CPU time of the generator per request.
    Cost,
    /// Requests per second.
    Rate,
    /// Peak memory of the process.
    PeakMemory,
    /// Highest anonymous memory of prony without the rings of AF_XDP.
    AnonymousMemory,
    /// 99th percentile of start lateness, from prony's record.
    LateP99,
    /// Requests that the server counted, as a percentage of the scheduled requests.
    Kept,
    /// Highest utilization of the server's core at a rate that the tool did not sustain.
    ServerShare,
    /// Time between the agents' first requests, by the clock that they share.
    SkewP99,
    SkewP50,
    SkewMax,
    /// The same time as estimated in the records.
    RecordedSkewP99,
    /// Bound of the clock errors in the records.
    ClockErrorP99,
    /// Coordinator's CPU time as a percentage of the load's duration.
    CoordinatorShare,
    /// Scheduled requests that agents did not start.
    Unstarted,
    /// Agents whose results are incomplete.
    IncompleteAgents,
    /// Parts of the coordinator's record that differ from the sum of the agents' records.
    DifferentParts,
    /// CPU time of nats-server while the coordinator ran.
    NatsCpu,
}

impl Measure {
    /// Name, unit, and number of decimal places.
    fn format(self) -> (&'static str, &'static str, usize) {
        match self {
            Measure::Cost => ("cost", " µs/request", 2),
            Measure::Rate => ("rate", "/s", 0),
            Measure::PeakMemory => ("memory", " MiB", 0),
            Measure::AnonymousMemory => ("anonymous memory beyond the rings", " MiB", 1),
            Measure::LateP99 => ("p99 lateness", " µs", 0),
            Measure::Kept => ("fraction of the requested rate", "%", 2),
            Measure::ServerShare => ("server's core at a missed rate", "%", 0),
            Measure::SkewP99 => ("p99 of the skew of first requests", " ms", 2),
            Measure::SkewP50 => ("p50 of the skew", " ms", 2),
            Measure::SkewMax => ("largest skew", " ms", 2),
            Measure::RecordedSkewP99 => ("p99 of the skew in the records", " ms", 2),
            Measure::ClockErrorP99 => ("p99 of the clock error in the records", " ms", 2),
            Measure::CoordinatorShare => ("coordinator", "% of a core", 2),
            Measure::Unstarted => ("scheduled requests that did not start", "", 0),
            Measure::IncompleteAgents => ("agents with incomplete results", "", 0),
            Measure::DifferentParts => ("differences from the sum of the agents' records", "", 0),
            Measure::NatsCpu => ("nats-server's CPU time meanwhile", " s", 1),
        }
    }

    /// Name of the quantity.
    pub(super) fn name(self) -> &'static str {
        self.format().0
    }

    /// A value with its unit.
    pub(crate) fn text(self, value: f64) -> String {
        let (_, unit, decimals) = self.format();
        format!("{value:.decimals$}{unit}")
    }

    /// The median and range of values with their unit.
    pub(super) fn spread_text(self, spread: &Spread) -> String {
        let (_, unit, decimals) = self.format();
        format!("{}{unit}", spread.text(decimals))
    }
}

/// Percentiles of the lateness of requests, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lateness {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

/// The lateness at each rate that was tried, in requests per second.
pub(super) type LatenessCurve = BTreeMap<u32, Lateness>;

/// Adds a point to a curve. Of several attempts at a rate, the one with the lowest p99 remains,
/// because other work on the machine can only increase lateness.
pub(super) fn add_point(curve: &mut LatenessCurve, rate: u32, late: Lateness) {
    let best = curve.entry(rate).or_insert(late);
    if late.p99 < best.p99 {
        *best = late;
    }
}

/// Values of one run of a tool.
pub(super) type Values = BTreeMap<Measure, f64>;

/// The values as one line. Names are omitted where the unit says what the value is.
pub(super) fn line_of(values: &Values) -> String {
    let text = |(&measure, &value): (&Measure, &f64)| match measure {
        Measure::Cost | Measure::Rate | Measure::PeakMemory => measure.text(value),
        _ => format!("{} {}", measure.name(), measure.text(value)),
    };
    let parts: Vec<String> = values.iter().map(text).collect();
    parts.join("  ")
}

/// Median and range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Median and range of the values; `None` if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Some(Spread { median, min, max })
    }

    /// Formats the median with the range: `1.14 (1.10–1.19)`. A constant has no range.
    pub(crate) fn text(&self, decimals: usize) -> String {
        let Spread { median, min, max } = self;
        if min == max {
            return format!("{median:.decimals$}");
        }
        format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
    }
}

/// Returns the smallest value that is at least as large as the fraction `share` of all values.
pub(super) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Geometric mean of ratios with its 95% interval, by Student's t on their logarithms; `None` with
/// fewer than two ratios.
pub(crate) fn interval(ratios: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let logs: Vec<f64> = ratios.into_iter().map(f64::ln).collect();
    let freedom = logs.len().checked_sub(1)?;
    let quantile = T_97_5.get(freedom.checked_sub(1)?).unwrap_or(&2.042);
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let error = (squares / freedom as f64 / logs.len() as f64).sqrt();
    Some(Spread {
        median: mean.exp(),
        min: (mean - quantile * error).exp(),
        max: (mean + quantile * error).exp(),
    })
}

/// Quantiles at 97.5% of Student's t with 1, 2, … degrees of freedom.
const T_97_5: [f64; 24] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.5, 4.0));
        assert_eq!(spread.text(1), "2.5 (1.0–4.0)");
        assert_eq!(Spread::of([1.0]).unwrap().text(2), "1.00");
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn an_interval_is_that_of_students_t_on_logarithms() {
        let found = interval([1.0f64.exp(), 2.0f64.exp(), 3.0f64.exp()]).unwrap();
        let half = 4.303 * (1.0f64 / 3.0).sqrt();
        for (value, log) in [
            (found.median, 2.0),
            (found.min, 2.0 - half),
            (found.max, 2.0 + half),
        ] {
            assert!((value.ln() - log).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(interval([1.0]), None);
    }

    #[test]
    fn values_are_named_unless_their_unit_names_them() {
        let values = Values::from([(Measure::LateP99, 17.6), (Measure::Cost, 9.0)]);
        assert_eq!(line_of(&values), "9.00 µs/request  p99 lateness 18 µs");
    }

    #[test]
    fn the_99th_of_a_hundred_is_the_second_largest() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.99), 99.0);
        assert_eq!(percentile(&mut values, 0.5), 50.0);
        assert_eq!(percentile(&mut values, 1.0), 100.0);
    }
}
