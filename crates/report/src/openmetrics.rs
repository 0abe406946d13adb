//! Loads as OpenMetrics text for Prometheus: a finished load, a running one, or all trials of an
//! experiment.
//!
//! The format is OpenMetrics 1.0. Each family occurs once, with its type, unit, help and samples.
//! Names of counters end in `_total`, times are in seconds and sizes in bytes, and the text ends
//! with `# EOF`. All values cover only the measured part. Records with the same labels are
//! combined.

use std::fmt::Write;

use prony_record::{Distribution, EntryResult, JourneyResults, Outcome, Record};
use prony_stats::Levels;

use crate::Experiment;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper limits of the histogram buckets in seconds, each about 2.5 times the previous one.
/// Longer times fall into the last bucket, +Inf.
const BUCKETS_S: [f64; 21] = [
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Labels, each with its name and its value.
pub type Labels = Vec<(String, String)>;

/// Formats one load.
pub fn load(record: &Record) -> String {
    openmetrics_text(&[(Labels::new(), record)])
}

/// Formats all trials of an experiment, by variant.
pub fn experiment(experiment: &Experiment) -> String {
    let variants = &experiment.verdict.variants;
    let samples: Vec<(Labels, &Record)> = experiment
        .trials
        .iter()
        .filter_map(|trial| {
            let variant = variants.get(trial.variant)?;
            Some((labels(&variant.name, &variant.levels), &trial.record))
        })
        .collect();
    openmetrics_text(&samples)
}

/// The labels of a variant: its name, and each factor's level as `factor_NAME`.
pub fn labels(name: &str, levels: &Levels) -> Labels {
    let mut labels = vec![("variant".to_owned(), name.to_owned())];
    labels.extend(levels.iter().map(|(factor, level)| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let factor: String = factor.chars().map(plain).collect();
        (format!("factor_{factor}"), level.clone())
    }));
    labels
}

/// Formats several records. Records with the same labels are combined.
pub fn openmetrics_text(samples: &[(Labels, &Record)]) -> String {
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
    let mut out = MetricsText::default();
    info(&mut out, &groups);
    requests(&mut out, &groups);
    journeys(&mut out, &groups);
    events(&mut out, &groups);
    transfer(&mut out, &groups);
    times(&mut out, &groups);
    generator(&mut out, &groups);
    out.0 + "# EOF\n"
}

/// The records that have the same labels.
struct Group<'a> {
    labels: &'a Labels,
    records: Vec<&'a Record>,
}

impl Group<'_> {
    fn sum(&self, of: impl Fn(&Record) -> u64) -> u64 {
        self.records.iter().map(|record| of(record)).sum()
    }

    fn sum_s(&self, of: impl Fn(&Record) -> f64) -> f64 {
        self.records.iter().map(|record| of(record)).sum()
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
}

/// OpenMetrics text under construction.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to memory can't fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// Adds a family of counters with one sample per group.
    fn counter(
        &mut self,
        (name, unit, help): (&str, &str, &str),
        groups: &[Group<'_>],
        of: impl Fn(&Record) -> u64,
    ) {
        self.family(name, "counter", unit, help);
        for group in groups {
            let value = group.sum(&of);
            self.sample(
                &format!("{name}_total"),
                &borrowed(group.labels, &[]),
                value,
            );
        }
    }
}

fn borrowed<'a>(labels: &'a Labels, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let own = labels
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    own.chain(more.iter().copied()).collect()
}

/// Escapes a label's value.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn info(out: &mut MetricsText, groups: &[Group<'_>]) {
    out.family("prony_load", "info", "", "Settings of the load.");
    for group in groups {
        let Some(record) = group.records.first() else {
            continue;
        };
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
        out.sample("prony_load_info", &borrowed(group.labels, &more), 1);
    }
    let help = "Length of the measured part of the load so far.";
    out.family("prony_measured_seconds", "gauge", "seconds", help);
    for group in groups {
        let seconds = group.sum_s(|record| record.totals.elapsed_s);
        out.sample(
            "prony_measured_seconds",
            &borrowed(group.labels, &[]),
            seconds,
        );
    }
}

fn requests(out: &mut MetricsText, groups: &[Group<'_>]) {
    let started = (
        "prony_requests_started",
        "",
        "Requests started (connecting or sending began).",
    );
    out.counter(started, groups, |record| record.totals.started);
    let help = "Requests by outcome; unstarted requests were due but never sent.";
    out.family("prony_requests", "counter", "", help);
    for group in groups {
        for outcome in Outcome::ALL {
            let of = |record: &Record| record.outcomes.get(outcome).copied().unwrap_or(0);
            let count = group.sum(of);
            // Alerts need the samples of these outcomes even while their count is zero.
            if count > 0 || matches!(outcome, Outcome::Ok | Outcome::Timeout) {
                let labels = borrowed(group.labels, &[("outcome", outcome.name())]);
                out.sample("prony_requests_total", &labels, count);
            }
        }
    }
    out.family(
        "prony_responses",
        "counter",
        "",
        "Final responses by status.",
    );
    for group in groups {
        let mut statuses: Vec<u16> = Vec::new();
        for record in &group.records {
            statuses.extend(record.status.keys());
        }
        statuses.sort_unstable();
        statuses.dedup();
        for status in statuses {
            let of = |record: &Record| record.status.get(&status).copied().unwrap_or(0);
            let text = status.to_string();
            let labels = borrowed(group.labels, &[("status", &text)]);
            out.sample("prony_responses_total", &labels, group.sum(of));
        }
    }
    let help = "Requests retried because a reused connection was lost.";
    let retried = ("prony_requests_retried", "", help);
    out.counter(retried, groups, |record| record.totals.retried);
}

/// Function that returns a count.
type Count<T> = fn(&T) -> u64;

/// Journeys by their ends, and the requests of each step. Left out if no load has journeys.
fn journeys(out: &mut MetricsText, groups: &[Group<'_>]) {
    let groups = with(groups, |record| record.journeys.is_some());
    if groups.is_empty() {
        return;
    }
    let begun = ("prony_journeys_begun", "", "Journeys begun.");
    let of = |record: &Record| record.journeys.as_ref().map_or(0, |it| it.started);
    out.counter(begun, &groups, of);
    let help = "Journeys by their ends; unstarted journeys were due but never began.";
    out.family("prony_journeys", "counter", "", help);
    for group in &groups {
        let ends: [(&str, Count<JourneyResults>); 4] = [
            ("completed", |it| it.completed),
            ("failed", |it| it.failed),
            ("unfinished", |it| it.unfinished),
            ("unstarted", |it| it.unstarted),
        ];
        for (end, of) in ends {
            let count = group.sum(|record| record.journeys.as_ref().map_or(0, of));
            let labels = borrowed(group.labels, &[("end", end)]);
            out.sample("prony_journeys_total", &labels, count);
        }
    }
    let help = "Requests of each step; a journey ends with its first failed step.";
    out.family("prony_step_requests", "counter", "", help);
    for group in &groups {
        let steps = |record: &Record| {
            let steps = record.entries.as_ref();
            steps.map_or(Vec::new(), |it| it.rows().cloned().collect())
        };
        let first: Vec<EntryResult> = group.records.first().map_or(Vec::new(), |it| steps(it));
        for step in first {
            let results: [(&str, Count<EntryResult>); 2] =
                [("ok", |it| it.ok), ("failed", |it| it.failed)];
            for (result, of) in results {
                let count = group.sum(|record| {
                    let rows = steps(record);
                    rows.iter().find(|it| it.name == step.name).map_or(0, of)
                });
                let labels = [("step", step.name.as_str()), ("result", result)];
                let labels = borrowed(group.labels, &labels);
                out.sample("prony_step_requests_total", &labels, count);
            }
        }
    }
}

/// Events of streamed responses. Left out if no load has any.
fn events(out: &mut MetricsText, groups: &[Group<'_>]) {
    let groups = with(groups, |record| record.events.is_some());
    if groups.is_empty() {
        return;
    }
    let arrived = (
        "prony_events",
        "",
        "Events of streamed responses that arrived.",
    );
    let of = |record: &Record| record.events.as_ref().map_or(0, |it| it.events);
    out.counter(arrived, &groups, of);
}

/// The groups in which a record has this property.
fn with<'a>(groups: &[Group<'a>], has: impl Fn(&Record) -> bool) -> Vec<Group<'a>> {
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

fn transfer(out: &mut MetricsText, groups: &[Group<'_>]) {
    let help = "HTTP bytes received, above TLS.";
    let received = ("prony_received_bytes", "bytes", help);
    out.counter(received, groups, |record| record.totals.bytes_in);
    let bodies = (
        "prony_received_body_bytes",
        "bytes",
        "Bytes of response bodies, which \
        prony_received_bytes includes.",
    );
    out.counter(bodies, groups, |record| record.totals.body_bytes_in);
    let sent = ("prony_sent_bytes", "bytes", "HTTP bytes sent, above TLS.");
    out.counter(sent, groups, |record| record.totals.bytes_out);
    let opened = ("prony_connections_opened", "", "Connections opened.");
    out.counter(opened, groups, |record| record.totals.connections_opened);
    let help = "TLS handshakes by whether a session was resumed.";
    out.family("prony_tls_handshakes", "counter", "", help);
    for group in groups {
        let resumed = group.sum(|record| record.totals.tls_resumed);
        let all = group.sum(|record| record.totals.tls_handshakes);
        for (name, count) in [("true", resumed), ("false", all.saturating_sub(resumed))] {
            let labels = borrowed(group.labels, &[("resumed", name)]);
            out.sample("prony_tls_handshakes_total", &labels, count);
        }
    }
    let help = "Key exchanges of TLS handshakes by group.";
    out.family("prony_tls_key_exchanges", "counter", "", help);
    for group in groups {
        let names = group
            .records
            .iter()
            .flat_map(|record| record.totals.tls_groups.keys());
        for name in std::collections::BTreeSet::from_iter(names) {
            let of = |record: &Record| record.totals.tls_groups.get(name).copied();
            let count = group.sum(|record| of(record).unwrap_or(0));
            let labels = borrowed(group.labels, &[("group", name)]);
            out.sample("prony_tls_key_exchanges_total", &labels, count);
        }
    }
    let retries = (
        "prony_tls_hello_retries",
        "",
        "TLS handshakes in which the server asked for another key share.",
    );
    out.counter(retries, groups, |record| record.totals.tls_hello_retries);
}

fn times(out: &mut MetricsText, groups: &[Group<'_>]) {
    for (name, of, help) in [
        (
            "prony_response_time_seconds",
            "response_time",
            "Time from the intended start to the last byte, or to the moment when the request \
                was cut off.",
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
    ] {
        let all: Vec<(&Group<'_>, Distribution)> = groups
            .iter()
            .filter_map(|group| Some((group, group.times(of)?)))
            .collect();
        if all.is_empty() {
            continue;
        }
        out.family(name, "histogram", "seconds", help);
        for (group, times) in all {
            histogram(out, name, group.labels, &times);
        }
    }
}

fn histogram(out: &mut MetricsText, name: &str, labels: &Labels, times: &Distribution) {
    let mut buckets = times.buckets().peekable();
    let mut below = 0;
    for end_s in BUCKETS_S {
        let end_ns = (end_s * 1e9).round() as u64;
        while let Some((_, count)) = buckets.next_if(|(value, _)| value.0 <= end_ns) {
            below += count;
        }
        let le = end_s.to_string();
        let labels = borrowed(labels, &[("le", &le)]);
        out.sample(&format!("{name}_bucket"), &labels, below);
    }
    let all = times.count();
    let infinite = borrowed(labels, &[("le", "+Inf")]);
    out.sample(&format!("{name}_bucket"), &infinite, all);
    let own = borrowed(labels, &[]);
    out.sample(&format!("{name}_count"), &own, all);
    let sum_s = times.summary().mean / 1e6 * all as f64;
    out.sample(&format!("{name}_sum"), &own, sum_s);
}

fn generator(out: &mut MetricsText, groups: &[Group<'_>]) {
    let help = "CPU time of the load generator's workers.";
    out.family("prony_generator_cpu_seconds", "counter", "seconds", help);
    // Agents report their CPU time only at the end of the load.
    let is_known = |record: &&Record| {
        let effort = record.generator.cpu_user_s + record.generator.cpu_system_s;
        record.fleet.is_none() || effort > 0.0
    };
    let known = |group: &&Group<'_>| group.records.iter().any(is_known);
    for group in groups.iter().filter(known) {
        let user = group.sum_s(|record| record.generator.cpu_user_s);
        let system = group.sum_s(|record| record.generator.cpu_system_s);
        for (mode, seconds) in [("user", user), ("system", system)] {
            let labels = borrowed(group.labels, &[("mode", mode)]);
            out.sample("prony_generator_cpu_seconds_total", &labels, seconds);
        }
    }
    let help = "Fraction of the time that the busiest worker was busy.";
    out.family("prony_generator_busy_ratio", "gauge", "ratio", help);
    for group in groups.iter().filter(known) {
        let shares = group
            .records
            .iter()
            .map(|record| record.generator.busy_share);
        let most = shares.fold(0.0, f64::max);
        out.sample(
            "prony_generator_busy_ratio",
            &borrowed(group.labels, &[]),
            most,
        );
    }
}
