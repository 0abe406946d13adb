//! Check: experiments with two identical servers hardly ever find a difference.

use super::experiments::{self, CostUnit, EXPERIMENTS, OriginCosts};
use super::figures::CheckFigure;
use super::power::BASE_ROUNDS;
use super::program::Prony;

/// Maximum number of experiments that may report a difference.
const FALSE_DIFFERENCES_MAX: u64 = 1;

/// Runs the experiments and counts those that report a difference.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let concluded = experiments::run(
        prony,
        OriginCosts {
            base: BASE_ROUNDS,
            other: BASE_ROUNDS,
            unit: CostUnit::Rounds,
        },
    )?;
    let right = |verdict: &str| matches!(verdict, "equivalent" | "undecided");
    let mut figures: Vec<CheckFigure> = (1..)
        .zip(&concluded)
        .map(|(seed, c)| c.figure(seed))
        .collect();
    let wrong = concluded.iter().filter(|c| !right(&c.verdict)).count() as u64;
    figures.push(CheckFigure::judged(
        "anything else",
        format!("at most {FALSE_DIFFERENCES_MAX} of {EXPERIMENTS}"),
        format!("{wrong}"),
        wrong <= FALSE_DIFFERENCES_MAX,
    ));
    Ok(figures)
}
