//! Implementation of [`Host`] for this machine.

mod allocation;
mod container;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_plan::service::{
    AllocatedService, Allocation, ContainerSpec, Endpoint, PlaceKind, ServiceSpec,
};
use prony_plan::topology::Topology;
use prony_plan::watch_spec::WatchSpec;
use prony_record::{Finding, number};

use super::crypto_findings::CryptoFindings;
use super::keeper::{self, CleanupCommand};
use super::launch::{self, LaunchMode, RunningService};
use super::log::{self, LogTrimmer};
use super::monitors::Monitors;
use super::{Host, HostError, ProbeFailure, ReadinessProbe, ServiceExit, ServiceStop};
use crate::environment::Environment;
use crate::place::{self, ControlGroup, Image, NetnsHandle, NetworkTopology, Sandbox};
use crate::run_state::{self, CreatedResource, RunState};
use crate::sampling::{SamplingProfile, SamplingRefused, SamplingSession};
use crate::sweep;
use crate::system::process::ProcessTable;
use crate::system::sources::{self, ServiceCommand};
use crate::system::{self, SampledService, Sampler};
use crate::telemetry::TelemetrySample;

use container::ServiceContainer;
use service::LocalService;

/// Default time limit for a service to end after its stop signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for killed processes to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of processes per service that the run state lists for a later sweep. Without a
/// limit, a server that forks for each request would fill the disk.
const RECORDED_PROCESSES_MAX: usize = 256;

/// Number of log lines in an error message.
const LOG_TAIL_LINES: usize = 20;

/// A host that runs services on this machine.
#[derive(Debug)]
pub struct LocalHost {
    base: PathBuf,
    stop_timeout: Duration,
    sampler: Sampler,
    monitors: Monitors,
    crypto_findings: CryptoFindings,
    /// Cores for services to which the plan assigns no cores: all cores that prony could use when
    /// this host was created. The thread that starts a service may be bound to fewer cores.
    default_cores: Vec<usize>,
    /// Kinds of places for which [`place::check`] has succeeded.
    checked: BTreeSet<PlaceKind>,
    /// State of the run; `None` while nothing is allocated.
    run: Option<RunState>,
    services: BTreeMap<String, LocalService>,
    /// Named places and links of the trial; `None` if there are none.
    network: Option<NetworkTopology>,
    /// Running services in start order.
    started: Vec<String>,
    log_trimmer: LogTrimmer,
    /// Samples of servers that prony did not start, by name.
    listener_samples: BTreeMap<String, Result<SamplingSession, SamplingRefused>>,
    /// Images of the services' containers, which are fetched once.
    images: Vec<(ContainerSpec, Image)>,
    /// Address at which other machines reach this machine; `None` if they can't reach it.
    address: Option<IpAddr>,
}

impl LocalHost {
    /// Creates a host with its state in the default folder (see [`run_state`]).
    ///
    /// # Errors
    /// [`HostError::File`] if no folder can be used.
    pub fn new() -> Result<Self, HostError> {
        Ok(Self::with_state_in(run_state::base()?))
    }

    /// Creates a host with its state in `base`, which must exist.
    #[must_use]
    pub fn with_state_in(base: PathBuf) -> Self {
        Self {
            base,
            stop_timeout: STOP_TIMEOUT,
            sampler: Sampler::new(),
            monitors: Monitors::default(),
            crypto_findings: CryptoFindings::default(),
            default_cores: system::allowed_cores(),
            checked: BTreeSet::new(),
            run: None,
            services: BTreeMap::new(),
            network: None,
            started: Vec::new(),
            log_trimmer: LogTrimmer::default(),
            listener_samples: BTreeMap::new(),
            images: Vec::new(),
            address: None,
        }
    }

    /// Sets the address at which other machines reach this machine. Exposed native services listen
    /// on this address. If no address is set, they listen on the loopback address.
    pub fn set_address(&mut self, address: IpAddr) {
        self.address = Some(address);
    }

    /// Returns the kernel's ID of the current boot, which is the same for all agents on a machine.
    #[must_use]
    pub fn boot() -> String {
        system::boot_id()
    }

    /// Returns the cores that services may use, in ascending order.
    #[must_use]
    pub fn cores(&self) -> &[usize] {
        &self.default_cores
    }

    /// Sets the time limit for a service to end after its stop signal (10 s by default).
    pub fn set_stop_timeout(&mut self, timeout: Duration) {
        self.stop_timeout = timeout;
    }

    /// Ends a service. A timeout of zero kills it without a stop signal.
    fn end(&mut self, name: &str, timeout: Duration) -> Result<ServiceStop, HostError> {
        let began = Instant::now();
        self.record_processes(&system::processes());
        let keepers = self.keepers();
        let Some(service) = self.services.get_mut(name) else {
            return Ok(ServiceStop::default());
        };
        let Some(mut running) = service.running.take() else {
            return Ok(ServiceStop::default());
        };
        let ended = !timeout.is_zero() && running.ask_to_end(timeout);
        if !ended && !running.kill(KILL_TIMEOUT) {
            running.kill_keeper(KILL_TIMEOUT);
        }
        // A keeper ends after its service. If the keeper was killed, this process has adopted the
        // service's processes.
        if running
            .keeper_ended()
            .is_none_or(|status| !status.success())
        {
            let recorded = service.recorded.drain().collect();
            let pids = sweep::kill_with_strays(recorded, &keepers, KILL_TIMEOUT);
            if !pids.is_empty() {
                return Err(HostError::Survived {
                    service: name.to_owned(),
                    pids,
                });
            }
        }
        service.recorded.clear();
        service.sampling = None;
        let status = running.main_ended().map(|status| status.to_string());
        let took = began.elapsed();
        let log_bytes_cut = service.log.as_ref().map_or(0, |log| {
            self.log_trimmer.forget(log);
            // A log that can't be cut only uses more disk space.
            log::cut(log).unwrap_or(0)
        });
        Ok(ServiceStop {
            status,
            killed: !ended,
            took,
            log_bytes_cut,
        })
    }

    /// Returns the network from which the service is probed; `None` means this process's own
    /// network. HTTP requests reach a sandbox from outside, but the ports bound in a sandbox are
    /// visible only inside.
    fn network_for(
        &self,
        service: &LocalService,
        probe: &ReadinessProbe,
    ) -> Result<Option<NetnsHandle>, HostError> {
        if let Some(sandbox) = service.sandbox.as_ref().filter(|_| probe.looks_at_ports()) {
            let handle = NetnsHandle::to(&sandbox.entry()?);
            let failed = HostError::file("open", Path::new("network namespace"));
            return handle.map(Some).map_err(failed);
        }
        self.netns_handle(service.place)
    }

    /// Returns the TCP ports of the services' listeners, with the name of each service.
    fn ports(&self) -> BTreeMap<u16, String> {
        let mut ports = BTreeMap::new();
        for (name, service) in &self.services {
            for endpoint in service.allocated.endpoints.values() {
                if let Endpoint::Tcp(address) = endpoint {
                    ports.insert(address.port(), name.clone());
                }
            }
        }
        ports
    }

    /// Returns the process IDs of the running services' keepers.
    fn keepers(&self) -> Vec<i32> {
        let running = self.services.values().filter_map(|it| it.running.as_ref());
        running.map(RunningService::keeper_pid).collect()
    }

    /// Ends all services and removes all resources. Continues after an error, and returns the first
    /// one.
    fn tear_down(&mut self, timeout: Duration) -> Result<(), HostError> {
        let mut result = Ok(());
        // End each service before the services that it needs.
        for name in std::mem::take(&mut self.started).into_iter().rev() {
            result = result.and(self.end(&name, timeout).map(drop));
        }
        self.log_trimmer.end();
        self.services.clear();
        self.network = None;
        if let Some(run) = self.run.take() {
            for created in run.created().iter().rev() {
                result = result.and(place::remove(created).map(drop));
            }
            // After an error, keep the run state for the next sweep.
            if result.is_ok() {
                result = run.remove();
            }
        }
        result
    }

    /// Adds new processes to the run state, so that a sweep finds them if this process is killed.
    fn record_processes(&mut self, table: &ProcessTable) {
        let Some(run) = &mut self.run else { return };
        for service in self.services.values_mut() {
            let Some(running) = &service.running else {
                continue;
            };
            let keeper = running.keeper_pid();
            // If the keeper was killed, the main process has another parent.
            let roots = [Some(keeper), running.main_pid()].into_iter().flatten();
            let roots = roots.filter_map(|pid| table.get(pid));
            for process in
                roots.flat_map(|root| std::iter::once(root).chain(table.descendants(root.pid)))
            {
                let key = (process.pid, process.start);
                if service.recorded.len() < RECORDED_PROCESSES_MAX && service.recorded.insert(key) {
                    // Ignore errors: at worst, a later sweep misses this process.
                    let _ = run.record(&CreatedResource::Process {
                        pid: process.pid,
                        start: process.start,
                    });
                }
            }
        }
    }

    /// Returns the process IDs of each running service, starting with its first process.
    fn process_ids(&self) -> BTreeMap<String, Vec<i32>> {
        let table = system::processes();
        let of_service = |(name, service): (&String, &LocalService)| {
            let keeper = service.running.as_ref()?.keeper_pid();
            if let Some(pids) = service.container.as_ref().and_then(|it| it.processes()) {
                return Some((name.clone(), pids));
            }
            let copies_of_prony = usize::from(service.is_isolated());
            let tree = table.descendants(keeper).into_iter().skip(copies_of_prony);
            Some((name.clone(), tree.map(|process| process.pid).collect()))
        };
        self.services.iter().filter_map(of_service).collect()
    }

    /// Adds to the exit status of a service that the kernel killed one of its processes, if so.
    fn with_cause(&self, name: &str, status: String) -> String {
        let Some(service) = self.services.get(name) else {
            return status;
        };
        let container = service.container.as_ref();
        let contained = container.filter(|it| it.ran_out_of_memory());
        let group = service.group.as_ref();
        let exceeded = group.and_then(ControlGroup::exceeded_memory_bytes);
        match exceeded.or(contained.and(service.memory_bytes)) {
            Some(bytes) => format!(
                "{status}; out of memory: the kernel killed a process of the service at its limit, \
                 memory = {}",
                number::bytes(bytes as f64)
            ),
            None => status,
        }
    }

    fn sampled_services(&self) -> Vec<SampledService> {
        let running = self
            .services
            .iter()
            .filter_map(|(name, service)| Some((name, service, service.running.as_ref()?)));
        let own = running.map(|(name, service, running)| SampledService {
            service: name.clone(),
            keeper: Some(running.keeper_pid()),
            has_init: service.is_isolated(),
            group: service.accounting().map(Path::to_owned),
            is_container: service
                .container
                .as_ref()
                .is_some_and(|it| it.group().is_some()),
            follow: service.follow.clone(),
        });
        own.chain(self.monitors.external_services()).collect()
    }
}

impl Host for LocalHost {
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<BTreeMap<String, AllocatedService>, HostError> {
        self.release()?;
        if let Some(host) = wanted.iter().find_map(|wanted| wanted.host.as_ref()) {
            let text = "this machine can only be reached through its agent".to_owned();
            return Err(HostError::Elsewhere {
                host: host.clone(),
                text,
            });
        }
        let named = (0..topology.places.len().min(1)).map(PlaceKind::Named);
        for kind in wanted.iter().map(|wanted| wanted.place).chain(named) {
            if !self.checked.contains(&kind) {
                place::check_kind(kind).map_err(|reason| HostError::Place {
                    kind,
                    reason: reason.to_string(),
                })?;
                self.checked.insert(kind);
            }
        }
        if let Err(error) = self.try_allocate(wanted, topology) {
            // Report only the first error.
            let _ = self.tear_down(Duration::ZERO);
            return Err(error);
        }
        Ok(self
            .services
            .iter()
            .map(|(name, service)| (name.clone(), service.allocated.clone()))
            .collect())
    }

    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError> {
        let service = self
            .services
            .get_mut(&spec.name)
            .ok_or_else(|| HostError::NotAllocated(spec.name.clone()))?;
        if service.running.is_some() {
            return Err(HostError::AlreadyRunning(spec.name.clone()));
        }
        debug_assert_eq!(
            service.place, spec.place,
            "a service must start in the place allocated for it"
        );
        fs::create_dir_all(log_dir).map_err(HostError::file("create", log_dir))?;
        let log = launch::inside(log_dir, &format!("{}.log", spec.name))?;
        launch::write_files(spec, &service.allocated.files_dir)?;
        service.free_endpoints(&spec.name)?;
        if let Some(ended) = service.container.take() {
            ended.remove()?;
        }
        let mut starter = None;
        if let (Some(container), Some(run)) = (&spec.container, &mut self.run) {
            let known = self
                .images
                .iter()
                .find(|(known, _)| known.is_same_image(container));
            let image = match known {
                Some((_, image)) => image.clone(),
                None => {
                    let image = container::fetch(&spec.name, container)?;
                    self.images.push((container.clone(), image.clone()));
                    image
                }
            };
            let files_dir = &service.allocated.files_dir;
            let (prepared, spec) =
                ServiceContainer::prepare(image, spec, container, files_dir, run)?;
            service.container = Some(prepared);
            starter = Some(spec);
        }
        let launched = starter.as_ref().unwrap_or(spec);
        service.group = match &mut self.run {
            Some(run) if !launched.limits.is_empty() => Some(limited_group(launched, run)?),
            _ => None,
        };
        let entry = service.sandbox.as_ref().map(Sandbox::entry).transpose()?;
        let mode = match (&entry, service.place) {
            (Some(entry), _) => LaunchMode::Sandbox(entry),
            (None, PlaceKind::Named(place)) => {
                let entry = self.network.as_ref().and_then(|it| it.entry(place));
                let entry = entry.ok_or_else(|| HostError::NotAllocated(spec.name.clone()))?;
                LaunchMode::Network(entry)
            }
            (None, _) => LaunchMode::Native,
        };
        // Ignore failures: if this process can't adopt orphans and a keeper is killed, only its
        // recorded processes are found.
        keeper::adopt_orphans();
        service.log = Some(log.clone());
        service.cores.clone_from(&spec.cores);
        service.memory_bytes = spec.limits.memory_bytes;
        service.follow = spec.follow.clone();
        // The files that a container's command names are in the image.
        let on_machine = spec.container.is_none();
        service.command = if on_machine {
            spec.command.clone()
        } else {
            Vec::new()
        };
        service.cwd.clone_from(&spec.cwd);
        service.path = spec.env.get("PATH").cloned();
        let group = service.group.as_ref();
        let cleanup = match (&service.container, group) {
            (Some(container), _) => CleanupCommand::new(container.removal()),
            (None, Some(group)) => group.removal().and_then(CleanupCommand::new),
            (None, None) => None,
        };
        let (monitors, default_cores) = (&mut self.monitors, self.default_cores.as_slice());
        // Counters and samples include the thread that opens them and all processes that this thread
        // starts. Use a new thread, which starts nothing else.
        let result = std::thread::scope(|scope| {
            let launch = || {
                let counters = monitors.counters_of_descendants();
                let samples = monitors.samples_of_descendants();
                launch::launch(launched, mode, group, cleanup, default_cores, &log)
                    .map(|running| (running, counters, samples))
            };
            scope.spawn(launch).join()
        });
        let (running, counters, samples) =
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        (service.running, service.counters) = (Some(running), counters);
        service.sampling = samples;
        self.log_trimmer.watch(&log);
        self.started.push(spec.name.clone());
        self.record_processes(&system::processes());
        Ok(())
    }

    fn alive(&mut self, name: &str) -> Result<(), ServiceExit> {
        let status = self
            .services
            .get_mut(name)
            .and_then(|service| service.running.as_mut())
            .map_or_else(
                || Some("not running".to_owned()),
                |running| match (running.main_ended(), running.keeper_ended()) {
                    (Some(status), None) if status.success() => None,
                    (Some(status), _) => Some(status.to_string()),
                    (None, Some(_)) => Some("the keeper was killed".to_owned()),
                    (None, None) => None,
                },
            );
        let table = system::processes();
        self.record_processes(&table);
        let ended_without_daemon = |service: &mut LocalService| {
            service.open_sockets();
            if let Some(container) = &mut service.container {
                container.find_group();
            }
            let copies_of_prony = usize::from(service.is_isolated());
            let running = service.running.as_mut()?;
            let left = table.descendants(running.keeper_pid()).len();
            running.main_ended().filter(|_| left <= copies_of_prony)
        };
        let ended = self
            .services
            .get_mut(name)
            .and_then(ended_without_daemon)
            .map(|status| status.to_string());
        match status.or(ended) {
            None => Ok(()),
            Some(status) => Err(ServiceExit {
                service: name.to_owned(),
                status: self.with_cause(name, status),
                log_tail: self.log_tail(name, LOG_TAIL_LINES),
            }),
        }
    }

    fn probe_readiness(
        &mut self,
        name: &str,
        probe: &ReadinessProbe,
    ) -> Result<Option<u16>, ProbeFailure> {
        let service = self.services.get(name);
        let netns = service.map(|service| self.network_for(service, probe));
        let netns = netns.transpose();
        match netns
            .map_err(|error| ProbeFailure::Unentered(Box::new(error)))?
            .flatten()
        {
            Some(netns) => netns
                .run_inside(|| probe.run())
                .map_err(|error| ProbeFailure::Unentered(Box::new(error)))?,
            None => probe.run(),
        }
    }

    fn log_tail(&self, name: &str, lines: usize) -> String {
        let log = self
            .services
            .get(name)
            .and_then(|service| service.log.as_ref());
        log.map_or_else(String::new, |log| log::tail(log, lines))
    }

    fn watch(&mut self, watch: WatchSpec) {
        self.monitors.set(watch);
        self.monitors.begin_kernel_log();
    }

    fn sample(&mut self) -> TelemetrySample {
        let began = Instant::now();
        self.monitors.begin();
        let table = system::processes();
        self.record_processes(&table);
        let services = self.sampled_services();
        let mut sample = self.sampler.sample(&table, &services);
        sample.cost = began.elapsed();
        let mut cores = BTreeMap::new();
        for (name, service) in &mut self.services {
            if let (Some(counters), Some(sample)) =
                (&mut service.counters, sample.services.get_mut(name))
            {
                sample.hardware = Some(counters.read());
            }
            cores.insert(name.clone(), service.cores.clone());
        }
        self.monitors.complete(&mut sample, &cores);
        if let Some(network) = &mut self.network {
            sample.links = network.traffic();
            sample.round_trips_us = network.round_trips_us();
            // Relays are threads of this process, but no part of the load generator.
            let relays_s = network.relays_cpu_time().as_secs_f64();
            let host = &mut sample.host;
            host.generator_system_s = (host.generator_system_s - relays_s).max(0.0);
        }
        sample
    }

    fn begin_profiles(&mut self) {
        self.listener_samples = self.monitors.begin_samples_of_listeners();
        let mut pids = self.process_ids();
        let table = system::processes();
        for (name, service) in &mut self.services {
            let Some(Ok(session)) = &mut service.sampling else {
                continue;
            };
            let pids = pids.remove(name).unwrap_or_default();
            // Processes of a container may have been started by the container runtime.
            let keeper = service.running.as_ref().map(RunningService::keeper_pid);
            let own = table.descendants(keeper.unwrap_or_default());
            let is_own = |pid: &i32| own.iter().any(|process| process.pid == *pid);
            let others: Vec<i32> = pids.iter().copied().filter(|it| !is_own(it)).collect();
            session.expect(&pids);
            let mut begun = Ok(());
            if !others.is_empty() {
                begun = session.include(&others);
            }
            if let Err(refused) = begun.and_then(|()| session.begin()) {
                service.sampling = Some(Err(refused));
            }
        }
    }

    fn count_samples(&mut self, name: Option<&str>, counting: bool) {
        let services = self.services.iter();
        let own = services.filter_map(|(name, it)| Some((name, it.sampling.as_ref()?)));
        for (of_service, session) in own.chain(&self.listener_samples) {
            if let Ok(session) = session
                && name.is_none_or(|name| name == of_service)
            {
                session.count(counting);
            }
        }
    }

    fn take_profile(&mut self, name: &str) -> Option<Result<SamplingProfile, SamplingRefused>> {
        let own = self
            .services
            .get_mut(name)
            .and_then(|it| it.sampling.take());
        match own.or_else(|| self.listener_samples.remove(name))? {
            Ok(session) => session.finish().map(Ok),
            Err(refused) => Some(Err(refused)),
        }
    }

    fn take_findings(&mut self) -> Vec<Finding> {
        let mut findings = self.monitors.findings();
        findings.extend(self.monitors.syn_floods(&self.ports()));
        let network = self.network.as_ref();
        findings.extend(network.map(NetworkTopology::findings).unwrap_or_default());
        findings
    }

    fn stop(&mut self, name: &str) -> Result<ServiceStop, HostError> {
        self.end(name, self.stop_timeout)
    }

    fn release(&mut self) -> Result<(), HostError> {
        self.tear_down(self.stop_timeout)
    }

    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding> {
        let pids = self.process_ids().remove(&spec.name)?;
        self.crypto_findings.of_service(spec, &pids)
    }

    fn environment(&mut self) -> Environment {
        let mut environment = system::environment(&self.process_ids());
        environment.machine.hardware_counters = self.monitors.counters();
        for (name, service) in self.services.iter().filter(|(_, it)| it.running.is_some()) {
            let programs = environment.services.get(name).into_iter().flatten();
            let programs = programs.filter(|program| program.sha256.is_some());
            let programs: Vec<&Path> = programs.map(|it| it.path.as_path()).collect();
            let command = ServiceCommand {
                words: &service.command,
                cwd: &service.cwd,
                files_dir: &service.allocated.files_dir,
                path: service.path.as_deref(),
            };
            let mut sources = sources::service_sources(&command, &programs);
            sources.image = service.container.as_ref().map(|it| it.image.facts.clone());
            environment.sources.insert(name.clone(), sources);
        }
        if let Some(network) = &self.network {
            environment.places.clone_from(network.facts());
            environment.links = network.link_facts();
        }
        environment
    }

    fn netns_handle(&self, place: PlaceKind) -> Result<Option<NetnsHandle>, HostError> {
        let PlaceKind::Named(place) = place else {
            return Ok(None);
        };
        let network = self.network.as_ref();
        let handle = network.map(|network| network.netns_handle(place));
        match handle.transpose()?.flatten() {
            Some(handle) => Ok(Some(handle)),
            None => Err(HostError::NotAllocated(format!("named place {place}"))),
        }
    }
}

/// Creates the control group of a service with limits.
fn limited_group(spec: &ServiceSpec, run: &mut RunState) -> Result<ControlGroup, HostError> {
    let name = format!("{}-{}", run.resource_prefix(), spec.name.replace('/', "_"));
    ControlGroup::make(&name, &spec.limits, run).map_err(|(key, reason)| HostError::Limit {
        service: spec.name.clone(),
        key,
        reason: reason.to_string(),
    })
}

impl Drop for LocalHost {
    /// Cleans up after a panic or an interrupt. Services are killed without a stop signal.
    fn drop(&mut self) {
        let _ = self.tear_down(Duration::ZERO);
    }
}
