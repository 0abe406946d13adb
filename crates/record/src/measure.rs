//! The metrics of conditions (`--fail-if`, `--require`) on a record, and the units of their limits.
//!
//! | metric | value | meaning |
//! |---|---|---|
//! | `min`, `mean`, `max`, `p50`, `p99.9`, any `pN` or `p(N)` | a time: `250us`, `50ms`, `1.5s`, `2m` | response time |
//! | `service.pN` and so on | a time | service time |
//! | `first_byte.`, `connect.`, `tls.`, `late.` before `min`, `mean`, `p50`, `p90`, `p99`, `p99.9`, `max` | a time | times to the first byte, of connects, of TLS handshakes; lateness of starts |
//! | `journey_time.` before any of those of response times | a time | times of journeys |
//! | `first_event.`, `event_gap.` before `min`, `mean`, `max` or any `pN` | a time | with `--events`: times to the first event and between events |
//! | `events_per_s` | a number | with `--events`: events per second |
//! | `rate` | a number: `1000`, `20k` | successful requests per second |
//! | `journeys.completed`, `journeys.failed`, `journeys.unfinished`, `journeys.unstarted` | a count or a share | journeys |
//! | `failed(STEP)` | a count or a share | requests of one step, or of another entry, that failed |
//! | `started`, `ok`, `failed`, or the name of an outcome such as `timeout` | a count, or a share: `10`, `0.1%` | requests; the share is of those that ended |
//! | `unfinished`, `unstarted` | a count or a share | requests; the share is of all that were due |
//! | `retried` | a count or a share | requests sent again; the share is of those started |
//! | `busy` | a share | the generator's busiest worker |
//! | `partial`, `agent-lost` | none, or a count | whether the load by agents has this finding |

use std::fmt;

use crate::quantity::QuantityError;
use crate::{
    Distribution, EntryResults, FindingId, JourneyEnd, Nanos, Outcome, Record, Summary, number,
    quantity,
};

/// List of the metrics, for error messages.
pub const MEASURES: &str = "the metrics are p50, p99 or any other pN, min, mean, max (response \
    times; for other times, add the prefix service., first_byte., first_event., event_gap., \
    journey_time., connect., tls. or late.), rate, events_per_s, journeys.completed, \
    journeys.failed, failed(STEP), started, ok, failed, the name of any outcome, unfinished, \
    unstarted, retried, busy, \
    and, in a load run by agents, the findings partial and agent-lost";

/// Returns the finding with the given ID if it can be used as a condition, that is, if it means
/// that part of the load is missing.
pub fn finding(id: &str) -> Option<FindingId> {
    FindingId::parse(id).filter(|id| id.info().incomplete_load)
}

/// Returns true if `name` is a kind of time, such as `first_event`, of which a condition then names a
/// percentile.
pub fn is_kind_of_time(name: &str) -> bool {
    TimeKind::parse(name).is_some()
}

/// Metric of a condition: one number of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure(MeasureKind);

#[derive(Debug, Clone, PartialEq)]
enum MeasureKind {
    Time(TimeKind, TimeFigure),
    Rate,
    EventRate,
    Count(CountKind),
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TimeKind {
    Response,
    Service,
    FirstByte,
    FirstEvent,
    EventGap,
    Connect,
    Tls,
    Late,
    Journey,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TimeFigure {
    Min,
    Mean,
    Max,
    /// A quantile from 0 to 1.
    Quantile(f64),
}

#[derive(Debug, Clone, PartialEq)]
enum CountKind {
    Started,
    Failed,
    Retried,
    Outcome(Outcome),
    Journeys(JourneyEnd),
    /// Failed requests of the entry with this name.
    EntryFailed(String),
    /// 1 if the record contains the finding, otherwise 0.
    Finding(FindingId),
}

/// Relation between a value and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Relation {
    /// Splits a leading comparison operator from the rest of `text`.
    pub fn split(text: &str) -> Option<(Relation, &str)> {
        [
            (">=", Relation::AtLeast),
            ("<=", Relation::AtMost),
            (">", Relation::Above),
            ("<", Relation::Below),
        ]
        .into_iter()
        .find_map(|(sign, is)| Some((is, text.strip_prefix(sign)?)))
    }

    /// Returns the negation of the relation, such as `<=` for `>`.
    pub fn inverse(self) -> Relation {
        match self {
            Relation::Above => Relation::AtMost,
            Relation::AtLeast => Relation::Below,
            Relation::Below => Relation::AtLeast,
            Relation::AtMost => Relation::Above,
        }
    }

    /// Returns true if the relation holds between `seen` and `limit`.
    pub fn holds(self, seen: f64, limit: f64) -> bool {
        match self {
            Relation::Above => seen > limit,
            Relation::AtLeast => seen >= limit,
            Relation::Below => seen < limit,
            Relation::AtMost => seen <= limit,
        }
    }
}

/// Kind of a metric's value, which determines the syntax of its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountKind {
    /// A time: `250us`, `50ms`, `1.5s`, `2m`.
    Time,
    /// A rate per second: `1000`, `20k`.
    Rate,
    /// A count, or a share of the total: `10`, `0.1%`.
    Count,
    /// A share: `90%`.
    Share,
}

/// A value with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A time in microseconds.
    Micros(f64),
    /// A count, or a rate per second.
    Number(f64),
    /// A share from 0 to 1.
    Share(f64),
}

impl Amount {
    /// Returns the value without its unit.
    pub fn value(self) -> f64 {
        let (Amount::Micros(value) | Amount::Number(value) | Amount::Share(value)) = self;
        value
    }
}

/// Formats the value with its unit, as reports print it: `61.3 ms`, `0.12%`, `995`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match *self {
            Amount::Micros(micros) => number::time(micros),
            Amount::Number(figure) => number::trimmed(&number::rate_figure(figure)),
            Amount::Share(share) => number::share(share),
        })
    }
}

impl AmountKind {
    /// Parses a limit of this kind.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, with the expected form.
    pub fn amount(self, text: &str) -> Result<Amount, QuantityError> {
        let wrong = |what| QuantityError::new(text, what);
        let read = |text: &str| {
            let number = text.parse::<f64>().ok();
            number.filter(|number| number.is_finite() && *number >= 0.0)
        };
        let share = || quantity::percent(text);
        match self {
            // A time without a unit is rejected, although `quantity::time` accepts it.
            AmountKind::Time => Some(text)
                .filter(|text| text.ends_with(|c: char| c.is_ascii_alphabetic()))
                .and_then(|text| quantity::time(text).ok())
                .map(|time| Amount::Micros(time.as_nanos() as f64 / 1e3))
                .ok_or_else(|| wrong("is not a time with a unit, such as 250us, 50ms or 1.5s")),
            AmountKind::Rate => quantity::per_second(text)
                .map(Amount::Number)
                .ok_or_else(|| wrong("is not a rate per second, such as 1000 or 20k")),
            AmountKind::Count => share()
                .map(Amount::Share)
                .or_else(|| read(text).map(Amount::Number))
                .ok_or_else(|| wrong("is neither a count nor a percentage, such as 10 or 0.1%")),
            AmountKind::Share => share()
                .map(Amount::Share)
                .ok_or_else(|| wrong("is not a percentage, such as 90%")),
        }
    }
}

/// Reason why a name is not a metric of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasureError {
    /// There is no such metric.
    Unknown(String),
    /// Records contain only some percentiles of times with this prefix.
    NotRecorded {
        /// The name as input.
        name: String,
        /// The part before the dot.
        prefix: String,
    },
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasureError::Unknown(name) => {
                write!(f, "there is no metric \"{name}\"; {MEASURES}")
            }
            MeasureError::NotRecorded { name, prefix } => write!(
                f,
                "\"{name}\" is not recorded; use min, mean, p50, p90, p99, p99.9 or max after \
                 \"{prefix}.\""
            ),
        }
    }
}

impl std::error::Error for MeasureError {}

impl Measure {
    /// Parses the name of a metric.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such metric, or if records don't contain it.
    pub fn parse(name: &str) -> Result<Measure, MeasureError> {
        let unknown = || MeasureError::Unknown(name.to_owned());
        if let Some(counted) = CountKind::parse(name) {
            return Ok(Measure(MeasureKind::Count(counted)));
        }
        match name {
            "rate" => return Ok(Measure(MeasureKind::Rate)),
            "events_per_s" => return Ok(Measure(MeasureKind::EventRate)),
            "busy" => return Ok(Measure(MeasureKind::Busy)),
            _ => {}
        }
        let (times, figure) = match name.split_once('.') {
            Some((prefix, figure)) if !prefix.starts_with('p') => {
                (TimeKind::parse(prefix).ok_or_else(unknown)?, figure)
            }
            _ => (TimeKind::Response, name),
        };
        let figure = TimeFigure::parse(figure).ok_or_else(unknown)?;
        match (times, figure) {
            (kind, _) if kind.histogram().is_some() => {}
            (_, TimeFigure::Quantile(q)) if ![0.5, 0.9, 0.99, 0.999].contains(&q) => {
                let prefix = name.split('.').next().unwrap_or(name);
                return Err(MeasureError::NotRecorded {
                    name: name.to_owned(),
                    prefix: prefix.to_owned(),
                });
            }
            _ => {}
        }
        Ok(Measure(MeasureKind::Time(times, figure)))
    }

    /// Returns the kind of the metric's values.
    pub fn kind(&self) -> AmountKind {
        match &self.0 {
            MeasureKind::Time(..) => AmountKind::Time,
            MeasureKind::Rate | MeasureKind::EventRate => AmountKind::Rate,
            MeasureKind::Count(_) => AmountKind::Count,
            MeasureKind::Busy => AmountKind::Share,
        }
    }

    /// Returns the value of the metric in a record, with counts as plain numbers. Returns `None` if
    /// it was not measured.
    pub fn amount(&self, record: &Record) -> Option<Amount> {
        Some(match &self.0 {
            MeasureKind::Time(times, figure) => Amount::Micros(times.figure(*figure, record)?),
            MeasureKind::Rate => Amount::Number(record.rate.ok_per_s),
            MeasureKind::EventRate => Amount::Number(record.events.as_ref()?.events_per_s),
            MeasureKind::Count(counted) => Amount::Number(counted.of(record).0 as f64),
            MeasureKind::Busy => Amount::Share(record.generator.busy_share),
        })
    }

    /// Returns the value that a limit is compared with. It is the metric's value, except that a
    /// failed request is beyond every limit of a percentile: the percentile is infinite if too
    /// many requests failed. Returns `None` if nothing was measured.
    pub fn judged(&self, record: &Record) -> Option<Amount> {
        let MeasureKind::Time(times, TimeFigure::Quantile(quantile)) = &self.0 else {
            return self.amount(record);
        };
        let failed = times.failures(record);
        if failed == 0 {
            return self.amount(record);
        }
        let distribution = times.distribution(record);
        let timed = distribution
            .as_ref()
            .map_or(times.timed(record), Distribution::count);
        let among_timed = quantile * (timed + failed) as f64 / timed as f64;
        Some(match distribution {
            _ if timed == 0 || among_timed > 1.0 => Amount::Micros(f64::INFINITY),
            Some(known) => Amount::Micros(known.quantile(among_timed).0.as_micros_f64()),
            // Records of single entries and of early versions have no histograms.
            None => return self.amount(record),
        })
    }

    /// Returns the corresponding metric of service times for a metric of response times, otherwise
    /// `None`.
    pub fn of_service_times(&self) -> Option<Measure> {
        match self.0 {
            MeasureKind::Time(TimeKind::Response, figure) => {
                Some(Measure(MeasureKind::Time(TimeKind::Service, figure)))
            }
            _ => None,
        }
    }

    /// Returns the quantile (0 to 1) of a percentile, or `None` for other metrics.
    pub fn quantile(&self) -> Option<f64> {
        match self.0 {
            MeasureKind::Time(_, TimeFigure::Quantile(quantile)) => Some(quantile),
            _ => None,
        }
    }

    /// Returns true for the rate of events, as opposed to requests.
    pub fn counts_events(&self) -> bool {
        self.0 == MeasureKind::EventRate
    }

    /// Returns true for the minimum and the maximum, which depend on the number of requests.
    pub fn is_extreme(&self) -> bool {
        matches!(
            self.0,
            MeasureKind::Time(_, TimeFigure::Min | TimeFigure::Max)
        )
    }

    /// Returns the number of requests whose time is at least `limit_us`, and the number of all
    /// requests that ended. Both include lower bounds and failed requests. Returns `None` unless
    /// the metric is a percentile whose distribution is in the record.
    pub fn count_from(&self, limit_us: f64, record: &Record) -> Option<(u64, u64)> {
        self.quantile()?;
        let MeasureKind::Time(times, _) = &self.0 else {
            return None;
        };
        times.histogram()?;
        let failed = times.failures(record);
        let limit = Nanos((limit_us * 1e3) as u64);
        let (over, timed) = match times.distribution(record) {
            Some(known) => (known.count_from(limit), known.count()),
            None if times.timed(record) == 0 && failed > 0 => (0, 0),
            None => return None,
        };
        Some((over + failed, timed + failed))
    }

    /// Returns true for metrics that are known only after the load has ended.
    pub fn is_known_at_end(&self) -> bool {
        matches!(
            self.0,
            MeasureKind::Busy
                | MeasureKind::Count(
                    CountKind::Outcome(Outcome::Unfinished | Outcome::Unstarted)
                        | CountKind::Journeys(JourneyEnd::Unfinished | JourneyEnd::Unstarted)
                        | CountKind::Finding(_)
                )
        )
    }

    /// Returns the count of requests and the total of which it is a share. Returns `None` for
    /// metrics that don't count requests.
    pub fn count(&self, record: &Record) -> Option<(u64, u64)> {
        match &self.0 {
            MeasureKind::Count(counted) => Some(counted.of(record)),
            _ => None,
        }
    }
}

impl CountKind {
    fn parse(name: &str) -> Option<CountKind> {
        match name {
            "started" => Some(CountKind::Started),
            "failed" => Some(CountKind::Failed),
            "retried" => Some(CountKind::Retried),
            "journeys.completed" => Some(CountKind::Journeys(JourneyEnd::Completed)),
            "journeys.failed" => Some(CountKind::Journeys(JourneyEnd::Failed)),
            "journeys.unfinished" => Some(CountKind::Journeys(JourneyEnd::Unfinished)),
            "journeys.unstarted" => Some(CountKind::Journeys(JourneyEnd::Unstarted)),
            _ if name.starts_with("failed(") => {
                let entry = name.strip_prefix("failed(")?.strip_suffix(')')?.trim();
                Some(CountKind::EntryFailed(entry.to_owned()))
            }
            _ if finding(name).is_some() => finding(name).map(CountKind::Finding),
            _ => {
                let mut outcomes = Outcome::ALL.iter();
                let outcome = outcomes.find(|outcome| outcome.name() == name)?;
                Some(CountKind::Outcome(*outcome))
            }
        }
    }

    /// Returns the count and the total of which it is a share.
    fn of(&self, record: &Record) -> (u64, u64) {
        let totals = &record.totals;
        let ended = totals.ok + totals.failed;
        let due = totals.started + totals.unstarted;
        match *self {
            CountKind::Started => (totals.started, due),
            CountKind::Failed => (totals.failed, ended),
            CountKind::Retried => (totals.retried, totals.started),
            CountKind::Journeys(end) => {
                let journeys = record.journeys.clone().unwrap_or_default();
                let (ended, due) = (
                    journeys.completed + journeys.failed,
                    journeys.started + journeys.unstarted,
                );
                match end {
                    JourneyEnd::Completed => (journeys.completed, ended),
                    JourneyEnd::Failed => (journeys.failed, ended),
                    JourneyEnd::Unfinished => (journeys.unfinished, due),
                    JourneyEnd::Unstarted => (journeys.unstarted, due),
                }
            }
            CountKind::EntryFailed(ref name) => {
                let entries = record.entries.iter().flat_map(EntryResults::rows);
                let entry = entries.into_iter().find(|entry| entry.name == *name);
                entry.map_or((0, 0), |entry| (entry.failed, entry.ok + entry.failed))
            }
            CountKind::Finding(id) => {
                let is_there = record.findings.iter().any(|finding| finding.id == id);
                (u64::from(is_there), 1)
            }
            CountKind::Outcome(Outcome::Unfinished) => (totals.unfinished, due),
            CountKind::Outcome(Outcome::Unstarted) => (totals.unstarted, due),
            CountKind::Outcome(outcome) => {
                let count = record.outcomes.get(&outcome).copied().unwrap_or(0);
                (count, ended)
            }
        }
    }
}

impl TimeKind {
    fn parse(prefix: &str) -> Option<TimeKind> {
        Some(match prefix {
            "response" => TimeKind::Response,
            "service" => TimeKind::Service,
            "first_byte" => TimeKind::FirstByte,
            "first_event" => TimeKind::FirstEvent,
            "event_gap" => TimeKind::EventGap,
            "connect" => TimeKind::Connect,
            "tls" => TimeKind::Tls,
            "late" => TimeKind::Late,
            "journey_time" => TimeKind::Journey,
            _ => return None,
        })
    }

    /// Returns the distribution, if it is in the record. It includes lower bounds.
    fn distribution(self, record: &Record) -> Option<Distribution> {
        Distribution::decode(record.histograms.get(self.histogram()?)?)
    }

    /// Returns the name of the distribution for times whose failures and lower bounds are known.
    fn histogram(self) -> Option<&'static str> {
        Some(match self {
            TimeKind::Response => "response_time",
            TimeKind::Service => "service_time",
            TimeKind::Journey => "journey_time",
            TimeKind::FirstEvent => "first_event",
            TimeKind::EventGap => "event_gap",
            TimeKind::FirstByte | TimeKind::Connect | TimeKind::Tls | TimeKind::Late => {
                return None;
            }
        })
    }

    /// Returns the number of failures that are beyond every limit of a percentile.
    fn failures(self, record: &Record) -> u64 {
        let events = record.events.as_ref();
        match self {
            TimeKind::Response | TimeKind::Service => record.untimed_failures(),
            TimeKind::Journey => record
                .journeys
                .as_ref()
                .map_or(0, |journeys| journeys.failed),
            TimeKind::FirstEvent => events.map_or(0, |events| events.failed),
            TimeKind::EventGap => events.map_or(0, |events| events.failed_in_gap),
            TimeKind::FirstByte | TimeKind::Connect | TimeKind::Tls | TimeKind::Late => 0,
        }
    }

    /// Returns the number of times that a record without the distribution has.
    fn timed(self, record: &Record) -> u64 {
        match self {
            TimeKind::Response | TimeKind::Service => record.totals.ok,
            TimeKind::Journey => record
                .journeys
                .as_ref()
                .map_or(0, |journeys| journeys.completed),
            // Records with events have the distributions, unless they are empty.
            _ => 0,
        }
    }

    fn summary(self, record: &Record) -> Option<&Summary> {
        Some(match self {
            TimeKind::Response => &record.response_time_us,
            TimeKind::Service => &record.service_time_us,
            TimeKind::FirstByte => &record.first_byte_us,
            TimeKind::FirstEvent => &record.events.as_ref()?.first_event_us,
            TimeKind::EventGap => &record.events.as_ref()?.event_gap_us,
            TimeKind::Connect => &record.connect_time_us,
            TimeKind::Tls => &record.tls_time_us,
            TimeKind::Late => &record.generator.late_us,
            TimeKind::Journey => &record.journeys.as_ref()?.journey_time_us,
        })
    }

    /// Returns the value in microseconds, or `None` if nothing was measured.
    fn figure(self, figure: TimeFigure, record: &Record) -> Option<f64> {
        let summary = self.summary(record)?;
        // Events that arrive together have gaps of zero.
        let is_stored = |name| record.histograms.contains_key(name);
        if summary.max == 0.0 && !self.histogram().is_some_and(is_stored) {
            return None;
        }
        Some(match figure {
            TimeFigure::Min => summary.min,
            TimeFigure::Mean => summary.mean,
            TimeFigure::Max => summary.max,
            TimeFigure::Quantile(0.5) => summary.p50,
            TimeFigure::Quantile(0.9) => summary.p90,
            TimeFigure::Quantile(0.99) => summary.p99,
            TimeFigure::Quantile(0.999) => summary.p99_9,
            TimeFigure::Quantile(quantile) => {
                let times = self.distribution(record)?;
                times.quantile(quantile).0.as_micros_f64()
            }
        })
    }
}

impl TimeFigure {
    fn parse(name: &str) -> Option<TimeFigure> {
        match name {
            "min" => Some(TimeFigure::Min),
            "mean" => Some(TimeFigure::Mean),
            "max" => Some(TimeFigure::Max),
            _ => {
                let digits = name.strip_prefix('p')?;
                let inner = digits.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
                let digits = inner.unwrap_or(digits).replace('_', ".");
                let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
                let percent: f64 = digits.parse().ok().filter(|_| plain)?;
                // Rounds to ten-thousandths of a percent, so p99.9 is exactly 0.999.
                let scaled = (percent * 1e4).round();
                (0.0..=1e6)
                    .contains(&scaled)
                    .then_some(TimeFigure::Quantile(scaled / 1e6))
            }
        }
    }
}
