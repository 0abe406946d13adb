//! Outages of the NATS server during a load, in which agents must not be considered lost.

use std::time::Duration;

use prony_fleet::coordinator::{
    AgentChoice, Fleet, FleetEvent, LoadObserver, LoadRequest, StopRequest,
};
use prony_fleet::permissions::Role;
use prony_record::{FindingId, Record};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{RunningAgent, TestCoordinator, origin, settings, wait_until};
use crate::nats_server::TestServer;

/// Lease of the agents. Without an outage, an agent is considered lost after a silence of 1.3
/// leases.
const LEASE: Duration = Duration::from_secs(2);
/// Length of the outage: longer than 1.3 leases.
const OUTAGE: Duration = Duration::from_millis(3_500);

/// Runs a load on two agents until their lease expires, while `outage` stops and restarts the
/// server. Returns the record and the coordinator's messages.
fn loaded_through(outage: impl FnOnce(&mut TestServer)) -> (Record, Vec<String>) {
    let mut nats = TestServer::new(&["a", "b"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agents = ["a", "b"].map(|name| RunningAgent::start(settings(&nats, name)));
    agents
        .iter()
        .for_each(|agent| drop(coordinator.wait_for(agent)));
    let credentials = nats.credentials(&Role::Coordinator);
    let fleet = Fleet::connect(None, &credentials).unwrap();
    let fleet = fleet.with_lease(LEASE);
    let wanted = LoadRequest {
        url: Some(url),
        settings: crate::harness::load_settings(&[
            "--connections=2",
            "--threads=1",
            "--duration=60s",
        ]),
        choice: AgentChoice::All,
        clock_bound: Duration::from_secs(5),
    };
    let (sender, received) = std::sync::mpsc::channel();
    let on_event = move |event: FleetEvent<'_>| match event {
        FleetEvent::Step(text) | FleetEvent::Warning(text) => drop(sender.send(text.to_owned())),
        FleetEvent::Progress(_) => {}
    };
    let loading = std::thread::spawn(move || {
        let stop = StopRequest::new();
        let watcher = LoadObserver {
            on_event: &on_event,
            stop: &stop,
            feed: None,
        };
        fleet.load(&wanted, watcher).unwrap().record
    });
    let mut lines: Vec<String> = Vec::new();
    wait_until("the load has started", || {
        lines.extend(received.try_iter());
        let is_started = lines.iter().any(|line| line.starts_with("started"));
        is_started.then_some(())
    });
    outage(&mut nats);
    let record = loading.join().unwrap();
    lines.extend(received.try_iter());
    (record, lines)
}

/// Checks that both agents stopped when their lease expired, and that the findings name the server.
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
    let (record, lines) = loaded_through(|nats| {
        nats.process.take();
        std::thread::sleep(OUTAGE);
        nats.process = Some(nats.prepared.start().unwrap());
    });
    expect_leases_ended(&record, &lines);
}

#[test]
fn a_frozen_server_counts_as_away() {
    let (record, lines) = loaded_through(|nats| {
        let pid = nats.process.as_ref().unwrap().pid();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(OUTAGE);
        kill_process(pid, Signal::CONT).unwrap();
    });
    expect_leases_ended(&record, &lines);
}
