//! The metrics that variants can be compared on, and how each is read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One number that each trial yields. The names, in JSON and in plans, are those of
/// `verdict.json`; the unit ends the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Successful requests a second.
    RatePerS,
    /// Median response time, microseconds.
    P50Us,
    /// 99th percentile of the response time, microseconds.
    P99Us,
    /// Share of the started requests that failed, 0 to 1.
    FailedShare,
    /// CPU time of the services' process trees for each request, microseconds.
    ServerCpuUsPerRequest,
    /// User CPU of the services, percent of one core.
    ServerCpuUserPercent,
    /// System CPU of the services, percent of one core.
    ServerCpuSystemPercent,
    /// Resident memory of the services, bytes.
    ServerMemoryBytes,
    /// What the target's place sends, bits a second.
    NetworkOutBitsPerS,
    /// CPU time of the load generator for each request, microseconds.
    GeneratorCpuUsPerRequest,
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
    /// The difference within the block, for shares that may be zero.
    Difference,
}

impl Metric {
    /// Every metric, in the order in which they are printed.
    pub const ALL: [Metric; 10] = [
        Metric::RatePerS,
        Metric::P50Us,
        Metric::P99Us,
        Metric::FailedShare,
        Metric::ServerCpuUsPerRequest,
        Metric::ServerCpuUserPercent,
        Metric::ServerCpuSystemPercent,
        Metric::ServerMemoryBytes,
        Metric::NetworkOutBitsPerS,
        Metric::GeneratorCpuUsPerRequest,
    ];

    /// The name in JSON and in plans.
    pub fn name(self) -> &'static str {
        match self {
            Metric::RatePerS => "rate_per_s",
            Metric::P50Us => "p50_us",
            Metric::P99Us => "p99_us",
            Metric::FailedShare => "failed_share",
            Metric::ServerCpuUsPerRequest => "server_cpu_us_per_request",
            Metric::ServerCpuUserPercent => "server_cpu_user_percent",
            Metric::ServerCpuSystemPercent => "server_cpu_system_percent",
            Metric::ServerMemoryBytes => "server_memory_bytes",
            Metric::NetworkOutBitsPerS => "network_out_bits_per_s",
            Metric::GeneratorCpuUsPerRequest => "generator_cpu_us_per_request",
        }
    }

    /// What a sentence calls it.
    pub fn noun(self) -> &'static str {
        match self {
            Metric::RatePerS => "request rate",
            Metric::P50Us => "median response time",
            Metric::P99Us => "p99 response time",
            Metric::FailedShare => "failed share",
            Metric::ServerCpuUsPerRequest => "server CPU per request",
            Metric::ServerCpuUserPercent => "user CPU of the server",
            Metric::ServerCpuSystemPercent => "system CPU of the server",
            Metric::ServerMemoryBytes => "server memory",
            Metric::NetworkOutBitsPerS => "network traffic",
            Metric::GeneratorCpuUsPerRequest => "generator CPU per request",
        }
    }

    /// Which way it is better. What depends on how much work was done (network traffic) and what
    /// tells about the generator has no better way.
    pub fn direction(self) -> Direction {
        match self {
            Metric::RatePerS => Direction::Higher,
            Metric::P50Us
            | Metric::P99Us
            | Metric::FailedShare
            | Metric::ServerCpuUsPerRequest
            | Metric::ServerCpuUserPercent
            | Metric::ServerCpuSystemPercent
            | Metric::ServerMemoryBytes => Direction::Lower,
            Metric::NetworkOutBitsPerS | Metric::GeneratorCpuUsPerRequest => Direction::Neither,
        }
    }

    /// How variants are compared on it.
    pub fn scale(self) -> Scale {
        match self {
            Metric::FailedShare => Scale::Difference,
            _ => Scale::Ratio,
        }
    }

    /// Whether a trial can have measured this: a share lies between 0 and 1, and a ratio can only
    /// be made of what is finite and above zero.
    pub(crate) fn admits(self, value: f64) -> bool {
        match self.scale() {
            Scale::Ratio => value.is_finite() && value > 0.0,
            Scale::Difference => (0.0..=1.0).contains(&value),
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
        Metric::ALL
            .into_iter()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| UnknownMetric(name.to_owned()))
    }
}
