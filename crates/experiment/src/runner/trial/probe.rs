//! A short load of a variant, used to estimate the duration of its trials.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prony_load::{Control, run as run_load};

use super::{PRECHECK_BLOCK, PRECHECK_REQUESTS_MAX, RunningVariant, Trial, TrialError, inside};

/// Maximum duration of a probe.
pub const PROBE_DURATION: Duration = Duration::from_secs(1);

/// Result of a probe.
pub(crate) enum ProbedLoad {
    /// The variant was loaded.
    Measured(ProbePace),
    /// The variant was not loaded, because some of its requests may modify data.
    Unsafe,
}

/// Measurements of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbePace {
    /// Time to start, check and stop the services.
    pub(crate) overhead: Duration,
    /// Duration of the load.
    pub(crate) took: Duration,
    /// Number of requests that succeeded.
    pub(crate) ok: u64,
    /// Number of requests that failed.
    pub(crate) failed: u64,
}

impl Trial<'_> {
    /// Starts the variant's services, loads them for at most [`PROBE_DURATION`], and stops
    /// everything. Returns `None` after an interrupt.
    pub(crate) fn probe(&mut self, variant: usize) -> Result<Option<ProbedLoad>, TrialError> {
        let probed = self.start_load_and_stop(variant);
        self.release(probed)
    }

    fn start_load_and_stop(&mut self, variant: usize) -> Result<ProbedLoad, TrialError> {
        let began = Instant::now();
        let dir = self.trial_dir(PRECHECK_BLOCK, variant)?;
        let running = self.start_variant(PRECHECK_BLOCK, variant, &dir, PRECHECK_REQUESTS_MAX)?;
        let is_safe = running.spec.safe_requests().len() == running.spec.distinct_requests();
        let loaded = if is_safe && !self.interrupt.is_stopped() {
            Some(self.load_briefly(&running)?)
        } else {
            None
        };
        self.stop(&running.resolved)?;
        let Some(pace) = loaded else {
            return Ok(ProbedLoad::Unsafe);
        };
        let overhead = began.elapsed().saturating_sub(pace.took);
        Ok(ProbedLoad::Measured(ProbePace { overhead, ..pace }))
    }

    /// Runs the variant's load without its warm-up for at most [`PROBE_DURATION`].
    fn load_briefly(&mut self, running: &RunningVariant) -> Result<ProbePace, TrialError> {
        let load = &running.resolved.load;
        let duration = load.settings.duration.unwrap_or(PROBE_DURATION);
        let mut load = load.clone();
        load.settings.duration = Some(duration.min(PROBE_DURATION));
        load.settings.warmup = Some(Duration::ZERO);
        let netns = running.netns.as_ref();
        let spec = self.load_spec(&load, PRECHECK_BLOCK, netns)?;
        let control = Arc::new(Control::new(spec.info().threads));
        self.interrupt.set_loads(vec![control.clone()]);
        let began = Instant::now();
        let record = inside(netns, || run_load(&spec, &control));
        let took = began.elapsed();
        self.interrupt.set_loads(Vec::new());
        let totals = record?.map_err(TrialError::Engine)?.totals;
        Ok(ProbePace {
            overhead: Duration::ZERO,
            took,
            ok: totals.ok,
            failed: totals.failed,
        })
    }
}
