//! Metrics of loads for monitoring systems: a finished load, a running one, or all trials of an
//! experiment.
//!
//! [`families`] is the only declaration of the metrics. [`openmetrics`], [`otlp`] and
//! [`remote_write`] encode them. All values cover only the measured part, and only grow while a
//! load runs. Records with the same labels are combined.

pub mod openmetrics;
pub mod otlp;
pub mod remote_write;

use std::collections::BTreeSet;

use prony_record::{Distribution, EntryResult, JourneyResults, Outcome, Record};
use prony_stats::Levels;

use crate::Experiment;

/// The upper limits of the histogram buckets in seconds, each about 2.5 times the previous one.
/// Longer times are in a last bucket without a limit.
pub(crate) const BUCKETS_S: [f64; 21] = [
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Labels, each with its name and its value.
pub type Labels = Vec<(String, String)>;

/// A metric with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Name without suffixes such as `_total`. A unit is a part of it.
    pub name: &'static str,
    /// Meaning of the values.
    pub kind: MetricKind,
    /// Unit, such as `seconds`; empty for counts.
    pub unit: &'static str,
    /// Description, a sentence.
    pub help: &'static str,
    /// Values by labels.
    pub points: Vec<Point>,
}

/// Meaning of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Labels that describe something; the value is 1.
    Info,
    /// A value that can fall.
    Gauge,
    /// A value that only grows.
    Counter,
    /// Counts of times by upper limit.
    Histogram,
}

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Labels that distinguish the value from the metric's others.
    pub labels: Labels,
    /// The value so far.
    pub value: PointValue,
}

/// The value of a point.
#[derive(Debug, Clone, PartialEq)]
pub enum PointValue {
    /// A whole number.
    Count(u64),
    /// Any other number.
    Number(f64),
    /// Times.
    Histogram(BucketCounts),
}

/// Times, counted by upper limit.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketCounts {
    /// Number of times in each bucket of [`BUCKETS_S`], without those of the previous buckets.
    pub(crate) counts: Vec<u64>,
    /// Number of all times, including those beyond the last limit.
    pub(crate) count: u64,
    pub(crate) sum_s: f64,
}

/// Labels of a variant: its name, and each factor's level as `factor_NAME`.
pub fn labels(name: &str, levels: &Levels) -> Labels {
    let mut labels = vec![("variant".to_owned(), name.to_owned())];
    labels.extend(levels.iter().map(|(factor, level)| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let factor: String = factor.chars().map(plain).collect();
        (format!("factor_{factor}"), level.clone())
    }));
    labels
}

/// Returns the metrics of one load.
pub fn of_load(record: &Record) -> Vec<Family> {
    families(&[(Labels::new(), record)])
}

/// Returns the metrics of all trials of an experiment, by variant.
pub fn of_experiment(experiment: &Experiment) -> Vec<Family> {
    let variants = &experiment.verdict.variants;
    let samples: Vec<(Labels, &Record)> = experiment
        .trials
        .iter()
        .filter_map(|trial| {
            let variant = variants.get(trial.variant)?;
            Some((labels(&variant.name, &variant.levels), &trial.record))
        })
        .collect();
    families(&samples)
}

/// Returns the metrics of several records. Records with the same labels are combined.
pub fn families(samples: &[(Labels, &Record)]) -> Vec<Family> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (labels, record) in samples {
        match groups.iter_mut().find(|group| group.labels == labels) {
            Some(group) => group.records.push(record),
            None => groups.push(Group {
                labels,
                records: vec![record],
            }),
        }
    }
    let mut families = Vec::new();
    families.extend(settings(&groups));
    families.extend(requests(&groups));
    families.extend(journeys(&groups));
    families.extend(events(&groups));
    families.extend(transfer(&groups));
    families.extend(times(&groups));
    families.extend(generator(&groups));
    families
}

/// Records that have the same labels.
struct Group<'a> {
    labels: &'a Labels,
    records: Vec<&'a Record>,
}

impl Group<'_> {
    fn sum(&self, of: impl Fn(&Record) -> u64) -> u64 {
        self.records.iter().map(|record| of(record)).sum()
    }

    fn sum_s(&self, of: impl Fn(&Record) -> f64) -> PointValue {
        PointValue::Number(self.records.iter().map(|record| of(record)).sum())
    }

    /// Merges the distributions stored under `name`. Returns `None` if no record has one.
    fn times(&self, name: &str) -> Option<Distribution> {
        let mut all: Option<Distribution> = None;
        for record in &self.records {
            let Some(times) = record.histograms.get(name) else {
                continue;
            };
            let times = Distribution::decode(times)?;
            all.get_or_insert_with(Distribution::new).merge(&times);
        }
        all
    }

    /// Returns a point with the group's labels and `more`.
    fn point(&self, more: &[(&str, &str)], value: PointValue) -> Point {
        let more = more
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Point {
            labels: self.labels.iter().cloned().chain(more).collect(),
            value,
        }
    }

    fn count(&self, more: &[(&str, &str)], of: impl Fn(&Record) -> u64) -> Point {
        self.point(more, PointValue::Count(self.sum(of)))
    }
}

impl Family {
    fn new(name: &'static str, kind: MetricKind, help: &'static str) -> Family {
        // A unit is always the last word of the name.
        let unit = ["seconds", "bytes", "ratio"];
        let unit = unit.into_iter().find(|unit| name.ends_with(unit));
        Family {
            name,
            kind,
            unit: unit.unwrap_or_default(),
            help,
            points: Vec::new(),
        }
    }

    fn counter(name: &'static str, help: &'static str) -> Family {
        Family::new(name, MetricKind::Counter, help)
    }

    /// Adds the points of each group.
    fn with<'a, P: IntoIterator<Item = Point>>(
        mut self,
        groups: &[Group<'a>],
        of: impl Fn(&Group<'a>) -> P,
    ) -> Family {
        self.points.extend(groups.iter().flat_map(of));
        self
    }

    /// Adds one count of each group.
    fn counting(self, groups: &[Group<'_>], of: impl Fn(&Record) -> u64) -> Family {
        self.with(groups, |group| [group.count(&[], &of)])
    }
}

fn settings(groups: &[Group<'_>]) -> [Family; 2] {
    let info = Family::new("prony_load", MetricKind::Info, "Settings of the load.");
    let info = info.with(groups, |group| {
        group.records.first().map(|record| {
            let load = &record.load;
            let (connections, streams) = (load.connections.to_string(), load.streams.to_string());
            let more = [
                ("url", load.url.as_str()),
                ("model", load.model.as_str()),
                ("connections", connections.as_str()),
                ("streams", streams.as_str()),
                ("http", load.http.as_str()),
                ("version", record.version.as_str()),
            ];
            group.point(&more, PointValue::Count(1))
        })
    });
    let help = "Length of the measured part of the load so far.";
    let measured = Family::new("prony_measured_seconds", MetricKind::Gauge, help);
    let seconds = |group: &Group<'_>| {
        let seconds = group.sum_s(|record| record.totals.elapsed_s);
        [group.point(&[], seconds)]
    };
    [info, measured.with(groups, seconds)]
}

fn requests(groups: &[Group<'_>]) -> [Family; 4] {
    let help = "Requests started (connecting or sending began).";
    let started = Family::counter("prony_requests_started", help);
    let help = "Requests by outcome; unstarted requests were due but never sent.";
    let by_outcome = Family::counter("prony_requests", help).with(groups, |group| {
        let point = |outcome: &Outcome| {
            let of = |record: &Record| record.outcomes.get(outcome).copied().unwrap_or(0);
            // Alerts need the samples of these outcomes even while their count is zero.
            let is_shown = group.sum(of) > 0 || matches!(outcome, Outcome::Ok | Outcome::Timeout);
            is_shown.then(|| group.count(&[("outcome", outcome.name())], of))
        };
        Outcome::ALL.iter().filter_map(point).collect::<Vec<_>>()
    });
    let responses = Family::counter("prony_responses", "Final responses by status.");
    let responses = responses.with(groups, |group| {
        let statuses = group.records.iter().flat_map(|it| it.status.keys());
        let mut statuses: Vec<u16> = statuses.copied().collect();
        statuses.sort_unstable();
        statuses.dedup();
        let point = |status: u16| {
            let of = |record: &Record| record.status.get(&status).copied().unwrap_or(0);
            group.count(&[("status", &status.to_string())], of)
        };
        statuses.into_iter().map(point).collect::<Vec<_>>()
    });
    let help = "Requests retried because a reused connection was lost.";
    let retried = Family::counter("prony_requests_retried", help);
    [
        started.counting(groups, |record| record.totals.started),
        by_outcome,
        responses,
        retried.counting(groups, |record| record.totals.retried),
    ]
}

/// Function that returns a count.
type Count<T> = fn(&T) -> u64;

/// Journeys by their ends, and the requests of each step. Left out if no load has journeys.
fn journeys(groups: &[Group<'_>]) -> Vec<Family> {
    let groups = &having(groups, |record| record.journeys.is_some());
    if groups.is_empty() {
        return Vec::new();
    }
    let count = |record: &Record, of: Count<JourneyResults>| record.journeys.as_ref().map_or(0, of);
    let begun = Family::counter("prony_journeys_begun", "Journeys begun.");
    let begun = begun.counting(groups, |record| count(record, |it| it.started));
    let help = "Journeys by their ends; unstarted journeys were due but never began.";
    let by_end = Family::counter("prony_journeys", help).with(groups, |group| {
        let ends: [(&str, Count<JourneyResults>); 4] = [
            ("completed", |it| it.completed),
            ("failed", |it| it.failed),
            ("unfinished", |it| it.unfinished),
            ("unstarted", |it| it.unstarted),
        ];
        ends.map(|(end, of)| group.count(&[("end", end)], |record| count(record, of)))
    });
    let help = "Requests of each step; a journey ends with its first failed step.";
    let steps = Family::counter("prony_step_requests", help);
    let steps = steps.with(groups, |group| {
        let first = group.records.first().and_then(|it| it.entries.as_ref());
        let names = first
            .into_iter()
            .flat_map(|steps| steps.rows())
            .map(|step| &step.name);
        let results: [(&str, Count<EntryResult>); 2] =
            [("ok", |it| it.ok), ("failed", |it| it.failed)];
        let points = names.flat_map(|name| {
            results.map(|(result, of)| {
                let count = |record: &Record| {
                    let mut rows = record.entries.iter().flat_map(|steps| steps.rows());
                    rows.find(|it| it.name == *name).map_or(0, of)
                };
                group.count(&[("step", name), ("result", result)], count)
            })
        });
        points.collect::<Vec<_>>()
    });
    vec![begun, by_end, steps]
}

/// Events of streamed responses. Left out if no load has any.
fn events(groups: &[Group<'_>]) -> Option<Family> {
    let groups = having(groups, |record| record.events.is_some());
    let help = "Events of streamed responses that arrived.";
    let of = |record: &Record| record.events.as_ref().map_or(0, |it| it.events);
    (!groups.is_empty()).then(|| Family::counter("prony_events", help).counting(&groups, of))
}

/// Returns the groups in which a record has this property.
fn having<'a>(groups: &[Group<'a>], has: impl Fn(&Record) -> bool) -> Vec<Group<'a>> {
    let having = groups
        .iter()
        .filter(|it| it.records.iter().any(|it| has(it)));
    having
        .map(|it| Group {
            labels: it.labels,
            records: it.records.clone(),
        })
        .collect()
}

fn transfer(groups: &[Group<'_>]) -> Vec<Family> {
    let counters: [(&str, &str, Count<Record>); 4] = [
        (
            "prony_received_bytes",
            "HTTP bytes received, above TLS.",
            |record| record.totals.bytes_in,
        ),
        (
            "prony_received_body_bytes",
            "Bytes of response bodies, which prony_received_bytes includes.",
            |record| record.totals.body_bytes_in,
        ),
        (
            "prony_sent_bytes",
            "HTTP bytes sent, above TLS.",
            |record| record.totals.bytes_out,
        ),
        (
            "prony_connections_opened",
            "Connections opened.",
            |record| record.totals.connections_opened,
        ),
    ];
    let counters = counters
        .into_iter()
        .map(|(name, help, of)| Family::counter(name, help).counting(groups, of));
    let help = "TLS handshakes by whether a session was resumed.";
    let handshakes = Family::counter("prony_tls_handshakes", help).with(groups, |group| {
        let full = |record: &Record| {
            let totals = &record.totals;
            totals.tls_handshakes.saturating_sub(totals.tls_resumed)
        };
        let resumed = |record: &Record| record.totals.tls_resumed;
        [
            group.count(&[("resumed", "true")], resumed),
            group.count(&[("resumed", "false")], full),
        ]
    });
    let help = "Key exchanges of TLS handshakes by group.";
    let groups_used = Family::counter("prony_tls_key_exchanges", help).with(groups, |group| {
        let names = group.records.iter();
        let names: BTreeSet<&String> = names.flat_map(|it| it.totals.tls_groups.keys()).collect();
        let point = |name: &String| {
            let of = |record: &Record| record.totals.tls_groups.get(name).copied();
            group.count(&[("group", name)], |record| of(record).unwrap_or(0))
        };
        names.into_iter().map(point).collect::<Vec<_>>()
    });
    let help = "TLS handshakes in which the server asked for another key share.";
    let retries = Family::counter("prony_tls_hello_retries", help);
    let retries = retries.counting(groups, |record| record.totals.tls_hello_retries);
    counters.chain([handshakes, groups_used, retries]).collect()
}

/// The histograms: metric, name in records, and help.
const TIMES: [(&str, &str, &str); 5] = [
    (
        "prony_response_time_seconds",
        "response_time",
        "Time from the intended start to the last byte, or to the moment when the request was cut \
         off.",
    ),
    (
        "prony_service_time_seconds",
        "service_time",
        "Time from the first byte sent to the last byte received.",
    ),
    (
        "prony_journey_time_seconds",
        "journey_time",
        "Sum of the response times of a completed journey's requests, without its pauses.",
    ),
    (
        "prony_first_event_seconds",
        "first_event",
        "Time from the intended start to the first event of a streamed response.",
    ),
    (
        "prony_event_gap_seconds",
        "event_gap",
        "Time between successive events of a stream.",
    ),
];

fn times(groups: &[Group<'_>]) -> impl Iterator<Item = Family> {
    let families = TIMES.into_iter().map(|(name, of, help)| {
        let family = Family::new(name, MetricKind::Histogram, help);
        family.with(groups, |group| {
            let times = group.times(of)?;
            Some(group.point(&[], PointValue::Histogram(bucket_counts(&times))))
        })
    });
    families.filter(|family| !family.points.is_empty())
}

fn bucket_counts(times: &Distribution) -> BucketCounts {
    let mut buckets = times.buckets().peekable();
    let mut up_to = |end_s: f64| {
        let end_ns = (end_s * 1e9).round() as u64;
        let mut count = 0;
        while let Some((_, more)) = buckets.next_if(|(value, _)| value.0 <= end_ns) {
            count += more;
        }
        count
    };
    let count = times.count();
    BucketCounts {
        counts: BUCKETS_S.into_iter().map(&mut up_to).collect(),
        count,
        sum_s: times.summary().mean / 1e6 * count as f64,
    }
}

fn generator(groups: &[Group<'_>]) -> [Family; 2] {
    // Agents report their CPU time only at the end of the load.
    let is_known = |record: &Record| {
        let effort = record.generator.cpu_user_s + record.generator.cpu_system_s;
        record.fleet.is_none() || effort > 0.0
    };
    let known = &having(groups, is_known);
    let help = "CPU time of the load generator's workers.";
    let cpu = Family::counter("prony_generator_cpu_seconds", help).with(known, |group| {
        let user = group.sum_s(|record| record.generator.cpu_user_s);
        let system = group.sum_s(|record| record.generator.cpu_system_s);
        [
            group.point(&[("mode", "user")], user),
            group.point(&[("mode", "system")], system),
        ]
    });
    let help = "Fraction of the time that the busiest worker was busy.";
    let busy = Family::new("prony_generator_busy_ratio", MetricKind::Gauge, help);
    let busy = busy.with(known, |group| {
        let records = group.records.iter();
        let most = records
            .map(|record| record.generator.busy_share)
            .fold(0.0, f64::max);
        [group.point(&[], PointValue::Number(most))]
    });
    [cpu, busy]
}
