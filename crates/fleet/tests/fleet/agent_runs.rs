//! Tests of a single agent's runs: start, stop and lease.

use std::time::{Duration, Instant};

use prony_fleet::wire::{Command, EndReason, LoadOrder, Reply};
use prony_record::{FindingId, Nanos, Outcome};

use crate::agent::no;
use crate::harness::{RunningAgent, TestCoordinator, kept, load, origin, settings, wait_until};
use crate::nats_server::TestServer;

/// Sends orders to start run `r1` too far in the future or the past, and checks that the agent
/// rejects them.
fn impossible_starts_are_refused(coordinator: &TestCoordinator, agent: &RunningAgent) {
    let name = &agent.name;
    let now = agent.clock.now();
    for (at, expected) in [(now + 90_000_000_000, "ahead"), (i64::MAX, "ahead")] {
        let reply = no(coordinator.order(name, "r1", Command::Start { at }));
        assert!(reply.contains(expected), "{reply}");
    }
    for at in [now - 4_000_000_000, i64::MIN] {
        match coordinator.order(name, "r1", Command::Start { at }) {
            Reply::Environment { text } => assert!(text.contains("too late"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_load_starts_on_time_and_its_messages_add_up_exactly() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    agent.clock.shift(-7_000_000_000);
    let name = &agent.name;
    let asked = load(&url, "-c 4 -d 1600ms --no-resumption", 2);
    let ready = coordinator.order(name, "r1", Command::Prepare(asked.clone()));
    // A repeated order gets the same reply.
    assert_eq!(
        coordinator.order(name, "r1", Command::Prepare(asked.clone())),
        ready
    );
    let Reply::Ready(ready) = ready else {
        panic!("{ready:?}");
    };
    assert_eq!((ready.connections, ready.load.threads), (4, 2));
    assert!(ready.forecast.is_empty(), "{:?}", ready.forecast);
    let other = load(&url, "-c 5", 2);
    assert!(
        no(coordinator.order(name, "r1", Command::Prepare(other))).contains("a different load")
    );

    impossible_starts_are_refused(&coordinator, &agent);
    let at = agent.clock.now() + 500_000_000;
    for _ in 0..2 {
        assert_eq!(
            coordinator.order(name, "r1", Command::Start { at }),
            Reply::Done
        );
    }
    let again = coordinator.order(name, "r1", Command::Start { at: at + 1 });
    assert!(no(again).contains("a different start time"));

    let (messages, ledger, end) = coordinator.results("r1").whole(name);
    assert_eq!(end.reason, EndReason::Done);
    assert_eq!(
        end.findings
            .iter()
            .filter(|it| it.id == FindingId::AccountingMismatch)
            .count(),
        0
    );
    let (intended, first) = end.began.unwrap();
    assert_eq!(intended, at);
    // The start is given on the agent's clock, which is seven seconds behind. On a busy machine the
    // first request may be late.
    assert!(first >= at && first < at + 5_000_000_000, "{first} {at}");
    assert_eq!(end.span.0, 0);
    assert!(messages.len() >= 2, "each second: {}", messages.len());
    let total = ledger.total();
    assert!(total.outcomes.get(Outcome::Ok) > 0);
    assert_eq!(
        total.connections_opened, 0,
        "they were opened before the start"
    );
    assert_eq!(total.span, Some((Nanos(end.span.0), Nanos(end.span.1))));

    // The agent's file contains the same messages until the coordinator has confirmed them.
    let own = kept(&nats, "r1", name).unwrap();
    assert_eq!(own, messages);
    assert_eq!(
        no(coordinator.order(name, "r1", Command::Renew)),
        "run r1 is over on this agent"
    );
    let reply = no(coordinator.order(name, "r1", Command::Prepare(asked)));
    assert!(reply.contains("over"), "{reply}");
    for _ in 0..2 {
        assert_eq!(coordinator.order(name, "r1", Command::Stop), Reply::Done);
        assert_eq!(coordinator.order(name, "r1", Command::Forget), Reply::Done);
        assert_eq!(kept(&nats, "r1", name), None);
    }
}

#[test]
fn a_start_just_in_the_past_is_late_but_accepted() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let ready = Command::Prepare(load(&url, "-c 1 -r 100 -d 2s", 1));
    let ready = coordinator.order(&agent.name, "r1", ready);
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    let at = agent.clock.now() - 500_000_000;
    let order = Command::Start { at };
    assert_eq!(coordinator.order(&agent.name, "r1", order), Reply::Done);
    let (_, ledger, end) = coordinator.results("r1").whole(&agent.name);
    assert_eq!(end.reason, EndReason::Done);
    let (due, first) = end.began.unwrap();
    assert!(due == at && first > at + 500_000_000, "{due} {first}");
    // Requests that were due before the late start are still sent, and their response times include
    // the delay.
    let all = ledger.total();
    // On a busy machine, the single connection may not be free for the last requests in time.
    assert!((50..=200).contains(&all.started), "{}", all.started);
    assert!(
        all.response_time.count_from(Nanos(450_000_000)) > 0,
        "{all:?}"
    );
}

#[test]
fn an_agent_has_one_run_at_a_time_and_a_stop_frees_it() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let name = &agent.name;
    let long = load(&url, "-c 2 -d 60s", 1);
    coordinator.begin(&agent, "r1", long.clone());
    for command in [Command::Prepare(long.clone()), Command::Check(long.clone())] {
        let reply = coordinator.order(name, "r2", command);
        let text = "busy with run r1".to_owned();
        assert_eq!(reply, Reply::Busy { text });
    }
    assert_eq!(coordinator.order(name, "r1", Command::Renew), Reply::Done);
    let unknown = no(coordinator.order(name, "r2", Command::Renew));
    assert!(unknown.contains("no part in run r2"), "{unknown}");
    let unknown = no(coordinator.order(name, "r2", Command::Start { at: 5 }));
    assert!(unknown.contains("not prepared"), "{unknown}");
    assert!(no(coordinator.order(name, "r1", Command::Forget)).contains("in progress"));
    let mut results = coordinator.results("r1");
    while results.next().sequence == 0 {}
    for _ in 0..2 {
        assert_eq!(coordinator.order(name, "r1", Command::Stop), Reply::Done);
    }
    let (_, ledger, end) = results.whole(name);
    assert_eq!(end.reason, EndReason::Stopped);
    assert!(ledger.total().outcomes.get(Outcome::Ok) > 0);
    // A prepared load can be canceled, even if its start is far in the future.
    for (run, starts) in [("r2", false), ("r3", true)] {
        let reply = wait_until("the agent is free", || {
            let reply = coordinator.order(name, run, Command::Prepare(long.clone()));
            (!matches!(reply, Reply::Wrong { .. } | Reply::Busy { .. })).then_some(reply)
        });
        assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
        if starts {
            let at = agent.clock.now() + 50_000_000_000;
            assert_eq!(
                coordinator.order(name, run, Command::Start { at }),
                Reply::Done
            );
        }
        coordinator.order(name, run, Command::Stop);
        let (messages, ledger, end) = coordinator.results(run).whole(name);
        assert_eq!((end.reason, end.began), (EndReason::Stopped, None));
        assert_eq!((messages.len(), ledger.total().started), (1, 0));
    }
}

#[test]
fn a_load_that_is_stopped_in_its_warm_up_measured_nothing() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    for (run, words) in [
        ("r1", "-c 2 -d 60s --warmup 60s"),
        ("r2", "-c 2 -d 60s --warmup 60s -r 500"),
    ] {
        wait_until("the agent is free", || {
            let load = load(&url, words, 1);
            let reply = coordinator.order(&agent.name, run, Command::Prepare(load));
            matches!(reply, Reply::Ready(_)).then_some(())
        });
        let at = agent.clock.now() + 100_000_000;
        coordinator.order(&agent.name, run, Command::Start { at });
        let mut results = coordinator.results(run);
        results.next();
        coordinator.order(&agent.name, run, Command::Stop);
        let (messages, ledger, end) = results.whole(&agent.name);
        assert_eq!(end.reason, EndReason::Stopped);
        assert!(end.began.is_some_and(|(_, first)| first > at));
        assert!(messages.len() >= 2);
        assert_eq!(ledger.total().outcomes.get(Outcome::Ok), 0);
        let found: Vec<_> = end.findings.iter().map(|it| it.id.as_str()).collect();
        assert!(!found.contains(&"accounting-mismatch"), "{found:?}");
    }
}

#[test]
fn a_load_ends_when_nobody_renews_its_lease() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let name = &agent.name;
    let brief = |lease_ms| LoadOrder {
        lease_ms,
        ..load(&url, "-c 2 -d 60s", 1)
    };
    for bad in [0, 1, 1_000_000, u64::MAX] {
        let text = no(coordinator.order(name, "r1", Command::Prepare(brief(bad))));
        assert!(text.contains("lease"), "{text}");
    }
    coordinator.begin(&agent, "r1", brief(1_500));
    let renewing = Instant::now();
    while renewing.elapsed() < Duration::from_secs(2) {
        assert_eq!(coordinator.order(name, "r1", Command::Renew), Reply::Done);
        std::thread::sleep(Duration::from_millis(300));
    }
    let (_, ledger, end) = coordinator.results("r1").whole(name);
    assert_eq!(end.reason, EndReason::LeaseEnded);
    assert!(end.span.1 > 1_000_000_000, "{:?}", end.span);
    assert!(ledger.total().outcomes.get(Outcome::Ok) > 0);
    // The agent becomes free again, even after a run that never starts.
    wait_until("the agent is free", || {
        let reply = coordinator.order(name, "r2", Command::Prepare(brief(300)));
        matches!(reply, Reply::Ready(_)).then_some(())
    });
    let (_, _, end) = coordinator.results("r2").whole(name);
    assert_eq!(end.reason, EndReason::LeaseEnded);
}
