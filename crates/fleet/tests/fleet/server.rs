//! The server that `prony fleet up` starts, and what each role can do on it.

use std::time::Duration;

use prony_fleet::link::{Link, LinkError};
use prony_fleet::names::{AGENTS, AgentName, RUNS, RunId};
use prony_fleet::permissions::Role;

use crate::ground::{Ground, agent};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn roles_talk_to_each_other_and_results_are_kept() {
    let mut ground = Ground::new(&["one", "two"]);
    let coordinator = ground.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let one: AgentName = "one".parse().unwrap();
    let run: RunId = "r1".parse().unwrap();
    let link = ground.link(&agent("one"));

    let mut orders = link.subscribe(&one.orders()).unwrap();
    // What is answered on a connection comes after what was said on it before.
    link.store("$KV.prony_agents.one", None, "here").unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| coordinator.ask(&one.orders(), "how are you?", SOON));
        let order = orders.next(SOON).unwrap();
        assert_eq!(&order.payload[..], b"how are you?");
        link.say(&order.reply.unwrap(), "fine").unwrap();
        assert_eq!(&asked.join().unwrap().unwrap()[..], b"fine");
    });
    assert!(matches!(
        coordinator.ask("prony.agent.two.do", "?", SOON),
        Err(LinkError::NobodyThere(_))
    ));

    let entries = coordinator.entries(AGENTS).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0].0[..], &entries[0].1[..]),
        ("one", &b"here"[..])
    );
    coordinator
        .store("$KV.prony_runs.r1", None, "asked")
        .unwrap();
    assert_eq!(coordinator.entry(RUNS, "r1").unwrap().unwrap(), "asked");

    // What was stored outlives the server's own process, and a number counts once.
    for (number, text) in [("r1.one.0", "a"), ("r1.one.1", "b"), ("r1.one.0", "a")] {
        link.store(&one.results(&run), Some(number), text).unwrap();
    }
    ground.server.take();
    assert!(
        coordinator
            .ask(&one.orders(), "?", Duration::from_millis(300))
            .is_err()
    );
    ground.server = Some(ground.prepared.start().unwrap());
    let mut replay = loop {
        if let Ok(replay) = coordinator.replay(&run.all_results()) {
            break replay;
        }
    };
    let texts: Vec<_> = std::iter::from_fn(|| replay.next(Duration::from_secs(2))).collect();
    let texts: Vec<_> = texts.iter().map(|it| &it.payload[..]).collect();
    assert_eq!(texts, [b"a", b"b"]);
}

#[test]
fn an_agents_credentials_command_nobody() {
    let ground = Ground::new(&["one", "two"]);
    let coordinator = ground.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let two: AgentName = "two".parse().unwrap();
    let victim = ground.link(&agent("two"));
    let mut orders = victim.subscribe(&two.orders()).unwrap();
    let thief = ground.link(&agent("one"));
    let brief = Duration::from_millis(500);
    assert!(thief.ask(&two.orders(), "load them", brief).is_err());
    // It isn't told so, but nothing arrives.
    let _ = thief.say(&two.orders(), "load them");
    let run: RunId = "r1".parse().unwrap();
    for subject in [
        &two.results(&run),
        "$KV.prony_agents.two",
        "$KV.prony_runs.r1",
    ] {
        let _ = thief.say(subject, "lies");
    }
    let list = "$JS.API.STREAM.NAMES";
    assert!(thief.ask(list, "", brief).is_err());
    coordinator.ask(list, "", SOON).unwrap();
    let mut overheard = thief.subscribe(&two.orders()).unwrap();
    coordinator.say(&two.orders(), "yours alone").unwrap();
    assert_eq!(&orders.next(SOON).unwrap().payload[..], b"yours alone");
    assert!(overheard.next(brief).is_none());
    assert!(orders.next(brief).is_none());
    assert!(coordinator.entries(AGENTS).unwrap().is_empty());
    assert_eq!(coordinator.entry(RUNS, "r1").unwrap(), None);
    let mut results = coordinator.replay(&run.all_results()).unwrap();
    assert!(results.next(brief).is_none());
}

#[test]
fn strangers_and_strange_servers_are_refused() {
    let (mine, other) = (Ground::new(&["one"]), Ground::new(&["one"]));
    let credentials = mine.credentials(&agent("one"));
    let there = format!("tls://{}", other.listen);
    // The other server's certificate is from another authority.
    let error = Link::connect(Some(&there), &credentials, &agent("one")).unwrap_err();
    let is_final = matches!(
        error,
        LinkError::Connect {
            may_pass: false,
            ..
        }
    );
    assert!(is_final, "{error}");
    assert!(error.to_string().contains(&there), "{error}");
    let plain = format!("nats://{}", mine.listen);
    let link = Link::connect(Some(&plain), &credentials, &agent("one")).unwrap();
    assert!(link.is_up(), "TLS is used, whatever the scheme says");
}

#[test]
fn a_folder_keeps_its_keys_and_takes_new_agents() {
    let ground = Ground::new(&["one"]);
    let before = ground.credentials(&agent("one"));
    let wanted = prony_fleet::server::Wanted {
        folder: ground.folder.path().to_owned(),
        listen: ground.listen,
        names: vec!["localhost".to_owned()],
        agents: vec!["two".parse().unwrap()],
    };
    let prepared = wanted.prepare().unwrap();
    let seed = |credentials| match credentials {
        prony_fleet::credentials::Credentials::Key(file) => file.seed,
        other => panic!("{other:?}"),
    };
    assert_eq!(seed(before), seed(ground.credentials(&agent("one"))));
    let path = prepared.credentials(&agent("two"));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn who_is_taken_out_of_the_folder_is_cut_off_and_the_others_stay() {
    let ground = Ground::new(&["one", "two"]);
    let coordinator = ground.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let (one, two) = (ground.link(&agent("one")), ground.link(&agent("two")));
    two.store("$KV.prony_agents.two", None, "here").unwrap();
    std::fs::remove_file(ground.prepared.credentials(&agent("one"))).unwrap();
    let wanted = prony_fleet::server::Wanted {
        folder: ground.folder.path().to_owned(),
        listen: ground.listen,
        names: vec!["localhost".to_owned()],
        agents: vec!["three".parse().unwrap()],
    };
    wanted.prepare().unwrap().reload().unwrap();
    let began = std::time::Instant::now();
    while one
        .store("$KV.prony_agents.one", None, "still here")
        .is_ok()
    {
        assert!(began.elapsed() < SOON, "it isn't cut off");
    }
    two.store("$KV.prony_agents.two", None, "still here")
        .unwrap();
    let three = ground.link(&agent("three"));
    let mut subscription = three.subscribe("prony.agent.three.do").unwrap();
    three.store("$KV.prony_agents.three", None, "new").unwrap();
    coordinator.say("prony.agent.three.do", "welcome").unwrap();
    assert_eq!(&subscription.next(SOON).unwrap().payload[..], b"welcome");
    assert!(!coordinator.entries(AGENTS).unwrap().is_empty());
}

#[test]
fn credentials_are_used_as_whose_they_are() {
    let ground = Ground::new(&["one"]);
    let agents = ground.credentials(&agent("one"));
    let error = Link::connect(None, &agents, &Role::Coordinator).unwrap_err();
    let text = "they are agent one's, and the coordinator's are wanted".to_owned();
    assert_eq!(error, LinkError::Credentials(text));
    // Whoever writes another role into the file has the same key, and the server goes by that.
    let path = ground.prepared.credentials(&agent("one"));
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("role = \"agent\"\n", "role = \"coordinator\"\n");
    let forged = path.with_extension("forged");
    // The copy has the permissions that a private key needs.
    std::fs::copy(&path, &forged).unwrap();
    std::fs::write(&forged, text.replace("name = \"one\"\n", "")).unwrap();
    let forged = prony_fleet::credentials::Credentials::read(&forged).unwrap();
    let forger = Link::connect(None, &forged, &Role::Coordinator).unwrap();
    let one: AgentName = "one".parse().unwrap();
    let mut orders = ground.link(&agent("one")).subscribe(&one.orders()).unwrap();
    let _ = forger.say(&one.orders(), "load them");
    assert!(orders.next(Duration::from_millis(500)).is_none());
    assert!(forger.entries(AGENTS).is_err());
}
