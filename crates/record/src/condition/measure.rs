//! What conditions measure, and in which units limits to that are typed.

use std::fmt;

use crate::{Distribution, FindingId, Outcome, Record, Summary, number};

/// What is said of a name that is no measure.
pub const MEASURES: &str = "the metrics are p50, p99 or any other pN, min, mean, max (response \
     times; service., first_byte., connect., tls. or late. before them for others), rate, started, \
     ok, failed, the outcomes by name, unfinished, unstarted, retried and busy; partial and agent-lost \
     (findings of a load by agents)";

/// The finding with this id, if conditions can name it: part of the load is missing.
pub fn finding(id: &str) -> Option<FindingId> {
    FindingId::parse(id).filter(|id| id.info().incomplete_load)
}

/// One number of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure(What);

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
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
    /// Records that have this finding.
    Finding(FindingId),
}

/// How a figure is set against its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Sign {
    /// The sign that `text` begins with, and what follows it.
    pub fn split(text: &str) -> Option<(Sign, &str)> {
        [
            (">=", Sign::AtLeast),
            ("<=", Sign::AtMost),
            (">", Sign::Above),
            ("<", Sign::Below),
        ]
        .into_iter()
        .find_map(|(sign, is)| Some((is, text.strip_prefix(sign)?)))
    }

    /// The sign that holds where this one doesn't.
    pub fn inverse(self) -> Sign {
        match self {
            Sign::Above => Sign::AtMost,
            Sign::AtLeast => Sign::Below,
            Sign::Below => Sign::AtLeast,
            Sign::AtMost => Sign::Above,
        }
    }

    /// Whether `seen` is so to `limit`.
    pub fn holds(self, seen: f64, limit: f64) -> bool {
        match self {
            Sign::Above => seen > limit,
            Sign::AtLeast => seen >= limit,
            Sign::Below => seen < limit,
            Sign::AtMost => seen <= limit,
        }
    }
}

/// What a measure's figures count, and so how a limit to it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `250us`, `50ms`, `1.5s`, `2m`; microseconds.
    Time,
    /// `1000`, `20k`; a second.
    Rate,
    /// `10`, or `0.1%` of the whole.
    Count,
    /// `90%`.
    Share,
}

/// A figure with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Microseconds.
    Micros(f64),
    /// A count, or events a second.
    Number(f64),
    /// 0 to 1.
    Share(f64),
}

impl Amount {
    /// The figure without its unit.
    pub fn value(self) -> f64 {
        let (Amount::Micros(value) | Amount::Number(value) | Amount::Share(value)) = self;
        value
    }
}

/// With its unit, as every report prints it: `61.3 ms`, `0.12%`, `995`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match *self {
            Amount::Micros(micros) => number::time(micros),
            Amount::Number(figure) => number::trimmed(&number::rate_figure(figure)),
            Amount::Share(share) => number::share(share),
        })
    }
}

impl Kind {
    /// Reads a limit of this kind.
    ///
    /// # Errors
    ///
    /// In a sentence: what it would have to be.
    pub fn amount(self, text: &str) -> Result<Amount, String> {
        let read = |text: &str| {
            let number = text.parse::<f64>().ok();
            number.filter(|number| number.is_finite() && *number >= 0.0)
        };
        let share = || text.strip_suffix('%').and_then(read).map(|p| p / 100.0);
        match self {
            Kind::Time => [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)]
                .into_iter()
                .find_map(|(unit, micros)| Some(read(text.strip_suffix(unit)?)? * micros))
                .map(Amount::Micros)
                .ok_or_else(|| {
                    format!("\"{text}\" is not a time with its unit, such as 250us, 50ms or 1.5s")
                }),
            Kind::Rate => match text.strip_suffix(['k', 'K']) {
                Some(thousands) => read(thousands).map(|number| number * 1e3),
                None => read(text),
            }
            .map(Amount::Number)
            .ok_or_else(|| {
                format!("\"{text}\" is not a rate in requests a second, such as 1000 or 20k")
            }),
            Kind::Count => share()
                .map(Amount::Share)
                .or_else(|| read(text).map(Amount::Number))
                .ok_or_else(|| {
                    format!("\"{text}\" is neither a count nor a share, such as 10 or 0.1%")
                }),
            Kind::Share => share()
                .map(Amount::Share)
                .ok_or_else(|| format!("\"{text}\" is not a share, such as 90%")),
        }
    }
}

impl Measure {
    /// The measure of this name.
    ///
    /// # Errors
    ///
    /// In a sentence: which there are.
    pub fn parse(name: &str) -> Result<Measure, String> {
        let unknown = || format!("there is no metric \"{name}\"; {MEASURES}");
        if let Some(counted) = Counted::parse(name) {
            return Ok(Measure(What::Count(counted)));
        }
        match name {
            "rate" => return Ok(Measure(What::Rate)),
            "busy" => return Ok(Measure(What::Busy)),
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
        Ok(Measure(What::Time(times, figure)))
    }

    /// What its figures count.
    pub fn kind(&self) -> Kind {
        match self.0 {
            What::Time(..) => Kind::Time,
            What::Rate => Kind::Rate,
            What::Count(_) => Kind::Count,
            What::Busy => Kind::Share,
        }
    }

    /// What a record has of it; a count as a number. None where there was nothing to measure.
    pub fn amount(&self, record: &Record) -> Option<Amount> {
        Some(match self.0 {
            What::Time(times, figure) => Amount::Micros(times.figure(figure, record)?),
            What::Rate => Amount::Number(record.rate.ok_per_s),
            What::Count(counted) => Amount::Number(counted.of(record).0 as f64),
            What::Busy => Amount::Share(record.generator.busy_share),
        })
    }

    /// For requests that are counted: how many, and of how many. None for other measures.
    pub fn count(&self, record: &Record) -> Option<(u64, u64)> {
        match self.0 {
            What::Count(counted) => Some(counted.of(record)),
            _ => None,
        }
    }
}

impl Counted {
    fn parse(name: &str) -> Option<Counted> {
        match name {
            "started" => Some(Counted::Started),
            "failed" => Some(Counted::Failed),
            "retried" => Some(Counted::Retried),
            _ if finding(name).is_some() => finding(name).map(Counted::Finding),
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
            Counted::Finding(id) => {
                let is_there = record.findings.iter().any(|finding| finding.id == id);
                (u64::from(is_there), 1)
            }
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
                let digits = name.strip_prefix('p')?;
                let inner = digits.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
                let digits = inner.unwrap_or(digits).replace('_', ".");
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
