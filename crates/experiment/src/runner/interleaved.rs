//! An interleaved block: the services of all variants run at the same time, and the load alternates
//! between them in short slices, so that changes of the machine's speed affect all variants alike
//! (L. Bulej et al., "Duet Benchmarking", ICPE 2020).

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use prony_load::{Control, LoadSlice, LoadSpec, SliceReport, Slices, run_in_slices};
use prony_record::{Finding, FindingId, Nanos, Record, Severity};
use prony_stats::Metric;

use super::event::InterleavedLoad;
use super::sampling::LatestSample;
use super::trial::{LoadedVariant, RunningVariant, Trial, TrialPosition, inside};
use super::trial_result::{SliceResult, TrialResult};
use super::{ExperimentEvent, TrialError};
use crate::host::{Host, ScopedHost, SharedHost};
use crate::interleaving::{DEFAULT_SLICE, SETTLING_PART, minimum_duration};
use crate::schedule;
use crate::service::ScopedName;
use crate::system::avoid_cores;
use crate::telemetry::{SlicedTelemetry, TelemetrySample};

/// Shortest warm-up. The settling part of the first slice must not begin before the load.
const WARMUP_MIN: Nanos = Nanos::from_millis(100);
/// Requests that every variant has in a slice at least.
const SLICE_REQUESTS_MIN: f64 = 50.0;
/// CPU in percent of one core that the services of a variant may use in the slices of others.
const IDLE_PERCENT_MAX: f64 = 2.0;

/// Failure of a block.
#[derive(Debug)]
pub(super) struct BlockError {
    /// The variant that failed, if it was one of them.
    pub(super) variant: Option<usize>,
    pub(super) error: Box<TrialError>,
    /// Not all services could run at the same time. Nothing was measured.
    pub(super) is_before_load: bool,
}

impl BlockError {
    /// The failure of one variant.
    fn of(variant: usize, error: impl Into<TrialError>) -> BlockError {
        BlockError {
            variant: Some(variant),
            ..BlockError::from(error.into())
        }
    }
}

impl fmt::Display for BlockError {
    /// The first line of the error, without the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.error.to_string();
        f.write_str(text.lines().next().unwrap_or_default())
    }
}

impl From<TrialError> for BlockError {
    fn from(error: TrialError) -> BlockError {
        BlockError {
            variant: None,
            error: Box::new(error),
            is_before_load: false,
        }
    }
}

/// An interleaved block.
pub(super) struct InterleavedBlock<'a> {
    pub(super) trial: Trial<'a>,
    /// Block, from 1.
    pub(super) block: u32,
    /// The variants in the order of their starts.
    pub(super) order: Vec<usize>,
    /// Length of a slice, if the user has set one.
    pub(super) slice: Option<Duration>,
}

impl InterleavedBlock<'_> {
    /// Runs the block and releases everything. Returns `None` after an interrupt.
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

    /// Calls `work` with a trial that sees the services of one variant.
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
            interrupt: trial.interrupt,
            stored: &mut *trial.stored,
            on: &mut *trial.on,
        })
    }

    /// Runs the loads in turn. Returns the measurements of each variant, with a finding if it was busy
    /// outside of its slices.
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
        let driver = Driver {
            loads: &loads,
            services: services_of(running, &self.order),
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
                    scope.spawn(move || {
                        let run = || run_in_slices(load.spec, control, &load.slices);
                        let record = inside(running.netns.as_ref(), run);
                        // Without a network to run in, no worker ends the turns.
                        load.slices.end(Nanos::ZERO);
                        record.and_then(|record| record.map_err(TrialError::Engine))
                    })
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

/// Cores that any of the loads is bound to.
fn cores_of(running: &[RunningVariant]) -> Vec<usize> {
    let settings = running.iter().map(|it| &it.resolved.load.settings);
    let cores = settings.filter_map(|settings| settings.cores.as_ref());
    cores.flat_map(|cores| cores.0.iter().copied()).collect()
}

/// The services that prony started: the index of the variant, and the name in the plan.
fn services_of(running: &[RunningVariant], order: &[usize]) -> Vec<(usize, String)> {
    let of_variant = |(running, &variant): (&RunningVariant, &usize)| {
        let own = running.resolved.services.iter();
        let own = own.filter(|service| service.remote.is_none());
        let named = own.map(|service| (variant, service.spec.name.clone()));
        named.collect::<Vec<_>>()
    };
    running.iter().zip(order).flat_map(of_variant).collect()
}

/// One variant's load.
struct SlicedLoad<'a> {
    variant: usize,
    spec: &'a LoadSpec,
    slices: Slices,
}

impl SlicedLoad<'_> {
    fn run(&self, slice: LoadSlice) -> Option<SliceReport> {
        self.slices.run(slice, self.spec.info().threads)
    }

    fn warmup(&self) -> Nanos {
        Nanos::from(Duration::from_secs_f64(self.spec.info().warmup_s))
    }

    /// Length of the measured part.
    fn duration(&self) -> Nanos {
        let duration_s = self.spec.info().duration_s.unwrap_or_default();
        Nanos::from(Duration::from_secs_f64(duration_s))
    }
}

/// Events of the driver's thread.
enum DriverEvent {
    RoundsBegan {
        slice: Duration,
        rounds: u32,
    },
    RoundEnded {
        round: u32,
        slices: Vec<(usize, SliceResult)>,
    },
}

/// Passes events on until the driver has ended.
fn forward(received: &Receiver<DriverEvent>, on: &mut dyn FnMut(ExperimentEvent<'_>)) {
    for event in received {
        match event {
            DriverEvent::RoundsBegan { slice, rounds } => {
                on(ExperimentEvent::RoundsBegan { slice, rounds });
            }
            DriverEvent::RoundEnded { round, slices } => on(ExperimentEvent::RoundEnded {
                round,
                slices: &slices,
            }),
        }
    }
}

/// Decides which load runs when, and takes the samples between.
struct Driver<'a> {
    loads: &'a [SlicedLoad<'a>],
    services: Vec<(usize, String)>,
    slice: Option<Nanos>,
    /// Metrics that are judged.
    metrics: &'a [Metric],
    seed: u64,
    /// Cores of the loads.
    avoid: Vec<usize>,
    latest: &'a LatestSample,
}

/// Measurements of a block, apart from the records.
struct Driven {
    /// In the order of the loads.
    variants: Vec<DrivenVariant>,
    /// The service that ended during the loads.
    ended: Option<BlockError>,
}

/// Measurements of one variant, apart from its record.
#[derive(Default)]
struct DrivenVariant {
    /// End of its last slice on its own clock.
    until: Nanos,
    slices: Vec<SliceResult>,
    telemetry: Option<SlicedTelemetry>,
}

impl DrivenVariant {
    /// Returns a finding if the services were busy in the slices of other variants.
    fn not_idle(&self) -> Option<Finding> {
        let percent = self.telemetry.as_ref()?.idle_percent()?;
        if percent < IDLE_PERCENT_MAX {
            return None;
        }
        let text = format!(
            "The services used {percent:.0}% of a core while other variants were loaded, which slows \
             those down. If this is their normal work without requests, run the trials one after the \
             other (--interleave off)."
        );
        Some(Finding::new(FindingId::NotIdle, Severity::Warning, text))
    }
}

impl Driver<'_> {
    /// Runs warm-ups and rounds until all are done, a load or a service has ended, or a machine is lost.
    fn drive(self, host: &mut dyn Host, events: &Sender<DriverEvent>) -> Driven {
        avoid_cores(&self.avoid);
        let mut driven: Vec<DrivenVariant> = self
            .loads
            .iter()
            .map(|_| DrivenVariant::default())
            .collect();
        let mut ended = None;
        if self.are_ready() {
            let done = match self.warm_up(&mut driven) {
                Some(rates) => self.rounds(host, &rates, &mut driven, events),
                None => self.check_services(host),
            };
            ended = done.err();
        }
        for (load, driven) in self.loads.iter().zip(&driven) {
            load.slices.end(driven.until);
        }
        Driven {
            variants: driven,
            ended,
        }
    }

    /// Returns an error if a service has ended.
    fn check_services(&self, host: &mut dyn Host) -> Result<(), BlockError> {
        for (variant, service) in &self.services {
            let name = ScopedName::new(service, *variant).0;
            host.alive(&name).map_err(|exit| {
                let error = TrialError::ServiceEnded {
                    service: service.clone(),
                    status: exit.status,
                    log: exit.log_tail,
                };
                BlockError::of(*variant, error)
            })?;
        }
        Ok(())
    }

    fn are_ready(&self) -> bool {
        let mut loads = self.loads.iter();
        loads.all(|load| load.slices.wait_ready(load.spec.info().threads))
    }

    /// Runs each load's warm-up. Returns requests per second of each; `None` if a load has ended.
    fn warm_up(&self, driven: &mut [DrivenVariant]) -> Option<Vec<f64>> {
        let mut rates = vec![0.0; self.loads.len()];
        for index in schedule::order(self.seed, 0, self.loads.len()) {
            let length = self.loads[index].warmup();
            let report = self.loads[index].run(LoadSlice {
                from: Nanos::ZERO,
                settling: Nanos::ZERO,
                length,
            })?;
            rates[index] = report.ended as f64 / length.as_secs_f64();
            driven[index].until = length;
        }
        Some(rates)
    }

    fn rounds(
        &self,
        host: &mut dyn Host,
        rates: &[f64],
        driven: &mut [DrivenVariant],
        events: &Sender<DriverEvent>,
    ) -> Result<(), BlockError> {
        let duration = self.loads.iter().map(SlicedLoad::duration).max();
        let duration = duration.unwrap_or_default();
        self.refuse_few_requests(duration, rates)?;
        let (rounds, length) = divide(duration, self.slice, rates);
        // The receiver lives until this thread has ended.
        let _ = events.send(DriverEvent::RoundsBegan {
            slice: length.into(),
            rounds,
        });
        let mut before = self.sample(host);
        for (load, driven) in self.loads.iter().zip(&mut *driven) {
            driven.telemetry = Some(SlicedTelemetry::new(load.variant, &before));
        }
        for round in 0..rounds {
            let mut ended = Vec::new();
            let order = schedule::order(self.seed, round as usize + 1, self.loads.len());
            for (position, index) in order.into_iter().enumerate() {
                let load = &self.loads[index];
                let slice = LoadSlice {
                    from: driven[index].until,
                    settling: Nanos(length.0 / u64::from(SETTLING_PART)).min(driven[index].until),
                    length,
                };
                let Some(report) = load.run(slice) else {
                    return self.check_services(host);
                };
                let after = self.sample(host);
                driven[index].until = slice.end() + report.excess();
                let result = slice_result((round, position as u32), length, &report);
                for (number, driven) in driven.iter_mut().enumerate() {
                    let Some(telemetry) = &mut driven.telemetry else {
                        continue;
                    };
                    if number == index {
                        telemetry.add(
                            &before,
                            &after,
                            usage_time_s(length, &report, &before, &after),
                        );
                    } else {
                        telemetry.add_idle(&before, &after);
                    }
                }
                driven[index].slices.push(result);
                ended.push((load.variant, result));
                before = after;
                if host.is_lost() {
                    return Ok(());
                }
            }
            self.check_services(host)?;
            let _ = events.send(DriverEvent::RoundEnded {
                round,
                slices: ended,
            });
        }
        Ok(())
    }

    /// Fails if the user has set the length of the slices, and the warm-ups show that a block would have
    /// too few requests for a percentile that is judged.
    fn refuse_few_requests(&self, duration: Nanos, rates: &[f64]) -> Result<(), BlockError> {
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let enough = minimum_duration(slowest, self.metrics);
        match (self.slice, enough) {
            (Some(_), Some(enough)) if slowest > 0.0 && Nanos::from(enough) > duration => {
                let error = TrialError::TooFewRequests {
                    expected: (slowest * duration.as_secs_f64()) as u64,
                    duration: enough,
                };
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    fn sample(&self, host: &mut dyn Host) -> TelemetrySample {
        let sample = host.sample();
        self.latest.put(&sample);
        sample
    }
}

/// Returns the number of rounds and the length of their slices.
fn divide(duration: Nanos, wanted: Option<Nanos>, rates: &[f64]) -> (u32, Nanos) {
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let enough = match slowest > 0.0 && slowest.is_finite() {
        true => Nanos::from(Duration::from_secs_f64(SLICE_REQUESTS_MIN / slowest)),
        false => Nanos::ZERO,
    };
    let length = wanted.unwrap_or_else(|| Nanos::from(DEFAULT_SLICE).max(enough));
    let rounds = (duration.0 as f64 / length.0.max(1) as f64)
        .round()
        .max(1.0);
    let rounds = rounds.min(f64::from(u32::MAX)) as u32;
    (rounds, Nanos(duration.0 / u64::from(rounds)))
}

/// The time that the usage between two samples belongs to: that of the counted requests, extended by the
/// share of the requests that were not counted. Usage per second and requests per second then belong
/// to the same requests.
fn usage_time_s(
    length: Nanos,
    report: &SliceReport,
    before: &TelemetrySample,
    after: &TelemetrySample,
) -> f64 {
    let counted = report.ok + report.failed;
    match counted {
        0 => after.t_s - before.t_s,
        counted => (length + report.excess()).as_secs_f64() * report.ended as f64 / counted as f64,
    }
}

fn slice_result((round, position): (u32, u32), length: Nanos, report: &SliceReport) -> SliceResult {
    SliceResult {
        round,
        position,
        length_s: (length + report.excess()).as_secs_f64(),
        ok: report.ok,
        failed: report.failed,
        mean_response_us: (report.ok > 0)
            .then(|| report.response_ns as f64 / report.ok as f64 / 1e3),
        drain_s: report.drain.as_secs_f64(),
    }
}
