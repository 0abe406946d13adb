//! Tests of services over ssh. Each test starts an ssh server on this machine, which acts as the
//! other machine.
//!
//! The tests require python3, busybox, and the client and server of OpenSSH. They don't require
//! root.

mod sshd;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use prony_machine::host::local::LocalHost;
use prony_machine::host::ssh::{SshHosts, SshMachines};
use prony_machine::host::{Host, HostError, ReadinessProbe};
use prony_machine::telemetry::summary;
use prony_plan::service::{
    AllocatedService, Allocation, Endpoint, FollowSpec, Jail, ListenKind, PlaceKind,
    ResourceLimits, ServiceSpec,
};
use prony_plan::ssh_host::SshHost;
use prony_plan::topology::Topology;
use prony_record::FindingId;

use sshd::{Sshd, free_port, sessions_of, wait_for};

/// Shells with which the other machine must work. `None` is its `/bin/sh`.
const SHELLS: [Option<&str>; 4] = [None, Some("dash"), Some("busybox sh"), Some("bash --posix")];

/// A server that responds with the contents of a file, and whose child uses CPU time.
const SERVER: &str = "import os,socket,sys,time\n\
    s=socket.create_server((sys.argv[1],int(sys.argv[2])))\n\
    parent=os.getpid()\n\
    print('listening',os.environ.get('GREETING'),os.getcwd(),flush=True)\n\
    if os.fork()==0:\n\
    \x20while True:\n\
    \x20 for i in range(200000): pass\n\
    \x20 time.sleep(0.001)\n\
    while True:\n\
    \x20c,_=s.accept()\n\
    \x20c.recv(1000)\n\
    \x20body=open('site/page','rb').read()\n\
    \x20c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n'%len(body)+body)\n\
    \x20c.close()\n";

/// A host with one machine over ssh, and its temporary folders.
struct Far {
    host: SshHosts,
    sshd: Sshd,
    /// Folder of temporary files on the other machine.
    base: PathBuf,
    logs: PathBuf,
    _state: tempfile::TempDir,
}

impl Far {
    /// Starts an ssh server whose sessions use this shell.
    fn start(shell: Option<&str>) -> Self {
        let config = shell.map_or_else(String::new, |shell| format!("ForceCommand {shell}"));
        Self::of(Sshd::with(&config), |_| {})
    }

    /// Connects to an ssh server, after a change of the machine's settings.
    fn of(sshd: Sshd, change: impl FnOnce(&mut SshHost)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            let path = state.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (base, logs) = (path("tmp of the machine"), path("logs"));
        let here = LocalHost::with_state_in(path("here"));
        let mut machines = SshMachines::default();
        let mut far = machine(&sshd, &base);
        change(&mut far);
        let connected = machines.connect(&far);
        connected.unwrap_or_else(|error| panic!("{error}\n{}", sshd.log()));
        Self {
            host: SshHosts::new(Box::new(here), machines),
            sshd,
            base,
            logs,
            _state: state,
        }
    }

    fn allocate(&mut self, listen: ListenKind) -> AllocatedService {
        self.allocate_in(None, listen).unwrap()
    }

    fn allocate_in(
        &mut self,
        jail: Option<Jail>,
        listen: ListenKind,
    ) -> Result<AllocatedService, HostError> {
        let wanted = Allocation {
            jail,
            service: "web".to_owned(),
            host: Some("far".to_owned()),
            exposed: true,
            place: PlaceKind::Native,
            listen: [(String::new(), listen)].into(),
        };
        let mut allocated = self.host.allocate(&[wanted], &Topology::default())?;
        Ok(allocated.remove("web").unwrap())
    }

    /// Allocates and starts the server, and waits until it is ready.
    fn serve(&mut self) -> Endpoint {
        self.serve_in(None)
    }

    fn serve_in(&mut self, jail: Option<Jail>) -> Endpoint {
        let allocated = self.allocate_in(jail.clone(), ListenKind::Tcp).unwrap();
        let endpoint = allocated.endpoints[""].clone();
        let Endpoint::Tcp(address) = endpoint else {
            panic!("{endpoint:?}");
        };
        let port = address.port().to_string();
        let command = ["python3", "-c", SERVER, &address.ip().to_string(), &port];
        let spec = ServiceSpec {
            jail,
            ..spec(&command)
        };
        self.host.start(&spec, &self.logs).unwrap();
        self.wait_until_ready(&endpoint);
        endpoint
    }

    fn wait_until_ready(&mut self, endpoint: &Endpoint) {
        let probe = ReadinessProbe {
            endpoint: endpoint.clone(),
            get: None,
            https: false,
            sni: None,
            host: None,
        };
        wait_for("the service", || {
            self.host
                .alive("web")
                .unwrap_or_else(|exit| panic!("{exit}"));
            self.host.probe_readiness("web", &probe).ok()
        });
    }

    /// Returns what is in the folder of temporary files on the other machine.
    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.base).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn machine(sshd: &Sshd, base: &Path) -> SshHost {
    let mut ssh = sshd.arguments();
    SshHost {
        name: "far".to_owned(),
        line: 1,
        destination: ssh.pop().unwrap(),
        ssh,
        address: None,
        sudo: false,
        dir: Some(base.display().to_string()),
    }
}

fn spec(command: &[&str]) -> ServiceSpec {
    ServiceSpec {
        jail: None,
        name: "web".to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        wrapper_words: 0,
        env: [("GREETING".to_owned(), "it's a  $HOME".to_owned())].into(),
        cwd: PathBuf::new(),
        files: [("site/page".to_owned(), page())].into(),
        secrets: [("key".to_owned(), b"secret".to_vec())].into(),
        cores: vec![0],
        place: PlaceKind::Native,
        stop_signal: 15,
        library_path: None,
        open_files: Some(512),
        limits: ResourceLimits::default(),
        container: None,
        follow: FollowSpec::default(),
    }
}

/// Returns a page of several pieces with every byte, including those that end a request.
fn page() -> Vec<u8> {
    (0..200_000_u32).map(|n| (n % 256) as u8).collect()
}

fn get(endpoint: &Endpoint) -> Vec<u8> {
    let Endpoint::Tcp(address) = endpoint else {
        panic!("{endpoint:?}");
    };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let end = response
        .windows(4)
        .position(|it| it == b"\r\n\r\n")
        .unwrap();
    response.split_off(end + 4)
}

#[test]
fn a_service_is_copied_started_watched_and_stopped_with_every_shell() {
    for shell in SHELLS {
        let mut far = Far::start(shell);
        let endpoint = far.serve();
        assert_eq!(get(&endpoint), page(), "{shell:?}");
        let allocated_dir = far.left()[0].join("1");
        let mode = |path: PathBuf| {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode(allocated_dir.join("key")), 0o600);
        assert_eq!(mode(allocated_dir.join("site/page")), 0o644);

        let mut samples = vec![far.host.sample()];
        wait_for("CPU time of the service", || {
            samples.push(far.host.sample());
            let whole = summary(&samples)?;
            let web = whole.services.get("web")?;
            (web.cpu_s > 0.1 && whole.hosts.contains_key("far")).then_some(())
        });
        let whole = summary(&samples).unwrap();
        let web = &whole.services["web"];
        assert_eq!((web.processes_max, web.host.as_deref()), (2, Some("far")));
        assert!(web.memory_max_bytes > 1 << 20, "{web:?}");
        assert_eq!(far.host.take_findings(), []);
        let environment = far.host.environment();
        assert_eq!(environment.hosted["web"], "far");
        let facts = &environment.hosts["far"];
        let own = prony_machine::system::this_machine();
        assert_eq!((&facts.kernel, facts.cores), (&own.kernel, own.cores));
        assert_eq!(facts.memory_bytes, own.memory_bytes);
        assert_eq!(
            facts.sysctls["net.core.somaxconn"],
            own.sysctls["net.core.somaxconn"]
        );
        let program = &environment.services["web"][0];
        assert!(program.version.as_ref().unwrap().starts_with("Python 3"));
        assert_eq!(program.sha256.as_ref().map(String::len), Some(64));

        let stopped = far.host.stop("web").unwrap();
        assert_eq!(stopped.status.as_deref(), Some("signal: 15 (SIGTERM)"));
        assert!(!stopped.killed, "{stopped:?}");
        assert!(TcpStream::connect(address_of(&endpoint)).is_err());
        let log = fs::read_to_string(far.logs.join("web.log")).unwrap();
        let dir = allocated_dir.display();
        assert_eq!(log, format!("listening it's a  $HOME {dir}\n"), "{shell:?}");

        far.host.release().unwrap();
        let folder = far.left().remove(0);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
        let Far {
            host, base, sshd, ..
        } = far;
        drop(host);
        // The keeper ends before ssh does, so nothing has to be awaited.
        assert_eq!(fs::read_dir(base).unwrap().count(), 0, "{shell:?}");
        wait_for("the end of the session", || {
            sessions_of(sshd.process.0.id()).is_empty().then_some(())
        });
    }
}

fn address_of(endpoint: &Endpoint) -> std::net::SocketAddr {
    match endpoint {
        Endpoint::Tcp(address) | Endpoint::Udp(address) => *address,
        Endpoint::Unix(_) => panic!("{endpoint:?}"),
    }
}

#[test]
fn a_lost_connection_ends_the_services_and_the_next_trial_connects_again() {
    for shell in SHELLS {
        let mut far = Far::start(shell);
        let endpoint = far.serve();
        assert!(!far.host.is_lost());
        // The children of the ssh server are the server's ends of connections.
        for pid in children_of(far.sshd.process.0.id()) {
            kill(pid);
        }
        wait_for("the end of the service", || {
            TcpStream::connect(address_of(&endpoint)).err()
        });
        wait_for("the removal of the files", || {
            far.left().is_empty().then_some(())
        });
        far.host.sample();
        assert!(far.host.is_lost());
        let findings = far.host.take_findings();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].id, FindingId::AgentLost);
        assert!(findings[0].text.contains("host far"), "{findings:?}");
        assert_eq!(far.host.take_findings(), []);
        far.host.stop("web").unwrap();
        far.host.release().unwrap();
        let endpoint = far.serve();
        assert_eq!(get(&endpoint), page());
        assert!(!far.host.is_lost());
    }
}

fn children_of(pid: u32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap();
    let words = text.split_whitespace();
    words.map(|word| word.parse().unwrap()).collect()
}

fn kill(pid: i32) {
    // SAFETY: the call takes no pointers; the process descends from a server that the test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn a_killed_session_or_keeper_leaves_nothing() {
    for shell in SHELLS {
        let mut far = Far::start(shell);
        for victim in 0..2 {
            let endpoint = far.serve();
            let main = main_shell(&far.sshd);
            let parts = children_of(main.cast_unsigned());
            assert_eq!(parts.len(), 2, "{shell:?}: a session and a keeper");
            kill(parts[victim]);
            wait_for("the end of the service", || {
                TcpStream::connect(address_of(&endpoint)).err()
            });
            wait_for("the removal of the files", || {
                far.left().is_empty().then_some(())
            });
            // The connection is gone or goes with the next request.
            wait_for("the loss", || {
                far.host.sample();
                far.host.is_lost().then_some(())
            });
            far.host.release().unwrap();
        }
    }
}

/// Returns the shell at the server's end of the only connection.
fn main_shell(sshd: &Sshd) -> i32 {
    let sessions = sessions_of(sshd.process.0.id());
    let parts = sessions.into_iter().find(|pid| {
        let children = children_of(pid.cast_unsigned());
        let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        children.len() == 2 && !name(pid).contains("sshd")
    });
    parts.expect("the session's shell")
}

#[test]
fn a_service_that_ends_is_reported_with_its_log() {
    let mut far = Far::start(None);
    let started: BTreeMap<&str, &str> = [
        ("echo broken; exit 3", "exit status: 3"),
        ("echo broken; kill -SEGV $$", "signal: 11 (SIGSEGV)"),
    ]
    .into();
    for (script, status) in started {
        far.allocate(ListenKind::Tcp);
        far.host
            .start(&spec(&["sh", "-c", script]), &far.logs)
            .unwrap();
        let exit = wait_for("the end", || far.host.alive("web").err());
        assert_eq!(exit.status, status);
        assert_eq!(exit.log_tail, "broken");
        assert_eq!(
            far.host.stop("web").unwrap().status.as_deref(),
            Some(status)
        );
        far.host.release().unwrap();
    }
    far.allocate(ListenKind::Tcp);
    far.host
        .start(&spec(&["not-a-program"]), &far.logs)
        .unwrap();
    let exit = wait_for("the end", || far.host.alive("web").err());
    assert!(exit.log_tail.contains("not-a-program"), "{exit}");
}

#[test]
fn a_long_log_is_cut_on_the_machine_and_here() {
    let mut far = Far::start(None);
    far.allocate(ListenKind::Tcp);
    let script = "echo begin; head -c 80000000 /dev/zero | tr '\\0' x; echo; echo end; sleep 1000";
    far.host
        .start(&spec(&["sh", "-c", script]), &far.logs)
        .unwrap();
    let log = far.left()[0].join("1.log");
    wait_for("the cut on the machine", || {
        let size = fs::metadata(&log).unwrap().len();
        let is_cut = fs::metadata(log.with_extension("log.cut")).is_ok();
        (is_cut && size < 64 << 20).then_some(())
    });
    wait_for("the end of the log", || {
        far.host.log_tail("web", 1).ends_with("end").then_some(())
    });
    let stopped = far.host.stop("web").unwrap();
    assert!(stopped.log_bytes_cut > 70_000_000, "{stopped:?}");
    let log = fs::read_to_string(far.logs.join("web.log")).unwrap();
    assert!(log.len() < 2 << 20, "{}", log.len());
    assert!(log.starts_with("begin\n") && log.ends_with("end\n"));
    assert!(log.contains("prony removed "));
}

#[test]
fn a_service_that_ignores_its_stop_signal_is_killed_with_its_children() {
    let mut far = Far::start(None);
    far.allocate(ListenKind::Tcp);
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo $!; \
                  while :; do sleep 1; done";
    far.host
        .start(&spec(&["sh", "-c", script]), &far.logs)
        .unwrap();
    let child: i32 = wait_for("the child", || {
        far.host.log_tail("web", 5).trim().parse().ok()
    });
    let stopped = far.host.stop("web").unwrap();
    assert!(stopped.killed, "{stopped:?}");
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

/// Returns the error of a connection to the ssh server.
fn refusal(sshd: &Sshd, change: impl FnOnce(&mut SshHost)) -> String {
    let base = tempfile::tempdir().unwrap();
    let mut far = machine(sshd, base.path());
    change(&mut far);
    let error = SshMachines::default().connect(&far).unwrap_err();
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    error.to_string()
}

fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn hosts_that_refuse_say_why_with_a_hint() {
    let sshd = Sshd::start();
    let nobody = format!("ssh://127.0.0.1:{}", free_port());
    let error = refusal(&sshd, |far| far.destination = nobody);
    assert_says(&error, &["host far: ", "refused", "ssh server runs there"]);

    let error = refusal(&sshd, |far| far.dir = Some("/proc/no".to_owned()));
    assert_says(&error, &["no folder can be created there", "/proc/no"]);

    let error = refusal(&sshd, |far| far.address = Some([192, 0, 2, 1].into()));
    assert_says(
        &error,
        &["192.0.2.1 is not an address of that machine", "127.0.0.1"],
    );

    let error = refusal(&sshd, |far| far.sudo = true);
    assert_says(&error, &["the connection has ended", "sudo"]);

    let other = Sshd::start();
    let key = fs::read_to_string(other.folder.path().join("host_key.pub")).unwrap();
    fs::write(
        sshd.known_hosts(),
        format!("[127.0.0.1]:{} {key}", sshd.port),
    )
    .unwrap();
    let error = refusal(&sshd, |_| {});
    assert_says(&error, &["Host key verification failed", "ssh-keygen -R"]);

    fs::remove_file(sshd.known_hosts()).unwrap();
    fs::write(sshd.folder.path().join("authorized"), "").unwrap();
    let error = refusal(&sshd, |_| {});
    assert_says(&error, &["Permission denied", "set up a key"]);

    let sshd = Sshd::with("ForceCommand echo This account is currently not available.");
    let error = refusal(&sshd, |_| {});
    assert_says(&error, &["the connection has ended"]);
}

#[test]
fn hosts_that_hang_are_given_up() {
    let sshd = Sshd::with("ForceCommand sleep 1000");
    let error = refusal(&sshd, |_| {});
    assert_says(&error, &["no response within 15 s"]);
    // A server that accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("ssh://{}", silent.local_addr().unwrap());
    let error = refusal(&sshd, |far| far.destination = silent);
    assert_says(&error, &["the connection has ended", "timed out"]);
}

#[test]
fn banners_are_skipped_and_endless_output_is_bounded() {
    let noise = "head -c 3000000 /dev/zero | tr '\\0' '@'; head -c 300000 /dev/urandom; \
                 head -c 3000000 /dev/zero | tr '\\0' x >&2; exec sh";
    let mut far = Far::of(Sshd::with(&format!("ForceCommand {noise}")), |_| {});
    let endpoint = far.serve();
    assert_eq!(get(&endpoint), page());
    drop(far);
    for endless in ["yes '@@0000 system'", "tr '\\0' x </dev/zero"] {
        let sshd = Sshd::with(&format!("ForceCommand {endless}"));
        let error = refusal(&sshd, |_| {});
        assert_says(&error, &["too long"]);
        wait_for("the end of the session", || {
            sessions_of(sshd.process.0.id()).is_empty().then_some(())
        });
    }
}

#[test]
fn a_full_disk_is_reported_and_the_machine_stays_usable() {
    // The session has a small file system of its own.
    let state = tempfile::tempdir().unwrap();
    let base = state.path().join("small");
    fs::create_dir(&base).unwrap();
    let map = if is_root() { "" } else { "-r" };
    let inside = format!(
        "mount -t tmpfs -o size=100k prony {} && exec sh",
        base.display()
    );
    let sshd = Sshd::with(&format!("ForceCommand unshare {map} -m sh -c '{inside}'"));
    let mut far = Far::of(sshd, |far| far.dir = Some(base.display().to_string()));
    for _ in 0..2 {
        far.allocate(ListenKind::Tcp);
        let error = far
            .host
            .start(&spec(&["sleep", "100"]), &far.logs)
            .unwrap_err();
        let error = error.to_string();
        assert_says(
            &error,
            &["site/page could not be written there", "free space: 0 KiB"],
        );
        far.host.release().unwrap();
    }
    far.allocate(ListenKind::Tcp);
    let small = ServiceSpec {
        files: [("page".to_owned(), page()[..50_000].to_vec())].into(),
        ..spec(&["sleep", "100"])
    };
    far.host.start(&small, &far.logs).unwrap();
    far.host.alive("web").unwrap();
    assert!(!far.host.is_lost());
}

fn is_root() -> bool {
    // SAFETY: the call takes no arguments and can't fail.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_port_that_was_taken_meanwhile_is_reported() {
    let mut far = Far::start(None);
    let allocated = far.allocate(ListenKind::Tcp);
    let _taken = TcpListener::bind(address_of(&allocated.endpoints[""])).unwrap();
    let error = far
        .host
        .start(&spec(&["sleep", "100"]), &far.logs)
        .unwrap_err();
    let address = address_of(&allocated.endpoints[""]);
    let says = format!("host far: service web: {address} is in use on that machine");
    assert_eq!(error.to_string(), says);
}

#[test]
fn a_daemon_is_found_by_its_port() {
    for connection_ends in [false, true] {
        let mut far = Far::start(None);
        let allocated = far.allocate(ListenKind::Tcp);
        let endpoint = allocated.endpoints[""].clone();
        let (ip, port) = (
            address_of(&endpoint).ip().to_string(),
            address_of(&endpoint).port(),
        );
        // The first process ends when the socket is bound; the daemon has a session of its own.
        let daemon = format!(
            "import os,sys,time\ndef fork():\n if os.fork(): os._exit(0)\n{}",
            SERVER.replace("parent=", "fork();os.setsid();fork();parent=")
        );
        let command = ["python3", "-c", &daemon, &ip, &port.to_string()];
        far.host.start(&spec(&command), &far.logs).unwrap();
        far.wait_until_ready(&endpoint);
        assert_eq!(get(&endpoint), page());
        far.host.alive("web").unwrap();
        if connection_ends {
            for pid in children_of(far.sshd.process.0.id()) {
                kill(pid);
            }
        } else {
            let stopped = far.host.stop("web").unwrap();
            assert!(!stopped.killed, "{stopped:?}");
        }
        wait_for("the end of the daemon", || {
            TcpStream::connect(address_of(&endpoint)).err()
        });
    }
}

#[test]
fn a_unix_socket_is_awaited_and_opened_for_every_user() {
    use std::os::unix::fs::PermissionsExt;
    let mut far = Far::start(None);
    let allocated = far.allocate(ListenKind::Unix);
    let Endpoint::Unix(path) = &allocated.endpoints[""] else {
        panic!("{allocated:?}");
    };
    let server = "import os,socket,sys,time\nos.umask(0o77)\ns=socket.socket(socket.AF_UNIX)\n\
                  s.bind(sys.argv[1])\ns.listen()\ntime.sleep(1000)\n";
    let command = ["python3", "-c", server, path.to_str().unwrap()];
    far.host.start(&spec(&command), &far.logs).unwrap();
    far.wait_until_ready(&allocated.endpoints[""]);
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn everything_runs_through_sudo_if_told() {
    let tools = tempfile::tempdir().unwrap();
    let used = tools.path().join("used");
    let sudo = format!(
        "[ \"$1\" = -n ] || exit 1\nshift\necho \"$*\" >'{}'\nexec \"$@\"",
        used.display()
    );
    write_tool(tools.path(), "sudo", &sudo);
    let mut far = Far::of(Sshd::with(&path_with(tools.path())), |far| far.sudo = true);
    far.serve();
    let used = fs::read_to_string(used).unwrap();
    assert!(used.contains("/bin/sh"), "{used}");
    assert!(used.contains("SSH_CONNECTION=127.0.0.1 "), "{used}");
}

/// Writes a shell script that stands for a program of the other machine.
fn write_tool(folder: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the line of sshd's configuration with which sessions find programs in a folder first.
fn path_with(folder: &Path) -> String {
    format!(
        "SetEnv PATH={}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        folder.display()
    )
}

#[test]
fn a_slow_link_delays_but_loses_nothing() {
    let state = tempfile::tempdir().unwrap();
    let relay = state.path().join("relay.py");
    // Passes 4 KiB every 10 ms in each direction.
    let script = "import os,socket,sys,threading,time\n\
        s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n\
        def move(read,write):\n\
        \x20while True:\n\
        \x20 data=read(4096)\n\
        \x20 if not data: os._exit(0)\n\
        \x20 time.sleep(0.01)\n\
        \x20 write(data)\n\
        threading.Thread(target=move,args=(lambda n:os.read(0,n),s.sendall)).start()\n\
        move(s.recv,lambda d:os.write(1,d))\n";
    fs::write(&relay, script).unwrap();
    let mut far = Far::of(Sshd::start(), |far| {
        let proxy = format!("ProxyCommand=python3 {} %h %p", relay.display());
        far.ssh.extend(["-o".to_owned(), proxy]);
    });
    let endpoint = far.serve();
    assert_eq!(get(&endpoint), page());
    far.host.stop("web").unwrap();
    let log = fs::read_to_string(far.logs.join("web.log")).unwrap();
    assert!(log.starts_with("listening "), "{log}");
}

#[test]
fn silence_ends_the_services() {
    let mut far = Far::start(None);
    let endpoint = far.serve();
    // A stopped client, like a cut cable, neither sends nor closes anything.
    let ssh = find_ssh(far.sshd.port).expect("the client");
    // SAFETY: the calls take no pointers; the process is a child of this one.
    unsafe { libc::kill(ssh, libc::SIGSTOP) };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while TcpStream::connect(address_of(&endpoint)).is_ok() || !far.left().is_empty() {
        assert!(
            std::time::Instant::now() < deadline,
            "the service still runs"
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // SAFETY: as above.
    unsafe { libc::kill(ssh, libc::SIGCONT) };
    wait_for("the loss", || {
        far.host.sample();
        far.host.is_lost().then_some(())
    });
}

/// Finds the ssh client that connects to a port, which any thread of this process may have started.
fn find_ssh(port: u16) -> Option<i32> {
    let processes = sessions_of_threads();
    processes.into_iter().find(|pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        command.starts_with("ssh\0") && command.contains(&format!(":{port}\0"))
    })
}

/// Returns the children of all threads of this process.
fn sessions_of_threads() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let children = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        let words = text.split_whitespace();
        Some(
            words
                .map(|word| word.parse::<i32>().unwrap())
                .collect::<Vec<_>>(),
        )
    });
    children.flatten().collect()
}

#[test]
fn freebsd_is_driven_by_its_own_commands() {
    // The tools print what their manual pages document. FreeBSD itself was never used.
    let tools = tempfile::tempdir().unwrap();
    let jails = tools.path().join("jails");
    fs::create_dir(&jails).unwrap();
    let jails = jails.display();
    let python = "import glob,os,re\n\
        print('USER     COMMAND    PID   FD  PROTO  LOCAL ADDRESS         FOREIGN ADDRESS')\n\
        inodes={}\n\
        for line in open('/proc/net/tcp').readlines()[1:]:\n\
        \x20w=line.split()\n\
        \x20if w[3]=='0A': inodes[w[9]]=int(w[1].split(':')[1],16)\n\
        for fd in glob.glob('/proc/[0-9]*/fd/*'):\n\
        \x20try: m=re.match(r'socket:.(\\d+)',os.readlink(fd))\n\
        \x20except OSError: continue\n\
        \x20if m and m.group(1) in inodes:\n\
        \x20 print('root python3',fd.split('/')[2],'3 tcp4 127.0.0.1:%d *:*'%inodes[m.group(1)])\n";
    fs::write(tools.path().join("sockstat.py"), python).unwrap();
    let sockstat = format!("exec python3 {}/sockstat.py", tools.path().display());
    for (name, script) in [
        (
            "uname",
            "case $1 in -s) echo FreeBSD ;; -r) echo 14.1-RELEASE ;; -m) echo amd64 ;; esac",
        ),
        (
            "ps",
            "case $* in *nvcsw*) ;; *) exec /usr/bin/ps \"$@\" ;; esac\n\
             /usr/bin/ps -axo pid=,ppid=,sid=,state=,nlwp=,rss= | while read -r a b c d e f; do \
             echo \"$a $b $c $d $e $f 0:01.50 0:00.25 10 5 Sat Nov 21 21:21:55 2026 x\"; done",
        ),
        ("sockstat", &sockstat),
        (
            "sysctl",
            "for name; do case $name in hw.ncpu) echo \"$name: 4\" ;; \
             kern.cp_time) echo \"$name: 127 0 254 127 1270\" ;; \
             kern.clockrate) echo \"$name: { hz = 1000, tick = 1000, stathz = 127 }\" ;; \
             hw.physmem) echo \"$name: 8589934592\" ;; \
             hw.model) echo \"$name: Xeon\" ;; esac; done",
        ),
        ("netstat", "true"),
        ("procstat", "true"),
        ("freebsd-version", "echo 14.1-RELEASE-p3"),
        ("sha256", "shift; sha256sum \"$1\" | cut -d' ' -f1"),
        (
            "ifconfig",
            "echo 'lo0: flags=8049<UP>'; echo '\tinet 127.0.0.1 netmask 0xff000000'",
        ),
        (
            "cpuset",
            "if [ \"$1\" = -l ]; then cores=$2; shift 2; exec taskset -c \"$cores\" \"$@\"; fi; \
             echo 'pid 7 mask: 0, 1'",
        ),
        (
            "jls",
            &format!("[ -f {jails}/$2 ] && echo 'path=/ ip4.addr=127.0.0.1 ip6.addr=-'"),
        ),
        (
            "jexec",
            &format!("[ -f {jails}/$1 ] || exit 1; shift; exec \"$@\""),
        ),
        (
            "jail",
            &format!(
                "case $1 in -c) echo \"$*\" >{jails}/${{2#name=}} ;; -r) rm {jails}/$2 ;; esac"
            ),
        ),
    ] {
        write_tool(tools.path(), name, script);
    }
    fs::write(tools.path().join("jails/web"), "").unwrap();
    let created = || {
        let entries = fs::read_dir(tools.path().join("jails")).unwrap();
        let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "web").collect::<Vec<_>>()
    };
    let mut far = Far::of(Sshd::with(&path_with(tools.path())), |_| {});
    let places = [
        None,
        Some(Jail::Existing("web".to_owned())),
        Some(Jail::Root("/".to_owned())),
    ];
    for jail in places {
        let makes_jail = matches!(jail, Some(Jail::Root(_)));
        let endpoint = far.serve_in(jail);
        assert_eq!(get(&endpoint), page());
        assert_eq!(created().len(), usize::from(makes_jail));
        if let Some(name) = created().first() {
            let arguments = fs::read_to_string(tools.path().join("jails").join(name)).unwrap();
            assert_says(&arguments, &["path=/ ", "ip4=inherit", "persist"]);
        }
        far.host.sample();
        let sample = far.host.sample();
        let web = &sample.services["web"];
        assert_eq!(web.processes, 2, "{:?}", far.host.take_findings());
        assert!((web.cpu_s - 3.5).abs() < 1e-9, "{}", web.cpu_s);
        assert_eq!(sample.hosts["far"].cores, 4);
        let facts = &far.host.environment().hosts["far"];
        assert_eq!(facts.distribution, "FreeBSD 14.1-RELEASE-p3");
        let stopped = far.host.stop("web").unwrap();
        assert!(!stopped.killed, "{stopped:?}");
        far.host.release().unwrap();
        assert_eq!(created(), <[String; 0]>::default());
        assert!(TcpStream::connect(address_of(&endpoint)).is_err());
    }
    let error = far.allocate_in(Some(Jail::Existing("db".to_owned())), ListenKind::Tcp);
    assert_says(
        &error.unwrap_err().to_string(),
        &["there is no jail \"db\""],
    );
    // The keeper removes a jail, too.
    far.serve_in(Some(Jail::Root("/".to_owned())));
    assert_eq!(created().len(), 1);
    drop(far);
    assert_eq!(created(), <[String; 0]>::default());
}
