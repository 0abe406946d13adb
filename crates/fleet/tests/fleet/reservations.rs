//! Reservations of agents for experiments.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prony_fleet::coordinator::{
    AgentChoice, FinishedRun, Fleet, FleetError, FleetEvent, LoadObserver, LoadRequest, StopRequest,
};
use prony_fleet::host::{FleetHost, Roster};
use prony_fleet::permissions::Role;
use prony_fleet::wire::{Command, Reply};
use prony_machine::host::Host;
use prony_machine::host::local::LocalHost;
use prony_plan::watch_spec::WatchSpec;

use crate::harness::{
    RunningAgent, TEST_TIMEOUT, TestCoordinator, load, origin, settings, wait_until,
};
use crate::nats_server::TestServer;

fn fleet(nats: &TestServer) -> Fleet {
    let credentials = nats.credentials(&Role::Coordinator);
    Fleet::connect(None, &credentials).unwrap()
}

/// Reserves these agents for an experiment.
fn reserving(nats: &TestServer, agents: &[&RunningAgent], lease: Duration) -> FleetHost {
    let link = Arc::new(nats.link(&Role::Coordinator));
    let roster = Roster::read(&link).unwrap();
    let host = FleetHost::new(LocalHost::new().unwrap(), link, roster);
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    let mut host = host
        .with_lease(lease)
        .with_holder("gzip on bench-1".to_owned(), Some(until));
    let names: Vec<_> = agents.iter().map(|agent| agent.name.clone()).collect();
    host.reserve(&[], &names).unwrap();
    host
}

fn make(fleet: &Fleet, url: &str, choice: &str) -> Result<FinishedRun, FleetError> {
    let wanted = LoadRequest {
        url: Some(url.to_owned()),
        settings: crate::harness::load_settings(&[
            "--connections=2",
            "--threads=1",
            "--requests=20",
        ]),
        choice: choice.parse().unwrap(),
        clock_bound: Duration::from_secs(5),
    };
    let stop = StopRequest::new();
    fleet.load(
        &wanted,
        LoadObserver {
            on_event: &|_| {},
            stop: &stop,
            feed: None,
        },
    )
}

#[test]
fn a_reserved_agent_names_the_holder_and_the_forecast_end() {
    let nats = TestServer::new(&["a", "b"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agents = ["a", "b"].map(|name| RunningAgent::start(settings(&nats, name)));
    agents
        .iter()
        .for_each(|agent| drop(coordinator.wait_for(agent)));
    let mut host = reserving(&nats, &[&agents[0]], TEST_TIMEOUT);
    let who = format!(
        "reserved for gzip on bench-1 (run {}) until about 2033-",
        host.run()
    );
    wait_until("the agent is registered", || {
        coordinator.registered(&agents[0].name)?.reserved
    });

    let error = make(&fleet(&nats), &url, "a").unwrap_err();
    assert!(matches!(error, FleetError::Agents(_)), "{error}");
    assert!(error.to_string().contains(&who), "{error}");
    // A reserved agent itself rejects an order of another run, too.
    let order = Command::Prepare(load(&url, "-c 1 -d 1s", 1));
    let reply = coordinator.order(&agents[0].name, "r1", order);
    assert!(
        matches!(&reply, Reply::Busy { text } if text.contains(&who)),
        "{reply:?}"
    );
    // Other agents are free, and the reserved agent can generate the experiment's own loads.
    assert!(make(&fleet(&nats), &url, "1").is_ok());
    let own = fleet(&nats).for_experiment(host.run().clone());
    let record = make(&own, &url, "a").unwrap().record;
    assert_eq!(record.totals.ok, 20);
    let part = &record.fleet.as_ref().unwrap().agents[0];
    assert!(
        part.ok_per_s.unwrap() > 0.0 && part.p99_us.unwrap() > 0.0,
        "{part:?}"
    );
    assert!(
        part.cpu_percent.is_some() && part.start_skew_us == Some(0.0),
        "{part:?}"
    );

    // Telemetry samples include the agent's machine.
    host.watch(WatchSpec::default());
    assert!(host.sample().hosts.contains_key("a"));
    // Ending the experiment releases the agent.
    drop(host);
    let waiting = fleet(&nats).with_wait(TEST_TIMEOUT);
    assert!(make(&waiting, &url, "a").is_ok());
}

#[test]
fn a_killed_coordinators_reservation_ends_with_its_lease() {
    let nats = TestServer::new(&["a"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "a"));
    coordinator.wait_for(&agent);
    let host = reserving(&nats, &[&agent], Duration::from_secs(2));
    wait_until("the agent is registered", || {
        coordinator.registered(&agent.name)?.reserved
    });
    assert!(make(&fleet(&nats), &url, "a").is_err());
    host.abandon();
    let waiting = fleet(&nats).with_wait(TEST_TIMEOUT);
    assert_eq!(make(&waiting, &url, "a").unwrap().record.totals.ok, 20);
}

#[test]
fn a_load_waits_for_missing_agents() {
    let nats = TestServer::new(&["a", "b", "c"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let first = RunningAgent::start(settings(&nats, "a"));
    coordinator.wait_for(&first);
    let error = make(&fleet(&nats), &url, "2@site=here")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("too few free agents with the label site=here: 2 requested, 1 free"));

    let (sender, received) = std::sync::mpsc::channel();
    let waiting = fleet(&nats).with_wait(TEST_TIMEOUT);
    let picked = std::thread::scope(|scope| {
        let picking = scope.spawn(|| {
            let stop = StopRequest::new();
            let on_event = |event: FleetEvent<'_>| {
                if let FleetEvent::Step(text) = event {
                    let _ = sender.send(text.to_owned());
                }
            };
            let watcher = LoadObserver {
                on_event: &on_event,
                stop: &stop,
                feed: None,
            };
            let choice: AgentChoice = "2@site=here".parse().unwrap();
            waiting.pick(&choice, watcher)
        });
        let line = received.recv_timeout(TEST_TIMEOUT).unwrap();
        assert!(line.starts_with("waiting for up to "), "{line}");
        let _second = RunningAgent::start(settings(&nats, "b"));
        picking.join().unwrap()
    });
    let names: Vec<String> = picked.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a", "b"]);
    // A stop request ends the waiting.
    let stop = StopRequest::new();
    stop.soon();
    let watcher = LoadObserver {
        on_event: &|_| {},
        stop: &stop,
        feed: None,
    };
    assert_eq!(
        waiting.pick(&AgentChoice::Count(9), watcher),
        Err(FleetError::Canceled)
    );
}
