//! This machine and those of agents as one [`Host`]: each service runs where the plan has it.
//!
//! Enters: a connection to the fleet's server. What a trial asks of a service goes to the machine that
//! has it, with its files; samples of all machines are taken at once and joined; logs come back into the
//! trial's folder. An agent that is lost ends the load of a trial that has a service there: what was
//! measured is kept, with the finding `agent-lost`, and the trial that needs it next can't be made.

pub mod calls;
mod judging;
mod lease;
mod logs;
mod maker;
mod roster;
mod seat;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prony_experiment::environment::Environment;
use prony_experiment::host::local::LocalHost;
use prony_experiment::host::{Exited, Host, HostError, Knock, Stopped};
use prony_experiment::place::Door;
use prony_experiment::place::topology::Topology;
use prony_experiment::service::{Allocated, Allocation, PlaceKind, ServiceSpec};
use prony_experiment::telemetry::{HostSample, Sample, Watch};
use prony_record::{Finding, FindingId, Severity};

use crate::agent::files::pieces;
use crate::claims;
use crate::link::Link;
use crate::names::{AgentName, RunId};
use calls::{Answer, Call, Opening, file_name};
use lease::Keeper;
pub use maker::{AgentLoads, Shower};
pub use roster::Roster;
use roster::address_towards;
use seat::Seat;

/// This machine, and those of agents.
#[derive(Debug)]
pub struct FleetHost {
    here: LocalHost,
    link: Arc<Link>,
    run: RunId,
    opening: Opening,
    roster: Roster,
    /// Renews the leases of all seats; before them, so that it ends first.
    keeper: Keeper,
    seats: BTreeMap<AgentName, Arc<Seat>>,
    /// The agent that each host of the plan means; the same for the whole experiment.
    meant: BTreeMap<String, AgentName>,
    /// The services of this trial that run on agents' machines.
    elsewhere: BTreeMap<String, Remote>,
}

/// A service of an agent's machine.
#[derive(Debug)]
struct Remote {
    seat: Arc<Seat>,
    /// Where its log is to lie here, once it was started.
    log: Option<PathBuf>,
}

impl FleetHost {
    /// Joins `here` with the agents in the roster.
    #[must_use]
    pub fn new(mut here: LocalHost, link: Arc<Link>, roster: Roster) -> FleetHost {
        if let Some(address) = roster.address_of(None).or_else(|| link.address()) {
            here.set_address(address);
        }
        FleetHost {
            here,
            link,
            run: RunId::new(std::time::SystemTime::now()),
            opening: Opening {
                lease_ms: seat::LEASE_DEFAULT_MS,
                holder: String::new(),
                until: None,
            },
            roster,
            keeper: Keeper::new(),
            seats: BTreeMap::new(),
            meant: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
        }
    }

    /// Lets agents keep their machines for this long without a sign of the coordinator, instead of 10 s.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> FleetHost {
        self.opening.lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Names the experiment to others who want its agents, and the time when it will be over.
    #[must_use]
    pub fn with_holder(mut self, holder: String, until: Option<SystemTime>) -> FleetHost {
        self.opening.holder = holder;
        let until = until.map(|until| humantime::format_rfc3339_seconds(until).to_string());
        self.opening.until = until;
        self
    }

    /// Reserves agents for the whole experiment: for the services of these hosts, and for its loads.
    /// Their machines are watched, too.
    ///
    /// # Errors
    ///
    /// Where one of them is not there, or somebody else has it.
    pub fn reserve(&mut self, hosts: &[String], loading: &[AgentName]) -> Result<(), HostError> {
        for host in hosts {
            self.seat(host)?;
        }
        for agent in loading {
            self.seat_of(agent)?;
        }
        Ok(())
    }

    /// The run that agents are busy with while they have its services.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Goes away like a coordinator that died: nothing is said to anybody, and leases end by themselves.
    /// For tests.
    #[doc(hidden)]
    pub fn abandon(mut self) {
        self.keeper.end();
        self.seats.clear();
    }

    /// The seat of the agent that a plan's host means: the one that there is, unless its agent was
    /// lost.
    fn seat(&mut self, host: &str) -> Result<Arc<Seat>, HostError> {
        let refuse = |text: String| HostError::Elsewhere {
            host: host.to_owned(),
            text,
        };
        let agent = match self.meant.get(host) {
            Some(agent) => agent.clone(),
            None => {
                let found = self.roster.find(host).map_err(refuse)?;
                if let Some(address) = found.addresses.first() {
                    self.here.set_address(address_towards(*address));
                }
                found.name.clone()
            }
        };
        self.meant.insert(host.to_owned(), agent.clone());
        self.seat_of(&agent)
    }

    fn seat_of(&mut self, agent: &AgentName) -> Result<Arc<Seat>, HostError> {
        if let Some(seat) = self.seats.get(agent)
            && seat.lost().is_none()
        {
            return Ok(seat.clone());
        }
        let seat = Arc::new(Seat::open(&self.link, &self.run, agent, &self.opening)?);
        self.keeper.keep(&seat);
        self.seats.insert(agent.clone(), seat.clone());
        Ok(seat)
    }

    /// The seats whose agents are there.
    fn there(&self) -> Vec<Arc<Seat>> {
        let there = self.seats.values().filter(|seat| seat.lost().is_none());
        there.cloned().collect()
    }

    /// Asks all agents the same at once.
    fn ask_all(&self, call: &Call) -> Vec<(Arc<Seat>, Result<Answer, HostError>)> {
        let seats = self.there();
        std::thread::scope(|scope| {
            let asked = seats.into_iter().map(|seat| {
                let of_thread = seat.clone();
                let asking = scope.spawn(move || of_thread.ask(call.clone()));
                (seat, asking)
            });
            let asked: Vec<_> = asked.collect();
            let joined = asked.into_iter().map(|(seat, asking)| {
                let answer = asking.join();
                let answer = answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (seat, answer)
            });
            joined.collect()
        })
    }

    /// Whether a service of this trial runs on an agent's machine.
    fn is_on(&self, service: &str, seat: &Seat) -> bool {
        let remote = self.elsewhere.get(service);
        remote.is_some_and(|remote| remote.seat.agent == seat.agent)
    }

    /// Whether an agent is on this very machine, or on that of another one.
    fn shares_machine(&self, seat: &Seat) -> bool {
        let others = self
            .seats
            .values()
            .filter(|other| other.agent != seat.agent);
        LocalHost::boot() == seat.boot || others.map(|it| &it.boot).any(|it| *it == seat.boot)
    }

    fn allocate_elsewhere(
        &mut self,
        wanted: &[Allocation],
        all: &mut BTreeMap<String, Allocated>,
    ) -> Result<(), HostError> {
        let mut of_seats: BTreeMap<AgentName, (Arc<Seat>, Vec<Allocation>)> = BTreeMap::new();
        for wanted in wanted {
            let Some(host) = &wanted.host else { continue };
            if let PlaceKind::Named(_) = wanted.place {
                return Err(HostError::Elsewhere {
                    host: host.clone(),
                    text: "named places are networks of the machine that runs prony".to_owned(),
                });
            }
            let seat = self.seat(host)?;
            let of_seat = of_seats.entry(seat.agent.clone());
            let (_, of_seat) = of_seat.or_insert_with(|| (seat.clone(), Vec::new()));
            of_seat.push(wanted.clone());
            let remote = Remote { seat, log: None };
            self.elsewhere.insert(wanted.service.clone(), remote);
        }
        for (seat, wanted) in of_seats.into_values() {
            let claimed = self.roster.addresses(&seat.agent);
            let call = Call::Allocate {
                wanted: wanted.clone(),
            };
            match seat.ask(call)? {
                Answer::Allocated { services } => {
                    let is_this_machine = LocalHost::boot() == seat.boot;
                    judging::allocated(&wanted, &services, claimed, is_this_machine)
                        .map_err(|text| seat.error(text))?;
                    all.extend(services);
                }
                other => return Err(seat.error(unexpected(&other))),
            }
        }
        Ok(())
    }
}

impl Host for FleetHost {
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<BTreeMap<String, Allocated>, HostError> {
        self.release()?;
        let mut all = BTreeMap::new();
        let allocated = self.allocate_elsewhere(wanted, &mut all).and_then(|()| {
            let own = wanted.iter().filter(|wanted| wanted.host.is_none());
            let own: Vec<Allocation> = own.cloned().collect();
            self.here.allocate(&own, topology)
        });
        match allocated {
            Ok(own) => {
                all.extend(own);
                Ok(all)
            }
            Err(error) => {
                // The error that counts is the first one.
                let _ = self.release();
                Err(error)
            }
        }
    }

    fn door(&self, place: PlaceKind) -> Result<Option<Door>, HostError> {
        self.here.door(place)
    }

    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError> {
        let Some(remote) = self.elsewhere.get_mut(&spec.name) else {
            return self.here.start(spec, log_dir);
        };
        remote.log = Some(log_dir.join(format!("{}.log", spec.name)));
        let seat = &remote.seat;
        for (is_secret, files) in [(false, &spec.files), (true, &spec.secrets)] {
            for (name, bytes) in files {
                let name = file_name(&spec.name, is_secret, name);
                for piece in pieces(&name, bytes) {
                    seat.ask(Call::Put(piece))?;
                }
            }
        }
        let call = Call::Start {
            spec: Box::new(spec.clone()),
            files: spec.files.keys().cloned().collect(),
            secrets: spec.secrets.keys().cloned().collect(),
        };
        match seat.ask(call)? {
            Answer::Done => Ok(()),
            other => Err(seat.error(unexpected(&other))),
        }
    }

    fn alive(&mut self, service: &str) -> Result<(), Exited> {
        let Some(remote) = self.elsewhere.get(service) else {
            return self.here.alive(service);
        };
        let ended = |status: String| Exited {
            service: service.to_owned(),
            status,
            log_tail: String::new(),
        };
        let name = service.to_owned();
        match remote.seat.ask(Call::Alive { service: name }) {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Exited { exited }) => Err(exited),
            Ok(other) => Err(ended(unexpected(&other))),
            Err(error) => Err(ended(error.to_string())),
        }
    }

    fn knock(&mut self, service: &str, knock: &Knock) -> Result<Option<u16>, String> {
        let Some(remote) = self.elsewhere.get(service) else {
            return self.here.knock(service, knock);
        };
        let call = Call::Knock {
            service: service.to_owned(),
            knock: knock.clone(),
        };
        match remote.seat.ask(call) {
            Ok(Answer::Knocked { status }) => Ok(status),
            Ok(Answer::Silent { why }) => Err(why),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn log_tail(&self, service: &str, lines: usize) -> String {
        let Some(remote) = self.elsewhere.get(service) else {
            return self.here.log_tail(service, lines);
        };
        let service = service.to_owned();
        match remote.seat.ask(Call::LogTail { service, lines }) {
            Ok(Answer::Text { text }) => text,
            _ => String::new(),
        }
    }

    fn watch(&mut self, watch: Watch) {
        let elsewhere = Watch {
            counters: watch.counters,
            load_is_elsewhere: true,
            ..Watch::default()
        };
        // What can't be watched shows as a finding, or with the next call.
        drop(self.ask_all(&Call::Watch { watch: elsewhere }));
        self.here.watch(watch);
    }

    fn sample(&mut self) -> Sample {
        let answers = self.ask_all(&Call::Sample);
        let mut all = self.here.sample();
        for (seat, answer) in answers {
            // Of a lost agent the finding is told when the trial ends.
            let Ok(Answer::Sample { mut sample }) = answer else {
                continue;
            };
            let name = seat.agent.to_string();
            // To two processes of prony on one machine each other's services are strangers.
            if self.shares_machine(&seat) {
                forget_strangers(&mut sample.host);
            }
            if LocalHost::boot() == seat.boot {
                forget_strangers(&mut all.host);
            }
            for (service, mut figures) in sample.services {
                // Others' services, and those that the plan doesn't have, are not its to speak of.
                if self.is_on(&service, &seat) {
                    figures.host = Some(name.clone());
                    all.services.insert(service, figures);
                }
            }
            all.hosts.insert(name, sample.host);
        }
        all
    }

    fn is_lost(&self) -> bool {
        let mut needed = self.elsewhere.values();
        needed.any(|remote| remote.seat.lost().is_some())
    }

    fn unwatched(&mut self) -> Vec<Finding> {
        let mut findings = self.here.unwatched();
        for (_, answer) in self.ask_all(&Call::Unwatched) {
            if let Ok(Answer::Findings { findings: more }) = answer {
                findings.extend(claims::findings(more));
            }
        }
        // Of an agent that only makes loads, its load has the finding.
        let serving: BTreeSet<&AgentName> = self.meant.values().collect();
        for (agent, seat) in &self.seats {
            if let Some(why) = seat.untold_loss().filter(|_| serving.contains(agent)) {
                findings.push(lost(seat, &why));
            }
        }
        findings
    }

    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding> {
        let Some(remote) = self.elsewhere.get(&spec.name) else {
            return self.here.examine_crypto(spec);
        };
        let spec = Box::new(spec.clone());
        match remote.seat.ask(Call::Crypto { spec }) {
            Ok(Answer::Findings { findings }) => claims::findings(findings).into_iter().next(),
            _ => None,
        }
    }

    fn stop(&mut self, service: &str) -> Result<Stopped, HostError> {
        let Some(remote) = self.elsewhere.get_mut(service) else {
            return self.here.stop(service);
        };
        let call = Call::Stop {
            service: service.to_owned(),
        };
        let stopped = match remote.seat.ask(call) {
            Ok(Answer::Stopped { stopped }) => Ok(stopped),
            Ok(other) => Err(remote.seat.error(unexpected(&other))),
            // It ended with its agent, or does so with its lease.
            Err(_) if remote.seat.lost().is_some() => Ok(Stopped {
                status: None,
                killed: false,
                took: Duration::ZERO,
                log_bytes_cut: 0,
            }),
            Err(error) => Err(error),
        }?;
        remote.bring_log(service)?;
        Ok(stopped)
    }

    fn release(&mut self) -> Result<(), HostError> {
        let mut result = Ok(());
        for (service, mut remote) in std::mem::take(&mut self.elsewhere) {
            result = result.and(remote.bring_log(&service));
        }
        for (seat, answer) in self.ask_all(&Call::Release) {
            if seat.lost().is_none() {
                result = result.and(answer.map(drop));
            }
        }
        result.and(self.here.release())
    }

    fn environment(&mut self) -> Environment {
        let mut all = self.here.environment();
        for (seat, answer) in self.ask_all(&Call::Environment) {
            if let Ok(Answer::Environment { environment }) = answer {
                let name = seat.agent.to_string();
                for (service, programs) in environment.services {
                    if !self.is_on(&service, &seat) {
                        continue;
                    }
                    all.hosted.insert(service.clone(), name.clone());
                    all.services.insert(service, programs);
                }
                all.hosts.insert(name, environment.machine);
            }
        }
        all
    }
}

impl Drop for FleetHost {
    fn drop(&mut self) {
        self.keeper.end();
        std::thread::scope(|scope| {
            for seat in self.seats.values() {
                scope.spawn(|| seat.close());
            }
        });
    }
}

fn forget_strangers(host: &mut HostSample) {
    host.foreign_cpu_s = 0.0;
    host.foreign.clear();
    host.core_times.clear();
}

fn lost(seat: &Seat, why: &str) -> Finding {
    let text = format!(
        "The agent of host {} was lost: {why}. What ran there ended with it or ends with its lease, \
         and what was measured is not its speed.",
        seat.agent
    );
    Finding::new(FindingId::AgentLost, Severity::Error, text)
}

fn unexpected(answer: &Answer) -> String {
    format!("an answer to another question: {answer:?}")
}
