//! Tests of telemetry over ssh. Each test starts an ssh server on this machine, which acts as the
//! remote machine.
//!
//! The tests require python3 and the client and server of OpenSSH, which `cargo xtask test`
//! installs. They don't require root. Without root, the ssh server accepts only logins of the user
//! who runs the tests.

mod sshd;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use prony_machine::host::Host;
use prony_machine::host::local::LocalHost;
use prony_machine::telemetry::{MemoryKind, summary};
use prony_plan::service::FollowSpec;
use prony_plan::watch_spec::{RemoteMachine, RemoteService, WatchSpec};
use prony_record::FindingId;

use sshd::{Killed, Sshd, free_port, sessions_of, wait_for};

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

/// Returns an ssh server as a remote machine with one service.
fn remote_machine(sshd: &Sshd, name: &str, service: RemoteService) -> RemoteMachine {
    let mut ssh = sshd.arguments();
    RemoteMachine {
        destination: ssh.pop().unwrap(),
        ssh,
        services: [(name.to_owned(), service)].into(),
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
    host.watch(watch(remote_machine(&sshd, "web", service)));
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
    host.watch(watch(remote_machine(
        &sshd,
        "web",
        RemoteService { port: None, follow },
    )));
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
    let machine = remote_machine(&sshd, "web", RemoteService::default());
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
    host.watch(watch(remote_machine(&sshd, "web", without_listener)));
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
    let machine = remote_machine(&sshd, "web", RemoteService::default());
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
