//! Agents that get single orders from the test.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use base64::Engine as _;
use prony_fleet::agent::{Agent, AgentError, AgentSettings};
use prony_fleet::clock::{ClockExchange, ClockOffset, ClockReply};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::wire::{Command, EndReason, FileChunk, LoadOrder, PRONY_VERSION, Reply};
use prony_record::{FindingId, Nanos, Outcome};
use sha2::{Digest, Sha256};

use crate::harness::{
    RunningAgent, TestCoordinator, kept, load, origin, policy, settings, wait_until,
};
use crate::nats_server::{TestServer, agent};

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

/// The text of a refusal.
fn no(reply: Reply) -> String {
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
    assert_eq!(registration.version, PRONY_VERSION);
    assert_eq!(registration.labels["site"], "here");
    assert_eq!(
        registration.policy,
        "private and loopback addresses; no services"
    );
    assert!(registration.cores > 0 && registration.open_files > 0);
    assert!(!registration.host.is_empty() && registration.system.contains(' '));
    assert!(registration.addresses.iter().all(|it| !it.is_loopback()));
    assert_eq!(registration.busy_with, None);
    // A busy agent updates its registration at once.
    let load = load("http://127.0.0.1:9/", "-c 1", 1);
    let ready = coordinator.order(&agent.name, "r1", Command::Prepare(load));
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    wait_until("it is busy", || {
        let run = coordinator.registered(&agent.name)?.busy_with?;
        (run.as_str() == "r1").then_some(())
    });
    coordinator.order(&agent.name, "r1", Command::Stop);
    wait_until("it is free", || {
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
    let error = AgentSettings::name(&mine, Some(&name("two"))).unwrap_err();
    assert!(
        error.contains("agent one") && error.contains("two"),
        "{error}"
    );
    let theirs = nats.credentials(&Role::Coordinator);
    let error = AgentSettings::name(&theirs, None).unwrap_err();
    assert!(error.contains("coordinator"), "{error}");

    // A server that doesn't know the key is not retried.
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

/// Orders starts of run `r1` that are too far in the future or the past.
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
    assert!(no(coordinator.order(name, "r1", Command::Prepare(other))).contains("another load"));

    impossible_starts_are_refused(&coordinator, &agent);
    let at = agent.clock.now() + 500_000_000;
    for _ in 0..2 {
        assert_eq!(
            coordinator.order(name, "r1", Command::Start { at }),
            Reply::Done
        );
    }
    let again = coordinator.order(name, "r1", Command::Start { at: at + 1 });
    assert!(no(again).contains("another start time"));

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
    // By its own clock, which is seven seconds behind; a busy machine may start late.
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

    // Its own file has the same messages, until the coordinator confirms them.
    let own = kept(&nats, "r1", name).unwrap();
    assert_eq!(own, messages);
    assert_eq!(
        no(coordinator.order(name, "r1", Command::Renew)),
        "run r1 is over here"
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
    // Requests due meanwhile are made, and their response times include the delay.
    let all = ledger.total();
    assert_eq!(all.started, 200);
    assert!(
        all.response_time.count_from(Nanos(450_000_000)) > 0,
        "{all:?}"
    );
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
    // Such a load can be prepared: the target may come up, and if not, that is a result.
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
    // Only the agent's share counts.
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
    // Files of a run keep the agent busy for other runs.
    let other = coordinator.order(name, "r2", Command::Put(piece("x", b"y")));
    assert_eq!(no(other), "it is busy with run r1");
    assert_eq!(coordinator.order(name, "r1", Command::Stop), Reply::Done);
    let other = coordinator.order(name, "r2", Command::Put(piece("x", b"y")));
    assert_eq!(other, Reply::Done);
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
        let text = "it is busy with run r1".to_owned();
        assert_eq!(reply, Reply::Busy { text });
    }
    assert_eq!(coordinator.order(name, "r1", Command::Renew), Reply::Done);
    let unknown = no(coordinator.order(name, "r2", Command::Renew));
    assert!(unknown.contains("no part in run r2"), "{unknown}");
    let unknown = no(coordinator.order(name, "r2", Command::Start { at: 5 }));
    assert!(unknown.contains("not prepared"), "{unknown}");
    assert!(no(coordinator.order(name, "r1", Command::Forget)).contains("in flight"));
    let mut results = coordinator.results("r1");
    while results.next().sequence == 0 {}
    for _ in 0..2 {
        assert_eq!(coordinator.order(name, "r1", Command::Stop), Reply::Done);
    }
    let (_, ledger, end) = results.whole(name);
    assert_eq!(end.reason, EndReason::Stopped);
    assert!(ledger.total().outcomes.get(Outcome::Ok) > 0);
    // A prepared load can be canceled, even if its start is far ahead.
    for (run, starts) in [("r2", false), ("r3", true)] {
        let reply = wait_until("it is free", || {
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
        wait_until("it is free", || {
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
    // The agent is free again. A run that never starts ends in the same way.
    wait_until("it is free", || {
        let reply = coordinator.order(name, "r2", Command::Prepare(brief(300)));
        matches!(reply, Reply::Ready(_)).then_some(())
    });
    let (_, _, end) = coordinator.results("r2").whole(name);
    assert_eq!(end.reason, EndReason::LeaseEnded);
}

/// Returns the text of an order with these settings, if they can't be read as settings of a load.
fn unreadable_prepare_order(url: &str, words: &str) -> Option<String> {
    let settings = crate::harness::flags::settings(words.split_whitespace());
    let read = serde_json::from_value::<prony_load::LoadSettings>(settings.clone());
    read.is_err().then(|| {
        let order = serde_json::json!({
            "version": PRONY_VERSION, "run": "r1", "do": "prepare", "url": url,
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
    let names_both = ["9.9.9", PRONY_VERSION].iter().all(|it| text.contains(it));
    assert!(names_both, "{text}");
    let nonsense = [
        "",
        "{}",
        "null",
        "[1,2",
        "\u{0}\u{1}",
        r#"{"version":3}"#,
        r#"{"version":"VERSION","run":"r1","do":"fly"}"#,
        r#"{"version":"VERSION","run":"a.b","do":"stop"}"#,
        r#"{"version":"VERSION","run":"r1","do":"start","at":1e99}"#,
        r#"{"version":"VERSION","run":"r1","do":"put","name":"a","offset":-1}"#,
    ];
    for text in nonsense {
        let text = text.replace("VERSION", PRONY_VERSION);
        assert!(
            no(coordinator.send_raw(name, text.clone())).contains("not an order"),
            "{text}"
        );
    }
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
    let after = wait_until("it is still there", || coordinator.registered(name));
    assert_eq!(after.instance, before.instance);
}
