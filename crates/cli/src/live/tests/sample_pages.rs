//! Sample states of loads and experiments, and the pages that show them.

use std::time::Duration;

use prony_experiment::runner::SliceResult;
use prony_record::{
    CallFailure, EntryResult, Finding, FindingId, JourneyCounts, LoadInfo, Outcome, RateStage,
    Severity, Summary,
};
use prony_report::number;
use prony_stats::{Effect, Metric, Verdict};

use crate::live::agents::AgentStates;
use crate::live::bracket::{Bracket, BracketStep};
use crate::live::capacity_state::CapacityState;
use crate::live::experiment_state::{ComparisonRow, CpuUse, ExperimentState, TrialPhase};
use crate::live::follower::{
    EventFigures, GeneratorUse, JourneyFigures, LoadFigures, RatePoint, TimePercentiles, TimesPoint,
};
use crate::live::rounds::Rounds;

/// A page and the state that it shows.
pub(super) enum DrawnPage {
    Load(Box<LoadFigures>),
    Experiment(Box<ExperimentState>),
    Capacity(Box<CapacityState>),
}

impl DrawnPage {
    pub(super) fn is_stopping(&self) -> bool {
        match self {
            DrawnPage::Load(figures) => figures.is_stopped,
            DrawnPage::Experiment(state) => state.is_stopped,
            DrawnPage::Capacity(state) => state.is_stopped,
        }
    }
}

pub(super) fn pages() -> Vec<(&'static str, DrawnPage)> {
    vec![
        ("closed", DrawnPage::Load(Box::new(closed()))),
        ("open", DrawnPage::Load(Box::new(open()))),
        ("profile", DrawnPage::Load(Box::new(profile()))),
        ("failing", DrawnPage::Load(Box::new(failing()))),
        ("list", DrawnPage::Load(Box::new(of_list()))),
        ("journeys", DrawnPage::Load(Box::new(journeys()))),
        ("streams", DrawnPage::Load(Box::new(streams()))),
        ("warming-up", DrawnPage::Load(Box::new(warming_up()))),
        ("agents", DrawnPage::Load(Box::new(by_agents()))),
        (
            "agents-get-ready",
            DrawnPage::Load(Box::new(getting_ready())),
        ),
        ("experiment", DrawnPage::Experiment(Box::new(experiment()))),
        (
            "experiment-begins",
            DrawnPage::Experiment(Box::new(beginning())),
        ),
        ("experiment-wide", DrawnPage::Experiment(Box::new(wide()))),
        (
            "experiment-agents",
            DrawnPage::Experiment(Box::new(experiment_by_agents())),
        ),
        (
            "experiment-rounds",
            DrawnPage::Experiment(Box::new(experiment_in_rounds())),
        ),
        ("capacity", DrawnPage::Capacity(Box::new(capacity()))),
        (
            "capacity-begins",
            DrawnPage::Capacity(Box::new(capacity_begins())),
        ),
        (
            "capacity-stops",
            DrawnPage::Capacity(Box::new(CapacityState {
                is_stopped: true,
                ..capacity()
            })),
        ),
    ]
}

fn closed() -> LoadFigures {
    let wave = |n: u32| 48_000.0 + 1_500.0 * f64::from(n % 7);
    LoadFigures {
        info: LoadInfo {
            url: "http://127.0.0.1:8080/".to_owned(),
            model: "closed".to_owned(),
            connections: 64,
            streams: 1,
            warmup_s: 2.0,
            duration_s: Some(30.0),
            http: "1.1".to_owned(),
            keepalive: true,
            threads: 2,
            ..LoadInfo::default()
        },
        elapsed: Duration::from_millis(14_250),
        planned: Some(Duration::from_secs(32)),
        ended: 712_004,
        history: points(28, wave, |_| 0.0),
        times: times(24),
        ok_per_s: 51_204.0,
        is_ok_known: true,
        bytes_in_per_s: 6.2e6,
        recent: TimePercentiles {
            count: 250_000,
            percentiles: [
                (412.0, false),
                (590.0, false),
                (1_830.0, false),
                (7_400.0, false),
            ],
            max: (12_600.0, false),
        },
        all: TimePercentiles {
            count: 612_004,
            percentiles: [
                (410.0, false),
                (588.0, false),
                (1_790.0, false),
                (7_120.0, false),
            ],
            max: (15_100.0, false),
        },
        outcomes: vec![(Outcome::Ok, 612_004)],
        statuses: vec![(200, 612_004)],
        in_flight: 64,
        connections_opened: 0,
        busy: Some(GeneratorUse {
            busiest: 0.61,
            starved: 0.0,
            cpu_percent: 118.0,
        }),
        ..LoadFigures::default()
    }
}

/// A login and an order, begun on a schedule. Some orders fail.
fn journeys() -> LoadFigures {
    let mut figures = closed();
    figures.set_info(LoadInfo {
        model: "open".to_owned(),
        rate_per_s: Some(50.0),
        arrivals: Some("poisson".to_owned()),
        steps: 3,
        ..figures.info.clone()
    });
    LoadFigures {
        ok_per_s: 148.0,
        offered_per_s: Some(50.0),
        history: points(28, |_| 148.0, |n| f64::from(n % 2)),
        outcomes: vec![(Outcome::Ok, 1_790), (Outcome::Capture, 12)],
        statuses: vec![(200, 1_802)],
        worst_entries: vec![
            entry("log in", 603, 0, 31_000.0),
            entry("browse", 601, 0, 4_100.0),
            entry("order", 586, 12, 18_000.0),
        ],
        journeys: Some(JourneyFigures {
            per_s: 48.5,
            counts: JourneyCounts {
                begun: 701,
                unmeasured: 98,
                completed: 586,
                failed: 12,
                ..JourneyCounts::default()
            },
            times: TimePercentiles {
                count: 586,
                percentiles: [
                    (38_000.0, false),
                    (45_000.0, false),
                    (61_000.0, false),
                    (72_000.0, false),
                ],
                max: (80_000.0, false),
            },
        }),
        ..figures
    }
}

/// Streams of server-sent events.
fn streams() -> LoadFigures {
    let times = |p50, p99| TimePercentiles {
        count: 9_000,
        percentiles: [(p50, false), (p50, false), (p99, false), (p99, true)],
        max: (p99, true),
    };
    LoadFigures {
        events: Some(EventFigures {
            per_s: 1_280.0,
            first_event: times(210_000.0, 480_000.0),
            event_gap: times(50_100.0, 52_300.0),
        }),
        ok_per_s: 6.4,
        history: points(28, |_| 6.4, |_| 0.0),
        outcomes: vec![(Outcome::Ok, 78)],
        statuses: vec![(200, 78)],
        ..closed()
    }
}

fn points(count: u32, ok: impl Fn(u32) -> f64, failed: impl Fn(u32) -> f64) -> Vec<RatePoint> {
    let point = |n: u32| RatePoint {
        t_s: f64::from(n + 1) * 0.5,
        ok_per_s: ok(n),
        failed_per_s: failed(n),
    };
    (0..count).map(point).collect()
}

fn times(count: u32) -> Vec<TimesPoint> {
    let at = |n: u32| TimesPoint {
        t_s: 2.5 + f64::from(n) * 0.5,
        p50_us: 400.0 + 3.0 * f64::from(n),
        p99_us: 1_700.0 + 160.0 * f64::from(n % 5),
    };
    (0..count).map(at).collect()
}

/// An open-loop load that exceeds the server's capacity.
/// An entry of a list, or a step of a journey.
fn entry(name: &str, ok: u64, failed: u64, p99: f64) -> EntryResult {
    EntryResult {
        name: name.to_owned(),
        started: ok + failed,
        ok,
        failed,
        ok_per_s: ok as f64 / 12.0,
        response_time_us: Summary {
            p50: p99 / 3.0,
            p99,
            max: p99,
            at_least: vec!["p99".to_owned()],
            ..Summary::default()
        },
        ..EntryResult::default()
    }
}

fn of_list() -> LoadFigures {
    let worst_entries = vec![
        entry("POST /cart/items", 9_412, 1_205, 31_000.0),
        entry("GET /search", 70_112, 0, 182_000.0),
        entry("GET /users/{id}/posts", 140_004, 0, 9_300.0),
        EntryResult {
            name: "GET /unused".to_owned(),
            ..EntryResult::default()
        },
    ];
    LoadFigures {
        worst_entries,
        ..closed()
    }
}

fn open() -> LoadFigures {
    let mut figures = closed();
    figures.info.rate_per_s = Some(60_000.0);
    figures.info.arrivals = Some("poisson".to_owned());
    figures.set_info(figures.info.clone());
    let now_s = figures.elapsed.as_secs_f64();
    figures.offered_per_s = figures.offered_until(now_s, 1.0);
    figures.waiting = Some(41_317);
    figures.recent.percentiles[3] = (1_400_000.0, true);
    figures.recent.max = (2_100_000.0, true);
    figures.busy = Some(GeneratorUse {
        busiest: 0.99,
        starved: 0.12,
        cpu_percent: 190.0,
    });
    figures.findings = vec![Finding::stored(
        FindingId::GeneratorSaturated,
        Severity::Error,
        "The generator's busiest worker was busy 99% of the time, late with its starts: the \
         generator and not the server may have limited the rate. Give it more cores (--cores, \
         --threads), or load less.",
    )];
    figures
}

/// An open loop whose rate rises beyond the server's capacity.
fn profile() -> LoadFigures {
    let mut figures = closed();
    figures.info.stages = vec![
        RateStage {
            rate_per_s: 5_000.0,
            length_s: 0.0,
        },
        RateStage {
            rate_per_s: 80_000.0,
            length_s: 30.0,
        },
    ];
    figures.info.arrivals = Some("constant".to_owned());
    figures.set_info(figures.info.clone());
    let now_s = figures.elapsed.as_secs_f64();
    figures.offered_per_s = figures.offered_until(now_s, 1.0);
    let rising = |n: u32| (3_000.0 + 2_000.0 * f64::from(n)).min(52_000.0);
    figures.history = points(28, rising, |_| 0.0);
    for (n, point) in (1u32..).zip(&mut figures.times) {
        point.p99_us = 1_700.0 * f64::from(n);
    }
    figures
}

/// A load with several kinds of failures.
fn failing() -> LoadFigures {
    let mut figures = closed();
    figures.info.requests = Some(1_000_000);
    figures.planned = None;
    figures.is_stopped = true;
    figures.history = points(
        28,
        |n| 30_000.0 - 900.0 * f64::from(n),
        |n| 200.0 * f64::from(n),
    );
    let counts = (1u64..).map(|n| 612_004 / (n * n));
    // One failure of a gRPC call stands for all of them.
    let is_shown = |outcome: &Outcome| !matches!(outcome, Outcome::Call(failure) if *failure != CallFailure::NoStatus);
    let shown = Outcome::ALL.iter().copied().filter(is_shown);
    figures.outcomes = shown.zip(counts).collect();
    figures.statuses = vec![
        (200, 400_001),
        (404, 3),
        (500, 80_000),
        (502, 7),
        (503, 132_000),
    ];
    figures.findings = vec![
        Finding::stored(
            FindingId::RequestsRetried,
            Severity::Note,
            "7 requests were sent once more.",
        ),
        Finding::stored(
            FindingId::Errors,
            Severity::Error,
            "34% of the requests failed: 80,000 reset.",
        ),
        Finding::stored(
            FindingId::GeneratorStarved,
            Severity::Warning,
            "A worker had no core.",
        ),
    ];
    figures
}

fn warming_up() -> LoadFigures {
    let full = closed();
    LoadFigures {
        elapsed: Duration::from_millis(740),
        history: full.history[..1].to_vec(),
        info: full.info,
        planned: full.planned,
        ended: 21_000,
        ok_per_s: 42_000.0,
        ..LoadFigures::default()
    }
}

/// A load on four agents, one of them lost and one silent.
fn by_agents() -> LoadFigures {
    let mut figures = open();
    figures.busy = None;
    figures.findings.clear();
    figures.agents = Some(AgentStates {
        all: 4,
        loading: 3,
        quiet: vec![("agent-3".to_owned(), Duration::from_millis(4_250))],
        lost: vec!["agent-2".to_owned()],
        ..AgentStates::default()
    });
    figures
}

/// A load on agents that have not resolved its settings yet.
fn getting_ready() -> LoadFigures {
    LoadFigures {
        info: LoadInfo {
            url: "http://127.0.0.1:8080/".to_owned(),
            connections: 64,
            ..LoadInfo::default()
        },
        elapsed: Duration::from_millis(1_240),
        agents: Some(AgentStates {
            all: 2,
            ..AgentStates::default()
        }),
        ..LoadFigures::default()
    }
}

/// The second of five searches, with a probe running.
fn capacity() -> CapacityState {
    let mut bracket = Bracket::default();
    let mut probes = Vec::new();
    let ends = |met: f64, unmet: f64| (Some(met), Some(unmet).filter(|it| *it > 0.0));
    for (probe_per_s, is_met, ends) in [
        (1_000.0, true, ends(1_000.0, 0.0)),
        (4_000.0, true, ends(4_000.0, 0.0)),
        (16_000.0, false, ends(4_000.0, 16_000.0)),
        (8_000.0, false, ends(4_000.0, 8_000.0)),
        (5_600.0, true, ends(5_600.0, 8_000.0)),
        (6_700.0, true, ends(6_700.0, 8_000.0)),
    ] {
        bracket.probe_ended(BracketStep {
            probe_per_s,
            is_met,
            ends,
        });
        let (met, p99) = if is_met {
            ("met", "21.4 ms")
        } else {
            ("not met", "812 ms")
        };
        probes.push(format!(
            "search 2: {} {met}: p99 {p99}",
            number::rate(probe_per_s)
        ));
    }
    bracket.probe_per_s = Some(7_320.0);
    let mut load = open();
    load.elapsed = Duration::from_millis(2_250);
    load.planned = Some(Duration::from_secs(4));
    load.findings.clear();
    CapacityState {
        title: "http://127.0.0.1:8080/: p99<50ms, failed<0.1%".to_owned(),
        search: (2, 5),
        probes_begun: 7,
        bracket,
        load: Some(load),
        is_probing: true,
        probes: probes.into(),
        searches: vec!["search 1: 7,410 req/s, 31 probes".to_owned()],
        elapsed: Duration::from_secs(84),
        is_stopped: false,
    }
}

/// A capacity search before its first probe.
fn capacity_begins() -> CapacityState {
    CapacityState {
        search: (1, 5),
        title: "http://127.0.0.1:8080/: p99<50ms".to_owned(),
        elapsed: Duration::from_millis(600),
        ..CapacityState::default()
    }
}

fn experiment_in_rounds() -> ExperimentState {
    let mut rounds = Rounds::begin(vec![(1, "tcp".to_owned()), (0, "unix".to_owned())]);
    (rounds.slice, rounds.planned) = (Duration::from_millis(250), 40);
    for round in 0..12_u32 {
        // Another process slows both variants in some rounds.
        let speed = if (4..7).contains(&round) { 0.5 } else { 1.0 };
        let slice = |variant: usize, rate: f64| {
            let slice = SliceResult {
                round,
                position: variant as u32,
                length_s: 0.25,
                ok: (0.25 * speed * rate) as u64,
                failed: u64::from(round == 5 && variant == 1),
                mean_response_us: Some(1e7 / speed / rate),
                drain_s: 0.002,
            };
            (variant, slice)
        };
        rounds.round_ended(&[slice(1, 21_800.0), slice(0, 25_300.0)]);
    }
    let mut state = experiment();
    state.load = None;
    state.trial = Some(("all variants in turn".to_owned(), 1));
    let mut names = ["nginx@0", "nginx@1"].into_iter();
    for of_service in state.cpu.iter_mut().take(2) {
        let name = names.next().unwrap();
        of_service.name = rounds.service_name(name).unwrap();
    }
    state.rounds = Some(rounds);
    state
}

fn experiment_by_agents() -> ExperimentState {
    let mut state = experiment();
    state.cpu.retain(|cpu| cpu.name != "generator");
    if let Some(load) = &mut state.load {
        load.busy = None;
        load.agents = Some(AgentStates {
            all: 2,
            loading: 2,
            ..AgentStates::default()
        });
    }
    state
}

pub(super) fn beginning() -> ExperimentState {
    ExperimentState {
        title: "demo: What does TCP cost where a UNIX socket would do?".to_owned(),
        blocks: (5, 12),
        variants: 2,
        time: Some((Duration::from_secs(23), Duration::from_secs(50))),
        budget: Some(Duration::from_secs(50)),
        elapsed: Duration::from_millis(600),
        block: 1,
        trial: Some(("tcp".to_owned(), 1)),
        phase: TrialPhase::Starting("origin".to_owned()),
        ..ExperimentState::default()
    }
}

fn compared(
    name: &str,
    metric: Metric,
    ratio: [f64; 3],
    verdict: Option<Verdict>,
) -> ComparisonRow {
    let [low, ratio, high] = ratio;
    ComparisonRow {
        names: (name.to_owned(), "unix".to_owned()),
        metric,
        effect: Effect {
            ratio: Some(ratio),
            difference: None,
            low: Some(low),
            high: Some(high),
        },
        verdict,
    }
}

fn experiment() -> ExperimentState {
    let mut load = closed();
    load.elapsed = Duration::from_millis(1_250);
    load.planned = Some(Duration::from_millis(1_800));
    load.info.warmup_s = 0.3;
    load.history.truncate(3);
    let cpu = |name: &str, user_percent: f64, system_percent: f64| CpuUse {
        name: name.to_owned(),
        user_percent,
        system_percent,
    };
    ExperimentState {
        elapsed: Duration::from_millis(23_600),
        block: 6,
        trials_ended: 11,
        trials_took: Duration::from_secs(22),
        phase: TrialPhase::Loading,
        trial: Some(("unix".to_owned(), 2)),
        load: Some(load),
        cpu: vec![
            cpu("nginx", 12.0, 30.0),
            cpu("gunicorn", 61.0, 22.0),
            cpu("generator", 20.0, 31.0),
            cpu("others", 3.0, 0.0),
        ],
        ended: [
            "block 5, tcp: 21,890 req/s, p99 7.77 ms",
            "block 5, unix: 25,440 req/s, p99 5.12 ms",
        ]
        .map(str::to_owned)
        .into(),
        comparisons: vec![
            compared(
                "tcp",
                Metric::RatePerS,
                [0.842, 0.861, 0.879],
                Some(Verdict::Slower),
            ),
            compared(
                "tcp",
                Metric::P99Us,
                [0.97, 1.21, 1.54],
                Some(Verdict::Undecided),
            ),
        ],
        compared_blocks: 5,
        next_look: Some(8),
        ..beginning()
    }
}

/// An experiment after a stop request. It has more comparisons than fit on the screen. One of them
/// compares a share, and another one has no interval.
fn wide() -> ExperimentState {
    let mut state = experiment();
    let verdicts = [
        None,
        Some(Verdict::Faster),
        Some(Verdict::Equivalent),
        Some(Verdict::Withheld),
    ];
    for n in 0..40u32 {
        let name = format!("a stack with a long name and number {n}");
        let ratio = 1.0 + f64::from(n) / 50.0;
        let interval = [ratio * 0.95, ratio, ratio * 1.06];
        let verdict = verdicts[n as usize % verdicts.len()];
        let mut one = compared(&name, Metric::P50Us, interval, verdict);
        one.names.1 = format!("the same with {n} workers");
        state.comparisons.push(one);
    }
    state.comparisons[0].effect = Effect {
        ratio: None,
        difference: Some(-0.0012),
        low: Some(-0.004),
        high: Some(0.0016),
    };
    state.comparisons[1].effect.low = None;
    state.comparisons[1].effect.high = None;
    state.is_stopped = true;
    state
}
