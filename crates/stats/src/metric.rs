//! The metrics that variants can be compared on, and how each is read.

use std::fmt;
use std::str::FromStr;

use prony_record::number;
use serde::{Deserialize, Serialize};

/// The table of metrics: what each is, its name in JSON and in plans (the unit ends it), what a
/// sentence calls it, its unit, which way it is better, how variants are compared on it, and how it
/// bears on a difference in speed. A new metric is one entry here, one value in the experiment's
/// `runner/values.rs`, and its name in the schema.
macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident = $name:literal, $noun:literal, $unit:ident, $direction:ident,
        $scale:ident, $bearing:ident;)*) => {
        /// One number that each trial yields. The names, in JSON and in plans, are those of
        /// `verdict.json`; the unit ends the name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $($(#[$doc])* $metric,)*
        }

        impl Metric {
            /// Every metric, in the order in which they are printed.
            pub const ALL: &'static [Metric] = &[$(Metric::$metric,)*];

            /// The name in JSON and in plans.
            pub fn name(self) -> &'static str {
                match self { $(Metric::$metric => $name,)* }
            }

            /// What a sentence calls it.
            pub fn noun(self) -> &'static str {
                match self { $(Metric::$metric => $noun,)* }
            }

            /// What its values count.
            pub fn unit(self) -> Unit {
                match self { $(Metric::$metric => Unit::$unit,)* }
            }

            /// Which way it is better. What depends on how much work was done (network traffic) and
            /// what tells about the generator has no better way.
            pub fn direction(self) -> Direction {
                match self { $(Metric::$metric => Direction::$direction,)* }
            }

            /// How variants are compared on it.
            pub fn scale(self) -> Scale {
                match self { $(Metric::$metric => Scale::$scale,)* }
            }

            /// How it bears on a difference in speed.
            pub fn bearing(self) -> Bearing {
                match self { $(Metric::$metric => Bearing::$bearing,)* }
            }
        }
    };
}

metrics! {
    /// Successful requests a second.
    RatePerS = "rate_per_s", "request rate", PerS, Higher, Ratio, Result;
    /// Time until all requests were done, microseconds; of loads of a fixed number of requests that
    /// all succeeded.
    TotalTimeUs = "total_time_us", "time for all requests", Micros, Lower, Ratio, Result;
    /// Median response time, microseconds.
    P50Us = "p50_us", "median response time", Micros, Lower, Ratio, Result;
    /// 99th percentile of the response time, microseconds.
    P99Us = "p99_us", "p99 response time", Micros, Lower, Ratio, Result;
    /// Share of the started requests that failed, 0 to 1.
    FailedShare = "failed_share", "failed share", Share, Lower, Difference, Result;
    /// CPU time of the services' process trees for each request, microseconds.
    ServerCpuUsPerRequest = "server_cpu_us_per_request", "server CPU per request", Micros, Lower, Ratio, Cost;
    /// The part of it in user mode.
    ServerCpuUserUsPerRequest = "server_cpu_user_us_per_request", "user CPU per request", Micros, Lower, Ratio, Cost;
    /// The part of it in the kernel.
    ServerCpuSystemUsPerRequest = "server_cpu_system_us_per_request", "system CPU per request", Micros, Lower, Ratio, Cost;
    /// CPU time of the machine's soft interrupts for each request, microseconds: mostly the network's
    /// work. Some kernels also charge it to the processes that are interrupted
    /// ([`softirq_included`](crate::VerdictDocument::softirq_included)).
    HostSoftirqUsPerRequest = "host_softirq_us_per_request", "softirq CPU of the machine per request", Micros, Neither, Ratio, Cost;
    /// User CPU of the services, percent of one core.
    ServerCpuUserPercent = "server_cpu_user_percent", "user CPU of the server", Percent, Lower, Ratio, Result;
    /// System CPU of the services, percent of one core.
    ServerCpuSystemPercent = "server_cpu_system_percent", "system CPU of the server", Percent, Lower, Ratio, Result;
    /// Context switches of the services' threads for each request.
    ContextSwitchesPerRequest = "context_switches_per_request", "context switches per request", Count, Neither, Ratio, Cost;
    /// User CPU of the whole machine of the services, percent of one core.
    MachineUserPercent = "machine_user_percent", "user CPU of the machine", Percent, Neither, Ratio, Aside;
    /// System CPU of that machine, interrupts left out, percent of one core.
    MachineSystemPercent = "machine_system_percent", "system CPU of the machine", Percent, Neither, Ratio, Aside;
    /// Idle CPU of that machine, percent of one core.
    MachineIdlePercent = "machine_idle_percent", "idle CPU of the machine", Percent, Neither, Ratio, Aside;
    /// System calls of the services that read or write files, for each request.
    IoCallsPerRequest = "io_calls_per_request", "read and write calls per request", Count, Neither, Ratio, Cost;
    /// Bytes that the services wrote towards disks, for each request.
    DiskWrittenBytesPerRequest = "disk_written_bytes_per_request", "bytes written to disk per request", Bytes, Neither, Ratio, Cost;
    /// Instructions of the processor for each request, of services that have them counted.
    InstructionsPerRequest = "instructions_per_request", "instructions per request", Count, Neither, Ratio, Cost;
    /// Resident memory of the services, bytes.
    ServerMemoryBytes = "server_memory_bytes", "server memory", Bytes, Lower, Ratio, Aside;
    /// What the target's place sends, bits a second.
    NetworkOutBitsPerS = "network_out_bits_per_s", "network traffic", BitsPerS, Neither, Ratio, Result;
    /// Bytes of HTTP that the load received for each request, above TLS.
    BytesInPerRequest = "bytes_in_per_request", "HTTP bytes received per request", Bytes, Neither, Ratio, Cost;
    /// Bytes of bodies among them.
    BodyBytesInPerRequest = "body_bytes_in_per_request", "body bytes per request", Bytes, Neither, Ratio, Cost;
    /// Bytes through the link of the target's place, both ways, for each request; where the link is
    /// its own.
    LinkBytesPerRequest = "link_bytes_per_request", "bytes on the link per request", Bytes, Neither, Ratio, Cost;
    /// Packets through the interfaces of the target's place, both ways, for each request; where the
    /// place is its own.
    PacketsPerRequest = "packets_per_request", "packets per request", Count, Neither, Ratio, Cost;
    /// Share of a link's rate that the fuller direction carried, 0 to 1; of a link between named
    /// places that has a rate.
    LinkUsedShare = "link_used_share", "share of the link's rate", Share, Neither, Difference, Result;
    /// Share of the bytes from the target to the load that were no bodies, 0 to 1: heads, TLS, TCP,
    /// IP, Ethernet, what was sent again; of a link between named places.
    LinkOverheadShare = "link_overhead_share", "protocol overhead on the link", Share, Neither, Difference, Cost;
    /// Connections that the load opened for each request.
    ConnectionsPerRequest = "connections_per_request", "connections opened per request", Count, Neither, Difference, Cost;
    /// TCP connections that the target opened, to what stands behind it, for each request.
    UpstreamConnectionsPerRequest = "upstream_connections_per_request", "upstream connections opened per request", Count, Neither, Difference, Cost;
    /// TLS handshakes for each request.
    TlsHandshakesPerRequest = "tls_handshakes_per_request", "TLS handshakes per request", Count, Neither, Difference, Cost;
    /// Share of the TLS handshakes that went on from an earlier session, 0 to 1.
    TlsResumedShare = "tls_resumed_share", "share of TLS handshakes resumed", Share, Neither, Difference, Saving;
    /// TCP segments that the target's place sent again, for each request.
    RetransmitsPerRequest = "retransmits_per_request", "TCP retransmits per request", Count, Neither, Difference, Cost;
    /// Connections that listeners of the target's place dropped, for each request.
    ListenDropsPerRequest = "listen_drops_per_request", "listen drops per request", Count, Neither, Difference, Cost;
    /// CPU time of the load generator for each request, microseconds.
    GeneratorCpuUsPerRequest = "generator_cpu_us_per_request", "generator CPU per request", Micros, Neither, Ratio, Aside;
}

/// What a metric's values count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Events a second.
    PerS,
    /// Microseconds.
    Micros,
    /// A share, 0 to 1.
    Share,
    /// Percent of one core.
    Percent,
    /// Bytes.
    Bytes,
    /// Bits a second.
    BitsPerS,
    /// A number of things.
    Count,
}

impl Unit {
    /// A value with its unit, as every output prints it.
    pub fn shown(self, value: f64) -> String {
        match self {
            Unit::PerS => number::rate(value),
            Unit::Micros => number::time(value),
            Unit::Share => number::share(value),
            Unit::Percent => format!("{}%", number::significant(value, 3)),
            Unit::Bytes => number::bytes(value),
            Unit::BitsPerS => number::bits_per_s(value),
            Unit::Count => number::significant(value, 3),
        }
    }
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More is better: `faster` when the variant has more.
    Higher,
    /// Less is better: `faster` when the variant has less.
    Lower,
    /// Neither way is better; such a metric is described, never judged.
    Neither,
}

/// How a variant is set against its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The ratio within the block, on the log scale. Values must be above zero.
    Ratio,
    /// The difference within the block, for what may be zero.
    Difference,
}

/// How a metric bears on a difference in speed between two variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearing {
    /// It is the speed itself, or the speed times something else here: it explains nothing.
    Result,
    /// What a request takes: a variant of which it takes more could be slower for that.
    Cost,
    /// What spares a request something: a variant that has less of it could be slower for that.
    Saving,
    /// It may move along, but doesn't make a server slower by itself.
    Aside,
}

impl Metric {
    /// Whether a trial can have measured this: a share lies between 0 and 1, a count is not below
    /// zero, and a ratio can only be made of what is finite and above zero.
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

/// A name that is no metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMetric(
    /// The name as it was given.
    pub String,
);

impl fmt::Display for UnknownMetric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        write!(
            out,
            "\"{}\" is no metric (there are {})",
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
