//! Sentences about comparisons within an experiment.

use std::collections::BTreeMap;

use prony_record::FindingId;
use prony_stats::{
    Design, Effect, Evaluation, ExperimentInfo, Factor, Levels, Metric, MovedMetric, MovementRole,
    RoundMetric, RoundValues, Trials, Verdict, VerdictDocument, WithheldBecause, changed_cost,
    compare_rounds, evaluate,
};

use prony_wording::undecided_cost;

fn factor(name: &str, levels: &[&str]) -> Factor {
    Factor {
        name: name.to_owned(),
        levels: levels.iter().map(|&level| level.to_owned()).collect(),
    }
}

fn levels(pairs: &[(&str, &str)]) -> Levels {
    pairs
        .iter()
        .map(|&(factor, level)| (factor.to_owned(), level.to_owned()))
        .collect()
}

/// Returns a design with `unix` (the baseline) and `tcp`.
fn sockets(metric: Metric) -> Design {
    Design {
        factors: vec![factor("socket", &["unix", "tcp"])],
        variants: vec![levels(&[("socket", "unix")]), levels(&[("socket", "tcp")])],
        baseline: levels(&[("socket", "unix")]),
        margin: 0.02,
        family: vec![metric],
        blocks_min: 8,
        blocks_max: 8,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

/// Evaluates one block for each pair of values.
fn run(design: &Design, metric: Metric, blocks: &[(f64, f64)]) -> Evaluation {
    let mut trials = Trials::new();
    for (block, &(unix, tcp)) in (1..).zip(blocks) {
        trials.add(block, 0, BTreeMap::from([(metric, unix)]));
        trials.add(block, 1, BTreeMap::from([(metric, tcp)]));
    }
    let mut evaluation = evaluate(design, &trials, &[]).unwrap();
    prony_wording::compose_evaluation(design, &mut evaluation);
    evaluation
}

/// Returns eight pairs of values whose ratios scatter around `ratio`; `spread` is the approximate
/// deviation on the log scale.
fn around(base: f64, ratio: f64, spread: f64) -> Vec<(f64, f64)> {
    [-1.0, 1.0, -0.5, 0.5, -1.2, 1.2, 0.0, 0.0]
        .map(|step: f64| (base, base * ratio * (spread * step).exp()))
        .to_vec()
}

fn said(metric: Metric, blocks: &[(f64, f64)]) -> (Verdict, String) {
    let evaluation = run(&sockets(metric), metric, blocks);
    let comparison = &evaluation.comparisons[0];
    (comparison.verdict, comparison.text.clone())
}

#[test]
fn a_rate() {
    assert_eq!(
        said(Metric::RatePerS, &around(12_000.0, 0.969, 0.012)),
        (
            Verdict::Slower,
            "tcp is 3.1% slower than unix (95% interval 2.2% to 3.9%, 8 blocks)".to_owned()
        )
    );
    assert_eq!(
        said(Metric::RatePerS, &around(12_000.0, 1.5, 0.001)),
        (
            Verdict::Faster,
            "tcp is 50.0% faster than unix (95% interval 49.9% to 50.1%, 8 blocks)".to_owned()
        )
    );
}

#[test]
fn a_percentile_says_which_way_is_faster() {
    assert_eq!(
        said(Metric::P99Us, &around(900.0, 1.05, 0.012)),
        (
            Verdict::Slower,
            "the p99 response time of tcp is 5.0% higher than that of unix \
             (slower; 95% interval 4.1% to 5.9%, 8 blocks)"
                .to_owned()
        )
    );
    assert_eq!(
        said(Metric::P50Us, &around(900.0, 0.9, 0.012)).1,
        "the median response time of tcp is 10.0% lower than that of unix \
         (faster; 95% interval 9.2% to 10.8%, 8 blocks)"
    );
}

#[test]
fn a_cost_per_request() {
    assert_eq!(
        said(Metric::ServerCpuUsPerRequest, &around(40.0, 1.08, 0.012)),
        (
            Verdict::Slower,
            "tcp needs 8.0% more server CPU per request than unix \
             (95% interval 7.1% to 9.0%, 8 blocks)"
                .to_owned()
        )
    );
    assert_eq!(
        said(Metric::ServerMemoryBytes, &around(4e7, 0.5, 0.012)).1,
        "tcp uses 50.0% less server memory than unix (95% interval 49.6% to 50.4%, 8 blocks)"
    );
}

#[test]
fn a_share_is_compared_by_its_difference() {
    let blocks: Vec<(f64, f64)> = [0.10, 0.11, 0.09, 0.10, 0.12, 0.08, 0.10, 0.10]
        .map(|share| (0.0, share))
        .to_vec();
    assert_eq!(
        said(Metric::FailedShare, &blocks),
        (
            Verdict::Slower,
            "the failed share of tcp is 10.0 points higher than that of unix \
             (95% interval 9.0 to 11.0, 8 blocks)"
                .to_owned()
        )
    );
    assert_eq!(
        said(Metric::FailedShare, &[(0.0, 0.0); 8]),
        (
            Verdict::Equivalent,
            "tcp and unix are equivalent within ±2 points \
             (failed share 0.0 points, 95% interval 0.0 to 0.0, 8 blocks)"
                .to_owned()
        )
    );
}

#[test]
fn equivalent_takes_precedence() {
    assert_eq!(
        said(Metric::RatePerS, &around(12_000.0, 1.0102, 0.012)),
        (
            Verdict::Equivalent,
            "tcp and unix are equivalent within ±2% \
             (request rate +1.0%, 95% interval +0.1% to +1.9%, 8 blocks)"
                .to_owned()
        )
    );
}

#[test]
fn undecided_forecasts_the_blocks_needed() {
    let mut design = sockets(Metric::RatePerS);
    (design.blocks_min, design.blocks_max) = (5, 15);
    let evaluation = run(
        &design,
        Metric::RatePerS,
        &around(12_000.0, 0.98, 0.02)[..5],
    );
    assert_eq!(
        evaluation.comparisons[0].text,
        "tcp and unix can't be distinguished yet: request rate −2.5% \
         (95% interval −5.4% to +0.6%, 5 blocks); about 5 more blocks would decide"
    );
    assert_eq!(evaluation.comparisons[0].more_blocks, Some(5));
    assert_eq!(evaluation.next_look(), Some(7));

    let (verdict, text) = said(Metric::RatePerS, &around(12_000.0, 1.0, 0.03));
    assert_eq!(verdict, Verdict::Undecided);
    assert!(
        text.ends_with("8 blocks); a plan with about 16 blocks would decide it"),
        "{text}"
    );

    let (_, text) = said(Metric::RatePerS, &around(12_000.0, 1.0, 0.5));
    assert!(
        text.ends_with("no reasonable number of blocks would decide it"),
        "{text}"
    );
}

#[test]
fn too_few_blocks_give_no_interval() {
    for (blocks, text) in [
        (
            0,
            "tcp and unix can't be distinguished yet: no complete block (request rate)",
        ),
        (
            1,
            "tcp and unix can't be distinguished yet: request rate −2.0% from 1 complete block, \
             but an interval needs 3",
        ),
        (
            2,
            "tcp and unix can't be distinguished yet: request rate −2.0% from 2 complete blocks, \
             but an interval needs 3",
        ),
    ] {
        let evaluation = run(
            &sockets(Metric::RatePerS),
            Metric::RatePerS,
            &[(1_000.0, 980.0); 2][..blocks],
        );
        let comparison = &evaluation.comparisons[0];
        assert_eq!(comparison.verdict, Verdict::Undecided);
        assert_eq!(
            (comparison.effect.low, comparison.effect.high),
            (None, None)
        );
        assert_eq!(comparison.text, text);
        assert_eq!(evaluation.looks, []);
    }
}

#[test]
fn a_trial_in_which_all_failed_withholds() {
    let mut blocks = around(12_000.0, 0.9, 0.012);
    blocks[2].1 = 0.0;
    blocks[4].1 = f64::NAN;
    let evaluation = run(&sockets(Metric::RatePerS), Metric::RatePerS, &blocks);
    let comparison = &evaluation.comparisons[0];
    assert_eq!(comparison.verdict, Verdict::Withheld);
    assert_eq!(comparison.effect.ratio, None);
    assert_eq!(
        comparison.text,
        "tcp against unix: request rate, verdict withheld: \
         tcp has no request rate in blocks 3, 5 (zero, or not measured)"
    );
    assert!(evaluation.decided());
}

#[test]
fn identical_and_constant_values_have_clear_verdicts() {
    let (verdict, text) = said(Metric::RatePerS, &[(1.0 / 3.0, 1.0 / 3.0); 8]);
    assert_eq!(verdict, Verdict::Equivalent);
    assert!(
        text.contains("request rate 0.0%, 95% interval 0.0% to 0.0%"),
        "{text}"
    );
    let (verdict, text) = said(Metric::RatePerS, &[(3.0, 2.7); 8]);
    assert_eq!(verdict, Verdict::Slower);
    assert_eq!(
        text,
        "tcp is 10.0% slower than unix (95% interval 10.0% to 10.0%, 8 blocks)"
    );
}

#[test]
fn withholding_keeps_the_estimate() {
    let design = sockets(Metric::RatePerS);
    let mut evaluation = run(&design, Metric::RatePerS, &around(12_000.0, 0.969, 0.012));
    for (because, reason) in [
        (
            WithheldBecause::Finding(FindingId::GeneratorSaturated.into()),
            "the load generator, not the server, may have limited the rate (generator-saturated)",
        ),
        (
            WithheldBecause::Noise,
            "other programs used too much CPU time (noisy-machine)",
        ),
    ] {
        evaluation.withhold(|_| true, &because);
        prony_wording::compose_evaluation(&design, &mut evaluation);
        let comparison = &evaluation.comparisons[0];
        assert_eq!(comparison.verdict, Verdict::Withheld);
        let expected =
            "tcp against unix: request rate −3.1% (95% interval −3.9% to −2.2%, 8 blocks)";
        assert_eq!(
            comparison.text,
            format!("{expected}, verdict withheld: {reason}")
        );
    }
}

#[test]
fn a_doubt_follows_the_claim() {
    let design = sockets(Metric::RatePerS);
    let mut evaluation = run(&design, Metric::RatePerS, &around(12_000.0, 0.969, 0.012));
    evaluation.comparisons[0].crowded_share = Some(0.12);
    prony_wording::compose_evaluation(&design, &mut evaluation);
    let comparison = &evaluation.comparisons[0];
    let doubt = "other processes used 12% of the cores, so the difference may not be the same on a \
                 quiet machine";
    assert_eq!(comparison.doubt.as_deref(), Some(doubt));
    let claim = "tcp is 3.1% slower than unix (95% interval 2.2% to 3.9%, 8 blocks)";
    assert_eq!(comparison.text, format!("{claim}; {doubt}"));
    let document = VerdictDocument::new(ExperimentInfo::default(), &design, evaluation, Vec::new());
    let found = prony_wording::claim(&document, &document.comparisons[0]).unwrap();
    assert_eq!(found.whole(), claim);
    assert_eq!(found.statement, "tcp is 3.1% slower than unix");
}

/// Returns `count` blocks whose ratios are alternately a little above and below `ratio`.
fn blocks_of(ratio: f64, spread: f64, count: usize) -> Vec<(f64, f64)> {
    [spread, -spread]
        .iter()
        .cycle()
        .take(count)
        .map(|step| (1.0, ratio * step.exp()))
        .collect()
}

#[test]
fn a_verdict_stays_at_later_looks() {
    let mut design = sockets(Metric::RatePerS);
    (design.blocks_min, design.blocks_max) = (5, 15);
    // The result is significant after five blocks. The next ten blocks are so noisy that a fixed
    // design of fifteen blocks would not find it.
    let mut blocks = blocks_of(0.97, 0.006, 5);
    let steps: [f64; 10] = [0.1, -0.1, 0.1, -0.05, -0.05, 0.1, -0.1, 0.1, -0.1, 0.0];
    blocks.extend(steps.map(|step| (1.0, 0.97 * step.exp())));
    let all = run(&design, Metric::RatePerS, &blocks);
    assert_eq!(all.comparisons[0].verdict, Verdict::Slower);
    design.blocks_min = 15;
    let once = run(&design, Metric::RatePerS, &blocks);
    assert_eq!(once.comparisons[0].verdict, Verdict::Undecided);
}

#[test]
fn a_verdict_is_taken_back_when_later_blocks_contradict_it() {
    let mut design = sockets(Metric::RatePerS);
    (design.blocks_min, design.blocks_max) = (5, 15);
    let mut blocks = blocks_of(0.97, 0.002, 5);
    let early = run(&design, Metric::RatePerS, &blocks);
    assert_eq!(early.comparisons[0].verdict, Verdict::Slower);
    blocks.extend(blocks_of(1.05, 0.02, 10));
    let late = run(&design, Metric::RatePerS, &blocks);
    let comparison = &late.comparisons[0];
    assert_eq!(comparison.verdict, Verdict::Undecided);
    assert!(comparison.effect.low.unwrap() < 1.0 && comparison.effect.ratio.unwrap() > 1.0);
}

fn moved(metric: Metric, low: f64, ratio: f64, high: f64) -> MovedMetric {
    MovedMetric {
        metric,
        service: None,
        part: MovementRole::Aside,
        value: ratio,
        against_value: 1.0,
        effect: Effect {
            ratio: Some(ratio),
            difference: None,
            low: Some(low),
            high: Some(high),
        },
        blocks: 8,
        text: String::new(),
    }
}

#[test]
fn a_cost_that_differs_while_the_speed_is_undecided() {
    let all = [
        moved(Metric::ServerMemoryBytes, 1.9, 2.0, 2.1),
        moved(Metric::ServerCpuSystemUsPerRequest, 1.12, 1.33, 1.58),
        moved(Metric::InstructionsPerRequest, 1.1, 1.2, 1.3),
    ];
    let cost = changed_cost(&all).unwrap();
    assert_eq!(changed_cost(&all[..1]), None);
    let said = |undecided: &[Metric]| undecided_cost(undecided, "tcp", "unix", cost);
    assert_eq!(
        said(&[Metric::RatePerS]).unwrap(),
        "The request rate can't be distinguished on this machine, but the system CPU per request of \
         tcp is 33.0% higher than that of unix (95% interval 12.0% to 58.0%), which is where a \
         difference would come from."
    );
    let several = said(&[Metric::RatePerS, Metric::ServerMemoryBytes, Metric::P99Us]).unwrap();
    assert!(several.starts_with("The request rate and the p99 response time can't be"));
    assert_eq!(said(&[Metric::ServerMemoryBytes]), None, "not a speed");
    let unclear = moved(Metric::InstructionsPerRequest, 0.9, 1.2, 1.3);
    let said = undecided_cost(&[Metric::RatePerS], "tcp", "unix", &unclear);
    assert_eq!(said, None, "the interval contains no change");
}

#[test]
fn rounds_next_to_blocks() {
    let design = sockets(Metric::RatePerS);
    let blocks = around(1_000.0, 0.9, 0.02);
    let evaluation = run(&design, Metric::RatePerS, &blocks);
    let rounds = |side: fn(&(f64, f64)) -> f64, spread: f64| -> RoundValues {
        let blocks = (1..).zip(&blocks);
        let rounds = blocks.flat_map(|(block, values)| {
            let value = side(values);
            (0..10).map(move |round| {
                let step = if round % 2 == 0 { spread } else { -spread };
                ((block, round), value * step.exp())
            })
        });
        rounds.collect()
    };
    let mut values = [
        rounds(|values| values.0, 0.0),
        rounds(|values| values.1, 0.01),
    ];
    let said = |values: &[RoundValues], metric| {
        let mut compared = compare_rounds(&design, &evaluation, metric, values);
        prony_wording::compose_rounds(&mut compared);
        compared.into_iter().map(|one| one.text).collect::<Vec<_>>()
    };
    let text = "Request rate of tcp against unix: computed from the 80 rounds instead of the 8 \
                blocks, the change is −10.0% (−10.2% to −9.8%). The verdict uses the blocks: −10.0% \
                (−11.3% to −8.7%). \
                The blocks differ by more than their rounds explain, so more blocks would \
                narrow the interval, but longer blocks would not.";
    assert_eq!(said(&values, RoundMetric::RatePerS), [text]);
    values[1].remove(&(3, 4));
    let lacking = said(&values, RoundMetric::MeanResponseUs).remove(0);
    assert!(
        lacking.starts_with("Mean response time of tcp against unix: computed from the 79 rounds instead of the 8 blocks")
    );
    assert!(lacking.ends_with(" Omitted because one of the two variants has no value: 1 round."));
    let blocks = around(1_000.0, 0.99, 0.05);
    let evaluation = run(&design, Metric::RatePerS, &blocks);
    let values = [0, 1].map(|side| -> RoundValues {
        let values = blocks.iter().map(|values| [values.0, values.1][side]);
        let rounds = (1..).zip(values).flat_map(|(block, value)| {
            (0..10).map(move |round| {
                let step = if round % 2 == side as u32 {
                    1e-4
                } else {
                    -1e-4
                };
                ((block, round), value * f64::exp(step))
            })
        });
        rounds.collect()
    });
    let mut compared = compare_rounds(&design, &evaluation, RoundMetric::RatePerS, &values);
    prony_wording::compose_rounds(&mut compared);
    let compared = &compared[0];
    assert!(compared.rounds_high.is_some_and(|high| high < 1.0));
    assert!(compared.effect.high.is_some_and(|high| high > 1.0));
    assert!(
        compared.text.starts_with(
            "Request rate of tcp against unix: computed from the 8 blocks, the change is −1.0% ("
        ) && compared.text.contains("is narrower, but is not shown"),
        "{}",
        compared.text
    );
    assert_eq!(
        compare_rounds(&design, &evaluation, RoundMetric::RatePerS, &[]),
        []
    );
    let empty = [RoundValues::new(), RoundValues::new()];
    assert_eq!(said(&empty, RoundMetric::RatePerS), [""; 0]);
}
