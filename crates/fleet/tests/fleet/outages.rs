//! The NATS server goes away in mid-load: silence is then the server's, and not the agents'.

use std::time::Duration;

use prony_fleet::coordinator::{Choice, Fleet, Stop, Told, Wanted, Watcher};
use prony_fleet::permissions::Role;
use prony_record::{FindingId, Record};
use rustix::process::{Pid, Signal, kill_process};

use crate::ground::Ground;
use crate::hands::{Hands, There, origin, settings, until};

/// An agent's lease; without any sign of it for 1.3 times as long an agent counts as lost.
const LEASE: Duration = Duration::from_secs(2);
/// Longer than that.
const OUTAGE: Duration = Duration::from_secs(5);

/// Has two agents load until their lease ends, while `outage` takes the server away and back. Gives the
/// record, and what the coordinator printed.
fn loaded_through(outage: impl FnOnce(&mut Ground)) -> (Record, Vec<String>) {
    let mut ground = Ground::new(&["a", "b"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agents = ["a", "b"].map(|name| There::start(settings(&ground, name)));
    agents.iter().for_each(|agent| drop(hands.wait_for(agent)));
    let credentials = ground.credentials(&Role::Coordinator);
    let fleet = Fleet::connect(None, &credentials).unwrap();
    let fleet = fleet.with_lease(LEASE);
    let wanted = Wanted {
        url: Some(url),
        words: ["--connections=2", "--threads=1", "--duration=60s"]
            .map(str::to_owned)
            .to_vec(),
        choice: Choice::All,
        clock_bound: Duration::from_secs(5),
    };
    let (said, heard) = std::sync::mpsc::channel();
    let told = move |told: Told<'_>| match told {
        Told::Step(text) | Told::Warning(text) => drop(said.send(text.to_owned())),
        Told::Going(_) => {}
    };
    let loading = std::thread::spawn(move || {
        let stop = Stop::new();
        let watcher = Watcher {
            told: &told,
            stop: &stop,
            feed: None,
        };
        fleet.load(&wanted, watcher).unwrap().record
    });
    let mut lines: Vec<String> = Vec::new();
    until("it has started", || {
        lines.extend(heard.try_iter());
        let is_started = lines.iter().any(|line| line.starts_with("started"));
        is_started.then_some(())
    });
    outage(&mut ground);
    let record = loading.join().unwrap();
    lines.extend(heard.try_iter());
    (record, lines)
}

/// Both agents stopped by themselves and nobody counts as lost; everything names the server.
fn expect_leases_ended(record: &Record, lines: &[String]) {
    let parts = &record.fleet.as_ref().unwrap().agents;
    let because: Vec<&str> = parts.iter().map(|it| it.ended_because.as_str()).collect();
    assert_eq!(because, ["lease-ended", "lease-ended"], "{lines:?}");
    assert!(parts.iter().all(|part| part.ok > 0), "{parts:?}");
    let finding = record
        .findings
        .iter()
        .find(|it| it.id == FindingId::AgentLost);
    let text = &finding.unwrap().text;
    assert!(text.contains("The NATS server tls://127.0.0.1:"), "{text}");
    assert!(text.contains("--lease"), "{text}");
    let has = |what: &str| lines.iter().any(|line| line.contains(what));
    assert!(has("is back after"), "{lines:?}");
    record.totals.check().unwrap();
}

#[test]
fn agents_are_not_lost_while_the_server_is_away() {
    let (record, lines) = loaded_through(|ground| {
        ground.server.take();
        std::thread::sleep(OUTAGE);
        ground.server = Some(ground.prepared.start().unwrap());
    });
    expect_leases_ended(&record, &lines);
}

#[test]
fn a_frozen_server_is_away_although_connections_to_it_stand() {
    let (record, lines) = loaded_through(|ground| {
        let pid = ground.server.as_ref().unwrap().pid();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(OUTAGE);
        kill_process(pid, Signal::CONT).unwrap();
    });
    expect_leases_ended(&record, &lines);
}
