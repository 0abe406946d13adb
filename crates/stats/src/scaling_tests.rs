use super::*;
use crate::summary::MetricSummary;

fn factor(name: &str, levels: &[&str]) -> Factor {
    Factor {
        name: name.to_owned(),
        levels: levels.iter().map(|&level| level.to_owned()).collect(),
    }
}

fn design(factors: Vec<Factor>) -> Design {
    Design {
        factors,
        variants: Vec::new(),
        baseline: Levels::new(),
        margin: 0.02,
        family: vec![Metric::RatePerS, Metric::P99Us],
        blocks_min: 3,
        blocks_max: 3,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

fn variant(levels: &[(&str, &str)], rate: f64) -> VariantSummary {
    let summary = MetricSummary {
        mean: None,
        median: rate,
        low: None,
        high: None,
        best: rate,
    };
    let levels = levels.iter();
    VariantSummary {
        entries: None,
        service_cpu_us_per_request: Default::default(),
        levels: levels
            .map(|&(factor, level)| (factor.to_owned(), level.to_owned()))
            .collect(),
        name: String::new(),
        trials: 1,
        relative_percent: None,
        metrics: [(Metric::RatePerS, summary), (Metric::P99Us, summary)].into(),
    }
}

#[test]
fn proportional_growth_has_efficiency_and_r_squared_of_one() {
    let design = design(vec![factor("cores", &["direct", "1", "2", "10"])]);
    // The levels are not in numerical order, and one is not a number.
    let variants = [("10", 1000.0), ("1", 100.0), ("direct", 1e6), ("2", 200.0)]
        .map(|(cores, rate)| variant(&[("cores", cores)], rate));
    let [line] = &scaling_lines(&design, &variants)[..] else {
        panic!("the p99 does not grow");
    };
    let at: Vec<u32> = line.points.iter().map(|point| point.at).collect();
    assert_eq!(at, [1, 2, 10]);
    assert!((line.slope - 100.0).abs() < 1e-9, "{}", line.slope);
    assert!((line.straightness.unwrap() - 1.0).abs() < 1e-12);
    assert!(
        line.points
            .iter()
            .all(|point| (point.in_step - 1.0).abs() < 1e-12)
    );
}

#[test]
fn each_combination_of_the_other_factors_has_a_line() {
    let factors = vec![factor("body", &["1K", "10K"]), factor("cores", &["1", "2"])];
    let variants = [
        variant(&[("body", "1K"), ("cores", "1")], 100.0),
        variant(&[("body", "1K"), ("cores", "2")], 150.0),
        variant(&[("body", "10K"), ("cores", "1")], 50.0),
        variant(&[("body", "10K"), ("cores", "2")], 50.0),
    ];
    let lines = scaling_lines(&design(factors), &variants);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].levels["body"], "1K");
    assert!((lines[0].points[1].in_step - 0.75).abs() < 1e-12);
    assert_eq!((lines[1].slope, lines[1].straightness), (0.0, None));
}

#[test]
fn r_squared_is_lower_for_jumps_and_one_for_a_constant() {
    let design = design(vec![factor("cores", &["1", "2", "3", "4"])]);
    let line = |rates: [f64; 4]| {
        let variants: Vec<_> = (1..)
            .zip(rates)
            .map(|(cores, rate): (u32, f64)| variant(&[("cores", &cores.to_string())], rate))
            .collect();
        scaling_lines(&design, &variants)[0].straightness.unwrap()
    };
    // Computed by hand: the slope is 6/5, and the line explains 7.2 of the variance of 8.
    assert!((line([2.0, 4.0, 4.0, 6.0]) - 0.9).abs() < 1e-12);
    assert!((line([7.0; 4]) - 1.0).abs() < 1e-12);
    let up = line([1.0, 2.0, 3.0, 4.0]);
    assert!(line([1.0, 4.0, 4.0, 4.0]) < up);
}

#[test]
fn words_and_single_numbers_make_no_line() {
    for levels in [
        &["1.1", "2"][..],
        &["tcp", "unix"],
        &["direct", "1"],
        &["1K", "10K"],
    ] {
        let design = design(vec![factor("f", levels)]);
        let variants: Vec<_> = levels
            .iter()
            .map(|level| variant(&[("f", level)], 1.0))
            .collect();
        assert_eq!(scaling_lines(&design, &variants), []);
    }
}
