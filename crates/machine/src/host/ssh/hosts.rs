//! Combines another [`Host`] with machines that are reached over ssh.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_plan::service::{
    AllocatedService, Allocation, Endpoint, FollowSpec, Jail, PlaceKind, PortProtocol, ServiceSpec,
    pick_endpoints,
};
use prony_plan::ssh_host::SshHost;
use prony_plan::topology::Topology;
use prony_plan::watch_spec::WatchSpec;
use prony_plan::{DiagnosticKind, HostObjection, ServiceAspect};
use prony_record::finding::{AgentLoss, AgentLost, Subject};
use prony_record::{Finding, Severity};

use super::check;
use super::machine::{MachineError, SshMachine};
use super::service::{
    KILL_TIMEOUT, STOP_TIMEOUT, ServiceCheck, ServiceState, SshService, signal_name, start_script,
};
use crate::environment::Environment;
use crate::host::local::LocalHost;
use crate::host::remote::{RemoteError, quoted, section};
use crate::host::{
    Host, HostError, ProbeFailure, ReadinessProbe, ServiceExit, ServiceStop, launch, log,
};
use crate::place::NetnsHandle;
use crate::system::port;
use crate::telemetry::{HostSample, TelemetrySample};

/// Size of the path field in a UNIX socket address on FreeBSD, including the final NUL. That of
/// Linux is larger.
const SOCKET_PATH_MAX: usize = 104;
/// Pause between two looks at a service that should end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of log lines in an error message.
const LOG_TAIL_LINES: usize = 20;

/// A machine of the plan, with its connection while that works.
#[derive(Debug)]
struct MachineSlot {
    host: SshHost,
    machine: Option<SshMachine>,
    /// Reason why the connection was lost in this trial.
    loss: Option<String>,
    is_reported: bool,
}

impl MachineSlot {
    /// Returns the machine, to which it connects again if the connection was lost.
    fn connected(&mut self) -> Result<&mut SshMachine, MachineError> {
        if self.machine.is_none() {
            self.machine = Some(SshMachine::connect(&self.host)?);
            self.loss = None;
            self.is_reported = false;
        }
        self.machine
            .as_mut()
            .ok_or(MachineError::Lost(RemoteError::Closed))
    }

    /// Calls a function with the machine. If the connection fails, drops it and stores the reason.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut SshMachine) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        let machine = self
            .machine
            .as_mut()
            .ok_or(MachineError::Lost(RemoteError::Closed))?;
        let result = call(machine);
        if let Err(MachineError::Lost(error)) = &result {
            self.loss = Some(error.to_string());
            self.machine = None;
        }
        result
    }

    fn error(&self, error: &MachineError) -> HostError {
        let text = match (error, &self.loss) {
            (MachineError::Lost(RemoteError::Closed), Some(loss)) => loss.clone(),
            _ => error.to_string(),
        };
        HostError::Elsewhere {
            host: self.host.name.clone(),
            text,
        }
    }
}

/// Open connections to the machines of a plan.
#[derive(Debug, Default)]
pub struct SshMachines {
    slots: BTreeMap<String, RefCell<MachineSlot>>,
}

impl SshMachines {
    /// Connects to a machine and starts its session.
    ///
    /// # Errors
    /// The reason why the machine can't be used.
    pub fn connect(&mut self, host: &SshHost) -> Result<(), HostError> {
        let mut slot = MachineSlot {
            host: host.clone(),
            machine: None,
            loss: None,
            is_reported: false,
        };
        let connected = slot.connected().map(drop);
        connected.map_err(|error| slot.error(&error))?;
        if let Some(address) = host.address {
            let addresses = slot.call(|machine| Ok(machine.addresses()?));
            let addresses = addresses.map_err(|error| slot.error(&error))?;
            if let Some(others) = addresses.filter(|it| !it.contains(&address)) {
                let others: Vec<String> = others.iter().map(IpAddr::to_string).collect();
                return Err(HostError::Elsewhere {
                    host: host.name.clone(),
                    text: format!(
                        "{address} is not an address of that machine (it has {})",
                        others.join(", ")
                    ),
                });
            }
        }
        self.slots.insert(host.name.clone(), RefCell::new(slot));
        Ok(())
    }

    /// Returns true if there are no machines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the address on which services of a machine listen, if known.
    #[must_use]
    pub fn address_of(&self, host: &str) -> Option<IpAddr> {
        self.slots.get(host)?.borrow().machine.as_ref()?.address
    }

    /// Returns all reasons why a machine can't run a service.
    #[must_use]
    pub fn objections(&self, host: &str, spec: &ServiceSpec) -> Vec<HostObjection> {
        let Some(slot) = self.slots.get(host) else {
            return Vec::new();
        };
        let mut slot = slot.borrow_mut();
        let found = slot.call(|machine| Ok(check::objections(machine, host, spec)?));
        found.unwrap_or_else(|error| {
            vec![HostObjection {
                aspect: ServiceAspect::Host,
                kind: DiagnosticKind::Machine,
                message: slot.error(&error).to_string(),
                hint: None,
            }]
        })
    }

    /// Returns the address at which the machines reach this one, if one of them has reported it.
    #[must_use]
    pub fn own_address(&self) -> Option<IpAddr> {
        let mut slots = self.slots.values();
        slots.find_map(|slot| slot.borrow().machine.as_ref()?.own_address)
    }
}

/// A host that consists of another host and of machines that are reached over ssh.
pub struct SshHosts {
    inner: Box<dyn Host>,
    machines: SshMachines,
    services: BTreeMap<String, SshService>,
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
    fn with_service<T>(
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

    fn check(&self, name: &str) -> Result<ServiceCheck, HostError> {
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

    fn allocate_service(&mut self, wanted: &Allocation) -> Result<(), HostError> {
        let Some(host) = &wanted.host else {
            return Err(HostError::NotAllocated(wanted.service.clone()));
        };
        let Some(slot) = self.machines.slots.get_mut(host) else {
            return Err(HostError::NotAllocated(wanted.service.clone()));
        };
        let slot = slot.get_mut();
        let connected = slot.connected().map(drop);
        connected.map_err(|error| slot.error(&error))?;
        let allocated = slot.call(|machine| {
            let id = machine.next_id();
            let jail = match &wanted.jail {
                None => None,
                Some(Jail::Existing(name)) => Some((name.clone(), machine.jail(name)?)),
                Some(Jail::Root(root)) => Some(machine.make_jail(id, root)?),
            };
            let root = jail.as_ref().map(|(_, facts)| facts.root.as_str());
            let files_dir = machine.make_service_folder(id, root)?;
            Ok((id, jail, files_dir, machine.occupied()?))
        });
        let (id, jail, files_dir, occupied) = allocated.map_err(|error| slot.error(&error))?;
        let machine = slot.machine.as_ref();
        let of_jail = jail.as_ref().and_then(|(_, facts)| facts.addresses.first());
        let address = of_jail.copied();
        let address = address.or_else(|| machine.and_then(|machine| machine.address));
        let (jail, root) = match jail {
            Some((name, facts)) => (Some(name), facts.root),
            None => (None, String::new()),
        };
        let address = address.ok_or_else(|| HostError::Elsewhere {
            host: host.clone(),
            text: "the address of the machine is unknown; set address of the host".to_owned(),
        })?;
        let pick = |protocols: &[PortProtocol]| {
            let is_free = |port: u16| {
                protocols.iter().all(|protocol| match protocol {
                    PortProtocol::Tcp => !occupied.tcp.contains(&port),
                    PortProtocol::Udp => !occupied.udp.contains(&port),
                })
            };
            let port = port::pick_elsewhere(is_free).ok_or(HostError::NoFreePort)?;
            Ok(SocketAddr::new(address, port))
        };
        let socket = |name: &str| {
            let number = wanted.listen.keys().position(|it| it == name);
            let path = format!("{files_dir}.{}.sock", number.unwrap_or_default());
            if path.len() < SOCKET_PATH_MAX {
                Ok(PathBuf::from(path))
            } else {
                Err(HostError::Elsewhere {
                    host: host.clone(),
                    text: format!(
                        "{path} is too long for a UNIX socket's address (set dir of the host)"
                    ),
                })
            }
        };
        let endpoints = pick_endpoints(&wanted.listen, pick, socket)?;
        let service = SshService {
            host: host.clone(),
            id,
            allocated: AllocatedService {
                endpoints,
                files_dir: files_dir.into(),
            },
            log: None,
            state: ServiceState::Allocated,
            program: None,
            follow: FollowSpec::default(),
            jail,
            root: root.trim_end_matches('/').to_owned(),
            stop_signal: "TERM",
        };
        self.services.insert(wanted.service.clone(), service);
        Ok(())
    }

    /// Tells each machine which services to follow.
    fn follow(&mut self, host: &str) -> Result<(), HostError> {
        let Some(slot) = self.machines.slots.get(host) else {
            return Ok(());
        };
        let mut slot = slot.borrow_mut();
        let services = &self.services;
        let followed = slot.call(|machine| {
            let of_host = services.iter().filter(|(_, it)| it.host == host);
            let running = of_host.filter(|(_, it)| it.state == ServiceState::Running);
            let followed = running
                .map(|(name, service)| (name.clone(), service.followed(&machine.folder)))
                .collect();
            Ok(machine.follow(followed)?)
        });
        followed.map_err(|error| slot.error(&error))
    }

    fn write_files(&self, spec: &ServiceSpec) -> Result<(), HostError> {
        self.with_service(&spec.name, |machine, service| {
            let folder = &service.allocated.files_dir;
            let folder = PathBuf::from(format!("{}{}", service.root, folder.display()));
            let files = [(false, &spec.files), (true, &spec.secrets)];
            let files = files.into_iter().flat_map(|(is_secret, files)| {
                files
                    .iter()
                    .map(move |(name, bytes)| (is_secret, name, bytes))
            });
            let files: Vec<_> = files.collect();
            let folders: BTreeSet<String> = files
                .iter()
                .filter_map(|(_, name, _)| folder.join(name).parent().map(Path::to_owned))
                .map(|path| path.to_string_lossy().into_owned())
                .collect();
            machine.make_folders(&folders)?;
            for (is_secret, name, bytes) in files {
                let path = folder.join(name);
                machine.write_file(&path.to_string_lossy(), bytes, is_secret)?;
            }
            Ok(())
        })
    }

    /// Fails if another process listens on one of the service's ports.
    fn check_ports(&self, name: &str) -> Result<(), HostError> {
        let taken = self.with_service(name, |machine, service| {
            let occupied = machine.occupied()?;
            let mut endpoints = service.allocated.endpoints.values();
            Ok(endpoints.find(|it| occupied.has(it)).cloned())
        })?;
        let endpoint = match taken {
            Some(Endpoint::Tcp(address)) => address.to_string(),
            Some(Endpoint::Udp(address)) => format!("UDP {address}"),
            Some(Endpoint::Unix(_)) | None => return Ok(()),
        };
        let host = self.services.get(name).map(|service| service.host.clone());
        Err(HostError::Elsewhere {
            host: host.unwrap_or_default(),
            text: format!("service {name}: {endpoint} is in use on that machine"),
        })
    }

    /// Ends a service and fetches its log.
    fn end(&mut self, name: &str) -> Result<ServiceStop, HostError> {
        let began = Instant::now();
        let is_running = self
            .services
            .get(name)
            .is_some_and(|service| service.state == ServiceState::Running);
        if !is_running {
            return Ok(ServiceStop::default());
        }
        let ended = self.end_processes(name);
        let log_bytes_cut = match &ended {
            Ok(_) => self.fetch_log(name)?,
            Err(_) => 0,
        };
        let host = self.services.get_mut(name).map(|service| {
            service.state = ServiceState::Stopped;
            service.host.clone()
        });
        if let Some(host) = host.filter(|_| ended.is_ok()) {
            self.follow(&host)?;
        }
        let (status, killed) = ended?;
        Ok(ServiceStop {
            status,
            killed,
            took: began.elapsed(),
            log_bytes_cut,
        })
    }

    /// Sends the stop signal to a service, and kills it after a timeout. Returns the exit status,
    /// and true if the service was killed.
    fn end_processes(&mut self, name: &str) -> Result<(Option<String>, bool), HostError> {
        let signal = self
            .services
            .get(name)
            .map_or("TERM", |service| service.stop_signal);
        let mut main_ended = false;
        let mut last = self.check(name)?;
        self.signal(name, signal)?;
        let until = Instant::now() + STOP_TIMEOUT;
        while last.processes > 0 && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
            last = self.check(name)?;
            // Processes that outlive the main process, such as the children of a shell, get the
            // signal too.
            if last.ended.is_some() && !main_ended {
                main_ended = true;
                self.signal(name, signal)?;
            }
        }
        if last.processes == 0 {
            return Ok((last.status(), false));
        }
        let until = Instant::now() + KILL_TIMEOUT;
        while last.processes > 0 && Instant::now() < until {
            self.with_service(name, |machine, service| {
                Ok(machine.run(&format!("end {}", service.id)).map(drop)?)
            })?;
            std::thread::sleep(POLL_INTERVAL);
            last = self.check(name)?;
        }
        if last.processes > 0 {
            return Err(HostError::Survived {
                service: name.to_owned(),
                pids: Vec::new(),
            });
        }
        Ok((last.status(), true))
    }

    fn signal(&self, name: &str, signal: &str) -> Result<(), HostError> {
        self.with_service(name, |machine, service| {
            let script = format!("stop {} {signal}", service.id);
            Ok(machine.run(&script).map(drop)?)
        })
    }

    /// Fetches the log of a service that has ended into the trial's folder. Returns the number of
    /// bytes that were left out.
    fn fetch_log(&mut self, name: &str) -> Result<u64, HostError> {
        let Some(path) = self.services.get_mut(name).and_then(|it| it.log.take()) else {
            return Ok(0);
        };
        let (size, head, tail) = self.with_service(name, |machine, service| {
            let file = quoted(&format!("{}/{}.log", machine.folder, service.id));
            let sections = machine.run(&format!("log {file} {}", log::KEPT_BYTES))?;
            let size: u64 = section(&sections, "size").trim().parse().unwrap_or(0);
            // The newline before the next mark is not a part of the file.
            let text = |name: &str| {
                let text = section(&sections, name);
                text.strip_suffix('\n').unwrap_or(text).to_owned()
            };
            let tail = sections.contains_key("tail").then(|| text("tail"));
            Ok((size, text("head"), tail))
        })?;
        let written = match tail {
            None => fs::write(&path, head).map(|()| 0),
            Some(tail) => log::write_cut(&path, size, head.into_bytes(), tail.into_bytes()),
        };
        written.map_err(HostError::file("write", path))
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
