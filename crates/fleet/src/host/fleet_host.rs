//! Combines this machine and the agents' machines into one [`Host`]: each service runs on the
//! machine that the plan names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prony_machine::environment::Environment;
use prony_machine::host::local::LocalHost;
use prony_machine::host::{
    Host, HostError, ProbeFailure, ReadinessProbe, ServiceExit, ServiceStop,
};
use prony_machine::place::NetnsHandle;
use prony_machine::telemetry::{HostSample, TelemetrySample};
use prony_plan::service::{AllocatedService, Allocation, PlaceKind, ServiceSpec};
use prony_plan::topology::Topology;
use prony_plan::watch_spec::WatchSpec;
use prony_record::finding::{AgentLoss, AgentLost, HostLoss, Subject};
use prony_record::{Finding, Severity};

use super::endpoint_check;
use super::remote_service::RemoteService;
use super::reservations::Reservations;
use super::roster::{Roster, address_towards};
use super::session::{AgentSession, unexpected};
use crate::link::NatsLink;
use crate::names::{AgentName, RunId};
use crate::wire::{HostCall, HostReply, claims, file_chunks, service_file_name};

/// A host that consists of this machine and the agents' machines.
#[derive(Debug)]
pub struct FleetHost {
    here: LocalHost,
    roster: Roster,
    reservations: Arc<Reservations>,
    /// Agent that each host of the plan refers to. The agent stays the same for the whole
    /// experiment.
    agents: BTreeMap<String, AgentName>,
    /// Services of this trial that run on agents' machines.
    remote: BTreeMap<String, RemoteService>,
}

impl FleetHost {
    /// Combines this machine with the agents in the roster.
    #[must_use]
    pub fn new(mut here: LocalHost, link: Arc<NatsLink>, roster: Roster) -> FleetHost {
        if let Some(address) = roster.address_of(None).or_else(|| link.local_address()) {
            here.set_address(address);
        }
        let run = RunId::new(SystemTime::now());
        FleetHost {
            here,
            roster,
            reservations: Arc::new(Reservations::new(link, run)),
            agents: BTreeMap::new(),
            remote: BTreeMap::new(),
        }
    }

    /// Sets the lease, which is how long agents wait for contact with the coordinator before they
    /// release their machines; 10 s by default.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> FleetHost {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self.reservations
            .change_request(|request| request.lease_ms = lease_ms);
        self
    }

    /// Sets the experiment's name and forecast end, which are shown to other users of the agents.
    #[must_use]
    pub fn with_holder(self, holder: String, until: Option<SystemTime>) -> FleetHost {
        let until = until.map(|until| humantime::format_rfc3339_seconds(until).to_string());
        self.reservations.change_request(|request| {
            request.holder = holder;
            request.until = until;
        });
        self
    }

    /// Reserves agents for the whole experiment: the agents of these hosts, and those that generate
    /// its loads. Telemetry covers all of their machines.
    ///
    /// # Errors
    ///
    /// Returns an error if an agent can't be reached, or is in use by another run.
    pub fn reserve(&mut self, hosts: &[String], loading: &[AgentName]) -> Result<(), HostError> {
        for host in hosts {
            self.session(host)?;
        }
        for agent in loading {
            self.reservations.reserve(agent)?;
        }
        Ok(())
    }

    /// Returns the reservations of the experiment, for [`AgentLoads`](super::AgentLoads).
    #[must_use]
    pub fn reservations(&self) -> Arc<Reservations> {
        self.reservations.clone()
    }

    /// Returns the run for which agents are reserved.
    #[must_use]
    pub fn run(&self) -> &RunId {
        self.reservations.run()
    }

    /// Abandons the agents without sending them a message, like a killed coordinator, so that their
    /// leases expire. For tests.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.reservations.abandon();
    }

    /// Returns the session with the agent for a host in the plan. Reserves a lost agent again.
    fn session(&mut self, host: &str) -> Result<Arc<AgentSession>, HostError> {
        let refuse = |text: String| HostError::Elsewhere {
            host: host.to_owned(),
            text,
        };
        let agent = match self.agents.get(host) {
            Some(agent) => agent.clone(),
            None => {
                let found = self
                    .roster
                    .find(host)
                    .map_err(|error| refuse(error.to_string()))?;
                if let Some(address) = found.addresses.first() {
                    self.here.set_address(address_towards(*address));
                }
                found.name.clone()
            }
        };
        self.agents.insert(host.to_owned(), agent.clone());
        self.reservations.reserve(&agent)
    }

    /// Returns true if a service of this trial runs on this agent's machine.
    fn is_on(&self, service: &str, session: &AgentSession) -> bool {
        let remote = self.remote.get(service);
        remote.is_some_and(|remote| remote.session.agent() == session.agent())
    }

    /// Returns true if an agent runs on the coordinator's machine, or on the same machine as
    /// another agent.
    fn shares_machine(&self, session: &AgentSession) -> bool {
        let sessions = self.reservations.sessions();
        let mut others = sessions
            .values()
            .filter(|other| other.agent() != session.agent());
        LocalHost::boot() == session.boot() || others.any(|it| it.boot() == session.boot())
    }

    fn allocate_remote(
        &mut self,
        wanted: &[Allocation],
        all: &mut BTreeMap<String, AllocatedService>,
    ) -> Result<(), HostError> {
        let mut by_session: BTreeMap<AgentName, (Arc<AgentSession>, Vec<Allocation>)> =
            BTreeMap::new();
        for wanted in wanted {
            let Some(host) = &wanted.host else { continue };
            if let PlaceKind::Named(_) = wanted.place {
                return Err(HostError::Elsewhere {
                    host: host.clone(),
                    text: "named places exist only on the machine that runs prony".to_owned(),
                });
            }
            let session = self.session(host)?;
            let for_session = by_session.entry(session.agent().clone());
            let (_, for_session) = for_session.or_insert_with(|| (session.clone(), Vec::new()));
            for_session.push(wanted.clone());
            let remote = RemoteService { session, log: None };
            self.remote.insert(wanted.service.clone(), remote);
        }
        for (session, wanted) in by_session.into_values() {
            let claimed = self.roster.addresses(session.agent());
            let call = HostCall::Allocate {
                wanted: wanted.clone(),
            };
            match session.call(call)? {
                HostReply::Allocated { services } => {
                    let is_this_machine = LocalHost::boot() == session.boot();
                    endpoint_check::check_endpoints(&wanted, &services, claimed, is_this_machine)
                        .map_err(|error| session.error(error.to_string()))?;
                    all.extend(services);
                }
                other => return Err(session.error(unexpected(&other))),
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
    ) -> Result<BTreeMap<String, AllocatedService>, HostError> {
        self.release()?;
        let mut all = BTreeMap::new();
        let allocated = self.allocate_remote(wanted, &mut all).and_then(|()| {
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
                // An error of the release is ignored, because the allocation's error is reported.
                let _ = self.release();
                Err(error)
            }
        }
    }

    fn netns_handle(&self, place: PlaceKind) -> Result<Option<NetnsHandle>, HostError> {
        self.here.netns_handle(place)
    }

    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError> {
        let Some(remote) = self.remote.get_mut(&spec.name) else {
            return self.here.start(spec, log_dir);
        };
        remote.log = Some(log_dir.join(format!("{}.log", spec.name)));
        let session = &remote.session;
        for (is_secret, files) in [(false, &spec.files), (true, &spec.secrets)] {
            for (name, bytes) in files {
                let name = service_file_name(&spec.name, is_secret, name);
                for chunk in file_chunks(&name, bytes) {
                    session.call(HostCall::Put(chunk))?;
                }
            }
        }
        let call = HostCall::Start {
            spec: Box::new(spec.clone()),
            files: spec.files.keys().cloned().collect(),
            secrets: spec.secrets.keys().cloned().collect(),
        };
        match session.call(call)? {
            HostReply::Done => Ok(()),
            other => Err(session.error(unexpected(&other))),
        }
    }

    fn alive(&mut self, service: &str) -> Result<(), ServiceExit> {
        let Some(remote) = self.remote.get(service) else {
            return self.here.alive(service);
        };
        let ended = |status: String| ServiceExit {
            service: service.to_owned(),
            status,
            log_tail: String::new(),
        };
        let name = service.to_owned();
        match remote.session.call(HostCall::Alive { service: name }) {
            Ok(HostReply::Done) => Ok(()),
            Ok(HostReply::Exited { exited }) => Err(exited),
            Ok(other) => Err(ended(unexpected(&other))),
            Err(error) => Err(ended(error.to_string())),
        }
    }

    fn probe_readiness(
        &mut self,
        service: &str,
        probe: &ReadinessProbe,
    ) -> Result<Option<u16>, ProbeFailure> {
        let Some(remote) = self.remote.get(service) else {
            return self.here.probe_readiness(service, probe);
        };
        let call = HostCall::Probe {
            service: service.to_owned(),
            probe: probe.clone(),
        };
        match remote.session.call(call) {
            Ok(HostReply::Responded { status }) => Ok(status),
            Ok(HostReply::Silent { why }) => Err(ProbeFailure::Remote(why)),
            Ok(other) => Err(ProbeFailure::Remote(unexpected(&other))),
            Err(error) => Err(ProbeFailure::Remote(error.to_string())),
        }
    }

    fn log_tail(&self, service: &str, lines: usize) -> String {
        let Some(remote) = self.remote.get(service) else {
            return self.here.log_tail(service, lines);
        };
        let service = service.to_owned();
        match remote.session.call(HostCall::LogTail { service, lines }) {
            Ok(HostReply::Text { text }) => text,
            _ => String::new(),
        }
    }

    fn watch(&mut self, watch: WatchSpec) {
        let elsewhere = WatchSpec {
            counters: watch.counters,
            load_is_elsewhere: true,
            ..WatchSpec::default()
        };
        self.reservations.watch(elsewhere);
        self.here.watch(watch);
    }

    fn sample(&mut self) -> TelemetrySample {
        let replies = self.reservations.call_all(&HostCall::Sample);
        let mut all = self.here.sample();
        for (session, reply) in replies {
            // If an agent is lost, that is reported at the end of the trial.
            let Ok(HostReply::Sample { mut sample }) = reply else {
                continue;
            };
            let name = session.agent().to_string();
            // If several prony processes share a machine, each counts the others' services as
            // foreign load.
            if self.shares_machine(&session) {
                clear_foreign(&mut sample.host);
            }
            if LocalHost::boot() == session.boot() {
                clear_foreign(&mut all.host);
            }
            for (service, mut figures) in sample.services {
                // An agent's data is used only for services that run on its machine.
                if self.is_on(&service, &session) {
                    figures.host = Some(name.clone());
                    all.services.insert(service, figures);
                }
            }
            all.hosts.insert(name, sample.host);
        }
        all
    }

    fn is_lost(&self) -> bool {
        let mut needed = self.remote.values();
        needed.any(|remote| remote.session.loss().is_some())
    }

    fn take_findings(&mut self) -> Vec<Finding> {
        let mut findings = self.here.take_findings();
        for (_, reply) in self.reservations.call_all(&HostCall::Unwatched) {
            if let Ok(HostReply::Findings { findings: more }) = reply {
                findings.extend(claims::findings(more));
            }
        }
        // If an agent that only generates loads is lost, that is reported with its load.
        let serving: BTreeSet<&AgentName> = self.agents.values().collect();
        for (agent, session) in &self.reservations.sessions() {
            if let Some(why) = session
                .unreported_loss()
                .filter(|_| serving.contains(agent))
            {
                findings.push(lost(session, why));
            }
        }
        findings
    }

    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding> {
        let Some(remote) = self.remote.get(&spec.name) else {
            return self.here.examine_crypto(spec);
        };
        let spec = Box::new(spec.clone());
        match remote.session.call(HostCall::Crypto { spec }) {
            Ok(HostReply::Findings { findings }) => claims::findings(findings).into_iter().next(),
            _ => None,
        }
    }

    fn stop(&mut self, service: &str) -> Result<ServiceStop, HostError> {
        let Some(remote) = self.remote.get_mut(service) else {
            return self.here.stop(service);
        };
        let call = HostCall::Stop {
            service: service.to_owned(),
        };
        let stopped = match remote.session.call(call) {
            Ok(HostReply::Stopped { stopped }) => Ok(stopped),
            Ok(other) => Err(remote.session.error(unexpected(&other))),
            // If the agent is lost, the service ended with it or ends when the lease expires.
            Err(_) if remote.session.loss().is_some() => Ok(ServiceStop::default()),
            Err(error) => Err(error),
        }?;
        remote.fetch_log(service)?;
        Ok(stopped)
    }

    fn release(&mut self) -> Result<(), HostError> {
        let mut result = Ok(());
        for (service, mut remote) in std::mem::take(&mut self.remote) {
            result = result.and(remote.fetch_log(&service));
        }
        for (session, reply) in self.reservations.call_all(&HostCall::Release) {
            if session.loss().is_none() {
                result = result.and(reply.map(drop));
            }
        }
        result.and(self.here.release())
    }

    fn environment(&mut self) -> Environment {
        let mut all = self.here.environment();
        for (session, reply) in self.reservations.call_all(&HostCall::Environment) {
            if let Ok(HostReply::Environment { mut environment }) = reply {
                let name = session.agent().to_string();
                for (service, programs) in environment.services {
                    if !self.is_on(&service, &session) {
                        continue;
                    }
                    all.hosted.insert(service.clone(), name.clone());
                    if let Some(sources) = environment.sources.remove(&service) {
                        all.sources.insert(service.clone(), sources);
                    }
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
        self.reservations.release_all();
    }
}

fn clear_foreign(host: &mut HostSample) {
    host.foreign_cpu_s = 0.0;
    host.foreign.clear();
    host.core_times.clear();
}

fn lost(session: &AgentSession, loss: HostLoss) -> Finding {
    let lost = AgentLost {
        loss: AgentLoss::Host(loss),
        outage: None,
    };
    let subject = Subject::Agent(session.agent().to_string());
    Finding::about(subject, Severity::Error, &lost)
}
