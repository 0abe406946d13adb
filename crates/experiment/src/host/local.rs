//! This machine as a [`Host`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_record::Finding;

use super::examine::Examined;
use super::keeper;
use super::launch::{self, Running, Way};
use super::log::{self, LogTrimmer};
use super::process::Table;
use super::state::{self, Made, RunState};
use super::system::hardware::Group;
use super::system::{self, Reader, Watched};
use super::watching::Watching;
use super::{Exited, Host, HostError, Knock, Stopped, port};
use crate::environment::Environment;
use crate::place::topology::Topology;
use crate::place::{self, Door, Room, Site};
use crate::service::{Allocated, Allocation, Endpoint, Follow, ListenKind, PlaceKind, ServiceSpec};
use crate::sweep;
use crate::telemetry::{TelemetrySample, WatchSpec};

/// How long a service may take to end after its stop signal.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the kernel may take to end what was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// The longest path that fits into a socket's address, its final NUL included.
const SOCKET_PATH_MAX: usize = if cfg!(target_os = "freebsd") {
    104
} else {
    108
};

/// As many processes of a service are written down for a later sweep. A server that forks for each
/// request would otherwise fill the disk.
const RECORDED_PROCESSES_MAX: usize = 256;

/// The lines of a log that a failure shows.
const TAIL_LINES: usize = 20;

/// This machine.
#[derive(Debug)]
pub struct LocalHost {
    base: PathBuf,
    patience: Duration,
    reader: Reader,
    watching: Watching,
    examined: Examined,
    /// The cores that prony itself could use when the host was made: a service without cores of its
    /// own must not inherit those to which a thread of the load was bound meanwhile.
    any_core: Vec<usize>,
    checked: BTreeSet<PlaceKind>,
    /// `None` while nothing is allocated.
    run: Option<RunState>,
    services: BTreeMap<String, Service>,
    /// The named places, where the trial has some.
    site: Option<Site>,
    /// The services in the order in which they were started.
    started: Vec<String>,
    log_trimmer: LogTrimmer,
    /// Where services listen that other machines have to reach.
    address: Option<IpAddr>,
}

/// A service from its allocation on.
#[derive(Debug)]
struct Service {
    place: PlaceKind,
    allocated: Allocated,
    room: Option<Room>,
    running: Option<Running>,
    /// The cores that the plan gives it; none: any.
    cores: Vec<usize>,
    follow: Follow,
    /// What the processor counts for it, where that is counted by process.
    counters: Option<Group>,
    log: Option<PathBuf>,
    recorded: HashSet<(i32, u64)>,
}

impl LocalHost {
    /// This machine, with its state in the usual folder (see [`state`]).
    ///
    /// # Errors
    /// [`HostError::File`] if there is no place for the state.
    pub fn new() -> Result<Self, HostError> {
        Ok(Self::with_state_in(state::base()?))
    }

    /// This machine, with its state in a folder of the caller's, which must exist.
    #[must_use]
    pub fn with_state_in(base: PathBuf) -> Self {
        Self {
            base,
            patience: PATIENCE,
            reader: Reader::new(),
            watching: Watching::default(),
            examined: Examined::default(),
            any_core: system::allowed_cores(),
            checked: BTreeSet::new(),
            run: None,
            services: BTreeMap::new(),
            site: None,
            started: Vec::new(),
            log_trimmer: LogTrimmer::default(),
            address: None,
        }
    }

    /// Sets the address at which other machines reach this one: native services that they need
    /// listen there, and would on the loopback without it.
    pub fn set_address(&mut self, address: IpAddr) {
        self.address = Some(address);
    }

    /// The kernel's name for this boot of the machine; what two agents of one machine have in common.
    #[must_use]
    pub fn boot() -> String {
        system::boot_id()
    }

    /// The cores that services may run on, ascending.
    #[must_use]
    pub fn cores(&self) -> &[usize] {
        &self.any_core
    }

    /// Sets how long a service may take to end after its stop signal (10 s unless set).
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn try_allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<(), HostError> {
        let run = self
            .run
            .insert(RunState::create(&self.base, &system::boot_id())?);
        if !topology.is_empty() {
            let prefix = room_prefix(run.folder());
            self.site = Some(Site::make(&prefix, topology, run)?);
        }
        let has_room =
            |wanted: &Allocation| matches!(wanted.place, PlaceKind::Namespace | PlaceKind::Jail);
        let last_apart = wanted.iter().rposition(has_room);
        let base = last_apart.map(|_| place::free_base()).transpose()?;
        for (number, wanted) in wanted.iter().enumerate() {
            let Some(base) = base.filter(|_| has_room(wanted)) else {
                continue;
            };
            let name = format!("{}-{number}", room_prefix(run.folder()));
            let room = Room::make(&name, base, run)?;
            self.services.insert(
                wanted.service.clone(),
                Service::new(wanted.place, Some(room)),
            );
        }
        let reachable = self
            .services
            .values()
            .find_map(|service| service.room.as_ref())
            .map(|room| room.outside);
        for (number, wanted) in wanted.iter().enumerate() {
            let service = self
                .services
                .entry(wanted.service.clone())
                .or_insert_with(|| Service::new(wanted.place, None));
            let address = match (&service.room, self.address) {
                (Some(room), _) => room.inside.into(),
                (None, Some(address)) if wanted.exposed => address,
                _ if matches!(wanted.place, PlaceKind::Named(_)) => Ipv4Addr::LOCALHOST.into(),
                _ => match reachable {
                    Some(address) if last_apart > Some(number) => address.into(),
                    _ => Ipv4Addr::LOCALHOST.into(),
                },
            };
            let files_dir = launch::inside(&run.folder().join("files"), &wanted.service)?;
            state::make_folder(&run.folder().join("files"))?;
            state::make_folder(&files_dir)?;
            service.allocated.files_dir = files_dir;
            for (name, kind) in &wanted.listen {
                let endpoint = match kind {
                    ListenKind::Tcp => {
                        Endpoint::Tcp(pick_address(address, service.has_own_network())?)
                    }
                    ListenKind::Unix => {
                        Endpoint::Unix(socket_path(&run.sockets(), &wanted.service, name, number)?)
                    }
                };
                service.allocated.endpoints.insert(name.clone(), endpoint);
            }
        }
        Ok(())
    }

    /// Ends a service, with or without asking first.
    fn end(&mut self, name: &str, patience: Duration) -> Result<Stopped, HostError> {
        let began = Instant::now();
        self.record_processes(&system::processes());
        let keepers = self.keepers();
        let nothing = Stopped {
            status: None,
            killed: false,
            took: Duration::ZERO,
            log_bytes_cut: 0,
        };
        let Some(service) = self.services.get_mut(name) else {
            return Ok(nothing);
        };
        let Some(mut running) = service.running.take() else {
            return Ok(nothing);
        };
        let ended = !patience.is_zero() && running.ask_to_end(patience);
        if !ended && !running.kill(KILL_PATIENCE) {
            running.kill_keeper(KILL_PATIENCE);
        }
        // A keeper ends by itself; one that was killed has left what it kept to this process.
        if running
            .keeper_ended()
            .is_none_or(|status| !status.success())
        {
            let recorded = service.recorded.drain().collect();
            let pids = sweep::kill_with_strays(recorded, &keepers, KILL_PATIENCE);
            if !pids.is_empty() {
                return Err(HostError::Survived {
                    service: name.to_owned(),
                    pids,
                });
            }
        }
        service.recorded.clear();
        let status = running.main_ended().map(|status| status.to_string());
        let took = began.elapsed();
        let log_bytes_cut = service.log.as_ref().map_or(0, |log| {
            self.log_trimmer.forget(log);
            // A log that can't be cut stays whole, which costs only space.
            log::cut(log).unwrap_or(0)
        });
        Ok(Stopped {
            status,
            killed: !ended,
            took,
            log_bytes_cut,
        })
    }

    /// The TCP ports that services listen on, each with its service.
    #[cfg(target_os = "linux")]
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

    /// The keepers of the services that run.
    fn keepers(&self) -> Vec<i32> {
        let running = self.services.values().filter_map(|it| it.running.as_ref());
        running.map(Running::keeper_pid).collect()
    }

    /// Ends everything and removes everything; the first failure is reported, the rest still done.
    fn take_down(&mut self, patience: Duration) -> Result<(), HostError> {
        let mut result = Ok(());
        // Those that need others end before these.
        for name in std::mem::take(&mut self.started).into_iter().rev() {
            result = result.and(self.end(&name, patience).map(drop));
        }
        self.log_trimmer.end();
        self.services.clear();
        self.site = None;
        if let Some(run) = self.run.take() {
            for made in run.places().iter().rev() {
                result = result.and(place::remove(made).map(drop));
            }
            // A failure leaves the record of what could not be removed to the next sweep.
            if result.is_ok() {
                result = run.remove();
            }
        }
        result
    }

    /// Writes down the processes that are new, for a sweep after this process was killed.
    fn record_processes(&mut self, table: &Table) {
        let Some(run) = &mut self.run else { return };
        for service in self.services.values_mut() {
            let Some(running) = &service.running else {
                continue;
            };
            let keeper = running.keeper_pid();
            // The main process's tree hangs elsewhere if the keeper was killed.
            let roots = [Some(keeper), running.main_pid()].into_iter().flatten();
            let roots = roots.filter_map(|pid| table.get(pid));
            for process in
                roots.flat_map(|root| std::iter::once(root).chain(table.descendants(root.pid)))
            {
                let key = (process.pid, process.start);
                if service.recorded.len() < RECORDED_PROCESSES_MAX && service.recorded.insert(key) {
                    // Without a record only a sweep is weaker; the run itself goes on.
                    let _ = run.record(&Made::Process {
                        pid: process.pid,
                        start: process.start,
                    });
                }
            }
        }
    }

    /// The processes of each service that runs, its first process first.
    fn trees(&self) -> BTreeMap<String, Vec<i32>> {
        let table = system::processes();
        let of_service = |(name, service): (&String, &Service)| {
            let keeper = service.running.as_ref()?.keeper_pid();
            // A namespace's first process is a copy of prony.
            let skipped = usize::from(service.is_apart());
            let tree = table.descendants(keeper).into_iter().skip(skipped);
            Some((name.clone(), tree.map(|process| process.pid).collect()))
        };
        self.services.iter().filter_map(of_service).collect()
    }

    fn watched(&self) -> Vec<Watched> {
        let running = self
            .services
            .iter()
            .filter_map(|(name, service)| Some((name, service, service.running.as_ref()?)));
        let own = running.map(|(name, service, running)| Watched {
            service: name.clone(),
            keeper: Some(running.keeper_pid()),
            #[cfg(target_os = "linux")]
            has_init: service.is_apart(),
            #[cfg(not(target_os = "linux"))]
            room: service.room.as_ref().map(|room| room.inside),
            follow: service.follow.clone(),
        });
        own.chain(self.watching.others()).collect()
    }
}

impl Host for LocalHost {
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<BTreeMap<String, Allocated>, HostError> {
        self.release()?;
        if let Some(host) = wanted.iter().find_map(|wanted| wanted.host.as_ref()) {
            let text = "it is another machine, which only its agent reaches".to_owned();
            return Err(HostError::Elsewhere {
                host: host.clone(),
                text,
            });
        }
        let named = (0..topology.places.len().min(1)).map(PlaceKind::Named);
        for kind in wanted.iter().map(|wanted| wanted.place).chain(named) {
            if !self.checked.contains(&kind) {
                place::check(kind).map_err(|reason| HostError::Place { kind, reason })?;
                self.checked.insert(kind);
            }
        }
        if let Err(error) = self.try_allocate(wanted, topology) {
            // The error that counts is the first one.
            let _ = self.take_down(Duration::ZERO);
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
            "a service starts where it was allocated"
        );
        fs::create_dir_all(log_dir).map_err(HostError::file("create", log_dir))?;
        let log = launch::inside(log_dir, &format!("{}.log", spec.name))?;
        launch::write_files(spec, &service.allocated.files_dir)?;
        service.clear_the_way(&spec.name)?;
        let entry = service.room.as_ref().map(Room::entry).transpose()?;
        let way = match (&entry, service.place) {
            (Some(entry), _) => Way::Into(entry),
            (None, PlaceKind::Named(place)) => {
                let entry = self.site.as_ref().and_then(|site| site.entry(place));
                Way::Network(entry.ok_or_else(|| HostError::NotAllocated(spec.name.clone()))?)
            }
            (None, _) => Way::Stay,
        };
        // Where that fails, a killed keeper's orphans are found by what was recorded alone.
        keeper::adopt_orphans();
        service.log = Some(log.clone());
        service.cores.clone_from(&spec.cores);
        service.follow = spec.follow.clone();
        let (watching, any_core) = (&mut self.watching, self.any_core.as_slice());
        // Counters begin with the thread that opens them and go on in all that it starts; a thread
        // of its own leaves no others behind.
        let launched = std::thread::scope(|scope| {
            let launch = || {
                let counters = watching.counters_of_descendants();
                launch::launch(spec, way, any_core, &log).map(|running| (running, counters))
            };
            scope.spawn(launch).join()
        });
        let (running, counters) =
            launched.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        (service.running, service.counters) = (Some(running), counters);
        self.log_trimmer.watch(&log);
        self.started.push(spec.name.clone());
        self.record_processes(&system::processes());
        Ok(())
    }

    fn alive(&mut self, name: &str) -> Result<(), Exited> {
        let status = self
            .services
            .get_mut(name)
            .and_then(|service| service.running.as_mut())
            .map_or_else(
                || Some("it does not run".to_owned()),
                |running| match (running.main_ended(), running.keeper_ended()) {
                    (Some(status), None) if status.success() => None,
                    (Some(status), _) => Some(status.to_string()),
                    (None, Some(_)) => Some("its keeper was killed".to_owned()),
                    (None, None) => None,
                },
            );
        let table = system::processes();
        self.record_processes(&table);
        let has_detached_or_ended = |service: &mut Service| {
            service.open_sockets();
            let first_of_namespace = usize::from(service.is_apart());
            let running = service.running.as_mut()?;
            let left = table.descendants(running.keeper_pid()).len();
            running.main_ended().filter(|_| left <= first_of_namespace)
        };
        let ended = self
            .services
            .get_mut(name)
            .and_then(has_detached_or_ended)
            .map(|status| status.to_string());
        match status.or(ended) {
            None => Ok(()),
            Some(status) => Err(Exited {
                service: name.to_owned(),
                status,
                log_tail: self.log_tail(name, TAIL_LINES),
            }),
        }
    }

    fn knock(&mut self, name: &str, knock: &Knock) -> Result<Option<u16>, String> {
        let place = self.services.get(name).map(|service| service.place);
        let door = place.map(|place| self.door(place)).transpose();
        let inside = |error: &dyn std::fmt::Display| format!("entering its place: {error}");
        match door.map_err(|error| inside(&error))?.flatten() {
            Some(door) => door
                .within(|| knock.once())
                .map_err(|error| inside(&error))?,
            None => knock.once(),
        }
    }

    fn log_tail(&self, name: &str, lines: usize) -> String {
        let log = self
            .services
            .get(name)
            .and_then(|service| service.log.as_ref());
        log.map_or_else(String::new, |log| tail_of(log, lines))
    }

    fn watch(&mut self, watch: WatchSpec) {
        self.watching.set(watch);
        #[cfg(target_os = "linux")]
        self.watching.begin_kernel_log();
    }

    fn sample(&mut self) -> TelemetrySample {
        let began = Instant::now();
        self.watching.begin();
        let table = system::processes();
        self.record_processes(&table);
        let watched = self.watched();
        let mut sample = self.reader.sample(&table, &watched);
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
        self.watching.complete(&mut sample, &cores);
        if let Some(site) = &mut self.site {
            sample.links = site.traffic();
        }
        sample
    }

    fn unwatched(&mut self) -> Vec<Finding> {
        let mut findings = self.watching.findings();
        #[cfg(target_os = "linux")]
        findings.extend(self.watching.syn_floods(&self.ports()));
        findings
    }

    fn stop(&mut self, name: &str) -> Result<Stopped, HostError> {
        self.end(name, self.patience)
    }

    fn release(&mut self) -> Result<(), HostError> {
        self.take_down(self.patience)
    }

    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding> {
        let tree = self.trees().remove(&spec.name)?;
        self.examined.crypto(spec, &tree)
    }

    fn environment(&mut self) -> Environment {
        let mut environment = system::environment(&self.trees());
        environment.machine.hardware_counters = self.watching.counters();
        if let Some(site) = &self.site {
            environment.places.clone_from(site.facts());
        }
        environment
    }

    fn door(&self, place: PlaceKind) -> Result<Option<Door>, HostError> {
        let PlaceKind::Named(place) = place else {
            return Ok(None);
        };
        let site = self.site.as_ref();
        let door = site.map(|site| site.door(place)).transpose()?.flatten();
        door.map(Some)
            .ok_or_else(|| HostError::NotAllocated(format!("number {place} of the named places")))
    }
}

impl Drop for LocalHost {
    /// After a panic or an interruption: kills without asking, removes what can be removed.
    fn drop(&mut self) {
        let _ = self.take_down(Duration::ZERO);
    }
}

impl Service {
    fn new(place: PlaceKind, room: Option<Room>) -> Self {
        let allocated = Allocated {
            endpoints: BTreeMap::new(),
            files_dir: PathBuf::new(),
        };
        Self {
            place,
            allocated,
            room,
            running: None,
            cores: Vec::new(),
            follow: Follow::default(),
            counters: None,
            log: None,
            recorded: HashSet::new(),
        }
    }

    /// Whether its network and its processes are apart from the host's.
    fn is_apart(&self) -> bool {
        Room::IS_APART && self.room.is_some()
    }

    /// Whether nobody of the host's listens where it does.
    fn has_own_network(&self) -> bool {
        self.is_apart() || matches!(self.place, PlaceKind::Named(_))
    }

    /// Removes a dead socket of an earlier start, and makes sure that nobody took a port meanwhile.
    fn clear_the_way(&self, name: &str) -> Result<(), HostError> {
        for endpoint in self.allocated.endpoints.values() {
            match endpoint {
                Endpoint::Unix(path) => match fs::remove_file(path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(HostError::file("remove", path)(error));
                    }
                    _ => {}
                },
                Endpoint::Tcp(address) if !self.has_own_network() => port::check_free(*address)
                    .map_err(|holder| HostError::PortTaken {
                        service: name.to_owned(),
                        address: *address,
                        holder,
                    })?,
                Endpoint::Tcp(_) => {}
            }
        }
        Ok(())
    }

    /// Lets every user connect to the service's sockets: the load and the other services may run as
    /// anybody, and many servers make their sockets for their own user alone.
    fn open_sockets(&self) {
        for endpoint in self.allocated.endpoints.values() {
            let Endpoint::Unix(path) = endpoint else {
                continue;
            };
            if let Ok(metadata) = path.symlink_metadata()
                && metadata.file_type().is_socket()
                && metadata.permissions().mode() & 0o777 != 0o666
            {
                // If it can't be changed, a connection says so better than this could.
                let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o666));
            }
        }
    }
}

/// `prony-<run's folder>`: unique as long as that folder exists.
fn room_prefix(folder: &Path) -> String {
    let run = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("prony-{run}")
}

fn pick_address(address: IpAddr, own_network: bool) -> Result<SocketAddr, HostError> {
    let port = if own_network {
        port::pick_in_own_network()
    } else {
        port::pick(address)
    };
    Ok(SocketAddr::new(address, port.ok_or(HostError::NoFreePort)?))
}

/// A path that says whose socket it is, or a shorter one where that would be too long.
fn socket_path(
    folder: &Path,
    service: &str,
    listener: &str,
    number: usize,
) -> Result<PathBuf, HostError> {
    let name = if listener.is_empty() {
        service.to_owned()
    } else {
        format!("{service}-{listener}")
    };
    let path = launch::inside(folder, &format!("{}.sock", name.replace('/', "_")))?;
    if path.as_os_str().len() < SOCKET_PATH_MAX {
        return Ok(path);
    }
    let short: u32 = listener.bytes().fold(0, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let path = folder.join(format!("{number}{short:x}"));
    if path.as_os_str().len() < SOCKET_PATH_MAX {
        Ok(path)
    } else {
        Err(HostError::PathTooLong(path))
    }
}

/// The last lines of a file, read from its end; at most 64 KiB.
fn tail_of(path: &Path, lines: usize) -> String {
    const WINDOW: u64 = 64 * 1024;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
