//! Check: intervals within one load contain the truth as often as they claim, in simulated queues.

use super::figures::CheckFigure;
use super::program::Prony;
use crate::cargo::cargo;

/// Test that simulates the queues and prints one line for each.
const SIMULATION: &str = "intervals_cover_the_truth_in_many_simulated_loads";

/// Runs the simulation and shows its lines.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let runs = prony.number_of(300).to_string();
    let arguments = [
        "test",
        "--release",
        "--package",
        "prony-stats",
        "--test",
        "stats",
        "--",
        "--ignored",
        "--nocapture",
        SIMULATION,
    ];
    let output = cargo(&arguments).env("SIMULATED_RUNS", &runs).output();
    let output = output.map_err(|error| format!("cargo test: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines = printed.lines().filter_map(|line| line.split_once(": "));
    let coverages =
        lines.filter_map(|(case, rest)| Some((case, rest.split_once('%')?.0.parse::<f64>().ok()?)));
    let figures: Vec<CheckFigure> = coverages
        .map(|(case, percent)| {
            let expected = "91% to 99.5%".to_owned();
            let holds = (91.0..=99.5).contains(&percent);
            CheckFigure::judged(case, expected, format!("{percent}%"), holds)
        })
        .collect();
    if figures.is_empty() {
        return Err(format!("cargo test: {}", output.status));
    }
    Ok(figures)
}
