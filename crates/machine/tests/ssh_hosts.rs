//! Tests of services over ssh. Each test starts an ssh server on this machine, which acts as the
//! other machine.
//!
//! The tests require python3, busybox, and the client and server of OpenSSH. They don't require
//! root.

mod sshd;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use prony_machine::host::local::LocalHost;
use prony_machine::host::ssh::{SshHosts, SshMachines};
use prony_machine::host::{Host, ReadinessProbe};
use prony_machine::telemetry::summary;
use prony_plan::service::{
    AllocatedService, Allocation, Endpoint, FollowSpec, ListenKind, PlaceKind, ResourceLimits,
    ServiceSpec,
};
use prony_plan::ssh_host::SshHost;
use prony_plan::topology::Topology;
use prony_record::FindingId;

use sshd::{Sshd, sessions_of, wait_for};

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
    fn start(shell: Option<&str>) -> Self {
        let config = shell.map_or_else(String::new, |shell| format!("ForceCommand {shell}"));
        let sshd = Sshd::with(&config);
        let state = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            let path = state.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (base, logs) = (path("tmp of the machine"), path("logs"));
        let here = LocalHost::with_state_in(path("here"));
        let mut machines = SshMachines::default();
        let connected = machines.connect(&machine(&sshd, &base));
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
        let wanted = Allocation {
            service: "web".to_owned(),
            host: Some("far".to_owned()),
            exposed: true,
            place: PlaceKind::Native,
            listen: [(String::new(), listen)].into(),
        };
        let mut allocated = self.host.allocate(&[wanted], &Topology::default()).unwrap();
        allocated.remove("web").unwrap()
    }

    /// Allocates and starts the server, and waits until it is ready.
    fn serve(&mut self) -> Endpoint {
        let allocated = self.allocate(ListenKind::Tcp);
        let endpoint = allocated.endpoints[""].clone();
        let Endpoint::Tcp(address) = endpoint else {
            panic!("{endpoint:?}");
        };
        let port = address.port().to_string();
        let command = ["python3", "-c", SERVER, &address.ip().to_string(), &port];
        self.host.start(&spec(&command), &self.logs).unwrap();
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
        let hosted = far.host.environment().hosted;
        assert_eq!(hosted["web"], "far");

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
