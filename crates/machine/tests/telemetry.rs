//! Tests of the telemetry of real processes on this machine, inside and outside a keeper's process
//! tree.
//!
//! The tests require python3, and those with namespaces or control groups also require root. They
//! fail if a requirement is not met.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use prony_machine::host::Host;
use prony_machine::host::local::LocalHost;
use prony_machine::telemetry::{ServiceSample, TelemetrySample, summary};
use prony_plan::service::{Allocation, Endpoint, FollowSpec, ListenKind, PlaceKind, ServiceSpec};
use prony_plan::topology::Topology;
use prony_plan::watch_spec::{CounterMode, WatchSpec};

/// Timeout for every wait. It is long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

struct Bench {
    folder: tempfile::TempDir,
    host: LocalHost,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        let host = LocalHost::with_state_in(state);
        Self { folder, host }
    }

    /// Starts a service. `change` receives its address and adapts its specification.
    fn start(&mut self, place: PlaceKind, change: impl FnOnce(&Endpoint, &mut ServiceSpec)) {
        let wanted = Allocation {
            jail: None,
            service: "s".to_owned(),
            host: None,
            exposed: false,
            place,
            listen: [(String::new(), ListenKind::Tcp)].into(),
        };
        let allocated = self.host.allocate(&[wanted], &Topology::default()).unwrap();
        let mut spec = ServiceSpec {
            jail: None,
            name: "s".to_owned(),
            command: Vec::new(),
            wrapper_words: 0,
            env: Default::default(),
            cwd: PathBuf::from("/"),
            files: Default::default(),
            secrets: Default::default(),
            cores: Vec::new(),
            place,
            stop_signal: libc::SIGTERM,
            library_path: None,
            open_files: None,
            limits: Default::default(),
            container: None,
            follow: FollowSpec::default(),
        };
        change(&allocated["s"].endpoints[""], &mut spec);
        let logs = self.folder.path().join("logs");
        self.host.start(&spec, &logs).unwrap();
    }

    fn service(&mut self) -> ServiceSample {
        self.host.sample().services.remove("s").unwrap()
    }
}

fn python(program: &str, args: &[&str]) -> Vec<String> {
    let words = ["python3", "-c", program]
        .into_iter()
        .chain(args.iter().copied());
    words.map(str::to_owned).collect()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < WAIT_TIMEOUT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a foreign process with a busy child, and waits until it is ready.
fn stranger(cgroup: Option<&Path>) -> Killed {
    let program = "import os,sys,time\n\
        if len(sys.argv)>1: open(sys.argv[1]+'/cgroup.procs','w').write(str(os.getpid()))\n\
        parent=os.getpid()\n\
        if os.fork()==0:\n\
        \x20print('up',flush=True)\n\
        \x20while os.getppid()==parent:\n\
        \x20 for i in range(100000): pass\n\
        \x20 time.sleep(0.001)\n\
        \x20os._exit(0)\n\
        while True: time.sleep(1)\n";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .args(cgroup)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    Killed(child)
}

#[test]
fn a_burst_shorter_than_a_tick_is_counted() {
    let mut bench = Bench::new();
    bench.start(PlaceKind::Native, |_, spec| {
        spec.command = python(
            "import time\nwhile True:\n time.sleep(0.02)\n for i in range(2000): pass\n",
            &[],
        );
    });
    // The bursts take about 50 µs each, so the increase between two samples is usually far less
    // than a tick.
    let mut seen = Vec::new();
    wait_for("an increase of less than a tick", || {
        let before = bench.service().cpu_s;
        std::thread::sleep(Duration::from_millis(50));
        let grown_s = bench.service().cpu_s - before;
        assert!(grown_s >= 0.0);
        seen.push(grown_s);
        (grown_s > 0.0 && grown_s < 0.008).then_some(())
    });
}

#[test]
fn voluntary_and_involuntary_switches_are_distinguished() {
    let mut bench = Bench::new();
    bench.start(PlaceKind::Native, |_, spec| {
        spec.command = python("import time\nwhile True: time.sleep(0.001)\n", &[]);
    });
    wait_for("voluntary switches", || {
        let service = bench.service();
        let voluntary = service.voluntary_switches;
        (voluntary > 200 && service.involuntary_switches < voluntary).then_some(())
    });
    let mut busy = Bench::new();
    busy.start(PlaceKind::Native, |_, spec| {
        // Two busy processes share one core.
        spec.command = python("import os\nos.fork()\nwhile True: pass\n", &[]);
        spec.cores = vec![0];
    });
    wait_for("involuntary switches", || {
        (busy.service().involuntary_switches > 20).then_some(())
    });
}

#[test]
fn a_namespaces_own_interfaces_and_counters_are_read() {
    let mut bench = Bench::new();
    let mut address = None;
    bench.start(PlaceKind::Namespace, |endpoint, spec| {
        let Endpoint::Tcp(own) = endpoint else {
            panic!("{endpoint:?}")
        };
        address = Some(*own);
        // The server has a backlog of one and accepts no connection.
        let program = "import socket,sys,time\ns=socket.socket()\ns.bind((sys.argv[1],int(sys.argv[2])))\ns.listen(1)\ntime.sleep(1000)\n";
        spec.command = python(program, &[&own.ip().to_string(), &own.port().to_string()]);
    });
    let address = address.unwrap();
    let first = wait_for("the listener", || TcpStream::connect(address).ok());
    let names: Vec<String> = bench.service().interfaces.into_keys().collect();
    assert_eq!(names, ["eth0", "lo"]);
    let mut held = vec![first];
    let dropped = wait_for("listen drops", || {
        held.extend(TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok());
        let service = bench.service();
        (service.tcp.listen_overflows > 0).then_some(service)
    });
    assert!(dropped.tcp.listen_drops > 0);
    assert!(!dropped.network.shared);
    let eth0 = dropped.interfaces["eth0"];
    assert!(
        eth0.packets_received >= 2 && eth0.packets_sent >= 1,
        "{eth0:?}"
    );
    assert_eq!(dropped.network.packets_sent, eth0.packets_sent);
    let sample = bench.host.sample();
    assert!(sample.host.interfaces.contains_key("lo"));
    assert!(sample.host.memory_used_bytes > 1 << 20 && sample.host.context_switches > 0);
}

#[test]
fn a_pid_file_adds_processes_outside_the_tree() {
    let stranger = stranger(None);
    let mut bench = Bench::new();
    let file = bench.folder.path().join("stranger.pid");
    fs::write(&file, format!("{}\n", stranger.0.id())).unwrap();
    bench.start(PlaceKind::Native, |_, spec| {
        spec.command = ["sleep", "1000"].map(str::to_owned).to_vec();
        spec.follow.pid_file = Some(file.clone());
    });
    let service = wait_for("CPU of the stranger's child", || {
        Some(bench.service()).filter(|service| service.cpu_s > 0.1)
    });
    assert_eq!(service.processes, 3);
    let foreign = bench.host.sample().host.foreign;
    let is_theirs = |pid: i32| pid == stranger.0.id().cast_signed();
    assert!(
        !foreign.iter().any(|process| is_theirs(process.pid)),
        "a followed process is not foreign"
    );
    // Telemetry continues without the pid file, and the total doesn't decrease.
    fs::remove_file(&file).unwrap();
    let without = bench.service();
    assert_eq!(without.processes, 1);
    assert!(without.cpu_s >= service.cpu_s);
}

#[test]
fn an_external_service_is_followed() {
    let stranger = stranger(None);
    let mut bench = Bench::new();
    let file = bench.folder.path().join("stranger.pid");
    fs::write(&file, stranger.0.id().to_string()).unwrap();
    let follow = FollowSpec {
        pid_file: Some(file),
        ..FollowSpec::default()
    };
    bench.host.watch(WatchSpec {
        others: [("theirs".to_owned(), follow)].into(),
        ..WatchSpec::default()
    });
    let sample = bench.host.sample();
    assert_eq!(sample.services["theirs"].processes, 2);
}

/// A control group for one test.
struct Group(PathBuf);

impl Group {
    fn make() -> Self {
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .into_iter()
            .map(Path::new)
            .find(|root| root.join("cgroup.procs").is_file())
            .expect("this test requires control groups of version 2");
        let folder = root.join(format!("prony-test-{}", std::process::id()));
        fs::create_dir(&folder).expect("this test needs root");
        Self(folder)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let began = Instant::now();
        // A control group can only be removed after its last process has ended.
        while fs::remove_dir(&self.0).is_err() && began.elapsed() < WAIT_TIMEOUT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_control_group_brings_in_its_processes_and_keeps_the_time_of_those_that_end() {
    let group = Group::make();
    let name = group.0.file_name().unwrap().to_string_lossy().into_owned();
    let mut bench = Bench::new();
    bench.start(PlaceKind::Native, |_, spec| {
        spec.command = ["sleep", "1000"].map(str::to_owned).to_vec();
        spec.follow.cgroup = Some(name);
    });
    assert_eq!(bench.service().processes, 1);
    let stranger = stranger(Some(&group.0));
    let with = wait_for("CPU of the group", || {
        Some(bench.service()).filter(|service| service.cpu_s > 0.1)
    });
    assert_eq!(with.processes, 3);
    assert!(with.cpu_user_s > 0.0);
    drop(stranger);
    let without = wait_for("the end of the group's processes", || {
        Some(bench.service()).filter(|service| service.processes == 1)
    });
    assert!(without.cpu_s >= with.cpu_s);
}

/// Returns true if hardware counters are available on this machine.
fn counts(bench: &mut Bench) -> bool {
    let how = bench.host.environment().machine.hardware_counters;
    assert!(how.starts_with("by ") || how.starts_with("none: "), "{how}");
    how.starts_with("by ")
}

#[test]
fn counters_by_process_count_or_the_environment_has_the_reason() {
    let mut bench = Bench::new();
    bench.host.watch(WatchSpec {
        counters: CounterMode::Processes,
        ..WatchSpec::default()
    });
    bench.start(PlaceKind::Native, |_, spec| {
        // The busy process is a child of the process that was started, so the counters must include
        // descendants.
        spec.command = ["sh", "-c", "sh -c 'while :; do :; done' & wait"]
            .map(str::to_owned)
            .to_vec();
    });
    if !counts(&mut bench) {
        assert_eq!(bench.service().hardware, None);
        return;
    }
    wait_for("a million instructions", || {
        let instructions = bench.service().hardware?.instructions?;
        (instructions > 1_000_000).then_some(())
    });
    let before = bench.service().hardware.unwrap().instructions;
    assert!(bench.service().hardware.unwrap().instructions >= before);
}

#[test]
fn counters_by_core_count_for_a_service_alone_on_its_cores() {
    let mut bench = Bench::new();
    let watch = |load_cores: &[usize]| WatchSpec {
        load_cores: load_cores.to_vec(),
        ..WatchSpec::default()
    };
    bench.host.watch(watch(&[1]));
    bench.start(PlaceKind::Native, |_, spec| {
        spec.command = ["sh", "-c", "while :; do :; done"]
            .map(str::to_owned)
            .to_vec();
        spec.cores = vec![0];
    });
    if !counts(&mut bench) {
        assert_eq!(bench.host.sample().host.hardware, None);
        return;
    }
    let samples: Vec<TelemetrySample> = (0..2)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            bench.host.sample()
        })
        .collect();
    let whole = summary(&samples).unwrap();
    let own = whole.services["s"].hardware.unwrap().instructions.unwrap();
    let all = whole.host.hardware.unwrap().instructions.unwrap();
    assert!(own > 100_000 && all >= own, "{own} of {all}");
    // If the load may also run on the service's core, the counts can't be attributed to the
    // service.
    bench.host.watch(watch(&[0, 1]));
    assert_eq!(bench.service().hardware, None);
}
