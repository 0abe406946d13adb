//! Real processes on this machine: started, watched, stopped, and nothing left of them.
//!
//! The services are shells and what any Debian has, so these tests need no server installed. Those
//! of the namespace place want root and iproute2 and fail without.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_experiment::host::local::LocalHost;
use prony_experiment::host::{Host, HostError};
use prony_experiment::place::{self, topology::Topology};
use prony_experiment::service::{Allocation, Endpoint, ListenKind, PlaceKind, ServiceSpec};

/// Long enough for a busy machine; nothing waits that long unless it fails.
const SOON: Duration = Duration::from_secs(20);

struct Bench {
    folder: tempfile::TempDir,
    host: LocalHost,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Other users must get at the sockets, as with the usual state folder.
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let host = LocalHost::with_state_in(state);
        Self { folder, host }
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    fn allocate(&mut self, place: PlaceKind, listen: &[ListenKind]) -> Vec<Endpoint> {
        let listen = listen
            .iter()
            .enumerate()
            .map(|(n, kind)| (n.to_string(), *kind))
            .collect();
        let wanted = Allocation {
            service: "s".to_owned(),
            host: None,
            exposed: false,
            place,
            listen,
        };
        let allocated = self
            .host
            .allocate(&[wanted], &Topology::default())
            .unwrap_or_else(|error| panic!("{error}"));
        allocated["s"].endpoints.values().cloned().collect()
    }

    fn start(&mut self, place: PlaceKind, script: &str) {
        let logs = self.logs();
        self.host
            .start(&shell(place, script), &logs)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    fn log(&self) -> String {
        self.host.log_tail("s", 100)
    }

    /// Waits for a line in the log and yields what follows `prefix` in it.
    fn said(&self, prefix: &str) -> String {
        wait_for(&format!("{prefix:?} in the log"), || {
            self.log()
                .lines()
                .find_map(|line| line.strip_prefix(prefix))
                .map(str::to_owned)
        })
    }
}

fn shell(place: PlaceKind, script: &str) -> ServiceSpec {
    ServiceSpec {
        name: "s".to_owned(),
        command: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
        wrapper_words: 0,
        env: BTreeMap::new(),
        cwd: PathBuf::from("/"),
        files: BTreeMap::new(),
        secrets: BTreeMap::new(),
        cores: Vec::new(),
        place,
        stop_signal: libc::SIGTERM,
        library_path: None,
        open_files: None,
        follow: Default::default(),
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < SOON, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn places() -> [PlaceKind; 2] {
    place::check(PlaceKind::Namespace).expect("these tests want root and iproute2");
    [PlaceKind::Native, PlaceKind::Namespace]
}

#[test]
fn a_service_gets_its_folder_its_variables_and_its_limit() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        let mut spec = shell(
            place,
            "echo var $WORD; echo limit $(ulimit -n); echo where $(pwd); sleep 1000",
        );
        spec.env.insert("WORD".to_owned(), "hello".to_owned());
        spec.open_files = Some(77);
        spec.cwd = PathBuf::from("/usr");
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        assert_eq!(bench.said("var "), "hello");
        assert_eq!(bench.said("limit "), "77");
        assert_eq!(bench.said("where "), "/usr");
        bench.host.alive("s").unwrap();
    }
}

#[test]
fn cores_hold_for_the_whole_service() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    let mut spec = shell(
        PlaceKind::Native,
        "grep Cpus_allowed_list /proc/self/status; sleep 1000",
    );
    spec.cores = vec![0];
    let logs = bench.logs();
    bench.host.start(&spec, &logs).unwrap();
    assert_eq!(bench.said("Cpus_allowed_list:\t"), "0");
}

#[test]
fn a_core_that_is_not_there_is_named_as_the_cause() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    let mut spec = shell(PlaceKind::Native, "sleep 1000");
    spec.cores = vec![0, 1000];
    let logs = bench.logs();
    let error = bench.host.start(&spec, &logs).unwrap_err();
    assert!(
        error.to_string().contains("there is no core 1000 "),
        "{error}"
    );
}

#[test]
fn a_stopped_service_leaves_no_process() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        // A daemon that forks twice, in a session of its own, and a child that ignores SIGTERM.
        bench.start(
            place,
            "setsid sh -c 'sleep 1001 & echo orphan >&2' & sh -c 'trap \"\" TERM; sleep 1002; sleep 1003' & \
             trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.05; done",
        );
        bench.said("up");
        bench.said("orphan");
        let inside = wait_for("the whole tree", || {
            Some(bench.host.sample()).filter(|s| s.services["s"].processes >= 4)
        });
        assert!(inside.services["s"].memory_bytes > 10_000);
        bench.host.set_patience(Duration::from_millis(300));
        let stopped = bench.host.stop("s").unwrap();
        bench.said("asked");
        assert_eq!(stopped.status.as_deref(), Some("exit status: 3"));
        // In a namespace the deaf child is killed with the first process there, natively too, but
        // only once patience is over.
        assert!(stopped.killed);
        assert_eq!(sleepers(bench.folder.path()), 0);
        assert!(bench.host.alive("s").is_err());
    }
}

/// Processes whose output goes to a log in this folder.
fn sleepers(folder: &Path) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<i32>().is_ok());
    pids.filter(|entry| {
        let files = std::fs::read_dir(entry.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|target| {
                target.starts_with(folder)
                    && target
                        .extension()
                        .is_some_and(|extension| extension == "log")
            })
    })
    .count()
}

#[test]
fn a_service_that_ends_says_how() {
    for place in places() {
        for (script, status) in [
            ("echo oops; exit 7", "exit status: 7"),
            ("echo oops; kill -SEGV $$; sleep 9", "signal: 11"),
        ] {
            let mut bench = Bench::new();
            bench.allocate(place, &[]);
            bench.start(place, script);
            let exited = wait_for("the end", || bench.host.alive("s").err());
            assert!(exited.status.starts_with(status), "{place:?}: {exited}");
            assert_eq!(exited.log_tail, "oops");
        }
    }
}

#[test]
fn a_daemon_outlives_its_first_process_and_still_ends() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        bench.start(place, "setsid sh -c 'echo up; exec sleep 1000' & exit 0");
        bench.said("up");
        for _ in 0..20 {
            bench.host.alive("s").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            !bench.host.stop("s").unwrap().killed,
            "a daemon is asked to end, too"
        );
        assert_eq!(sleepers(bench.folder.path()), 0);
    }
}

#[test]
fn cpu_of_processes_that_ended_does_not_vanish() {
    const SPIN: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        // A child that is waited for, and an orphan.
        bench.start(place, &format!("sh -c '{SPIN}'; sh -c \"sh -c '{SPIN}; echo orphan done' &\"; echo done; sleep 1000"));
        bench.said("done");
        bench.said("orphan done");
        let used = wait_for("the ended processes' CPU", || {
            let sample = bench.host.sample();
            let service = &sample.services["s"];
            (service.processes <= 2 && service.cpu_user_s > 0.0).then_some(service.cpu_user_s)
        });
        let again = bench.host.sample();
        let service = &again.services["s"];
        assert!(service.cpu_user_s >= used);
        assert!(
            service.cpu_user_s + service.cpu_system_s >= 0.04,
            "{service:?}"
        );
    }
}

#[test]
fn a_namespace_has_its_own_everything() {
    places();
    let mut bench = Bench::new();
    let endpoints = bench.allocate(PlaceKind::Namespace, &[ListenKind::Tcp]);
    let Endpoint::Tcp(address) = endpoints[0] else {
        panic!("{endpoints:?}")
    };
    assert!(!address.ip().is_loopback());
    bench.start(
        PlaceKind::Namespace,
        "for n in net mnt pid uts ipc user; do echo $n $(readlink /proc/self/ns/$n); done; \
         echo devices $(grep -c : /proc/net/dev); echo processes $(ls -d /proc/[0-9]* | wc -l); \
         echo me $(id -u); cat /etc/shadow >/dev/null && echo reads; sleep 1000",
    );
    bench.said("reads");
    for space in ["net", "mnt", "pid", "uts", "ipc", "user"] {
        let own = std::fs::read_link(format!("/proc/self/ns/{space}")).unwrap();
        assert_ne!(
            bench.said(&format!("{space} ")),
            own.to_string_lossy(),
            "{space}"
        );
    }
    assert_eq!(bench.said("devices "), "2");
    assert_eq!(bench.said("me "), "0");
    let processes: usize = bench.said("processes ").parse().unwrap();
    assert!(processes <= 6, "it sees {processes} processes");
}

#[test]
fn a_namespace_has_the_hosts_network_settings() {
    places();
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Namespace, &[]);
    let names = [
        "core/somaxconn",
        "ipv4/tcp_rmem",
        "ipv4/tcp_max_syn_backlog",
        "ipv4/tcp_congestion_control",
    ];
    let script = "for n in $NAMES; do echo $n $(cat /proc/sys/net/$n); done; sleep 1000";
    let mut spec = shell(PlaceKind::Namespace, script);
    spec.env.insert("NAMES".into(), names.join(" "));
    let logs = bench.logs();
    bench.host.start(&spec, &logs).unwrap();
    for name in names {
        let own = std::fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap();
        let own: Vec<&str> = own.split_whitespace().collect();
        assert_eq!(bench.said(&format!("{name} ")), own.join(" "), "{name}");
    }
}

#[test]
fn a_namespaced_server_is_reached_over_its_link_and_low_ports_are_open() {
    places();
    let mut bench = Bench::new();
    let endpoints = bench.allocate(PlaceKind::Namespace, &[ListenKind::Tcp]);
    let Endpoint::Tcp(address) = endpoints[0] else {
        panic!("{endpoints:?}")
    };
    let mut spec = shell(PlaceKind::Namespace, "");
    let program = "import socket,sys\n\
        s=socket.create_server((sys.argv[1],80))\n\
        while True:\n c,_=s.accept(); c.sendall(b'x'*100000); c.close()\n";
    spec.command = vec![
        "python3".into(),
        "-c".into(),
        program.into(),
        address.ip().to_string(),
    ];
    let logs = bench.logs();
    bench.host.start(&spec, &logs).unwrap();
    let address = SocketAddr::new(address.ip(), 80);
    let before = bench.host.sample().services["s"].network;
    let received = wait_for("an answer", || {
        let mut stream = TcpStream::connect(address).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok().map(|_| bytes.len())
    });
    assert_eq!(received, 100_000);
    let after = bench.host.sample().services["s"].network;
    assert!(!after.shared);
    assert!(after.sent - before.sent >= 100_000, "{before:?} {after:?}");
    assert!(
        after.received - before.received < 100_000,
        "{before:?} {after:?}"
    );
}

#[test]
fn unix_sockets_are_reached_from_outside_a_namespace() {
    for place in places() {
        let mut bench = Bench::new();
        let endpoints = bench.allocate(place, &[ListenKind::Unix]);
        let Endpoint::Unix(path) = &endpoints[0] else {
            panic!("{endpoints:?}")
        };
        let mut spec = shell(place, "");
        let program = "import socket,sys,os\nos.umask(0o077)\ns=socket.socket(socket.AF_UNIX)\n\
            s.bind(sys.argv[1]); s.listen()\nc,_=s.accept(); c.sendall(b'hello'); c.close()\ns.accept()";
        spec.command = vec![
            "python3".into(),
            "-c".into(),
            program.into(),
            path.display().to_string(),
        ];
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        let answer = wait_for("an answer", || {
            let mut stream = std::os::unix::net::UnixStream::connect(path).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok().map(|_| text)
        });
        assert_eq!(answer, "hello");
        bench.host.alive("s").unwrap();
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o666);
        bench.host.release().unwrap();
        assert!(!path.exists());
    }
}

#[test]
fn services_in_namespaces_reach_each_other_and_native_ones() {
    places();
    let mut bench = Bench::new();
    let wanted = |service: &str, place| Allocation {
        service: service.to_owned(),
        host: None,
        exposed: false,
        place,
        listen: [(String::new(), ListenKind::Tcp)].into(),
    };
    let order = [
        wanted("native", PlaceKind::Native),
        wanted("first", PlaceKind::Namespace),
        wanted("second", PlaceKind::Namespace),
        wanted("front", PlaceKind::Native),
    ];
    let allocated = bench
        .host
        .allocate(&order, &Topology::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let address = |service: &str| match allocated[service].endpoints[""] {
        Endpoint::Tcp(address) => address,
        Endpoint::Unix(_) => panic!("asked for TCP"),
    };
    assert!(
        address("front").ip().is_loopback(),
        "nobody in a namespace can need it"
    );
    let logs = bench.logs();
    let server = "import socket,sys\ns=socket.create_server((sys.argv[1],int(sys.argv[2])))\n\
        while True:\n c,_=s.accept(); c.sendall(sys.argv[3].encode()); c.close()\n";
    for (name, place) in [
        ("native", PlaceKind::Native),
        ("first", PlaceKind::Namespace),
    ] {
        let (ip, port) = (
            address(name).ip().to_string(),
            address(name).port().to_string(),
        );
        let mut spec = shell(place, "");
        spec.name = name.to_owned();
        spec.command = vec![
            "python3".into(),
            "-c".into(),
            server.into(),
            ip,
            port,
            format!("I am {name}"),
        ];
        bench.host.start(&spec, &logs).unwrap();
        wait_for("a server", || TcpStream::connect(address(name)).ok());
    }
    let client = "import socket,sys\nfor a in sys.argv[1:]:\n h,p=a.rsplit(':',1)\n \
        print(socket.create_connection((h,int(p)),10).recv(99).decode(),flush=True)\n";
    let mut spec = shell(PlaceKind::Namespace, "");
    spec.name = "second".to_owned();
    spec.command = vec![
        "python3".into(),
        "-c".into(),
        client.into(),
        address("native").to_string(),
        address("first").to_string(),
    ];
    bench.host.start(&spec, &logs).unwrap();
    wait_for("both answers", || {
        let log = bench.host.log_tail("second", 9);
        assert!(!log.contains("Error"), "{log}");
        (log == "I am native\nI am first").then_some(())
    });
}

#[test]
fn nothing_is_left_after_release() {
    places();
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Namespace, &[ListenKind::Unix, ListenKind::Tcp]);
    bench.start(PlaceKind::Namespace, "echo up; exec sleep 1000");
    bench.said("up");
    let state = bench.folder.path().join("state");
    let made = std::fs::read_dir(&state)
        .unwrap()
        .flatten()
        .find(|entry| entry.path().is_dir())
        .unwrap();
    let made = std::fs::read_to_string(made.path().join("made")).unwrap();
    let names = |kind: &str| -> Vec<String> {
        let prefix = format!("{{\"kind\":\"{kind}\",\"name\":\"");
        made.lines()
            .filter_map(|line| Some(line.strip_prefix(&prefix)?.split_once('"')?.0.to_owned()))
            .collect()
    };
    let (link, namespace) = (names("link"), names("namespace"));
    let traces = || {
        let folder = std::fs::read_dir(&state)
            .unwrap()
            .flatten()
            .any(|entry| entry.path().is_dir());
        // Another test may use the link's name by now, but not its alias.
        let alias = Path::new("/sys/class/net").join(&link[0]).join("ifalias");
        let network =
            std::fs::read_to_string(alias).is_ok_and(|text| text.trim_end() == namespace[0]);
        [
            folder,
            network,
            Path::new("/run/netns").join(&namespace[0]).exists(),
        ]
    };
    assert_eq!(traces(), [true; 3]);
    bench.host.release().unwrap();
    assert_eq!(traces(), [false; 3]);
    assert_eq!(sleepers(bench.folder.path()), 0);
    bench.allocate(PlaceKind::Native, &[ListenKind::Tcp]);
    bench.host.release().unwrap();
}

#[test]
fn a_panic_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let panicked = std::thread::spawn(move || {
        let mut host = LocalHost::with_state_in(path.clone());
        let listen = BTreeMap::new();
        host.allocate(
            &[Allocation {
                service: "s".into(),
                host: None,
                exposed: false,
                place: PlaceKind::Native,
                listen,
            }],
            &Topology::default(),
        )
        .unwrap();
        let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
        host.start(&shell(PlaceKind::Native, script), &path.join("logs"))
            .unwrap();
        wait_for("the start", || {
            (host.log_tail("s", 1) == "up").then_some(())
        });
        panic!("as meant");
    });
    assert!(panicked.join().is_err());
    assert_eq!(sleepers(folder.path()), 0);
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        left.iter().all(|name| name == "logs" || name == "lock"),
        "{left:?}"
    );
}

#[test]
fn a_missing_program_names_its_package_and_a_taken_port_its_holder() {
    let mut bench = Bench::new();
    let endpoints = bench.allocate(PlaceKind::Native, &[ListenKind::Tcp]);
    let Endpoint::Tcp(address) = endpoints[0] else {
        panic!("{endpoints:?}")
    };
    let logs = bench.logs();
    let mut spec = shell(PlaceKind::Native, "");
    spec.env.insert("PATH".into(), "/nowhere".into());
    spec.command = vec!["varnishd".into()];
    if Path::new("/usr/sbin/varnishd").exists() {
        spec.command = vec!["uwsgi".into()];
    }
    let error = bench.host.start(&spec, &logs).unwrap_err();
    assert!(
        matches!(&error, HostError::MissingProgram { missing, .. } if missing.package.is_some()),
        "{error}"
    );
    let _taken = std::net::TcpListener::bind(address).unwrap();
    let error = bench
        .host
        .start(&shell(PlaceKind::Native, "sleep 1"), &logs)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("(process {})", std::process::id())),
        "{error}"
    );
}

#[test]
fn files_are_written_where_they_were_promised() {
    let mut bench = Bench::new();
    let wanted = Allocation {
        service: "s".into(),
        host: None,
        exposed: false,
        place: PlaceKind::Native,
        listen: BTreeMap::new(),
    };
    let files_dir = bench
        .host
        .allocate(&[wanted], &Topology::default())
        .unwrap()["s"]
        .files_dir
        .clone();
    let mut spec = shell(
        PlaceKind::Native,
        &format!("cat {}/conf.d/a.conf; sleep 1000", files_dir.display()),
    );
    spec.files
        .insert("conf.d/a.conf".into(), b"content 1\n".to_vec());
    spec.secrets.insert("tls/a.key".into(), b"secret".to_vec());
    let logs = bench.logs();
    // A service that runs before wrote a file of that name that everybody may read.
    let key = files_dir.join("tls/a.key");
    std::fs::create_dir(files_dir.join("tls")).unwrap();
    std::fs::write(&key, "no secret yet").unwrap();
    bench.host.start(&spec, &logs).unwrap();
    assert_eq!(bench.said("content "), "1");
    assert_eq!(std::fs::read(&key).unwrap(), b"secret");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    spec.files.insert("../x".into(), Vec::new());
    bench.host.stop("s").unwrap();
    assert!(matches!(
        bench.host.start(&spec, &logs),
        Err(HostError::BadName(_))
    ));
}

#[test]
fn the_environment_names_programs_and_libraries() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        let mut spec = shell(place, "");
        spec.command = vec![
            "python3".into(),
            "-c".into(),
            "print('up', flush=True); input()".into(),
        ];
        spec.command[2] = "import time; print('up', flush=True); time.sleep(1000)".into();
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        bench.said("up");
        let environment = bench.host.environment();
        let programs = &environment.services["s"];
        assert_eq!(programs.len(), 1, "{programs:?}");
        let python = &programs[0];
        assert!(
            python.path.to_string_lossy().contains("python3"),
            "{python:?}"
        );
        assert!(
            python.version.as_ref().unwrap().starts_with("Python 3"),
            "{python:?}"
        );
        assert_eq!(python.sha256.as_ref().unwrap().len(), 64);
        assert!(
            python
                .libraries
                .iter()
                .any(|path| path.to_string_lossy().contains("libc.so")),
            "{python:?}"
        );
    }
}

#[test]
fn a_keeper_killed_by_a_stranger_takes_its_service_along() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "echo keeper $PPID; echo me $$; sleep 1000 & wait",
    );
    let (keeper, me) = (bench.said("keeper "), bench.said("me "));
    bench.host.sample();
    std::process::Command::new("kill")
        .args(["-9", &keeper])
        .status()
        .unwrap();
    wait_for("the notice", || bench.host.alive("s").err());
    bench.host.stop("s").unwrap();
    assert!(!lives(&me));
    assert_eq!(sleepers(bench.folder.path()), 0);
}

#[test]
fn a_service_that_kills_its_keeper_at_once_is_ended() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    // Nobody has seen these processes below the keeper, and one has a session of its own.
    bench.start(
        PlaceKind::Native,
        "kill -9 $PPID; setsid sh -c 'echo stray $$; sleep 1000' & echo me $$; sleep 1000 & wait",
    );
    let (me, stray) = (bench.said("me "), bench.said("stray "));
    let exited = wait_for("the notice", || bench.host.alive("s").err());
    assert!(exited.status.contains("keeper"), "{exited}");
    bench.host.stop("s").unwrap();
    assert!(!lives(&me) && !lives(&stray));
    assert_eq!(sleepers(bench.folder.path()), 0);
}

#[test]
fn a_service_that_stops_its_keeper_is_asked_to_end_all_the_same() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "trap 'echo asked; exit 3' TERM; kill -STOP $PPID; echo me $$; while :; do sleep 0.05; done",
    );
    let me = bench.said("me ");
    let stopped = bench.host.stop("s").unwrap();
    assert_eq!(stopped.status.as_deref(), Some("exit status: 3"));
    assert!(!stopped.killed && !lives(&me));
}

#[test]
fn a_service_that_keeps_stopping_its_keeper_is_killed() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "trap '' TERM; echo me $$; while kill -STOP $PPID; do :; done; sleep 1000",
    );
    let me = bench.said("me ");
    bench.host.set_patience(Duration::from_millis(200));
    let stopped = bench.host.stop("s").unwrap();
    assert!(stopped.killed && !lives(&me));
    assert_eq!(sleepers(bench.folder.path()), 0);
}

#[test]
fn a_long_log_keeps_its_head_and_tail() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "echo the beginning; head -c 12000000 /dev/zero | tr '\\0' x | fold -w 99; echo; \
         echo the end; sleep 1000",
    );
    bench.said("the end");
    let log = bench.logs().join("s.log");
    let written = log.metadata().unwrap().len();
    let stopped = bench.host.stop("s").unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.len() < 1_100_000, "{}", text.len());
    assert!(text.starts_with("the beginning\nxxx"));
    assert!(text.ends_with("x\nthe end\n"));
    let line = format!("\n[prony cut {} bytes here:", stopped.log_bytes_cut);
    assert!(text.contains(&line), "{}", stopped.log_bytes_cut);
    assert!(stopped.log_bytes_cut > written - 1_100_000);
}

#[test]
fn foreign_cpu_is_not_the_services() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(PlaceKind::Native, "echo up; sleep 1000");
    bench.said("up");
    bench.host.sample();
    let mut stranger = std::process::Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let top = wait_for("the stranger", || {
        bench
            .host
            .sample()
            .host
            .foreign
            .into_iter()
            .find(|process| process.pid == stranger.id().cast_signed())
    });
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(top.name, "sh");
    std::io::stderr().flush().unwrap();
}
