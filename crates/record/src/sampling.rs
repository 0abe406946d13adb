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
}

impl fmt::Display for SamplingNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserModeOnly => f.write_str(
                "only user mode was sampled: sampling the kernel requires \
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
}

impl SamplingProfile {
    /// Returns the weight of each function itself, without the functions that it calls.
    #[must_use]
    pub fn self_weights(&self) -> BTreeMap<&SampledFunction, u64> {
        let mut weights = BTreeMap::new();
        for (chain, weight) in &self.stacks {
            let last = chain.last().and_then(|it| self.functions.get(*it as usize));
            if let Some(function) = last {
                *weights.entry(function).or_default() += weight;
            }
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_the_weight_of_the_chains_that_end_in_it() {
        let function = |name: &str| SampledFunction {
            name: name.to_owned(),
            module: "web".to_owned(),
        };
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
        };
        let weights = profile.self_weights();
        assert_eq!(weights[&function("work")], 8);
        assert_eq!(weights[&function("main")], 7);
        assert_eq!(weights.len(), 2);
        assert_eq!(function("work").to_string(), "work in web");
        assert_eq!(function("web+0x10").to_string(), "web+0x10");
    }
}
