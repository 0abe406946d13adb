//! Loads of trials on agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prony_experiment::runner::{AgentLoadRequest, AgentLoadRunner};
use prony_fleet::coordinator::Fleet;
use prony_fleet::host::{AgentLoads, FleetHost, Roster};
use prony_fleet::permissions::Role;
use prony_load::Control;
use prony_machine::host::local::LocalHost;

use crate::harness::{RunningAgent, TestCoordinator, origin, settings, wait_until};
use crate::nats_server::TestServer;
use crate::scripted_agent::{AgentScript, ScriptedAgent};

/// A URL that refuses connections.
const URL: &str = "http://127.0.0.1:9/";

/// Runs a load, and returns the names of the agents that generated it.
fn makers(maker: &mut AgentLoads<'_>, agents: &str) -> Vec<String> {
    makers_of(maker, agents, URL, &[])
}

fn makers_of(maker: &mut AgentLoads<'_>, agents: &str, url: &str, words: &[&str]) -> Vec<String> {
    let options = crate::harness::load_settings(words);
    let record = maker.make(&AgentLoadRequest {
        agents,
        url,
        settings: &options,
        spec: &options.resolve(Some(url)).unwrap(),
        control: &Arc::new(Control::new(1)),
        abort_rules: None,
        measured_from: &|_| {},
    });
    let fleet = record.unwrap().fleet.unwrap();
    fleet.agents.into_iter().map(|it| it.name).collect()
}

#[test]
fn the_same_agents_make_every_trials_load() {
    let nats = TestServer::new(&["a", "b", "c"]);
    let mut maker = AgentLoads {
        fleet: Fleet::connect(None, &nats.credentials(&Role::Coordinator)).unwrap(),
        clock_bound: Duration::from_secs(5),
        warn: &|_| {},
        show: None,
        previous: BTreeMap::new(),
        reservations: None,
    };
    let start = |name: &str| ScriptedAgent::start(&nats, name, AgentScript::default());
    let mut agents = vec![start("b")];
    assert_eq!(makers(&mut maker, "1"), ["b"]);
    assert_eq!(makers(&mut maker, "kind=fake"), ["b"]);
    // The new agent has the label, too, and its name sorts before the others.
    agents.push(start("a"));
    assert_eq!(makers(&mut maker, "1"), ["b"]);
    assert_eq!(makers(&mut maker, "kind=fake"), ["b"]);
    assert_eq!(makers(&mut maker, "2"), ["a", "b"]);

    // The missing agents are replaced.
    let gone = ["b", "c"].map(|name| name.parse().unwrap());
    maker.previous.insert("2".to_owned(), gone.to_vec());
    assert_eq!(makers(&mut maker, "2"), ["a", "b"]);
}

#[test]
fn an_agent_that_replaces_a_lost_one_is_reserved() {
    let nats = TestServer::new(&["a", "b", "c"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let start = |name: &str| {
        let agent = RunningAgent::start(settings(&nats, name));
        coordinator.wait_for(&agent);
        agent
    };
    let (first, lost) = (start("a"), start("b"));
    let link = Arc::new(nats.link(&Role::Coordinator));
    let roster = Roster::read(&link).unwrap();
    let mut host = FleetHost::new(LocalHost::new().unwrap(), link, roster);
    let names = vec![first.name.clone(), lost.name.clone()];
    host.reserve(&[], &names).unwrap();
    let fleet = Fleet::connect(None, &nats.credentials(&Role::Coordinator)).unwrap();
    let mut maker = AgentLoads {
        fleet: fleet.for_experiment(host.run().clone()),
        reservations: Some(host.reservations()),
        clock_bound: Duration::from_secs(5),
        warn: &|_| {},
        show: None,
        previous: BTreeMap::from([("2".to_owned(), names)]),
    };
    let words = ["--connections=2", "--threads=1", "--requests=20"];
    assert_eq!(makers_of(&mut maker, "2", &url, &words), ["a", "b"]);

    lost.end(true).unwrap();
    let replacement = start("c");
    assert_eq!(makers_of(&mut maker, "2", &url, &words), ["a", "c"]);
    let reservation = wait_until("the replacement is reserved", || {
        coordinator.registered(&replacement.name)?.reserved
    });
    assert_eq!(reservation.run, *host.run());
    // The agent is released when the experiment ends.
    drop((maker, host));
    wait_until("the replacement is free", || {
        let registration = coordinator.registered(&replacement.name)?;
        registration.reserved.is_none().then_some(())
    });
}
