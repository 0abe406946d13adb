//! A short load of a variant, which shows how fast its requests complete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prony_load::{Control, LoadOptions, run as run_load};

use super::{PRECHECK_BLOCK, PRECHECK_REQUESTS_MAX, Running, Trial, TrialError, within};
use crate::plan::ResolvedLoad;
use crate::runner::block_time::ProbePace;

/// Longest load of a probe.
pub const PROBE_DURATION: Duration = Duration::from_secs(1);

/// The result of a probe.
pub(crate) enum ProbedLoad {
    /// The variant was loaded.
    Measured(ProbePace),
    /// The variant was not loaded: some of its requests may change data.
    Unsafe,
}

impl Trial<'_> {
    /// Starts the variant's services, loads them for at most [`PROBE_DURATION`], and stops everything.
    /// None after an interrupt.
    pub(crate) fn probe(&mut self, variant: usize) -> Result<Option<ProbedLoad>, TrialError> {
        let probed = self.start_load_and_stop(variant);
        self.take_down(probed)
    }

    fn start_load_and_stop(&mut self, variant: usize) -> Result<ProbedLoad, TrialError> {
        let began = Instant::now();
        let dir = self.trial_dir(PRECHECK_BLOCK, variant)?;
        let running = self.up(PRECHECK_BLOCK, variant, &dir, PRECHECK_REQUESTS_MAX)?;
        let is_safe = running.spec.safe_requests().len() == running.spec.distinct_requests();
        let loaded = match is_safe && !self.interrupt.is_stopped() {
            true => Some(self.load_briefly(&running)?),
            false => None,
        };
        self.stop(&running.resolved)?;
        let Some(pace) = loaded else {
            return Ok(ProbedLoad::Unsafe);
        };
        let overhead = began.elapsed().saturating_sub(pace.took);
        Ok(ProbedLoad::Measured(ProbePace { overhead, ..pace }))
    }

    /// The variant's own load without its warm-up, cut to the length of a probe.
    fn load_briefly(&mut self, running: &Running) -> Result<ProbePace, TrialError> {
        let load = &running.resolved.load;
        let duration = load.flags.duration.unwrap_or(PROBE_DURATION);
        let flags = LoadOptions {
            duration: Some(duration.min(PROBE_DURATION)),
            warmup: Duration::ZERO,
            ..load.flags.clone()
        };
        let load = ResolvedLoad {
            flags,
            ..load.clone()
        };
        let door = running.door.as_ref();
        let spec = self.load_spec(&load, PRECHECK_BLOCK, door)?;
        let control = Arc::new(Control::new(spec.info().threads));
        self.interrupt.watch(Some(control.clone()));
        let began = Instant::now();
        let record = within(door, || run_load(&spec, &control));
        let took = began.elapsed();
        self.interrupt.watch(None);
        let totals = record?.map_err(TrialError::Engine)?.totals;
        Ok(ProbePace {
            overhead: Duration::ZERO,
            took,
            ok: totals.ok,
            failed: totals.failed,
        })
    }
}
