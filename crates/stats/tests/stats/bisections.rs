//! Searches for a slower commit, with simulated measurements.

use std::f64::consts::SQRT_2;

use prony_stats::bisection::{
    BISECTION_BLOCKS_MAX, BisectionStep, commit_verdict, comparison_alpha, comparison_margin,
    next_step,
};

use crate::simulation::{Draws, Setting};

const COMMITS: usize = 64;

/// Relative slow-down of the commits from the step on.
const STEP: f64 = 0.03;

/// Standard deviation of each trial, relative to its mean.
const NOISE: f64 = 0.01;

#[test]
fn a_step_of_three_percent_is_found_among_64_commits_with_one_percent_of_noise() {
    const SEARCHES: usize = 200;
    let mut draws = Draws::seeded(64);
    let mut right = 0;
    for search in 0..SEARCHES {
        let slow = 1 + search % COMMITS;
        let (mut judged, mut margin) = (Vec::new(), 0.02);
        let end = loop {
            match next_step(COMMITS, &judged) {
                BisectionStep::Compare(commit) => {
                    let factor = if commit >= slow { 1.0 - STEP } else { 1.0 };
                    let setting = Setting {
                        margin,
                        alpha: comparison_alpha(COMMITS),
                        ..Setting::new(&[1.0, factor], NOISE * SQRT_2, (5, BISECTION_BLOCKS_MAX))
                    };
                    let comparisons = setting.run(&mut draws).comparisons;
                    if judged.is_empty() {
                        margin = comparison_margin(&comparisons).unwrap_or(margin);
                    }
                    judged.push((commit, commit_verdict(&comparisons)));
                }
                end => break end,
            }
        };
        let found = BisectionStep::Found {
            first: slow,
            last: slow,
        };
        right += usize::from(end == found);
        assert!(judged.len() <= 7, "{} comparisons", judged.len());
    }
    assert!(right * 100 >= SEARCHES * 95, "{right} of {SEARCHES}");
}
