//! Runs `prony fleet up`, which starts a NATS server for a fleet.

use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, Signal, kill_process};

use crate::running::{CommandOutput, Running, Workdir};

/// Starts `prony fleet up` on the folder `up` in `workdir`. Waits until it listens, and returns the
/// process and its address.
fn up(workdir: &Workdir, more: &[&str]) -> (Running, String) {
    let mut words = vec!["fleet", "up", "--dir", "up"];
    words.extend(more);
    let mut running = Running::start(workdir.command(&words));
    running.wait_for("nats-server listens on");
    let known: toml::Table = workdir.read("up/up.toml").parse().unwrap();
    (running, known["listen"].as_str().unwrap().to_owned())
}

/// Sends Ctrl-C, and returns the output.
fn interrupt(workdir: &Workdir, running: Running) -> CommandOutput {
    running.signal(Signal::INT);
    let output = running.end().expect(0);
    workdir.wait_until_quiet();
    output
}

fn seed(workdir: &Workdir, file: &str) -> String {
    let text = workdir.read(file);
    let line = text.lines().find(|line| line.starts_with("seed"));
    line.unwrap().to_owned()
}

#[test]
fn a_server_has_lines_for_agents_and_keeps_their_keys() {
    let workdir = Workdir::new();
    let (running, listen) = up(&workdir, &["--listen", "0", "--agents", "2"]);
    for name in ["agent-1", "agent-2", "coordinator"] {
        let path = workdir.path(&format!("up/{name}.creds"));
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }
    assert_eq!(
        std::fs::metadata(workdir.path("up")).unwrap().mode() & 0o777,
        0o700
    );
    let before = seed(&workdir, "up/agent-2.creds");

    // A second `prony fleet up` on the same folder reports that the first is running, and adds its
    // agents.
    let output = workdir
        .run(&["fleet", "up", "--dir", "up", "--agent", "late"])
        .expect(0);
    assert!(output.err.contains("is already running"), "{}", output.err);
    let lines: Vec<&str> = output.out.lines().collect();
    let folder = workdir.path("up");
    let folder = std::fs::canonicalize(folder).unwrap();
    let line = |name: &str| format!("prony agent --creds {}/{name}.creds", folder.display());
    assert_eq!(lines[..3], [line("agent-1"), line("agent-2"), line("late")]);
    assert!(lines[3].starts_with("prony load --creds ") && lines[3].ends_with("--agents 3 URL"));
    // The printed command works while the server is running.
    let words: Vec<&str> = lines[2].split(' ').skip(1).collect();
    let mut agent = Running::start(workdir.command(&[&words[..], &["--state", "state"]].concat()));
    agent.wait_for("registered as late");
    let output = workdir.run(&["fleet", "list", "--creds", "up/coordinator.creds"]);
    let output = output.expect(0);
    assert!(output.out.contains("\nlate "), "{}", output.out);
    let output = workdir
        .run(&["fleet", "list", "--creds", "up/late.creds"])
        .expect(2);
    assert!(
        output.err.contains("the coordinator needs its own"),
        "{}",
        output.err
    );
    agent.signal(Signal::TERM);
    agent.end().expect(0);
    let output = workdir
        .run(&["fleet", "up", "--dir", "up", "--listen", "1.2.3.4:5"])
        .expect(3);
    assert!(output.err.contains(&listen), "{}", output.err);

    let output = interrupt(&workdir, running);
    assert!(output.out.starts_with(&line("agent-1")), "{}", output.out);
    let (running, again) = up(&workdir, &[]);
    assert_eq!(again, listen);
    assert_eq!(seed(&workdir, "up/agent-2.creds"), before);
    interrupt(&workdir, running);
}

#[test]
fn a_server_that_was_left_behind_is_ended_first() {
    let workdir = Workdir::new();
    let (running, listen) = up(&workdir, &["--listen", "0"]);
    let left: i32 = workdir.read("up/store/nats.pid").trim().parse().unwrap();
    running.signal(Signal::KILL);
    running.end();
    let left = Pid::from_raw(left).unwrap();
    kill_process(left, Signal::CONT).expect("nats-server outlives a prony that is killed");
    let (running, again) = up(&workdir, &[]);
    assert_eq!(again, listen);
    assert_ne!(
        workdir.read("up/store/nats.pid").trim(),
        left.as_raw_nonzero().to_string()
    );
    interrupt(&workdir, running);
}

#[test]
fn impossible_setups_are_reported_before_the_start() {
    let workdir = Workdir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = workdir.path("file");
    workdir.write("file", "");
    let file = file.to_str().unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--listen", &taken], 3, "is in use"),
        (
            &["--listen", "192.0.2.1:4222"],
            3,
            "not an address of this machine",
        ),
        (&["--listen", "0.0.0.0:0"], 2, "--name 10.0.0.1"),
        (&["--listen", "nats.test:4222"], 2, "is not an address"),
        (&["--name", "10.0.0.1"], 2, "--listen 0.0.0.0:4222"),
        (&["--name", "tls://x:4222"], 2, "is not a host"),
        (
            &["--name", "0.0.0.0"],
            2,
            "is not an address that agents can reach",
        ),
        (&["--agent", "a.b"], 2, "is not a valid name"),
        (&["--agent", "coordinator"], 2, "can't have the name"),
        (&["--agents", "0"], 2, "0"),
        (&["--dir", file], 2, "file"),
    ];
    for (words, status, text) in cases {
        let mut all = vec!["fleet", "up"];
        if words[0] != "--dir" {
            all.extend(["--dir", "up"]);
        }
        if !words.contains(&"--listen") && words[0] != "--name" {
            all.extend(["--listen", "0"]);
        }
        all.extend(*words);
        let output = workdir.run(&all).expect(*status);
        assert!(output.err.contains(text), "{words:?}: {}", output.err);
        assert!(output.out.is_empty());
    }
    assert!(!workdir.path("up/up.toml").exists());
    let mut without = workdir.command(&["fleet", "up", "--dir", "up", "--listen", "0"]);
    let hidden = without
        .env("PRONY_NATS_SERVER", "/nonexistent/nats-server")
        .output()
        .unwrap();
    assert_eq!(hidden.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&hidden.stderr).contains("package nats-server"));
    assert!(workdir.left_running().is_empty());
}
