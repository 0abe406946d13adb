//! The coordinator with agents that do as a test says.

use std::time::{Duration, Instant};

use prony_fleet::clock::Clock;
use prony_fleet::coordinator::{
    Choice, ClockCheck, Finished, Fleet, FleetError, Stop, TargetCheck, Wanted, Watcher,
};
use prony_fleet::messages::{Manifest, Reply, What};
use prony_fleet::names::AGENTS;
use prony_fleet::permissions::Role;
use prony_record::{Delta, Finding, FindingId, Outcome, Record, Severity};

use crate::fake::{Fake, Script};
use crate::ground::{Ground, agent};
use crate::hands::Hands;

pub(crate) fn fleet(ground: &Ground) -> Fleet {
    let credentials = ground.credentials(&Role::Coordinator);
    Fleet::connect(None, &credentials).unwrap()
}

/// A server with agents on it.
pub(crate) fn with_agents(scripts: &[(&str, Script)]) -> (Ground, Fleet, Vec<Fake>) {
    let names: Vec<&str> = scripts.iter().map(|(name, _)| *name).collect();
    let ground = Ground::new(&names);
    let fleet = fleet(&ground);
    let started = scripts
        .iter()
        .map(|(name, script)| Fake::start(&ground, name, script.clone()));
    let agents = started.collect();
    (ground, fleet, agents)
}

pub(crate) fn wanted(words: &[&str]) -> Wanted {
    Wanted {
        url: Some("http://127.0.0.1:9/".to_owned()),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        choice: Choice::All,
        // A busy machine makes agents begin late, which is told.
        clock_bound: Duration::from_secs(5),
    }
}

pub(crate) fn load(fleet: &Fleet, wanted: &Wanted) -> Result<Finished, FleetError> {
    let stop = Stop::new();
    let told = |told: prony_fleet::coordinator::Told<'_>| eprintln!("{told:?}");
    fleet.load(
        wanted,
        Watcher {
            told: &told,
            stop: &stop,
            feed: None,
        },
    )
}

/// The warm-up of loads that have one.
const WARMUP_S: f64 = 2.0;

/// All that a fake agent measures, what is cut off at the end included.
fn whole(script: &Script) -> Delta {
    let mut whole = Delta::default();
    script.deltas.iter().for_each(|delta| whole.merge(delta));
    let count = script.deltas.len() as u64;
    whole.outcomes.add_many(Outcome::Unfinished, count);
    whole
}

/// The findings' names.
pub(crate) fn found(record: &Record) -> Vec<&str> {
    record.findings.iter().map(|it| it.id.as_str()).collect()
}

fn same_counts(record: &Record, all: &Delta) {
    let expected = Record::build(record.load.clone(), all, all.span.unwrap(), None);
    assert_eq!(record.histograms, expected.histograms);
    assert_eq!(record.outcomes, expected.outcomes);
    assert_eq!(record.response_time_us, expected.response_time_us);
    assert_eq!(record.totals.started, expected.totals.started);
    record.totals.check().unwrap();
}

#[test]
fn parts_add_up_to_the_last_bucket() {
    let other = Script {
        deltas: (3..9).map(crate::fake::measured).collect(),
        findings: vec![Finding::new(
            FindingId::Errors,
            Severity::Note,
            "Some failed.",
        )],
        ..Script::default()
    };
    let scripts = [
        ("a", Script::default()),
        ("b", other.clone()),
        ("c", other.clone()),
    ];
    let (_ground, fleet, agents) = with_agents(&scripts);
    let finished = load(&fleet, &wanted(&["--connections=50", "--seed=7"])).unwrap();
    let mut all = Delta::default();
    scripts
        .iter()
        .for_each(|(_, script)| all.merge(&whole(script)));
    let record = &finished.record;
    same_counts(record, &all);
    assert_eq!(found(record), ["errors"]);
    assert_eq!(record.findings[0].text, "b, c: Some failed.");
    assert_eq!(
        (record.seed, record.load.threads, record.load.sources),
        (7, 6, 0)
    );
    assert_eq!(record.started_at, "2026-01-01T00:00:00Z");
    assert_eq!(
        (record.generator.cpu_user_s, record.generator.busy_share),
        (3.0, 0.25)
    );

    let parts = record.fleet.as_ref().unwrap();
    assert_eq!(parts.run, finished.run.as_str());
    assert!(parts.start_skew_us.is_some() && parts.clock_bound_us > 0.0);
    let connections: Vec<u64> = parts.agents.iter().map(|it| it.connections).collect();
    assert_eq!(connections, [18, 16, 16]);
    for (agent, (name, script)) in parts.agents.iter().zip(&scripts) {
        let mine = whole(script);
        assert_eq!(
            (agent.name.as_str(), agent.ended_because.as_str()),
            (*name, "done")
        );
        assert_eq!(
            (agent.started, agent.ok),
            (mine.started, mine.outcomes.get(Outcome::Ok))
        );
    }
    for agent in &agents {
        assert!(agent.seen.was_told(&What::Forget), "its counts agree");
        let load = &agent.seen.loads()[0];
        assert_eq!(load.words, ["--connections=50", "--seed=7"]);
        assert_eq!(load.stretch.of, 6);
    }
    // It stays with the server, and gives the same again.
    let run = fleet.run(None).unwrap();
    let stop = Stop::new();
    let again = fleet.collect(&run, watching(&stop)).unwrap();
    assert_eq!(again.record, *record);
}

#[test]
fn what_an_agent_has_yet_to_send_is_waited_for() {
    let (ground, fleet, _agents) = with_agents(&[("a", Script::default())]);
    let record = load(&fleet, &wanted(&[])).unwrap().record;
    let mut manifest = fleet.run(None).unwrap();
    let hands = Hands {
        link: ground.link(&Role::Coordinator),
    };
    let name = manifest.parts.keys().next().unwrap().clone();
    let mut registration = hands.registered(&name).unwrap();
    let (mut sent, ..) = hands.results(manifest.run.as_str()).whole(&name);

    // The same as a run of which nothing is stored, and its agent has been cut off until now.
    manifest.run = "later".parse().unwrap();
    registration.sending.insert(manifest.run.clone());
    let link = ground.link(&agent(name.as_str()));
    let store = |subject: &str, json| link.store(subject, None, json).unwrap();
    let json = serde_json::to_vec(&registration).unwrap();
    store(&format!("$KV.{AGENTS}.{name}"), json);
    let collected = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(3));
            for message in &mut sent {
                message.run = manifest.run.clone();
                let json = serde_json::to_vec(message).unwrap();
                store(&name.results(&manifest.run), json);
            }
        });
        let stop = Stop::new();
        fleet.collect(&manifest, watching(&stop)).unwrap().record
    });
    assert_eq!(found(&collected), found(&record));
    assert_eq!(collected.totals, record.totals);
    assert_eq!(collected.histograms, record.histograms);
}

pub(crate) fn watching(stop: &Stop) -> Watcher<'_> {
    Watcher {
        told: &|_| {},
        stop,
        feed: None,
    }
}

#[test]
fn files_and_sources_go_where_they_are_used() {
    let script = |address: &str| Script {
        addresses: vec![address.parse().unwrap()],
        ..Script::default()
    };
    let (_ground, fleet, agents) =
        with_agents(&[("a", script("10.0.0.1")), ("b", script("10.0.0.2"))]);
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body.bin");
    let bytes: Vec<u8> = (0..600_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&body, &bytes).unwrap();
    let body_file = format!("--body-file={}", body.display());
    let words = [
        body_file.as_str(),
        "--source=10.0.0.1-10.0.0.9",
        "--threads=1",
    ];
    load(&fleet, &wanted(&words)).unwrap();
    for (agent, address) in agents.iter().zip(["10.0.0.1", "10.0.0.2"]) {
        let load = &agent.seen.loads()[0];
        let words = [
            "--body-file=body-file".to_owned(),
            format!("--source={address}"),
        ];
        assert_eq!(load.words, words);
        assert_eq!((load.stretch.workers, load.stretch.of), (1, 2));
        let orders = agent.seen.orders.lock().unwrap();
        let pieces = orders.iter().filter_map(|what| match what {
            What::Put(piece) => Some((piece.name.as_str(), piece.offset, piece.length)),
            _ => None,
        });
        let pieces: Vec<_> = pieces.collect();
        let expected = [0, 262_144, 524_288].map(|at| ("body-file", at, 600_000));
        assert_eq!(pieces, expected);
    }
    let error = load(&fleet, &wanted(&["--source=10.0.0.7"])).unwrap_err();
    assert!(
        error.is_wrong() && error.to_string().contains("10.0.0.7"),
        "{error}"
    );
}

#[test]
fn one_refusal_and_nobody_begins() {
    let refusal = Reply::Refused {
        rule: "load.targets".to_owned(),
        text: "8.8.8.8 is not allowed".to_owned(),
    };
    let refusing = Script {
        says: Some(refusal),
        ..Script::default()
    };
    let (_ground, fleet, agents) = with_agents(&[("a", Script::default()), ("b", refusing)]);
    let error = load(&fleet, &wanted(&[])).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, FleetError::Refused { .. }), "{text}");
    assert_eq!(
        text,
        "agent b: rejected by policy rule load.targets: 8.8.8.8 is not allowed"
    );
    assert!(agents[0].seen.was_told(&What::Stop) && !agents[0].seen.is_loading());
    // Nothing came of it, and that is what is said of it later.
    let run = fleet.run(None).unwrap();
    let stop = Stop::new();
    let error = fleet.collect(&run, watching(&stop)).unwrap_err();
    assert!(error.to_string().contains("never began"), "{error}");

    // One that has something is taken before one that has not, whichever is newer.
    let alone = Wanted {
        choice: "a".parse().unwrap(),
        ..wanted(&[])
    };
    let finished = load(&fleet, &alone).unwrap();
    load(&fleet, &wanted(&[])).unwrap_err();
    let runs = fleet.runs().unwrap();
    let stored = runs.iter().filter(|run| run.stored > 0).count();
    assert_eq!((runs.len(), stored), (3, 1));
    assert_eq!(fleet.run(None).unwrap().run, finished.run);

    let mut few = wanted(&["--connections=1"]);
    let error = load(&fleet, &few).unwrap_err();
    assert!(error.to_string().contains("--connections 1"), "{error}");
    few.choice = Choice::Count(3);
    let error = load(&fleet, &few).unwrap_err().to_string();
    assert!(
        error.contains("3 agents were asked for, and 2 are free"),
        "{error}"
    );
}

#[test]
fn clocks_that_are_set_off_are_compensated() {
    let set_off = |ns: i64| {
        let clock = Clock::new();
        clock.shift(ns);
        Script {
            clock,
            ..Script::default()
        }
    };
    let hour = 3_600_000_000_000;
    let scripts = [
        ("a", set_off(hour)),
        ("b", set_off(-hour)),
        ("c", set_off(0)),
    ];
    let (_ground, fleet, _agents) = with_agents(&scripts);
    let record = load(&fleet, &wanted(&[])).unwrap().record;
    assert_eq!(found(&record), [""; 0]);
    let parts = record.fleet.unwrap();
    for (agent, offset_us) in parts.agents.iter().zip([3.6e9, -3.6e9, 0.0]) {
        let apart = (agent.clock_offset_us.unwrap() - offset_us).abs();
        assert!(apart <= agent.clock_bound_us.unwrap(), "{agent:?}");
    }
    // An hour would show.
    assert!(parts.start_skew_us.unwrap() < 10e6, "{parts:?}");
}

#[test]
fn a_clock_that_jumps_is_doubted_and_one_that_is_not_known_is_refused() {
    let jumping = Script {
        jump: 3_000_000_000,
        ..Script::default()
    };
    let slow = Script {
        slow_clock: Duration::from_millis(30),
        ..Script::default()
    };
    let (_ground, fleet, agents) = with_agents(&[("a", jumping), ("slow", slow)]);
    let names = |names: &str| Wanted {
        choice: names.parse().unwrap(),
        ..wanted(&[])
    };
    let record = load(&fleet, &names("a")).unwrap().record;
    assert_eq!(found(&record), ["clock-doubtful"]);
    assert!(record.findings[0].text.starts_with("Agent a: "));

    let strict = Wanted {
        clock_bound: Duration::from_millis(5),
        ..names("slow")
    };
    let error = load(&fleet, &strict).unwrap_err();
    assert!(matches!(error, FleetError::ClockBound { .. }), "{error}");
    assert!(error.to_string().starts_with("agent slow: "), "{error}");
    assert!(!agents[1].seen.is_loading() && agents[1].seen.was_told(&What::Stop));
}

#[test]
fn who_begins_late_is_told_and_whether_that_reaches_what_is_measured() {
    let late = |warmups: f64| Script {
        late: Duration::from_secs_f64(warmups * WARMUP_S),
        ..Script::default()
    };
    let scripts = [
        ("a", Script::default()),
        ("b", late(0.5)),
        ("c", late(1.25)),
    ];
    let (_ground, fleet, _agents) = with_agents(&scripts);
    let of = |names: &str| {
        let wanted = Wanted {
            choice: names.parse().unwrap(),
            clock_bound: Duration::from_millis(700),
            ..wanted(&["--warmup", &format!("{WARMUP_S}s")])
        };
        load(&fleet, &wanted).unwrap().record.findings
    };
    assert_eq!(of("a"), []);
    let findings = of("a,b");
    assert_eq!(findings.len(), 1, "{findings:?}");
    let late = &findings[0];
    assert_eq!(
        (late.id.as_str(), late.severity),
        ("late-start", Severity::Note)
    );
    assert!(late.text.contains("(--clock-bound): b by 1"), "{late:?}");
    assert!(late.text.ends_with("not touched."), "{late:?}");
    let findings = of("a,b,c");
    assert_eq!(findings.len(), 1, "{findings:?}");
    let late = &findings[0];
    assert_eq!(late.severity, Severity::Warning);
    assert!(late.text.contains("(--clock-bound): c by 2"), "{late:?}");
    assert!(late.text.contains(", b by 1"), "{late:?}");
}

#[test]
fn clocks_are_judged_by_whoever_makes_the_record() {
    let jumping = Script {
        jump: 3_000_000_000,
        ..Script::default()
    };
    let (_ground, fleet, mut agents) = with_agents(&[("a", jumping), ("b", Script::default())]);
    load(&fleet, &wanted(&[])).unwrap();
    let stop = Stop::new();
    let collected = |run: &Manifest| {
        let record = fleet.collect(run, watching(&stop)).unwrap().record;
        let findings = record.findings.into_iter();
        let of_clocks = findings.filter(|it| it.id.as_str().starts_with("clock-"));
        of_clocks
            .map(|it| (it.id.to_string(), it.text))
            .collect::<Vec<_>>()
    };
    let run = fleet.run(None).unwrap();
    let mut unchecked = run.clone();
    for part in unchecked.parts.values_mut() {
        assert!(part.clock_after.take().is_some(), "it is stored");
    }
    let expect = |found: Vec<(String, String)>, id: &str, said: &str| {
        assert!(
            found.len() == 1 && found[0].0 == id && found[0].1.contains(said),
            "{found:?}"
        );
    };
    // As if the first coordinator had died before it looked.
    expect(
        collected(&unchecked),
        "clock-doubtful",
        "Agent a: its clock",
    );
    let elsewhere = Manifest {
        clock: Some("another".to_owned()),
        ..unchecked.clone()
    };
    let said = "after it: a, b (compared before with a clock that is not known";
    expect(collected(&elsewhere), "clock-unchecked", said);
    let mut restarted = unchecked.clone();
    restarted
        .parts
        .values_mut()
        .for_each(|part| part.instance = "zero".to_owned());
    expect(
        collected(&restarted),
        "clock-unchecked",
        "(started anew since)",
    );
    let long_ago = Manifest {
        start: unchecked.start.map(|start| start - 3_600_000_000_000),
        ..unchecked.clone()
    };
    expect(
        collected(&long_ago),
        "clock-unchecked",
        "(over for more than 10 min)",
    );
    agents.clear();
    expect(
        collected(&unchecked),
        "clock-unchecked",
        "(not there to be asked)",
    );
    // What was found once stays.
    expect(collected(&run), "clock-doubtful", "Agent a: its clock");
}

/// A load that goes on for a while.
pub(crate) fn long() -> Script {
    Script {
        deltas: (0..60).map(|_| crate::fake::measured(3)).collect(),
        pace: Duration::from_millis(50),
        ..Script::default()
    }
}

#[test]
fn an_agent_that_is_killed_is_missed_and_what_it_sent_counts() {
    let (_ground, fleet, mut agents) = with_agents(&[("a", long()), ("b", long())]);
    // Its silence is taken for its end so much sooner.
    let fleet = fleet.with_lease(Duration::from_secs(2));
    let doomed = agents.remove(0);
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&fleet, &wanted(&[])));
        doomed.wait_for_load();
        std::thread::sleep(Duration::from_millis(400));
        drop(doomed);
        loading.join().unwrap().unwrap()
    });
    let record = finished.record;
    assert_eq!(found(&record), ["agent-lost", "partial"]);
    assert!(
        record.findings[0].text.starts_with("Agent a "),
        "{record:?}"
    );
    record.totals.check().unwrap();
    let parts = record.fleet.as_ref().unwrap();
    let because: Vec<&str> = parts
        .agents
        .iter()
        .map(|it| it.ended_because.as_str())
        .collect();
    assert_eq!(because, ["lost", "done"]);
    assert!(parts.agents[0].ok > 0 && parts.agents[0].ok < parts.agents[1].ok);
    assert_eq!(record.totals.ok, parts.agents[0].ok + parts.agents[1].ok);
    assert!(agents[0].seen.was_told(&What::Forget));
}

#[test]
fn a_load_that_is_stopped_gives_what_was_measured() {
    let (_ground, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let stop = Stop::new();
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[1].wait_for_load();
        std::thread::sleep(Duration::from_millis(300));
        stop.soon();
        loading.join().unwrap().unwrap()
    });
    let parts = finished.record.fleet.as_ref().unwrap();
    assert!(
        parts
            .agents
            .iter()
            .all(|it| it.ended_because == "stopped" && it.ok > 0)
    );
    assert_eq!(found(&finished.record), [""; 0]);
    // Before its start there is nothing.
    let error = fleet.load(&wanted(&[]), watching(&stop)).unwrap_err();
    assert_eq!(error, FleetError::CalledOff);
}

#[test]
fn who_asks_twice_waits_for_nobody_and_can_have_the_rest_later() {
    let deaf = Script {
        is_deaf: true,
        ..long()
    };
    let (_ground, fleet, agents) = with_agents(&[("a", deaf.clone()), ("b", long())]);
    let stop = Stop::new();
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        std::thread::sleep(Duration::from_millis(300));
        stop.soon();
        let until = Instant::now() + Duration::from_secs(20);
        while !agents[0].seen.was_told(&What::Stop) {
            assert!(Instant::now() < until, "it is told to stop");
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.at_once();
        loading.join().unwrap().unwrap()
    });
    let record = &finished.record;
    assert_eq!(found(record)[0], "partial", "{:?}", record.findings);
    let text = &record.findings[0].text;
    let line = format!("`prony fleet collect {}`", finished.run);
    assert!(
        text.contains("a was not waited for") && text.contains(&line),
        "{text}"
    );
    assert_eq!(
        record.fleet.as_ref().unwrap().agents[0].ended_because,
        "stopped"
    );
    record.totals.check().unwrap();
    let stop = Stop::new();
    let run = fleet.run(Some(&finished.run)).unwrap();
    let whole = fleet.collect(&run, watching(&stop)).unwrap().record;
    assert_eq!(found(&whole), [""; 0]);
    assert_eq!(whole.fleet.unwrap().agents[0].ok, 60 * 3);
    assert!(record.totals.ok < whole.totals.ok);
}

#[test]
fn a_server_that_is_restarted_loses_nothing_and_doubles_nothing() {
    let (mut ground, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&fleet, &wanted(&[])));
        agents[1].wait_for_load();
        std::thread::sleep(Duration::from_millis(400));
        ground.server.take();
        std::thread::sleep(Duration::from_millis(200));
        ground.server = Some(ground.prepared.start().unwrap());
        loading.join().unwrap().unwrap()
    });
    let mut all = whole(&long());
    all.merge(&whole(&long()));
    same_counts(&finished.record, &all);
    assert_eq!(found(&finished.record), [""; 0]);
}

#[test]
fn a_run_outlives_its_coordinator() {
    let (ground, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let other = self::fleet(&ground);
    let stop = Stop::new();
    let attached = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        // Watching it from elsewhere takes nothing away.
        let run = other.run(None).unwrap();
        let attached = other.attach(&run, watching(&stop)).unwrap();
        let first = loading.join().unwrap().unwrap();
        assert_eq!(first.record.histograms, attached.record.histograms);
        attached
    });
    let mut all = whole(&long());
    all.merge(&whole(&long()));
    same_counts(&attached.record, &all);
    assert_eq!(found(&attached.record), [""; 0]);
    drop(agents);
    let unknown = "r0".parse().unwrap();
    assert_eq!(
        other.run(Some(&unknown)).unwrap_err(),
        FleetError::NoRun(Some(unknown))
    );
}

#[test]
fn a_check_shows_clocks_and_whether_the_target_answers() {
    let refusing = Script {
        says: Some(Reply::Environment {
            text: "nobody listens there".to_owned(),
        }),
        ..Script::default()
    };
    let (_ground, fleet, _agents) = with_agents(&[("a", Script::default()), ("b", refusing)]);
    let bound = Duration::from_secs(1);
    let checked = fleet.check(&Choice::All, Some("http://x/"), bound).unwrap();
    assert!(matches!(checked[0].clock, ClockCheck::Known(_)));
    assert!(matches!(
        checked[0].target,
        Some(TargetCheck::Answers { .. })
    ));
    assert!(!checked[0].is_wrong() && checked[1].is_wrong());
    let fails = Some(TargetCheck::Fails("nobody listens there".to_owned()));
    assert_eq!(checked[1].target, fails);
    let label: Choice = "kind=fake".parse().unwrap();
    let began = Instant::now();
    let checked = fleet.check(&label, None, Duration::ZERO).unwrap();
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(
        checked
            .iter()
            .all(|it| matches!(it.clock, ClockCheck::TooCoarse(_)))
    );
    assert_eq!(checked.len(), 2);
}

#[test]
fn who_watches_a_run_of_another_coordinator_detaches() {
    let (ground, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let other = self::fleet(&ground);
    let (stop, detach) = (Stop::new(), Stop::new());
    let whole = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        let run = other.run(None).unwrap();
        detach.soon();
        let error = other.attach(&run, watching(&detach)).unwrap_err();
        assert_eq!(error, FleetError::Detached(run.run.clone()));
        loading.join().unwrap().unwrap()
    });
    let parts = whole.record.fleet.as_ref().unwrap();
    assert!(parts.agents.iter().all(|it| it.ended_because == "done"));
    for agent in &agents {
        assert!(!agent.seen.was_told(&What::Stop));
    }
}
