//! Faults during an agent's load.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use prony_fleet::agent::AgentSettings;
use prony_fleet::names::AgentName;
use prony_fleet::wire::{Command, EndReason, LoadOrder, Reply, ResultMessage};
use prony_record::{Delta, EncodedDelta, FindingId, Outcome};

use crate::harness::{
    RunningAgent, TestCoordinator, kept, load, origin, settings, state, wait_until,
};
use crate::nats_server::TestServer;

/// Stops the server, waits, and restarts it with its stored data.
fn restart(nats: &mut TestServer, after: Duration) {
    nats.process.take();
    std::thread::sleep(after);
    nats.process = Some(nats.prepared.start().unwrap());
}

/// Returns the sum of the results in these messages.
fn sum(messages: &[ResultMessage]) -> Delta {
    let mut sum = Delta::default();
    for message in messages {
        message.packed.add_to(&mut sum).unwrap();
    }
    sum
}

#[test]
fn an_agent_waits_for_a_server_that_is_not_there_yet() {
    let mut nats = TestServer::new(&["one"]);
    nats.process.take();
    let agent = RunningAgent::start(settings(&nats, "one"));
    wait_until("the agent logs that it retries", || {
        agent.logged("retrying until").then_some(())
    });
    nats.process = Some(nats.prepared.start().unwrap());
    let coordinator = TestCoordinator::new(&nats);
    coordinator.wait_for(&agent);
    agent.end(true).unwrap();
    // This checks that an agent can be stopped before it has ever connected.
    nats.process.take();
    let other = RunningAgent::start(settings(&nats, "one"));
    wait_until("the other agent logs that it retries", || {
        other.logged("retrying until").then_some(())
    });
    let ended = other.end(true);
    assert!(matches!(
        ended,
        Err(prony_fleet::agent::AgentError::Interrupted)
    ));
}

#[test]
fn after_a_server_restart_every_message_is_stored_once() {
    let mut nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    coordinator.begin(&agent, "r1", load(&url, "-c 2 -d 4s", 1));
    let mut results = coordinator.results("r1");
    results.next();
    drop(results);
    restart(&mut nats, Duration::from_millis(1_200));
    let (messages, ledger, end) = coordinator.results("r1").whole(&agent.name);
    assert_eq!(end.reason, EndReason::Done);
    let numbers: BTreeSet<u64> = messages.iter().map(|it| it.sequence).collect();
    assert_eq!((numbers.len(), ledger.repeats()), (messages.len(), 0));
    let own = kept(&nats, "r1", &agent.name).unwrap();
    assert_eq!(ledger.total(), sum(&own));
    assert!(
        own.len() >= 4,
        "one message per second, even during the outage"
    );
    // After the restart, the agent can take part in another run.
    wait_until("the agent is connected again", || {
        coordinator
            .link
            .request(&agent.name.clock_subject(), "", Duration::from_secs(1))
            .ok()
    });
    assert_eq!(
        coordinator.order(&agent.name, "r1", Command::Forget),
        Reply::Done
    );
}

#[test]
fn an_agent_that_is_cut_off_stops_with_its_lease_and_reports_later() {
    let mut nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let brief = LoadOrder {
        lease_ms: 1_500,
        ..load(&url, "-c 2 -d 60s", 1)
    };
    coordinator.begin(&agent, "r1", brief);
    nats.process.take();
    wait_until("its load is over", || {
        let own = kept(&nats, "r1", &agent.name)?;
        own.last()?.end.clone()
    });
    nats.process = Some(nats.prepared.start().unwrap());
    let (_, ledger, end) = coordinator.results("r1").whole(&agent.name);
    assert_eq!(end.reason, EndReason::LeaseEnded);
    assert!(ledger.total().outcomes.get(Outcome::Ok) > 0);
    wait_until("the agent logs that it is connected again", || {
        agent.logged("reconnected").then_some(())
    });
}

#[test]
fn stopping_an_agent_stops_its_load() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let name = agent.name.clone();
    coordinator.begin(&agent, "r1", load(&url, "-c 2 -d 60s", 1));
    let mut results = coordinator.results("r1");
    while results.next().packed == EncodedDelta::default() {}
    agent.end(true).unwrap();
    let (messages, _, end) = results.whole(&name);
    assert_eq!(end.reason, EndReason::AgentEnded);
    assert!(
        end.findings.iter().any(|it| it.id == FindingId::AgentLost),
        "{:?}",
        end.findings
    );
    assert_eq!(kept(&nats, "r1", &name).unwrap(), messages);
    assert_eq!(coordinator.registered(&name), None);
}

#[test]
fn a_restart_sends_the_results_of_a_killed_agent() {
    let nats = TestServer::new(&["one", "two"]);
    let coordinator = TestCoordinator::new(&nats);
    let names: [AgentName; 2] = ["one".parse().unwrap(), "two".parse().unwrap()];
    let message = |name: &AgentName, sequence: u64| {
        let mut delta = Delta::default();
        delta.started = sequence + 3;
        delta.outcomes.add_many(Outcome::Ok, sequence + 3);
        ResultMessage {
            run: "r1".parse().unwrap(),
            agent: name.clone(),
            sequence,
            packed: EncodedDelta::of(&delta),
            end: None,
        }
    };
    let runs = state(&nats).join("runs");
    fs::create_dir_all(&runs).unwrap();
    let mut expected = Vec::new();
    for name in &names {
        let messages: Vec<_> = (0..3).map(|n| message(name, n)).collect();
        let lines = messages.iter().map(|it| serde_json::to_string(it).unwrap());
        // This simulates a killed agent, whose last line is incomplete.
        let text = lines.collect::<Vec<_>>().join("\n") + "\n{\"run\":\"r1\",\"agent";
        fs::write(runs.join(format!("r1.{name}.jsonl")), text).unwrap();
        expected.push(sum(&messages));
    }
    let sent = nats.folder.path().join("state/files/one/r1/key");
    fs::create_dir_all(sent.parent().unwrap()).unwrap();
    fs::write(&sent, "secret").unwrap();

    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    assert!(agent.logged("uncollected results of 1 earlier run"));
    assert!(!sent.exists(), "files that were sent for it are gone");
    let (messages, ledger, end) = coordinator.results("r1").whole(&names[0]);
    assert_eq!(messages.len(), 4, "nothing of the other agent's");
    assert_eq!(end.reason, EndReason::Failed);
    assert_eq!(end.findings[0].id, FindingId::AgentLost);
    assert_eq!(ledger.total(), expected[0]);
    // The agent can't take part in the same run again, because it would reuse sequence numbers.
    let again = Command::Prepare(load("http://127.0.0.1:1/", "-c 1", 1));
    match coordinator.order(&names[0], "r1", again) {
        Reply::Wrong { text } => assert!(text.contains("already"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        coordinator.order(&names[0], "r1", Command::Forget),
        Reply::Done
    );
    assert_eq!(kept(&nats, "r1", &names[0]), None);
    assert!(kept(&nats, "r1", &names[1]).is_some());
}

#[test]
fn an_agent_that_cannot_write_results_refuses_the_load() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    // A folder at the path of the file makes writing fail, even for root.
    let agent = RunningAgent::start(AgentSettings {
        state: nats.folder.path().join("other"),
        ..settings(&nats, "one")
    });
    coordinator.wait_for(&agent);
    let taken = nats.folder.path().join("other/runs/r1.one.jsonl");
    fs::create_dir_all(&taken).unwrap();
    let reply = coordinator.order(&agent.name, "r1", Command::Prepare(load(&url, "-c 1", 1)));
    assert!(matches!(reply, Reply::Wrong { .. }), "{reply:?}");
    let runs = nats.folder.path().join("other/runs");
    fs::remove_dir_all(&runs).unwrap();
    fs::write(&runs, "").unwrap();
    let reply = coordinator.order(&agent.name, "r2", Command::Prepare(load(&url, "-c 1", 1)));
    match reply {
        Reply::Environment { text } => assert!(text.contains("other/runs"), "{text}"),
        other => panic!("{other:?}"),
    }
    fs::remove_file(&runs).unwrap();
    let reply = coordinator.order(&agent.name, "r2", Command::Prepare(load(&url, "-c 1", 1)));
    assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
}
