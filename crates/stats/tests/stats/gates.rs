//! Parsing of gates, their errors, and their rulings.

use prony_record::Record;
use prony_stats::gate::{
    Evidence, Gate, GateBasis, GateJudgement, GateOutcome, GateScope, RunEvidence, TrialUnit,
};
use prony_stats::runs::{Run, RunVariant, TrialValues, WithheldMetric};
use prony_stats::{
    Comparison, Design, Factor, Levels, Metric, Trials, Values, Verdict, WithheldBecause, evaluate,
};

fn levels(pairs: &[(&str, &str)]) -> Levels {
    let owned = pairs
        .iter()
        .map(|(f, l)| ((*f).to_owned(), (*l).to_owned()));
    owned.collect()
}

fn variant(name: &str, pairs: &[(&str, &str)]) -> RunVariant {
    RunVariant {
        name: name.to_owned(),
        levels: levels(pairs),
    }
}

/// Returns a scope of two places and two sockets; `native, unix` is the baseline.
fn crossed() -> GateScope {
    let cells = [
        ("native", "tcp"),
        ("native", "unix"),
        ("jail", "tcp"),
        ("jail", "unix"),
    ];
    GateScope {
        variants: cells
            .iter()
            .map(|(place, socket)| {
                let name = format!("{place}, {socket}");
                variant(&name, &[("place", place), ("socket", socket)])
            })
            .collect(),
        baseline: levels(&[("place", "native"), ("socket", "unix")]),
        stored: None,
    }
}

fn new_and_old() -> GateScope {
    GateScope {
        variants: vec![
            variant("new", &[("server", "new")]),
            variant("old", &[("server", "old")]),
        ],
        baseline: levels(&[("server", "old")]),
        stored: None,
    }
}

#[test]
fn valid_gates_are_parsed() {
    let known = new_and_old();
    for input in [
        "p99 of new > baseline + 5%",
        "p99 of new>baseline+5%",
        "p(99) of new > baseline",
        "service.p(99) > 5ms",
        "verdict on p(99) is slower",
        "rate of server=new < 0.95 baseline",
        "rate of server = new < 95% of baseline",
        "rate of new < 0.95*old",
        "rate of \"new\" <= \"old\" - 3%",
        "p99 of new > 50ms",
        "p99>50ms",
        "p99.9 of any > 1.5 s",
        "failed > 0.1%",
        "failed of new > baseline + 0.1%",
        "timeout > 3",
        "service.p99 > baseline + 2ms",
        "cpu of new > 1.1 baseline",
        "memory > 100MiB",
        "server_cpu_user_percent > 80%",
        "busy > 90%",
        "verdict is slower",
        "verdict of new is slower or withheld",
        "verdict on p99 of new is not faster",
        "  rate  <  20k  ",
    ] {
        if let Err(error) = Gate::parse(input, &known) {
            panic!("{error}");
        }
    }
    let crossed = crossed();
    for input in [
        "rate of native, tcp < 0.9 baseline",
        "rate of \"native, tcp\" < 0.9 baseline",
        "rate of socket=tcp,place=jail < native, unix",
        "rate of socket=tcp, place=jail < place=native, socket=tcp",
    ] {
        if let Err(error) = Gate::parse(input, &crossed) {
            panic!("{error}");
        }
    }
}

#[test]
fn errors_mark_their_position_and_list_alternatives() {
    let known = new_and_old();
    for (input, marked, expected) in [
        ("", "", "expected a metric, a comparison operator"),
        (
            "p99 of nwe > baseline + 5%",
            "nwe",
            "the variants are new, old; server=new",
        ),
        ("latency of new > 5ms", "latency", "the metrics are p50"),
        ("connect.p95 of new > 5ms", "connect.p95", "is not recorded"),
        ("p99 of new", "", "expected a comparison operator"),
        ("p99 new > 5ms", "new", "expected a comparison operator"),
        ("p99 of new >", "", "expected a limit"),
        ("p99 of new > 50", "50", "is not a time with a unit"),
        (
            "p99 of new > 50 apples",
            "50 apples",
            "is not a time with a unit",
        ),
        (
            "p99 of new > base",
            "base",
            "nor a reference: baseline; the variants",
        ),
        ("p99 of new > stored", "stored", "--against"),
        ("p99 of new > new + 5%", "new", "the variant itself"),
        ("p99 of old > baseline + 5%", "old", "its own baseline"),
        (
            "p99 of new > baseline + 5 apples",
            "5 apples",
            "is not a time",
        ),
        (
            "p99 of new > baseline + ten%",
            "ten%",
            "expected a percentage",
        ),
        (
            "p99 of new > baseline 5%",
            "5%",
            "unexpected text after the end",
        ),
        ("p99 of server=nwe > 5ms", "server=nwe", "it has new, old"),
        ("p99 of \"new > 5ms", "\"new > 5ms", "closing quote"),
        ("rate < 0 baseline", "0", "a multiplier must be above 0"),
        ("verdict of new slower", "slower", "\"is\" is missing"),
        ("verdict is bad", "bad", "unknown verdict"),
        ("verdict on speed is slower", "speed", "there is no metric"),
        ("verdict is slower please", "please", "unexpected text"),
        ("p99 > é", "é", "is not a time"),
    ] {
        let error = Gate::parse(input, &known).expect_err(input).to_string();
        assert!(error.contains(expected), "{input}: {error}");
        let lines: Vec<&str> = error.lines().collect();
        let [.., text, marks] = lines.as_slice() else {
            panic!("{error}");
        };
        let is_marked = |place: &usize| marks.chars().nth(*place) == Some('^');
        let under: String = text
            .chars()
            .enumerate()
            .filter(|(place, _)| is_marked(place))
            .map(|(_, c)| c)
            .collect();
        assert_eq!(under, marked, "{error}");
    }
}

/// Experiment with `blocks` blocks, in each of which the rate of `new` is `ratio` times the rate of
/// `old`. The ratio of p99 is the inverse.
struct Lab {
    run: Run,
    records: Vec<(u32, usize, Record)>,
    comparisons: Vec<Comparison>,
}

fn lab(ratio: f64, noise: f64, blocks: u32) -> Lab {
    let known = new_and_old();
    let mut run = Run {
        variants: known.variants.clone(),
        baseline: known.baseline.clone(),
        margin: 0.02,
        family: vec![Metric::RatePerS],
        ..Run::default()
    };
    let mut records = Vec::new();
    let mut trials = Trials::new();
    for block in 1..=blocks {
        for place in 0..2 {
            // A fixed pattern, different for each variant, simulates noise.
            let wave = (f64::from(block) * 2.4 + place as f64 * 1.3).sin();
            let rate = 1_000.0 * if place == 0 { ratio } else { 1.0 } * (noise * wave).exp();
            let values: Values = [
                (Metric::RatePerS, rate),
                (Metric::P99Us, 1e7 / rate),
                (Metric::FailedShare, 0.001),
            ]
            .into();
            let mut record = Record::default();
            record.totals.ok = 9_990;
            record.totals.failed = 10;
            record.rate.ok_per_s = rate;
            record.response_time_us.p90 = 1e6 / rate;
            record.response_time_us.max = 1e7;
            records.push((block, place, record));
            trials.add(block, place, values.clone());
            run.trials.push(TrialValues {
                block,
                variant: place,
                values,
            });
        }
    }
    let design = Design {
        factors: vec![Factor {
            name: "server".to_owned(),
            levels: vec!["new".to_owned(), "old".to_owned()],
        }],
        variants: known.variants.into_iter().map(|v| v.levels).collect(),
        baseline: known.baseline,
        margin: 0.02,
        family: vec![Metric::RatePerS],
        blocks_min: blocks,
        blocks_max: blocks,
        alpha: 0.05,
        goals: Vec::new(),
    };
    let comparisons = evaluate(&design, &trials, &[]).unwrap().comparisons;
    Lab {
        run,
        records,
        comparisons,
    }
}

impl Lab {
    fn judge(&self, input: &str, stored: Option<&Lab>) -> Vec<GateJudgement> {
        let known = GateScope {
            stored: stored.map(|_| "stored".to_owned()),
            ..new_and_old()
        };
        let gate = Gate::parse(input, &known).unwrap_or_else(|error| panic!("{error}"));
        fn by_reference(records: &[(u32, usize, Record)]) -> Vec<(u32, usize, &Record)> {
            records.iter().map(|(b, v, r)| (*b, *v, r)).collect()
        }
        let new = by_reference(&self.records);
        let old = stored.map(|lab| by_reference(&lab.records));
        let source = |run, records, label| RunEvidence {
            run,
            records,
            label,
            is_loads: false,
        };
        let evidence = Evidence {
            new: source(&self.run, &new, "new"),
            stored: stored
                .zip(old.as_ref())
                .map(|(lab, records)| source(&lab.run, records, "stored")),
            comparisons: &self.comparisons,
            between: None,
            miss: 0.05,
        };
        gate.judge(&evidence)
    }

    fn ruling(&self, input: &str) -> GateOutcome {
        let results = self.judge(input, None);
        assert_eq!(results.len(), 1, "{input}: {results:?}");
        results[0].ruling
    }
}

#[test]
fn a_gate_fails_or_passes_only_where_the_whole_interval_does() {
    let slower = lab(0.90, 0.01, 8);
    for (input, ruling) in [
        ("rate of new < 0.95 baseline", GateOutcome::Failed),
        ("rate of new < baseline - 5%", GateOutcome::Failed),
        ("rate of new < 0.90 baseline", GateOutcome::Unclear),
        ("rate of new < 0.85 baseline", GateOutcome::Passed),
        ("p99 of new > baseline + 5%", GateOutcome::Failed),
        ("p99 of new > baseline + 20%", GateOutcome::Passed),
        ("p99 of new > baseline + 0.5ms", GateOutcome::Failed),
        ("p99 of new > baseline + 2ms", GateOutcome::Passed),
        ("p99 of new > 11.1ms", GateOutcome::Unclear),
        ("p99 of new > 10ms", GateOutcome::Failed),
        ("p99 of new > 20ms", GateOutcome::Passed),
        ("p90 of new > old", GateOutcome::Failed),
        ("p90 of new < old", GateOutcome::Passed),
        ("verdict of new is slower", GateOutcome::Failed),
        ("verdict of new is faster", GateOutcome::Passed),
        ("verdict of new is not slower", GateOutcome::Passed),
        ("failed of new > 0.1%", GateOutcome::Passed),
        ("failed of new >= 0.1%", GateOutcome::Failed),
        ("failed of new > 79", GateOutcome::Failed),
        ("failed of new > baseline + 0.1%", GateOutcome::Passed),
        ("cpu of new > 5us", GateOutcome::Unclear),
    ] {
        assert_eq!(slower.ruling(input), ruling, "{input}");
    }
    // The gate uses the same interval as the verdict.
    let stated = &slower.comparisons[0].effect;
    let result = &slower.judge("rate of new < 0.95 baseline", None)[0];
    let numbers = result.numbers.unwrap();
    let interval = numbers.interval.unwrap();
    assert_eq!(
        (Some(interval.low), Some(interval.high)),
        (stated.low, stated.high)
    );
    assert_eq!(numbers.limit, 0.95);
    assert!(
        matches!(&result.basis, GateBasis::Relative { against, .. } if against == "old"),
        "{result:?}"
    );
}

#[test]
fn without_a_subject_every_variant_except_the_baseline_is_judged() {
    let slower = lab(0.90, 0.01, 5);
    assert_eq!(slower.judge("failed > 1%", None).len(), 2);
    let against = slower.judge("rate < 0.95 baseline", None);
    assert_eq!(against.len(), 1);
    assert_eq!(against[0].name, "new");
}

#[test]
fn too_few_blocks_and_withheld_metrics_are_unclear() {
    let short = lab(0.5, 0.01, 2);
    assert_eq!(
        short.ruling("rate of new < 0.95 baseline"),
        GateOutcome::Unclear
    );
    assert_eq!(short.ruling("p99 of new > 1ms"), GateOutcome::Unclear);
    assert_eq!(
        short.ruling("verdict of new is slower"),
        GateOutcome::Unclear
    );
    assert_eq!(
        short.ruling("verdict of new is undecided"),
        GateOutcome::Failed
    );
    let mut doubted = lab(0.9, 0.01, 8);
    doubted.run.doubts.push(WithheldMetric {
        variant: 0,
        metric: Metric::RatePerS,
        because: WithheldBecause::Noise,
    });
    let result = &doubted.judge("rate of new < 0.95 baseline", None)[0];
    assert_eq!(result.ruling, GateOutcome::Unclear);
    assert_eq!(result.basis, GateBasis::Withheld(WithheldBecause::Noise));
    assert_eq!(
        doubted.ruling("failed of new > 0.05%"),
        GateOutcome::Failed,
        "a count is judged even if verdicts are withheld"
    );
    doubted.comparisons[0].verdict = Verdict::Withheld;
    assert_eq!(
        doubted.ruling("verdict of new is slower"),
        GateOutcome::Unclear
    );
}

#[test]
fn the_stored_run_is_compared_without_pairing() {
    let (then, now) = (lab(1.0, 0.01, 8), lab(0.9, 0.01, 8));
    let ruling = |input: &str| -> Vec<GateOutcome> {
        now.judge(input, Some(&then))
            .iter()
            .map(|r| r.ruling)
            .collect()
    };
    assert_eq!(
        ruling("rate < 0.95 stored"),
        [GateOutcome::Failed, GateOutcome::Passed]
    );
    assert_eq!(ruling("p99 of new > stored + 20%"), [GateOutcome::Passed]);
    let basis = &now.judge("rate of new < stored - 5%", Some(&then))[0].basis;
    assert!(
        matches!(basis, GateBasis::Relative { against, .. } if against == "stored"),
        "{basis:?}"
    );
}

#[test]
fn failed_requests_lie_beyond_every_limit_of_a_percentile() {
    let mut failing = lab(1.1, 0.001, 5);
    let outcomes = |lab: &Lab, input: &str| {
        let results = lab.judge(input, None);
        let of_new = results.into_iter().find(|it| it.name == "new").unwrap();
        (of_new.ruling, of_new.basis)
    };
    assert_eq!(
        outcomes(&failing, "p99 of new > 50ms").0,
        GateOutcome::Passed
    );
    let of_new = |(_, place, _): &&mut (u32, usize, Record)| *place == 0;
    for (count, (_, _, record)) in failing.records.iter_mut().filter(of_new).enumerate() {
        // In the first block, too few requests fail to change the percentile.
        record.totals.failed = if count == 0 { 10 } else { 500 };
    }
    let (ruling, basis) = outcomes(&failing, "p99 of new > 50ms");
    assert_eq!(ruling, GateOutcome::Unclear);
    let beyond = GateBasis::BeyondEveryLimit {
        variant: "new".to_owned(),
        unit: TrialUnit::Block,
        count: 4,
        all: 5,
    };
    assert_eq!(basis, beyond);
    failing
        .records
        .iter_mut()
        .for_each(|(_, _, record)| record.totals.failed = 500);
    for input in [
        "p99 of new > 50ms",
        "p99 > 50ms",
        "service.p99 of new > 50ms",
    ] {
        assert_eq!(outcomes(&failing, input).0, GateOutcome::Failed, "{input}");
    }
    // The reference is infinite, too.
    let relative = outcomes(&failing, "p99 of new > old + 5%");
    assert_eq!(relative.0, GateOutcome::Unclear);
    failing.records.iter_mut().for_each(|(_, place, record)| {
        record.totals.failed = if *place == 1 { 0 } else { 500 };
    });
    assert_eq!(
        outcomes(&failing, "p99 of new > old + 5%").0,
        GateOutcome::Failed
    );
}
