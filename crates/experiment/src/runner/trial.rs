//! One trial: services up, checked, loaded, watched, down.

mod probe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{
    Control, LoadSpec, NotReady as WaitError, RunError, SpecError, run as run_load, wait_for_server,
};
use prony_record::{Finding, FindingId, Record, Severity};
use prony_stats::Values;
use serde::{Deserialize, Serialize};

use super::folder::Stored;
use super::ready::{self, NotReady};
use super::responses::{self, CHECKED_REQUESTS_MAX, ResponseDigests};
use super::{AskedLoad, Event, Interrupt, LoadMaker, limit_lines, links, values, watched};
use crate::host::{Host, HostError};
use crate::place::Door;
use crate::plan::{Plan, PlanError, Resolved, ResolvedLoad, Scheme};
use crate::service::Allocated;
use crate::telemetry::{self, LatestSample, TelemetrySample};
use crate::why::{self, Capacity};

pub use probe::PROBE_DURATION;
pub(crate) use probe::ProbedLoad;

/// Samples that a trial gets at least, whatever its length.
const LEAST_SAMPLES: u32 = 4;
/// The longest time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Rendered files larger than this are not kept beside the record.
const LARGEST_KEPT: usize = 256 * 1024;

/// Lines of the target's log that are shown where it does not respond.
const TARGET_LOG_LINES: usize = 15;
/// The block whose folders hold what services wrote in the pre-check.
const PRECHECK_BLOCK: u32 = 0;
/// Requests of a list that the pre-check sends at most.
const PRECHECK_REQUESTS_MAX: usize = 8;

/// Where a trial stands in the experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) block: u32,
    pub(crate) variant: usize,
    pub(crate) position: usize,
}

/// What a trial gave, as `trial.json` stores it for a later resume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Its block, from 1.
    pub block: u32,
    /// Its variant's place in the plan.
    pub variant: usize,
    /// Its place in the block, from 0.
    pub position: usize,
    /// The metrics that could be measured.
    pub values: Values,
    /// What the findings need beside the record's own.
    pub telemetry: Watched,
    /// What there was to be used of cores and link, and how much of it was.
    #[serde(default)]
    pub capacity: Capacity,
    /// The variant's responses before the load.
    #[serde(rename = "answers")]
    pub responses: ResponseDigests,
    /// The agent on whose machine each service ran that was not on this one.
    #[serde(default)]
    pub hosts: BTreeMap<String, String>,
    /// What its services did that they should not have.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// The load's record; stored beside as `record.json`.
    #[serde(skip)]
    pub record: Option<Record>,
}

impl TrialResult {
    /// Whether a machine that it needed went away.
    pub(crate) fn lost_a_machine(&self) -> bool {
        let of_load = self.record.iter().flat_map(|record| &record.findings);
        let mut all = self.findings.iter().chain(of_load);
        all.any(|finding| finding.id == FindingId::AgentLost)
    }
}

/// The part of a trial's telemetry that findings are made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// CPU of all services, percent of one core.
    pub services_percent: f64,
    /// Cores that the services may use in all; 1 if any of them may use every core, 0 if none of
    /// them was started here.
    pub services_cores: usize,
    /// CPU of processes that are none of the experiment's, percent of one core; 0 where a server of
    /// the experiment was started by somebody else, as it may be one of them.
    pub foreign_percent: f64,
    /// CPU that other guests of the hypervisor took, percent of one core.
    pub steal_percent: f64,
    /// The foreign process that used most, if one did.
    pub top_foreign: Option<String>,
}

/// Why a trial could not be made. All but the first are the environment's doing.
#[derive(Debug)]
pub enum TrialError {
    /// The plan, once rendered, is not what its check had seen.
    Plan(PlanError),
    /// The load can't be run.
    Load(SpecError),
    /// The engine failed.
    Engine(RunError),
    /// The machines that were to make the load did not.
    Agents(String),
    /// The machine refused.
    Host(HostError),
    /// A service did not start.
    Service {
        /// The service.
        service: String,
        /// Why.
        why: NotReady,
    },
    /// The target does not respond.
    Target {
        /// The service that is loaded.
        service: String,
        /// Which request got which failure.
        why: String,
        /// The end of the target's log; none where prony did not start it.
        log: Option<String>,
    },
    /// A file of the trial can't be written.
    File(String),
    /// In a whole block no request of any variant succeeded; there is nothing to compare.
    NothingSucceeded(String),
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialError::Plan(error) => error.fmt(f),
            TrialError::Load(error) => write!(f, "[load]: {error}"),
            TrialError::Engine(error) => error.fmt(f),
            TrialError::Agents(why) => write!(f, "the load of agents: {why}"),
            TrialError::Host(error) => error.fmt(f),
            TrialError::Service { service, why } => match why {
                NotReady::Ended { status, log } => {
                    write!(
                        f,
                        "service \"{service}\" ended before it was ready ({status})"
                    )?;
                    write_log(f, service, log)
                }
                NotReady::Silent { within, last, log } => {
                    write!(
                        f,
                        "service \"{service}\" was not ready within {within:?} ({last})"
                    )?;
                    write_log(f, service, log)
                }
                NotReady::Interrupted => f.write_str("interrupted"),
            },
            TrialError::Target { service, why, log } => {
                write!(f, "service \"{service}\" does not respond: {why}")?;
                match log {
                    Some(log) => write_log(f, service, log),
                    None => f.write_str(" (prony did not start this server)"),
                }
            }
            TrialError::File(text) => f.write_str(text),
            TrialError::NothingSucceeded(text) => {
                write!(
                    f,
                    "no request of any variant succeeded, so that nothing can be compared"
                )?;
                if text.is_empty() {
                    Ok(())
                } else {
                    write!(f, ": {text}")
                }
            }
        }
    }
}

fn write_log(f: &mut fmt::Formatter<'_>, service: &str, log: &str) -> fmt::Result {
    if log.trim().is_empty() {
        return write!(f, "; its log is empty");
    }
    write!(f, "; the end of its log:")?;
    for line in log.lines() {
        write!(f, "\n  {service} | {line}")?;
    }
    Ok(())
}

impl std::error::Error for TrialError {}

/// The trial, or the pre-check, that ended an experiment.
#[derive(Debug)]
pub struct FailedTrial {
    /// The variant, with its factors; none where the failure is about all of them.
    pub variant: Option<String>,
    /// Why.
    pub error: Box<TrialError>,
}

impl fmt::Display for FailedTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variant {
            Some(variant) => write!(f, "variant {variant}: {}", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for FailedTrial {}

impl From<HostError> for TrialError {
    fn from(error: HostError) -> Self {
        TrialError::Host(error)
    }
}

/// A variant whose services run and respond.
struct Running {
    resolved: Resolved,
    door: Option<Door>,
    spec: LoadSpec,
    responses: ResponseDigests,
}

/// What a trial needs while it runs.
pub(crate) struct Trial<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) host: &'a mut dyn Host,
    pub(crate) load: Option<&'a mut dyn LoadMaker>,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) stored: &'a mut Stored,
    pub(crate) on: &'a mut dyn FnMut(Event<'_>),
}

impl Trial<'_> {
    /// Makes the trial and takes everything down again, whatever came of it; `None` if interrupted.
    pub(crate) fn run(&mut self, place: Place) -> Result<Option<TrialResult>, TrialError> {
        let made = self.make(place);
        self.take_down(made).map(Option::flatten)
    }

    /// Takes everything down, whatever came of the trial; `None` after an interrupt.
    fn take_down<T>(&mut self, result: Result<T, TrialError>) -> Result<Option<T>, TrialError> {
        let released = self.host.release();
        let result = match result {
            Err(TrialError::Service {
                why: NotReady::Interrupted,
                ..
            }) => None,
            result => Some(result?),
        };
        released?;
        Ok(result.filter(|_| !self.interrupt.is_stopped()))
    }

    /// Starts the variant's services, sends a few requests, and stops everything: a variant that can't
    /// run is found before anything is measured. None after an interrupt.
    pub(crate) fn check(&mut self, variant: usize) -> Result<Option<ResponseDigests>, TrialError> {
        let checked = self.start_and_stop(variant);
        self.take_down(checked)
    }

    fn start_and_stop(&mut self, variant: usize) -> Result<ResponseDigests, TrialError> {
        let dir = self.trial_dir(PRECHECK_BLOCK, variant)?;
        let running = self.up(PRECHECK_BLOCK, variant, &dir, PRECHECK_REQUESTS_MAX)?;
        self.stop(&running.resolved)?;
        // The log of a variant that runs is of no use to anyone.
        fs::remove_dir_all(&dir)
            .map_err(|error| TrialError::File(format!("{}: {error}", dir.display())))?;
        // Requests that change the server's state were not sent; the rest says nothing about them.
        let is_whole = running.spec.safe_requests().len() == running.spec.distinct_requests();
        Ok(match is_whole {
            true => running.responses,
            false => ResponseDigests::default(),
        })
    }

    fn trial_dir(&self, block: u32, variant: usize) -> Result<PathBuf, TrialError> {
        let id = &self.plan.variants[variant].id;
        let dir = self.stored.trial_dir(block, id);
        dir.map_err(|error| TrialError::File(error.to_string()))
    }

    /// Starts the variant's services, waits for them, and checks their responses.
    fn up(
        &mut self,
        block: u32,
        variant: usize,
        dir: &Path,
        requests_max: usize,
    ) -> Result<Running, TrialError> {
        let wanted = self.plan.allocations(variant).map_err(TrialError::Plan)?;
        let topology = self.plan.topology(variant).map_err(TrialError::Plan)?;
        let allocated = self.host.allocate(&wanted, &topology)?;
        let resolved = self
            .plan
            .resolve(variant, &allocated)
            .map_err(TrialError::Plan)?;
        keep_files(&resolved, dir)?;
        self.host.watch(resolved.telemetry.watch(&resolved));
        self.start(&resolved, &allocated, dir)?;
        // Only the load and its requests enter the load's place.
        let door = self.host.door(resolved.load.place)?;
        let spec = self.load_spec(&resolved.load, block, door.as_ref())?;
        let interrupt = self.interrupt;
        if !self.wait_for_target(&resolved, &spec, door.as_ref())? {
            return Err(TrialError::Service {
                service: resolved.load.service.clone(),
                why: NotReady::Interrupted,
            });
        }
        let checked = within(door.as_ref(), || {
            responses::collect(&spec, requests_max, interrupt)
        })?;
        let responses = checked.map_err(|why| {
            let service = resolved.load.service.clone();
            let log = self.own_log(&resolved);
            TrialError::Target { service, why, log }
        })?;
        Ok(Running {
            resolved,
            door,
            spec,
            responses,
        })
    }

    fn make(&mut self, place: Place) -> Result<Option<TrialResult>, TrialError> {
        let dir = self.trial_dir(place.block, place.variant)?;
        let Running {
            resolved,
            door,
            spec,
            responses,
        } = self.up(place.block, place.variant, &dir, CHECKED_REQUESTS_MAX)?;
        let door = door.as_ref();
        if place.block == 1 {
            let environment = self.host.environment();
            self.stored
                .note_environment(&self.plan.variants[place.variant].id, environment)
                .map_err(|error| TrialError::File(error.to_string()))?;
        }
        if self.interrupt.is_stopped() {
            return Ok(None);
        }
        let (record, samples) = self.load(&spec, &resolved.load, place.block, door)?;
        let mut findings = self.ended(&resolved);
        findings.extend(self.host.unwatched());
        findings.extend(self.examine(&resolved, place));
        findings.extend(self.stop(&resolved)?);
        findings.extend(limit_lines::finding(logs(&resolved, &dir)));
        let mut summary = telemetry::summary(&samples);
        findings.extend(watched::unseen(&resolved, summary.as_mut()));
        write_telemetry(&samples, &dir)?;
        let mut values = values::values(&record, summary.as_ref(), &resolved.load.service);
        if let Some(summary) = &summary {
            values.extend(values::upstream(&record, summary, &resolved));
        }
        let crossing = summary
            .as_ref()
            .and_then(|summary| links::crossing(summary, &resolved));
        values.extend(
            crossing
                .map(|link| link.values(&record))
                .unwrap_or_default(),
        );
        Ok(Some(TrialResult {
            block: place.block,
            variant: place.variant,
            position: place.position,
            values,
            telemetry: watched::of(summary.as_ref(), &resolved),
            capacity: summary
                .as_ref()
                .map(|summary| why::capacity(summary, &resolved))
                .unwrap_or_default(),
            responses,
            hosts: summary.as_ref().map(watched::hosts).unwrap_or_default(),
            findings,
            record: Some(record),
        }))
    }

    /// Waits for the target to accept connections, where the load asks for that. Returns false if it was
    /// interrupted.
    fn wait_for_target(
        &mut self,
        resolved: &Resolved,
        spec: &LoadSpec,
        door: Option<&Door>,
    ) -> Result<bool, TrialError> {
        let Some(limit) = resolved.load.flags.wait_for_server else {
            return Ok(true);
        };
        let (service, interrupt) = (&resolved.load.service, self.interrupt);
        (self.on)(Event::Starting { service });
        let is_stopped = || interrupt.is_stopped();
        match within(door, || wait_for_server(spec, limit, &is_stopped, &|_| {}))? {
            Ok(()) => Ok(true),
            Err(WaitError::Stopped) => Ok(false),
            Err(timed_out) => {
                let log = self.own_log(resolved);
                let (service, why) = (service.clone(), timed_out.to_string());
                Err(TrialError::Target { service, why, log })
            }
        }
    }

    /// The end of the target's log; none where prony did not start it.
    fn own_log(&mut self, resolved: &Resolved) -> Option<String> {
        let target = &resolved.load.service;
        let mut own = resolved.services.iter().filter(|it| it.remote.is_none());
        let is_own = own.any(|own| own.spec.name == *target);
        is_own.then(|| self.host.log_tail(target, TARGET_LOG_LINES))
    }

    /// What is to be said of the target's cryptography, once for each variant: it stays what it is,
    /// and measuring it takes seconds.
    fn examine(&mut self, resolved: &Resolved, place: Place) -> Option<Finding> {
        if place.block > 1 || resolved.load.scheme != Scheme::Https {
            return None;
        }
        let mut services = resolved.services.iter();
        let target = services.find(|service| service.spec.name == resolved.load.service)?;
        match target.remote {
            Some(_) => None,
            None => self.host.examine_crypto(&target.spec),
        }
    }

    /// Services that did not outlive their load.
    fn ended(&mut self, resolved: &Resolved) -> Vec<Finding> {
        let own = resolved
            .services
            .iter()
            .filter(|service| service.remote.is_none());
        let dead = own.filter_map(|service| {
            let name = &service.spec.name;
            let exited = self.host.alive(name).err()?;
            let last = exited.log_tail.lines().last().unwrap_or("empty").to_owned();
            let text = format!(
                "Service \"{name}\" ended while it was loaded ({}); the last line of its log: \
                 {last}. The figures do not show its speed. Fix that first.",
                exited.status
            );
            Some(Finding::new(FindingId::ServiceEnded, Severity::Error, text))
        });
        dead.collect()
    }

    /// Stops the services in reverse, and notes those that had to be killed.
    fn stop(&mut self, resolved: &Resolved) -> Result<Vec<Finding>, TrialError> {
        let mut findings = Vec::new();
        for service in resolved.services.iter().rev() {
            if service.remote.is_some() {
                continue;
            }
            let name = &service.spec.name;
            let stopped = self.host.stop(name)?;
            if stopped.killed {
                let text = format!(
                    "Service \"{name}\" ignored its stop signal for {:.0} s and was killed. Set the \
                     signal that ends it, for example stop = \"SIGQUIT\".",
                    stopped.took.as_secs_f64()
                );
                findings.push(Finding::new(FindingId::ServiceKilled, Severity::Note, text));
            }
            if stopped.log_bytes_cut > 0 {
                let text = format!(
                    "Service \"{name}\" logged so much that {} bytes were cut from the middle of \
                     its log. Writing the log takes CPU of the service. Unless that is what you \
                     compare, log less (access_log off).",
                    stopped.log_bytes_cut
                );
                findings.push(Finding::new(FindingId::ServiceLogCut, Severity::Note, text));
            }
        }
        Ok(findings)
    }

    fn start(
        &mut self,
        resolved: &Resolved,
        allocated: &BTreeMap<String, Allocated>,
        dir: &Path,
    ) -> Result<(), TrialError> {
        for service in resolved
            .services
            .iter()
            .filter(|service| service.remote.is_none())
        {
            let name = &service.spec.name;
            (self.on)(Event::Starting { service: name });
            self.host.start(&service.spec, dir)?;
            let place = allocated.get(name);
            ready::wait(name, &service.ready, place, self.host, self.interrupt).map_err(|why| {
                TrialError::Service {
                    service: name.clone(),
                    why,
                }
            })?;
        }
        Ok(())
    }

    /// The load of this trial. All variants of a block share a seed, so that random arrivals and
    /// orders fall on all of them alike.
    fn load_spec(
        &self,
        load: &ResolvedLoad,
        block: u32,
        door: Option<&Door>,
    ) -> Result<LoadSpec, TrialError> {
        let mut flags = load.flags.clone();
        flags.seed = self.seed_of_block(load, block).unwrap_or(flags.seed);
        if load.agents.is_some() {
            // What an agent has of addresses and cores is its own affair.
            flags.source.clear();
            (flags.source_order, flags.cores) = (None, None);
        }
        // Which addresses and ports there are is the place's affair.
        within(door, || LoadSpec::resolve(Some(&load.url), &flags))?.map_err(TrialError::Load)
    }

    /// The seed of a block's loads, where the plan has none.
    fn seed_of_block(&self, load: &ResolvedLoad, block: u32) -> Option<u64> {
        let has_own = load.options.iter().any(|option| option.name == "seed");
        (!has_own).then(|| self.stored.seed().wrapping_add(u64::from(block)))
    }

    /// Loads, and tells so whoever watches.
    fn load(
        &mut self,
        spec: &LoadSpec,
        load: &ResolvedLoad,
        block: u32,
        door: Option<&Door>,
    ) -> Result<(Record, Vec<TelemetrySample>), TrialError> {
        // Who is asked for it gets it as it would be typed.
        let mut words = load.words();
        let seed = self.seed_of_block(load, block);
        words.extend(seed.map(|seed| format!("--seed={seed}")));
        let control = Arc::new(Control::new(spec.info().threads));
        let latest = Arc::new(LatestSample::default());
        (self.on)(Event::Loading {
            planned: spec.planned().map_or(Duration::ZERO, Duration::from),
            info: spec.info(),
            control: &control,
            agents: load.agents.as_deref(),
            latest: &latest,
        });
        let measured = self.measure(spec, (load, &words), door, (control, &latest));
        (self.on)(Event::Loaded);
        measured
    }

    /// Loads, and watches the measured part meanwhile.
    fn measure(
        &mut self,
        spec: &LoadSpec,
        (load, words): (&ResolvedLoad, &[String]),
        door: Option<&Door>,
        (control, latest): (Arc<Control>, &LatestSample),
    ) -> Result<(Record, Vec<TelemetrySample>), TrialError> {
        self.interrupt.watch(Some(control.clone()));
        let warmup = Duration::from_secs_f64(spec.info().warmup_s);
        let measured = spec
            .info()
            .duration_s
            .map_or(SAMPLE_EVERY, Duration::from_secs_f64);
        let interval = SAMPLE_EVERY.min(measured / LEAST_SAMPLES);
        let avoid = load
            .flags
            .cores
            .clone()
            .map(|cores| cores.0)
            .unwrap_or_default();
        let (done, from) = (OnceLock::new(), Mutex::new(None));
        let host = &mut *self.host;
        let maker = &mut self.load;
        let of_watcher = control.clone();
        let (record, samples) = std::thread::scope(|scope| {
            let (done, from) = (&done, &from);
            let begin =
                |moment| *from.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
            let watcher = scope.spawn(move || {
                if !sleep_until(from, done) {
                    return Vec::new();
                }
                // There is no verdict of this trial any more.
                let lost = || of_watcher.stop();
                telemetry::collect(host, interval, done, &avoid, latest, &lost)
            });
            let record = match &load.agents {
                None => {
                    begin(Instant::now() + warmup);
                    within(door, || run_load(spec, &control))
                        .and_then(|record| record.map_err(TrialError::Engine))
                }
                Some(agents) => {
                    let asked = AskedLoad {
                        agents,
                        url: &load.url,
                        words,
                        spec,
                        control: &control,
                        measured_from: &begin,
                    };
                    ask_for(maker, &asked)
                }
            };
            // Nobody else sets it.
            let _ = done.set(Instant::now());
            (record, watcher.join().unwrap_or_default())
        });
        self.interrupt.watch(None);
        Ok((record?, samples))
    }
}

/// Has the load made by other machines.
fn ask_for(
    maker: &mut Option<&mut dyn LoadMaker>,
    asked: &AskedLoad<'_>,
) -> Result<Record, TrialError> {
    match maker {
        Some(maker) => maker.make(asked).map_err(TrialError::Agents),
        None => {
            let why = format!("{} can't be asked without a NATS server", asked.agents);
            Err(TrialError::Agents(why))
        }
    }
}

/// Does a part of the load's work where the load lives.
fn within<T: Send>(door: Option<&Door>, work: impl FnOnce() -> T + Send) -> Result<T, TrialError> {
    match door {
        Some(door) => door
            .within(work)
            .map_err(|error| TrialError::File(format!("entering the load's place: {error}"))),
        None => Ok(work()),
    }
}

/// Sleeps until the moment is known and has come; false if `done` came first.
fn sleep_until(moment: &Mutex<Option<Instant>>, done: &OnceLock<Instant>) -> bool {
    const STEP: Duration = Duration::from_millis(20);
    while done.get().is_none() {
        let known = *moment.lock().unwrap_or_else(PoisonError::into_inner);
        let left = known.map(|moment| moment.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => return true,
            left => std::thread::sleep(left.unwrap_or(STEP).min(STEP)),
        }
    }
    false
}

/// The logs of a trial's services, as far as there are any.
fn logs<'a>(resolved: &'a Resolved, dir: &Path) -> impl Iterator<Item = (&'a str, String)> {
    let own = resolved.services.iter().filter(|it| it.remote.is_none());
    own.filter_map(|service| {
        let name = service.spec.name.as_str();
        let bytes = fs::read(dir.join(format!("{name}.log"))).ok()?;
        Some((name, String::from_utf8_lossy(&bytes).into_owned()))
    })
}

/// Keeps what the services were started with beside the record.
fn keep_files(resolved: &Resolved, dir: &Path) -> Result<(), TrialError> {
    for service in &resolved.services {
        for (name, contents) in &service.spec.files {
            if contents.len() > LARGEST_KEPT {
                continue;
            }
            let path = dir.join(&service.spec.name).join(name);
            let written = path
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&path, contents));
            written.map_err(|error| TrialError::File(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}

fn write_telemetry(samples: &[TelemetrySample], dir: &Path) -> Result<(), TrialError> {
    let path = dir.join("telemetry.csv");
    fs::File::create(&path)
        .and_then(|mut file| telemetry::write_csv(samples, &mut file))
        .map_err(|error| TrialError::File(format!("{}: {error}", path.display())))
}
