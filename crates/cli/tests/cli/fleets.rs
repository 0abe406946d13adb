//! Runs `prony fleet up`, which starts a NATS server for a fleet.

use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, Signal, kill_process};

use crate::running::{CommandOutput, Room, Running};

/// Starts `fleet up` on a room's folder `up`. Returns it once it listens, and its address.
fn up(room: &Room, more: &[&str]) -> (Running, String) {
    let mut words = vec!["fleet", "up", "--dir", "up"];
    words.extend(more);
    let mut running = Running::start(room.command(&words));
    running.wait_for("nats-server listens on");
    let known: toml::Table = room.read("up/up.toml").parse().unwrap();
    (running, known["listen"].as_str().unwrap().to_owned())
}

/// Sends Ctrl-C, and returns the output.
fn interrupt(room: &Room, running: Running) -> CommandOutput {
    running.signal(Signal::INT);
    let output = running.end().expect(0);
    room.wait_until_quiet();
    output
}

fn seed(room: &Room, file: &str) -> String {
    let text = room.read(file);
    let line = text.lines().find(|line| line.starts_with("seed"));
    line.unwrap().to_owned()
}

#[test]
fn a_server_has_lines_for_agents_and_keeps_their_keys() {
    let room = Room::new();
    let (running, listen) = up(&room, &["--listen", "0", "--agents", "2"]);
    for name in ["agent-1", "agent-2", "coordinator"] {
        let path = room.path(&format!("up/{name}.creds"));
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }
    assert_eq!(
        std::fs::metadata(room.path("up")).unwrap().mode() & 0o777,
        0o700
    );
    let before = seed(&room, "up/agent-2.creds");

    // A second one on the same folder reports the first, and adds its agents.
    let output = room
        .run(&["fleet", "up", "--dir", "up", "--agent", "late"])
        .expect(0);
    assert!(output.err.contains("is already running"), "{}", output.err);
    let lines: Vec<&str> = output.out.lines().collect();
    let folder = room.path("up");
    let folder = std::fs::canonicalize(folder).unwrap();
    let line = |name: &str| format!("prony agent --creds {}/{name}.creds", folder.display());
    assert_eq!(lines[..3], [line("agent-1"), line("agent-2"), line("late")]);
    assert!(lines[3].starts_with("prony load --creds ") && lines[3].ends_with("--agents 3 URL"));
    // The printed command works while the server continues.
    let words: Vec<&str> = lines[2].split(' ').skip(1).collect();
    let mut agent = Running::start(room.command(&[&words[..], &["--state", "state"]].concat()));
    agent.wait_for("registered as late");
    let output = room.run(&["fleet", "list", "--creds", "up/coordinator.creds"]);
    let output = output.expect(0);
    assert!(output.out.contains("\nlate "), "{}", output.out);
    let output = room
        .run(&["fleet", "list", "--creds", "up/late.creds"])
        .expect(2);
    assert!(
        output.err.contains("the coordinator needs its own"),
        "{}",
        output.err
    );
    agent.signal(Signal::TERM);
    agent.end().expect(0);
    let output = room
        .run(&["fleet", "up", "--dir", "up", "--listen", "1.2.3.4:5"])
        .expect(3);
    assert!(output.err.contains(&listen), "{}", output.err);

    let output = interrupt(&room, running);
    assert!(output.out.starts_with(&line("agent-1")), "{}", output.out);
    let (running, again) = up(&room, &[]);
    assert_eq!(again, listen);
    assert_eq!(seed(&room, "up/agent-2.creds"), before);
    interrupt(&room, running);
}

#[test]
fn a_server_that_was_left_behind_is_ended_first() {
    let room = Room::new();
    let (running, listen) = up(&room, &["--listen", "0"]);
    let left: i32 = room.read("up/store/nats.pid").trim().parse().unwrap();
    running.signal(Signal::KILL);
    running.end();
    let left = Pid::from_raw(left).unwrap();
    kill_process(left, Signal::CONT).expect("nats-server outlives a prony that is killed");
    let (running, again) = up(&room, &[]);
    assert_eq!(again, listen);
    assert_ne!(
        room.read("up/store/nats.pid").trim(),
        left.as_raw_nonzero().to_string()
    );
    interrupt(&room, running);
}

#[test]
fn impossible_setups_are_reported_before_the_start() {
    let room = Room::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = room.path("file");
    room.write("file", "");
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
        (&["--name", "0.0.0.0"], 2, "is not reachable"),
        (&["--agent", "a.b"], 2, "is not a valid name"),
        (&["--agent", "coordinator"], 2, "can't be called"),
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
        let output = room.run(&all).expect(*status);
        assert!(output.err.contains(text), "{words:?}: {}", output.err);
        assert!(output.out.is_empty());
    }
    assert!(!room.path("up/up.toml").exists());
    let mut without = room.command(&["fleet", "up", "--dir", "up", "--listen", "0"]);
    let hidden = without
        .env("PRONY_NATS_SERVER", "/nonexistent/nats-server")
        .output()
        .unwrap();
    assert_eq!(hidden.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&hidden.stderr).contains("package nats-server"));
    assert!(room.left_running().is_empty());
}
