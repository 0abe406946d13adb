//! Forecast of an experiment's duration. If a duration or a schedule ends each load, the plan
//! determines the time of a block. If a number of requests ends a load, a probe measures the time.

use std::path::Path;
use std::time::Duration;

use prony_load::LoadSettings;
use prony_machine::host::Host;
use prony_plan::{LoadModel, Plan, ResolvedVariant};
use prony_stats::TrialMode;

use super::event::Forecast;
use super::folder::ExperimentFolder;
use super::run_settings::RunSettings;
use super::trial::{ProbePace, ProbedLoad, Trial};
use super::{FailedTrial, Interrupt, TrialError};
use crate::interleaving::interleaved_time;

impl Forecast {
    /// Forecasts a number of blocks, given as minimum and maximum. Each has `variants` trials and
    /// takes `block_time`.
    pub(super) fn new(
        variants: usize,
        blocks: (u32, u32),
        budget: Option<Duration>,
        block_time: &BlockTime,
    ) -> Forecast {
        let time = block_time.known().map(|each| {
            // The first block runs regardless of the budget.
            let limit = budget.unwrap_or(Duration::MAX).max(each);
            let longest = block_time.longest().unwrap_or(each);
            let within = |each: Duration, blocks| each.saturating_mul(blocks).min(limit);
            (within(each, blocks.0), within(longest, blocks.1))
        });
        Forecast {
            variants,
            blocks,
            time,
            budget,
        }
    }
}

/// Forecasts an experiment whose blocks take `block_time`.
pub fn forecast(plan: &Plan, settings: &RunSettings, block_time: &BlockTime) -> Forecast {
    let blocks = block_range(plan, settings);
    let budget = settings.budget.or(plan.trials.budget);
    Forecast::new(plan.variants.len(), blocks, budget, block_time)
}

/// Returns the minimum and maximum number of blocks.
pub fn block_range(plan: &Plan, settings: &RunSettings) -> (u32, u32) {
    let of_plan = (plan.trials.blocks_min as u32, plan.trials.blocks_max as u32);
    settings.blocks.map_or(of_plan, |blocks| (blocks, blocks))
}

/// Time of a block (one trial of each variant), as far as it is known before the experiment starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockTime {
    /// Known from the plan: a duration or a schedule ends every load.
    Planned(Duration),
    /// Each trial is a capacity search, whose time depends on the server.
    Searched {
        /// Typical time of a block.
        usual: Duration,
        /// Maximum time of a block.
        longest: Duration,
    },
    /// Not known yet, because a number of requests ends some loads. [`probe_block_time`] can
    /// measure the time.
    NeedsProbe,
    /// Extrapolated from short probes of the loads.
    Probed(Duration),
    /// Unknown, because a number of requests ends some loads and no probe can measure their
    /// duration.
    Unknown(UnknownTime),
}

/// Reason why the time of a block is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownTime {
    /// The user skipped the probe.
    ProbeSkipped,
    /// A log determines when a load ends.
    Log,
    /// Agents generate the load.
    Agents,
    /// The named service is remote: prony doesn't start it.
    RemoteService(String),
    /// A service runs on another machine.
    ServiceOnHost {
        /// Name of the service.
        service: String,
        /// Machine of the service, as named in the plan.
        host: String,
    },
    /// Some requests of the named variant may modify data.
    UnsafeRequests(String),
    /// Most requests in the probe of the named variant failed, or none completed.
    ProbeFailed(String),
    /// A variant can't be rendered, or a server's name can't be resolved.
    Unresolved,
    /// The services of a variant did not start or did not respond.
    VariantFailed,
}

impl BlockTime {
    /// Returns the time of a block, if known. For capacity searches, this is the typical time.
    pub fn known(&self) -> Option<Duration> {
        match self {
            BlockTime::Planned(time)
            | BlockTime::Probed(time)
            | BlockTime::Searched { usual: time, .. } => Some(*time),
            BlockTime::NeedsProbe | BlockTime::Unknown(_) => None,
        }
    }

    /// Returns the maximum time of a block, if known.
    fn longest(&self) -> Option<Duration> {
        match self {
            BlockTime::Searched { longest, .. } => Some(*longest),
            other => other.known(),
        }
    }

    /// Returns the time of the loads of a block with these variants, as far as the plan determines
    /// it. The overhead of their trials is unknown until the pre-check has measured it. `mode` is
    /// the mode of the block's trials.
    pub fn of(variants: &[ResolvedVariant], mode: Option<&TrialMode>) -> BlockTime {
        BlockTime::with_overhead(variants, mode, Duration::ZERO)
    }

    /// Returns the time of a block whose trials together need `overhead` to start, check and stop
    /// their services. Sequential and interleaved blocks both start each variant once.
    pub(super) fn with_overhead(
        variants: &[ResolvedVariant],
        mode: Option<&TrialMode>,
        overhead: Duration,
    ) -> BlockTime {
        if mode.is_some_and(TrialMode::is_interleaved) {
            return BlockTime::Planned(add(interleaved_loads(variants), overhead));
        }
        if let Some(searched) = searched_block(variants, overhead) {
            return searched;
        }
        let planned = variants
            .iter()
            .map(|variant| planned_load(&variant.load.settings));
        if let Some(loads) = planned.collect::<Option<Vec<_>>>() {
            return BlockTime::Planned(loads.into_iter().fold(overhead, add));
        }
        match variants.iter().find_map(obstacle) {
            Some(why) => BlockTime::Unknown(why),
            None => BlockTime::NeedsProbe,
        }
    }
}

fn add(a: Duration, b: Duration) -> Duration {
    a.saturating_add(b)
}

/// Returns the time under load of an interleaved block, whose loads all have the same duration.
fn interleaved_loads(variants: &[ResolvedVariant]) -> Duration {
    let loads = variants.iter().map(|variant| &variant.load.settings);
    let warmups: Vec<Duration> = loads.clone().map(LoadSettings::warmup).collect();
    let durations = loads.filter_map(LoadSettings::planned);
    interleaved_time(&warmups, durations.max().unwrap_or_default())
}

/// Returns the time of a block if every trial is a capacity search; otherwise `None`.
fn searched_block(variants: &[ResolvedVariant], overhead: Duration) -> Option<BlockTime> {
    let times = variants.iter().map(|variant| match &variant.load.model {
        LoadModel::Capacity(capacity) => Some(capacity.search_time()),
        LoadModel::Closed | LoadModel::Open => None,
    });
    let times = times.collect::<Option<Vec<_>>>()?;
    let sum = |of: fn(&(Duration, Duration)) -> Duration| times.iter().map(of).fold(overhead, add);
    Some(BlockTime::Searched {
        usual: sum(|time| time.0),
        longest: sum(|time| time.1),
    })
}

/// Returns the time of a load, or `None` if a number of requests ends it.
fn planned_load(settings: &LoadSettings) -> Option<Duration> {
    let measured = match (settings.requests, settings.rate_profile()) {
        (None, _) => settings.planned()?,
        (Some(requests), Some(rate)) => {
            let scheduled = rate
                .time_of(requests as f64)
                .map(Duration::try_from_secs_f64);
            let scheduled = scheduled.and_then(Result::ok).unwrap_or(Duration::MAX);
            scheduled.min(settings.planned().unwrap_or(Duration::MAX))
        }
        (Some(_), None) => return None,
    };
    Some(measured.saturating_add(settings.warmup()))
}

/// Returns the reason why this process can't or must not probe a variant; `None` if it may.
fn obstacle(variant: &ResolvedVariant) -> Option<UnknownTime> {
    if variant.load.settings.replay.is_some() {
        return Some(UnknownTime::Log);
    }
    if variant.load.agents.is_some() {
        return Some(UnknownTime::Agents);
    }
    variant.services.iter().find_map(|service| {
        let name = service.spec.name.clone();
        if service.remote.is_some() {
            return Some(UnknownTime::RemoteService(name));
        }
        let host = service.host.clone()?;
        Some(UnknownTime::ServiceOnHost {
            service: name,
            host,
        })
    })
}

/// Extrapolates the time of a block from a short load of each variant whose duration the plan
/// doesn't determine. A probe takes at most [`super::PROBE_DURATION`].
///
/// Files are written to the empty folder `scratch`. `on` is called with the index of each variant
/// before its probe. Returns `None` after an interrupt.
///
/// # Errors
/// The services of a variant don't start or don't respond.
pub fn probe_block_time(
    plan: &Plan,
    variants: &[ResolvedVariant],
    host: &mut dyn Host,
    scratch: &Path,
    interrupt: &Interrupt,
    on: &mut dyn FnMut(usize),
) -> Result<Option<BlockTime>, FailedTrial> {
    let seed = plan.trials.seed.unwrap_or_default();
    let mut stored =
        ExperimentFolder::create(plan, scratch, seed, None).map_err(|error| FailedTrial {
            variant: None,
            error: Box::new(TrialError::Folder(error)),
        })?;
    let mut block = Duration::ZERO;
    for (variant, resolved) in variants.iter().enumerate() {
        if let Some(load) = planned_load(&resolved.load.settings) {
            block = block.saturating_add(load);
            continue;
        }
        on(variant);
        let mut trial = Trial {
            plan,
            host: &mut *host,
            load: None,
            // Loads with a script are not probed.
            scripts: None,
            profile_rate_hz: None,
            interrupt,
            stored: &mut stored,
            on: &mut |_| {},
        };
        let probed = trial.probe(variant).map_err(|error| FailedTrial {
            variant: Some(plan.variant_name(variant)),
            error: Box::new(error),
        })?;
        let Some(probed) = probed else {
            return Ok(None);
        };
        let unknown = |why: fn(String) -> UnknownTime| {
            Ok(Some(BlockTime::Unknown(why(plan.variant_name(variant)))))
        };
        let ProbedLoad::Measured(pace) = probed else {
            return unknown(UnknownTime::UnsafeRequests);
        };
        match pace.trial(&resolved.load.settings) {
            Some(trial) => block = block.saturating_add(trial),
            None => return unknown(UnknownTime::ProbeFailed),
        }
    }
    Ok(Some(BlockTime::Probed(block)))
}

impl ProbePace {
    /// Returns the time of a trial with this load. Returns `None` if most requests failed, because
    /// failures such as refused connections are too fast to extrapolate from.
    fn trial(&self, settings: &LoadSettings) -> Option<Duration> {
        let asked = settings.requests?;
        if self.ok == 0 || self.failed > self.ok {
            return None;
        }
        let measured = extrapolated(asked, self.ok.saturating_add(self.failed), self.took);
        let measured = measured.min(settings.duration.unwrap_or(Duration::MAX));
        Some(add(add(self.overhead, settings.warmup()), measured))
    }
}

/// Returns the expected time for `asked` requests, extrapolated from `made` requests (at least one)
/// that took `took`.
fn extrapolated(asked: u64, made: u64, took: Duration) -> Duration {
    let seconds = took.as_secs_f64() * asked as f64 / made as f64;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settings(words: &[&str]) -> LoadSettings {
        let words = words.iter().filter_map(|word| word.split_once('='));
        let settings: BTreeMap<&str, &str> = words.collect();
        serde_json::from_value(serde_json::json!(settings)).unwrap()
    }

    fn pace(took_ms: u64, ok: u64, failed: u64) -> ProbePace {
        ProbePace {
            overhead: Duration::from_millis(300),
            took: Duration::from_millis(took_ms),
            ok,
            failed,
        }
    }

    #[test]
    fn a_probe_extrapolates_to_the_requested_number() {
        let load = settings(&["requests=60000", "warmup=2s"]);
        let trial = |pace: ProbePace| pace.trial(&load);
        let seconds = Duration::from_secs_f64;
        // At 500 requests per second: 120 s of load, 2 s of warm-up, 0.3 s of overhead.
        assert_eq!(trial(pace(1000, 500, 0)), Some(seconds(122.3)));
        assert_eq!(trial(pace(2000, 900, 100)), Some(seconds(122.3)));
        // All requests were sent within the probe.
        assert_eq!(trial(pace(400, 60_000, 0)), Some(seconds(2.7)));
        // The duration in the plan ends the load earlier.
        let limited = settings(&["requests=60000", "duration=10s", "warmup=0s"]);
        assert_eq!(pace(1000, 500, 0).trial(&limited), Some(seconds(10.3)));
        let endless = settings(&[&format!("requests={}", u64::MAX), "warmup=1s"]);
        assert!(pace(1000, 1, 0).trial(&endless) > Some(Duration::from_secs(1 << 60)));
    }

    #[test]
    fn an_unknown_time_is_limited_by_the_budget() {
        let forecast = |time, budget| Forecast {
            variants: 2,
            blocks: (5, 12),
            time,
            budget,
        };
        let [short, long] = [30, 60].map(Duration::from_secs);
        assert_eq!(forecast(None, None).time_max(), None);
        assert_eq!(forecast(None, Some(long)).time_max(), Some(long));
        let known = forecast(Some((short, short)), Some(long));
        assert_eq!(known.time_max(), Some(short));
        assert_eq!(BlockTime::Probed(short).known(), Some(short));
        assert_eq!(BlockTime::NeedsProbe.known(), None);
    }

    #[test]
    fn a_probe_without_successes_gives_no_time() {
        let load = settings(&["requests=1000"]);
        assert_eq!(pace(1000, 0, 0).trial(&load), None);
        assert_eq!(pace(1000, 0, 9).trial(&load), None);
        assert_eq!(pace(1000, 4, 5).trial(&load), None);
    }

    #[test]
    fn a_measured_overhead_is_added_in_every_mode() {
        let plan = crate::interleaving::test_plans::read(crate::interleaving::test_plans::PLAN);
        let variants = plan.with_placeholders().unwrap();
        // Two variants. Each has 1 s of warm-up and 5 s of measurement, and services that start
        // slowly.
        let time = |mode: &TrialMode| {
            let overhead = Duration::from_millis(4_600);
            let block_time = BlockTime::with_overhead(&variants, Some(mode), overhead);
            Forecast::new(2, (2, 3), None, &block_time).time
        };
        let seconds = |least, most| {
            let [least, most] = [least, most].map(Duration::from_secs_f64);
            Some((least, most))
        };
        let sequential = TrialMode::Sequential {
            reason: String::new(),
        };
        assert_eq!(time(&sequential), seconds(33.2, 49.8));
        let sliced = TrialMode::Sliced { length: None };
        assert_eq!(time(&sliced), seconds(35.2, 52.8));
    }

    #[test]
    fn an_interleaved_block_adds_the_settling_parts() {
        let plan = crate::interleaving::test_plans::read(crate::interleaving::test_plans::PLAN);
        let variants = plan.with_placeholders().unwrap();
        let time = |mode| BlockTime::of(&variants, mode).known();
        // Two variants. Each has 1 s of warm-up and 5 s of measurement.
        assert_eq!(time(None), Some(Duration::from_secs(12)));
        let sliced = TrialMode::Sliced { length: None };
        assert_eq!(time(Some(&sliced)), Some(Duration::from_secs(13)));
    }

    #[test]
    fn a_block_of_capacity_searches_has_a_usual_and_a_longest_time() {
        let search = "model = \"capacity\"\ngoal = \"p99 < 50ms\"\n";
        let text = crate::interleaving::test_plans::PLAN
            .replace("warmup = \"1s\"\nduration = \"5s\"\n", "")
            .replace("connections = 4\n", search);
        let plan = crate::interleaving::test_plans::read(&text);
        let mode = crate::interleaving::decide(&plan, prony_plan::Interleave::Auto);
        let TrialMode::Sequential { reason } = &mode else {
            panic!("{mode:?}");
        };
        assert!(reason.contains("capacity search"), "{reason}");
        let variants = plan.with_placeholders().unwrap();
        let BlockTime::Searched { usual, longest } = BlockTime::of(&variants, Some(&mode)) else {
            panic!("not a search");
        };
        assert!(Duration::from_secs(2 * 60) <= usual && usual < longest);
    }

    #[test]
    fn only_a_closed_loop_that_counts_requests_has_no_planned_time() {
        let planned = |words: &[&str]| planned_load(&settings(words)).map(|time| time.as_secs());
        assert_eq!(planned(&["duration=5s", "warmup=1s"]), Some(6));
        assert_eq!(planned(&["requests=100", "warmup=1s"]), None);
        assert_eq!(planned(&["requests=100", "rate=10", "warmup=1s"]), Some(11));
        // The rate rises, so 250 of 600 requests take more than 250/600 of the time.
        let rising = ["requests=250", "rate=0:20", "duration=60s"];
        assert_eq!(planned(&rising), Some(38));
        assert_eq!(planned(&["requests=9999", "stages=0@5s,20@7s"]), Some(12));
    }
}
