//! Execution of an interleaved block: the services of all variants run at the same time, and the
//! load alternates between them in short slices. Changes in the machine's speed then affect all
//! variants equally (L. Bulej et al., "Duet Benchmarking", ICPE 2020).

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use prony_load::{Control, Slices, run_in_slices};
use prony_plan::ResolvedService;
use prony_record::{Finding, Nanos, Record};

use super::block_error::BlockError;
use super::event::InterleavedLoad;
use super::sampling::LatestSample;
use super::scoped_host::{ScopedHost, SharedHost};
use super::slice_driver::{SliceDriver, SlicedLoad, forward};
use super::trial::{LoadedVariant, RunningVariant, Trial, TrialPosition, inside};
use super::trial_result::TrialResult;
use super::{ExperimentEvent, TrialError};
use crate::abort::{self, LocalLoad};

/// Minimum warm-up. The settling part of the first slice must not begin before the load.
const WARMUP_MIN: Nanos = Nanos::from_millis(100);

pub(super) struct InterleavedBlock<'a> {
    pub(super) trial: Trial<'a>,
    /// Block number, from 1.
    pub(super) block: u32,
    /// Indexes of the variants in start order.
    pub(super) order: Vec<usize>,
    /// Length of a slice; `None` if the user has not set one.
    pub(super) slice: Option<Duration>,
}

impl InterleavedBlock<'_> {
    /// Runs the block and releases all resources. Returns `None` after an interrupt.
    pub(super) fn run(mut self) -> Result<Option<Vec<TrialResult>>, BlockError> {
        let results = self.run_block();
        let released = self.trial.host.release();
        let results = match results {
            Err(failure) if failure.error.is_interrupt() => return Ok(None),
            results => results?,
        };
        released.map_err(TrialError::from)?;
        Ok(results.filter(|_| !self.trial.interrupt.is_stopped()))
    }

    fn run_block(&mut self) -> Result<Option<Vec<TrialResult>>, BlockError> {
        let mut shared = SharedHost::default();
        let before_load = |error| BlockError {
            is_before_load: true,
            ..error
        };
        let Some(mut running) = self.start(&mut shared).map_err(before_load)? else {
            return Ok(None);
        };
        for variant in &mut running {
            variant.spec.extend_warmup(WARMUP_MIN);
        }
        let loaded = self.load(&running)?;
        if self.trial.interrupt.is_stopped() {
            return Ok(None);
        }
        let mut results = Vec::new();
        for ((position, running), (loaded, idle)) in self.positions().zip(running).zip(loaded) {
            let finished = self.scoped(&mut shared, position.variant, |trial| {
                trial.finish(position, running, loaded)
            });
            let mut result = finished.map_err(|error| BlockError::of(position.variant, error))?;
            result.findings.extend(idle);
            results.push(result);
        }
        Ok(Some(results))
    }

    /// Starts the services of all variants. Returns `None` after an interrupt.
    fn start(
        &mut self,
        shared: &mut SharedHost,
    ) -> Result<Option<Vec<RunningVariant>>, BlockError> {
        let plan = self.trial.plan;
        let allocations = |&variant: &usize| match plan.allocations(variant) {
            Ok(wanted) => Ok((variant, wanted)),
            Err(error) => Err(BlockError::of(variant, TrialError::Plan(error))),
        };
        let wanted: Vec<_> = self
            .order
            .iter()
            .map(allocations)
            .collect::<Result<_, _>>()?;
        let allocated = SharedHost::allocate(&mut *self.trial.host, &wanted);
        *shared = allocated.map_err(TrialError::from)?;
        let mut running = Vec::new();
        for position in self.positions() {
            let begun = self.scoped(shared, position.variant, |trial| trial.begin(position));
            running.push(begun.map_err(|error| BlockError::of(position.variant, error))?);
            if self.trial.interrupt.is_stopped() {
                return Ok(None);
            }
        }
        Ok(Some(running))
    }

    fn positions(&self) -> impl Iterator<Item = TrialPosition> + use<> {
        let block = self.block;
        let order = self.order.clone().into_iter().enumerate();
        order.map(move |(position, variant)| TrialPosition {
            block,
            variant,
            position,
        })
    }

    /// Calls `work` with a trial that is limited to the services of one variant.
    fn scoped<T>(
        &mut self,
        shared: &mut SharedHost,
        variant: usize,
        work: impl FnOnce(&mut Trial<'_>) -> T,
    ) -> T {
        let trial = &mut self.trial;
        let mut host = ScopedHost::new(&mut *trial.host, shared, variant);
        work(&mut Trial {
            plan: trial.plan,
            host: &mut host,
            load: None,
            scripts: trial.scripts,
            profile_rate_hz: trial.profile_rate_hz,
            interrupt: trial.interrupt,
            stored: &mut *trial.stored,
            on: &mut *trial.on,
        })
    }

    /// Runs the loads in alternating slices. Returns the measurements of each variant, with a
    /// finding if the variant's services were busy outside its slices.
    fn load(
        &mut self,
        running: &[RunningVariant],
    ) -> Result<Vec<(LoadedVariant, Option<Finding>)>, BlockError> {
        let controls: Vec<_> = running
            .iter()
            .map(|variant| Arc::new(Control::new(variant.spec.info().threads)))
            .collect();
        let loads: Vec<SlicedLoad<'_>> = running
            .iter()
            .zip(&self.order)
            .map(|(running, &variant)| SlicedLoad {
                variant,
                spec: &running.spec,
                slices: Slices::default(),
            })
            .collect();
        let latest = Arc::new(LatestSample::default());
        self.announce(&loads, &controls, &latest);
        self.trial.interrupt.set_loads(controls.clone());
        let driver = SliceDriver {
            loads: &loads,
            services: services_of(running, &self.order, |service| service.remote.is_none()),
            sampled: services_of(running, &self.order, |_| true),
            slice: self.slice.map(Nanos::from),
            metrics: &self.trial.plan.metrics,
            seed: (self.trial.stored.seed()).wrapping_add(u64::from(self.block) << 32),
            avoid: cores_of(running),
            latest: &latest,
        };
        let trial = &mut self.trial;
        let host = &mut *trial.host;
        let on = &mut *trial.on;
        let (records, driven) = std::thread::scope(|scope| {
            let threads: Vec<_> = loads
                .iter()
                .zip(running)
                .zip(&controls)
                .map(|((load, running), control)| {
                    scope.spawn(move || run_one(running, load, control))
                })
                .collect();
            let (events, received) = mpsc::channel();
            let driving = scope.spawn(move || driver.drive(host, &events));
            forward(&received, on);
            let driven = driving.join();
            let records: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            (records, driven)
        });
        trial.interrupt.set_loads(Vec::new());
        (trial.on)(ExperimentEvent::Loaded);
        let driven = driven.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let Some(ended) = driven.ended {
            return Err(ended);
        }
        let driven = driven.variants;
        let mut loaded = Vec::new();
        for ((record, driven), &variant) in records.into_iter().zip(driven).zip(&self.order) {
            let record = record.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let record: Record = record.map_err(|error| BlockError::of(variant, error))?;
            let idle = driven.not_idle();
            let variant = LoadedVariant {
                record,
                samples: driven
                    .telemetry
                    .map_or_else(Vec::new, |it| it.into_samples()),
                slices: driven.slices,
                search: None,
            };
            loaded.push((variant, idle));
        }
        Ok(loaded)
    }

    fn announce(
        &mut self,
        loads: &[SlicedLoad<'_>],
        controls: &[Arc<Control>],
        latest: &Arc<LatestSample>,
    ) {
        let variants = &self.trial.plan.variants;
        let planned = loads.iter().filter_map(|load| load.spec.planned());
        let planned: Duration = planned.map(Duration::from).sum();
        let loads: Vec<InterleavedLoad<'_>> = loads
            .iter()
            .zip(controls)
            .map(|(load, control)| InterleavedLoad {
                variant: load.variant,
                id: &variants[load.variant].id,
                info: load.spec.info(),
                control,
            })
            .collect();
        (self.trial.on)(ExperimentEvent::Interleaving {
            loads: &loads,
            planned,
            latest,
        });
    }
}

/// Runs one variant's load in its slices.
fn run_one(
    running: &RunningVariant,
    load: &SlicedLoad<'_>,
    control: &Arc<Control>,
) -> Result<Record, TrialError> {
    let local = LocalLoad {
        control,
        info: load.spec.info(),
    };
    abort::run(running.resolved.load.abort_rules.as_ref(), local, || {
        let run = || run_in_slices(load.spec, control, &load.slices);
        let record = inside(running.netns.as_ref(), run);
        // If the load's network can't be entered, no worker exists that could end the load's
        // slices.
        load.slices.end(Nanos::ZERO);
        record.and_then(|record| record.map_err(TrialError::Engine))
    })
}

/// Returns the cores to which any of the loads is pinned.
fn cores_of(running: &[RunningVariant]) -> Vec<usize> {
    let settings = running.iter().map(|it| &it.resolved.load.settings);
    let cores = settings.filter_map(|settings| settings.cores.as_ref());
    cores.flat_map(|cores| cores.0.iter().copied()).collect()
}

/// Returns the services that prony started. Each is identified by the index of its variant and its
/// name in the plan.
fn services_of(
    running: &[RunningVariant],
    order: &[usize],
    is_wanted: fn(&ResolvedService) -> bool,
) -> Vec<(usize, String)> {
    let of_variant = |(running, &variant): (&RunningVariant, &usize)| {
        let own = running.resolved.services.iter();
        let own = own.filter(|service| is_wanted(service));
        let named = own.map(|service| (variant, service.spec.name.clone()));
        named.collect::<Vec<_>>()
    };
    running.iter().zip(order).flat_map(of_variant).collect()
}
