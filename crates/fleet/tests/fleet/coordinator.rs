//! The coordinator with scripted agents.

use std::time::{Duration, Instant};

use prony_fleet::clock::Clock;
use prony_fleet::coordinator::{
    AgentChoice, ClockCheck, FinishedRun, Fleet, FleetError, LoadObserver, LoadRequest,
    StopRequest, TargetCheck,
};
use prony_fleet::names::AGENTS_BUCKET;
use prony_fleet::permissions::Role;
use prony_fleet::wire::{Command, Reply, RunManifest};
use prony_record::{Delta, Finding, FindingId, Outcome, Record, Severity};

use crate::harness::TestCoordinator;
use crate::nats_server::{TestServer, agent};
use crate::scripted_agent::{AgentScript, ScriptedAgent};

pub(crate) fn fleet(nats: &TestServer) -> Fleet {
    let credentials = nats.credentials(&Role::Coordinator);
    Fleet::connect(None, &credentials).unwrap()
}

/// A server with scripted agents.
pub(crate) fn with_agents(
    scripts: &[(&str, AgentScript)],
) -> (TestServer, Fleet, Vec<ScriptedAgent>) {
    let names: Vec<&str> = scripts.iter().map(|(name, _)| *name).collect();
    let nats = TestServer::new(&names);
    let fleet = fleet(&nats);
    let started = scripts
        .iter()
        .map(|(name, script)| ScriptedAgent::start(&nats, name, script.clone()));
    let agents = started.collect();
    (nats, fleet, agents)
}

pub(crate) fn wanted(words: &[&str]) -> LoadRequest {
    LoadRequest {
        url: Some("http://127.0.0.1:9/".to_owned()),
        settings: crate::harness::load_settings(words),
        choice: AgentChoice::All,
        // On a busy machine agents start late.
        clock_bound: Duration::from_secs(5),
    }
}

pub(crate) fn load(fleet: &Fleet, wanted: &LoadRequest) -> Result<FinishedRun, FleetError> {
    let stop = StopRequest::new();
    let on_event = |event: prony_fleet::coordinator::FleetEvent<'_>| eprintln!("{event:?}");
    fleet.load(
        wanted,
        LoadObserver {
            on_event: &on_event,
            stop: &stop,
            feed: None,
        },
    )
}

/// The warm-up of loads that have one, in seconds.
const WARMUP_S: f64 = 2.0;

/// All results of a scripted agent, including requests that are unfinished at the end.
fn whole(script: &AgentScript) -> Delta {
    let mut whole = Delta::default();
    script.deltas.iter().for_each(|delta| whole.merge(delta));
    let count = script.deltas.len() as u64;
    whole.outcomes.add_many(Outcome::Unfinished, count);
    whole
}

/// The ids of a record's findings.
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
    let other = AgentScript {
        deltas: (3..9).map(crate::scripted_agent::measured).collect(),
        findings: vec![Finding::new(
            FindingId::Errors,
            Severity::Note,
            "Some failed.",
        )],
        ..AgentScript::default()
    };
    let scripts = [
        ("a", AgentScript::default()),
        ("b", other.clone()),
        ("c", other.clone()),
    ];
    let (_nats, fleet, agents) = with_agents(&scripts);
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
        assert!(
            agent.seen.received_order(&Command::Forget),
            "its counts agree"
        );
        let load = &agent.seen.loads()[0];
        assert_eq!(
            load.settings,
            crate::harness::load_settings(&["-c", "50", "--seed", "7"])
        );
        assert_eq!(load.shard.of, 6);
    }
    // The run stays on the server, and gives the same record again.
    let run = fleet.run(None).unwrap();
    let stop = StopRequest::new();
    let again = fleet.collect(&run, watching(&stop)).unwrap();
    assert_eq!(again.record, *record);
}

#[test]
fn collect_waits_for_results_that_are_still_being_sent() {
    let (nats, fleet, _agents) = with_agents(&[("a", AgentScript::default())]);
    let record = load(&fleet, &wanted(&[])).unwrap().record;
    let mut manifest = fleet.run(None).unwrap();
    let coordinator = TestCoordinator {
        link: nats.link(&Role::Coordinator),
    };
    let name = manifest.parts.keys().next().unwrap().clone();
    let mut registration = coordinator.registered(&name).unwrap();
    let (mut sent, ..) = coordinator.results(manifest.run.as_str()).whole(&name);

    // Imitates a run without stored results, whose agent was cut off until now.
    manifest.run = "later".parse().unwrap();
    registration.sending.insert(manifest.run.clone());
    let link = nats.link(&agent(name.as_str()));
    let store = |subject: &str, json| link.store(subject, None, json).unwrap();
    let json = serde_json::to_vec(&registration).unwrap();
    store(&format!("$KV.{AGENTS_BUCKET}.{name}"), json);
    let collected = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Longer than the collector waits for messages that nobody is sending.
            std::thread::sleep(Duration::from_secs(2));
            for message in &mut sent {
                message.run = manifest.run.clone();
                let json = serde_json::to_vec(message).unwrap();
                store(&name.results_subject(&manifest.run), json);
            }
        });
        let stop = StopRequest::new();
        fleet.collect(&manifest, watching(&stop)).unwrap().record
    });
    assert_eq!(found(&collected), found(&record));
    assert_eq!(collected.totals, record.totals);
    assert_eq!(collected.histograms, record.histograms);
}

pub(crate) fn watching(stop: &StopRequest) -> LoadObserver<'_> {
    LoadObserver {
        on_event: &|_| {},
        stop,
        feed: None,
    }
}

#[test]
fn files_and_sources_go_where_they_are_used() {
    let script = |address: &str| AgentScript {
        addresses: vec![address.parse().unwrap()],
        ..AgentScript::default()
    };
    let (_nats, fleet, agents) =
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
        let flags = ["--body-file", "body_file", "--source", address];
        assert_eq!(load.settings, crate::harness::load_settings(&flags));
        assert_eq!((load.shard.workers, load.shard.of), (1, 2));
        let orders = agent.seen.orders.lock().unwrap();
        let pieces = orders.iter().filter_map(|command| match command {
            Command::Put(piece) => Some((piece.name.as_str(), piece.offset, piece.length)),
            _ => None,
        });
        let pieces: Vec<_> = pieces.collect();
        let expected = [0, 262_144, 524_288].map(|at| ("body_file", at, 600_000));
        assert_eq!(pieces, expected);
    }
    let error = load(&fleet, &wanted(&["--source=10.0.0.7"])).unwrap_err();
    assert!(
        error.is_wrong() && error.to_string().contains("10.0.0.7"),
        "{error}"
    );
}

#[test]
fn one_refusal_cancels_the_load() {
    let refusal = Reply::Refused {
        rule: "load.targets".to_owned(),
        text: "8.8.8.8 is not allowed".to_owned(),
    };
    let refusing = AgentScript {
        reply: Some(refusal),
        ..AgentScript::default()
    };
    let (_nats, fleet, agents) = with_agents(&[("a", AgentScript::default()), ("b", refusing)]);
    let error = load(&fleet, &wanted(&[])).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, FleetError::Refused { .. }), "{text}");
    assert_eq!(
        text,
        "agent b: rejected by policy rule load.targets: 8.8.8.8 is not allowed"
    );
    assert!(agents[0].seen.received_order(&Command::Stop) && !agents[0].seen.is_loading());
    // Nothing was measured, which later commands report.
    let run = fleet.run(None).unwrap();
    let stop = StopRequest::new();
    let error = fleet.collect(&run, watching(&stop)).unwrap_err();
    assert!(error.to_string().contains("never started"), "{error}");

    // A run with results is preferred over a newer one without.
    let alone = LoadRequest {
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
    few.choice = AgentChoice::Count(3);
    let error = load(&fleet, &few).unwrap_err().to_string();
    assert!(
        error.contains("3 agents were asked for, and 2 are free"),
        "{error}"
    );
}

#[test]
fn clock_offsets_are_compensated() {
    let set_off = |ns: i64| {
        let clock = Clock::new();
        clock.shift(ns);
        AgentScript {
            clock,
            ..AgentScript::default()
        }
    };
    let hour = 3_600_000_000_000;
    let scripts = [
        ("a", set_off(hour)),
        ("b", set_off(-hour)),
        ("c", set_off(0)),
    ];
    let (_nats, fleet, _agents) = with_agents(&scripts);
    let record = load(&fleet, &wanted(&[])).unwrap().record;
    assert_eq!(found(&record), [""; 0]);
    let parts = record.fleet.unwrap();
    for (agent, offset_us) in parts.agents.iter().zip([3.6e9, -3.6e9, 0.0]) {
        let apart = (agent.clock_offset_us.unwrap() - offset_us).abs();
        assert!(apart <= agent.clock_bound_us.unwrap(), "{agent:?}");
    }
    // A missing correction would show as an hour.
    assert!(parts.start_skew_us.unwrap() < 10e6, "{parts:?}");
}

#[test]
fn a_clock_that_jumps_is_doubtful_and_an_imprecise_one_is_refused() {
    let jumping = AgentScript {
        jump: 3_000_000_000,
        ..AgentScript::default()
    };
    let slow = AgentScript {
        slow_clock: Duration::from_millis(30),
        ..AgentScript::default()
    };
    let (_nats, fleet, agents) = with_agents(&[("a", jumping), ("slow", slow)]);
    let names = |names: &str| LoadRequest {
        choice: names.parse().unwrap(),
        ..wanted(&[])
    };
    let record = load(&fleet, &names("a")).unwrap().record;
    assert_eq!(found(&record), ["clock-doubtful"]);
    assert!(record.findings[0].text.starts_with("Agent a: "));

    let strict = LoadRequest {
        clock_bound: Duration::from_millis(5),
        ..names("slow")
    };
    let error = load(&fleet, &strict).unwrap_err();
    assert!(matches!(error, FleetError::ClockBound { .. }), "{error}");
    assert!(error.to_string().starts_with("agent slow: "), "{error}");
    assert!(!agents[1].seen.is_loading() && agents[1].seen.received_order(&Command::Stop));
}

#[test]
fn late_agents_are_reported_with_their_effect() {
    let late = |warmups: f64| AgentScript {
        late: Duration::from_secs_f64(warmups * WARMUP_S),
        ..AgentScript::default()
    };
    let scripts = [
        ("a", AgentScript::default()),
        ("b", late(0.5)),
        ("c", late(1.25)),
    ];
    let (_nats, fleet, _agents) = with_agents(&scripts);
    let of = |names: &str| {
        let wanted = LoadRequest {
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
    assert!(late.text.ends_with("not affected."), "{late:?}");
    let findings = of("a,b,c");
    assert_eq!(findings.len(), 1, "{findings:?}");
    let late = &findings[0];
    assert_eq!(late.severity, Severity::Warning);
    assert!(late.text.contains("(--clock-bound): c by 2"), "{late:?}");
    assert!(late.text.contains(", b by 1"), "{late:?}");
}

#[test]
fn every_record_of_a_run_judges_the_clocks() {
    let jumping = AgentScript {
        jump: 3_000_000_000,
        ..AgentScript::default()
    };
    let (_nats, fleet, mut agents) = with_agents(&[("a", jumping), ("b", AgentScript::default())]);
    load(&fleet, &wanted(&[])).unwrap();
    let stop = StopRequest::new();
    let collected = |run: &RunManifest| {
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
    let expect = |found: Vec<(String, String)>, id: &str, text: &str| {
        assert!(
            found.len() == 1 && found[0].0 == id && found[0].1.contains(text),
            "{found:?}"
        );
    };
    // Imitates a coordinator that died before it compared the clocks.
    expect(
        collected(&unchecked),
        "clock-doubtful",
        "Agent a: its clock",
    );
    let elsewhere = RunManifest {
        clock: Some("another".to_owned()),
        ..unchecked.clone()
    };
    let text = "ruled out: a, b (first compared with another machine's clock";
    expect(collected(&elsewhere), "clock-unchecked", text);
    let mut restarted = unchecked.clone();
    restarted
        .parts
        .values_mut()
        .for_each(|part| part.instance = "zero".to_owned());
    expect(
        collected(&restarted),
        "clock-unchecked",
        "(restarted since)",
    );
    let long_ago = RunManifest {
        start: unchecked.start.map(|start| start - 3_600_000_000_000),
        ..unchecked.clone()
    };
    expect(
        collected(&long_ago),
        "clock-unchecked",
        "(the load ended more than 10 min ago)",
    );
    agents.clear();
    expect(collected(&unchecked), "clock-unchecked", "(not connected)");
    // Stored results of the comparison stay.
    expect(collected(&run), "clock-doubtful", "Agent a: its clock");
}

/// A load that takes a while.
pub(crate) fn long() -> AgentScript {
    AgentScript {
        deltas: (0..60)
            .map(|_| crate::scripted_agent::measured(3))
            .collect(),
        pace: Duration::from_millis(50),
        ..AgentScript::default()
    }
}

#[test]
fn the_results_of_a_killed_agent_count() {
    let (_nats, fleet, mut agents) = with_agents(&[("a", long()), ("b", long())]);
    // A shorter lease detects its silence sooner.
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
    assert!(agents[0].seen.received_order(&Command::Forget));
}

#[test]
fn a_load_that_is_stopped_gives_what_was_measured() {
    let (_nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let stop = StopRequest::new();
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
    // Before the start, a stop cancels the load.
    let error = fleet.load(&wanted(&[]), watching(&stop)).unwrap_err();
    assert_eq!(error, FleetError::CalledOff);
}

#[test]
fn a_second_stop_returns_at_once_and_the_rest_can_be_collected() {
    let deaf = AgentScript {
        is_deaf: true,
        ..long()
    };
    let (_nats, fleet, agents) = with_agents(&[("a", deaf.clone()), ("b", long())]);
    let stop = StopRequest::new();
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        std::thread::sleep(Duration::from_millis(300));
        stop.soon();
        let until = Instant::now() + Duration::from_secs(20);
        while !agents[0].seen.received_order(&Command::Stop) {
            assert!(Instant::now() < until, "it gets the order to stop");
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
    let stop = StopRequest::new();
    let run = fleet.run(Some(&finished.run)).unwrap();
    let whole = fleet.collect(&run, watching(&stop)).unwrap().record;
    assert_eq!(found(&whole), [""; 0]);
    assert_eq!(whole.fleet.unwrap().agents[0].ok, 60 * 3);
    assert!(record.totals.ok < whole.totals.ok);
}

#[test]
fn a_server_restart_loses_and_duplicates_nothing() {
    let (mut nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&fleet, &wanted(&[])));
        agents[1].wait_for_load();
        std::thread::sleep(Duration::from_millis(400));
        nats.process.take();
        std::thread::sleep(Duration::from_millis(200));
        nats.process = Some(nats.prepared.start().unwrap());
        loading.join().unwrap().unwrap()
    });
    let mut all = whole(&long());
    all.merge(&whole(&long()));
    same_counts(&finished.record, &all);
    assert_eq!(found(&finished.record), [""; 0]);
}

#[test]
fn a_run_outlives_its_coordinator() {
    let (nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let other = self::fleet(&nats);
    let stop = StopRequest::new();
    let attached = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        // Watching does not interfere with the run.
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
fn a_check_reports_clocks_and_responses_of_the_target() {
    let refusing = AgentScript {
        reply: Some(Reply::Environment {
            text: "nobody listens there".to_owned(),
        }),
        ..AgentScript::default()
    };
    let (_nats, fleet, _agents) = with_agents(&[("a", AgentScript::default()), ("b", refusing)]);
    let bound = Duration::from_secs(1);
    let checked = fleet
        .check(&AgentChoice::All, Some("http://x/"), bound)
        .unwrap();
    assert!(matches!(checked[0].clock, ClockCheck::Known(_)));
    assert!(matches!(
        checked[0].target,
        Some(TargetCheck::Answers { .. })
    ));
    assert!(!checked[0].is_wrong() && checked[1].is_wrong());
    let fails = Some(TargetCheck::Fails("nobody listens there".to_owned()));
    assert_eq!(checked[1].target, fails);
    let label: AgentChoice = "kind=fake".parse().unwrap();
    let checked = fleet.check(&label, None, Duration::ZERO).unwrap();
    assert!(
        checked
            .iter()
            .all(|it| matches!(it.clock, ClockCheck::TooCoarse(_)))
    );
    assert_eq!(checked.len(), 2);
}

#[test]
fn stopping_a_watcher_only_detaches() {
    let (nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let other = self::fleet(&nats);
    let (stop, detach) = (StopRequest::new(), StopRequest::new());
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
        assert!(!agent.seen.received_order(&Command::Stop));
    }
}
