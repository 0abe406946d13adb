//! One trial: services up, checked, loaded, watched, down.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{Control, LoadSpec, RunError, SpecError, run as run_load};
use prony_record::{Finding, Record, Severity};
use prony_stats::Values;
use serde::{Deserialize, Serialize};

use super::answers::{self, Answers};
use super::folder::Stored;
use super::ready::{self, NotReady};
use super::{AskedLoad, Event, Interrupt, LoadMaker, links, values, watched};
use crate::host::{Host, HostError};
use crate::place::Door;
use crate::plan::{Plan, PlanError, Resolved, ResolvedLoad, Scheme};
use crate::service::Allocated;
use crate::telemetry::{self, Latest, Sample};
use crate::why::{self, Capacity};

/// Samples that a trial gets at least, whatever its length.
const LEAST_SAMPLES: u32 = 4;
/// The longest time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Rendered files larger than this are not kept beside the record.
const LARGEST_KEPT: usize = 256 * 1024;

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
    /// What the variant answered before the load.
    pub answers: Answers,
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
        all.any(|finding| finding.id == "agent-lost")
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
    /// The target is up, but does not answer.
    Target {
        /// The service that is loaded.
        service: String,
        /// Which request got which failure.
        why: String,
        /// The end of the target's log.
        log: String,
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
                write!(f, "the target does not answer: {why}")?;
                write_log(f, service, log)
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

impl From<HostError> for TrialError {
    fn from(error: HostError) -> Self {
        TrialError::Host(error)
    }
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
        let result = self.make(place);
        let released = self.host.release();
        let result = match result {
            Err(TrialError::Service {
                why: NotReady::Interrupted,
                ..
            }) => Ok(None),
            result if self.interrupt.is_stopped() => result.map(|_| None),
            result => result,
        }?;
        released?;
        Ok(result)
    }

    fn make(&mut self, place: Place) -> Result<Option<TrialResult>, TrialError> {
        let dir = self
            .stored
            .trial_dir(place.block, &self.plan.variants[place.variant].id)
            .map_err(|error| TrialError::File(error.to_string()))?;
        let wanted = self
            .plan
            .allocations(place.variant)
            .map_err(TrialError::Plan)?;
        let topology = self
            .plan
            .topology(place.variant)
            .map_err(TrialError::Plan)?;
        let allocated = self.host.allocate(&wanted, &topology)?;
        let resolved = self
            .plan
            .resolve(place.variant, &allocated)
            .map_err(TrialError::Plan)?;
        keep_files(&resolved, &dir)?;
        self.host.watch(self.plan.telemetry.watch(&resolved));
        self.start(&resolved, &allocated, &dir)?;
        // What the load does, it does where it lives; all else stays outside.
        let door = self.host.door(resolved.load.place)?;
        let door = door.as_ref();
        let spec = self.load_spec(&resolved.load, place.block, door)?;
        let interrupt = self.interrupt;
        let answers = within(door, || answers::collect(&spec, interrupt))?.map_err(|why| {
            let service = resolved.load.service.clone();
            let log = self.host.log_tail(&service, 15);
            TrialError::Target { service, why, log }
        })?;
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
            answers,
            hosts: summary.as_ref().map(watched::hosts).unwrap_or_default(),
            findings,
            record: Some(record),
        }))
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
                 {last}. What was measured is not its speed; mend that first.",
                exited.status
            );
            Some(Finding::new("service-ended", Severity::Error, text))
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
                    "Service \"{name}\" ignored its stop signal for {:.0} s and was killed. If it \
                     ends at another one, name that: stop = \"SIGQUIT\".",
                    stopped.took.as_secs_f64()
                );
                findings.push(Finding::new("service-killed", Severity::Note, text));
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
    ) -> Result<(Record, Vec<Sample>), TrialError> {
        // Who is asked for it gets it as it would be typed.
        let mut words = load.words();
        let seed = self.seed_of_block(load, block);
        words.extend(seed.map(|seed| format!("--seed={seed}")));
        let control = Arc::new(Control::new(spec.info().threads));
        let latest = Arc::new(Latest::default());
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
        (control, latest): (Arc<Control>, &Latest),
    ) -> Result<(Record, Vec<Sample>), TrialError> {
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

fn write_telemetry(samples: &[Sample], dir: &Path) -> Result<(), TrialError> {
    let path = dir.join("telemetry.csv");
    fs::File::create(&path)
        .and_then(|mut file| telemetry::write_csv(samples, &mut file))
        .map_err(|error| TrialError::File(format!("{}: {error}", path.display())))
}
