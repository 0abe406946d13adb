//! Metrics on which variants can be compared.

use std::fmt;
use std::str::FromStr;

use prony_record::number::{self, RateUnit};
use serde::{Deserialize, Serialize};

/// Defines [`Metric`]. Each entry contains the name in JSON and in plans (which ends with the
/// unit), the name in sentences, the unit, the better direction, the scale, and the role in
/// explanations. To add a metric, add an entry here and its name to the schemas. Compute its value
/// in `observed.rs` (from the load's record) or in the experiment's `runner/values.rs` (from
/// telemetry).
macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident = $name:literal, $noun:literal, $unit:ident, $direction:ident,
        $scale:ident, $role:ident;)*) => {
        /// A number that each trial yields. Its name in JSON and in plans ends with the unit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $($(#[$doc])* $metric,)*
        }

        impl Metric {
            /// Every metric, in the order of output.
            pub const ALL: &'static [Metric] = &[$(Metric::$metric,)*];

            /// Returns the name in JSON and in plans.
            pub fn name(self) -> &'static str {
                match self { $(Metric::$metric => $name,)* }
            }

            /// Returns the name in sentences.
            pub fn noun(self) -> &'static str {
                match self { $(Metric::$metric => $noun,)* }
            }

            /// Returns the unit of the values.
            pub fn unit(self) -> Unit {
                match self { $(Metric::$metric => Unit::$unit,)* }
            }

            /// Returns the direction in which the metric is better. Metrics that depend on the
            /// amount of work (network traffic) or describe the generator have no such direction.
            pub fn direction(self) -> Direction {
                match self { $(Metric::$metric => Direction::$direction,)* }
            }

            /// Returns the scale on which variants are compared.
            pub fn scale(self) -> Scale {
                match self { $(Metric::$metric => Scale::$scale,)* }
            }

            /// Returns the role in explaining a difference in speed.
            pub fn role(self) -> MetricRole {
                match self { $(Metric::$metric => MetricRole::$role,)* }
            }
        }
    };
}

metrics! {
    /// Successful requests per second.
    RatePerS = "rate_per_s", "request rate", PerS, Higher, Ratio, Result;
    /// Highest request rate that meets the goals of a capacity search, in requests per second.
    CapacityPerS = "capacity_per_s", "capacity", PerS, Higher, Ratio, Result;
    /// Highest rate of journeys that meets the goals, found by a search; for loads with steps.
    JourneyCapacityPerS = "journey_capacity_per_s", "capacity", JourneysPerS, Higher, Ratio, Result;
    /// Time until all requests were completed, in microseconds. Only for loads with a fixed number
    /// of requests, all of which succeeded.
    TotalTimeUs = "total_time_us", "time for all requests", Micros, Lower, Ratio, Result;
    /// Median response time, in microseconds.
    P50Us = "p50_us", "median response time", Micros, Lower, Ratio, Result;
    /// 99th percentile of the response time, in microseconds.
    P99Us = "p99_us", "p99 response time", Micros, Lower, Ratio, Result;
    /// Median duration of the TLS handshakes, in microseconds.
    TlsP50Us = "tls_p50_us", "median TLS handshake time", Micros, Lower, Ratio, Result;
    /// Events of streamed responses per second; only for loads with `events`.
    EventsPerS = "events_per_s", "event rate", EventsPerS, Higher, Ratio, Result;
    /// Median time to the first event of a streamed response, in microseconds.
    FirstEventP50Us = "first_event_p50_us", "median time to the first event", Micros, Lower, Ratio, Result;
    /// 99th percentile of the time to the first event, in microseconds.
    FirstEventP99Us = "first_event_p99_us", "p99 time to the first event", Micros, Lower, Ratio, Result;
    /// Median gap between events of a stream, in microseconds.
    EventGapP50Us = "event_gap_p50_us", "median gap between events", Micros, Lower, Ratio, Result;
    /// 99th percentile of the gaps between events of a stream, in microseconds.
    EventGapP99Us = "event_gap_p99_us", "p99 gap between events", Micros, Lower, Ratio, Result;
    /// Fraction of the started requests that failed, 0 to 1.
    FailedShare = "failed_share", "failed share", Share, Lower, Difference, Result;
    /// Completed journeys per second; for loads with steps.
    JourneysPerS = "journeys_per_s", "rate of journeys", JourneysPerS, Higher, Ratio, Result;
    /// Median time of a journey, in microseconds, without its pauses.
    JourneyP50Us = "journey_p50_us", "median journey time", Micros, Lower, Ratio, Result;
    /// 99th percentile of the time of a journey, in microseconds, without its pauses.
    JourneyP99Us = "journey_p99_us", "p99 journey time", Micros, Lower, Ratio, Result;
    /// Fraction of the ended journeys that failed, 0 to 1.
    JourneyFailedShare = "journey_failed_share", "share of failed journeys", Share, Lower, Difference, Result;
    /// CPU time of the services' process trees per request, in microseconds.
    ServerCpuUsPerRequest = "server_cpu_us_per_request", "server CPU per request", Micros, Lower, Ratio, Cost;
    /// User-mode part of the services' CPU time per request, in microseconds.
    ServerCpuUserUsPerRequest = "server_cpu_user_us_per_request", "user CPU per request", Micros, Lower, Ratio, Cost;
    /// Kernel-mode part of the services' CPU time per request, in microseconds.
    ServerCpuSystemUsPerRequest = "server_cpu_system_us_per_request", "system CPU per request", Micros, Lower, Ratio, Cost;
    /// CPU time of the machine's soft interrupts per request, in microseconds; mostly network
    /// processing. Some kernels also charge it to the interrupted processes
    /// ([`softirq_included`](crate::VerdictDocument::softirq_included)).
    HostSoftirqUsPerRequest = "host_softirq_us_per_request", "softirq CPU of the machine per request", Micros, Neither, Ratio, Cost;
    /// User CPU of the services, in percent of one core.
    ServerCpuUserPercent = "server_cpu_user_percent", "user CPU of the server", Percent, Lower, Ratio, Result;
    /// System CPU of the services, in percent of one core.
    ServerCpuSystemPercent = "server_cpu_system_percent", "system CPU of the server", Percent, Lower, Ratio, Result;
    /// Context switches of the services' threads per request.
    ContextSwitchesPerRequest = "context_switches_per_request", "context switches per request", Count, Neither, Ratio, Cost;
    /// User CPU of the whole machine that runs the services, in percent of one core.
    MachineUserPercent = "machine_user_percent", "user CPU of the machine", Percent, Neither, Ratio, Aside;
    /// System CPU, without interrupts, of the whole machine that runs the services, in percent of
    /// one core.
    MachineSystemPercent = "machine_system_percent", "system CPU of the machine", Percent, Neither, Ratio, Aside;
    /// Idle CPU of the whole machine that runs the services, in percent of one core.
    MachineIdlePercent = "machine_idle_percent", "idle CPU of the machine", Percent, Neither, Ratio, Aside;
    /// Calls of `read`, `write` and their variants by the services, per request. Linux does not
    /// count other system calls for a process, such as `send` and `recv`.
    IoCallsPerRequest = "io_calls_per_request", "read and write calls per request (send and recv not counted)", Count, Neither, Ratio, Cost;
    /// Bytes that the services wrote to disks, per request.
    DiskWrittenBytesPerRequest = "disk_written_bytes_per_request", "bytes written to disk per request", Bytes, Neither, Ratio, Cost;
    /// Processor instructions per request, for services whose plan enables the counter.
    InstructionsPerRequest = "instructions_per_request", "instructions per request", Count, Neither, Ratio, Cost;
    /// Fraction of the periods of the services' CPU quota in which they were stopped, 0 to 1; of the
    /// service that was stopped most. 0 without a quota.
    ServerThrottledShare = "server_throttled_share", "share of CPU quota periods in which services were stopped", Share, Neither, Difference, Cost;
    /// Time for which the services' CPU quota stopped them, added up over their cores, in percent of
    /// one core. 0 without a quota.
    ServerThrottledPercent = "server_throttled_percent", "time for which services were throttled", Percent, Neither, Difference, Aside;
    /// Times at which the services reached their memory limit, per request. 0 without a limit.
    MemoryLimitHitsPerRequest = "memory_limit_hits_per_request", "times at the memory limit per request", Count, Neither, Difference, Cost;
    /// Processes of the services that the kernel killed at their memory limit. 0 without a limit.
    ServerOomKills = "server_oom_kills", "processes killed at the memory limit", Count, Neither, Difference, Aside;
    /// Resident memory of the services, in bytes.
    ServerMemoryBytes = "server_memory_bytes", "server memory", Bytes, Lower, Ratio, Aside;
    /// Traffic sent by the target's place, in bits per second.
    NetworkOutBitsPerS = "network_out_bits_per_s", "network traffic", BitsPerS, Neither, Ratio, Result;
    /// HTTP bytes received by the load generator per request, not counting TLS.
    BytesInPerRequest = "bytes_in_per_request", "HTTP bytes received per request", Bytes, Neither, Ratio, Cost;
    /// Body bytes received by the load generator per request.
    BodyBytesInPerRequest = "body_bytes_in_per_request", "body bytes per request", Bytes, Neither, Ratio, Cost;
    /// Bytes in both directions through the link of the target's place, per request; only if no
    /// other place uses the link.
    LinkBytesPerRequest = "link_bytes_per_request", "bytes on the link per request", Bytes, Neither, Ratio, Cost;
    /// Packets in both directions through the interfaces of the target's place, per request; only
    /// if no other service runs there.
    PacketsPerRequest = "packets_per_request", "packets per request", Count, Neither, Ratio, Cost;
    /// Round-trip time of the link between the load and its target, in microseconds, measured before
    /// the load; only for links with a delay.
    LinkRoundTripUs = "link_round_trip_us", "round-trip time of the link", Micros, Neither, Ratio, Result;
    /// Fraction of the link's rate used in the busier direction, 0 to 1; only for links with a
    /// configured rate between named places.
    LinkUsedShare = "link_used_share", "link utilization", Share, Neither, Difference, Result;
    /// Fraction of the bytes from the target to the load generator that were not body bytes, 0 to
    /// 1: HTTP headers and framing, TLS, TCP, IP, Ethernet and retransmissions; for links between
    /// named places.
    LinkOverheadShare = "link_overhead_share", "protocol overhead on the link", Share, Neither, Difference, Cost;
    /// Connections opened by the load generator per request.
    ConnectionsPerRequest = "connections_per_request", "connections opened per request", Count, Neither, Difference, Cost;
    /// TCP connections opened by the target to its upstream servers, per request.
    UpstreamConnectionsPerRequest = "upstream_connections_per_request", "upstream connections opened per request", Count, Neither, Difference, Cost;
    /// TLS handshakes per request.
    TlsHandshakesPerRequest = "tls_handshakes_per_request", "TLS handshakes per request", Count, Neither, Difference, Cost;
    /// Fraction of TLS handshakes that resumed an earlier session, 0 to 1.
    TlsResumedShare = "tls_resumed_share", "share of TLS handshakes resumed", Share, Neither, Difference, Saving;
    /// TCP segments retransmitted by the target's place, per request.
    RetransmitsPerRequest = "retransmits_per_request", "TCP retransmits per request", Count, Neither, Difference, Cost;
    /// Connections dropped by listeners of the target's place, per request.
    ListenDropsPerRequest = "listen_drops_per_request", "listen drops per request", Count, Neither, Difference, Cost;
    /// Datagrams dropped in the target's place because a receive buffer was full, per request.
    UdpDropsPerRequest = "udp_drops_per_request", "UDP drops per request", Count, Neither, Difference, Cost;
    /// Fraction of the QUIC packets sent by the load generator that it declared lost, 0 to 1; for
    /// HTTP/3.
    QuicLostShare = "quic_lost_share", "share of sent QUIC packets lost", Share, Neither, Difference, Cost;
    /// Fraction of the connections offering early data (0-RTT) whose early data the server
    /// accepted, 0 to 1; for HTTP/3.
    EarlyDataShare = "early_data_share", "share of connections with early data accepted", Share, Neither, Difference, Saving;
    /// CPU time of the load generator per request, in microseconds.
    GeneratorCpuUsPerRequest = "generator_cpu_us_per_request", "generator CPU per request", Micros, Neither, Ratio, Aside;
}

/// Unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Requests per second.
    PerS,
    /// Journeys per second.
    JourneysPerS,
    /// Events of streamed responses per second.
    EventsPerS,
    /// Microseconds.
    Micros,
    /// A fraction, 0 to 1.
    Share,
    /// Percent of one core.
    Percent,
    /// Bytes.
    Bytes,
    /// Bits per second.
    BitsPerS,
    /// A plain number.
    Count,
}

impl Unit {
    /// Formats a value with its unit, as in all output.
    pub fn shown(self, value: f64) -> String {
        match self {
            Unit::PerS => number::rate(value),
            Unit::JourneysPerS => RateUnit::Journeys.rate(value),
            Unit::EventsPerS => format!("{} events/s", number::rate_figure(value)),
            Unit::Micros => number::time(value),
            Unit::Share => number::share(value),
            Unit::Percent => format!("{}%", number::significant(value, 3)),
            Unit::Bytes => number::bytes(value),
            Unit::BitsPerS => number::bits_per_s(value),
            Unit::Count => number::significant(value, 3),
        }
    }
}

/// Direction in which a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Higher is better: `faster` means that the variant's value is higher.
    Higher,
    /// Lower is better: `faster` means that the variant's value is lower.
    Lower,
    /// Neither direction is better; the metric is described, never judged.
    Neither,
}

/// Scale on which a variant is compared with its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Ratio within each block, averaged on the log scale. Values must be above zero.
    Ratio,
    /// Difference within each block, for values that may be zero.
    Difference,
}

/// Role of a metric in explaining a difference in speed between two variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricRole {
    /// The metric is the speed itself or proportional to it, so it explains nothing.
    Result,
    /// A cost per request: more of it could make a variant slower.
    Cost,
    /// A saving per request: less of it could make a variant slower.
    Saving,
    /// The metric may change with the speed but doesn't affect it.
    Aside,
}

impl Metric {
    /// Returns true for times of requests, journeys or events, which are longer if a server is slower.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            Metric::P50Us
                | Metric::P99Us
                | Metric::TlsP50Us
                | Metric::JourneyP50Us
                | Metric::JourneyP99Us
                | Metric::FirstEventP50Us
                | Metric::FirstEventP99Us
                | Metric::EventGapP50Us
                | Metric::EventGapP99Us
        )
    }

    /// Returns true for the capacities that searches find.
    pub fn is_capacity(self) -> bool {
        matches!(self, Metric::CapacityPerS | Metric::JourneyCapacityPerS)
    }

    /// Returns the capacity of a load that is measured in this unit.
    pub fn capacity_of(unit: RateUnit) -> Metric {
        match unit {
            RateUnit::Requests | RateUnit::Connections | RateUnit::Messages => Metric::CapacityPerS,
            RateUnit::Journeys => Metric::JourneyCapacityPerS,
        }
    }

    /// Returns the subject of the metric if it is a rate or a capacity of journeys, and otherwise
    /// requests.
    pub fn rate_unit(self) -> RateUnit {
        match self.unit() {
            Unit::JourneysPerS => RateUnit::Journeys,
            _ => RateUnit::Requests,
        }
    }

    /// Returns true for rates of requests, journeys or events, which are lower if a server is slower.
    pub fn is_rate(self) -> bool {
        matches!(
            self,
            Metric::RatePerS
                | Metric::CapacityPerS
                | Metric::JourneysPerS
                | Metric::JourneyCapacityPerS
                | Metric::EventsPerS
        )
    }

    /// Returns true for 99th percentiles.
    pub fn is_p99(self) -> bool {
        matches!(
            self,
            Metric::P99Us | Metric::JourneyP99Us | Metric::FirstEventP99Us | Metric::EventGapP99Us
        )
    }

    /// Returns true if `value` is possible: shares are between 0 and 1, counts are at least zero,
    /// and values that are compared by ratio are finite and above zero.
    pub(crate) fn admits(self, value: f64) -> bool {
        match (self.scale(), self.unit()) {
            (Scale::Ratio, _) => value.is_finite() && value > 0.0,
            (Scale::Difference, Unit::Share) => (0.0..=1.0).contains(&value),
            (Scale::Difference, _) => value.is_finite() && value >= 0.0,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Error for a name that isn't a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMetric(
    /// Name that was not found.
    pub String,
);

impl fmt::Display for UnknownMetric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        write!(
            out,
            "unknown metric \"{}\" (metrics: {})",
            self.0,
            known.join(", ")
        )
    }
}

impl std::error::Error for UnknownMetric {}

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Metric::ALL.iter().copied();
        all.find(|metric| metric.name() == name)
            .ok_or_else(|| UnknownMetric(name.to_owned()))
    }
}
