//! Tests of explanations with simulated differences, whose causes are known.

use prony_record::{Finding, FindingId, Record, Severity, Throttling};
use prony_stats::{
    BottleneckKind, CoreParties, Factor, Levels, Neighbor, Trials, Values, WithheldBecause,
    evaluate,
};

use super::*;
use crate::runner::resource_use::{CoreUse, ResourceUse};
use crate::runner::service_cpu::evaluations;
use crate::runner::{ServiceUse, TrialResult};

const BLOCKS: u32 = 6;
/// Indexes of the variants in the design.
const TCP: usize = 0;
const UNIX: usize = 1;

fn design(family: &[Metric]) -> Design {
    let levels = |level: &str| Levels::from_iter([("socket".to_owned(), level.to_owned())]);
    Design {
        factors: vec![Factor {
            name: "socket".to_owned(),
            levels: vec!["tcp".to_owned(), "unix".to_owned()],
        }],
        variants: vec![levels("tcp"), levels("unix")],
        baseline: levels("unix"),
        margin: 0.02,
        family: family.to_vec(),
        blocks_min: BLOCKS,
        blocks_max: BLOCKS,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

/// Returns a value with deterministic noise of about ±1%, different in each block and trial.
fn around(value: f64, block: u32, salt: u32) -> f64 {
    let step = (block * 7 + salt * 5) % 11;
    value * (1.0 + (f64::from(step) - 5.0) / 500.0)
}

/// Explains an experiment in which TCP has the first value of each metric and UNIX the second.
fn why(family: &[Metric], metrics: &[(Metric, f64, f64)]) -> Vec<Explanation> {
    told_of(family, metrics, &|_, _| {}, &[])
}

fn told_of(
    family: &[Metric],
    metrics: &[(Metric, f64, f64)],
    watched: &dyn Fn(usize, &mut TrialResult),
    findings: &[FindingOfVariants<'_>],
) -> Vec<Explanation> {
    let design = design(family);
    let mut trials = Trials::new();
    let mut results = Vec::new();
    for block in 1..=BLOCKS {
        for variant in [TCP, UNIX] {
            let values = metrics
                .iter()
                .enumerate()
                .map(|(salt, &(metric, tcp, unix))| {
                    let value = if variant == TCP { tcp } else { unix };
                    let salt = salt as u32 * 2 + variant as u32;
                    (metric, around(value, block, salt))
                });
            let values = Values::from_iter(values);
            trials.add(block, variant, values.clone());
            let mut result = TrialResult {
                block,
                variant,
                position: variant,
                values,
                telemetry: Default::default(),
                resources: Default::default(),
                responses: Default::default(),
                hosts: Default::default(),
                findings: Vec::new(),
                slices: Vec::new(),
                search: None,
                functions: std::collections::BTreeMap::new(),
                waits: std::collections::BTreeMap::new(),
                record: Some(Record::default()),
            };
            watched(variant, &mut result);
            results.push(result);
        }
    }
    let mut evaluation = evaluate(&design, &trials, &[]).unwrap();
    let is_error = |(finding, _): &FindingOfVariants<'_>| finding.severity == Severity::Error;
    if findings.iter().any(is_error) {
        evaluation.withhold(|_| true, &WithheldBecause::Noise);
    }
    let services = evaluations(&design, &evaluation, &results);
    explanations(&design, &evaluation, &results, findings, costs(&services))
}

fn parts(why: &Explanation) -> Vec<(Metric, MovementRole)> {
    why.moved.iter().map(|m| (m.metric, m.part)).collect()
}

const RATE: [Metric; 1] = [Metric::RatePerS];

#[test]
fn a_withheld_difference_is_described_as_such() {
    let error = Finding::stored(FindingId::BytesDiffer, Severity::Error, "made up");
    let findings: [FindingOfVariants<'_>; 1] = [(&error, &[TCP])];
    let of = |tcp_per_s| {
        let metrics = [
            (Metric::RatePerS, tcp_per_s, 1_000.0),
            (Metric::ServerCpuUsPerRequest, 1_310.0, 1_000.0),
        ];
        told_of(&RATE, &metrics, &|_, _| {}, &findings).remove(0)
    };
    let slower = of(750.0);
    let mark = "The verdict is withheld; this describes what was measured. ";
    assert!(slower.text.starts_with(mark), "{}", slower.text);
    assert!(
        slower
            .text
            .contains("The largest change that could explain it: ")
    );
    assert_eq!(
        parts(&slower),
        [(Metric::ServerCpuUsPerRequest, MovementRole::With)]
    );
    assert!(slower.rate_parts.is_some());
    let equal = of(1_000.0);
    assert!(equal.text.starts_with(mark), "{}", equal.text);
    assert!(!equal.text.contains("established"), "{}", equal.text);
    assert!(equal.rate_parts.is_none());
}

#[test]
fn explanations_are_ordered_by_certain_cost_and_counter_evidence_is_last() {
    let all = why(
        &RATE,
        &[
            (Metric::RatePerS, 750.0, 1_000.0),
            (Metric::ServerCpuUsPerRequest, 1_310.0, 1_000.0),
            (Metric::ServerCpuUserUsPerRequest, 600.0, 600.0),
            (Metric::ServerCpuSystemUsPerRequest, 710.0, 400.0),
            (Metric::ContextSwitchesPerRequest, 0.5, 1.0),
            (Metric::ServerMemoryBytes, 9e6, 1e6),
            (Metric::ConnectionsPerRequest, 1.0, 0.001),
        ],
    );
    assert_eq!(all.len(), 1);
    let why = &all[0];
    assert_eq!(
        parts(why),
        [
            (Metric::ConnectionsPerRequest, MovementRole::With),
            (Metric::ServerCpuSystemUsPerRequest, MovementRole::With),
            (Metric::ServerCpuUsPerRequest, MovementRole::With),
            (Metric::ServerMemoryBytes, MovementRole::Aside),
            (Metric::ContextSwitchesPerRequest, MovementRole::Against),
        ]
    );
    assert_eq!(
        (why.name.as_str(), why.against_name.as_str()),
        ("tcp", "unix")
    );
    assert_eq!(why.metrics, RATE);
    assert!(
        why.text
            .starts_with("The largest change that could explain it: "),
        "{}",
        why.text
    );
    assert!(
        why.text.contains("would change the rate by −23.7%"),
        "{}",
        why.text
    );
    let moved = &why.moved[1];
    assert!((moved.value / moved.against_value - moved.effect.ratio.unwrap()).abs() < 1e-9);
    assert!(
        moved.text.starts_with("system CPU per request: +7"),
        "{}",
        moved.text
    );
}

/// Returns the explanation of a rate and a CPU time per request that change by these ratios.
fn costs(services: &ServiceEvaluations) -> CostEvaluations<'_> {
    CostEvaluations {
        services,
        functions: &[],
        waits: &[],
    }
}

fn parts_of(rate: f64, cpu: f64, more: &[(Metric, f64, f64)]) -> Explanation {
    let mut metrics = vec![
        (Metric::RatePerS, 1_000.0 * rate, 1_000.0),
        (Metric::ServerCpuUsPerRequest, 500.0 * cpu, 500.0),
    ];
    metrics.extend(more);
    why(&RATE, &metrics).remove(0)
}

#[test]
fn the_part_that_cpu_per_request_explains_and_the_rest_multiply_to_the_whole() {
    let slower = parts_of(0.32, 1.54, &[]);
    let parts = slower.rate_parts.as_ref().unwrap();
    let explained = parts.explained.as_ref().unwrap().ratio.unwrap();
    let rest = parts.unexplained.ratio.unwrap();
    assert!((explained * rest - parts.rate).abs() < 1e-9);
    assert!((parts.rate - 0.32).abs() < 0.01 && (explained - 0.65).abs() < 0.01);
    let text = &slower.text;
    assert!(text.contains("would change the rate by −35"), "{text}");
    assert!(
        text.contains("the parts multiply (0.65 × 0.50 = 0.32)"),
        "{text}"
    );
    let end = "Nothing that was measured explains the rest.";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn the_rate_is_printed_as_in_its_verdict() {
    // The upper end of the interval is above +100%, so the change is printed as a factor.
    let text = parts_of(1.99, 1.0 / 1.99, &[]).text;
    let (_, rate) = text.split_once("The rate changed by ").unwrap();
    let (rate, _) = rate.split_once(". ").unwrap();
    assert!(rate.ends_with(" ×"), "{text}");
}

#[test]
fn a_rest_within_the_noise_is_not_established() {
    let all = parts_of(0.65, 1.0 / 0.65, &[]);
    assert!(!all.rate_parts.as_ref().unwrap().is_rest_established);
    assert!(
        all.text.contains("No other part is established"),
        "{}",
        all.text
    );
}

#[test]
fn other_observations_may_explain_the_rest() {
    let connections = [(Metric::ConnectionsPerRequest, 1.0, 0.001)];
    let text = parts_of(0.32, 1.54, &connections).text;
    let end = "How much of the rest the other observations explain is not known.";
    assert!(text.ends_with(end), "{text}");
    // The CPU time per request is the same, so all of the difference is the rest.
    let all = parts_of(0.32, 1.0, &connections);
    let parts = all.rate_parts.as_ref().unwrap();
    assert_eq!(
        (&parts.explained, parts.unexplained.ratio),
        (&None, Some(parts.rate))
    );
    assert!(
        all.text.contains("these observations explain is not known"),
        "{}",
        all.text
    );
    let nothing = parts_of(0.32, 1.0, &[]).text;
    let end = "Nothing that was measured explains any of the change in the rate (−67.9%).";
    assert!(nothing.ends_with(end), "{nothing}");
}

#[test]
fn cpu_that_points_the_other_way_leaves_a_larger_rest() {
    let text = parts_of(0.5, 0.5, &[]).text;
    assert!(
        text.contains("the parts multiply (2.0 × 0.25 = 0.50)"),
        "{text}"
    );
}

#[test]
fn the_service_whose_cpu_changed_is_named() {
    let metrics = [
        (Metric::RatePerS, 600.0, 1_000.0),
        (Metric::ServerCpuUsPerRequest, 900.0, 600.0),
    ];
    let watched = |variant: usize, result: &mut TrialResult| {
        let all_us = result.values[&Metric::ServerCpuUsPerRequest];
        let proxy_us = 100.0;
        for (service, us) in [("proxy", proxy_us), ("app", all_us - proxy_us)] {
            let used = ServiceUse {
                cpu_us_per_request: Some(around(us, result.block, variant as u32)),
                ..ServiceUse::default()
            };
            result.telemetry.services.insert(service.to_owned(), used);
        }
    };
    let why = told_of(&RATE, &metrics, &watched, &[]).remove(0);
    let services = why.moved.iter().filter_map(|it| it.service.as_deref());
    assert_eq!(services.collect::<Vec<_>>(), ["app"]);
    let app = why.moved.iter().find(|it| it.service.is_some()).unwrap();
    assert_eq!(app.part, MovementRole::With);
    let begin = "CPU per request of service app: +6";
    assert!(app.text.starts_with(begin), "{}", app.text);
}

#[test]
fn a_quota_that_stops_a_service_is_the_limit() {
    let metrics = [(Metric::RatePerS, 500.0, 1_000.0)];
    let watched = |variant: usize, result: &mut TrialResult| {
        let throttling = Throttling {
            quota_cores: 0.5,
            periods: 50,
            throttled_periods: if variant == TCP { 40 } else { 0 },
            throttled_s: 1.0,
        };
        let used = ServiceUse {
            throttling: Some(throttling),
            ..ServiceUse::default()
        };
        result.telemetry.services.insert("web".to_owned(), used);
    };
    let why = told_of(&RATE, &metrics, &watched, &[]).remove(0);
    assert_eq!(
        why.limits[0].text,
        "tcp: service web was throttled in 80% of the periods of its CPU quota (240 of 300; 0.50 cores)."
    );
    assert_eq!(why.limits[1].kind, BottleneckKind::Unknown);
}

#[test]
fn a_faster_variants_savings_support_it() {
    let all = why(
        &RATE,
        &[
            (Metric::RatePerS, 1_500.0, 1_000.0),
            (Metric::ServerCpuUsPerRequest, 700.0, 1_000.0),
            (Metric::TlsResumedShare, 0.9, 0.0),
        ],
    );
    assert_eq!(
        parts(&all[0]),
        [
            (Metric::TlsResumedShare, MovementRole::With),
            (Metric::ServerCpuUsPerRequest, MovementRole::With),
        ]
    );
}

#[test]
fn equivalent_variants_are_not_explained() {
    let same = [
        (Metric::RatePerS, 1_000.0, 1_000.0),
        (Metric::ServerMemoryBytes, 9e6, 1e6),
    ];
    assert_eq!(why(&RATE, &same), Vec::new());
}

#[test]
fn metrics_with_opposite_directions_are_distinguished() {
    let family = [Metric::RatePerS, Metric::P99Us, Metric::P50Us];
    let all = why(
        &family,
        &[
            (Metric::RatePerS, 1_500.0, 1_000.0),
            (Metric::P50Us, 100.0, 150.0),
            (Metric::P99Us, 900.0, 300.0),
            (Metric::ServerCpuUsPerRequest, 700.0, 1_000.0),
        ],
    );
    let metrics: Vec<&[Metric]> = all.iter().map(|why| why.metrics.as_slice()).collect();
    let faster: &[Metric] = &[Metric::RatePerS, Metric::P50Us];
    assert_eq!(metrics, [faster, &[Metric::P99Us]]);
    assert_eq!(parts(&all[0])[0].1, MovementRole::With);
    assert_eq!(parts(&all[1])[0].1, MovementRole::Against);
    assert!(
        all[1].text.starts_with("No measured change could explain"),
        "{}",
        all[1].text
    );
}

#[test]
fn noise_is_called_noise_in_one_line() {
    let design = design(&RATE);
    let mut trials = Trials::new();
    for block in 1..=BLOCKS {
        for variant in [TCP, UNIX] {
            let wild = if (block + variant as u32).is_multiple_of(2) {
                3.0
            } else {
                1.0
            };
            let rate = if variant == TCP { 500.0 } else { 1_000.0 };
            let values = Values::from([
                (Metric::RatePerS, around(rate, block, variant as u32)),
                (Metric::ServerCpuUsPerRequest, wild),
            ]);
            trials.add(block, variant, values);
        }
    }
    let evaluation = evaluate(&design, &trials, &[]).unwrap();
    let all = explanations(&design, &evaluation, &[], &[], costs(&Default::default()));
    assert_eq!(all[0].moved, []);
    assert_eq!(all[0].unclear, [Metric::ServerCpuUsPerRequest]);
    assert_eq!(
        all[0].text,
        "The other measurements are too noisy to show what else changed."
    );
}

#[test]
fn a_certain_change_within_the_margin_is_equivalent() {
    let design = design(&RATE);
    let mut trials = Trials::new();
    for block in 1..=BLOCKS {
        for (variant, rate, bytes) in [(TCP, 500.0, 1_001.0), (UNIX, 1_000.0, 1_000.0)] {
            let rate = around(rate, block, variant as u32);
            let values = [(Metric::RatePerS, rate), (Metric::BytesInPerRequest, bytes)];
            trials.add(block, variant, Values::from(values));
        }
    }
    let evaluation = evaluate(&design, &trials, &[]).unwrap();
    let all = explanations(&design, &evaluation, &[], &[], costs(&Default::default()));
    assert_eq!(all[0].moved, []);
    assert_eq!(all[0].same, [Metric::BytesInPerRequest]);
    assert_eq!(
        all[0].text,
        "No other measured metric changed. Nothing that was measured explains any of the change in \
         the rate (−49.8%)."
    );
}

#[test]
fn a_finding_of_one_side_is_named_and_one_of_both_is_not() {
    let crypto = Finding::stored(FindingId::CryptoUnaccelerated, Severity::Warning, "slow");
    let noisy = Finding::stored(FindingId::NoisyMachine, Severity::Warning, "noise");
    let errors = Finding::stored(FindingId::Errors, Severity::Note, "some failed");
    // Both variants have this finding, each with its own figures.
    let delayed = ["40 ms", "44 ms"]
        .map(|text| Finding::stored(FindingId::DelayedAcks, Severity::Warning, text));
    let found: [FindingOfVariants<'_>; 5] = [
        (&crypto, &[TCP]),
        (&noisy, &[TCP]),
        (&errors, &[TCP, UNIX]),
        (&delayed[0], &[TCP]),
        (&delayed[1], &[UNIX]),
    ];
    let metrics = [
        (Metric::RatePerS, 200.0, 1_000.0),
        (Metric::ServerCpuUserUsPerRequest, 5_000.0, 1_000.0),
    ];
    let why = &told_of(&RATE, &metrics, &|_, _| {}, &found)[0];
    assert_eq!(why.findings.len(), 1);
    let end = "Only tcp has the finding crypto-unaccelerated.";
    assert!(why.text.ends_with(end), "{}", why.text);
}

#[test]
fn without_a_difference_only_cpu_that_changed_beyond_doubt_has_an_entry() {
    let design = design(&RATE);
    // The rates vary by a third, so the verdict on them is undecided.
    let of_cpu = |tcp_us: f64| {
        let mut trials = Trials::new();
        for block in 1..=BLOCKS {
            for variant in [TCP, UNIX] {
                let rate = if (block as usize + variant).is_multiple_of(2) {
                    700.0
                } else {
                    1_300.0
                };
                let cpu_us = if variant == TCP { tcp_us } else { 10.0 };
                let values = Values::from([
                    (Metric::RatePerS, rate),
                    (
                        Metric::ServerCpuUsPerRequest,
                        around(cpu_us, block, variant as u32),
                    ),
                    (
                        Metric::ConnectionsPerRequest,
                        if variant == TCP { 1.0 } else { 0.0 },
                    ),
                ]);
                trials.add(block, variant, values);
            }
        }
        let evaluation = evaluate(&design, &trials, &[]).unwrap();
        assert_eq!(evaluation.comparisons[0].verdict, Verdict::Undecided);
        explanations(&design, &evaluation, &[], &[], costs(&Default::default()))
    };
    assert_eq!(of_cpu(10.0), []);
    let all = of_cpu(14.0);
    let text = &all[0].text;
    let begin = "The request rate can't be distinguished on this machine, but tcp needs 4";
    assert!(text.starts_with(begin), "{text}");
    assert!(
        text.contains("% more server CPU per request than unix (95% interval "),
        "{text}"
    );
    let end = "which is where a difference would come from.";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn limits_are_the_exhausted_resources() {
    let metrics = [(Metric::RatePerS, 500.0, 1_000.0)];
    let watched = |variant: usize, result: &mut TrialResult| {
        result.telemetry.services_cores = 2;
        result.resources = ResourceUse {
            machine_cores: 4,
            idle_percent: 150.0,
            tied: [("balancer", 1, 97.0), ("web", 1, 40.0)]
                .map(|(name, cores, percent)| CoreUse {
                    services: vec![name.to_owned()],
                    cores,
                    percent: if variant == TCP {
                        percent
                    } else {
                        percent / 2.0
                    },
                    ..CoreUse::default()
                })
                .into(),
            ..ResourceUse::default()
        };
    };
    let why = &told_of(&RATE, &metrics, &watched, &[])[0];
    let [tcp, unix] = why.limits.as_slice() else {
        panic!("{:?}", why.limits);
    };
    assert_eq!(
        (tcp.kind, unix.kind),
        (BottleneckKind::ServerCores, BottleneckKind::Waiting)
    );
    assert_eq!(tcp.text, "tcp: one core was full: balancer 97%, idle 3%.");
    assert!(
        unix.text
            .contains("one core: balancer 49%, idle 51%; one core: web 20%, idle 80%"),
        "{}",
        unix.text
    );
}

#[test]
fn the_generator_the_link_and_the_schedule_are_limits_too() {
    let metrics = [(Metric::RatePerS, 500.0, 1_000.0)];
    let kinds = |watched: &dyn Fn(usize, &mut TrialResult)| {
        let why = &told_of(&RATE, &metrics, watched, &[])[0];
        why.limits
            .iter()
            .map(|limit| limit.kind)
            .collect::<Vec<_>>()
    };
    let unknown = kinds(&|_, _| {});
    assert_eq!(unknown, [BottleneckKind::Unknown; 2]);
    let saturated = kinds(&|variant, result| {
        let finding = Finding::stored(FindingId::GeneratorSaturated, Severity::Error, "");
        if let (UNIX, Some(record)) = (variant, &mut result.record) {
            record.findings.push(finding);
        }
        result.resources.link_share = Some(0.95);
    });
    assert_eq!(saturated, [BottleneckKind::Link, BottleneckKind::Generator]);
    let crowded = kinds(&|variant, result| {
        result.telemetry.services_cores = 1;
        result.resources.machine_cores = 2;
        result.resources.idle_percent = 4.0;
        result.telemetry.foreign_percent = if variant == TCP { 120.0 } else { 0.0 };
    });
    assert_eq!(
        crowded,
        [BottleneckKind::Machine, BottleneckKind::ServerCores]
    );
    let scheduled = kinds(&|variant, result| {
        let Some(record) = &mut result.record else {
            return;
        };
        record.rate.offered_per_s = Some(1_000.0);
        record.rate.ok_per_s = if variant == TCP { 700.0 } else { 999.0 };
    });
    assert_eq!(
        scheduled,
        [BottleneckKind::Unknown, BottleneckKind::Schedule]
    );
}

/// Returns the limit of a variant whose trials all have this resource usage.
fn limit_with(resources: &ResourceUse) -> (BottleneckKind, String) {
    let metrics = [(Metric::RatePerS, 500.0, 1_000.0)];
    let watched = |_: usize, result: &mut TrialResult| {
        result.telemetry.services_cores = 1;
        result.resources = resources.clone();
    };
    let why = told_of(&RATE, &metrics, &watched, &[]).remove(0);
    (why.limits[0].kind, why.limits[0].text.clone())
}

fn parties(numbers: &[usize], services: f64, load: f64, others: f64) -> CoreParties {
    let cores = numbers.len().max(1);
    CoreParties {
        numbers: numbers.to_vec(),
        cores,
        services,
        load,
        others,
        idle: 100.0 * cores as f64 - services - load - others,
        neighbors: if others > 0.0 {
            vec![Neighbor {
                pid: 123,
                name: "yes".to_owned(),
                percent: others,
            }]
        } else {
            Vec::new()
        },
        ..CoreParties::default()
    }
}

/// Returns the usage of a service on core 0 of a machine with 4 cores. Other processes use core 0
/// and the other cores.
fn on_core_0(services: f64, strangers_there: f64, strangers_elsewhere: f64) -> ResourceUse {
    let machine = CoreParties {
        numbers: Vec::new(),
        cores: 4,
        ..parties(
            &[0, 1, 2, 3],
            services,
            30.0,
            strangers_there + strangers_elsewhere,
        )
    };
    ResourceUse {
        tied: vec![CoreUse {
            services: vec!["web".to_owned()],
            cores: 1,
            percent: services,
            with_load: false,
            parties: Some(parties(&[0], services, 0.0, strangers_there)),
        }],
        machine_cores: 4,
        idle_percent: machine.idle,
        machine: Some(machine),
        ..ResourceUse::default()
    }
}

#[test]
fn a_neighbor_that_fills_the_services_core_is_named() {
    let (kind, text) = limit_with(&on_core_0(41.2, 57.3, 0.0));
    assert_eq!(kind, BottleneckKind::Machine);
    assert_eq!(
        text,
        "tcp: core 0 was full: web 41%, other processes 57% (mostly yes, process 123), idle 2%."
    );
}

#[test]
fn neighbors_that_leave_some_idle_time_are_named_and_no_lock_or_disk_is() {
    for (resources, expected) in [
        (
            on_core_0(30.0, 40.0, 77.0),
            "tcp: other processes used 40% of a core (mostly yes, process 123) on the same cores",
        ),
        (
            on_core_0(30.0, 0.0, 117.0),
            "but other processes used 117% of a core (mostly yes, process 123) of this machine",
        ),
    ] {
        let (_, text) = limit_with(&resources);
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("a lock"), "{text}");
    }
    let (kind, text) = limit_with(&on_core_0(30.0, 1.0, 2.0));
    assert_eq!(kind, BottleneckKind::Waiting);
    assert!(text.contains("a lock, a backend"), "{text}");
}

#[test]
fn all_parties_on_full_cores_are_listed_and_add_up() {
    let machine = CoreParties {
        numbers: Vec::new(),
        stolen: 0.6,
        idle: 1.4,
        ..parties(&[0, 1], 51.3, 54.5, 92.2)
    };
    let resources = ResourceUse {
        machine_cores: 2,
        machine: Some(machine),
        ..ResourceUse::default()
    };
    let (kind, text) = limit_with(&resources);
    assert_eq!(kind, BottleneckKind::Machine);
    assert_eq!(
        text,
        "tcp: all 2 cores (200%) were full: services 51%, the load 55%, other processes 92% \
         (mostly yes, process 123), other guests 1%, idle 1%."
    );
}
