//! Sentences about the comparison of capacities.

use prony_stats::{Design, Factor, Levels, Metric, Trials, Values, Verdict, evaluate};

fn levels(server: &str) -> Levels {
    [("server".to_owned(), server.to_owned())]
        .into_iter()
        .collect()
}

fn design(servers: &[&str]) -> Design {
    Design {
        factors: vec![Factor {
            name: "server".to_owned(),
            levels: servers.iter().map(|it| (*it).to_owned()).collect(),
        }],
        variants: servers.iter().map(|it| levels(it)).collect(),
        baseline: levels(servers[0]),
        margin: 0.02,
        family: vec![Metric::CapacityPerS],
        blocks_min: 5,
        blocks_max: 5,
        alpha: 0.05,
        goals: vec!["p99<50ms".to_owned(), "failed<0.1%".to_owned()],
    }
}

/// Returns five blocks in which each variant's capacity varies by 1% around the given one.
fn trials(capacities: &[f64]) -> Trials {
    let mut trials = Trials::new();
    for (block, noise) in (1..).zip([0.99, 1.01, 1.0, 0.995, 1.005]) {
        for (variant, capacity) in capacities.iter().enumerate() {
            let noise = if variant == 0 { noise } else { 1.0 };
            let values: Values = [(Metric::CapacityPerS, capacity * noise)].into();
            trials.add(block, variant, values);
        }
    }
    trials
}

fn sentences(servers: &[&str], capacities: &[f64]) -> Vec<(Verdict, String)> {
    let design = design(servers);
    let mut evaluation = evaluate(&design, &trials(capacities), &[]).unwrap();
    prony_wording::compose_evaluation(&design, &mut evaluation);
    let comparisons = evaluation.comparisons.into_iter();
    comparisons.map(|it| (it.verdict, it.text)).collect()
}

#[test]
fn a_difference_names_the_goals_and_both_rates() {
    let two = sentences(&["old", "new"], &[7_510.0, 8_410.0]);
    assert_eq!(
        two,
        [(
            Verdict::Faster,
            "new serves 12.0% (10.9% to 13.1%) more requests per second at p99 < 50 ms and failed < 0.1%: \
             8,410 against 7,510"
                .to_owned()
        )]
    );
    let three = sentences(&["old", "slow", "fast"], &[1_000.0, 500.0, 3_000.0]);
    let texts: Vec<&str> = three.iter().map(|(_, text)| text.as_str()).collect();
    assert!(
        texts[0].contains("fewer requests per second than old at p99 < 50 ms and"),
        "{texts:?}"
    );
    assert!(
        texts[1].contains("as many requests per second as old at p99"),
        "{texts:?}"
    );
    assert!(texts[1].ends_with(": 3,000 against 1,000"), "{texts:?}");
}

#[test]
fn equal_capacities_are_equivalent_at_their_goals() {
    let equal = sentences(&["old", "new"], &[2_000.0, 2_001.0]);
    assert_eq!(equal[0].0, Verdict::Equivalent);
    assert!(
        equal[0]
            .1
            .contains("(capacity at p99 < 50 ms and failed < 0.1%"),
        "{equal:?}"
    );
}
