//! Agents, each word to them said by hand.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use base64::Engine as _;
use prony_fleet::agent::{Agent, AgentError, Settings};
use prony_fleet::clock::{Exchange, Offset, Told};
use prony_fleet::credentials::Credentials;
use prony_fleet::messages::{Because, Load, Piece, Reply, VERSION, What};
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_record::{FindingId, Nanos, Outcome};
use sha2::{Digest, Sha256};

use crate::ground::{Ground, agent};
use crate::hands::{Hands, There, kept, load, origin, policy, settings, until};

fn piece(name: &str, bytes: &[u8]) -> Piece {
    let hash = Sha256::digest(bytes);
    Piece {
        name: name.to_owned(),
        offset: 0,
        bytes: base64::prelude::BASE64_STANDARD.encode(bytes),
        length: bytes.len() as u64,
        sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The text of a reply that it can't be.
fn no(reply: Reply) -> String {
    match reply {
        Reply::Wrong { text } | Reply::Environment { text } | Reply::Busy { text } => text,
        Reply::Refused { rule, text } => format!("{rule}: {text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_is_registered_as_long_as_it_is_there() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let agent = There::start(settings(&ground, "one"));
    let registration = hands.wait_for(&agent);
    assert_eq!(registration.version, VERSION);
    assert_eq!(registration.labels["site"], "here");
    assert_eq!(registration.policy, "near addresses; no services");
    assert!(registration.cores > 0 && registration.open_files > 0);
    assert!(!registration.host.is_empty() && registration.system.contains(' '));
    assert!(registration.addresses.iter().all(|it| !it.is_loopback()));
    assert_eq!(registration.busy_with, None);
    // What it measures is told as its own, and it tells so at once.
    let load = load("http://127.0.0.1:9/", "-c 1", 1);
    let ready = hands.order(&agent.name, "r1", What::Prepare(load));
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    until("it is busy", || {
        let run = hands.registered(&agent.name)?.busy_with?;
        (run.as_str() == "r1").then_some(())
    });
    hands.order(&agent.name, "r1", What::Stop);
    until("it is free", || {
        let registration = hands.registered(&agent.name)?;
        registration.busy_with.is_none().then_some(())
    });
    let name = agent.name.clone();
    agent.end(true).unwrap();
    assert_eq!(hands.registered(&name), None);
}

#[test]
fn a_name_is_one_agents() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let first = There::start(settings(&ground, "one"));
    let before = hands.wait_for(&first);
    let second = There::start(settings(&ground, "one"));
    match second.end(false) {
        Err(AgentError::NameTaken { name, host }) => {
            assert_eq!((name, host), (first.name.clone(), before.host));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        hands.registered(&first.name).unwrap().instance,
        before.instance
    );
    first.end(true).unwrap();
    let third = There::start(settings(&ground, "one"));
    assert_ne!(hands.wait_for(&third).instance, before.instance);
}

#[test]
fn credentials_say_whose_they_are() {
    let ground = Ground::new(&["one"]);
    let name = |text: &str| text.parse::<AgentName>().unwrap();
    let mine = ground.credentials(&agent("one"));
    assert_eq!(Settings::name(&mine, None), Ok(name("one")));
    assert_eq!(Settings::name(&mine, Some(&name("one"))), Ok(name("one")));
    let error = Settings::name(&mine, Some(&name("two"))).unwrap_err();
    assert!(
        error.contains("agent one") && error.contains("two"),
        "{error}"
    );
    let theirs = ground.credentials(&Role::Coordinator);
    let error = Settings::name(&theirs, None).unwrap_err();
    assert!(error.contains("coordinator"), "{error}");

    // A server that doesn't know the key is no reason to wait.
    let other = Ground::new(&["one"]);
    let (Credentials::Key(mut key), Credentials::Key(strange)) =
        (mine, other.credentials(&agent("one")))
    else {
        panic!("prony's own files");
    };
    key.seed = strange.seed;
    let wrong = Settings {
        credentials: Credentials::Key(key),
        ..settings(&ground, "one")
    };
    let error = Agent::connect(wrong, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, AgentError::Wrong(_)), "{error:?}");
}

#[test]
fn the_time_is_told_at_once_and_by_the_clock_that_loads_begin_by() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let agent = There::start(settings(&ground, "one"));
    agent.clock.shift(3_600_000_000_000);
    hands.wait_for(&agent);
    let here = prony_fleet::clock::Clock::new();
    let exchanges: Vec<Exchange> = (0..16)
        .map(|_| {
            let asked = here.now();
            let told = hands
                .link
                .ask(&agent.name.clock(), "", Duration::from_secs(10));
            let learned = here.now();
            let told = Told::of_bytes(&told.unwrap()).unwrap();
            Exchange {
                asked,
                heard: told.heard,
                answered: told.answered,
                learned,
            }
        })
        .collect();
    let offset = Offset::best(&exchanges).unwrap();
    assert!(offset.ns.abs_diff(3_600_000_000_000) <= offset.bound_ns);
}

#[test]
fn a_load_is_made_at_its_moment_and_adds_up_to_the_last_bucket() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    agent.clock.shift(-7_000_000_000);
    let name = &agent.name;
    let asked = load(&url, "-c 4 -d 1600ms --no-resumption", 2);
    let ready = hands.order(name, "r1", What::Prepare(asked.clone()));
    // An order that comes again is answered as before.
    assert_eq!(hands.order(name, "r1", What::Prepare(asked.clone())), ready);
    let Reply::Ready(ready) = ready else {
        panic!("{ready:?}");
    };
    assert_eq!((ready.connections, ready.load.threads), (4, 2));
    assert!(ready.forecast.is_empty(), "{:?}", ready.forecast);
    let other = load(&url, "-c 5", 2);
    assert!(no(hands.order(name, "r1", What::Prepare(other))).contains("another load"));

    let now = agent.clock.now();
    for (at, told) in [(now + 90_000_000_000, "ahead"), (i64::MAX, "ahead")] {
        let reply = no(hands.order(name, "r1", What::Start { at }));
        assert!(reply.contains(told), "{reply}");
    }
    for at in [now - 4_000_000_000, i64::MIN] {
        match hands.order(name, "r1", What::Start { at }) {
            Reply::Environment { text } => assert!(text.contains("too late"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let at = agent.clock.now() + 500_000_000;
    for _ in 0..2 {
        assert_eq!(hands.order(name, "r1", What::Start { at }), Reply::Done);
    }
    let again = hands.order(name, "r1", What::Start { at: at + 1 });
    assert!(no(again).contains("another moment"));

    let (messages, ledger, end) = hands.results("r1").whole(name);
    assert_eq!(end.because, Because::Done);
    assert_eq!(
        end.findings
            .iter()
            .filter(|it| it.id == FindingId::AccountingMismatch)
            .count(),
        0
    );
    let (intended, first) = end.began.unwrap();
    assert_eq!(intended, at);
    // By its own clock, which is seven seconds behind; a busy machine may begin late.
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

    // Its own file holds the same, until the coordinator has it.
    let own = kept(&ground, "r1", name).unwrap();
    assert_eq!(own, messages);
    assert_eq!(
        no(hands.order(name, "r1", What::Renew)),
        "run r1 is over here"
    );
    let reply = no(hands.order(name, "r1", What::Prepare(asked)));
    assert!(reply.contains("over"), "{reply}");
    for _ in 0..2 {
        assert_eq!(hands.order(name, "r1", What::Stop), Reply::Done);
        assert_eq!(hands.order(name, "r1", What::Forget), Reply::Done);
        assert_eq!(kept(&ground, "r1", name), None);
    }
}

#[test]
fn a_moment_that_is_just_past_is_begun_at_late() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let ready = What::Prepare(load(&url, "-c 1 -r 100 -d 2s", 1));
    let ready = hands.order(&agent.name, "r1", ready);
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    let at = agent.clock.now() - 500_000_000;
    let order = What::Start { at };
    assert_eq!(hands.order(&agent.name, "r1", order), Reply::Done);
    let (_, ledger, end) = hands.results("r1").whole(&agent.name);
    assert_eq!(end.because, Because::Done);
    let (due, first) = end.began.unwrap();
    assert!(due == at && first > at + 500_000_000, "{due} {first}");
    // What was due meanwhile is made, and the delay is in its times.
    let all = ledger.total();
    assert_eq!(all.started, 200);
    assert!(
        all.response_time.count_from(Nanos(450_000_000)) > 0,
        "{all:?}"
    );
}

#[test]
fn a_target_is_looked_at() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let checked = |url: &str, words: &str| match hands.order(
        &agent.name,
        "r1",
        What::Check(load(url, words, 1)),
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
    // A load of it can be prepared: it may come up yet, and if not that is a result.
    let ready = hands.order(&agent.name, "r1", What::Prepare(load(none, "", 1)));
    let Reply::Ready(ready) = ready else {
        panic!("{ready:?}");
    };
    assert_eq!(ready.forecast[0].id, FindingId::TargetUnreachable);
}

#[test]
fn the_policy_says_no_by_its_rules_names() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (origin, url) = origin();
    let rules = "[load]\ntargets = ['127.0.0.1']\nrate = 100\nconnections = 4\nseconds = 60";
    let agent = There::start(Settings {
        policy: policy(ground.folder.path(), rules),
        ..settings(&ground, "one")
    });
    hands.wait_for(&agent);
    let says = |url: &str, words: &str, stretch: (u32, u32, u32)| {
        let mut load = load(url, words, 1);
        let (first, workers, of) = stretch;
        load.stretch = prony_fleet::division::Stretch { first, workers, of };
        hands.order(&agent.name, "r1", What::Prepare(load))
    };
    let all = (0, 1, 1);
    let port = origin.addresses()[0].port();
    let fixed = format!("--resolve 127.0.0.1:{port}:192.0.2.1 -r 9 -c 1 --public");
    for (url, words, stretch, rule) in [
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
        match says(url, words, stretch) {
            Reply::Refused { rule: by, text } => assert_eq!(by, rule, "{words}: {text}"),
            other => panic!("{url} {words}: {other:?}"),
        }
    }
    // Its share counts, and not the whole load.
    let reply = says(&url, "-r 200 -c 8", (1, 2, 4));
    assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
}

#[test]
fn files_that_were_sent_are_read_and_no_others() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let name = &agent.name;
    let secret = ground.folder.path().join("secret");
    std::fs::write(&secret, "key").unwrap();
    let put = |file: &str, text: &str| {
        let piece = piece(file, text.as_bytes());
        assert_eq!(hands.order(name, "r1", What::Put(piece)), Reply::Done);
    };
    let ready = |words: &str| {
        let reply = hands.order(name, "r1", What::Check(load(&url, words, 1)));
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
    // Other runs wait as long as these files are somebody's.
    let other = hands.order(name, "r2", What::Put(piece("x", b"y")));
    assert_eq!(no(other), "it is busy with run r1");
    assert_eq!(hands.order(name, "r1", What::Stop), Reply::Done);
    let other = hands.order(name, "r2", What::Put(piece("x", b"y")));
    assert_eq!(other, Reply::Done);
}

#[test]
fn one_run_at_a_time_and_a_stop_frees() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let name = &agent.name;
    let long = load(&url, "-c 2 -d 60s", 1);
    hands.begin(&agent, "r1", long.clone());
    for what in [What::Prepare(long.clone()), What::Check(long.clone())] {
        let reply = hands.order(name, "r2", what);
        let text = "it is busy with run r1".to_owned();
        assert_eq!(reply, Reply::Busy { text });
    }
    assert_eq!(hands.order(name, "r1", What::Renew), Reply::Done);
    let unknown = no(hands.order(name, "r2", What::Renew));
    assert!(unknown.contains("no part in run r2"), "{unknown}");
    let unknown = no(hands.order(name, "r2", What::Start { at: 5 }));
    assert!(unknown.contains("not prepared"), "{unknown}");
    assert!(no(hands.order(name, "r1", What::Forget)).contains("under way"));
    let mut results = hands.results("r1");
    while results.next().sequence == 0 {}
    for _ in 0..2 {
        assert_eq!(hands.order(name, "r1", What::Stop), Reply::Done);
    }
    let (_, ledger, end) = results.whole(name);
    assert_eq!(end.because, Because::Stopped);
    assert!(ledger.total().outcomes.get(Outcome::Ok) > 0);
    // A load that was only prepared can be called off, too, and one whose moment is far.
    for (run, starts) in [("r2", false), ("r3", true)] {
        let reply = until("it is free", || {
            let reply = hands.order(name, run, What::Prepare(long.clone()));
            (!matches!(reply, Reply::Wrong { .. } | Reply::Busy { .. })).then_some(reply)
        });
        assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
        if starts {
            let at = agent.clock.now() + 50_000_000_000;
            assert_eq!(hands.order(name, run, What::Start { at }), Reply::Done);
        }
        hands.order(name, run, What::Stop);
        let (messages, ledger, end) = hands.results(run).whole(name);
        assert_eq!((end.because, end.began), (Because::Stopped, None));
        assert_eq!((messages.len(), ledger.total().started), (1, 0));
    }
}

#[test]
fn a_load_that_is_stopped_in_its_warm_up_measured_nothing() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    for (run, words) in [
        ("r1", "-c 2 -d 60s --warmup 60s"),
        ("r2", "-c 2 -d 60s --warmup 60s -r 500"),
    ] {
        until("it is free", || {
            let load = load(&url, words, 1);
            let reply = hands.order(&agent.name, run, What::Prepare(load));
            matches!(reply, Reply::Ready(_)).then_some(())
        });
        let at = agent.clock.now() + 100_000_000;
        hands.order(&agent.name, run, What::Start { at });
        let mut results = hands.results(run);
        results.next();
        hands.order(&agent.name, run, What::Stop);
        let (messages, ledger, end) = results.whole(&agent.name);
        assert_eq!(end.because, Because::Stopped);
        assert!(end.began.is_some_and(|(_, first)| first > at));
        assert!(messages.len() >= 2);
        assert_eq!(ledger.total().outcomes.get(Outcome::Ok), 0);
        let found: Vec<_> = end.findings.iter().map(|it| it.id.as_str()).collect();
        assert!(!found.contains(&"accounting-mismatch"), "{found:?}");
    }
}

#[test]
fn a_load_ends_when_nobody_renews_its_lease() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let (_origin, url) = origin();
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let name = &agent.name;
    let brief = |lease_ms| Load {
        lease_ms,
        ..load(&url, "-c 2 -d 60s", 1)
    };
    for bad in [0, 1, 1_000_000, u64::MAX] {
        let text = no(hands.order(name, "r1", What::Prepare(brief(bad))));
        assert!(text.contains("lease"), "{text}");
    }
    hands.begin(&agent, "r1", brief(1_500));
    let renewing = Instant::now();
    while renewing.elapsed() < Duration::from_secs(2) {
        assert_eq!(hands.order(name, "r1", What::Renew), Reply::Done);
        std::thread::sleep(Duration::from_millis(300));
    }
    let (_, ledger, end) = hands.results("r1").whole(name);
    assert_eq!(end.because, Because::LeaseEnded);
    assert!(end.span.1 > 1_000_000_000, "{:?}", end.span);
    assert!(ledger.total().outcomes.get(Outcome::Ok) > 0);
    // It is free again, for runs that never begin as well.
    until("it is free", || {
        let reply = hands.order(name, "r2", What::Prepare(brief(300)));
        matches!(reply, Reply::Ready(_)).then_some(())
    });
    let (_, _, end) = hands.results("r2").whole(name);
    assert_eq!(end.because, Because::LeaseEnded);
}

#[test]
fn orders_of_other_versions_and_nonsense_change_nothing() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let agent = There::start(settings(&ground, "one"));
    let before = hands.wait_for(&agent);
    let name = &agent.name;
    let other = r#"{"version":"9.9.9","run":{"new":"shape"},"do":"fly"}"#;
    let text = no(hands.say(name, other));
    assert!(text.contains("9.9.9") && text.contains(VERSION), "{text}");
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
        let text = text.replace("VERSION", VERSION);
        assert!(
            no(hands.say(name, text.clone())).contains("no order"),
            "{text}"
        );
    }
    let url = "http://127.0.0.1:1/";
    let words = [
        "--connections",
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
        "--help",
        "--version",
        "--source 0.0.0.0/0",
        "--source ::/0",
        "--cores 4095",
        "--header x",
        "--threads 99999999",
        "http://127.0.0.1/",
        "-X \u{7f}",
    ];
    let stretches = [
        (0, 1, 1),
        (0, 0, 0),
        (0, u32::MAX, u32::MAX),
        (u32::MAX, u32::MAX, 1),
        (7, 1, 2),
    ];
    for words in words {
        for (first, workers, of) in stretches {
            let mut load = load(url, words, 1);
            load.stretch = prony_fleet::division::Stretch { first, workers, of };
            for url in [Some(url), Some("\u{0}"), Some("unix:"), None] {
                load.url = url.map(str::to_owned);
                let reply = hands.order(name, "r1", What::Prepare(load.clone()));
                match reply {
                    Reply::Ready(_) => drop(hands.order(name, "r1", What::Stop)),
                    Reply::Wrong { .. } | Reply::Environment { .. } | Reply::Refused { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    let after = until("it is still there", || hands.registered(name));
    assert_eq!(after.instance, before.instance);
}
