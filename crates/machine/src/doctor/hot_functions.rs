//! The functions of a server that use the most CPU time.

use std::time::Duration;

use prony_record::sampling::{SamplingEvent, SamplingProfile};
use serde::Serialize;

use crate::sampling::{DEFAULT_RATE_HZ, SamplingRefused, SamplingSession};

/// Maximum number of functions in a report.
const FUNCTIONS_MAX: usize = 200;

/// Functions of a server that used the most CPU time while it was sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotFunctions {
    /// Duration of the observation in seconds.
    pub seconds: f64,
    /// Samples per second of CPU time.
    pub rate_hz: u32,
    /// Number of samples.
    pub samples: u64,
    /// CPU time in seconds; `None` if the samples measured cycles.
    pub cpu_s: Option<f64>,
    /// Properties that limit what the samples show.
    pub notes: Vec<String>,
    /// The functions, the one with the largest share first.
    pub functions: Vec<HotFunction>,
}

/// A function with its share of a server's CPU time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotFunction {
    /// Name of the function.
    pub function: String,
    /// Program, library or kernel to which it belongs.
    pub module: String,
    /// Share of the server's CPU time, without the functions that it calls.
    pub share: f64,
}

impl HotFunctions {
    fn of(profile: &SamplingProfile, seconds: f64) -> Self {
        let weights = profile.self_weights();
        let mut functions: Vec<_> = weights.into_iter().collect();
        functions.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        let functions = functions.into_iter().take(FUNCTIONS_MAX);
        Self {
            seconds,
            rate_hz: profile.rate_hz,
            samples: profile.samples,
            cpu_s: match profile.event {
                SamplingEvent::CpuClock => Some(profile.weight as f64 / 1e9),
                SamplingEvent::Cycles => None,
            },
            notes: profile.notes.iter().map(ToString::to_string).collect(),
            functions: functions
                .map(|(function, weight)| HotFunction {
                    function: function.name.clone(),
                    module: function.module.clone(),
                    share: weight as f64 / profile.weight.max(1) as f64,
                })
                .collect(),
        }
    }
}

/// Samples several servers, each with its processes, at the same time.
pub(super) fn sample(
    servers: &[&[i32]],
    duration: Duration,
) -> Vec<Result<HotFunctions, SamplingRefused>> {
    let begin = |pids: &&[i32]| {
        let mut session = SamplingSession::of_processes(pids, DEFAULT_RATE_HZ)?;
        session.begin()?;
        session.count(true);
        Ok(session)
    };
    let sessions: Vec<Result<SamplingSession, _>> = servers.iter().map(begin).collect();
    if sessions.iter().any(Result::is_ok) {
        std::thread::sleep(duration);
    }
    for session in sessions.iter().flatten() {
        session.count(false);
    }
    let finish = |session: Result<SamplingSession, SamplingRefused>| {
        let profile = session?.finish().ok_or(SamplingRefused::Ended)?;
        Ok(HotFunctions::of(&profile, duration.as_secs_f64()))
    };
    sessions.into_iter().map(finish).collect()
}
