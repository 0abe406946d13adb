//! The record of one load, with the schema `prony.record/1`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::events::{EventInfo, EventResults};
use crate::load_abort::LoadAbort;
use crate::negotiated::Negotiated;
use crate::number::RateUnit;
use crate::replay::{ReplayInfo, ReplayUse};
use crate::sampling::ServerProfile;
use crate::series::SeriesParts;
use crate::stalls::Stalls;
use crate::websocket_use::WebSocketUse;
use crate::{
    Delta, Distribution, EntryDeltas, EntryList, EntryResults, Finding, FleetUse, HALF_SECOND,
    HalfSecond, JourneyResults, LoadHistory, Nanos, Outcome, RateProfile, RateStage, RunInterval,
    SourceUse, StagedRate, StartGaps, Summary, Throttling, unmeasured,
};

/// Result of a condition of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedCondition {
    /// The condition, such as `--fail-if p99>50ms`.
    pub condition: String,
    /// Result of the condition.
    pub ruling: ConditionRuling,
    /// The measured value, as a clause such as `p99 is 61.3 ms`.
    pub text: String,
}

/// Result of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConditionRuling {
    /// The condition didn't make the command fail.
    Passed,
    /// The condition made the command fail.
    Failed,
    /// The metric was not measured.
    Unknown,
}

/// Name of the schema, the first field of every record.
pub const RECORD_SCHEMA: &str = "prony.record/1";

/// The record of one load, as `prony load --json` writes it. Names of times end in `_s` or `_us`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    /// Always [`RECORD_SCHEMA`].
    pub schema: String,
    /// Version of prony that wrote the record.
    pub version: String,
    /// Start of the load (UTC, RFC 3339).
    pub started_at: String,
    /// Seed of the arrivals and of the random URL order.
    pub seed: u64,
    /// Configuration of the load.
    pub load: LoadInfo,
    /// Counts over the measured part.
    pub totals: Totals,
    /// Requests by outcome; outcomes that did not occur are absent.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Final responses by status.
    pub status: BTreeMap<u16, u64>,
    /// Rates over the measured part.
    pub rate: Rates,
    /// Response times of successful requests, from the intended start to the last byte of the
    /// response, and lower bounds on the response times of requests that timed out or were cut off.
    #[serde(with = "unmeasured")]
    pub response_time_us: Summary,
    /// Service times: from the first byte sent to the last byte received.
    #[serde(with = "unmeasured")]
    pub service_time_us: Summary,
    /// Time to connect, one value for each opened connection.
    #[serde(with = "unmeasured")]
    pub connect_time_us: Summary,
    /// Durations of the TLS handshakes of opened connections.
    #[serde(with = "unmeasured")]
    pub tls_time_us: Summary,
    /// Times from the first byte sent to the first byte received, for successful requests only.
    #[serde(with = "unmeasured")]
    pub first_byte_us: Summary,
    /// Events of streamed responses (`--events`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventResults>,
    /// Results of each entry of the request list. Absent unless the list has at least two entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<EntryResults>,
    /// Results of the journeys; absent unless the load's users take journeys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journeys: Option<JourneyResults>,
    /// Intervals of metrics within this load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<RunInterval>,
    /// Half seconds with their response times, of a load that has just ended.
    #[serde(skip)]
    pub history: LoadHistory,
    /// Time series, one element for each half second.
    pub series: Vec<HalfSecond>,
    /// Resources and delays of the load generator.
    pub generator: Generator,
    /// Use of the source addresses, if the load has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourceUse>,
    /// Use of the addresses of servers (`--addresses`, `--resolve-every`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<SourceUse>,
    /// Results of the load's own conditions, `--fail-if` and `--require`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JudgedCondition>,
    /// Exit status of the command that ran the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// Command line of the load, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Description of the generator's machine: operating system, processor, cores and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Agents that generated the load, if several machines took part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetUse>,
    /// Use of the log, if the load replayed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayUse>,
    /// Connections that only stayed open, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleUse>,
    /// Protocols negotiated on the first connection.
    pub negotiated: Negotiated,
    /// Counts of packets and system calls, if the load used QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicUse>,
    /// Messages of WebSockets besides responses, if the load used WebSockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<WebSocketUse>,
    /// Condition that ended the load early, if any, and its measured value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<LoadAbort>,
    /// Functions of the servers that used CPU time or waited, if the servers were sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ServerProfile>,
    /// Findings that qualify the results.
    pub findings: Vec<Finding>,
    /// Histograms by name (`response_time`, `first_byte` and so on) as HDR V2 in nanoseconds,
    /// base64. They contain lower bounds as ordinary values. A second histogram, whose name ends
    /// with `_at_least`, contains only the lower bounds.
    #[serde(default)]
    pub histograms: BTreeMap<String, String>,
}

/// Configuration of a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadInfo {
    /// URL of the target, or of the first of several.
    pub url: String,
    /// `closed` or `open`.
    pub model: String,
    /// Maximum number of connections.
    pub connections: u32,
    /// Maximum number of concurrent streams per connection.
    pub streams: u32,
    /// Planned length of the measured part; `None` if the load ends after a number of requests.
    pub duration_s: Option<f64>,
    /// Number of requests after which the load ends, if there is such a limit.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Length of the warm-up, which is not measured.
    #[serde(default)]
    pub warmup_s: f64,
    /// Total arrival rate in requests per second; only for an open loop at a constant rate.
    pub rate_per_s: Option<f64>,
    /// Total arrival rate over time; only for an open loop whose rate changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<RateStage>,
    /// `constant` or `poisson`; open loop only.
    pub arrivals: Option<String>,
    /// Think times of a closed loop's virtual users; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkTimeInfo>,
    /// Requested HTTP version, or `auto`.
    pub http: String,
    /// True if connections are reused.
    pub keepalive: bool,
    /// True if the requests are messages of WebSockets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub websocket: bool,
    /// True if connections are only opened and closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tcp_only: bool,
    /// Number of connections that only stay open.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: u64,
    /// Number of requests after which a connection is replaced; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// Age at which a connection is replaced; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_lifetime_s: Option<f64>,
    /// Summary of the TLS settings; `None` for cleartext.
    pub tls: Option<String>,
    /// Worker threads.
    pub threads: u32,
    /// Socket backend: `poll`, `uring` or `xdp`.
    pub io: String,
    /// Number of source addresses; 0 if the operating system chooses.
    #[serde(default)]
    pub sources: u64,
    /// Choice among a host's addresses: `all` or `random`; `None` for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<String>,
    /// Interval at which hosts are looked up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve_every_s: Option<f64>,
    /// Version of the PROXY protocol header that begins each connection, `v1` or `v2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<String>,
    /// Maximum number of redirects that a request follows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub follow: u64,
    /// HTTP proxy of the load, without its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// File of the script that generated the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// gRPC method that the requests call, such as `shop.Cart/Add`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<String>,
    /// SHA-256 of the script's file, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_sha256: Option<String>,
    /// File with the rows for placeholders (`--data`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// True if each virtual user has a cookie jar (`--cookies`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cookies: bool,
    /// Number of distinct requests in the list of URLs.
    #[serde(default)]
    pub urls: u32,
    /// Order in which the list of URLs is requested, such as `per-user`; `None` for a single
    /// request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Number of steps of the journey that each virtual user takes; 0 if the load is no journey.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// True if a step of the journey has a think time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub step_pauses: bool,
    /// Response timeout (`--timeout`); zero for none.
    #[serde(default)]
    pub timeout_s: f64,
    /// Settings of the events of streamed responses; `None` if responses aren't read as streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventInfo>,
    /// Maximum time between two events of a stream (`--gap-timeout`); `None` without events, zero
    /// for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_timeout_s: Option<f64>,
    /// The log whose requests are sent, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayInfo>,
    /// Names of the entries of the request list, if there are at least two. Stored records contain
    /// the names in the results instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Box<EntryList>>,
}

impl LoadInfo {
    /// Returns the arrival rate of an open loop.
    pub fn rate_profile(&self) -> Option<RateProfile> {
        match (self.rate_per_s, self.stages.as_slice()) {
            (Some(rate_per_s), _) => Some(RateProfile::Constant(rate_per_s)),
            (None, []) => None,
            (None, stages) => Some(RateProfile::Staged(StagedRate::new(stages))),
        }
    }

    /// Returns the subject of the load's schedule and of its limits.
    pub fn rate_unit(&self) -> RateUnit {
        match self.steps {
            0 if self.tcp_only => RateUnit::Connections,
            0 if self.websocket => RateUnit::Messages,
            0 => RateUnit::Requests,
            _ => RateUnit::Journeys,
        }
    }

    /// Returns true if requests follow a schedule.
    pub fn is_open(&self) -> bool {
        let recorded = self.replay.as_ref().and_then(|replay| replay.speed);
        self.rate_per_s.is_some() || !self.stages.is_empty() || recorded.is_some()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Connections that only stay open during a load.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IdleUse {
    /// Number of connections to keep open.
    pub wanted: u64,
    /// Number that was open when the load began.
    pub open_at_begin: u64,
    /// Number that was open when the load ended.
    pub open_at_end: u64,
    /// Number of connections that were lost and opened again.
    pub reopened: u64,
    /// Reasons why connections were not open, with their numbers: `reset: Connection reset by peer`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, u64>,
}

impl IdleUse {
    /// Adds the connections of another process.
    pub fn merge(&mut self, other: &IdleUse) {
        for (reason, count) in &other.reasons {
            let own = self.reasons.entry(reason.clone()).or_default();
            *own = own.saturating_add(*count);
        }
        self.wanted += other.wanted;
        self.open_at_begin += other.open_at_begin;
        self.open_at_end += other.open_at_end;
        self.reopened += other.reopened;
    }
}

/// Think times: pauses of virtual users between their requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThinkTimeInfo {
    /// Mean length of a pause, in seconds.
    pub mean_s: f64,
    /// Distribution of the pauses: `constant` or `exponential`.
    pub distribution: String,
}

impl LoadInfo {
    /// Returns true if the load waits only for the server: a closed loop without think times.
    pub fn is_saturating(&self) -> bool {
        !self.is_open() && self.think.is_none() && !self.step_pauses
    }
}

/// Counts over the measured part of a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Requests that began to connect or to send.
    pub started: u64,
    /// Number of successful requests.
    pub ok: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Requests in flight when the load ended.
    pub unfinished: u64,
    /// Unfinished requests that were counted without a time. At the end of a closed loop, these are
    /// the requests younger than the p99; in a load by agents, also the requests of lost agents.
    /// The ages of all other unfinished requests are recorded as lower bounds.
    #[serde(default)]
    pub unfinished_untimed: u64,
    /// Requests that were due but not started when the load ended.
    pub unstarted: u64,
    /// Number of response times that are known only as lower bounds.
    pub censored: u64,
    /// Number of retries after a reused connection lost a request.
    pub retried: u64,
    /// Redirects followed within requests.
    #[serde(default)]
    pub redirected: u64,
    /// HTTP bytes received, not counting TLS.
    pub bytes_in: u64,
    /// Bytes of response bodies, included in `bytes_in`.
    pub body_bytes_in: u64,
    /// HTTP bytes sent, not counting TLS.
    pub bytes_out: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// TLS handshakes completed, one for each connection that uses TLS.
    #[serde(default)]
    pub tls_handshakes: u64,
    /// TLS handshakes that resumed the session of an earlier connection.
    #[serde(default)]
    pub tls_resumed: u64,
    /// TLS handshakes in which the server asked for another key share (HelloRetryRequest), which
    /// takes another round trip.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tls_hello_retries: u64,
    /// TLS handshakes by the group of their key exchange. Sessions resumed without a key exchange
    /// have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tls_groups: BTreeMap<String, u64>,
    /// Actual length of the measured part.
    pub elapsed_s: f64,
}

/// Error in a record: its JSON is invalid, or its counts contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError(String);

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RecordError {}

impl Totals {
    /// Checks that the counts satisfy `started = ok + failed + unfinished`.
    pub fn check(&self) -> Result<(), RecordError> {
        if self.started == self.ok + self.failed + self.unfinished {
            return Ok(());
        }
        Err(RecordError(format!(
            "requests are not accounted for: {} started, but {} ok + {} failed + {} unfinished \
             (a bug in prony; please report it)",
            self.started, self.ok, self.failed, self.unfinished
        )))
    }
}

/// Rates over the measured part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rates {
    /// Successful requests per second.
    pub ok_per_s: f64,
    /// Requests per second that were due on the schedule; open loop only.
    pub offered_per_s: Option<f64>,
    /// Requests per second that were started; open loop only.
    #[serde(default)]
    pub started_per_s: Option<f64>,
    /// HTTP bytes received per second.
    pub bytes_in_per_s: f64,
}

/// CPU usage, memory and delays of the load generator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Generator {
    /// User CPU time of all workers over the measured part.
    pub cpu_user_s: f64,
    /// Kernel CPU time of all workers over the measured part.
    pub cpu_system_s: f64,
    /// Fraction of the time during which the busiest worker was not waiting for events, 0 to 1.
    pub busy_share: f64,
    /// Fraction of the time during which a worker was running or ready to run, 0 to 1. The largest
    /// fraction of any worker.
    #[serde(default)]
    pub awake_share: f64,
    /// Mean fraction of a worker's connections that waited for the generator instead of the server,
    /// 0 to 1. The largest fraction of any worker. Meaningful only in a closed loop.
    #[serde(default)]
    pub queue_share: f64,
    /// Fraction of the time during which a worker was ready to run but had no core, 0 to 1. The
    /// largest fraction of any worker. 0 if the operating system does not report it.
    #[serde(default)]
    pub starved_share: f64,
    /// Lateness of the requests that found a free connection; open loop only.
    #[serde(with = "unmeasured")]
    pub late_us: Summary,
    /// Gaps between the starts of successive requests, for each worker; open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_gaps: Option<StartGaps>,
    /// Stalls of the generator; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// CPU quota of the generator's control group over the measured part; `None` without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttling: Option<Throttling>,
    /// Packets and drops of a load over AF_XDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xdp: Option<XdpUse>,
    /// Peak resident memory of the process.
    pub max_rss_bytes: u64,
}

/// Packets and system calls of a load over QUIC, including its warm-up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QuicUse {
    /// Version of QUIC.
    pub version: u32,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    #[serde(default)]
    pub packets_received: u64,
    /// Sent packets that were declared lost (RFC 9002 §6.1). Most of their content was sent again.
    pub packets_lost: u64,
    /// UDP datagrams sent. A datagram contains one packet or, during a handshake, several.
    pub datagrams_sent: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
    /// Datagrams that arrived and were dropped because a socket's receive buffer was full.
    pub datagrams_dropped: u64,
    /// System calls that sent datagrams.
    pub send_calls: u64,
    /// System calls that received datagrams.
    pub receive_calls: u64,
    /// Largest datagram that a path is confirmed to carry, in bytes of UDP payload.
    pub mtu_bytes: u16,
    /// Connections that offered early data (0-RTT, RFC 9001 §4.6).
    #[serde(default)]
    pub early_data_offered: u64,
    /// Connections whose early data the server accepted.
    #[serde(default)]
    pub early_data_accepted: u64,
}

impl QuicUse {
    /// Adds the QUIC counts of another worker or connection.
    pub fn merge(&mut self, other: &QuicUse) {
        self.version = self.version.max(other.version);
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.packets_lost += other.packets_lost;
        self.datagrams_sent += other.datagrams_sent;
        self.datagrams_received += other.datagrams_received;
        self.datagrams_dropped += other.datagrams_dropped;
        self.send_calls += other.send_calls;
        self.receive_calls += other.receive_calls;
        self.mtu_bytes = self.mtu_bytes.max(other.mtu_bytes);
        self.early_data_offered += other.early_data_offered;
        self.early_data_accepted += other.early_data_accepted;
    }
}

/// Packets, drops and sleeps of all workers of a load over AF_XDP, including its warm-up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct XdpUse {
    /// Point at which packets bypass the kernel's network stack: `native` (in the driver) or
    /// `generic`.
    pub mode: String,
    /// True if frames were not copied between the driver and the workers.
    pub zero_copy: bool,
    /// Number of receive queues.
    pub queues: u64,
    /// Memory that the sockets use for frames and rings, in bytes.
    pub ring_bytes: u64,
    /// IP packets sent.
    pub packets_sent: u64,
    /// Frames received.
    pub packets_received: u64,
    /// Packets that one worker received for another worker and copied to it.
    pub packets_exchanged: u64,
    /// Packets that one worker received for another worker and dropped because that worker's inbox
    /// was full.
    pub exchange_dropped: u64,
    /// Received frames that the kernel dropped because a ring was full or the frame was too large.
    pub receive_drops: u64,
    /// Outgoing frames that the kernel rejected.
    pub transmit_drops: u64,
    /// Received packets that were dropped because they were malformed or had a wrong checksum.
    pub bad_packets: u64,
    /// TCP segments that arrived out of order.
    pub out_of_order: u64,
    /// TCP segments that were sent again.
    pub retransmitted: u64,
    /// Number of retransmission timeouts.
    pub timeouts: u64,
    /// Replies sent to other hosts that asked for the MAC address of a source address.
    pub neighbor_replies: u64,
    /// Number of times that a worker slept until a packet arrived or a timer expired.
    pub polls: u64,
    /// Number of sleeps that ended because a packet arrived.
    pub wakes: u64,
    /// Number of sleeps that arriving packets did not interrupt, so that the worker could handle
    /// several responses at once.
    pub pauses: u64,
}

impl XdpUse {
    /// Adds the AF_XDP counts of another worker.
    pub fn merge(&mut self, other: &XdpUse) {
        self.mode.clone_from(&other.mode);
        self.zero_copy &= other.zero_copy;
        self.queues += other.queues;
        self.ring_bytes += other.ring_bytes;
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.packets_exchanged += other.packets_exchanged;
        self.exchange_dropped += other.exchange_dropped;
        self.receive_drops += other.receive_drops;
        self.transmit_drops += other.transmit_drops;
        self.bad_packets += other.bad_packets;
        self.out_of_order += other.out_of_order;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.neighbor_replies += other.neighbor_replies;
        self.polls += other.polls;
        self.wakes += other.wakes;
        self.pauses += other.pauses;
    }
}

impl Record {
    /// Returns true if the load had a success: a successful request or, if no request failed, events
    /// of streams that all outlasted the load.
    pub fn has_success(&self) -> bool {
        let events = self.events.as_ref().map_or(0, |events| events.events);
        self.totals.ok > 0 || (events > 0 && self.totals.failed == 0)
    }

    /// Returns the number of failed requests that have no time. Requests that timed out have one:
    /// a lower bound.
    pub fn untimed_failures(&self) -> u64 {
        let timed_out = self.outcomes.iter();
        let timed_out = timed_out.filter(|(it, _)| it.is_failure() && it.is_censored());
        let timed_out: u64 = timed_out.map(|(_, count)| count).sum();
        self.totals.failed.saturating_sub(timed_out)
    }

    /// Builds the record from the merged deltas of a load, finished or not.
    ///
    /// `begin` and `end` delimit the measured part. If it is empty, all rates are zero.
    pub fn build(
        mut load: LoadInfo,
        all: &Delta,
        (begin, end): (Nanos, Nanos),
        offered: Option<u64>,
    ) -> Record {
        let outcomes = &all.outcomes;
        let elapsed = end.since(begin);
        let entries = load.entries.take();
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
            tls_hello_retries: all.tls_hello_retries,
            tls_groups: all.tls_groups.by_name(),
            elapsed_s: elapsed.as_secs_f64(),
        };
        // The schedule of journeys says nothing about the rate of requests.
        let is_journey = load.steps > 0;
        let offered = offered.filter(|_| !is_journey);
        let rate = load.rate_profile().filter(|_| !is_journey);
        let has = SeriesParts {
            journeys: is_journey,
            events: load.events.is_some(),
        };
        let series = series(all, elapsed, rate.as_ref(), has);
        let journeys = is_journey.then(|| {
            JourneyResults::of(
                all.journeys,
                all.journey_time.summary(),
                elapsed,
                load.is_open(),
            )
        });
        let events = load.events.as_ref();
        let events = events.map(|info| all.events.results(info, elapsed));
        let mut record = Record {
            schema: RECORD_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            load,
            rate: Rates {
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
            events,
            entries: entries.map(|list| EntryResults::of(&list, &all.entries, elapsed)),
            journeys,
            series,
            history: all.history(elapsed),
            generator: Generator {
                late_us: all.starts.late.summary(),
                start_gaps: all.starts.gaps(),
                ..Generator::default()
            },
            ..Record::default()
        };
        for (name, times) in [
            ("response_time", &all.response_time),
            ("service_time", &all.service_time),
            ("first_byte", &all.first_byte),
            ("connect_time", &all.connect_time),
            ("tls_time", &all.tls_time),
            ("journey_time", &all.journey_time),
            ("first_event", &all.events.first_event),
            ("event_gap", &all.events.event_gap),
        ] {
            record.keep_distribution(name, times);
        }
        record
    }

    /// Stores the histogram of each entry's response times. `deltas` must cover the whole load.
    pub fn keep_entry_histograms(&mut self, deltas: &EntryDeltas) {
        if let Some(entries) = &mut self.entries {
            entries.keep_histograms(deltas);
        }
    }

    /// Stores a distribution under the given name, unless the distribution is empty.
    pub fn keep_distribution(&mut self, name: &str, times: &Distribution) {
        let all = times.encode().map(|it| (name.to_owned(), it));
        let bounds = times.encode_bounds().map(|it| (bounds_name(name), it));
        self.histograms.extend(all.into_iter().chain(bounds));
    }

    /// Returns the distribution stored under the given name. Returns `None` if some times are only
    /// lower bounds and the record, written by an earlier version, doesn't state which ones.
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

    /// Parses a record that this version or an earlier one wrote.
    pub fn from_json(json: &str) -> Result<Record, RecordError> {
        let record: Record = crate::parse_stored(json)
            .map_err(|error| RecordError(format!("not a prony record: {error}")))?;
        if record.schema == RECORD_SCHEMA {
            return Ok(record);
        }
        Err(RecordError(format!(
            "the record has schema \"{}\"; this version of prony reads \"{RECORD_SCHEMA}\"",
            record.schema
        )))
    }

    /// Returns the record as indented JSON that ends with a newline.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self)
            .expect("a record consists of numbers, strings and maps with string keys");
        json.push('\n');
        json
    }
}

/// Returns the name under which the lower bounds of a distribution are stored.
fn bounds_name(name: &str) -> String {
    format!("{name}_at_least")
}

/// Returns the number of unfinished requests whose age was not recorded as a lower bound.
fn unfinished_untimed(all: &Delta) -> u64 {
    let bounds = all.outcomes.happened().filter(|(it, _)| it.is_censored());
    let bounds: u64 = bounds.map(|(_, count)| count).sum();
    bounds.saturating_sub(all.response_time.censored())
}

fn series(
    all: &Delta,
    elapsed: Nanos,
    rate: Option<&RateProfile>,
    has: SeriesParts,
) -> Vec<HalfSecond> {
    let ends = (1u64..).map(|n| Nanos(HALF_SECOND.0 * n).min(elapsed));
    let mut half_seconds: Vec<HalfSecond> = ends
        .zip(all.series.iter())
        .map(|(end, counts)| counts.finish(end, has))
        .collect();
    // If the load ends at the boundary of a half second, the last one is empty and has no length.
    if elapsed.0.is_multiple_of(HALF_SECOND.0)
        && half_seconds.last().is_some_and(HalfSecond::is_empty)
    {
        half_seconds.pop();
    }
    if let Some(rate) = rate {
        let mut begin_s = 0.0;
        for half_second in &mut half_seconds {
            half_second.offered_per_s = Some(rate.mean_between(begin_s, half_second.t_s));
            begin_s = half_second.t_s;
        }
    }
    half_seconds
}
