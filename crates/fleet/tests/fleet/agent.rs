//! Tests of an agent's registration, name, credentials and clock.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use prony_fleet::agent::{Agent, AgentError, AgentSettings, OtherCredentials};
use prony_fleet::clock::{ClockExchange, ClockOffset, ClockReply};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::wire::{Command, Reply, SenderVersion};

use crate::harness::{RunningAgent, TestCoordinator, load, settings, wait_until};
use crate::nats_server::{TestServer, agent};

/// Returns the text of a reply that rejects an order. Panics for other replies.
pub(crate) fn no(reply: Reply) -> String {
    match reply {
        Reply::Wrong { text } | Reply::Environment { text } | Reply::Busy { text } => text,
        Reply::Refused { rule, text } => format!("{rule}: {text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_is_registered_while_it_runs() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let agent = RunningAgent::start(settings(&nats, "one"));
    let registration = coordinator.wait_for(&agent);
    assert_eq!(registration.sender, SenderVersion::own());
    assert_eq!(registration.labels["site"], "here");
    assert_eq!(
        registration.policy,
        "private and loopback addresses; no services"
    );
    assert!(registration.cores > 0 && registration.open_files > 0);
    assert!(!registration.host.is_empty() && registration.system.contains(' '));
    assert!(registration.addresses.iter().all(|it| !it.is_loopback()));
    assert_eq!(registration.busy_with, None);
    // An agent that becomes busy updates its registration immediately.
    let load = load("http://127.0.0.1:9/", "-c 1", 1);
    let ready = coordinator.order(&agent.name, "r1", Command::Prepare(load));
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    wait_until("the agent is busy", || {
        let run = coordinator.registered(&agent.name)?.busy_with?;
        (run.as_str() == "r1").then_some(())
    });
    coordinator.order(&agent.name, "r1", Command::Stop);
    wait_until("the agent is free", || {
        let registration = coordinator.registered(&agent.name)?;
        registration.busy_with.is_none().then_some(())
    });
    let name = agent.name.clone();
    agent.end(true).unwrap();
    assert_eq!(coordinator.registered(&name), None);
}

#[test]
fn a_second_agent_with_the_same_name_is_refused() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let first = RunningAgent::start(settings(&nats, "one"));
    let before = coordinator.wait_for(&first);
    let second = RunningAgent::start(settings(&nats, "one"));
    match second.end(false) {
        Err(AgentError::NameTaken { name, host }) => {
            assert_eq!((name, host), (first.name.clone(), before.host));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        coordinator.registered(&first.name).unwrap().instance,
        before.instance
    );
    first.end(true).unwrap();
    let third = RunningAgent::start(settings(&nats, "one"));
    assert_ne!(coordinator.wait_for(&third).instance, before.instance);
}

#[test]
fn credentials_name_their_role() {
    let nats = TestServer::new(&["one"]);
    let name = |text: &str| text.parse::<AgentName>().unwrap();
    let mine = nats.credentials(&agent("one"));
    assert_eq!(AgentSettings::name(&mine, None), Ok(name("one")));
    assert_eq!(
        AgentSettings::name(&mine, Some(&name("one"))),
        Ok(name("one"))
    );
    let other = OtherCredentials::Name {
        name: name("one"),
        requested: name("two"),
    };
    let error = AgentSettings::name(&mine, Some(&name("two"))).unwrap_err();
    assert_eq!(error, other);
    let theirs = nats.credentials(&Role::Coordinator);
    let error = AgentSettings::name(&theirs, None).unwrap_err();
    assert_eq!(error, OtherCredentials::Role(Role::Coordinator));

    // The agent doesn't retry if the server rejects its key.
    let other = TestServer::new(&["one"]);
    let (FleetCredentials::Key(mut key), FleetCredentials::Key(strange)) =
        (mine, other.credentials(&agent("one")))
    else {
        panic!("prony's own files");
    };
    key.seed = strange.seed;
    let wrong = AgentSettings {
        credentials: FleetCredentials::Key(key),
        ..settings(&nats, "one")
    };
    let error = Agent::connect(wrong, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, AgentError::Wrong(_)), "{error:?}");
}

#[test]
fn clock_replies_use_the_clock_of_loads() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let agent = RunningAgent::start(settings(&nats, "one"));
    agent.clock.shift(3_600_000_000_000);
    coordinator.wait_for(&agent);
    let here = prony_fleet::clock::Clock::new();
    let exchanges: Vec<ClockExchange> = (0..16)
        .map(|_| {
            let request_sent = here.now();
            let reply =
                coordinator
                    .link
                    .request(&agent.name.clock_subject(), "", Duration::from_secs(10));
            let reply_received = here.now();
            let reply = ClockReply::of_bytes(&reply.unwrap()).unwrap();
            ClockExchange {
                request_sent,
                request_received: reply.received,
                reply_sent: reply.sent,
                reply_received,
            }
        })
        .collect();
    let offset = ClockOffset::best(&exchanges).unwrap();
    assert!(offset.ns.abs_diff(3_600_000_000_000) <= offset.bound_ns);
}
