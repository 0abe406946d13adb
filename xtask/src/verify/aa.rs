//! Two servers that are the same must hardly ever be told apart.

use super::experiments::{self, EXPERIMENTS, Prices};
use super::figures::Figure;
use super::power::BASE_ROUNDS;
use super::program::Prony;

/// How many of the experiments may find a difference that isn't there.
const MOST_WRONG: u64 = 1;

/// Runs the experiments and counts.
pub(super) fn run(prony: &Prony) -> Result<Vec<Figure>, String> {
    let concluded = experiments::run(
        prony,
        Prices {
            base: BASE_ROUNDS,
            other: BASE_ROUNDS,
        },
    )?;
    let right = |verdict: &str| matches!(verdict, "equivalent" | "undecided");
    let mut figures: Vec<Figure> = (1..)
        .zip(&concluded)
        .map(|(seed, c)| c.figure(seed))
        .collect();
    let wrong = concluded.iter().filter(|c| !right(&c.verdict)).count() as u64;
    figures.push(Figure::judged(
        "anything else",
        format!("at most {MOST_WRONG} of {EXPERIMENTS}"),
        format!("{wrong}"),
        wrong <= MOST_WRONG,
    ));
    Ok(figures)
}
