//! Loads that a coordinator runs on scripted agents.

use std::time::Duration;

use prony_fleet::coordinator::{
    AgentChoice, ClockCheck, FinishedRun, Fleet, FleetError, LoadObserver, LoadRequest,
    StopRequest, TargetCheck,
};
use prony_fleet::names::AGENTS_BUCKET;
use prony_fleet::permissions::Role;
use prony_fleet::wire::{Command, Reply};
use prony_record::{Delta, Finding, FindingId, Outcome, Record, Severity};

use crate::harness::TestCoordinator;
use crate::nats_server::{TestServer, agent};
use crate::scripted_agent::{AgentScript, ScriptedAgent};

pub(crate) fn fleet(nats: &TestServer) -> Fleet {
    let credentials = nats.credentials(&Role::Coordinator);
    Fleet::connect(None, &credentials).unwrap()
}

/// Starts a server with scripted agents.
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
        // The bound is large because agents may start late on a busy machine.
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

/// Length of the warm-up, in seconds, for loads with a warm-up.
pub(crate) const WARMUP_S: f64 = 2.0;

/// Returns all results of a scripted agent, including the requests that are in flight at the end.
pub(crate) fn whole(script: &AgentScript) -> Delta {
    let mut whole = Delta::default();
    script.deltas.iter().for_each(|delta| whole.merge(delta));
    let count = script.deltas.len() as u64;
    whole.outcomes.add_many(Outcome::Unfinished, count);
    whole
}

/// Returns the IDs of a record's findings.
pub(crate) fn found(record: &Record) -> Vec<&str> {
    record.findings.iter().map(|it| it.id.as_str()).collect()
}

pub(crate) fn same_counts(record: &Record, all: &Delta) {
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
        findings: vec![Finding::stored(
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
    // The server still stores the run, and collecting it gives the same record.
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

    // This simulates a run without stored results whose agent was disconnected until now.
    manifest.run = "later".parse().unwrap();
    registration.sending.insert(manifest.run.clone());
    let link = nats.link(&agent(name.as_str()));
    let store = |subject: &str, json| link.store(subject, None, json).unwrap();
    let json = serde_json::to_vec(&registration).unwrap();
    store(&format!("$KV.{AGENTS_BUCKET}.{name}"), json);
    let collected = std::thread::scope(|scope| {
        scope.spawn(|| {
            // This pause is longer than the collector waits for missing messages.
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
    // Later commands report that nothing was measured.
    let run = fleet.run(None).unwrap();
    let stop = StopRequest::new();
    let error = fleet.collect(&run, watching(&stop)).unwrap_err();
    assert!(error.to_string().contains("never started"), "{error}");

    // The default run is the newest one with results, even if a newer run has none.
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
        error.contains("too few free agents: 3 requested, 2 free"),
        "{error}"
    );
}

/// Returns the script of an agent whose load takes several seconds.
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
