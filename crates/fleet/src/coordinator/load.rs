//! Runs a load on agents: preparation, simultaneous start, and collection of the results.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use prony_load::{LoadSettings, typed_info};
use prony_record::LoadInfo;
use prony_record::finding::UncheckedReason;

use super::choice::AgentChoice;
use super::clock_recheck::ClockRecheck;
use super::collector::ResultCollector;
use super::error::FleetError;
use super::events::{FleetEvent, LoadObserver};
use super::files::{self, Files};
use super::fleet::Fleet;
use super::followed_run::FollowedRun;
use super::leadership::{Leadership, LeadershipGuard};
use super::lease::{AgentContact, Lease, LeaseGuard, LeaseTimeouts, RenewalOutcome};
use super::request::{FinishedRun, LoadRequest};
use super::stop::StopRequest;
use super::{orders, record, sources};
use crate::division::{AgentShard, divide};
use crate::names::{AgentName, RunId};
use crate::wire::claims;
use crate::wire::file_chunks;
use crate::wire::{
    Command, LoadOrder, PRONY_VERSION, PartAssignment, RUN_SCHEMA, ReadyReport, Registration,
    Reply, RunManifest,
};

/// Maximum time to wait for busy agents to register as free after an earlier load.
const BUSY_GRACE: Duration = Duration::from_secs(2);
/// Pause between checks of busy agents.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Interval for listing agents while waiting for them.
const WAIT_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout for an agent to prepare its load.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for an agent to store a chunk of a file.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout for agents to confirm that a load was canceled.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum time between the order to start and the start itself.
const START_LEAD: Duration = Duration::from_millis(500);
/// Time by which each agent increases the minimum time between the order to start and the start.
const START_LEAD_PER_AGENT: Duration = Duration::from_millis(2);
/// Maximum delay of an order to start. An agent that receives the order after the start time, but
/// within this delay, starts late. The record reports late starts.
const START_LATE_MAX: Duration = Duration::from_secs(3);

/// A load that was divided among agents.
struct DividedLoad {
    info: LoadInfo,
    seed: u64,
    parts: BTreeMap<AgentName, (PartAssignment, LoadOrder)>,
    files: Files,
    notes: Vec<String>,
}

impl Fleet {
    /// Runs a load on agents and returns its record.
    ///
    /// # Errors
    ///
    /// Returns the reason why nothing was measured; see [`FleetError`].
    pub fn load(
        &self,
        wanted: &LoadRequest,
        observer: LoadObserver<'_>,
    ) -> Result<FinishedRun, FleetError> {
        self.load_from(wanted, observer, &|_| {})
    }

    /// Like [`Fleet::load`], but also calls `measured_from` with the start of the measured part, as
    /// soon as it is known.
    ///
    /// # Errors
    ///
    /// See [`Fleet::load`].
    pub fn load_from(
        &self,
        wanted: &LoadRequest,
        observer: LoadObserver<'_>,
        measured_from: &dyn Fn(Instant),
    ) -> Result<FinishedRun, FleetError> {
        let until = Instant::now() + self.wait;
        loop {
            let agents = self.free(&wanted.choice, until, observer)?;
            match self.load_by(&agents, wanted, observer, measured_from) {
                // Another coordinator has reserved the agent in the meantime, so this one waits.
                Err(FleetError::Busy { .. }) if Instant::now() < until => {
                    thread::sleep(RETRY_INTERVAL)
                }
                made => return made,
            }
        }
    }

    fn load_by(
        &self,
        agents: &[Registration],
        wanted: &LoadRequest,
        observer: LoadObserver<'_>,
        measured_from: &dyn Fn(Instant),
    ) -> Result<FinishedRun, FleetError> {
        let agents: Vec<&Registration> = agents.iter().collect();
        let divided = divide_load(wanted, &agents, self.timeouts)?;
        for note in &divided.notes {
            (observer.on_event)(FleetEvent::Step(note));
        }
        let mut manifest = self.manifest(wanted, &divided);
        self.store(&manifest)?;
        announce(&manifest, observer);
        let lease = Lease::new(&manifest.run, self.timeouts, manifest.parts.keys());
        let leadership = Leadership::of_starter(&manifest.run, self.timeouts);
        thread::scope(|scope| {
            let _keeping = LeaseGuard(&lease);
            let _leading = LeadershipGuard(&leadership);
            scope.spawn(|| lease.keep(&self.link));
            scope.spawn(|| leadership.keep(&self.link));
            let replay = self.link.replay(&manifest.run.results_subject())?;
            let prepared = self
                .prepare(&mut manifest, &divided, &lease, observer)
                .and_then(|()| self.start(&mut manifest, observer));
            let began = match prepared {
                Ok(began) => began,
                Err(error) => {
                    // The lease must not be renewed anymore when the order to stop is sent.
                    lease.end();
                    self.cancel(&manifest, observer.stop);
                    return Err(error);
                }
            };
            lease.confirm();
            measured_from(began + Duration::from_secs_f64(manifest.load.warmup_s));
            let planned = planned(&manifest.load);
            if let Some(feed) = observer.feed {
                feed.begin(&manifest.load, began, planned);
            }
            let mut collector = ResultCollector::new(&manifest).with_feed(observer.feed);
            let following = FollowedRun {
                link: &self.link,
                manifest: &manifest,
                lease: &lease,
                timeouts: self.timeouts,
                observer,
                until: planned.map(|planned| began + planned),
                began,
                is_only_watched: &|| false,
            };
            collector.follow(&following, replay);
            lease.end();
            Ok(self.finish(&manifest, &collector, observer.stop))
        })
    }

    /// Creates the manifest of a run that has not started yet.
    fn manifest(&self, wanted: &LoadRequest, divided: &DividedLoad) -> RunManifest {
        let now = SystemTime::now();
        RunManifest {
            schema: RUN_SCHEMA.to_owned(),
            version: PRONY_VERSION.to_owned(),
            run: RunId::new(now),
            made_at: humantime::format_rfc3339_seconds(now).to_string(),
            // The server keeps the manifest for a week, so it contains no credentials. Those are
            // only in the orders, which are not stored.
            url: wanted.url.as_ref().map(|_| divided.info.url.clone()),
            load: divided.info.clone(),
            seed: divided.seed,
            clock_bound_ns: u64::try_from(wanted.clock_bound.as_nanos()).unwrap_or(u64::MAX),
            parts: divided
                .parts
                .iter()
                .map(|(name, (part, _))| (name.clone(), part.clone()))
                .collect(),
            start: None,
            clock: Some(self.clock.identity()),
            stopped: false,
            aborted: None,
            lease_ms: Some(self.timeouts.lease_ms()),
        }
    }

    /// Picks free agents, in the order of their names unless the selector lists names. If
    /// necessary, waits for them, up to the time set by [`Fleet::with_wait`].
    ///
    /// # Errors
    ///
    /// Returns the reason why agents are not available; see [`FleetError`].
    pub fn pick(
        &self,
        choice: &AgentChoice,
        observer: LoadObserver<'_>,
    ) -> Result<Vec<AgentName>, FleetError> {
        let agents = self.free(choice, Instant::now() + self.wait, observer)?;
        Ok(agents.into_iter().map(|agent| agent.name).collect())
    }

    /// Waits for free agents. Agents whose load has just ended register as free shortly afterwards.
    fn free(
        &self,
        choice: &AgentChoice,
        until: Instant,
        observer: LoadObserver<'_>,
    ) -> Result<Vec<Registration>, FleetError> {
        let began = Instant::now();
        let mut printed = String::new();
        loop {
            let mut listed = self.agents()?;
            for one in &mut listed {
                one.forget_run(self.experiment.as_ref());
            }
            let error = match choice.free(&listed) {
                Ok(agents) => return Ok(agents.into_iter().cloned().collect()),
                Err(error) => error,
            };
            let is_any_busy = listed.iter().any(|one| one.agent.busy_with.is_some());
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && (!is_any_busy || began.elapsed() > BUSY_GRACE) {
                return Err(error.into());
            }
            if observer.stop.is_wanted() {
                return Err(FleetError::Canceled);
            }
            let text = error.to_string();
            if !left.is_zero() && text != printed {
                let left = left.as_secs_f64();
                let step = format!("waiting for up to {left:.0} s: {text}");
                (observer.on_event)(FleetEvent::Step(&step));
                printed = text;
            }
            thread::sleep(if left.is_zero() {
                RETRY_INTERVAL
            } else {
                WAIT_INTERVAL
            });
        }
    }

    /// Sends the files, and prepares all agents.
    fn prepare(
        &self,
        manifest: &mut RunManifest,
        divided: &DividedLoad,
        lease: &Lease,
        observer: LoadObserver<'_>,
    ) -> Result<(), FleetError> {
        let is_called_off = || observer.stop.is_wanted();
        let agents: Vec<AgentName> = manifest.parts.keys().cloned().collect();
        for (name, bytes) in &divided.files {
            for chunk in file_chunks(name, bytes) {
                let orders = agents
                    .iter()
                    .map(|agent| (agent, Command::Put(chunk.clone())));
                let orders = orders.collect();
                let of = (&manifest.run, self.experiment.as_ref());
                let replies =
                    orders::send_for(&self.link, of, orders, CHUNK_TIMEOUT, &|_| is_called_off());
                if is_called_off() {
                    return Err(FleetError::Canceled);
                }
                all_done(&agents, replies)?;
            }
        }
        let orders = divided.parts.iter();
        let orders = orders.map(|(name, (_, load))| (name, Command::Prepare(load.clone())));
        // An agent that was killed never replies, but the failing renewals of its lease reveal
        // this.
        let is_given_up = |number: usize| {
            let seen = agents.get(number).and_then(|name| lease.contact(name));
            let is_gone = |seen: AgentContact| {
                let within = match seen.outcome {
                    RenewalOutcome::NoSubscriber => self.timeouts.vanishing(),
                    // A preparing agent may temporarily be too busy to reply.
                    RenewalOutcome::NoReply => self.timeouts.overtime(),
                    RenewalOutcome::Renewed | RenewalOutcome::Unknown => return false,
                };
                seen.since.elapsed() > within
            };
            seen.is_some_and(is_gone) || is_called_off()
        };
        let replies = orders::send_for(
            &self.link,
            (&manifest.run, self.experiment.as_ref()),
            orders.collect(),
            PREPARE_TIMEOUT,
            &is_given_up,
        );
        if is_called_off() {
            return Err(FleetError::Canceled);
        }
        let mut ready = Vec::new();
        let mut failed = None;
        for (agent, reply) in agents.iter().zip(replies) {
            match reply {
                Ok(Reply::Ready(it)) => {
                    let forecast = claims::findings(it.forecast);
                    ready.push((agent, ReadyReport { forecast, ..it }));
                }
                // A rejection is reported in preference to an earlier missing reply, because it
                // explains more.
                Ok(other) => {
                    failed = Some(FleetError::of_reply(agent, other));
                    break;
                }
                Err(error) => {
                    failed.get_or_insert(FleetError::of_silence(agent, error));
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        report_forecasts(&ready, observer);
        manifest.load = load_with_backend(&manifest.load, &ready);
        Ok(())
    }

    /// Compares the clocks and orders the agents to start. Returns the start time.
    fn start(
        &self,
        manifest: &mut RunManifest,
        observer: LoadObserver<'_>,
    ) -> Result<Instant, FleetError> {
        let agents: Vec<AgentName> = manifest.parts.keys().cloned().collect();
        let named: Vec<&AgentName> = agents.iter().collect();
        let offsets = orders::clocks(&self.link, &self.clock, &named);
        for (agent, offset) in agents.iter().zip(offsets) {
            let offset = offset?;
            if offset.bound_ns > manifest.clock_bound_ns {
                return Err(FleetError::ClockBound {
                    agent: agent.clone(),
                    bound_ns: offset.bound_ns,
                    allowed_ns: manifest.clock_bound_ns,
                });
            }
            if let Some(part) = manifest.parts.get_mut(agent) {
                part.clock = Some(offset);
            }
        }
        if observer.stop.is_wanted() {
            return Err(FleetError::Canceled);
        }
        let mut lead = START_LEAD + START_LEAD_PER_AGENT * agents.len() as u32;
        // The manifest informs other coordinators about the start. Storing it must not use up the
        // time before the start.
        let mut start;
        loop {
            let lead_ns = i64::try_from(lead.as_nanos()).unwrap_or(i64::MAX);
            start = self.clock.now().saturating_add(lead_ns);
            manifest.start = Some(start);
            self.store(manifest)?;
            if start.saturating_sub(self.clock.now()) > lead_ns / 2 {
                break;
            }
            if observer.stop.is_wanted() {
                return Err(FleetError::Canceled);
            }
            lead *= 2;
        }
        let orders = manifest.parts.iter().map(|(agent, part)| {
            let at = part.clock.map_or(start, |clock| clock.to_remote(start));
            (agent, Command::Start { at })
        });
        let replies = orders::send(
            &self.link,
            &manifest.run,
            orders.collect(),
            lead + START_LATE_MAX,
            &|_| observer.stop.is_wanted_at_once(),
        );
        if observer.stop.is_wanted_at_once() {
            return Err(FleetError::Canceled);
        }
        all_done(&agents, replies)?;
        (observer.on_event)(FleetEvent::Step(&format!(
            "started; clock errors are at most {:.3} ms",
            worst_bound(manifest) as f64 / 1e6
        )));
        Ok(self.clock.moment(start))
    }

    /// Cancels the run. Agents that don't receive the order stop when their lease expires.
    fn cancel(&self, manifest: &RunManifest, stop: &StopRequest) {
        for command in [Command::Stop, Command::Forget] {
            let orders = manifest.parts.keys().map(|name| (name, command.clone()));
            let _ = orders::send(
                &self.link,
                &manifest.run,
                orders.collect(),
                STOP_TIMEOUT,
                &|_| stop.is_wanted_at_once(),
            );
        }
    }

    /// Builds the record, and orders agents to delete their copies of complete results. Doesn't
    /// wait for agents after a request to stop immediately.
    pub(super) fn finish(
        &self,
        manifest: &RunManifest,
        collector: &ResultCollector,
        stop: &StopRequest,
    ) -> FinishedRun {
        let names = collector.parts.keys();
        let whole: Vec<&AgentName> = names.filter(|name| collector.agrees(name)).collect();
        let is_hurried = stop.is_wanted_at_once();
        // Another coordinator may have stopped the run after this one read the manifest.
        let is_read_again = !collector.is_stopped && !is_hurried;
        let stored = is_read_again.then(|| self.run(Some(&manifest.run)).ok());
        let stored = stored.flatten();
        let stored = stored.as_ref().unwrap_or(manifest);
        let manifest = &RunManifest {
            stopped: collector.is_stopped || stored.stopped,
            aborted: stop.aborted().or(stored.aborted.as_ref()).cloned(),
            ..manifest.clone()
        };
        let after = if is_hurried {
            ClockRecheck::stored(manifest, collector, UncheckedReason::Hurried)
        } else {
            self.clocks_after(manifest, collector)
        };
        self.keep_clocks(manifest, &after);
        // An agent that doesn't receive the order keeps its result file until the file is too old.
        let orders = whole
            .into_iter()
            .map(|name| (name, Command::Forget))
            .collect();
        let _ = orders::send(&self.link, &manifest.run, orders, STOP_TIMEOUT, &|_| {
            stop.is_wanted_at_once()
        });
        FinishedRun {
            run: manifest.run.clone(),
            record: record::build(manifest, collector, &after),
        }
    }
}

/// Announces the run and its agents to the observer.
fn announce(manifest: &RunManifest, observer: LoadObserver<'_>) {
    if let Some(feed) = observer.feed {
        feed.prepare(manifest);
    }
    (observer.on_event)(FleetEvent::Step(&format!(
        "run {}: {}",
        manifest.run,
        agent_names(manifest.parts.keys())
    )));
}

/// Resolves the options, and divides the load among agents.
fn divide_load(
    wanted: &LoadRequest,
    agents: &[&Registration],
    timeouts: LeaseTimeouts,
) -> Result<DividedLoad, FleetError> {
    let text = typed_info(wanted.url.as_deref(), &wanted.settings);
    let text = text.map_err(|error| FleetError::Wrong(error.to_string()))?;
    let mut settings = wanted.settings.clone();
    let files = files::gather(&mut settings).map_err(FleetError::File)?;
    let given = sources::divide(&settings.source, agents).map_err(FleetError::Sources)?;
    let threads = settings.threads.take();
    let threads = agents.iter().map(|agent| match threads {
        Some(threads) => u32::try_from(threads).unwrap_or(u32::MAX),
        None => agent.cores,
    });
    let connections = u32::try_from(settings.connections()).unwrap_or(u32::MAX);
    let shards = divide(&threads.collect::<Vec<_>>(), connections)?;
    let mut parts = BTreeMap::new();
    let mut twice = None;
    for ((agent, shard), sources) in agents.iter().zip(shards).zip(given.each) {
        let settings = LoadSettings {
            source: sources,
            ..settings.clone()
        };
        let part = part(wanted, agent, shard, settings, timeouts);
        if parts.insert(agent.name.clone(), part).is_some() {
            twice = Some(&agent.name);
        }
    }
    // If an agent is listed twice, its parts would overwrite each other.
    if let Some(name) = twice {
        return Err(FleetError::Wrong(format!("agent {name} is listed twice")));
    }
    Ok(DividedLoad {
        info: LoadInfo {
            threads: parts.values().map(|(part, _)| part.shard.workers).sum(),
            sources: given.count,
            ..text
        },
        seed: settings.seed.unwrap_or(0),
        parts,
        files,
        notes: given.notes,
    })
}

fn part(
    wanted: &LoadRequest,
    agent: &Registration,
    shard: AgentShard,
    settings: LoadSettings,
    timeouts: LeaseTimeouts,
) -> (PartAssignment, LoadOrder) {
    let part = PartAssignment {
        instance: agent.instance.clone(),
        system: agent.system.clone(),
        shard,
        clock: None,
        clock_after: None,
    };
    let load = LoadOrder {
        url: wanted.url.clone(),
        settings,
        shard,
        lease_ms: timeouts.lease_ms(),
    };
    (part, load)
}

/// Returns the load as ordered, with the socket backend that the agents chose. Ignores everything
/// else that the agents claim.
fn load_with_backend(load: &LoadInfo, ready: &[(&AgentName, ReadyReport)]) -> LoadInfo {
    let mut backends = ready.iter().map(|(_, ready)| ready.load.io.as_str());
    let io = backends.find(|io| ["poll", "uring", "xdp"].contains(io));
    LoadInfo {
        io: io.unwrap_or_default().to_owned(),
        ..load.clone()
    }
}

fn report_forecasts(ready: &[(&AgentName, ReadyReport)], observer: LoadObserver<'_>) {
    let reported = ready
        .iter()
        .map(|(name, ready)| (name.as_str(), ready.forecast.as_slice()));
    for finding in super::summary::findings(reported, ready.len()) {
        (observer.on_event)(FleetEvent::Warning(&finding.text));
    }
}

/// Checks that all agents carried out an order.
fn all_done(
    agents: &[AgentName],
    replies: Vec<Result<Reply, crate::link::LinkError>>,
) -> Result<(), FleetError> {
    for (agent, reply) in agents.iter().zip(replies) {
        match reply {
            Ok(Reply::Done) => {}
            Ok(other) => return Err(FleetError::of_reply(agent, other)),
            Err(error) => return Err(FleetError::of_silence(agent, error)),
        }
    }
    Ok(())
}

fn worst_bound(manifest: &RunManifest) -> u64 {
    let clocks = manifest.parts.values().filter_map(|part| part.clock);
    clocks.map(|clock| clock.bound_ns).max().unwrap_or(0)
}

/// Returns the duration of a load with a time limit, including the warm-up.
pub(super) fn planned(load: &LoadInfo) -> Option<Duration> {
    Duration::try_from_secs_f64(load.duration_s? + load.warmup_s).ok()
}

/// Formats a short list of agents.
fn agent_names<'a>(agents: impl Iterator<Item = &'a AgentName>) -> String {
    let names: Vec<&str> = agents.map(AgentName::as_str).collect();
    match names.len() {
        0..=8 => names.join(", "),
        many => format!("{many} agents"),
    }
}
