//! Tests of agents' clocks: offsets, jumps and late starts.

use std::time::Duration;

use prony_fleet::clock::Clock;
use prony_fleet::coordinator::{FleetError, LoadRequest, StopRequest};
use prony_fleet::wire::{Command, RunManifest};
use prony_record::Severity;

use crate::coordinator::{WARMUP_S, found, load, wanted, watching, with_agents};
use crate::scripted_agent::AgentScript;

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
    // Without a correction, the skew would be an hour.
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
    assert!(
        late.text
            .contains("(--clock-bound) later than ordered: b by 1"),
        "{late:?}"
    );
    assert!(late.text.ends_with("not affected."), "{late:?}");
    let findings = of("a,b,c");
    assert_eq!(findings.len(), 1, "{findings:?}");
    let late = &findings[0];
    assert_eq!(late.severity, Severity::Warning);
    assert!(
        late.text
            .contains("(--clock-bound) later than ordered: c by 2"),
        "{late:?}"
    );
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
        assert!(part.clock_after.take().is_some(), "the offset is stored");
    }
    let expect = |found: Vec<(String, String)>, id: &str, text: &str| {
        assert!(
            found.len() == 1 && found[0].0 == id && found[0].1.contains(text),
            "{found:?}"
        );
    };
    // This simulates a coordinator that died before it compared the clocks again.
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
    // The stored results of the comparison are still used.
    expect(collected(&run), "clock-doubtful", "Agent a: its clock");
}
