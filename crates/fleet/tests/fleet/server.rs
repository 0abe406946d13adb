//! Tests of the server that `prony fleet up` starts, and of each role's permissions.

use std::time::Duration;

use prony_fleet::link::{LinkError, NatsLink};
use prony_fleet::names::{AGENTS_BUCKET, AgentName, RUNS_BUCKET, RunId};
use prony_fleet::permissions::Role;

use crate::harness::wait_until;
use crate::nats_server::{TestServer, agent};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn roles_exchange_messages_and_results_are_stored() {
    let mut nats = TestServer::new(&["one", "two"]);
    let coordinator = nats.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let one: AgentName = "one".parse().unwrap();
    let run: RunId = "r1".parse().unwrap();
    let link = nats.link(&agent("one"));

    let mut orders = link.subscribe(&one.orders_subject()).unwrap();
    // The server replies only after it has handled earlier messages on the same connection.
    link.store("$KV.prony_agents.one", None, "here").unwrap();
    std::thread::scope(|scope| {
        let asked = scope
            .spawn(|| coordinator.request(&one.orders_subject(), "how are you?", TEST_TIMEOUT));
        let order = orders.next(TEST_TIMEOUT).unwrap();
        assert_eq!(&order.payload[..], b"how are you?");
        link.publish(&order.reply.unwrap(), "fine").unwrap();
        assert_eq!(&asked.join().unwrap().unwrap()[..], b"fine");
    });
    assert!(matches!(
        coordinator.request("prony.agent.two.do", "?", TEST_TIMEOUT),
        Err(LinkError::NoResponders(_))
    ));

    let entries = coordinator.entries(AGENTS_BUCKET).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0].0[..], &entries[0].1[..]),
        ("one", &b"here"[..])
    );
    coordinator
        .store("$KV.prony_runs.r1", None, "asked")
        .unwrap();
    assert_eq!(
        coordinator.entry(RUNS_BUCKET, "r1").unwrap().unwrap(),
        "asked"
    );

    // Stored messages survive a restart of the server, and duplicates are dropped.
    for (number, text) in [("r1.one.0", "a"), ("r1.one.1", "b"), ("r1.one.0", "a")] {
        link.store(&one.results_subject(&run), Some(number), text)
            .unwrap();
    }
    nats.process.take();
    assert!(
        coordinator
            .request(&one.orders_subject(), "?", Duration::from_millis(300))
            .is_err()
    );
    nats.process = Some(nats.prepared.start().unwrap());
    let mut replay = loop {
        if let Ok(replay) = coordinator.replay(&run.results_subject()) {
            break replay;
        }
    };
    let texts: Vec<_> = std::iter::from_fn(|| replay.next(Duration::from_secs(2))).collect();
    let texts: Vec<_> = texts.iter().map(|it| &it.payload[..]).collect();
    assert_eq!(texts, [b"a", b"b"]);
}

#[test]
fn an_agents_credentials_command_no_agent() {
    let nats = TestServer::new(&["one", "two"]);
    let coordinator = nats.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let two: AgentName = "two".parse().unwrap();
    let victim = nats.link(&agent("two"));
    let mut orders = victim.subscribe(&two.orders_subject()).unwrap();
    let thief = nats.link(&agent("one"));
    let brief = Duration::from_millis(500);
    assert!(
        thief
            .request(&two.orders_subject(), "load them", brief)
            .is_err()
    );
    // The server reports no error, but doesn't deliver the message.
    let _ = thief.publish(&two.orders_subject(), "load them");
    let run: RunId = "r1".parse().unwrap();
    for subject in [
        &two.results_subject(&run),
        "$KV.prony_agents.two",
        "$KV.prony_runs.r1",
    ] {
        let _ = thief.publish(subject, "lies");
    }
    let list = "$JS.API.STREAM.NAMES";
    assert!(thief.request(list, "", brief).is_err());
    coordinator.request(list, "", TEST_TIMEOUT).unwrap();
    let mut intercepted = thief.subscribe(&two.orders_subject()).unwrap();
    coordinator
        .publish(&two.orders_subject(), "yours alone")
        .unwrap();
    assert_eq!(
        &orders.next(TEST_TIMEOUT).unwrap().payload[..],
        b"yours alone"
    );
    assert!(intercepted.next(brief).is_none());
    assert!(orders.next(brief).is_none());
    assert!(coordinator.entries(AGENTS_BUCKET).unwrap().is_empty());
    assert_eq!(coordinator.entry(RUNS_BUCKET, "r1").unwrap(), None);
    let mut results = coordinator.replay(&run.results_subject()).unwrap();
    assert!(results.next(brief).is_none());
}

#[test]
fn foreign_servers_are_refused() {
    let (mine, other) = (TestServer::new(&["one"]), TestServer::new(&["one"]));
    let credentials = mine.credentials(&agent("one"));
    let there = format!("tls://{}", other.listen);
    // The certificate of the other server is from another authority.
    let error = NatsLink::connect(Some(&there), &credentials, &agent("one")).unwrap_err();
    let is_final = matches!(
        error,
        LinkError::Connect {
            retryable: false,
            ..
        }
    );
    assert!(is_final, "{error}");
    assert!(error.to_string().contains(&there), "{error}");
    let plain = format!("nats://{}", mine.listen);
    let link = NatsLink::connect(Some(&plain), &credentials, &agent("one")).unwrap();
    assert!(
        link.is_connected(),
        "TLS is used even if the URL's scheme is nats"
    );
}

#[test]
fn a_folder_keeps_its_keys_and_takes_new_agents() {
    let nats = TestServer::new(&["one"]);
    let before = nats.credentials(&agent("one"));
    let wanted = prony_fleet::server::ServerSetup {
        folder: nats.folder.path().to_owned(),
        listen: nats.listen,
        names: vec!["localhost".to_owned()],
        agents: vec!["two".parse().unwrap()],
    };
    let prepared = wanted.prepare().unwrap();
    let seed = |credentials| match credentials {
        prony_fleet::credentials::FleetCredentials::Key(file) => file.seed,
        other => panic!("{other:?}"),
    };
    assert_eq!(seed(before), seed(nats.credentials(&agent("one"))));
    let path = prepared.credentials(&agent("two"));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_removed_agent_is_disconnected_and_the_others_stay() {
    let nats = TestServer::new(&["one", "two"]);
    let coordinator = nats.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let (one, two) = (nats.link(&agent("one")), nats.link(&agent("two")));
    two.store("$KV.prony_agents.two", None, "here").unwrap();
    std::fs::remove_file(nats.prepared.credentials(&agent("one"))).unwrap();
    let wanted = prony_fleet::server::ServerSetup {
        folder: nats.folder.path().to_owned(),
        listen: nats.listen,
        names: vec!["localhost".to_owned()],
        agents: vec!["three".parse().unwrap()],
    };
    wanted.prepare().unwrap().reload().unwrap();
    wait_until("the agent is disconnected", || {
        (!one.is_connected()).then_some(())
    });
    two.store("$KV.prony_agents.two", None, "still here")
        .unwrap();
    let three = nats.link(&agent("three"));
    let mut subscription = three.subscribe("prony.agent.three.do").unwrap();
    three.store("$KV.prony_agents.three", None, "new").unwrap();
    coordinator
        .publish("prony.agent.three.do", "welcome")
        .unwrap();
    assert_eq!(
        &subscription.next(TEST_TIMEOUT).unwrap().payload[..],
        b"welcome"
    );
    assert!(!coordinator.entries(AGENTS_BUCKET).unwrap().is_empty());
}

#[test]
fn credentials_work_only_for_their_role() {
    let nats = TestServer::new(&["one"]);
    let agents = nats.credentials(&agent("one"));
    let error = NatsLink::connect(None, &agents, &Role::Coordinator).unwrap_err();
    let text = "they are for agent one, and the coordinator needs its own".to_owned();
    assert_eq!(error, LinkError::Credentials(text));
    // The file claims another role with the same key, but the server checks only the key.
    let path = nats.prepared.credentials(&agent("one"));
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("role = \"agent\"\n", "role = \"coordinator\"\n");
    let forged = path.with_extension("forged");
    // Copying preserves the file's mode, which must be private.
    std::fs::copy(&path, &forged).unwrap();
    std::fs::write(&forged, text.replace("name = \"one\"\n", "")).unwrap();
    let forged = prony_fleet::credentials::FleetCredentials::read(&forged).unwrap();
    let forger = NatsLink::connect(None, &forged, &Role::Coordinator).unwrap();
    let one: AgentName = "one".parse().unwrap();
    let mut orders = nats
        .link(&agent("one"))
        .subscribe(&one.orders_subject())
        .unwrap();
    let _ = forger.publish(&one.orders_subject(), "load them");
    assert!(orders.next(Duration::from_millis(500)).is_none());
    // A real coordinator would get a response within this time.
    let brief = Duration::from_millis(500);
    assert!(forger.request("$JS.API.INFO", "", brief).is_err());
}
