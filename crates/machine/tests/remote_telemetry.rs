//! Tests of telemetry over ssh. Each test starts an ssh server on this machine, which acts as the
//! remote machine.
//!
//! The tests require python3 and the client and server of OpenSSH, which `cargo xtask test`
//! installs. They don't require root. Without root, the ssh server accepts only logins of the user
//! who runs the tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use prony_machine::host::Host;
use prony_machine::host::local::LocalHost;
use prony_machine::system::port;
use prony_machine::telemetry::{MemoryKind, summary};
use prony_plan::service::{FollowSpec, PortProtocol};
use prony_plan::watch_spec::{RemoteMachine, RemoteService, WatchSpec};
use prony_record::FindingId;

/// Timeout for every wait. It is long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An ssh server with its own keys, on a port that was free before its start.
struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    process: Killed,
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn server_program() -> PathBuf {
    ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
        .expect("these tests require an ssh server (package openssh-server)")
}

fn free_port() -> u16 {
    port::pick(Ipv4Addr::LOCALHOST.into(), &[PortProtocol::Tcp]).unwrap()
}

impl Sshd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host_key", "user_key"] {
            run(
                "ssh-keygen",
                &["-q", "-t", "ed25519", "-N", "", "-f", &path(key)],
            );
        }
        fs::copy(path("user_key.pub"), path("authorized")).unwrap();
        if run("id", &["-u"]) == "0" {
            // As root, sshd refuses connections without this folder, which Debian creates at boot.
            let _ = fs::create_dir("/run/sshd");
        }
        // Another process may take the port before sshd binds it. In that case, try another port.
        for _ in 0..5 {
            let port = free_port();
            let config = format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n",
                path("host_key"),
                path("authorized"),
            );
            fs::write(path("config"), config).unwrap();
            let log = fs::File::create(path("log")).unwrap();
            let mut process = Command::new(server_program())
                .args(["-D", "-e", "-f", &path("config")])
                .stderr(log)
                .spawn()
                .map(Killed)
                .unwrap();
            // Check sshd's log, because another process may be listening on the port.
            let said = || fs::read_to_string(path("log")).unwrap_or_default();
            let listens = wait_for("the ssh server", || {
                let has_ended = process.0.try_wait().unwrap().is_some();
                let listens = said().contains("Server listening");
                (has_ended || listens).then_some(listens && !has_ended)
            });
            if listens {
                return Self {
                    folder,
                    port,
                    process,
                };
            }
            assert!(said().contains("already in use"), "{}", said());
        }
        panic!("each port was taken before the ssh server bound it");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns this ssh server as a remote machine with one service.
    fn machine(&self, name: &str, service: RemoteService) -> RemoteMachine {
        let key = self.folder.path().join("user_key");
        let words = [
            "-F",
            "none",
            "-i",
            &key.display().to_string(),
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
        ];
        RemoteMachine {
            destination: format!("ssh://{}@127.0.0.1:{}", run("id", &["-un"]), self.port),
            ssh: words.map(str::to_owned).to_vec(),
            services: [(name.to_owned(), service)].into(),
        }
    }
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

/// Starts a server with a busy worker process. Returns the server and its port.
fn server() -> (Killed, u16) {
    let program = "import os,socket,time\n\
        s=socket.create_server(('127.0.0.1',0))\n\
        parent=os.getpid()\n\
        if os.fork()==0:\n\
        \x20while os.getppid()==parent:\n\
        \x20 for i in range(200000): pass\n\
        \x20 time.sleep(0.001)\n\
        \x20os._exit(0)\n\
        print(s.getsockname()[1],flush=True)\n\
        while True: time.sleep(1)\n";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    (Killed(child), line.trim().parse().unwrap())
}

fn host(folder: &Path) -> LocalHost {
    LocalHost::with_state_in(folder.to_owned())
}

fn watch(machine: RemoteMachine) -> WatchSpec {
    WatchSpec {
        remote: Some(machine),
        ..WatchSpec::default()
    }
}

fn assert_is_read(host: &mut LocalHost, sshd: &Sshd) {
    let is_read = host.sample().remote.is_some();
    assert!(is_read, "{:?}\n{}", host.take_findings(), sshd.log());
}

#[test]
fn a_remote_service_is_found_by_its_port_and_measured() {
    let sshd = Sshd::start();
    let (_server, port) = server();
    let state = tempfile::tempdir().unwrap();
    let mut host = host(state.path());
    let service = RemoteService {
        port: Some(port),
        ..RemoteService::default()
    };
    host.watch(watch(sshd.machine("web", service)));
    let mut samples = vec![host.sample()];
    wait_for("CPU time of the remote worker", || {
        samples.push(host.sample());
        let findings = host.take_findings();
        assert!(findings.is_empty(), "{findings:?}\n{}", sshd.log());
        let whole = summary(&samples)?;
        Some(whole).filter(|whole| whole.services["web"].cpu_s > 0.2)
    });
    let whole = summary(&samples).unwrap();
    let web = &whole.services["web"];
    assert!(web.cpu_user_s > web.cpu_system_s, "{web:?}");
    assert!(web.context_switches_per_s > 0.0, "{web:?}");
    assert_eq!(
        (web.processes_max, web.memory_kind),
        (2, MemoryKind::Proportional)
    );
    assert!(
        web.memory_max_bytes > 1 << 20 && web.open_files_max >= 4,
        "{web:?}"
    );
    let remote = whole.remote.unwrap();
    assert_eq!(
        remote.cores, whole.host.cores,
        "the remote machine is this one"
    );
    assert!(remote.memory_used_mean_bytes > 0.0 && remote.interfaces.contains_key("lo"));
    assert!(samples.iter().all(|sample| sample.remote.is_some()));
}

#[test]
fn a_remote_pid_file_identifies_the_service() {
    let sshd = Sshd::start();
    let (server, _) = server();
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("it's a pid file");
    fs::write(&file, format!("{}\n", server.0.id())).unwrap();
    let mut host = host(state.path());
    let follow = FollowSpec {
        pid_file: Some(file),
        ..FollowSpec::default()
    };
    host.watch(watch(
        sshd.machine("web", RemoteService { port: None, follow }),
    ));
    let sample = host.sample();
    let findings = host.take_findings();
    assert!(findings.is_empty(), "{findings:?}\n{}", sshd.log());
    assert_eq!(sample.services["web"].processes, 2);
}

#[test]
fn an_ssh_failure_is_a_finding_and_sampling_continues() {
    let state = tempfile::tempdir().unwrap();
    let mut host = host(state.path());
    let sshd = Sshd::start();
    let machine = sshd.machine("web", RemoteService::default());
    let nobody = RemoteMachine {
        destination: format!("ssh://nobody@127.0.0.1:{}", free_port()),
        ..machine.clone()
    };
    host.watch(watch(nobody));
    assert!(host.sample().remote.is_none());
    let findings = host.take_findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].id, FindingId::TelemetryLost);
    assert!(findings[0].text.contains("refused"), "{}", findings[0].text);
    assert!(
        host.take_findings().is_empty(),
        "a failure is reported once"
    );

    // The service has a port on which no process listens.
    let without_listener = RemoteService {
        port: Some(free_port()),
        ..RemoteService::default()
    };
    host.watch(watch(sshd.machine("web", without_listener)));
    host.sample();
    let findings = host.take_findings();
    assert!(
        findings[0]
            .text
            .contains("no visible process listens on port"),
        "{findings:?}"
    );
}

#[test]
fn a_broken_connection_is_reopened_for_the_next_trial() {
    let mut sshd = Sshd::start();
    let state = tempfile::tempdir().unwrap();
    let mut host = host(state.path());
    let machine = sshd.machine("web", RemoteService::default());
    host.watch(watch(machine.clone()));
    assert_is_read(&mut host, &sshd);
    let sessions = sessions_of(sshd.process.0.id());
    assert!(!sessions.is_empty());
    for pid in sessions {
        // SAFETY: the call takes no pointers; the process descends from the server that this test
        // started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    wait_for("the end of the connection", || {
        host.sample().remote.is_none().then_some(())
    });
    let findings = host.take_findings();
    assert!(findings[0].text.contains("ended"), "{findings:?}");
    host.watch(watch(machine));
    assert_is_read(&mut host, &sshd);
    drop(host);
    wait_for("the end of the remote shell", || {
        sessions_of(sshd.process.0.id()).is_empty().then_some(())
    });
    assert!(sshd.process.0.try_wait().unwrap().is_none());
}

/// Returns the process IDs of all descendants of a process.
fn sessions_of(root: u32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = vec![root.cast_signed()];
    while let Some(pid) = next.pop() {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        let children = text
            .split_whitespace()
            .filter_map(|word| word.parse::<i32>().ok());
        for child in children {
            found.push(child);
            next.push(child);
        }
    }
    found
}
