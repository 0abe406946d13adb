//! Sentences about main effects and interactions.

use prony_stats::{
    Dependence, Design, Effect, EffectKind, Factor, FactorDependence, FactorEffect, LevelEffect,
    Levels, Metric, Trials, evaluate,
};

fn levels(pairs: &[(&str, &str)]) -> Levels {
    let owned = pairs
        .iter()
        .map(|(factor, level)| ((*factor).to_owned(), (*level).to_owned()));
    owned.collect()
}

fn design() -> Design {
    let factor = |name: &str, levels: [&str; 2]| Factor {
        name: name.to_owned(),
        levels: levels.map(str::to_owned).to_vec(),
    };
    Design {
        factors: vec![
            factor("place", ["native", "jail"]),
            factor("cores", ["1", "2"]),
        ],
        variants: ["native", "jail"]
            .map(|place| levels(&[("place", place), ("cores", "1")]))
            .to_vec(),
        baseline: levels(&[("place", "native")]),
        margin: 0.02,
        family: vec![Metric::RatePerS],
        blocks_min: 5,
        blocks_max: 5,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

fn ratio(ratio: f64, low: f64, high: f64) -> Effect {
    Effect {
        ratio: Some(ratio),
        difference: None,
        low: Some(low),
        high: Some(high),
    }
}

fn said(effect: FactorEffect) -> String {
    let design = design();
    let mut evaluation = evaluate(&design, &Trials::new(), &[]).unwrap();
    evaluation.effects = vec![effect];
    prony_wording::compose_evaluation(&design, &mut evaluation);
    evaluation.effects.remove(0).text
}

fn main_effect(dependence: Dependence) -> FactorEffect {
    FactorEffect {
        kind: EffectKind::Main,
        metric: Metric::RatePerS,
        levels: levels(&[("place", "jail")]),
        against: levels(&[("place", "native")]),
        effect: ratio(0.92, 0.91, 0.93),
        dependences: vec![FactorDependence {
            factor: "cores".to_owned(),
            dependence,
        }],
        text: String::new(),
    }
}

#[test]
fn a_main_effect_says_what_it_depends_on() {
    let costs = "jail instead of native: costs 8.0% (7.0% to 9.0%)";
    let at = |level: &str, effect| LevelEffect {
        level: level.to_owned(),
        effect,
    };
    let levels = vec![
        at("1", ratio(0.8, 0.79, 0.81)),
        at("2", ratio(0.95, 0.94, 0.96)),
    ];
    for (dependence, rest) in [
        (Dependence::None, ", regardless of cores"),
        (
            Dependence::Unclear,
            "; it is unclear whether it depends on cores",
        ),
        (
            Dependence::Established(levels),
            "; it depends on cores (−20.0% with cores = 1, −5.0% with cores = 2)",
        ),
    ] {
        assert_eq!(said(main_effect(dependence)), format!("{costs}{rest}"));
    }
}

#[test]
fn an_interaction_names_both_steps() {
    let effect = FactorEffect {
        kind: EffectKind::Interaction,
        metric: Metric::RatePerS,
        levels: levels(&[("place", "jail"), ("cores", "2")]),
        against: levels(&[("place", "native"), ("cores", "1")]),
        effect: ratio(1.0, 0.99, 1.01),
        dependences: Vec::new(),
        text: String::new(),
    };
    assert_eq!(
        said(effect),
        "with cores = 2 instead of cores = 1, the effect of jail instead of native on the request \
         rate changes by 0.0% (−1.0% to +1.0%)"
    );
}
