//! Fleet rows: the cost of a fleet with many agents, and the synchronization of the agents' starts.
//!
//! Each row runs the release binary as a user would, over a real nats-server. Each agent runs in
//! its own network namespace, except in the row with hundreds of agents, which simulates them in
//! one process.

mod many;
mod site;
mod together;

use std::path::{Path, PathBuf};

use super::programs;
use super::server::BenchFolder;

/// A row of the fleet table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FleetRow {
    /// Skew of the agents' starts.
    Skew,
    /// Cost of the coordinator with a few agents.
    Cost,
    /// Cost with hundreds of agents, with a check that everything they send is counted.
    Many,
}

/// All rows, in the order of the table.
pub(super) const ROWS: &[FleetRow] = &[FleetRow::Skew, FleetRow::Cost, FleetRow::Many];

impl FleetRow {
    /// Name of the row on the command line.
    pub(super) fn id(self) -> &'static str {
        match self {
            FleetRow::Skew => "fleet-skew",
            FleetRow::Cost => "fleet-cost",
            FleetRow::Many => "fleet-500",
        }
    }

    /// Name of the row in the table.
    pub(super) fn title(self) -> &'static str {
        match self {
            FleetRow::Skew => "4 agents in namespaces, 100 starts",
            FleetRow::Cost => "4 agents in namespaces, 20 s at 2,000/s each",
            FleetRow::Many => "500 simulated agents, 20 s at 1,000/s each",
        }
    }
}

/// A measured value and its requirement.
#[derive(Debug, Clone, PartialEq)]
struct FleetFigure {
    /// The requirement; `None` if the value is only shown.
    wanted: Option<&'static str>,
    found: String,
    met: bool,
}

impl FleetFigure {
    fn judged(wanted: &'static str, found: String, met: bool) -> FleetFigure {
        FleetFigure {
            wanted: Some(wanted),
            found,
            met,
        }
    }

    fn shown(found: String) -> FleetFigure {
        FleetFigure {
            wanted: None,
            found,
            met: true,
        }
    }
}

/// Paths of the programs that the rows need.
struct FleetPrograms {
    prony: PathBuf,
    nginx: PathBuf,
    simulated_agents: PathBuf,
}

pub(super) struct Outcomes(Vec<(FleetRow, Result<Vec<FleetFigure>, String>)>);

/// Measures the rows. Each row gets a folder below `own`.
pub(super) fn measure(
    rows: &[FleetRow],
    prony: Option<&Path>,
    own: &Path,
) -> Result<Outcomes, String> {
    let programs = FleetPrograms {
        prony: match prony {
            Some(path) => std::path::absolute(path).map_err(|e| e.to_string())?,
            None => programs::build("prony")?,
        },
        nginx: programs::nginx()?,
        simulated_agents: programs::build_example("prony-fleet", "simulated_agents")?,
    };
    let mut outcomes = Vec::new();
    for &row in rows {
        println!("{}: {}", row.id(), row.title());
        let here = |e: std::io::Error| format!("{}: {e}", own.display());
        let folder = BenchFolder::new(own).map_err(here)?;
        let outcome = match row {
            FleetRow::Skew => together::skew(&programs, folder.path()),
            FleetRow::Cost => together::cost(&programs, folder.path()),
            FleetRow::Many => many::measure(&programs, folder.path()),
        };
        outcomes.push((row, outcome));
    }
    Ok(Outcomes(outcomes))
}

impl Outcomes {
    /// Returns true if every target is met.
    pub(super) fn all_met(&self) -> bool {
        let met = |outcome: &Result<Vec<FleetFigure>, String>| {
            let figures = outcome.as_deref();
            figures.is_ok_and(|figures| figures.iter().all(|figure| figure.met))
        };
        self.0.iter().all(|(_, outcome)| met(outcome))
    }

    /// Renders the results as a Markdown table.
    pub(super) fn render(&self) -> String {
        let mut table = "| row | target | found | |\n|---|---|---|---|\n".to_owned();
        for (row, outcome) in &self.0 {
            // Only the first line of a row shows the title.
            let mut title = row.title();
            let figures = match outcome {
                Ok(figures) => figures,
                Err(why) => {
                    let why = why.trim().replace('\n', " ");
                    table.push_str(&format!("| {title} | – | not measured: {why} | MISS |\n"));
                    continue;
                }
            };
            for figure in figures {
                let (wanted, word) = match (figure.wanted, figure.met) {
                    (None, _) => ("–", ""),
                    (Some(wanted), true) => (wanted, "PASS"),
                    (Some(wanted), false) => (wanted, "MISS"),
                };
                let found = &figure.found;
                table.push_str(&format!("| {title} | {wanted} | {found} | {word} |\n"));
                title = "";
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_which_goals_are_met_and_what_was_not_measured() {
        let outcomes = Outcomes(vec![
            (
                FleetRow::Cost,
                Ok(vec![
                    FleetFigure::judged("< 1%", "0.4%".to_owned(), true),
                    FleetFigure::shown("9 MiB".to_owned()),
                ]),
            ),
            (FleetRow::Many, Err("no\nserver\n".to_owned())),
        ]);
        let table = outcomes.render();
        for line in [
            "| < 1% | 0.4% | PASS |",
            "| – | 9 MiB |  |",
            "| – | not measured: no server | MISS |",
        ] {
            assert!(table.contains(line), "{table}");
        }
        assert!(!outcomes.all_met());
        assert!(Outcomes(outcomes.0[..1].to_vec()).all_met());
    }
}
