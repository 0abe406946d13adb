//! False claims from agents with stolen keys.

use prony_fleet::coordinator::LoadRequest;
use prony_fleet::host::Roster;
use prony_fleet::names::AGENTS_BUCKET;
use prony_fleet::permissions::Role;
use prony_fleet::wire::Registration;
use prony_record::{Finding, FindingId, LoadInfo, Severity};

use crate::coordinator::{found, load, wanted, with_agents};
use crate::harness::TestCoordinator;
use crate::nats_server::agent;
use crate::scripted_agent::{AgentScript, ready_for};

#[test]
fn the_record_describes_the_ordered_load_not_an_agents_claim() {
    let script = |warmup_s, duration_s, rate_per_s| AgentScript {
        reply: Some(ready_for(LoadInfo {
            warmup_s,
            duration_s,
            rate_per_s,
            url: "http://forged.example/".to_owned(),
            tls: Some("unverified".to_owned()),
            io: "\x1b[2J".to_owned(),
            threads: u32::MAX,
            sources: u64::MAX,
            urls: u32::MAX,
            ..LoadInfo::default()
        })),
        ..AgentScript::default()
    };
    let scripts = [
        ("a", script(-1.0, None, None)),
        ("b", script(1e300, None, None)),
        ("c", script(0.0, Some(1.8e19), Some(-1.0))),
        ("honest", AgentScript::default()),
    ];
    let (_nats, fleet, _agents) = with_agents(&scripts);
    for name in ["a", "b", "c"] {
        let wanted = LoadRequest {
            choice: format!("{name},honest").parse().unwrap(),
            ..wanted(&["--duration", "7s", "--connections=9"])
        };
        let load = load(&fleet, &wanted).unwrap().record.load;
        assert_eq!(
            (load.connections, load.duration_s),
            (9, Some(7.0)),
            "{name}"
        );
        assert_eq!((load.warmup_s, load.rate_per_s), (0.0, None), "{name}");
        assert_eq!((load.url.as_str(), load.tls), ("http://127.0.0.1:9/", None));
        assert_eq!((load.threads, load.sources, load.urls), (4, 0, 1));
        // The backend comes from the report of the honest agent.
        assert_eq!(load.io, "poll");
    }
}

#[test]
fn registrations_are_named_by_their_keys_alone() {
    let (nats, fleet, agents) =
        with_agents(&[("a", AgentScript::default()), ("b", AgentScript::default())]);
    // An attacker with the key of agent a claims that agent b is busy and on another machine.
    let coordinator = TestCoordinator {
        link: nats.link(&Role::Coordinator),
    };
    let name = "a".parse().unwrap();
    let own = coordinator.registered(&name).unwrap();
    let forge = |busy: Option<&str>| {
        let mut json = serde_json::to_value(&own).unwrap();
        json["name"] = "b".into();
        json["instance"] = "forged".into();
        json["busy_with"] = busy.into();
        let link = nats.link(&agent("a"));
        let subject = format!("$KV.{AGENTS_BUCKET}.a");
        link.store(&subject, None, json.to_string()).unwrap();
    };
    forge(Some("r9"));
    let listed = fleet.agents().unwrap();
    let seen = |n: usize| {
        let one: &Registration = &listed[n].agent;
        (
            one.name.as_str(),
            one.instance.as_str(),
            one.busy_with.is_some(),
        )
    };
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (seen(0), seen(1)),
        (("a", "forged", true), ("b", "one", false))
    );
    let roster = Roster::read(&coordinator.link).unwrap();
    assert_eq!(roster.find("b").unwrap().instance, "one");
    // Agent a has no part in the run, so its claim to be busy with the run is ignored.
    load(
        &fleet,
        &LoadRequest {
            choice: "b".parse().unwrap(),
            ..wanted(&[])
        },
    )
    .unwrap();
    let run = fleet.run(None).unwrap().run;
    forge(Some(run.as_str()));
    assert_eq!(fleet.runs().unwrap()[0].busy, 0);

    forge(None);
    let record = load(&fleet, &wanted(&["--requests=1000"])).unwrap().record;
    let parts = record.fleet.as_ref().unwrap();
    let names: Vec<&str> = parts.agents.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    for agent in &agents {
        let last = agent.seen.loads().pop().unwrap();
        assert_eq!(last.shard.part(1000), 500);
    }
    // Both agents sent fewer requests than ordered.
    let partial = &record.findings[0];
    assert_eq!(partial.id, FindingId::Partial);
    let text = "2 of 2 agents did not complete their parts: a accounted for 25 of the 500 requests";
    assert!(partial.text.starts_with(text), "{}", partial.text);
}

#[test]
fn an_agent_without_a_result_makes_the_record_partial() {
    let idle = AgentScript {
        deltas: Vec::new(),
        ..AgentScript::default()
    };
    let (_nats, fleet, _agents) = with_agents(&[("a", AgentScript::default()), ("idle", idle)]);
    let record = load(&fleet, &wanted(&[])).unwrap().record;
    assert_eq!(found(&record), ["partial"]);
    assert_eq!(record.findings[0].severity, Severity::Error);
    let text = &record.findings[0].text;
    assert!(
        text.contains("1 of 2 agents") && text.contains("idle reported no request"),
        "{text}"
    );
}

#[test]
fn an_open_loop_offers_what_its_schedule_holds() {
    let (_nats, fleet, _agents) =
        with_agents(&[("a", AgentScript::default()), ("b", AgentScript::default())]);
    let words = ["--rate=300", "--duration=3s", "--warmup=500ms"];
    let record = load(&fleet, &wanted(&words)).unwrap().record;
    // The offered rate follows from the order, not from the number of requests that agents claim to
    // have started.
    let offered = record.rate.offered_per_s.unwrap() * record.totals.elapsed_s;
    assert!((offered - 900.0).abs() < 1e-6, "{offered}");
    assert_eq!(found(&record), ["partial"]);
}

#[test]
fn absurd_claims_of_an_agent_change_no_figure_of_the_others() {
    let absurd = AgentScript {
        span: Some((0, u64::MAX)),
        findings: vec![
            Finding::stored(FindingId::Errors, Severity::Note, "\x1b[2J"),
            Finding {
                id: "NOT A NAME".to_owned().into(),
                ..Finding::stored(FindingId::Errors, Severity::Note, "x")
            },
        ],
        ..AgentScript::default()
    };
    let (nats, fleet, _agents) = with_agents(&[("a", AgentScript::default()), ("b", absurd)]);
    let record = load(&fleet, &wanted(&[])).unwrap().record;
    // If a claimed measured part of 584 years were accepted, every rate would be 0.
    assert!(record.totals.elapsed_s <= 10.0, "{:?}", record.totals);
    assert_eq!(found(&record), ["partial", "errors"]);
    assert!(record.findings[0].text.contains("1 of 2 agents"));
    let json = record.to_json();
    assert!(!json.contains("\\u001b") && !json.contains("NOT A NAME"));

    // If the claim of four billion cores were accepted, this agent would get the whole load.
    let coordinator = TestCoordinator {
        link: nats.link(&Role::Coordinator),
    };
    let mut claimed = coordinator.registered(&"b".parse().unwrap()).unwrap();
    claimed.cores = u32::MAX;
    let json = serde_json::to_vec(&claimed).unwrap();
    let link = nats.link(&agent("b"));
    link.store(&format!("$KV.{AGENTS_BUCKET}.b"), None, json)
        .unwrap();
    let error = load(&fleet, &wanted(&[])).unwrap_err().to_string();
    assert!(
        error.contains("agent b claims to have 4294967295 cores"),
        "{error}"
    );
}
