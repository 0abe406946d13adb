//! Baselines, full products of factors, factor effects, and contradictory designs.

use std::collections::BTreeMap;

use prony_stats::{
    Dependence, Design, DesignError, EffectKind, Evaluation, ExperimentInfo, Factor,
    FactorDependence, Levels, Metric, Trials, Verdict, VerdictDocument, WithheldBecause, evaluate,
};

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

/// Returns a full product of {native, jail} × {tcp, unix}.
fn places(baseline: &[(&str, &str)]) -> Design {
    let variants = [
        ("native", "tcp"),
        ("native", "unix"),
        ("jail", "tcp"),
        ("jail", "unix"),
    ];
    Design {
        factors: vec![
            factor("place", &["native", "jail"]),
            factor("socket", &["tcp", "unix"]),
        ],
        variants: variants
            .iter()
            .map(|&(place, socket)| levels(&[("place", place), ("socket", socket)]))
            .collect(),
        baseline: levels(baseline),
        margin: 0.02,
        family: vec![Metric::RatePerS],
        blocks_min: 5,
        blocks_max: 15,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

/// Runs five blocks in which each variant has its own rate. Rates vary a lot between blocks, and
/// little within them.
fn run(design: &Design, rates: &[f64]) -> Evaluation {
    let mut trials = Trials::new();
    for block in 0..5_u32 {
        for (variant, rate) in rates.iter().enumerate() {
            let wobble = 0.002 * f64::from((block * 3 + variant as u32 * 2) % 5);
            let rate = rate * (1.0 + f64::from(block)) * (1.0 + wobble);
            trials.add(block, variant, BTreeMap::from([(Metric::RatePerS, rate)]));
        }
    }
    evaluate(design, &trials, &[]).unwrap()
}

fn compared(evaluation: &Evaluation) -> Vec<(&str, &str)> {
    evaluation
        .comparisons
        .iter()
        .map(|comparison| (comparison.name.as_str(), comparison.against_name.as_str()))
        .collect()
}

#[test]
fn a_full_baseline_is_what_all_others_are_compared_with() {
    let evaluation = run(
        &places(&[("place", "native"), ("socket", "unix")]),
        &[97.0, 100.0, 87.0, 90.0],
    );
    assert_eq!(
        compared(&evaluation),
        [
            ("native, tcp", "native, unix"),
            ("jail, tcp", "native, unix"),
            ("jail, unix", "native, unix")
        ]
    );
    let comparison = &evaluation.comparisons[1];
    assert_eq!(comparison.verdict, Verdict::Slower);
    let (low, high) = comparison.effect.low.zip(comparison.effect.high).unwrap();
    assert!(low > 0.86 && high < 0.88, "{low} to {high}");
    assert!(evaluation.decided());
    assert_eq!(evaluation.next_look(), None);
}

#[test]
fn a_partial_baseline_compares_within_each_cell_of_the_others() {
    let evaluation = run(&places(&[("place", "native")]), &[97.0, 100.0, 87.0, 90.0]);
    assert_eq!(
        compared(&evaluation),
        [("jail, tcp", "native, tcp"), ("jail, unix", "native, unix")]
    );
    let percent: Vec<f64> = evaluation
        .variants
        .iter()
        .map(|variant| variant.relative_percent.unwrap().round())
        .collect();
    assert_eq!(percent, [100.0, 100.0, 90.0, 90.0]);
}

#[test]
fn an_effect_that_is_the_same_everywhere_says_so() {
    let evaluation = run(
        &places(&[("place", "native"), ("socket", "unix")]),
        &[97.0, 100.0, 89.24, 92.0],
    );
    let independent = |factor: &str| FactorDependence {
        factor: factor.to_owned(),
        dependence: Dependence::None,
    };
    let found = evaluation.effects.iter();
    let found: Vec<_> = found
        .map(|it| (it.effect.ratio.unwrap(), it.dependences.clone()))
        .collect();
    let expected = [
        (0.92, vec![independent("socket")]),
        (0.97, vec![independent("place")]),
        (1.0, Vec::new()),
    ];
    for ((ratio, dependences), (near, expected)) in found.iter().zip(&expected) {
        assert!((ratio - near).abs() < 0.001, "{ratio}");
        assert_eq!(dependences, expected);
    }
    assert_eq!(evaluation.effects[0].kind, EffectKind::Main);
    assert_eq!(evaluation.effects[0].levels, levels(&[("place", "jail")]));
    assert_eq!(
        evaluation.effects[0].against,
        levels(&[("place", "native")])
    );
    assert_eq!(evaluation.effects[2].kind, EffectKind::Interaction);
}

#[test]
fn an_effect_that_depends_on_another_factor_names_both() {
    let evaluation = run(
        &places(&[("place", "native"), ("socket", "unix")]),
        &[100.0, 100.0, 80.0, 95.0],
    );
    let Dependence::Established(levels) = &evaluation.effects[0].dependences[0].dependence else {
        panic!("{:?}", evaluation.effects[0]);
    };
    let found: Vec<_> = levels
        .iter()
        .map(|it| (it.level.as_str(), it.effect.ratio.unwrap()))
        .collect();
    let [("tcp", tcp), ("unix", unix)] = found[..] else {
        panic!("{found:?}");
    };
    assert!(
        (tcp - 0.8).abs() < 0.01 && (unix - 0.95).abs() < 0.01,
        "{found:?}"
    );
    let interaction = evaluation.effects[2].effect.ratio.unwrap();
    assert!((interaction - 80.0 / 95.0).abs() < 0.01, "{interaction}");
}

#[test]
fn effects_on_withheld_metrics_are_removed() {
    let design = places(&[("place", "native"), ("socket", "unix")]);
    let mut evaluation = run(&design, &[950.0, 1000.0, 874.0, 920.0]);
    let before = evaluation.effects.clone();
    assert!(!before.is_empty());
    evaluation.withhold(|_| false, &WithheldBecause::Noise);
    assert_eq!(evaluation.effects, before);
    evaluation.withhold(
        |comparison| comparison.name == "jail, tcp",
        &WithheldBecause::Noise,
    );
    assert_eq!(evaluation.effects, []);
}

#[test]
fn a_part_of_a_product_has_no_effects() {
    let mut design = places(&[("place", "native")]);
    design.variants.pop();
    let evaluation = run(&design, &[97.0, 100.0, 87.0]);
    assert_eq!(evaluation.effects, []);
    // The variant `native, unix` has no counterpart; `jail, tcp` has one.
    assert_eq!(compared(&evaluation), [("jail, tcp", "native, tcp")]);
}

#[test]
fn a_factor_with_one_level_is_not_named() {
    let mut design = places(&[("socket", "unix")]);
    design.factors[0].levels.pop();
    design.variants.truncate(2);
    let evaluation = run(&design, &[97.0, 100.0]);
    assert_eq!(compared(&evaluation), [("tcp", "unix")]);
    assert_eq!(evaluation.effects, []);
}

#[test]
fn other_metrics_are_described_without_a_verdict() {
    let design = places(&[("place", "native")]);
    let mut trials = Trials::new();
    for block in 0..5 {
        for variant in 0..4_u32 {
            let memory = 100.0 + f64::from(variant) + 0.1 * f64::from(block * variant);
            let values = BTreeMap::from([
                (Metric::RatePerS, 100.0),
                (Metric::ServerMemoryBytes, memory),
            ]);
            trials.add(block, variant as usize, values);
        }
    }
    // This trial has no telemetry.
    trials.add(5, 0, BTreeMap::from([(Metric::RatePerS, 100.0)]));
    for variant in 1..4 {
        let values = BTreeMap::from([
            (Metric::RatePerS, 100.0),
            (Metric::ServerMemoryBytes, 100.0),
        ]);
        trials.add(5, variant, values);
    }
    let evaluation = evaluate(&design, &trials, &[]).unwrap();
    assert_eq!(evaluation.comparisons.len(), 2);
    assert_eq!(evaluation.described.len(), 2);
    let described = &evaluation.described[0];
    assert_eq!(
        (described.metric, described.blocks),
        (Metric::ServerMemoryBytes, 5)
    );
    let ratio = described.effect.ratio.unwrap();
    assert!((ratio - 1.024).abs() < 0.001, "{ratio}");
}

#[test]
fn equal_variants_end_at_the_first_look() {
    let evaluation = run(&places(&[("place", "native")]), &[100.0; 4]);
    assert!(
        evaluation
            .comparisons
            .iter()
            .all(|comparison| comparison.verdict == Verdict::Equivalent)
    );
}

#[test]
fn looks_are_few() {
    let planned = |min, max| {
        let mut design = places(&[("place", "native")]);
        (design.blocks_min, design.blocks_max) = (min, max);
        design.planned_looks()
    };
    assert_eq!(planned(5, 15), [5, 7, 10, 15]);
    assert_eq!(planned(8, 8), [8]);
    // The first look is at the minimum, however close the maximum is.
    assert_eq!(planned(5, 6), [5, 6]);
    assert_eq!(planned(14, 15), [14, 15]);
    assert_eq!(planned(1, 3), [3]);
    assert_eq!(planned(1, 4), [3, 4]);
    assert!(planned(1, 2).is_empty());
}

#[test]
fn contradictions_are_named() {
    let good = places(&[("place", "native")]);
    let error = |change: &dyn Fn(&mut Design)| {
        let mut design = good.clone();
        change(&mut design);
        design.pairs().unwrap_err()
    };
    assert_eq!(
        error(&|design| design.baseline = levels(&[("stack", "x")])),
        DesignError::UnknownFactor("stack".to_owned())
    );
    assert_eq!(
        error(&|design| design.baseline = levels(&[("place", "moon")])).to_string(),
        "factor \"place\" has no level \"moon\""
    );
    assert_eq!(
        error(&|design| design.baseline.clear()),
        DesignError::NoBaseline
    );
    assert_eq!(
        error(&|design| design.variants.truncate(2)),
        DesignError::NothingToCompare
    );
    assert_eq!(
        error(&|design| design.variants[1] = design.variants[0].clone()),
        DesignError::SameVariantTwice("native, tcp".to_owned())
    );
    assert_eq!(
        error(&|design| {
            design.variants[1].swap_remove("socket");
        }),
        DesignError::MissingFactor("socket".to_owned())
    );
    assert_eq!(
        error(&|design| design.family.clear()),
        DesignError::NoMetric
    );
    assert_eq!(
        error(&|design| design.family.push(Metric::NetworkOutBitsPerS)),
        DesignError::NoDirection(Metric::NetworkOutBitsPerS)
    );
    assert_eq!(
        error(&|design| design.family.push(Metric::RatePerS)),
        DesignError::SameMetricTwice(Metric::RatePerS)
    );
    assert_eq!(
        error(&|design| design.blocks_max = 4),
        DesignError::Blocks { min: 5, max: 4 }
    );
    assert_eq!(
        error(&|design| design.margin = 0.0),
        DesignError::Margin(0.0)
    );
    assert_eq!(error(&|design| design.alpha = 0.5), DesignError::Alpha(0.5));
}

#[test]
fn metrics_have_the_names_of_the_document() {
    for &metric in Metric::ALL {
        assert_eq!(metric.name().parse(), Ok(metric));
        assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
    }
    assert!(
        "p99_ms"
            .parse::<Metric>()
            .unwrap_err()
            .to_string()
            .contains("p99_us")
    );
}

#[test]
fn the_document_has_the_keys_of_its_schema() {
    let design = places(&[("place", "native"), ("socket", "unix")]);
    let evaluation = run(&design, &[97.0, 100.0, 87.0, 90.0]);
    let about = ExperimentInfo {
        name: "sockets".to_owned(),
        question: "What does a jail cost?".to_owned(),
        seed: 7,
        order: vec![vec!["jail, tcp".to_owned(), "native, unix".to_owned()]],
    };
    let document = VerdictDocument::new(about, &design, evaluation, Vec::new());
    let json = serde_json::to_value(&document).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys[0], "schema");
    assert_eq!(json["schema"], "prony.verdict/1");
    assert_eq!(json["blocks"], 5);
    assert_eq!(json["baseline"]["socket"], "unix");
    let variant = &json["variants"][0];
    assert_eq!(variant["trials"], 5);
    assert_eq!(variant["levels"]["place"], "native");
    assert!(variant["relative_percent"].as_f64().unwrap() > 96.0);
    for key in ["median", "low", "high", "best"] {
        assert!(variant["metrics"]["rate_per_s"][key].is_f64(), "{key}");
    }
    let comparison = &json["comparisons"][0];
    assert_eq!(comparison["metric"], "rate_per_s");
    assert_eq!(comparison["verdict"], "slower");
    assert_eq!(comparison["against"]["socket"], "unix");
    for key in ["ratio", "low", "high"] {
        assert!(comparison[key].is_f64(), "{key}");
    }
    assert!(comparison.get("difference").is_none());
    let back: VerdictDocument = serde_json::from_value(json).unwrap();
    assert_eq!(back, document);
}

#[test]
fn a_variant_that_is_left_out_does_not_share_the_error_rate() {
    let design = |variants: &[&str]| Design {
        factors: vec![factor("socket", variants)],
        variants: variants
            .iter()
            .map(|level| levels(&[("socket", level)]))
            .collect(),
        ..places(&[("socket", "a")])
    };
    let trials = |rate: f64, variants: usize| {
        let mut trials = Trials::new();
        for block in 0..5_u32 {
            for variant in 0..variants {
                let wobble = 0.01 * f64::from((block * 3 + variant as u32 * 2) % 5);
                let rate = if variant == 1 { rate } else { 100.0 };
                let values = BTreeMap::from([(Metric::RatePerS, rate * (1.0 + wobble))]);
                trials.add(
                    block,
                    variant,
                    if variant < 2 { values } else { BTreeMap::new() },
                );
            }
        }
        trials
    };
    let verdict = |design: &Design, trials: &Trials| {
        let evaluation = evaluate(design, trials, &[]).unwrap();
        assert_eq!(evaluation.blocks, 5);
        evaluation.comparisons[0].verdict
    };
    let (two, many) = (design(&["a", "b"]), design(&["a", "b", "c", "d"]));
    let mut is_shared = false;
    for tenths in 1000..1200_u32 {
        let rate = f64::from(tenths) / 10.0;
        let alone = verdict(&two, &trials(rate, 2));
        let mut left_out = trials(rate, 2);
        left_out.leave_out(2);
        left_out.leave_out(3);
        assert_eq!(verdict(&many, &left_out), alone, "{rate}");
        is_shared |= verdict(&many, &trials(rate, 4)) != alone;
    }
    assert!(is_shared, "the other variants change no verdict");
}
