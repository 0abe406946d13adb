//! The stored format of one load: schema `prony.record/1`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Delta, Distribution, Finding, FleetUse, Nanos, Outcome, SLICE, Slice, SourceUse, StartGaps,
    Summary, unmeasured,
};

/// The schema's name, the first field of every record.
pub const RECORD_SCHEMA: &str = "prony.record/1";

/// One load, as stored and as written by `prony load --json`. Times end in `_s` or `_us`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    /// Always [`RECORD_SCHEMA`].
    pub schema: String,
    /// The version of prony that wrote it.
    pub version: String,
    /// When the load began, UTC, RFC 3339.
    pub started_at: String,
    /// The seed of the arrivals and of random URL order.
    pub seed: u64,
    /// What was asked for.
    pub load: LoadInfo,
    /// Counts over the measured part.
    pub totals: Totals,
    /// How each request ended; what did not happen is absent.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Final answers by status.
    pub status: BTreeMap<u16, u64>,
    /// Rates over the measured part.
    pub rate: Rate,
    /// From the intended start to the last byte, over successes and lower bounds.
    #[serde(with = "unmeasured")]
    pub response_time_us: Summary,
    /// From the first byte sent to the last byte received.
    #[serde(with = "unmeasured")]
    pub service_time_us: Summary,
    /// From the start of a connect to its end, over connections opened.
    #[serde(with = "unmeasured")]
    pub connect_time_us: Summary,
    /// TLS handshakes, over connections opened.
    #[serde(with = "unmeasured")]
    pub tls_time_us: Summary,
    /// From the first byte sent to the first byte received, over successes.
    #[serde(with = "unmeasured")]
    pub first_byte_us: Summary,
    /// Each half second.
    pub series: Vec<Slice>,
    /// What the load cost the generator.
    pub generator: Generator,
    /// What came from each source address, where the load was given any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourceUse>,
    /// The command that made the load, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The machine that made the load: system, processor, cores and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Who made the load, where several machines did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetUse>,
    /// What client and server agreed on, as seen on the first connection.
    pub negotiated: Negotiated,
    /// What qualifies the figures.
    pub findings: Vec<Finding>,
    /// Each kind of time by its name (`response_time`, `first_byte`) as an HDR V2 histogram of
    /// nanoseconds, base64, lower bounds as whole values; with `_at_least` after the name the lower
    /// bounds alone.
    #[serde(default)]
    pub histograms: BTreeMap<String, String>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadInfo {
    /// The target, or the first of several.
    pub url: String,
    /// `closed` or `open`.
    pub model: String,
    /// Connections at most.
    pub connections: u32,
    /// Concurrent streams a connection.
    pub streams: u32,
    /// The measured part's planned length; none where a count of requests ends it.
    pub duration_s: Option<f64>,
    /// Requests to make, where a count ends the load.
    #[serde(default)]
    pub requests: Option<u64>,
    /// The unmeasured part before.
    #[serde(default)]
    pub warmup_s: f64,
    /// Requests a second in total; open loop only.
    pub rate_per_s: Option<f64>,
    /// `constant` or `poisson`; open loop only.
    pub arrivals: Option<String>,
    /// The HTTP version asked for.
    pub http: String,
    /// Whether connections are reused.
    pub keepalive: bool,
    /// The TLS settings in a few words, none in clear.
    pub tls: Option<String>,
    /// Worker threads.
    pub threads: u32,
    /// The socket backend: `poll` or `uring`.
    pub io: String,
    /// Local addresses that connections come from; 0 where the system chooses.
    #[serde(default)]
    pub sources: u64,
    /// The version of the PROXY protocol whose header begins each connection, `v1` or `v2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<String>,
    /// Redirects that a request follows at most.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub follow: u64,
    /// The HTTP proxy between, without its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Distinct requests in the list of URLs.
    #[serde(default)]
    pub urls: u32,
    /// `--timeout`, zero for none.
    #[serde(default)]
    pub timeout_s: f64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Counts over the measured part of a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Requests whose connect or send began.
    pub started: u64,
    /// Successes.
    pub ok: u64,
    /// Failures of every kind.
    pub failed: u64,
    /// Still running when the load ended.
    pub unfinished: u64,
    /// Those of them that count without a time: in flight at the end of a closed loop and younger than
    /// its p99, or lost with their agent. The others are lower bounds.
    #[serde(default)]
    pub unfinished_untimed: u64,
    /// Due, but not begun when the load ended.
    pub unstarted: u64,
    /// Lower bounds in the response-time distribution.
    pub censored: u64,
    /// Requests sent once more because a reused connection had lost them.
    pub retried: u64,
    /// Redirects that were followed within requests.
    #[serde(default)]
    pub redirected: u64,
    /// HTTP bytes received, above TLS.
    pub bytes_in: u64,
    /// Bodies among them.
    pub body_bytes_in: u64,
    /// HTTP bytes sent, above TLS; a request whose sending was cut off counts whole.
    pub bytes_out: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// TLS handshakes made, one for each of these connections that is over TLS.
    #[serde(default)]
    pub tls_handshakes: u64,
    /// Those among them that went on from an earlier connection's session.
    #[serde(default)]
    pub tls_resumed: u64,
    /// The measured part's real length.
    pub elapsed_s: f64,
}

/// Two counts that should agree and don't: prony's own mistake, never the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError(String);

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RecordError {}

impl Totals {
    /// The identity of accounting: `started = ok + failed + unfinished`.
    pub fn check(&self) -> Result<(), RecordError> {
        if self.started == self.ok + self.failed + self.unfinished {
            return Ok(());
        }
        Err(RecordError(format!(
            "requests are not accounted for: {} started, but {} ok + {} failed + {} unfinished \
             (a mistake in prony; please report it)",
            self.started, self.ok, self.failed, self.unfinished
        )))
    }
}

/// Rates over the measured part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Successes a second.
    pub ok_per_s: f64,
    /// Requests that the schedule held, a second; open loop only.
    pub offered_per_s: Option<f64>,
    /// Those of them that were started, a second; open loop only.
    #[serde(default)]
    pub started_per_s: Option<f64>,
    /// HTTP bytes received a second.
    pub bytes_in_per_s: f64,
}

/// What the load cost the machine that made it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Generator {
    /// CPU in user mode of all workers over the measured part.
    pub cpu_user_s: f64,
    /// CPU in the kernel of all workers over the measured part.
    pub cpu_system_s: f64,
    /// Share of the time in which a worker was not waiting, of the busiest worker, 0 to 1.
    pub busy_share: f64,
    /// Share of the time in which a worker was at work or wanted a core for it, of the worker with
    /// most, 0 to 1.
    #[serde(default)]
    pub awake_share: f64,
    /// Share of a worker's connections that was waiting for the generator and not for the server,
    /// on average, of the worker with most, 0 to 1. Says something in a closed loop only.
    #[serde(default)]
    pub queue_share: f64,
    /// Share of the time in which a worker wanted a core and had none, of the worker with most, 0
    /// to 1; 0 where the system doesn't tell.
    #[serde(default)]
    pub starved_share: f64,
    /// How late starts were that were due and had a connection; open loop only.
    #[serde(with = "unmeasured")]
    pub late_us: Summary,
    /// How far apart each worker's starts were; open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_gaps: Option<StartGaps>,
    /// Times at which it stood still; none where it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// The process's peak resident memory.
    pub max_rss_bytes: u64,
}

/// Times of half a second or longer at which a worker stood still, because its process was stopped or
/// its machine was paused or suspended; of the worker that stood still longest.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Number of stalls.
    pub count: u64,
    /// Length of all of them.
    pub total_s: f64,
    /// Length of the longest.
    pub longest_s: f64,
    /// Start of the longest, since the measured part began.
    pub longest_at_s: f64,
}

impl Stalls {
    /// These and later ones of the same worker.
    #[must_use]
    pub fn and(self, later: Stalls) -> Stalls {
        let longest = match later.longest_s > self.longest_s {
            true => later,
            false => self,
        };
        Stalls {
            count: self.count + later.count,
            total_s: self.total_s + later.total_s,
            ..longest
        }
    }

    /// These or those of another worker, whichever are longer. Workers of one process stand still at
    /// the same time, so theirs don't add up.
    #[must_use]
    pub fn longer(self, other: Stalls) -> Stalls {
        match other.total_s > self.total_s {
            true => other,
            false => self,
        }
    }
}

/// What client and server agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Negotiated {
    /// The HTTP version of the first answer.
    pub http: Option<String>,
    /// The TLS version.
    pub tls: Option<String>,
    /// The cipher suite by its IANA name.
    pub cipher: Option<String>,
    /// The group of the key exchange, such as `X25519`; none where a session was resumed without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Bits of the server's public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_key_bits: Option<u32>,
    /// The protocol that ALPN chose.
    pub alpn: Option<String>,
}

impl Record {
    /// The record of all that a load's workers recorded, or have recorded so far.
    ///
    /// `begin` and `end` bound the measured part. Rates over no time at all are zero.
    pub fn build(
        load: LoadInfo,
        all: &Delta,
        (begin, end): (Nanos, Nanos),
        offered: Option<u64>,
    ) -> Record {
        let outcomes = &all.outcomes;
        let elapsed = end.since(begin);
        let per_s = |n: u64| {
            if elapsed.0 == 0 {
                0.0
            } else {
                n as f64 / elapsed.as_secs_f64()
            }
        };
        let totals = Totals {
            started: all.started.saturating_sub(all.unmeasured),
            ok: outcomes.get(Outcome::Ok),
            failed: outcomes.failed(),
            unfinished: outcomes.get(Outcome::Unfinished),
            unfinished_untimed: unfinished_untimed(all),
            unstarted: outcomes.get(Outcome::Unstarted),
            censored: all.response_time.censored(),
            retried: all.retried,
            redirected: all.redirected,
            bytes_in: all.bytes_in,
            body_bytes_in: all.body_bytes_in,
            bytes_out: all.bytes_out,
            connections_opened: all.connections_opened,
            tls_handshakes: all.tls_time.count(),
            tls_resumed: all.tls_resumed,
            elapsed_s: elapsed.as_secs_f64(),
        };
        let mut record = Record {
            schema: RECORD_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: String::new(),
            seed: 0,
            load,
            rate: Rate {
                ok_per_s: per_s(totals.ok),
                offered_per_s: offered.map(per_s),
                started_per_s: offered.map(|_| per_s(totals.started)),
                bytes_in_per_s: per_s(totals.bytes_in),
            },
            totals,
            outcomes: outcomes.happened().collect(),
            status: all.statuses.iter().collect(),
            response_time_us: all.response_time.summary(),
            service_time_us: all.service_time.summary(),
            connect_time_us: all.connect_time.summary(),
            tls_time_us: all.tls_time.summary(),
            first_byte_us: all.first_byte.summary(),
            series: series(all, elapsed),
            generator: Generator {
                late_us: all.starts.late.summary(),
                start_gaps: all.starts.gaps(),
                ..Generator::default()
            },
            sources: None,
            fleet: None,
            command: None,
            machine: None,
            negotiated: Negotiated::default(),
            findings: Vec::new(),
            histograms: BTreeMap::new(),
        };
        for (name, times) in [
            ("response_time", &all.response_time),
            ("service_time", &all.service_time),
            ("first_byte", &all.first_byte),
            ("connect_time", &all.connect_time),
            ("tls_time", &all.tls_time),
        ] {
            record.keep_distribution(name, times);
        }
        record
    }

    /// Stores a distribution under a name; nothing of an empty one.
    pub fn keep_distribution(&mut self, name: &str, times: &Distribution) {
        let all = times.encode().map(|it| (name.to_owned(), it));
        let bounds = times.encode_bounds().map(|it| (bounds_name(name), it));
        self.histograms.extend(all.into_iter().chain(bounds));
    }

    /// The distribution stored under a name. Of a record of an earlier version that has lower bounds,
    /// none: which of the values they are is unknown.
    pub fn distribution(&self, name: &str) -> Option<Distribution> {
        let bounds = self.histograms.get(&bounds_name(name));
        let lacks_bounds = self.totals.censored > 0
            && bounds.is_none()
            && matches!(name, "response_time" | "service_time")
            && !self.histograms.contains_key(&bounds_name("response_time"));
        if lacks_bounds {
            return None;
        }
        let all = self.histograms.get(name)?;
        Distribution::decode_with_bounds(all, bounds.map(String::as_str))
    }

    /// Reads a record that this or an earlier version wrote.
    pub fn from_json(json: &str) -> Result<Record, RecordError> {
        let record: Record = serde_json::from_str(json)
            .map_err(|error| RecordError(format!("not a record of prony: {error}")))?;
        if record.schema == RECORD_SCHEMA {
            return Ok(record);
        }
        Err(RecordError(format!(
            "a record of schema \"{}\"; this prony reads \"{RECORD_SCHEMA}\"",
            record.schema
        )))
    }

    /// The record as indented JSON with a newline at its end.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self)
            .expect("a record is numbers, strings and maps with string keys");
        json.push('\n');
        json
    }
}

/// The name under which the lower bounds of a kind of time are stored.
fn bounds_name(name: &str) -> String {
    format!("{name}_at_least")
}

/// Of the requests that end as lower bounds, those that left none.
fn unfinished_untimed(all: &Delta) -> u64 {
    let bounds = all.outcomes.happened().filter(|(it, _)| it.is_censored());
    let bounds: u64 = bounds.map(|(_, count)| count).sum();
    bounds.saturating_sub(all.response_time.censored())
}

fn series(all: &Delta, elapsed: Nanos) -> Vec<Slice> {
    let mut scratch = Distribution::new();
    let ends = (1u64..).map(|n| Nanos(SLICE.0 * n).min(elapsed));
    let mut slices: Vec<Slice> = ends
        .zip(all.series.iter())
        .map(|(end, counts)| counts.finish(end, &mut scratch))
        .collect();
    // A load that ends on a slice's boundary leaves an empty slice of no length behind it.
    if elapsed.0.is_multiple_of(SLICE.0) && slices.last().is_some_and(|s| s.ok + s.failed == 0) {
        slices.pop();
    }
    slices
}
