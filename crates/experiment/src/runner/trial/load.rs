//! The load of a trial, and telemetry during its measured part.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{Control, LoadSettings, LoadSpec, run_scripted};
use prony_machine::place::NetnsHandle;
use prony_machine::system::avoid_cores;
use prony_machine::telemetry::TelemetrySample;
use prony_plan::ResolvedLoad;
use prony_record::Record;

use super::{Trial, inside};
use crate::abort::{self, LocalLoad};
use crate::runner::sampling::{self, LatestSample};
use crate::runner::{AgentLoadRequest, AgentLoadRunner, ExperimentEvent, TrialError};

/// Minimum number of telemetry samples, even in a short trial.
const SAMPLES_MIN: u32 = 4;
/// Maximum interval between two samples.
const SAMPLE_INTERVAL_MAX: Duration = Duration::from_secs(1);

impl Trial<'_> {
    /// Resolves the load of a trial. All variants of a block share a seed, so the random parts of
    /// their loads are the same.
    pub(super) fn load_spec(
        &self,
        load: &ResolvedLoad,
        block: u32,
        netns: Option<&NetnsHandle>,
    ) -> Result<LoadSpec, TrialError> {
        let mut settings = self.seeded(load, block);
        if load.agents.is_some() {
            // Agents choose their own source addresses and cores, and their interfaces differ.
            settings.use_kernel_sockets();
            settings.source.clear();
            (settings.source_order, settings.cores) = (None, None);
        }
        // Resolve in the network of the load's place, which determines addresses and ports.
        inside(netns, || settings.resolve(Some(&load.url)))?.map_err(TrialError::Load)
    }

    /// Returns the load's settings, with the block's seed unless the plan sets one.
    pub(super) fn seeded(&self, load: &ResolvedLoad, block: u32) -> LoadSettings {
        let mut settings = load.settings.clone();
        let block_seed = self.stored.seed().wrapping_add(u64::from(block));
        settings.seed.get_or_insert(block_seed);
        settings
    }

    /// Runs the load and reports its start and end as events.
    pub(super) fn load(
        &mut self,
        spec: &LoadSpec,
        load: &ResolvedLoad,
        block: u32,
        netns: Option<&NetnsHandle>,
    ) -> Result<(Record, Vec<TelemetrySample>), TrialError> {
        let settings = self.seeded(load, block);
        let control = Arc::new(Control::new(spec.info().threads));
        let latest = Arc::new(LatestSample::default());
        (self.on)(ExperimentEvent::Loading {
            planned: spec.planned().map_or(Duration::ZERO, Duration::from),
            info: spec.info(),
            control: &control,
            agents: load.agents.as_deref(),
            latest: &latest,
        });
        let measured = self.measure(spec, (load, &settings), netns, (control, &latest));
        (self.on)(ExperimentEvent::Loaded);
        measured
    }

    /// Runs the load and takes samples during its measured part.
    fn measure(
        &mut self,
        spec: &LoadSpec,
        (load, settings): (&ResolvedLoad, &LoadSettings),
        netns: Option<&NetnsHandle>,
        (control, latest): (Arc<Control>, &LatestSample),
    ) -> Result<(Record, Vec<TelemetrySample>), TrialError> {
        self.interrupt.set_loads(vec![control.clone()]);
        let warmup = Duration::from_secs_f64(spec.info().warmup_s);
        let measured = spec
            .info()
            .duration_s
            .map_or(SAMPLE_INTERVAL_MAX, Duration::from_secs_f64);
        let interval = SAMPLE_INTERVAL_MAX.min(measured / SAMPLES_MIN);
        let avoid = load
            .settings
            .cores
            .clone()
            .map(|cores| cores.0)
            .unwrap_or_default();
        let (done, from) = (OnceLock::new(), Mutex::new(None));
        let host = &mut *self.host;
        let agents_runner = &mut self.load;
        let scripts = self.scripts;
        let load_control = control.clone();
        let (record, samples) = std::thread::scope(|scope| {
            let (done, from) = (&done, &from);
            let begin =
                |moment| *from.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
            let sampler = scope.spawn(move || {
                avoid_cores(&avoid);
                host.begin_profiles();
                if !sleep_until(from, done) {
                    return Vec::new();
                }
                // Without the lost machine, the trial can't give a verdict.
                let on_lost_machine = || load_control.stop();
                host.count_samples(None, true);
                let samples =
                    sampling::collect(host, interval, done, &avoid, latest, &on_lost_machine);
                host.count_samples(None, false);
                samples
            });
            let record = match &load.agents {
                None => {
                    begin(Instant::now() + warmup);
                    let local = LocalLoad {
                        control: &control,
                        info: spec.info(),
                    };
                    abort::run(load.abort_rules.as_ref(), local, || {
                        inside(netns, || run_scripted(spec, &control, scripts))
                            .and_then(|record| record.map_err(TrialError::Engine))
                    })
                }
                Some(agents) => {
                    let request = AgentLoadRequest {
                        agents,
                        url: &load.url,
                        settings,
                        spec,
                        control: &control,
                        abort_rules: load.abort_rules.as_ref(),
                        measured_from: &begin,
                    };
                    run_on_agents(agents_runner, &request)
                }
            };
            // Only this line sets the value, so `set` can't fail.
            let _ = done.set(Instant::now());
            (record, sampler.join().unwrap_or_default())
        });
        self.interrupt.set_loads(Vec::new());
        Ok((record?, samples))
    }
}

fn run_on_agents(
    runner: &mut Option<&mut dyn AgentLoadRunner>,
    request: &AgentLoadRequest<'_>,
) -> Result<Record, TrialError> {
    match runner {
        Some(runner) => runner.make(request).map_err(TrialError::Agents),
        None => {
            let why = format!(
                "reaching agents \"{}\" requires a NATS server",
                request.agents
            );
            Err(TrialError::Agents(why))
        }
    }
}

/// Waits until `moment` has been set, and then until that time. Returns false if `done` is set
/// first.
fn sleep_until(moment: &Mutex<Option<Instant>>, done: &OnceLock<Instant>) -> bool {
    const POLL_INTERVAL: Duration = Duration::from_millis(20);
    while done.get().is_none() {
        let known = *moment.lock().unwrap_or_else(PoisonError::into_inner);
        let left = known.map(|moment| moment.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => return true,
            left => std::thread::sleep(left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)),
        }
    }
    false
}
