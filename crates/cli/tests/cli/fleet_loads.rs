//! Loads on several agents that run as separate processes.

use std::path::PathBuf;
use std::time::Instant;

use prony_fleet::agent::spool;
use prony_fleet::wire::ResultMessage;
use prony_record::{Delta, Nanos, Record};
use rustix::process::Signal;
use serde_json::Value;

use crate::running::{CommandOutput, Origin, Running, TEST_TIMEOUT, Workdir, check_schema};

/// A NATS server, agents, and an origin to load.
pub(crate) struct FleetSetup {
    pub(crate) workdir: Workdir,
    up: Running,
    agents: Vec<Running>,
    pub(crate) origin: Origin,
}

impl FleetSetup {
    pub(crate) fn new(agents: usize) -> FleetSetup {
        let workdir = Workdir::new();
        let count = agents.to_string();
        let words = [
            "fleet", "up", "--dir", "up", "--listen", "0", "--agents", &count,
        ];
        let mut up = Running::start(workdir.command(&words));
        up.wait_for("nats-server listens on");
        let origin = Origin::tcp(&workdir);
        let mut ground = FleetSetup {
            workdir,
            up,
            agents: Vec::new(),
            origin,
        };
        ground.agents = (1..=agents).map(|number| ground.agent(number)).collect();
        ground
    }

    fn agent(&self, number: usize) -> Running {
        let creds = format!("up/agent-{number}.creds");
        let label = format!("number={number}");
        let words = [
            "agent", "--creds", &creds, "--state", "state", "--label", &label,
        ];
        let mut agent = Running::start(self.workdir.command(&words));
        agent.wait_for("registered as");
        agent
    }

    /// Runs a command as the coordinator.
    fn run(&self, words: &[&str]) -> CommandOutput {
        self.workdir.run(&self.words(words))
    }

    pub(crate) fn words<'a>(&self, words: &[&'a str]) -> Vec<&'a str> {
        let creds = ["--creds", "up/coordinator.creds"];
        // The clocks of agents can't be compared quickly while the cores are busy.
        let bound = match words {
            ["load", ..] if !words.contains(&"--clock-bound") => &["--clock-bound", "1s"][..],
            _ => &[],
        };
        [words, &creds, bound].concat()
    }

    /// Returns the agents' result files.
    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.workdir.path("state/runs")).into_iter();
        let paths = entries.flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
            .collect();
        files.sort();
        files
    }

    /// Waits until the given number of agents have written measurements, then creates links to
    /// their result files. Agents delete the originals once all results are collected.
    fn keep_files(&self, of: usize) -> Vec<PathBuf> {
        let until = Instant::now() + TEST_TIMEOUT;
        loop {
            let files = self.files();
            let measured =
                |path: &PathBuf| spool::read_spool(path).is_ok_and(|read| !read.is_empty());
            if files.len() == of && files.iter().all(measured) {
                let kept = files.iter().enumerate().map(|(number, file)| {
                    let link = self.workdir.path(&format!("kept-{number}.jsonl"));
                    std::fs::hard_link(file, &link).unwrap();
                    link
                });
                return kept.collect();
            }
            assert!(Instant::now() < until, "{files:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Stops all processes with a signal, and checks that no process or file remains.
    pub(crate) fn end(self) {
        for agent in self.agents {
            agent.signal(Signal::INT);
            agent.end().expect(130);
        }
        self.up.signal(Signal::INT);
        self.up.end().expect(0);
        assert_eq!(self.origin.stop(), Some(0));
        self.workdir.wait_until_quiet();
    }
}

/// Adds up the results in the files. All other data in the returned record comes from `record`.
fn sum(files: &[PathBuf], record: &Record) -> Record {
    let mut all = Delta::default();
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for file in files {
        let messages: Vec<ResultMessage> = spool::read_spool(file).unwrap();
        for message in &messages {
            message.packed.add_to(&mut all).unwrap();
        }
        spans.extend(messages.last().unwrap().end.as_ref().map(|end| end.span));
    }
    assert_eq!(spans.len(), files.len(), "each has an end");
    let begin = spans.iter().map(|span| span.0).min().unwrap();
    let end = spans.iter().map(|span| span.1).max().unwrap();
    Record::build(record.load.clone(), &all, (Nanos(begin), Nanos(end)), None)
}

fn same(record: &Record, expected: &Record) {
    assert_eq!(record.histograms, expected.histograms);
    assert_eq!(record.outcomes, expected.outcomes);
    assert_eq!(record.status, expected.status);
    assert_eq!(record.totals, expected.totals);
    assert_eq!(record.series, expected.series);
    assert_eq!(record.response_time_us, expected.response_time_us);
    record.totals.check().unwrap();
}

fn findings(record: &Record) -> Vec<&str> {
    let ids = record.findings.iter().map(|finding| finding.id.as_str());
    // Ignore findings that may appear on a busy machine.
    ids.filter(|id| ["agent-lost", "partial", "clock-doubtful"].contains(id))
        .collect()
}

#[test]
fn a_load_is_divided_exactly_and_its_record_is_the_sum() {
    let ground = FleetSetup::new(3);
    let url = ground.origin.url("/");
    let load = ground.run(&[
        "load", "--agents", "3", "-c", "7", "-n", "1001", "--json", "one.json", &url,
    ]);
    let output = load.expect(0);
    assert!(
        output.out.contains("1,001 requests: 1,001 ok"),
        "{}",
        output.out
    );
    assert!(output.out.contains("agent-3 "), "{}", output.out);
    check_schema(
        "prony.record-1.schema.json",
        &ground.workdir.json("one.json"),
    );
    let record = Record::from_json(&ground.workdir.read("one.json")).unwrap();
    assert_eq!(record.totals.ok, 1001);
    let fleet = record.fleet.as_ref().unwrap();
    assert_eq!(fleet.agents.iter().map(|it| it.ok).sum::<u64>(), 1001);
    assert_eq!(fleet.agents.iter().map(|it| it.connections).sum::<u64>(), 7);
    assert!(fleet.start_skew_us.is_some());
    assert_eq!(findings(&record), [""; 0]);
    assert!(ground.files().is_empty(), "their counts agree");

    // Compares the record of a longer load with the agents' result files.
    let words = [
        "load", "--agents", "number=1", "-c", "4", "-r", "200", "-d", "2s", "--json", "two.json",
        &url,
    ];
    let running = Running::start(ground.workdir.command(&ground.words(&words)));
    let kept = ground.keep_files(1);
    running.end().expect(0);
    let record = Record::from_json(&ground.workdir.read("two.json")).unwrap();
    let mut expected = sum(&kept, &record);
    (expected.rate.offered_per_s, expected.rate.started_per_s) = (None, None);
    same(&record, &expected);
    assert_eq!(record.totals.started, 400);
    ground.end();
}

#[test]
fn agents_are_listed_checked_and_refuse_by_name() {
    let ground = FleetSetup::new(2);
    let list = ground.run(&["fleet", "list"]).expect(0);
    assert!(
        list.out.contains("agent-1") && list.out.contains("number=2"),
        "{}",
        list.out
    );
    let list = ground.run(&["fleet", "list", "--json", "-"]).expect(0);
    let list: Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!(list[1]["name"], "agent-2");
    assert!(list[0]["age_s"].as_f64().is_some());

    let url = ground.origin.url("/");
    let check = ["fleet", "check", "--clock-bound", "1s"];
    let output = ground.run(&[&check[..], &[&url]].concat()).expect(0);
    assert!(output.out.contains("status 200"), "{}", output.out);
    let far = "http://192.0.2.200:9/";
    let words = [&check[..], &["--agents", "agent-2", "--json", "-", far]].concat();
    let output = ground.run(&words).expect(1);
    let checked: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(
        (&checked[0]["is_wrong"], &checked[1]),
        (&true.into(), &Value::Null)
    );
    let why = checked[0]["target"]["text"].as_str().unwrap();
    assert!(why.contains("load.targets"), "{why}");

    let output = ground
        .run(&["load", "--agents", "2", "--public", far])
        .expect(3);
    assert!(
        output.err.contains("rejected by policy rule load.targets"),
        "{}",
        output.err
    );
    // Output files are opened only after the agents have accepted the load.
    ground.workdir.write("kept.json", "old");
    let words = ["load", "--agents", "3", "--json", "kept.json", &url];
    let output = ground.run(&words).expect(3);
    assert_eq!(ground.workdir.read("kept.json"), "old");
    assert!(
        output
            .err
            .contains("too few free agents: 3 requested, 2 free"),
        "{}",
        output.err
    );
    let output = ground
        .run(&["load", "--agents", "2", "-c", "1", &url])
        .expect(2);
    assert!(
        output.err.contains("--connections 1 is too few"),
        "{}",
        output.err
    );
    let output = ground
        .run(&["load", "--agents", "2", "--urls", "none", &url])
        .expect(2);
    assert!(output.err.contains("none"), "{}", output.err);
    let tight = ["load", "--agents", "2", "--clock-bound", "0.001ms", &url];
    let output = ground.run(&tight).expect(3);
    assert!(output.err.contains("--clock-bound"), "{}", output.err);
    let output = ground
        .workdir
        .run(&["load", "--agents", "2", &url])
        .expect(2);
    assert!(output.err.contains("--creds"), "{}", output.err);
    ground.end();
}

#[test]
fn a_second_interrupt_ends_at_once_and_names_the_run() {
    let ground = FleetSetup::new(2);
    let url = ground.origin.url("/");
    let words = [
        "load", "--agents", "2", "-c", "2", "-d", "60s", "--json", "-", &url,
    ];
    let mut load = Running::start(ground.workdir.command(&ground.words(&words)));
    load.wait_for("started;");
    ground.keep_files(2);
    // Suspend one agent.
    ground.agents[1].signal(Signal::STOP);
    load.signal(Signal::INT);
    load.wait_for("stopping agents");
    load.signal(Signal::INT);
    let output = load.end().expect(130);
    ground.agents[1].signal(Signal::CONT);
    let record = Record::from_json(&output.out).unwrap();
    assert!(
        findings(&record).contains(&"partial"),
        "{:?}",
        record.findings
    );
    let run = &record.fleet.as_ref().unwrap().run;
    let line = format!("prony fleet collect {run} --creds up/coordinator.creds");
    assert!(output.err.contains(&line), "{}", output.err);
    let words = ["fleet", "collect", run, "--json", "-"];
    let whole = Record::from_json(&ground.run(&words).expect(0).out).unwrap();
    assert_eq!(findings(&whole), [""; 0], "{:?}", whole.findings);
    assert!(whole.totals.ok >= record.totals.ok);
    ground.end();
}

#[test]
fn a_run_whose_coordinator_was_killed_is_continued() {
    let ground = FleetSetup::new(2);
    let url = ground.origin.url("/");
    let words = [
        "load", "--agents", "2", "-c", "4", "-r", "200", "-d", "4s", &url,
    ];
    let mut load = Running::start(ground.workdir.command(&ground.words(&words)));
    load.wait_for("started;");
    let kept = ground.keep_files(2);
    load.signal(Signal::KILL);
    drop(load);
    let words = ["fleet", "attach", "--json", "attached.json"];
    ground.run(&words).expect(0);
    let record = Record::from_json(&ground.workdir.read("attached.json")).unwrap();
    // On a busy machine, a request that is due at the end may not start.
    let due = record.totals.started + record.totals.unstarted;
    assert_eq!((due, findings(&record)), (800, Vec::new()));
    same(&record, &sum(&kept, &record));
    assert!(ground.files().is_empty(), "their counts agree");
    // The run is still stored on the server, so it can be collected again without the agents. Runs
    // that never started are ignored.
    let far = "http://192.0.2.200:9/";
    ground
        .run(&["load", "--agents", "2", "--public", far])
        .expect(3);
    let words = ["fleet", "collect", "--json", "collected.json"];
    let output = ground.run(&words).expect(0);
    let lines: Vec<&str> = output.err.lines().collect();
    assert!(
        lines[0].starts_with("run ") && lines[0].ends_with(&url),
        "{}",
        output.err
    );
    let other = lines[1];
    assert!(other.starts_with("  other: run "), "{}", output.err);
    assert!(
        other.ends_with("192.0.2.200:9/; it never started"),
        "{}",
        output.err
    );
    let again = Record::from_json(&ground.workdir.read("collected.json")).unwrap();
    same(&again, &record);
    let output = ground.run(&["fleet", "collect", "r0"]).expect(2);
    assert!(
        output.err.contains("run r0 is not on the server"),
        "{}",
        output.err
    );
    ground.end();
}
