//! A trial that is a capacity search.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{Control, LoadSettings, LoadSpec, ScriptLoader, run_scripted};
use prony_machine::place::NetnsHandle;
use prony_plan::CapacityLoad;
use prony_plan::probe_load::ProbeLoad;
use prony_record::Record;
use prony_stats::capacity::SearchOutcome;
use prony_stats::capacity::{ProbeReport, SearchEnd, SearchReport};

use super::{LoadedVariant, RunningVariant, Trial, TrialPosition, inside};
use crate::capacity::{CapacitySearch, ProbeLoads, SearchEvent};
use crate::runner::sampling::{self, LatestSample};
use crate::runner::{ExperimentEvent, TrialError};

/// Interval between two telemetry samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

impl Trial<'_> {
    /// Searches for the variant's capacity and takes samples during the search. Returns `None`
    /// after an interrupt.
    pub(super) fn search(
        &mut self,
        position: TrialPosition,
        running: &RunningVariant,
        capacity: &CapacityLoad,
    ) -> Result<Option<LoadedVariant>, TrialError> {
        let load = &running.resolved.load;
        let settings = capacity.base(&self.seeded(load, position.block));
        let search = CapacitySearch {
            goals: &capacity.goals.goals,
            settings: capacity.goals.search(
                settings.seed.unwrap_or_default(),
                self.known_capacity(position.variant),
            ),
            interrupt: self.interrupt,
        };
        let avoid = settings.cores.clone().map(|cores| cores.0);
        let avoid = avoid.unwrap_or_default();
        let mut loads = VariantLoads {
            url: &load.url,
            settings,
            netns: running.netns.as_ref(),
            scripts: self.scripts,
            rate_per_s: None,
            records: Vec::new(),
        };
        let (latest, done) = (Arc::new(LatestSample::default()), OnceLock::new());
        let current = CurrentLoad::default();
        let (host, on) = (&mut *self.host, &mut *self.on);
        let (report, samples) = std::thread::scope(|scope| {
            let (done, current, sampled) = (&done, &current, latest.clone());
            let sampler = scope.spawn(move || {
                // Without the lost machine, the trial can't give a verdict.
                let on_lost_machine = || current.stop();
                let interval = SAMPLE_INTERVAL;
                sampling::collect(host, interval, done, &avoid, &sampled, &on_lost_machine)
            });
            let report = search.run(&mut loads, &mut |event| match event {
                SearchEvent::Begun {
                    probe,
                    spec,
                    control,
                } => {
                    current.set(control);
                    on(ExperimentEvent::Loading {
                        planned: Duration::try_from_secs_f64(probe.planned_s()).unwrap_or_default(),
                        info: spec.info(),
                        control,
                        agents: None,
                        latest: &latest,
                    });
                }
                SearchEvent::Ended { probe, bracket } => {
                    on(ExperimentEvent::Probed { probe, bracket });
                }
            });
            // Only this line sets the value, so `set` can't fail.
            let _ = done.set(Instant::now());
            (report, sampler.join().unwrap_or_default())
        });
        (self.on)(ExperimentEvent::Loaded);
        let report = report?;
        if report.end == SearchEnd::Interrupted {
            return Ok(None);
        }
        let record = representative(loads.records, &report);
        Ok(record.map(|record| LoadedVariant {
            record,
            samples,
            slices: Vec::new(),
            search: Some(report),
        }))
    }

    /// Returns the capacity that the variant's first successful search found; `None` before that
    /// search. Later searches start at this rate, which halves their duration. They probe random
    /// rates around it, drawn with the seed of the block.
    fn known_capacity(&self, variant: usize) -> Option<f64> {
        let of_variant = self.stored.results().iter();
        let mut of_variant = of_variant.filter(|result| result.variant == variant);
        of_variant.find_map(|result| result.search.as_ref()?.capacity_per_s())
    }
}

/// Runs the loads of a search and keeps their records.
struct VariantLoads<'a> {
    url: &'a str,
    settings: LoadSettings,
    netns: Option<&'a NetnsHandle>,
    scripts: Option<&'a dyn ScriptLoader>,
    /// Rate of the most recently resolved load in requests per second; `None` for a closed loop.
    rate_per_s: Option<f64>,
    /// Records of all loads, each with its rate.
    records: Vec<(Option<f64>, Record)>,
}

impl ProbeLoads for VariantLoads<'_> {
    type Error = TrialError;

    fn spec(&mut self, load: &ProbeLoad) -> Result<LoadSpec, TrialError> {
        self.rate_per_s = match load {
            ProbeLoad::Idle => None,
            ProbeLoad::Probe { probe, .. } => probe.rate_per_s,
        };
        let settings = load.settings(&self.settings);
        // Resolve in the network of the load's place, which determines addresses and ports.
        inside(self.netns, || settings.resolve(Some(self.url)))?.map_err(TrialError::Load)
    }

    fn run(&mut self, spec: &LoadSpec, control: &Arc<Control>) -> Result<Record, TrialError> {
        let run = || run_scripted(spec, control, self.scripts);
        let record = inside(self.netns, run)?.map_err(TrialError::Engine)?;
        self.records.push((self.rate_per_s, record.clone()));
        Ok(record)
    }
}

/// The load that is running now.
#[derive(Default)]
struct CurrentLoad(Mutex<Option<Arc<Control>>>);

impl CurrentLoad {
    fn set(&self, control: &Arc<Control>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(control.clone());
    }

    fn stop(&self) {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.iter().for_each(|control| control.stop());
    }
}

/// Selects the record that is stored with the trial. It is that of the probe closest to the
/// capacity, preferably of a probe that met the goals. The findings of the search replace the
/// findings of the record.
fn representative(records: Vec<(Option<f64>, Record)>, report: &SearchReport) -> Option<Record> {
    let met = |rate: f64| {
        let mut probes = report.probes.iter();
        probes.any(|probe: &ProbeReport| probe.rate_per_s == Some(rate) && probe.met)
    };
    let at = report.outcome().as_ref().map(SearchOutcome::per_s);
    let distance = |rate: Option<f64>| match (rate, at) {
        (Some(rate), Some(at)) => (!met(rate), (rate / at).ln().abs()),
        _ => (true, f64::INFINITY),
    };
    let nearest = records.into_iter().min_by(|(a, _), (b, _)| {
        let (a, b) = (distance(*a), distance(*b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    nearest.map(|(_, record)| Record {
        findings: report.findings.clone(),
        ..record
    })
}
