//! Tests the sweep after a run that was killed with SIGKILL while its services were running.
//!
//! The killed run is a child process that executes this test binary (see `the_killed_run`). Its
//! services are trees of shells that fork twice and start new sessions and, if nginx is installed,
//! an nginx daemon with two workers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use prony_machine::host::Host;
use prony_machine::host::local::LocalHost;
use prony_machine::place;
use prony_machine::sweep::{RemovedResource, sweep_in};
use prony_machine::system::program;
use prony_plan::service::{
    AllocatedService, Allocation, Endpoint, ListenKind, PlaceKind, ResourceLimits, ServiceSpec,
};
use prony_plan::topology::{
    AddressBlock, EmulatorChoice, LinkEmulation, LinkEnd, LinkRate, NamedPlace, NetworkLink,
    PacketShare, Topology,
};

/// Timeout for every wait. It is long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

const STATE: &str = "PRONY_TEST_STATE_OF_THE_RUN_THAT_DIES";

const NGINX: &str = "pid nginx.pid; error_log /dev/stderr; worker_processes 2; events {} \
    http { access_log off; server { listen LISTEN; location / { return 200 ok; } } }";

/// A daemon that forks twice and has its own session, and a child that ignores SIGTERM.
const TREE: &str = "setsid sh -c 'setsid sh -c \"sleep 1000 & wait\" & sleep 1000 & exit 0' & \
    sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & wait";

fn allocations() -> Vec<Allocation> {
    let allocation = |service: &str, place, listen: &[(&str, ListenKind)]| Allocation {
        jail: None,
        service: service.to_owned(),
        host: None,
        exposed: false,
        place,
        listen: listen
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), *kind))
            .collect(),
    };
    vec![
        allocation("tree-inside", PlaceKind::Namespace, &[]),
        allocation(
            "nginx-inside",
            PlaceKind::Namespace,
            &[("", ListenKind::Tcp)],
        ),
        allocation("tree", PlaceKind::Native, &[]),
        allocation("nginx", PlaceKind::Native, &[("", ListenKind::Unix)]),
        allocation(
            "nginx-placed",
            PlaceKind::Named(1),
            &[("", ListenKind::Tcp)],
        ),
    ]
}

/// Returns a topology of two named places with a link between them.
fn topology() -> Topology {
    let place = |name: &str, sources: &str| NamedPlace {
        name: name.to_owned(),
        settings: BTreeMap::new(),
        where_possible: false,
        sources: AddressBlock::cover(sources).unwrap(),
    };
    let end = |place, last| LinkEnd {
        place,
        address: Ipv4Addr::new(10, 99, 0, last),
    };
    Topology {
        places: vec![
            place("clients", "10.98.0.0/16"),
            place("front", "10.97.0.1"),
        ],
        links: vec![NetworkLink {
            name: "wan".to_owned(),
            ends: [end(0, 1), end(1, 2)],
            rate: Some(LinkRate::new(100_000_000)),
            // The loss is so rare that no request of this test waits for a retransmission.
            loss: PacketShare::parse("0.0001%").ok(),
            emulation: Some(LinkEmulation {
                emulator: EmulatorChoice::Relay,
                ..LinkEmulation::with_delays([Duration::from_millis(2); 2])
            }),
        }],
    }
}

fn spec(wanted: &Allocation, allocated: &AllocatedService) -> ServiceSpec {
    let files_dir = allocated.files_dir.display().to_string();
    let mut files = BTreeMap::new();
    let is_nginx = wanted.service.starts_with("nginx");
    let command = if is_nginx && program::find("nginx", Path::new("/"), None).is_ok() {
        let listen = match &allocated.endpoints[""] {
            Endpoint::Tcp(address) => address.to_string(),
            Endpoint::Unix(path) => format!("unix:{}", path.display()),
            Endpoint::Udp(_) => unreachable!("no service of this run listens on UDP"),
        };
        files.insert(
            "nginx.conf".to_owned(),
            NGINX.replace("LISTEN", &listen).into_bytes(),
        );
        vec![
            "nginx".to_owned(),
            "-p".to_owned(),
            files_dir.clone(),
            "-c".to_owned(),
            format!("{files_dir}/nginx.conf"),
        ]
    } else {
        vec!["sh".to_owned(), "-c".to_owned(), TREE.to_owned()]
    };
    ServiceSpec {
        jail: None,
        name: wanted.service.clone(),
        command,
        wrapper_words: 0,
        env: BTreeMap::new(),
        cwd: PathBuf::from("/"),
        files,
        secrets: BTreeMap::new(),
        cores: Vec::new(),
        place: wanted.place,
        stop_signal: libc::SIGTERM,
        library_path: None,
        open_files: None,
        limits: limits(wanted),
        container: None,
        follow: Default::default(),
    }
}

/// The run that other tests start as a child process and then kill. It does nothing when the test
/// runner starts it.
#[test]
#[ignore = "the other tests start it"]
fn the_killed_run() {
    let Some(state) = std::env::var_os(STATE).map(PathBuf::from) else {
        return;
    };
    let mut host = LocalHost::with_state_in(state.clone());
    let wanted = allocations();
    let allocated = host
        .allocate(&wanted, &topology())
        .unwrap_or_else(|error| panic!("{error}"));
    for wanted in &wanted {
        let spec = spec(wanted, &allocated[&wanted.service]);
        host.start(&spec, &state.join("logs"))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let began = Instant::now();
    while host
        .sample()
        .services
        .values()
        .any(|service| service.processes < 3)
    {
        assert!(
            began.elapsed() < WAIT_TIMEOUT,
            "{:?} {}",
            host.sample().services,
            host.log_tail("nginx", 9)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("everything runs");
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

struct Run {
    child: Child,
    state: tempfile::TempDir,
    made: Vec<String>,
}

impl Run {
    /// Iterates over the folders of control groups that the run created.
    fn groups(&self) -> impl Iterator<Item = PathBuf> {
        self.made.iter().filter_map(|line| {
            let made: serde_json::Value = serde_json::from_str(line).ok()?;
            let folder = made["folder"].as_str()?;
            (made["kind"] == "control_group").then(|| PathBuf::from(folder))
        })
    }

    fn groups_left(&self) -> usize {
        self.groups().filter(|folder| folder.exists()).count()
    }

    fn begin() -> Self {
        place::check_kind(PlaceKind::Namespace).expect("this test needs root and iproute2");
        let state = tempfile::tempdir().unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_killed_run", "--ignored", "--nocapture"])
            .env(STATE, state.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            lines.any(|line| line.unwrap().contains("everything runs")),
            "the run failed"
        );
        let folder = std::fs::read_dir(state.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let folder = folder
            .filter(|path| path.join("made").exists())
            .last()
            .unwrap();
        let made = std::fs::read_to_string(folder.join("made")).unwrap();
        Self {
            child,
            state,
            made: made.lines().map(str::to_owned).collect(),
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the names of all recorded resources of one kind.
    fn names(&self, kind: &str) -> BTreeSet<String> {
        let prefix = format!("{{\"kind\":\"{kind}\",\"name\":\"");
        let names = self
            .made
            .iter()
            .filter_map(|line| line.strip_prefix(&prefix));
        names
            .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
            .collect()
    }

    /// Returns the IDs of recorded processes that are alive.
    fn living(&self) -> Vec<i32> {
        let processes = self
            .made
            .iter()
            .filter_map(|line| line.strip_prefix("{\"kind\":\"process\",\"pid\":"));
        let both =
            processes.filter_map(|rest| rest.trim_end_matches('}').split_once(",\"start\":"));
        both.filter(|(pid, start)| start_of(pid).as_deref() == Some(start))
            .map(|(pid, _)| pid.parse().unwrap())
            .collect()
    }

    /// Returns the number of links and namespaces of the run that still exist. Links are identified
    /// by their alias, because another run may have reused the name.
    fn networks_left(&self) -> usize {
        let namespaces = self.names("namespace");
        let links = std::fs::read_dir("/sys/class/net").unwrap().flatten();
        let alias = |link: &Path| std::fs::read_to_string(link.join("ifalias")).unwrap_or_default();
        let links = links
            .filter(|link| namespaces.contains(alias(&link.path()).trim_end()))
            .count();
        links
            + namespaces
                .iter()
                .filter(|name| Path::new("/run/netns").join(name).exists())
                .count()
    }

    fn folders_left(&self) -> usize {
        let entries = std::fs::read_dir(self.state.path()).unwrap().flatten();
        entries
            .filter(|entry| entry.path().join("lock").exists())
            .count()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = sweep_in(self.state.path());
    }
}

/// Returns the start time of a process that is alive.
fn start_of(pid: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (!matches!(fields[0], "Z" | "X")).then(|| fields[19].to_owned())
}

/// Returns limits for one of the services, if this machine lets the test create control groups.
fn limits(wanted: &Allocation) -> ResourceLimits {
    let limits = ResourceLimits {
        pids: Some(1000),
        ..ResourceLimits::default()
    };
    let is_limited = wanted.service == "tree" && place::check_limits(&limits).is_ok();
    if is_limited {
        limits
    } else {
        ResourceLimits::default()
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < WAIT_TIMEOUT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_sweep_removes_leftovers_of_killed_runs_only() {
    let (mut run, spared) = (Run::begin(), Run::begin());
    assert!(run.living().len() >= 12, "{:?}", run.made);
    assert_eq!(run.networks_left(), 6, "two links and four namespaces");

    let swept = sweep_in(run.state.path()).unwrap();
    assert!(
        swept.removed.is_empty(),
        "the sweep removed resources of a live run: {:?}",
        swept.removed
    );
    run.kill();
    wait_until("the keepers kill their services", || {
        run.living().is_empty()
    });
    wait_until("the keepers remove control groups", || {
        run.groups_left() == 0
    });
    // By now, the short-lived processes of the start have ended.
    let spared_before = spared.living().len();

    let swept = sweep_in(run.state.path()).unwrap();
    assert!(swept.failures.is_empty(), "{:?}", swept.failures);
    assert!(
        swept
            .removed
            .iter()
            .any(|removed| matches!(removed, RemovedResource::Folder(_))),
        "{:?}",
        swept.removed
    );
    let namespaces = swept
        .removed
        .iter()
        .filter(|removed| matches!(removed, RemovedResource::Namespace(_)))
        .count();
    assert_eq!(namespaces, 4, "{:?}", swept.removed);
    assert_eq!((run.networks_left(), run.folders_left()), (0, 0));
    assert!(sweep_in(run.state.path()).unwrap().removed.is_empty());

    assert_eq!(
        (spared.living().len(), spared.networks_left()),
        (spared_before, 6)
    );
}

#[test]
fn processes_whose_keepers_were_killed_too_are_swept() {
    let mut run = Run::begin();
    let before = run.living();
    let keepers: Vec<i32> = before
        .iter()
        .copied()
        .filter(|pid| parent_of(*pid) == run.child.id())
        .collect();
    assert_eq!(keepers.len(), 5, "each service has a keeper");
    for keeper in keepers {
        Command::new("kill")
            .args(["-9", &keeper.to_string()])
            .status()
            .unwrap();
    }
    run.kill();
    // Services in namespaces end with the first process of their namespace. Native services become
    // orphans.
    wait_until("the end of the services in namespaces", || {
        run.living().len() <= before.len() * 2 / 3
    });
    assert!(
        run.living().len() >= 5,
        "too few orphans are left to sweep: {:?}",
        run.living()
    );

    let swept = sweep_in(run.state.path()).unwrap();
    assert!(swept.failures.is_empty(), "{:?}", swept.failures);
    let processes = swept
        .removed
        .iter()
        .filter(|removed| matches!(removed, RemovedResource::Process(..)))
        .count();
    assert!(processes >= 5, "{:?}", swept.removed);
    let is_group = |removed: &&RemovedResource| matches!(removed, RemovedResource::ControlGroup(_));
    let groups = swept.removed.iter().filter(is_group).count();
    assert_eq!(groups, run.groups().count());
    assert_eq!(run.groups_left(), 0);
    assert!(run.living().is_empty());
    assert_eq!((run.networks_left(), run.folders_left()), (0, 0));
}

#[test]
fn processes_whose_keepers_were_stopped_are_swept() {
    let mut run = Run::begin();
    let keepers = run.living().into_iter();
    let keepers = keepers.filter(|pid| parent_of(*pid) == run.child.id());
    for keeper in keepers.collect::<Vec<_>>() {
        Command::new("kill")
            .args(["-STOP", &keeper.to_string()])
            .status()
            .unwrap();
    }
    run.kill();
    let swept = sweep_in(run.state.path()).unwrap();
    assert!(swept.failures.is_empty(), "{:?}", swept.failures);
    assert!(run.living().is_empty());
    assert_eq!((run.networks_left(), run.folders_left()), (0, 0));
}

fn parent_of(pid: i32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}
