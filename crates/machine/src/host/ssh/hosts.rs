//! Combines another [`Host`] with machines that are reached over ssh.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prony_plan::service::{AllocatedService, Allocation, Endpoint, PlaceKind, ServiceSpec};
use prony_plan::topology::Topology;
use prony_plan::watch_spec::WatchSpec;
use prony_record::finding::{AgentLoss, AgentLost, Subject};
use prony_record::{Finding, Severity};

use super::machine::{MachineError, SshMachine};
use super::machines::SshMachines;
use super::service::{ServiceCheck, ServiceState, SshService, signal_name, start_script};
use crate::environment::Environment;
use crate::host::local::LocalHost;
use crate::host::remote::{quoted, section};
use crate::host::{
    Host, HostError, ProbeFailure, ReadinessProbe, ServiceExit, ServiceStop, launch,
};
use crate::place::NetnsHandle;
use crate::telemetry::{HostSample, TelemetrySample};

/// Number of log lines in an error message.
const LOG_TAIL_LINES: usize = 20;

/// A host that consists of another host and of machines that are reached over ssh.
pub struct SshHosts {
    inner: Box<dyn Host>,
    pub(super) machines: SshMachines,
    pub(super) services: BTreeMap<String, SshService>,
    /// Running services in start order.
    started: Vec<String>,
}

impl SshHosts {
    /// Combines a host with machines. Services whose host is none of these machines run on `inner`.
    #[must_use]
    pub fn new(inner: Box<dyn Host>, machines: SshMachines) -> Self {
        Self {
            inner,
            machines,
            services: BTreeMap::new(),
            started: Vec::new(),
        }
    }

    /// Calls a function with the machine of a service and the service.
    pub(super) fn with_service<T>(
        &self,
        name: &str,
        call: impl FnOnce(&mut SshMachine, &SshService) -> Result<T, MachineError>,
    ) -> Result<T, HostError> {
        let service = self
            .services
            .get(name)
            .ok_or_else(|| HostError::NotAllocated(name.to_owned()))?;
        let slot = self
            .machines
            .slots
            .get(&service.host)
            .ok_or_else(|| HostError::NotAllocated(name.to_owned()))?;
        let mut slot = slot.borrow_mut();
        let result = slot.call(|machine| call(machine, service));
        result.map_err(|error| slot.error(&error))
    }

    pub(super) fn check(&self, name: &str) -> Result<ServiceCheck, HostError> {
        self.with_service(name, |machine, service| Ok(machine.check(service.id)?))
    }

    /// Looks again at a service whose processes have ended normally, after it got the processes that
    /// listen on its port: the first process of a daemon ends when the daemon has started.
    fn or_daemon(&self, name: &str, check: ServiceCheck) -> Result<ServiceCheck, HostError> {
        if check.ended != Some(0) || check.processes > 0 {
            return Ok(check);
        }
        let adopted = self.with_service(name, |machine, service| {
            let port = service.followed(&machine.folder).port;
            match port {
                Some(port) => Ok(machine.adopt(service.id, port)?),
                None => Ok(false),
            }
        })?;
        if adopted { self.check(name) } else { Ok(check) }
    }

    fn is_lost_with(&self, name: &str) -> bool {
        let service = self.services.get(name);
        let slot = service.and_then(|service| self.machines.slots.get(&service.host));
        slot.is_some_and(|slot| slot.borrow().loss.is_some())
    }
}

impl Host for SshHosts {
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<BTreeMap<String, AllocatedService>, HostError> {
        self.release()?;
        let is_own = |wanted: &&Allocation| {
            let host = wanted.host.as_ref();
            host.is_some_and(|host| self.machines.slots.contains_key(host))
        };
        let (own, others): (Vec<&Allocation>, Vec<&Allocation>) = wanted.iter().partition(is_own);
        let others: Vec<Allocation> = others.into_iter().cloned().collect();
        let allocated = own
            .into_iter()
            .try_for_each(|wanted| self.allocate_service(wanted))
            .and_then(|()| self.inner.allocate(&others, topology));
        match allocated {
            Ok(mut all) => {
                let own = self.services.iter();
                all.extend(own.map(|(name, it)| (name.clone(), it.allocated.clone())));
                Ok(all)
            }
            Err(error) => {
                // Report only the first error.
                let _ = self.release();
                Err(error)
            }
        }
    }

    fn netns_handle(&self, place: PlaceKind) -> Result<Option<NetnsHandle>, HostError> {
        self.inner.netns_handle(place)
    }

    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError> {
        let Some(service) = self.services.get(&spec.name) else {
            return self.inner.start(spec, log_dir);
        };
        if service.state == ServiceState::Running {
            return Err(HostError::AlreadyRunning(spec.name.clone()));
        }
        fs::create_dir_all(log_dir).map_err(HostError::file("create", log_dir))?;
        let log = launch::inside(log_dir, &format!("{}.log", spec.name))?;
        for name in spec.files.keys().chain(spec.secrets.keys()) {
            launch::inside(Path::new("/"), name)?;
        }
        self.write_files(spec)?;
        self.check_ports(&spec.name)?;
        let started = self.with_service(&spec.name, |machine, service| {
            let script = start_script(spec, service);
            Ok(machine.run(&script)?.contains_key("main"))
        })?;
        let host = self.services.get_mut(&spec.name).map(|service| {
            service.log = Some(log);
            service.state = ServiceState::Running;
            service.follow = spec.follow.clone();
            service.stop_signal = signal_name(spec.stop_signal).unwrap_or("TERM");
            let program = spec.command.get(spec.wrapper_words);
            service.program = program.map(|it| (it.clone(), spec.env.get("PATH").cloned()));
            service.host.clone()
        });
        self.started.push(spec.name.clone());
        let host = host.unwrap_or_default();
        if !started {
            let text = format!("service {} could not be started there", spec.name);
            return Err(HostError::Elsewhere { host, text });
        }
        self.follow(&host)
    }

    fn alive(&mut self, name: &str) -> Result<(), ServiceExit> {
        let Some(service) = self.services.get(name) else {
            return self.inner.alive(name);
        };
        let ended = |status: String, log_tail: String| ServiceExit {
            service: name.to_owned(),
            status,
            log_tail,
        };
        if service.state != ServiceState::Running {
            return Err(ended("not running".to_owned(), String::new()));
        }
        let checked = self
            .check(name)
            .and_then(|check| self.or_daemon(name, check));
        match checked {
            Ok(check) if check.runs() => Ok(()),
            Ok(check) => {
                let status = check.status().unwrap_or_default();
                Err(ended(status, self.log_tail(name, LOG_TAIL_LINES)))
            }
            Err(error) => Err(ended(error.to_string(), String::new())),
        }
    }

    fn probe_readiness(
        &mut self,
        name: &str,
        probe: &ReadinessProbe,
    ) -> Result<Option<u16>, ProbeFailure> {
        if !self.services.contains_key(name) {
            return self.inner.probe_readiness(name, probe);
        }
        let is_reachable = match &probe.endpoint {
            Endpoint::Tcp(_) => true,
            Endpoint::Udp(_) => probe.get.is_some(),
            Endpoint::Unix(_) => false,
        };
        if is_reachable {
            return probe.run();
        }
        let bound = self.with_service(name, |machine, service| {
            let mut endpoint = probe.endpoint.clone();
            // The socket of a jail is found by its path outside.
            if let Endpoint::Unix(path) = &mut endpoint {
                let occupied = machine.occupied()?;
                let outside = format!("{}{}", service.root, path.display());
                let is_bound = occupied.has(&endpoint)
                    || occupied.has(&Endpoint::Unix(PathBuf::from(&outside)));
                if is_bound {
                    machine.open_socket(&outside)?;
                }
                return Ok(is_bound);
            }
            Ok(machine.is_bound(&endpoint)?)
        });
        match bound {
            Ok(true) => Ok(None),
            Ok(false) => Err(ProbeFailure::Remote(match &probe.endpoint {
                Endpoint::Unix(path) => format!("no socket listens at {}", path.display()),
                Endpoint::Tcp(address) | Endpoint::Udp(address) => {
                    format!("no socket is bound to {address}")
                }
            })),
            Err(error) => Err(ProbeFailure::Remote(error.to_string())),
        }
    }

    fn log_tail(&self, name: &str, lines: usize) -> String {
        if !self.services.contains_key(name) {
            return self.inner.log_tail(name, lines);
        }
        let text = self.with_service(name, |machine, service| {
            let file = quoted(&format!("{}/{}.log", machine.folder, service.id));
            let script =
                format!("at tail; cat {file}.tail {file} | tail -n {lines} | tail -c 65536");
            let sections = machine.run(&script)?;
            Ok(section(&sections, "tail").trim_end().to_owned())
        });
        text.unwrap_or_default()
    }

    fn watch(&mut self, watch: WatchSpec) {
        self.inner.watch(watch);
    }

    fn sample(&mut self) -> TelemetrySample {
        for slot in self.machines.slots.values_mut() {
            // A loss is reported at the end of the trial.
            let _ = slot.get_mut().call(|machine| Ok(machine.begin_sample()?));
        }
        let mut all = self.inner.sample();
        for (name, slot) in &mut self.machines.slots {
            let sampled = slot
                .get_mut()
                .call(|machine| Ok((machine.complete_sample()?, machine.boot.clone())));
            let Ok((Some((host, services)), boot)) = sampled else {
                continue;
            };
            // Each side counts the other's services as foreign load if the machine is this one.
            if !boot.is_empty() && boot == LocalHost::boot() {
                clear_foreign(&mut all.host);
            }
            for (service, mut figures) in services {
                figures.host = Some(name.clone());
                all.services.insert(service, figures);
            }
            all.hosts.insert(name.clone(), host);
        }
        all
    }

    fn is_lost(&self) -> bool {
        let mut needed = self.services.keys();
        self.inner.is_lost() || needed.any(|name| self.is_lost_with(name))
    }

    fn take_findings(&mut self) -> Vec<Finding> {
        let mut findings = self.inner.take_findings();
        for (name, slot) in &mut self.machines.slots {
            let slot = slot.get_mut();
            if let Some(reason) = slot.loss.clone().filter(|_| !slot.is_reported) {
                slot.is_reported = true;
                let lost = AgentLost {
                    loss: AgentLoss::Connection { reason },
                    outage: None,
                };
                let subject = Subject::Agent(name.clone());
                findings.push(Finding::about(subject, Severity::Error, &lost));
            }
        }
        findings
    }

    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding> {
        if self.services.contains_key(&spec.name) {
            return None;
        }
        self.inner.examine_crypto(spec)
    }

    fn stop(&mut self, name: &str) -> Result<ServiceStop, HostError> {
        if !self.services.contains_key(name) {
            return self.inner.stop(name);
        }
        match self.end(name) {
            // The service ends with the connection.
            Err(_) if self.is_lost_with(name) => Ok(ServiceStop::default()),
            stopped => stopped,
        }
    }

    fn release(&mut self) -> Result<(), HostError> {
        let mut result = Ok(());
        // End each service before the services that it needs.
        for name in std::mem::take(&mut self.started).into_iter().rev() {
            result = result.and(self.stop(&name).map(drop));
        }
        for name in self.services.keys() {
            let removed = self.with_service(name, |machine, service| {
                Ok(machine.run(&format!("forget {}", service.id)).map(drop)?)
            });
            if !self.is_lost_with(name) {
                result = result.and(removed);
            }
        }
        self.services.clear();
        result.and(self.inner.release())
    }

    fn environment(&mut self) -> Environment {
        let mut all = self.inner.environment();
        for (name, service) in &self.services {
            if service.state != ServiceState::Running {
                continue;
            }
            all.hosted.insert(name.clone(), service.host.clone());
            let facts = self.with_service(name, |machine, service| {
                let facts = machine.facts()?;
                let program = match &service.program {
                    Some((program, path)) if service.jail.is_none() => {
                        machine.program(program, path.as_deref())?
                    }
                    _ => None,
                };
                Ok((facts, program))
            });
            // A loss is reported at the end of the trial.
            if let Ok((facts, program)) = facts {
                all.hosts.insert(service.host.clone(), facts);
                let programs = program.into_iter().collect();
                all.services.insert(name.clone(), programs);
            }
        }
        all
    }
}

fn clear_foreign(host: &mut HostSample) {
    host.foreign_cpu_s = 0.0;
    host.foreign.clear();
    host.core_times.clear();
}
