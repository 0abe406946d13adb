//! Tests that each finding appears if its cause is present, and only then.

use prony_record::finding::{NegotiationDiffers, NoisyMachine, ServiceKilled};
use prony_record::{
    Finding, FindingId, FleetAgent, FleetUse, HalfSecond, LoadInfo, Record, Severity,
};
use prony_stats::{CoreParties, Factor, Levels, Trials, Values, evaluate};

use super::*;
use crate::runner::TrialTelemetry;
use crate::runner::resource_use::CoreUse;

const NAMES: [&str; 2] = ["tcp", "unix"];

fn name(variant: usize) -> String {
    NAMES[variant].to_owned()
}

/// Returns variant 1, which is the baseline of all others.
fn baseline(_: usize) -> usize {
    1
}

fn record(findings: Vec<Finding>) -> Record {
    let mut record = Record {
        findings,
        ..Record::default()
    };
    (record.totals.elapsed_s, record.totals.ok) = (10.0, 10_000);
    record.load.http = "1.1".to_owned();
    record.negotiated.http = Some("1.1".to_owned());
    record
}

fn trial(block: u32, variant: usize, position: usize, rate: f64) -> TrialResult {
    TrialResult {
        block,
        variant,
        position,
        values: Values::from([(Metric::RatePerS, rate)]),
        telemetry: TrialTelemetry {
            services_percent: 95.0,
            services_cores: 1,
            ..TrialTelemetry::default()
        },
        resources: Default::default(),
        responses: Default::default(),
        hosts: Default::default(),
        findings: Vec::new(),
        slices: Vec::new(),
        search: None,
        functions: std::collections::BTreeMap::new(),
        waits: std::collections::BTreeMap::new(),
        record: Some(record(Vec::new())),
    }
}

/// Returns trials of two variants in `blocks` blocks. The order of the variants alternates.
fn trials(blocks: u32, rate: impl Fn(u32, usize, usize) -> f64) -> Vec<TrialResult> {
    let place = |block: u32, variant: usize| (block as usize + variant) % 2;
    (1..=blocks)
        .flat_map(|block| [0, 1].map(|variant| (block, variant, place(block, variant))))
        .map(|(block, variant, place)| trial(block, variant, place, rate(block, variant, place)))
        .collect()
}

/// Returns slight deterministic noise, different for each trial.
fn noise(block: u32, variant: usize) -> f64 {
    let mixed = (block * 2 + variant as u32).wrapping_mul(2_654_435_761) >> 16;
    1.0 + f64::from(mixed % 1000) / 1e5
}

fn negotiation_differs(results: &[TrialResult]) -> Vec<ExperimentFinding> {
    let protocols = protocols_of(results, 2);
    protocols::findings(&protocols, &baseline, &name, BodyComparison::Same)
}

#[test]
fn a_good_experiment_has_no_findings() {
    let results = trials(6, |block, variant, _| 1000.0 * noise(block, variant));
    assert!(of_loads(&results, 2, &name).is_empty());
    assert!(negotiation_differs(&results).is_empty());
    assert!(machine_changed(&results, 2, &name).is_empty());
    assert_eq!(agents_changed(&results, 2, &name), None);
    assert_eq!(server_idle(&results, 2, &name), None);
    assert_eq!(not_stationary(&results, 2, &name), None);
    assert_eq!(noise::finding(&results, &[]), None);
    assert_eq!(order_effect::finding(&results, 2), None);
    assert_eq!(few_blocks(6), None);
}

#[test]
fn a_finding_has_the_severity_that_it_has_in_half_of_the_trials() {
    let mut results = trials(5, |_, _, _| 1000.0);
    let saturated = || Finding::stored(FindingId::GeneratorSaturated, Severity::Error, "Busy.");
    let of_tcp = |results: &mut Vec<TrialResult>, count: usize| {
        let tcp = results.iter_mut().filter(|result| result.variant == 0);
        tcp.take(count)
            .for_each(|result| result.record = Some(record(vec![saturated()])));
        of_loads(results, 2, &name)
    };
    let few = of_tcp(&mut results, 2);
    assert_eq!(few[0].finding.severity, Severity::Warning);
    assert!(
        few[0]
            .finding
            .text
            .starts_with("tcp, in 2 of 5 trials: Busy.")
    );
    let most = of_tcp(&mut results, 3);
    assert_eq!(
        (most[0].finding.severity, &most[0].variants[..]),
        (Severity::Error, &[0][..])
    );
}

#[test]
fn a_slow_library_is_a_note_if_the_experiment_compares_libraries() {
    let mut results = trials(3, |_, _, _| 1000.0);
    for result in &mut results {
        result.record.as_mut().unwrap().negotiated.tls = Some("1.3".to_owned());
    }
    let slow = |results: &[TrialResult], variants: &[usize]| {
        let mut found: Vec<ExperimentFinding> = variants
            .iter()
            .map(|&variant| ExperimentFinding {
                finding: Finding::stored(
                    FindingId::CryptoUnaccelerated,
                    Severity::Warning,
                    "Slow.",
                ),
                variants: vec![variant],
            })
            .collect();
        note_compared_crypto(&mut found, results, 2);
        found[0].finding.severity
    };
    assert_eq!(slow(&results, &[0]), Severity::Note);
    assert_eq!(slow(&results, &[0, 1]), Severity::Warning);
    for result in results.iter_mut().filter(|result| result.variant == 1) {
        result.record.as_mut().unwrap().negotiated.tls = None;
    }
    assert_eq!(
        slow(&results, &[0]),
        Severity::Warning,
        "the other uses no TLS"
    );
}

#[test]
fn a_load_that_lost_an_agent_once_is_an_error() {
    let mut results = trials(5, |_, _, _| 1000.0);
    let partial = Finding::stored(FindingId::Partial, Severity::Error, "Half of it.");
    results[2].record = Some(record(vec![partial]));
    let found = of_loads(&results, 2, &name);
    assert_eq!(found[0].finding.severity, Severity::Error);
    assert_eq!(found[0].variants, [results[2].variant]);
}

#[test]
fn trials_on_different_machines_are_distinguished() {
    let mut results = trials(3, |_, _, _| 1000.0);
    let made_by = |result: &mut TrialResult, agents: &[&str]| {
        let agents = agents.iter().map(|name| FleetAgent {
            name: (*name).to_owned(),
            ..FleetAgent::default()
        });
        let fleet = FleetUse {
            agents: agents.collect(),
            ..FleetUse::default()
        };
        result.record.as_mut().unwrap().fleet = Some(fleet);
    };
    for result in &mut results {
        let host = format!("server-{}", result.variant);
        result.hosts.insert("web".to_owned(), host);
        made_by(result, &["a", "b"]);
    }
    assert!(machine_changed(&results, 2, &name).is_empty());
    assert_eq!(agents_changed(&results, 2, &name), None);

    let last = results.last_mut().unwrap();
    last.hosts.insert("web".to_owned(), "another".to_owned());
    made_by(last, &["b", "c"]);
    let variant = last.variant;
    let found = machine_changed(&results, 2, &name);
    assert_eq!((found.len(), &found[0].variants), (1, &vec![variant]));
    let text = &found[0].finding.text;
    assert!(text.contains("on another and server-"), "{text}");
    assert_eq!(found[0].finding.severity, Severity::Error);
    let found = agents_changed(&results, 2, &name).unwrap();
    assert_eq!(found.variants, [variant]);
    let text = found.finding.text;
    assert!(
        text.contains("by a, b in one trial and by b, c in another"),
        "{text}"
    );
}

#[test]
fn service_events_are_reported_once_per_variant_and_service() {
    let mut results = trials(3, |_, _, _| 1000.0);
    for result in results.iter_mut().filter(|result| result.variant == 0) {
        let killed = |service: &str| {
            let subject = Subject::Service(service.to_owned());
            Finding::about(subject, Severity::Note, &ServiceKilled { took_s: 10.0 })
        };
        result.findings = vec![killed("web"), killed("app")];
    }
    let found = services(&results, &name);
    let trials = &results[found[0].variants[0]].findings;
    assert_eq!(found.len(), 2);
    for (found, of_trial) in found.iter().zip(trials) {
        let text = format!("tcp, block 1: {}", of_trial.text);
        let expected = Finding {
            text,
            ..of_trial.clone()
        };
        assert_eq!((&found.finding, &found.variants), (&expected, &vec![0]));
    }
}

#[test]
fn the_same_finding_of_several_variants_is_reported_once() {
    let mut results = trials(3, |_, _, _| 1000.0);
    let starved = Finding::stored(FindingId::GeneratorStarved, Severity::Warning, "No core.");
    results
        .iter_mut()
        .for_each(|result| result.record = Some(record(vec![starved.clone()])));
    let found = of_loads(&results, 2, &name);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].finding.text,
        "tcp; unix, in 6 of 6 trials: No core."
    );
    assert_eq!(found[0].variants, [0, 1]);
}

#[test]
fn negotiated_protocols_are_compared_for_equal_settings() {
    let mut results = trials(3, |_, _, _| 1000.0);
    let first = results
        .iter_mut()
        .find(|result| result.variant == 0)
        .unwrap();
    let of_first = first.record.as_mut().unwrap();
    of_first.negotiated.http = Some("1.0".to_owned());
    let found = negotiation_differs(&results);
    assert_eq!(found.len(), 1);
    let differs: NegotiationDiffers = found[0].finding.figures().unwrap();
    let versions: Vec<_> = differs
        .negotiated
        .iter()
        .map(|by| by.negotiated.http.as_deref())
        .collect();
    assert_eq!(versions, [Some("1.0"), Some("1.1")]);

    let first = results
        .iter_mut()
        .find(|result| result.variant == 0)
        .unwrap();
    let of_first = first.record.as_mut().unwrap();
    of_first.load = LoadInfo {
        http: "1.0".to_owned(),
        ..of_first.load.clone()
    };
    assert!(
        negotiation_differs(&results).is_empty(),
        "varied on purpose"
    );
}

#[test]
fn a_varied_factor_does_not_excuse_other_differences() {
    let mut results = trials(3, |_, _, _| 1000.0);
    for result in &mut results {
        let h2 = result.variant == 0;
        let record = result.record.as_mut().unwrap();
        record.load.http = if h2 { "2" } else { "1.1" }.to_owned();
        record.load.tls = Some("TLS 1.2 to 1.3".to_owned());
        record.negotiated.http = Some(record.load.http.clone());
        record.negotiated.alpn = Some(if h2 { "h2" } else { "http/1.1" }.to_owned());
        record.negotiated.cipher = Some("TLS_AES_256_GCM_SHA384".to_owned());
    }
    assert!(negotiation_differs(&results).is_empty());
    let first = results.iter_mut().find(|result| result.variant == 0);
    let of_first = first.unwrap().record.as_mut().unwrap();
    of_first.negotiated.cipher = Some("TLS_CHACHA20_POLY1305_SHA256".to_owned());
    let found = negotiation_differs(&results);
    assert_eq!(found.len(), 1, "the cipher is not what was varied");
    let differs: NegotiationDiffers = found[0].finding.figures().unwrap();
    let cipher = differs.negotiated[0].negotiated.cipher.as_deref();
    assert_eq!(cipher, Some("TLS_CHACHA20_POLY1305_SHA256"));
}

#[test]
fn an_idle_server_is_noticed_in_a_closed_loop_only() {
    let mut results = trials(3, |_, _, _| 1000.0);
    for result in results.iter_mut().filter(|result| result.variant == 1) {
        result.telemetry.services_percent = 40.0;
    }
    let found = server_idle(&results, 2, &name).unwrap();
    assert_eq!(found.variants, [1]);
    let idle: ServerIdle = found.finding.figures().unwrap();
    let used = VariantShare {
        variant: "unix".to_owned(),
        share: 0.4,
    };
    assert_eq!(idle.used, [used]);
    results
        .iter_mut()
        .for_each(|result| result.telemetry.foreign_percent = 60.0);
    let crowded = server_idle(&results, 2, &name);
    assert_eq!(crowded, None, "they were not let run");
    results
        .iter_mut()
        .for_each(|result| result.telemetry.foreign_percent = 0.0);
    let with = |change: fn(&mut Record)| {
        let mut results = results.clone();
        let records = results
            .iter_mut()
            .filter_map(|result| result.record.as_mut());
        records.for_each(change);
        server_idle(&results, 2, &name)
    };
    assert!(with(|_| {}).is_some());
    assert_eq!(with(|record| record.load.rate_per_s = Some(100.0)), None);
    assert_eq!(with(|record| record.totals.elapsed_s = 0.003), None);
}

#[test]
fn idle_services_are_no_finding_if_any_cores_are_full() {
    let mut results = trials(3, |_, _, _| 1000.0);
    let group = |service: &str, percent: f64, others: f64| CoreUse {
        services: vec![service.to_owned()],
        cores: 1,
        percent,
        parties: Some(CoreParties {
            cores: 1,
            services: percent,
            others,
            idle: 100.0 - percent - others,
            ..CoreParties::default()
        }),
        ..CoreUse::default()
    };
    let with = |results: &mut Vec<TrialResult>, balancer: (f64, f64)| {
        for result in results.iter_mut() {
            (
                result.telemetry.services_cores,
                result.telemetry.services_percent,
            ) = (2, 98.0);
            result.resources.machine_cores = 4;
            result.resources.idle_percent = 250.0;
            let (used, others) = balancer;
            result.resources.tied = vec![group("balancer", used, others), group("web", 4.0, 0.0)];
        }
        server_idle(results, 2, &name)
    };
    assert_eq!(
        with(&mut results, (94.0, 0.0)),
        None,
        "the balancer's core is full"
    );
    assert_eq!(
        with(&mut results, (50.0, 45.0)),
        None,
        "the balancer's core is full, including other processes"
    );
    assert!(with(&mut results, (50.0, 0.0)).is_some());
}

#[test]
fn a_trial_that_speeds_up_has_not_settled() {
    let mut results = trials(3, |_, _, _| 1000.0);
    for record in results
        .iter_mut()
        .filter_map(|result| result.record.as_mut())
    {
        let slice = |n: u64| HalfSecond {
            t_s: n as f64 / 2.0,
            ok: 100 + 10 * n,
            failed: 0,
            bytes_in: 0,
            ..HalfSecond::default()
        };
        record.series = (1..=10).map(slice).collect();
    }
    let found = not_stationary(&results, 2, &name).unwrap();
    assert_eq!(found.variants, [0, 1], "said once");
    let text = &found.finding.text;
    assert!(
        text.contains("first third: tcp 50% faster; unix 50% faster. "),
        "{text}"
    );
}

#[test]
fn foreign_processes_are_named() {
    let mut results = trials(3, |_, _, _| 1000.0);
    results[0].telemetry.foreign_percent = 60.0;
    results[0].telemetry.top_foreign = Some("cron".to_owned());
    let found = noise::finding(&results, &[]).unwrap().finding;
    assert_eq!(found.severity, Severity::Note);
    let noisy: NoisyMachine = found.figures().unwrap();
    assert_eq!((noisy.disturbed, noisy.all), (1, 6));
    assert_eq!(noisy.mostly.as_deref(), Some("cron"));
    results
        .iter_mut()
        .for_each(|result| result.telemetry.steal_percent = 6.0);
    assert_eq!(
        noise::finding(&results, &[]).unwrap().finding.severity,
        Severity::Warning
    );
}

#[test]
fn few_blocks_are_reported() {
    assert_eq!(few_blocks(4).unwrap().finding.severity, Severity::Note);
    assert_eq!(few_blocks(2).unwrap().finding.severity, Severity::Warning);
    let none: FewBlocks = few_blocks(0).unwrap().finding.figures().unwrap();
    assert_eq!(none.blocks, 0);
}

fn design() -> Design {
    let levels = |level: &str| Levels::from([("socket".to_owned(), level.to_owned())]);
    Design {
        factors: vec![Factor {
            name: "socket".to_owned(),
            levels: NAMES.map(str::to_owned).to_vec(),
        }],
        variants: NAMES.map(levels).to_vec(),
        baseline: levels("unix"),
        margin: 0.02,
        family: vec![Metric::RatePerS, Metric::ServerCpuUsPerRequest],
        blocks_min: 6,
        blocks_max: 6,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

/// Returns the verdicts on rate and CPU if tcp has `ratio` times the rate of unix and a finding
/// concerns `variant`.
fn verdicts(ratio: f64, id: FindingId, variant: usize) -> [Verdict; 2] {
    let mut observed = Trials::new();
    for block in 1..=6 {
        for (variant, factor) in [(0, ratio), (1, 1.0)] {
            let rate = 1000.0 * factor * noise(block, variant);
            let values = [
                (Metric::RatePerS, rate),
                (Metric::ServerCpuUsPerRequest, 1e6 / rate),
            ];
            observed.add(block, variant, values.into());
        }
    }
    let design = design();
    let mut evaluation = evaluate(&design, &observed, &[]).unwrap();
    let finding = Finding::stored(id, Severity::Error, "Text.");
    withhold(
        &mut evaluation,
        &design,
        &[ExperimentFinding {
            finding,
            variants: vec![variant],
        }],
    );
    [0, 1].map(|place| evaluation.comparisons[place].verdict)
}

#[test]
fn a_saturated_generator_withholds_only_distorted_metrics() {
    use Verdict::{Equivalent, Slower, Withheld};
    // The server's CPU per request doesn't depend on the rate.
    assert_eq!(
        verdicts(1.0, FindingId::GeneratorSaturated, 1),
        [Withheld, Equivalent]
    );
    // The generator limited the faster variant, unix, so tcp is slower in any case.
    assert_eq!(
        verdicts(0.8, FindingId::GeneratorSaturated, 1),
        [Slower, Slower]
    );
    // The generator limited the slower variant, so the generator may be the cause.
    assert_eq!(
        verdicts(0.8, FindingId::GeneratorSaturated, 0),
        [Withheld, Slower]
    );
}

#[test]
fn a_stalled_generator_in_one_of_many_trials_withholds_rate_and_times() {
    use Verdict::{Slower, Withheld};
    assert_eq!(
        verdicts(0.8, FindingId::GeneratorStalled, 0),
        [Withheld, Slower]
    );
    assert_eq!(
        verdicts(0.8, FindingId::AgentStalled, 1),
        [Withheld, Slower]
    );
    let stalled = Finding::stored(FindingId::GeneratorStalled, Severity::Error, "It stalled.");
    let mut results: Vec<TrialResult> = (0..5).map(|block| trial(block, 0, 0, 1000.0)).collect();
    results[3].record = Some(record(vec![stalled]));
    let found = of_loads(&results, 1, &|_| "unix".to_owned());
    assert_eq!(found[0].finding.severity, Severity::Error);
    assert!(
        found[0]
            .finding
            .text
            .starts_with("unix, in 1 of 5 trials: ")
    );
}

#[test]
fn other_errors_withhold_every_verdict_of_their_variant() {
    use Verdict::Withheld;
    assert_eq!(
        verdicts(0.8, FindingId::BytesDiffer, 0),
        [Withheld, Withheld]
    );
    assert_eq!(verdicts(0.8, FindingId::Errors, 1), [Withheld, Withheld]);
}
