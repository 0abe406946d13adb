//! What a record must not be, as typed after `--fail-if`: `p99>50ms`, `failed>0.1%`, `rate<1000`.
//!
//! A condition is a metric, a comparison (`>`, `>=`, `<`, `<=`) and a value:
//!
//! | metric | value | meaning |
//! |---|---|---|
//! | `min`, `mean`, `max`, `p50`, `p99.9`, any `pN` | a time: `250us`, `50ms`, `1.5s`, `2m` | response time |
//! | `service.pN` and so on | a time | service time |
//! | `first_byte.`, `connect.`, `tls.`, `late.` before `min`, `mean`, `p50`, `p90`, `p99`, `p99.9`, `max` | a time | times to the first byte, of connects, of TLS handshakes; lateness of starts |
//! | `rate` | a number: `1000`, `20k` | successes a second |
//! | `started`, `ok`, `failed`, or the name of an outcome such as `timeout` | a count, or a share: `10`, `0.1%` | requests; the share is of those that ended |
//! | `unfinished`, `unstarted` | a count or a share | requests; the share is of all that were due |
//! | `retried` | a count or a share | requests sent once more; the share is of those started |
//! | `busy` | a share | the generator's busiest worker |
//!
//! A percentile that is only known as a lower bound is compared as it is printed.

use std::fmt;
use std::str::FromStr;

use crate::{Distribution, Outcome, Record, Summary};

/// A condition on a record: see the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    typed: String,
    metric: Metric,
    comparison: Comparison,
    value: Value,
}

#[derive(Debug, Clone, PartialEq)]
enum Metric {
    Time(Times, Figure),
    Rate,
    Count(Counted),
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Times {
    Response,
    Service,
    FirstByte,
    Connect,
    Tls,
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    Min,
    Mean,
    Max,
    /// 0 to 1.
    Quantile(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Counted {
    Started,
    Failed,
    Retried,
    Outcome(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Micros(f64),
    Number(f64),
    /// 0 to 1.
    Share(f64),
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    ///
    /// In a sentence: what can't be read, and what would be.
    pub fn parse(typed: &str) -> Result<Condition, String> {
        let compact: String = typed.chars().filter(|c| !c.is_whitespace()).collect();
        let unreadable = || {
            format!(
                "\"{typed}\" is no condition; write a metric, a comparison (>, >=, <, <=) and a \
                 value, such as p99>50ms, failed>0.1% or rate<1000"
            )
        };
        let at = compact.find(['<', '>']).ok_or_else(unreadable)?;
        let (name, rest) = compact.split_at(at);
        let (comparison, value) = comparison(rest).ok_or_else(unreadable)?;
        if name.is_empty() || value.is_empty() {
            return Err(unreadable());
        }
        let metric = Metric::parse(name).map_err(|error| format!("\"{typed}\": {error}"))?;
        let value = metric
            .value(value)
            .map_err(|expected| format!("\"{typed}\": {expected}"))?;
        Ok(Condition {
            typed: compact,
            metric,
            comparison,
            value,
        })
    }

    /// Whether the condition holds of a record, and then how: a clause such as `p99 is 61.3 ms`.
    ///
    /// A percentile of no requests at all holds nothing.
    pub fn holds(&self, record: &Record) -> Option<String> {
        let (seen, said) = match (&self.metric, self.value) {
            (Metric::Time(times, figure), _) => {
                let micros = times.figure(*figure, record)?;
                (micros, micros_text(micros))
            }
            (Metric::Rate, _) => {
                let rate = record.rate.ok_per_s;
                (rate, format!("{} a second", number_text(rate)))
            }
            (Metric::Busy, _) => {
                let share = record.generator.busy_share;
                (share, percent_text(share))
            }
            (Metric::Count(counted), Value::Share(_)) => {
                let (count, whole) = counted.of(record);
                if whole == 0 {
                    return None;
                }
                let share = count as f64 / whole as f64;
                (
                    share,
                    format!("{} ({count} of {whole})", percent_text(share)),
                )
            }
            (Metric::Count(counted), _) => {
                let (count, _) = counted.of(record);
                (count as f64, count.to_string())
            }
        };
        let (Value::Micros(limit) | Value::Number(limit) | Value::Share(limit)) = self.value;
        let holds = match self.comparison {
            Comparison::Above => seen > limit,
            Comparison::AtLeast => seen >= limit,
            Comparison::Below => seen < limit,
            Comparison::AtMost => seen <= limit,
        };
        holds.then(|| format!("{} is {said}", self.name()))
    }

    /// The metric's name, as it was typed.
    fn name(&self) -> &str {
        let end = self.typed.find(['<', '>']).unwrap_or(self.typed.len());
        &self.typed[..end]
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(typed: &str) -> Result<Condition, String> {
        Condition::parse(typed)
    }
}

/// As it was typed, without spaces.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

fn comparison(text: &str) -> Option<(Comparison, &str)> {
    [
        (">=", Comparison::AtLeast),
        ("<=", Comparison::AtMost),
        (">", Comparison::Above),
        ("<", Comparison::Below),
    ]
    .into_iter()
    .find_map(|(sign, comparison)| Some((comparison, text.strip_prefix(sign)?)))
}

/// What is said of a name that is no metric.
const METRICS: &str = "the metrics are p50, p99 or any other pN, min, mean, max (response times; \
     service., first_byte., connect., tls. or late. before them for others), rate, started, ok, \
     failed, the outcomes by name, unfinished, unstarted, retried and busy";

impl Metric {
    fn parse(name: &str) -> Result<Metric, String> {
        let unknown = || format!("there is no metric \"{name}\"; {METRICS}");
        if let Some(counted) = Counted::parse(name) {
            return Ok(Metric::Count(counted));
        }
        match name {
            "rate" => return Ok(Metric::Rate),
            "busy" => return Ok(Metric::Busy),
            _ => {}
        }
        let (times, figure) = match name.split_once('.') {
            Some((prefix, figure)) if !prefix.starts_with('p') => {
                (Times::parse(prefix).ok_or_else(unknown)?, figure)
            }
            _ => (Times::Response, name),
        };
        let figure = Figure::parse(figure).ok_or_else(unknown)?;
        match (times, figure) {
            (Times::Response | Times::Service, _) => {}
            (_, Figure::Quantile(q)) if ![0.5, 0.9, 0.99, 0.999].contains(&q) => {
                return Err(format!(
                    "of these times only min, mean, p50, p90, p99, p99.9 and max are kept, not \
                     \"{name}\""
                ));
            }
            _ => {}
        }
        Ok(Metric::Time(times, figure))
    }

    /// Reads a value of the kind that the metric has.
    fn value(&self, text: &str) -> Result<Value, String> {
        let read = |text: &str| {
            let number = text.parse::<f64>().ok();
            number.filter(|number| number.is_finite() && *number >= 0.0)
        };
        let share = || text.strip_suffix('%').and_then(read).map(|p| p / 100.0);
        match self {
            Metric::Time(..) => [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)]
                .into_iter()
                .find_map(|(unit, micros)| Some(read(text.strip_suffix(unit)?)? * micros))
                .map(Value::Micros)
                .ok_or_else(|| {
                    format!("\"{text}\" is not a time with its unit, such as 250us, 50ms or 1.5s")
                }),
            Metric::Rate => match text.strip_suffix(['k', 'K']) {
                Some(thousands) => read(thousands).map(|number| number * 1e3),
                None => read(text),
            }
            .map(Value::Number)
            .ok_or_else(|| {
                format!("\"{text}\" is not a rate in requests a second, such as 1000 or 20k")
            }),
            Metric::Count(_) => share()
                .map(Value::Share)
                .or_else(|| read(text).map(Value::Number))
                .ok_or_else(|| {
                    format!("\"{text}\" is neither a count nor a share, such as 10 or 0.1%")
                }),
            Metric::Busy => share()
                .map(Value::Share)
                .ok_or_else(|| format!("\"{text}\" is not a share, such as 90%")),
        }
    }
}

impl Counted {
    fn parse(name: &str) -> Option<Counted> {
        match name {
            "started" => Some(Counted::Started),
            "failed" => Some(Counted::Failed),
            "retried" => Some(Counted::Retried),
            _ => {
                let mut outcomes = Outcome::ALL.iter();
                let outcome = outcomes.find(|outcome| outcome.name() == name)?;
                Some(Counted::Outcome(*outcome))
            }
        }
    }

    /// How many there were, and of how many.
    fn of(self, record: &Record) -> (u64, u64) {
        let totals = &record.totals;
        let ended = totals.ok + totals.failed;
        let due = totals.started + totals.unstarted;
        match self {
            Counted::Started => (totals.started, due),
            Counted::Failed => (totals.failed, ended),
            Counted::Retried => (totals.retried, totals.started),
            Counted::Outcome(Outcome::Unfinished) => (totals.unfinished, due),
            Counted::Outcome(Outcome::Unstarted) => (totals.unstarted, due),
            Counted::Outcome(outcome) => {
                let count = record.outcomes.get(&outcome).copied().unwrap_or(0);
                (count, ended)
            }
        }
    }
}

impl Times {
    fn parse(prefix: &str) -> Option<Times> {
        Some(match prefix {
            "response" => Times::Response,
            "service" => Times::Service,
            "first_byte" => Times::FirstByte,
            "connect" => Times::Connect,
            "tls" => Times::Tls,
            "late" => Times::Late,
            _ => return None,
        })
    }

    fn summary(self, record: &Record) -> &Summary {
        match self {
            Times::Response => &record.response_time_us,
            Times::Service => &record.service_time_us,
            Times::FirstByte => &record.first_byte_us,
            Times::Connect => &record.connect_time_us,
            Times::Tls => &record.tls_time_us,
            Times::Late => &record.generator.late_us,
        }
    }

    /// In microseconds; nothing where there was nothing to measure.
    fn figure(self, figure: Figure, record: &Record) -> Option<f64> {
        let summary = self.summary(record);
        if summary.max == 0.0 {
            return None;
        }
        Some(match figure {
            Figure::Min => summary.min,
            Figure::Mean => summary.mean,
            Figure::Max => summary.max,
            Figure::Quantile(0.5) => summary.p50,
            Figure::Quantile(0.9) => summary.p90,
            Figure::Quantile(0.99) => summary.p99,
            Figure::Quantile(0.999) => summary.p99_9,
            Figure::Quantile(quantile) => {
                let name = match self {
                    Times::Service => "service_time",
                    _ => "response_time",
                };
                let times = Distribution::decode(record.histograms.get(name)?)?;
                times.quantile(quantile).0.as_micros_f64()
            }
        })
    }
}

impl Figure {
    fn parse(name: &str) -> Option<Figure> {
        match name {
            "min" => Some(Figure::Min),
            "mean" => Some(Figure::Mean),
            "max" => Some(Figure::Max),
            _ => {
                let digits = name.strip_prefix('p')?.replace('_', ".");
                let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
                let percent: f64 = digits.parse().ok().filter(|_| plain)?;
                // In ten-thousandths of a percent, so that p99.9 is 0.999 to the last bit.
                let scaled = (percent * 1e4).round();
                (0.0..=1e6)
                    .contains(&scaled)
                    .then_some(Figure::Quantile(scaled / 1e6))
            }
        }
    }
}

/// Four digits that count, and no zeros behind.
fn number_text(number: f64) -> String {
    let decimals = match number.abs() {
        n if n >= 1000.0 => 0,
        n if n >= 100.0 => 1,
        n if n >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn percent_text(share: f64) -> String {
    format!("{}%", number_text(share * 100.0))
}

fn micros_text(micros: f64) -> String {
    match micros {
        m if m >= 999_950.0 => format!("{} s", number_text(m / 1e6)),
        m if m >= 999.95 => format!("{} ms", number_text(m / 1e3)),
        m => format!("{} µs", number_text(m)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;

    /// 10,000 requests of 1 to 100 ms, of which 10 timed out and 40 were reset.
    fn record() -> Record {
        let mut times = Distribution::new();
        for step in 0..9_950u64 {
            times.record(Nanos(1_000_000 + step * 99_000_000 / 9_950));
        }
        let mut record = Record {
            response_time_us: times.summary(),
            ..Record::default()
        };
        record.histograms = [("response_time".to_owned(), times.encode().unwrap())].into();
        record.service_time_us.p99 = 3_000.0;
        record.service_time_us.max = 4_000.0;
        record.totals.started = 10_002;
        record.totals.ok = 9_950;
        record.totals.failed = 50;
        record.totals.unfinished = 2;
        record.totals.unstarted = 498;
        record.totals.retried = 5;
        record.outcomes = [
            (Outcome::Ok, 9_950),
            (Outcome::Reset, 40),
            (Outcome::Timeout, 10),
        ]
        .into();
        record.rate.ok_per_s = 995.0;
        record.generator.busy_share = 0.42;
        record
    }

    #[test]
    fn conditions_that_hold_say_what_was_seen() {
        for (typed, said) in [
            ("p99>50ms", "p99 is 99"),
            ("p99 >= 50ms", "p99 is 99"),
            ("p50>1ms", "p50 is 50."),
            ("p95>94.9ms", "p95 is 95"),
            ("p99.9>99ms", "p99.9 is 99.9"),
            ("p99_9>99ms", "p99_9 is 99.9"),
            ("p99.99>99ms", "p99.99 is 1"),
            ("response.p99>50ms", "response.p99 is 99"),
            ("max>0.05s", "max is 100 ms"),
            ("min<2ms", "min is 999"),
            ("mean<=51ms", "mean is 50."),
            ("service.p99>2500us", "service.p99 is 3 ms"),
            ("failed>0.1%", "failed is 0.5% (50 of 10000)"),
            ("failed>=50", "failed is 50"),
            ("failed>10", "failed is 50"),
            ("timeout>9", "timeout is 10"),
            ("reset>0.3%", "reset is 0.4% (40 of 10000)"),
            ("ok<99.9%", "ok is 99.5% (9950 of 10000)"),
            ("unstarted>0", "unstarted is 498"),
            ("unstarted>4%", "unstarted is 4.743% (498 of 10500)"),
            ("unfinished<=2", "unfinished is 2"),
            ("retried>4", "retried is 5"),
            ("started>10000", "started is 10002"),
            ("rate<1000", "rate is 995 a second"),
            ("rate<1k", "rate is 995 a second"),
            ("busy>40%", "busy is 42%"),
        ] {
            let condition = Condition::parse(typed).unwrap();
            let held = condition
                .holds(&record())
                .unwrap_or_else(|| panic!("{typed}"));
            assert!(held.starts_with(said), "{typed}: {held}");
        }
    }

    #[test]
    fn conditions_that_do_not_hold_say_nothing() {
        for typed in [
            "p99>100ms",
            "p95>96ms",
            "max>2s",
            "failed>50",
            "failed>0.5%",
            "tls>0",
            "dns>0%",
            "rate<995",
            "rate>20k",
            "unfinished<2",
            "retried>1%",
            "busy>=43%",
            "tls.p99>1us",
        ] {
            let condition = Condition::parse(typed).unwrap();
            assert_eq!(condition.holds(&record()), None, "{typed}");
            assert_eq!(condition.to_string(), typed);
        }
    }

    #[test]
    fn nothing_measured_holds_no_time_and_no_share() {
        let nothing = Record::default();
        for typed in ["p99<1s", "p95<1s", "max>=0s", "failed>=0%", "ok<100%"] {
            assert_eq!(
                Condition::parse(typed).unwrap().holds(&nothing),
                None,
                "{typed}"
            );
        }
        assert!(
            Condition::parse("rate<1")
                .unwrap()
                .holds(&nothing)
                .is_some()
        );
        assert!(Condition::parse("ok<1").unwrap().holds(&nothing).is_some());
    }

    #[test]
    fn what_can_not_be_read_is_told_with_what_can() {
        for (typed, told) in [
            ("", "is no condition"),
            ("p99", "is no condition"),
            ("p99=50ms", "is no condition"),
            (">50ms", "is no condition"),
            ("p99>", "is no condition"),
            ("p99>50", "is not a time with its unit"),
            ("p99>50%", "is not a time with its unit"),
            ("p99>-5ms", "is not a time"),
            ("p99>NaNms", "is not a time"),
            ("p99>>5ms", "is not a time"),
            ("p101>5ms", "there is no metric \"p101\""),
            ("p>5ms", "there is no metric"),
            ("p-1>5ms", "there is no metric"),
            ("p1e1>5ms", "there is no metric"),
            ("p99>5 minutes", "is not a time"),
            ("latency>5ms", "there is no metric \"latency\""),
            ("serve.p99>5ms", "there is no metric"),
            ("connect.p95>5ms", "are kept, not \"connect.p95\""),
            ("failed>some", "neither a count nor a share"),
            ("failed>1ms", "neither a count nor a share"),
            ("rate>10%", "is not a rate"),
            ("busy>1", "is not a share"),
            ("é>1", "there is no metric"),
        ] {
            let error = Condition::parse(typed).unwrap_err();
            assert!(error.contains(told), "{typed}: {error}");
            assert!(error.contains(&format!("\"{typed}\"")), "{error}");
        }
    }
}
