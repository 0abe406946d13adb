//! An experiment has its agents for its whole length, and no longer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prony_experiment::host::Host;
use prony_experiment::host::local::LocalHost;
use prony_experiment::telemetry::Watch;
use prony_fleet::coordinator::{Choice, Finished, Fleet, FleetError, Stop, Told, Wanted, Watcher};
use prony_fleet::host::{FleetHost, Roster};
use prony_fleet::messages::{Reply, What};
use prony_fleet::permissions::Role;

use crate::ground::Ground;
use crate::hands::{Hands, SOON, There, load, origin, settings, until};

fn fleet(ground: &Ground) -> Fleet {
    let credentials = ground.credentials(&Role::Coordinator);
    Fleet::connect(None, &credentials).unwrap()
}

/// An experiment that has reserved all agents.
fn reserving(ground: &Ground, agents: &[&There], lease: Duration) -> FleetHost {
    let link = Arc::new(ground.link(&Role::Coordinator));
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

fn make(fleet: &Fleet, url: &str, choice: &str) -> Result<Finished, FleetError> {
    let wanted = Wanted {
        url: Some(url.to_owned()),
        words: ["--connections=2", "--threads=1", "--requests=20"]
            .map(str::to_owned)
            .to_vec(),
        choice: choice.parse().unwrap(),
        clock_bound: Duration::from_secs(5),
    };
    let stop = Stop::new();
    fleet.load(
        &wanted,
        Watcher {
            told: &|_| {},
            stop: &stop,
            feed: None,
        },
    )
}

#[test]
fn a_reserved_agent_says_who_has_it_and_until_when() {
    let ground = Ground::new(&["a", "b"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agents = ["a", "b"].map(|name| There::start(settings(&ground, name)));
    agents.iter().for_each(|agent| drop(hands.wait_for(agent)));
    let mut host = reserving(&ground, &[&agents[0]], SOON);
    let who = format!(
        "reserved for gzip on bench-1 (run {}) until about 2033-",
        host.run()
    );
    until("it is registered", || {
        hands.registered(&agents[0].name)?.reserved
    });

    let error = make(&fleet(&ground), &url, "a").unwrap_err();
    assert!(matches!(error, FleetError::Agents(_)), "{error}");
    assert!(error.to_string().contains(&who), "{error}");
    // Nor does the agent itself take an order of somebody who didn't look.
    let order = What::Prepare(load(&url, "-c 1 -d 1s", 1));
    let reply = hands.order(&agents[0].name, "r1", order);
    assert!(
        matches!(&reply, Reply::Busy { text } if text.contains(&who)),
        "{reply:?}"
    );
    // Others are free, and so is this one for the experiment's own loads.
    assert!(make(&fleet(&ground), &url, "1").is_ok());
    let own = fleet(&ground).beside(host.run().clone());
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

    // Its machine is in the telemetry.
    host.watch(Watch::default());
    assert!(host.sample().hosts.contains_key("a"));
    // An experiment that ends frees it.
    drop(host);
    let waiting = fleet(&ground).with_wait(SOON);
    assert!(make(&waiting, &url, "a").is_ok());
}

#[test]
fn a_killed_coordinators_reservation_ends_with_its_lease() {
    let ground = Ground::new(&["a"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "a"));
    hands.wait_for(&agent);
    let host = reserving(&ground, &[&agent], Duration::from_secs(2));
    until("it is registered", || {
        hands.registered(&agent.name)?.reserved
    });
    assert!(make(&fleet(&ground), &url, "a").is_err());
    host.abandon();
    let waiting = fleet(&ground).with_wait(SOON);
    assert_eq!(make(&waiting, &url, "a").unwrap().record.totals.ok, 20);
}

#[test]
fn agents_that_are_not_there_yet_are_waited_for() {
    let ground = Ground::new(&["a", "b", "c"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let first = There::start(settings(&ground, "a"));
    hands.wait_for(&first);
    let error = make(&fleet(&ground), &url, "2@site=here")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("2 agents with the label site=here were asked for, and 1 are free"));

    let (said, heard) = std::sync::mpsc::channel();
    let waiting = fleet(&ground).with_wait(SOON);
    let picked = std::thread::scope(|scope| {
        let picking = scope.spawn(|| {
            let stop = Stop::new();
            let told = |told: Told<'_>| {
                if let Told::Step(text) = told {
                    let _ = said.send(text.to_owned());
                }
            };
            let watcher = Watcher {
                told: &told,
                stop: &stop,
                feed: None,
            };
            let choice: Choice = "2@site=here".parse().unwrap();
            waiting.pick(&choice, watcher)
        });
        let line = heard.recv_timeout(SOON).unwrap();
        assert!(line.starts_with("waiting for up to "), "{line}");
        let _second = There::start(settings(&ground, "b"));
        picking.join().unwrap()
    });
    let names: Vec<String> = picked.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a", "b"]);
    // One who no longer wants to wait doesn't.
    let stop = Stop::new();
    stop.soon();
    let watcher = Watcher {
        told: &|_| {},
        stop: &stop,
        feed: None,
    };
    assert_eq!(
        waiting.pick(&Choice::Count(9), watcher),
        Err(FleetError::CalledOff)
    );
}
