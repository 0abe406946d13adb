//! What becomes of an agent's load, and of what it measured, when something breaks.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use prony_fleet::agent::Settings;
use prony_fleet::messages::{Because, Load, Reply, ResultMessage, What};
use prony_fleet::names::AgentName;
use prony_record::{Delta, FindingId, Outcome, Packed};

use crate::ground::Ground;
use crate::hands::{Hands, There, kept, load, origin, settings, state, until};

/// Stops the server, waits, and starts it again on what it stored.
fn restart(ground: &mut Ground, after: Duration) {
    ground.server.take();
    std::thread::sleep(after);
    ground.server = Some(ground.prepared.start().unwrap());
}

/// What messages add up to.
fn sum(messages: &[ResultMessage]) -> Delta {
    let mut sum = Delta::default();
    for message in messages {
        message.packed.add_to(&mut sum).unwrap();
    }
    sum
}

#[test]
fn an_agent_waits_for_a_server_that_is_not_there_yet() {
    let mut ground = Ground::new(&["one"]);
    ground.server.take();
    let agent = There::start(settings(&ground, "one"));
    until("it says so", || agent.says("trying again").then_some(()));
    ground.server = Some(ground.prepared.start().unwrap());
    let hands = Hands::new(&ground);
    hands.wait_for(&agent);
    agent.end(true).unwrap();
    // One that never got there ends when it is told to.
    ground.server.take();
    let other = There::start(settings(&ground, "one"));
    until("it says so", || other.says("trying again").then_some(()));
    let ended = other.end(true);
    assert_eq!(ended, Err(prony_fleet::agent::AgentError::Interrupted));
}

#[test]
fn a_server_that_is_started_again_has_all_of_it_once() {
    let mut ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    hands.begin(&agent, "r1", load(&url, "-c 2 -d 4s", 1));
    let mut results = hands.results("r1");
    results.next();
    drop(results);
    restart(&mut ground, Duration::from_millis(1_200));
    let (messages, ledger, end) = hands.results("r1").whole(&agent.name);
    assert_eq!(end.because, Because::Done);
    let numbers: BTreeSet<u64> = messages.iter().map(|it| it.sequence).collect();
    assert_eq!((numbers.len(), ledger.repeats()), (messages.len(), 0));
    let own = kept(&ground, "r1", &agent.name).unwrap();
    assert_eq!(ledger.total(), sum(&own));
    assert!(
        own.len() >= 4,
        "each second, whether the server is there or not"
    );
    // It is there for the next run, too.
    until("it has its connection again", || {
        hands
            .link
            .ask(&agent.name.clock(), "", Duration::from_secs(1))
            .ok()
    });
    assert_eq!(hands.order(&agent.name, "r1", What::Forget), Reply::Done);
}

#[test]
fn an_agent_that_is_cut_off_ends_its_load_with_the_lease_and_tells_later() {
    let mut ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let brief = Load {
        lease_ms: 1_500,
        ..load(&url, "-c 2 -d 60s", 1)
    };
    hands.begin(&agent, "r1", brief);
    ground.server.take();
    until("its load is over", || {
        let own = kept(&ground, "r1", &agent.name)?;
        own.last()?.end.clone()
    });
    ground.server = Some(ground.prepared.start().unwrap());
    let (_, ledger, end) = hands.results("r1").whole(&agent.name);
    assert_eq!(end.because, Because::LeaseEnded);
    assert!(ledger.total().outcomes.get(Outcome::Ok) > 0);
    until("it says so", || agent.says("connected again").then_some(()));
}

#[test]
fn an_agent_that_is_ended_takes_its_load_with_it() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let name = agent.name.clone();
    hands.begin(&agent, "r1", load(&url, "-c 2 -d 60s", 1));
    let mut results = hands.results("r1");
    while results.next().packed == Packed::default() {}
    agent.end(true).unwrap();
    let (messages, _, end) = results.whole(&name);
    assert_eq!(end.because, Because::AgentEnded);
    assert!(
        end.findings.iter().any(|it| it.id == FindingId::AgentLost),
        "{:?}",
        end.findings
    );
    assert_eq!(kept(&ground, "r1", &name).unwrap(), messages);
    assert_eq!(hands.registered(&name), None);
}

#[test]
fn what_a_killed_agent_left_is_sent_by_its_next_start() {
    let ground = Ground::new(&["one", "two"]);
    let hands = Hands::new(&ground);
    let names: [AgentName; 2] = ["one".parse().unwrap(), "two".parse().unwrap()];
    let message = |name: &AgentName, sequence: u64| {
        let mut delta = Delta::default();
        delta.started = sequence + 3;
        delta.outcomes.add_many(Outcome::Ok, sequence + 3);
        ResultMessage {
            run: "r1".parse().unwrap(),
            agent: name.clone(),
            sequence,
            packed: Packed::of(&delta),
            end: None,
        }
    };
    let runs = state(&ground).join("runs");
    fs::create_dir_all(&runs).unwrap();
    let mut expected = Vec::new();
    for name in &names {
        let messages: Vec<_> = (0..3).map(|n| message(name, n)).collect();
        let lines = messages.iter().map(|it| serde_json::to_string(it).unwrap());
        // The kill came in the middle of a line.
        let text = lines.collect::<Vec<_>>().join("\n") + "\n{\"run\":\"r1\",\"agent";
        fs::write(runs.join(format!("r1.{name}.jsonl")), text).unwrap();
        expected.push(sum(&messages));
    }
    let sent = ground.folder.path().join("state/files/one/r1/key");
    fs::create_dir_all(sent.parent().unwrap()).unwrap();
    fs::write(&sent, "secret").unwrap();

    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    assert!(agent.says("1 earlier run that nobody has collected"));
    assert!(!sent.exists(), "files that were sent for it are gone");
    let (messages, ledger, end) = hands.results("r1").whole(&names[0]);
    assert_eq!(messages.len(), 4, "nothing of the other agent's");
    assert_eq!(end.because, Because::Failed);
    assert_eq!(end.findings[0].id, FindingId::AgentLost);
    assert_eq!(ledger.total(), expected[0]);
    // It can't take part in that run again: its numbers are used.
    let again = What::Prepare(load("http://127.0.0.1:1/", "-c 1", 1));
    match hands.order(&names[0], "r1", again) {
        Reply::Wrong { text } => assert!(text.contains("already"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(hands.order(&names[0], "r1", What::Forget), Reply::Done);
    assert_eq!(kept(&ground, "r1", &names[0]), None);
    assert!(kept(&ground, "r1", &names[1]).is_some());
}

#[test]
fn an_agent_that_cannot_keep_what_it_measures_measures_nothing() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    // A folder where a file should be: as root nothing else is refused.
    let agent = There::start(Settings {
        state: ground.folder.path().join("other"),
        ..settings(&ground, "one")
    });
    hands.wait_for(&agent);
    let taken = ground.folder.path().join("other/runs/r1.one.jsonl");
    fs::create_dir_all(&taken).unwrap();
    let reply = hands.order(&agent.name, "r1", What::Prepare(load(&url, "-c 1", 1)));
    assert!(matches!(reply, Reply::Wrong { .. }), "{reply:?}");
    let runs = ground.folder.path().join("other/runs");
    fs::remove_dir_all(&runs).unwrap();
    fs::write(&runs, "").unwrap();
    let reply = hands.order(&agent.name, "r2", What::Prepare(load(&url, "-c 1", 1)));
    match reply {
        Reply::Environment { text } => assert!(text.contains("other/runs"), "{text}"),
        other => panic!("{other:?}"),
    }
    fs::remove_file(&runs).unwrap();
    let reply = hands.order(&agent.name, "r2", What::Prepare(load(&url, "-c 1", 1)));
    assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
}
