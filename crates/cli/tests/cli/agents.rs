//! Runs `prony agent` as a process, and stops or kills it with signals.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use prony_fleet::agent::spool;
use prony_record::{Delta, Outcome};
use rustix::process::Signal;
use serde_json::Value;

use crate::running::{CommandOutput, Origin, Running, TEST_TIMEOUT, Workdir};

/// A NATS server, an agent, and an origin to load.
struct AgentSetup {
    workdir: Workdir,
    up: Running,
    origin: Origin,
}

impl AgentSetup {
    fn new() -> AgentSetup {
        let workdir = Workdir::new();
        let words = [
            "fleet", "up", "--dir", "up", "--listen", "0", "--agents", "1",
        ];
        let mut up = Running::start(workdir.command(&words));
        up.wait_for("nats-server listens on");
        let origin = Origin::tcp(&workdir);
        AgentSetup {
            workdir,
            up,
            origin,
        }
    }

    fn agent(&self) -> Running {
        let words = ["agent", "--creds", "up/agent-1.creds", "--state", "state"];
        let mut agent = Running::start(self.workdir.command(&words));
        agent.wait_for("registered as agent-1");
        agent
    }

    /// Starts a load that would run for a long time.
    fn load(&self) -> Running {
        let words = [
            "load",
            "--creds",
            "up/coordinator.creds",
            "--agents",
            "1",
            "-c",
            "2",
            "-d",
            "60s",
            "--json",
            "-",
            &self.origin.url("/"),
        ];
        let mut load = Running::start(self.workdir.command(&words));
        load.wait_for("started;");
        load
    }

    /// Waits until the agent has written a measurement. Returns the path of its result file.
    fn measures(&self) -> PathBuf {
        let began = Instant::now();
        loop {
            for entry in std::fs::read_dir(self.workdir.path("state/runs")).unwrap() {
                let path = entry.unwrap().path();
                // The coordinator may have collected the file, and the agent removed it, in the
                // meantime.
                let messages = spool::read_spool(&path).unwrap_or_default();
                if messages.len() > 2 && messages.iter().all(|it| it.end.is_none()) {
                    return path;
                }
            }
            assert!(began.elapsed() < TEST_TIMEOUT, "nothing is measured");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(self) {
        self.origin.stop();
        self.up.signal(Signal::INT);
        self.up.end();
        self.workdir.wait_until_quiet();
    }
}

fn json(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{}\n{}", output.out, output.err))
}

#[test]
fn invalid_arguments_are_reported_at_the_start() {
    let workdir = Workdir::new();
    workdir.write(
        "key.creds",
        "role = 'agent'\nname = 'one'\nseed = 'SU'\nservers = []\n",
    );
    workdir.write(
        "boss.creds",
        "role = 'coordinator'\nseed = 'SU'\nservers = []\n",
    );
    workdir.write("bad.creds", "role = 'agent'\nseed = 'SUSECRET'\n");
    for creds in ["key.creds", "boss.creds", "bad.creds"] {
        workdir.set_mode(creds, 0o600);
    }
    workdir.write("open.creds", &workdir.read("key.creds"));
    workdir.set_mode("open.creds", 0o644);
    workdir.write("policy.toml", "[load]\ntarget = ['x']\n");
    for (words, output) in [
        (&["--creds", "none"][..], "none: No such file"),
        (
            &["--creds", "bad.creds"],
            "bad.creds: role \"agent\" needs a name",
        ),
        (
            &["--creds", "boss.creds"],
            "boss.creds: these are the coordinator's",
        ),
        (
            &["--creds", "key.creds", "--name", "two"],
            "agent one, but --name is two",
        ),
        (
            &["--creds", "key.creds", "--name", "a.b"],
            "is not a valid name",
        ),
        (&["--creds", "key.creds", "--label", "x"], "is not a label"),
        (
            &["--creds", "key.creds", "--label", "a=1", "--label", "a=2"],
            "--label a is given twice",
        ),
        (
            &["--creds", "key.creds", "--policy", "policy.toml"],
            "policy.toml",
        ),
        (
            &["--creds", "key.creds", "--state", "state"],
            "they name no server",
        ),
        (&["--creds", "open.creds"], "run `chmod 600 open.creds`"),
        (&[], "--creds"),
    ] {
        let words: Vec<&str> = ["agent"].iter().chain(words).copied().collect();
        let finished = workdir.run(&words).expect(2);
        assert!(finished.err.contains(output), "{words:?}: {}", finished.err);
        assert!(!finished.err.contains("SECRET"), "{}", finished.err);
    }
    let words = [
        "agent",
        "--creds",
        "key.creds",
        "--state",
        "key.creds/x",
        "--nats",
        "tls://127.0.0.1:1",
    ];
    let finished = workdir.run(&words).expect(3);
    assert!(finished.err.contains("--state"), "{}", finished.err);
}

#[test]
fn a_signal_ends_an_agent_and_its_load() {
    let ground = AgentSetup::new();
    for (signal, status) in [(Signal::TERM, 1), (Signal::INT, 130)] {
        let agent = ground.agent();
        let load = ground.load();
        ground.measures();
        agent.signal(signal);
        agent.end().expect(status);
        let output = load.end();
        let record = json(&output);
        assert_eq!(
            record["fleet"]["agents"][0]["ended_because"], "agent-ended",
            "{record}"
        );
        let found = record["findings"].to_string();
        assert!(found.contains("stopped on its own machine"), "{found}");
    }
    ground.end();
}

#[test]
fn results_of_a_killed_agent_are_collected_after_its_restart() {
    let ground = AgentSetup::new();
    let agent = ground.agent();
    let load = ground.load();
    let path = ground.measures();
    agent.signal(Signal::KILL);
    agent.end();
    let mut kept = Delta::default();
    for message in spool::read_spool(&path).unwrap() {
        message.packed.add_to(&mut kept).unwrap();
    }
    // The load ends without a signal to the coordinator, and prints the results so far.
    let output = load.end();
    let record = json(&output);
    assert!(record["totals"]["ok"].as_u64().unwrap() > 0);
    assert!(output.out.contains("agent-lost"), "{}", output.out);

    let agent = ground.agent();
    let name = path.file_name().unwrap().to_str().unwrap();
    let run = name.split('.').next().unwrap();
    let words = [
        "fleet",
        "collect",
        run,
        "--creds",
        "up/coordinator.creds",
        "--json",
        "-",
    ];
    let record = json(&ground.workdir.run(&words));
    let ok = kept.outcomes.get(Outcome::Ok);
    assert!(ok > 0);
    assert_eq!(record["totals"]["ok"], ok, "{record}");
    agent.signal(Signal::TERM);
    agent.end().expect(0);
    ground.end();
}
