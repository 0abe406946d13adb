//! Sampling profiles: the functions that used a service's CPU time, found by samples of its call
//! chains.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of the stored format, stored as its first field.
pub const SAMPLING_SCHEMA: &str = "prony.sampling/1";

/// Function of a sample whose address belongs to no known function.
pub const UNKNOWN_FUNCTION: &str = "[unknown]";

/// Module of the functions in the kernel.
pub const KERNEL_MODULE: &str = "[kernel]";

/// Samples per second of CPU time, unless the user sets another rate. It is no multiple of the rate
/// of any timer, so samples don't coincide with periodic work.
pub const DEFAULT_RATE_HZ: u32 = 199;

/// Highest rate of samples. At higher rates, sampling would use much of the CPU time itself.
pub const RATE_HZ_MAX: u32 = 10_000;

/// Event that causes a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SamplingEvent {
    /// A number of cycles, counted by the processor. Weights are cycles.
    Cycles,
    /// An amount of CPU time, measured by a timer. Weights are nanoseconds.
    CpuClock,
}

/// A function of a program, library or kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SampledFunction {
    /// Name of the function. The name of a function without symbol consists of the module and the
    /// function's address in it, such as `nginx+0x4f3a0`.
    #[serde(rename = "function")]
    pub name: String,
    /// File name of the program or library, or a name in brackets for the kernel and for generated
    /// code.
    pub module: String,
    /// Reason why the function waits; `None` if it uses CPU time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
}

impl SampledFunction {
    /// Returns a function that uses CPU time.
    pub fn new(name: impl Into<String>, module: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            module: module.into(),
            waits_for: None,
        }
    }
}

/// Reason why a thread is off the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitReason {
    /// A lock that another thread holds.
    Lock,
    /// Reading from or writing to a disk.
    Disk,
    /// A connection that the service opened, such as one to a database.
    Upstream,
    /// A period that the service chose.
    Sleep,
    /// A free core: the thread could run.
    Core,
    /// A signal of another thread: a condition variable, a semaphore, or the end of the thread.
    /// Idle threads of a pool wait for one, too.
    Thread,
    /// Another event, such as the end of a process.
    Other,
    /// Requests: a client's connection, or an event of any of several connections.
    Requests,
}

impl WaitReason {
    /// Returns true if a wait lengthens requests. Idle threads have the other reasons, too.
    #[must_use]
    pub fn is_part_of_requests(self) -> bool {
        !matches!(self, Self::Thread | Self::Other | Self::Requests)
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "a lock",
            Self::Disk => "the disk",
            Self::Upstream => "an upstream server",
            Self::Sleep => "the end of a sleep",
            Self::Core => "a core",
            Self::Thread => "another thread",
            Self::Other => "other events",
            Self::Requests => "requests",
        })
    }
}

impl fmt::Display for SampledFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.starts_with(&self.module) {
            return f.write_str(&self.name);
        }
        match self.module.as_str() {
            KERNEL_MODULE => write!(f, "{} in the kernel", self.name),
            module => write!(f, "{} in {module}", self.name),
        }
    }
}

/// A property of a sampling profile that limits what it shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SamplingNote {
    /// Only user mode was sampled, because the kernel did not permit more.
    UserModeOnly,
    /// The kernel hides the addresses of its functions.
    KernelNamesHidden,
    /// Samples that the kernel discarded, because prony did not read them in time.
    Lost(u64),
    /// Samples whose call chain was reduced to its last function, because there were too many
    /// different ones.
    ChainsReduced(u64),
    /// A perf map that was not read, with the reason.
    PerfMap(String),
    /// A program or library whose symbols can't be read, with the reason.
    Symbols(String),
    /// Waiting was not recorded, with the reason.
    NoWaits(String),
    /// Periods in which waiting was not recorded, because the kernel discarded records.
    WaitsLost(u64),
}

impl fmt::Display for SamplingNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserModeOnly => f.write_str(
                "only user mode was sampled, and no waiting: sampling the kernel requires \
                 kernel.perf_event_paranoid = 1 or less, or CAP_PERFMON",
            ),
            Self::KernelNamesHidden => f.write_str(
                "the kernel's functions have no names: reading them requires \
                 kernel.kptr_restrict = 0, or root",
            ),
            Self::Lost(count) => write!(f, "{count} samples were lost"),
            Self::ChainsReduced(count) => write!(
                f,
                "there are too many different call chains: {count} samples have only their last \
                 function"
            ),
            Self::PerfMap(reason) | Self::Symbols(reason) => f.write_str(reason),
            Self::NoWaits(reason) => write!(f, "waiting was not recorded: {reason}"),
            Self::WaitsLost(count) => write!(
                f,
                "waiting was not recorded in {count} periods with too many context switches"
            ),
        }
    }
}

/// The samples of one service during one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingProfile {
    /// Name of the format: [`SAMPLING_SCHEMA`].
    pub schema: String,
    /// Event that caused the samples.
    pub event: SamplingEvent,
    /// Samples per second of CPU time.
    pub rate_hz: u32,
    /// Duration in which samples counted, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// Number of samples.
    pub samples: u64,
    /// Sum of all weights: nanoseconds of CPU time, or cycles.
    pub weight: u64,
    /// Properties that limit what the profile shows.
    pub notes: Vec<SamplingNote>,
    /// Functions that occur in the call chains.
    pub functions: Vec<SampledFunction>,
    /// Call chains with their weights. A chain consists of indexes of `functions`, and the last one
    /// is the function that was running.
    pub stacks: Vec<(Vec<u32>, u64)>,
    /// Total duration of the periods in which waiting was recorded, in seconds.
    #[serde(default)]
    pub wait_seconds: f64,
    /// Functions that waited in these periods: indexes of `functions`, and nanoseconds of all threads.
    #[serde(default)]
    pub waits: Vec<(u32, u64)>,
}

impl SamplingProfile {
    /// Returns the weight of each function itself, without the functions that it calls.
    #[must_use]
    pub fn self_weights(&self) -> BTreeMap<&SampledFunction, u64> {
        let stacks = self.stacks.iter();
        self.weights(stacks.filter_map(|(chain, weight)| Some((*chain.last()?, *weight))))
    }

    /// Returns the mean number of threads that waited in each function at the same time.
    #[must_use]
    pub fn waiting_threads(&self) -> BTreeMap<&SampledFunction, f64> {
        let period_ns = 1e9 * self.wait_seconds.max(f64::MIN_POSITIVE);
        let weights = self.weights(self.waits.iter().copied()).into_iter();
        weights
            .map(|(function, ns)| (function, ns as f64 / period_ns))
            .collect()
    }

    fn weights(
        &self,
        of_indexes: impl Iterator<Item = (u32, u64)>,
    ) -> BTreeMap<&SampledFunction, u64> {
        let mut weights = BTreeMap::new();
        for (index, weight) in of_indexes {
            if let Some(function) = self.functions.get(index as usize) {
                *weights.entry(function).or_default() += weight;
            }
        }
        weights
    }
}

/// Functions of a server that used the most CPU time, and those that waited, while it was sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerProfile {
    /// Duration of the observation in seconds.
    pub seconds: f64,
    /// Samples per second of CPU time.
    #[serde(default)]
    pub rate_hz: u32,
    /// Number of samples.
    pub samples: u64,
    /// CPU time in seconds; `None` if the samples measured cycles.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// Properties that limit what the samples show.
    pub notes: Vec<String>,
    /// Functions that used CPU time, the one with the largest share first.
    pub functions: Vec<ProfiledFunction>,
    /// Functions that waited, the one with the most threads first.
    #[serde(default)]
    pub waits: Vec<WaitingFunction>,
}

/// A function with its share of a server's CPU time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfiledFunction {
    /// The function.
    #[serde(flatten)]
    pub function: SampledFunction,
    /// Share of the server's CPU time, without the functions that it calls.
    pub share: f64,
}

/// A function in which threads of a server waited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingFunction {
    /// The function, with the reason.
    #[serde(flatten)]
    pub function: SampledFunction,
    /// Mean number of threads that waited at the same time.
    pub threads: f64,
}

impl ServerProfile {
    /// Maximum number of functions of each kind.
    pub const FUNCTIONS_MAX: usize = 200;
}

impl From<&SamplingProfile> for ServerProfile {
    fn from(profile: &SamplingProfile) -> Self {
        let share = |weight: u64| weight as f64 / profile.weight.max(1) as f64;
        let functions = profile.self_weights().into_iter();
        let mut functions: Vec<ProfiledFunction> = functions
            .map(|(function, weight)| ProfiledFunction {
                function: function.clone(),
                share: share(weight),
            })
            .collect();
        functions.sort_by(|a, b| b.share.total_cmp(&a.share));
        functions.truncate(Self::FUNCTIONS_MAX);
        let waits = profile.waiting_threads().into_iter();
        let mut waits: Vec<WaitingFunction> = waits
            .map(|(function, threads)| WaitingFunction {
                function: function.clone(),
                threads,
            })
            .collect();
        waits.sort_by(|a, b| b.threads.total_cmp(&a.threads));
        waits.truncate(Self::FUNCTIONS_MAX);
        Self {
            seconds: profile.seconds,
            rate_hz: profile.rate_hz,
            samples: profile.samples,
            cpu_s: match profile.event {
                SamplingEvent::CpuClock => Some(profile.weight as f64 / 1e9),
                SamplingEvent::Cycles => None,
            },
            notes: profile.notes.iter().map(ToString::to_string).collect(),
            functions,
            waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_the_weight_of_the_chains_that_end_in_it() {
        let function = |name: &str| SampledFunction::new(name, "web");
        let profile = SamplingProfile {
            schema: SAMPLING_SCHEMA.to_owned(),
            event: SamplingEvent::CpuClock,
            rate_hz: 199,
            seconds: 1.0,
            samples: 3,
            weight: 15,
            notes: Vec::new(),
            functions: vec![function("main"), function("work")],
            // A stored profile may have been changed, so an index may be wrong.
            stacks: vec![(vec![0, 1], 5), (vec![1], 3), (vec![0], 7), (vec![9], 1)],
            wait_seconds: 0.5,
            waits: vec![(1, 1_500_000_000), (9, 1)],
        };
        let weights = profile.self_weights();
        assert_eq!(weights[&function("work")], 8);
        assert_eq!(weights[&function("main")], 7);
        assert_eq!(weights.len(), 2);
        let waiting = profile.waiting_threads();
        assert_eq!((waiting[&function("work")], waiting.len()), (3.0, 1));
        assert_eq!(function("work").to_string(), "work in web");
        assert_eq!(function("web+0x10").to_string(), "web+0x10");
    }
}
