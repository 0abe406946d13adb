//! One trial: start the services, check their responses, run the load, and stop everything.

mod load;
mod probe;
mod search;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_load::{LoadSpec, NotReady as WaitError, ScriptLoader, wait_for_server};
use prony_machine::host::Host;
use prony_machine::place::NetnsHandle;
use prony_machine::telemetry::{self, TelemetrySample};
use prony_plan::service::AllocatedService;
use prony_plan::{LoadModel, Plan, ResolvedVariant};
use prony_record::finding::{ServiceEnded, ServiceKilled, ServiceLogCut, Subject};
use prony_record::{Finding, Record, Severity};
use prony_stats::capacity::SearchReport;

use super::folder::ExperimentFolder;
use super::function_costs::TrialProfiles;
use super::readiness::{self, ReadinessError};
use super::responses::{self, CHECKED_REQUESTS_MAX, ResponseDigests};
use super::trial_error::{TargetFailure, TrialError};
use super::trial_result::{SliceResult, TrialResult};
use super::{
    AgentLoadRunner, ExperimentEvent, Interrupt, limit_lines, resource_use, search_end,
    trial_telemetry, values,
};

pub use probe::PROBE_DURATION;
pub(crate) use probe::{ProbePace, ProbedLoad};

/// Maximum size in bytes of a rendered file that is stored with the record.
const STORED_FILE_BYTES_MAX: usize = 256 * 1024;
/// Number of lines of the target's log that an error message quotes.
const TARGET_LOG_LINES: usize = 15;
/// Block number of the pre-check, used in the names of its folders.
const PRECHECK_BLOCK: u32 = 0;
/// Maximum number of requests that the pre-check sends from a list of URLs.
const PRECHECK_REQUESTS_MAX: usize = 8;

/// Position of a trial in the experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialPosition {
    /// Block number, from 1.
    pub(crate) block: u32,
    /// Index of the variant in the plan.
    pub(crate) variant: usize,
    /// Position of the trial within its block, from 0.
    pub(crate) position: usize,
}

/// A variant whose services are running and respond.
pub(super) struct RunningVariant {
    pub(super) resolved: ResolvedVariant,
    /// Network of the load's place; `None` for the network of this process.
    pub(super) netns: Option<NetnsHandle>,
    pub(super) spec: LoadSpec,
    responses: ResponseDigests,
    /// Folder of the trial.
    dir: PathBuf,
}

/// Measurements of a variant's load.
pub(super) struct LoadedVariant {
    pub(super) record: Record,
    pub(super) samples: Vec<TelemetrySample>,
    /// Slices of an interleaved load.
    pub(super) slices: Vec<SliceResult>,
    /// Capacity search; `None` if the trial is a single load.
    pub(super) search: Option<SearchReport>,
}

/// Everything that a trial needs while it runs.
pub(crate) struct Trial<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) host: &'a mut dyn Host,
    pub(crate) load: Option<&'a mut dyn AgentLoadRunner>,
    pub(crate) scripts: Option<&'a dyn ScriptLoader>,
    /// Rate of the samples for profiles, unless the plan sets one; `None` for no profiles.
    pub(crate) profile_rate_hz: Option<u32>,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) stored: &'a mut ExperimentFolder,
    pub(crate) on: &'a mut dyn FnMut(ExperimentEvent<'_>),
}

impl Trial<'_> {
    /// Runs the trial and releases all resources. Returns `None` after an interrupt.
    pub(crate) fn run(
        &mut self,
        position: TrialPosition,
    ) -> Result<Option<TrialResult>, TrialError> {
        let result = self.run_trial(position);
        self.release(result).map(Option::flatten)
    }

    /// Releases the host after success or failure. Returns `None` after an interrupt.
    fn release<T>(&mut self, result: Result<T, TrialError>) -> Result<Option<T>, TrialError> {
        let released = self.host.release();
        let result = match result {
            Err(error) if error.is_interrupt() => None,
            result => Some(result?),
        };
        released?;
        Ok(result.filter(|_| !self.interrupt.is_stopped()))
    }

    /// Starts the variant's services, sends a few requests, and stops everything. This finds
    /// variants that can't run before anything is measured. Returns the responses and the time
    /// taken, which is the overhead of a trial; `None` after an interrupt.
    pub(crate) fn check(
        &mut self,
        variant: usize,
    ) -> Result<Option<(ResponseDigests, Duration)>, TrialError> {
        let began = Instant::now();
        let checked = self.start_and_stop(variant);
        let checked = self.release(checked)?;
        Ok(checked.map(|responses| (responses, began.elapsed())))
    }

    fn start_and_stop(&mut self, variant: usize) -> Result<ResponseDigests, TrialError> {
        let dir = self.trial_dir(PRECHECK_BLOCK, variant)?;
        let running = self.start_variant(PRECHECK_BLOCK, variant, &dir, PRECHECK_REQUESTS_MAX)?;
        self.stop(&running.resolved)?;
        // The logs are needed only for variants that fail.
        fs::remove_dir_all(&dir).map_err(TrialError::file(&dir))?;
        // If some requests were not sent because they may modify data, the others don't represent
        // the variant.
        let all_sent = running.spec.safe_requests().len() == running.spec.distinct_requests();
        Ok(if all_sent {
            running.responses
        } else {
            ResponseDigests::default()
        })
    }

    fn trial_dir(&self, block: u32, variant: usize) -> Result<PathBuf, TrialError> {
        let id = &self.plan.variants[variant].id;
        Ok(self.stored.trial_dir(block, id)?)
    }

    /// Starts the variant's services, waits until they are ready, and collects their responses.
    fn start_variant(
        &mut self,
        block: u32,
        variant: usize,
        dir: &Path,
        requests_max: usize,
    ) -> Result<RunningVariant, TrialError> {
        let wanted = self.plan.allocations(variant).map_err(TrialError::Plan)?;
        let topology = self.plan.topology(variant).map_err(TrialError::Plan)?;
        let allocated = self.host.allocate(&wanted, &topology)?;
        let resolved = self
            .plan
            .resolve(variant, &allocated)
            .map_err(TrialError::Plan)?;
        store_files(&resolved, dir)?;
        let mut watch = resolved.telemetry.watch(&resolved);
        watch.profile_rate_hz = watch.profile_rate_hz.or(self.profile_rate_hz);
        self.host.watch(watch);
        self.start_services(&resolved, &allocated, dir)?;
        // Only the load and the requests that check responses run in the network of the load's
        // place.
        let netns = self.host.netns_handle(resolved.load.place)?;
        let spec = self.load_spec(&resolved.load, block, netns.as_ref())?;
        let interrupt = self.interrupt;
        if !self.wait_for_target(&resolved, &spec, netns.as_ref())? {
            return Err(TrialError::Service {
                service: resolved.load.service.clone(),
                why: ReadinessError::Interrupted,
            });
        }
        let checked = inside(netns.as_ref(), || {
            responses::collect(&spec, requests_max, interrupt)
        })?;
        let responses = checked.map_err(|why| {
            let service = resolved.load.service.clone();
            let log = self.target_log(&resolved);
            let why = TargetFailure::Request(why);
            TrialError::Target { service, why, log }
        })?;
        Ok(RunningVariant {
            resolved,
            netns,
            spec,
            responses,
            dir: dir.to_owned(),
        })
    }

    fn run_trial(&mut self, position: TrialPosition) -> Result<Option<TrialResult>, TrialError> {
        let running = self.begin(position)?;
        if self.interrupt.is_stopped() {
            return Ok(None);
        }
        if let LoadModel::Capacity(capacity) = &running.resolved.load.model {
            let capacity = capacity.clone();
            return match self.search(position, &running, &capacity)? {
                Some(loaded) => self.finish(position, running, loaded).map(Some),
                None => Ok(None),
            };
        }
        let (block, netns) = (position.block, running.netns.as_ref());
        let (record, samples) = self.load(&running.spec, &running.resolved.load, block, netns)?;
        let loaded = LoadedVariant {
            record,
            samples,
            slices: Vec::new(),
            search: None,
        };
        self.finish(position, running, loaded).map(Some)
    }

    /// Starts the variant's services and waits until they are ready.
    pub(super) fn begin(&mut self, position: TrialPosition) -> Result<RunningVariant, TrialError> {
        let TrialPosition { block, variant, .. } = position;
        let dir = self.trial_dir(block, variant)?;
        let running = self.start_variant(block, variant, &dir, CHECKED_REQUESTS_MAX)?;
        if block == 1 {
            let environment = self.host.environment();
            self.stored
                .note_environment(&self.plan.variants[variant].id, environment)?;
        }
        Ok(running)
    }

    /// Stops the variant's services and computes the result of the trial.
    pub(super) fn finish(
        &mut self,
        position: TrialPosition,
        running: RunningVariant,
        loaded: LoadedVariant,
    ) -> Result<TrialResult, TrialError> {
        let TrialPosition { block, variant, .. } = position;
        let RunningVariant {
            resolved,
            responses,
            dir,
            ..
        } = running;
        let LoadedVariant {
            record,
            samples,
            slices,
            search,
        } = loaded;
        let mut findings = self.ended_services(&resolved);
        findings.extend(self.host.take_findings());
        findings.extend(self.examine_crypto(&resolved, position));
        let profiles = TrialProfiles::take(self.host, &resolved, &dir)?;
        findings.extend(self.stop(&resolved)?);
        findings.extend(limit_lines::findings(logs(&resolved, &dir)));
        let mut summary = telemetry::summary(&samples);
        findings.extend(trial_telemetry::unseen(&resolved, summary.as_mut()));
        write_telemetry(&samples, &dir)?;
        let values = match &search {
            Some(search) => {
                findings.extend(search_end::finding(search, &self.plan.goals));
                values::of_search(search)
            }
            None => values::all(&record, summary.as_ref(), &resolved),
        };
        let measured = search.is_none().then_some(&record);
        let telemetry = trial_telemetry::telemetry_values(summary.as_ref(), &resolved, measured);
        findings.extend(trial_telemetry::throttled(&telemetry));
        findings.extend(trial_telemetry::memory_limited(&telemetry));
        let functions = profiles.costs(summary.as_ref(), &telemetry, &record);
        let waits = profiles.waits(&record);
        findings.extend(profiles.findings);
        Ok(TrialResult {
            block,
            variant,
            position: position.position,
            values,
            telemetry,
            resources: summary
                .as_ref()
                // A search runs probes at different rates, so mean usage would show no limit.
                .filter(|_| search.is_none())
                .map(|summary| resource_use::resource_use(summary, &resolved))
                .unwrap_or_default(),
            responses,
            hosts: summary
                .as_ref()
                .map(trial_telemetry::hosts)
                .unwrap_or_default(),
            findings,
            slices,
            search,
            functions,
            waits,
            record: Some(record),
        })
    }

    /// Waits until the target accepts connections, if the load has `wait_for_server`. Returns false
    /// after an interrupt.
    fn wait_for_target(
        &mut self,
        resolved: &ResolvedVariant,
        spec: &LoadSpec,
        netns: Option<&NetnsHandle>,
    ) -> Result<bool, TrialError> {
        let Some(limit) = resolved.load.settings.wait_for_server else {
            return Ok(true);
        };
        let (service, interrupt) = (&resolved.load.service, self.interrupt);
        (self.on)(ExperimentEvent::Starting { service });
        let is_stopped = || interrupt.is_stopped();
        match inside(netns, || wait_for_server(spec, limit, &is_stopped, &|_| {}))? {
            Ok(()) => Ok(true),
            Err(WaitError::Stopped) => Ok(false),
            Err(timed_out) => {
                let log = self.target_log(resolved);
                let (service, why) = (service.clone(), TargetFailure::Wait(timed_out));
                Err(TrialError::Target { service, why, log })
            }
        }
    }

    /// Returns the last lines of the target's log; `None` if prony did not start the target.
    fn target_log(&mut self, resolved: &ResolvedVariant) -> Option<String> {
        let target = &resolved.load.service;
        let mut own = resolved.services.iter().filter(|it| it.remote.is_none());
        let is_own = own.any(|own| own.spec.name == *target);
        is_own.then(|| self.host.log_tail(target, TARGET_LOG_LINES))
    }

    /// Returns the finding about the target's cryptography. It is measured only in the first block,
    /// because a measurement takes seconds and its result doesn't change.
    fn examine_crypto(
        &mut self,
        resolved: &ResolvedVariant,
        position: TrialPosition,
    ) -> Option<Finding> {
        if position.block > 1 || !resolved.load.scheme.uses_tls() {
            return None;
        }
        let mut services = resolved.services.iter();
        let target = services.find(|service| service.spec.name == resolved.load.service)?;
        match target.remote {
            Some(_) => None,
            None => self.host.examine_crypto(&target.spec),
        }
    }

    /// Returns findings about services that ended during the load.
    fn ended_services(&mut self, resolved: &ResolvedVariant) -> Vec<Finding> {
        let own = resolved
            .services
            .iter()
            .filter(|service| service.remote.is_none());
        let ended = own.filter_map(|service| {
            let name = &service.spec.name;
            let exited = self.host.alive(name).err()?;
            let ended = ServiceEnded {
                last_line: exited.log_tail.lines().last().map(str::to_owned),
                status: exited.status,
            };
            let subject = Subject::Service(name.clone());
            Some(Finding::about(subject, Severity::Error, &ended))
        });
        ended.collect()
    }

    /// Stops the services in reverse start order. Returns findings about services that were killed
    /// or whose logs were cut.
    fn stop(&mut self, resolved: &ResolvedVariant) -> Result<Vec<Finding>, TrialError> {
        let mut findings = Vec::new();
        for service in resolved.services.iter().rev() {
            if service.remote.is_some() {
                continue;
            }
            let name = &service.spec.name;
            let stopped = self.host.stop(name)?;
            let subject = || Subject::Service(name.clone());
            if stopped.killed {
                let killed = ServiceKilled {
                    took_s: stopped.took.as_secs_f64(),
                };
                findings.push(Finding::about(subject(), Severity::Note, &killed));
            }
            if stopped.log_bytes_cut > 0 {
                let cut = ServiceLogCut {
                    bytes_cut: stopped.log_bytes_cut,
                };
                findings.push(Finding::about(subject(), Severity::Note, &cut));
            }
        }
        Ok(findings)
    }

    /// Starts the services in order, and waits until each is ready.
    fn start_services(
        &mut self,
        resolved: &ResolvedVariant,
        allocated: &BTreeMap<String, AllocatedService>,
        dir: &Path,
    ) -> Result<(), TrialError> {
        for service in resolved
            .services
            .iter()
            .filter(|service| service.remote.is_none())
        {
            let name = &service.spec.name;
            (self.on)(ExperimentEvent::Starting { service: name });
            self.host.start(&service.spec, dir)?;
            let allocated = allocated.get(name);
            let load = Some(&resolved.load).filter(|load| load.service == *name);
            let settings = load.map(|load| &load.settings);
            let (host, interrupt) = (&mut *self.host, self.interrupt);
            readiness::wait(name, &service.ready, settings, allocated, host, interrupt).map_err(
                |why| TrialError::Service {
                    service: name.clone(),
                    why,
                },
            )?;
        }
        Ok(())
    }
}

/// Runs `work` in the network of the load's place.
pub(super) fn inside<T: Send>(
    netns: Option<&NetnsHandle>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, TrialError> {
    match netns {
        Some(netns) => netns.run_inside(work).map_err(TrialError::EnterPlace),
        None => Ok(work()),
    }
}

/// Reads the logs of the services that prony started.
fn logs<'a>(resolved: &'a ResolvedVariant, dir: &Path) -> impl Iterator<Item = (&'a str, String)> {
    let own = resolved.services.iter().filter(|it| it.remote.is_none());
    own.filter_map(|service| {
        let name = service.spec.name.as_str();
        let bytes = fs::read(dir.join(format!("{name}.log"))).ok()?;
        Some((name, String::from_utf8_lossy(&bytes).into_owned()))
    })
}

/// Stores the rendered files of the services in the trial's folder.
fn store_files(resolved: &ResolvedVariant, dir: &Path) -> Result<(), TrialError> {
    for service in &resolved.services {
        for (name, contents) in &service.spec.files {
            if contents.len() > STORED_FILE_BYTES_MAX {
                continue;
            }
            let path = dir.join(&service.spec.name).join(name);
            path.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&path, contents))
                .map_err(TrialError::file(&path))?;
        }
    }
    Ok(())
}

fn write_telemetry(samples: &[TelemetrySample], dir: &Path) -> Result<(), TrialError> {
    let path = dir.join("telemetry.csv");
    fs::File::create(&path)
        .and_then(|mut file| telemetry::write_csv(samples, &mut file))
        .map_err(TrialError::file(&path))
}
