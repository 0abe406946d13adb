//! Tests of an agent's checks, policy and files, and of invalid orders.

use base64::Engine as _;
use prony_fleet::agent::AgentSettings;
use prony_fleet::wire::{Command, FileChunk, PRONY_VERSION, Reply, SenderVersion, WIRE_VERSION};
use prony_record::FindingId;
use sha2::{Digest, Sha256};

use crate::agent::no;
use crate::harness::{RunningAgent, TestCoordinator, load, origin, policy, settings, wait_until};
use crate::nats_server::TestServer;

fn piece(name: &str, bytes: &[u8]) -> FileChunk {
    let hash = Sha256::digest(bytes);
    FileChunk {
        name: name.to_owned(),
        offset: 0,
        bytes: base64::prelude::BASE64_STANDARD.encode(bytes),
        length: bytes.len() as u64,
        sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[test]
fn a_target_is_checked() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let checked = |url: &str, words: &str| match coordinator.order(
        &agent.name,
        "r1",
        Command::Check(load(url, words, 1)),
    ) {
        Reply::Checked(checked) => checked.target,
        other => panic!("{other:?}"),
    };
    let seen = checked(&url, "").unwrap();
    assert!(
        seen.contains("status 200 over HTTP/1.1, 13 bytes"),
        "{seen}"
    );
    let seen = checked(&url, "-X POST").unwrap();
    assert!(seen.starts_with("connected in "), "{seen}");
    let none = "http://127.0.0.1:1/";
    let refused = checked(none, "").unwrap_err();
    assert!(refused.contains("onnect"), "{refused}");
    // A load can be prepared although its target doesn't respond yet. If the target stays down, the
    // record shows that.
    let ready = coordinator.order(&agent.name, "r1", Command::Prepare(load(none, "", 1)));
    let Reply::Ready(ready) = ready else {
        panic!("{ready:?}");
    };
    assert_eq!(ready.forecast[0].id, FindingId::TargetUnreachable);
}

#[test]
fn the_policy_names_the_violated_rule() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (origin, url) = origin();
    let rules = "[load]\ntargets = ['127.0.0.1']\nrate = 100\nconnections = 4\nseconds = 60";
    let agent = RunningAgent::start(AgentSettings {
        policy: policy(nats.folder.path(), rules),
        ..settings(&nats, "one")
    });
    coordinator.wait_for(&agent);
    let prepare = |url: &str, words: &str, shard: (u32, u32, u32)| {
        let mut load = load(url, words, 1);
        let (first, workers, of) = shard;
        load.shard = prony_fleet::division::AgentShard { first, workers, of };
        coordinator.order(&agent.name, "r1", Command::Prepare(load))
    };
    let all = (0, 1, 1);
    let port = origin.addresses()[0].port();
    let fixed = format!("--resolve 127.0.0.1:{port}:192.0.2.1 -r 9 -c 1 --public");
    for (url, words, shard, rule) in [
        (&url[..], "-r 101 -c 1", all, "load.rate"),
        (&url[..], "-r 201 -c 4", (0, 2, 4), "load.rate"),
        (&url[..], "-c 1", all, "load.rate"),
        (&url[..], "-r 9 -c 5", all, "load.connections"),
        (&url[..], "-r 9 -c 1 -d 2m", all, "load.seconds"),
        (&url[..], "-r 9 -c 1 -n 5", all, "load.seconds"),
        ("http://127.0.0.2/", "-r 9 -c 1", all, "load.targets"),
        (
            "http://192.0.2.1/",
            "-r 9 -c 1 --public",
            all,
            "load.targets",
        ),
        (&url[..], &fixed, all, "load.targets"),
        (&url[..], "-r 9 -c 1 --unix /run/x", all, "load.targets"),
        (
            &url[..],
            "-r 9 -c 1 --proxy 192.0.2.1:80",
            all,
            "load.targets",
        ),
    ] {
        match prepare(url, words, shard) {
            Reply::Refused { rule: by, text } => assert_eq!(by, rule, "{words}: {text}"),
            other => panic!("{url} {words}: {other:?}"),
        }
    }
    // The policy limits only the agent's share of the load.
    let reply = prepare(&url, "-r 200 -c 8", (1, 2, 4));
    assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
}

#[test]
fn only_files_that_were_sent_are_read() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let (_origin, url) = origin();
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let name = &agent.name;
    let secret = nats.folder.path().join("secret");
    std::fs::write(&secret, "key").unwrap();
    let put = |file: &str, text: &str| {
        let piece = piece(file, text.as_bytes());
        assert_eq!(
            coordinator.order(name, "r1", Command::Put(piece)),
            Reply::Done
        );
    };
    let ready = |words: &str| {
        let reply = coordinator.order(name, "r1", Command::Check(load(&url, words, 1)));
        match reply {
            Reply::Checked(_) => Ok(()),
            other => Err(no(other)),
        }
    };
    put("body", "hello");
    put("good", "/bytes/1\n/bytes/2 POST <body\n");
    put("bad", &format!("/bytes/1 POST <{}\n", secret.display()));
    put("up", "/bytes/1 POST <../../../../secret\n");
    ready("--urls good --body-file body").unwrap();
    let error = ready(&format!("--body-file {}", secret.display())).unwrap_err();
    assert!(
        error.contains("--body-file") && error.contains("not sent"),
        "{error}"
    );
    for (words, file) in [
        ("--urls bad", "secret"),
        ("--urls up", "secret"),
        ("--urls none", "none"),
        ("--ca ../body", "../body"),
    ] {
        let error = ready(words).unwrap_err();
        assert!(
            error.contains("not sent") && error.contains(file),
            "{error}"
        );
    }
    // While the agent has files for a run, it is busy for other runs.
    let other = coordinator.order(name, "r2", Command::Put(piece("x", b"y")));
    assert_eq!(no(other), "busy with run r1");
    assert_eq!(coordinator.order(name, "r1", Command::Stop), Reply::Done);
    let other = coordinator.order(name, "r2", Command::Put(piece("x", b"y")));
    assert_eq!(other, Reply::Done);
}

/// Returns the JSON of an order to prepare a load with these settings if the settings can't be
/// parsed, otherwise `None`.
fn unreadable_prepare_order(url: &str, words: &str) -> Option<String> {
    let settings = crate::harness::flags::settings(words.split_whitespace());
    let read = serde_json::from_value::<prony_load::LoadSettings>(settings.clone());
    read.is_err().then(|| {
        let order = serde_json::json!({
            "version": PRONY_VERSION, "wire_version": WIRE_VERSION, "run": "r1", "do": "prepare", "url": url,
            "settings": settings, "stretch": {"first": 0, "workers": 1, "of": 1},
            "lease_ms": 60_000,
        });
        order.to_string()
    })
}

#[test]
fn orders_of_other_versions_and_nonsense_change_nothing() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let agent = RunningAgent::start(settings(&nats, "one"));
    let before = coordinator.wait_for(&agent);
    let name = &agent.name;
    let other = r#"{"version":"9.9.9","run":{"new":"shape"},"do":"fly"}"#;
    let text = no(coordinator.send_raw(name, other));
    let own = SenderVersion::own();
    let names_both =
        |text: &str, other: &str| text.contains(other) && text.contains(&own.to_string());
    assert!(names_both(&text, "9.9.9 (unknown wire format)"), "{text}");
    let format = SenderVersion {
        wire: 1,
        ..own.clone()
    };
    let other =
        serde_json::json!({"version": format.prony, "wire_version": 1, "run": "r1", "do": "stop"});
    let text = no(coordinator.send_raw(name, other.to_string()));
    assert!(names_both(&text, &format.to_string()), "{text}");
    let nonsense = [
        "",
        "{}",
        "null",
        "[1,2",
        "\u{0}\u{1}",
        r#"{"version":3}"#,
        r#"{"version":"VERSION","wire_version":WIRE,"run":"r1","do":"fly"}"#,
        r#"{"version":"VERSION","wire_version":WIRE,"run":"a.b","do":"stop"}"#,
        r#"{"version":"VERSION","wire_version":WIRE,"run":"r1","do":"start","at":1e99}"#,
        r#"{"version":"VERSION","wire_version":WIRE,"run":"r1","do":"put","name":"a","offset":-1}"#,
    ];
    for text in nonsense {
        let text = text.replace("VERSION", PRONY_VERSION);
        let text = text.replace("WIRE", &WIRE_VERSION.to_string());
        assert!(
            no(coordinator.send_raw(name, text.clone())).contains("not an order"),
            "{text}"
        );
    }
    let after = wait_until("the agent is registered", || coordinator.registered(name));
    assert_eq!(after.instance, before.instance);
}

#[test]
fn impossible_loads_change_nothing() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let agent = RunningAgent::start(settings(&nats, "one"));
    let before = coordinator.wait_for(&agent);
    let name = &agent.name;
    let url = "http://127.0.0.1:1/";
    let words = [
        "-c 0",
        "-c 18446744073709551615",
        "-c 4000000000",
        "-r 1e300",
        "-r 1e8 -c 1",
        "-d 99999999h",
        "-d 365000d",
        "-d 8760h --warmup 8760h",
        "--streams 4294967296 --http 2",
        "-n 18446744073709551615 -c 1",
        "--help x",
        "--source 0.0.0.0/0",
        "--source ::/0",
        "--cores 4095",
        "--header x",
        "--threads 99999999",
        "-X \u{7f}",
    ];
    let shards = [
        (0, 1, 1),
        (0, 0, 0),
        (0, u32::MAX, u32::MAX),
        (u32::MAX, u32::MAX, 1),
        (7, 1, 2),
    ];
    for words in words {
        if let Some(order) = unreadable_prepare_order(url, words) {
            let refused = no(coordinator.send_raw(name, order));
            assert!(refused.contains("not an order"), "{words}: {refused}");
            continue;
        }
        for (first, workers, of) in shards {
            let mut load = load(url, words, 1);
            load.shard = prony_fleet::division::AgentShard { first, workers, of };
            for url in [Some(url), Some("\u{0}"), Some("unix:"), None] {
                load.url = url.map(str::to_owned);
                let reply = coordinator.order(name, "r1", Command::Prepare(load.clone()));
                match reply {
                    Reply::Ready(_) => drop(coordinator.order(name, "r1", Command::Stop)),
                    Reply::Wrong { .. } | Reply::Environment { .. } | Reply::Refused { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    let after = wait_until("the agent is registered", || coordinator.registered(name));
    assert_eq!(after.instance, before.instance);
}
