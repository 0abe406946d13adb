//! The rotation of tools over one row.
//!
//! Tools are interleaved: each rotation runs every tool once, in an order of its own, so that a
//! drift of the machine is shared by all tools of a rotation. Values of two tools are only compared
//! within a rotation.

use std::collections::{BTreeMap, BTreeSet};

use super::figures::{LatenessCurve, Measure, Spread, Values, add_point, interval, line_of};
use super::rows::{Row, ServerKind};
use super::tool::Tool;
use crate::random::RandomNumbers;

/// Result of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Run {
    pub(super) values: Values,
    /// Facts that are shown below the tables.
    pub(super) remarks: Vec<String>,
    /// Lateness of an open loop by rate, if the run tried several.
    pub(super) curve: LatenessCurve,
}

impl Run {
    pub(super) fn of(values: impl Into<Values>) -> Run {
        Run {
            values: values.into(),
            ..Run::default()
        }
    }
}

/// A row on a server that is ready for the tools.
pub(super) trait Contest {
    /// Waits until the last run has left nothing behind. An error ends the benchmark.
    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Checks that a tool behaves as the row requires. Returns a remark, if there is one. If the
    /// tool deviates, the error describes the deviation.
    fn examine(&mut self, tool: Tool) -> Result<Option<String>, String> {
        let _ = tool;
        Ok(None)
    }

    /// Runs a tool once. The error says why there is no result.
    fn run(&mut self, tool: Tool) -> Result<Run, String>;
}

/// Values of one rotation, at most one set for each tool. Failed runs are omitted.
pub(super) type Rotation = BTreeMap<Tool, Values>;

/// Results of a row on one server.
pub(super) struct Outcome {
    pub(super) row: &'static Row,
    pub(super) server: ServerKind,
    /// The tools that ran, including those that always failed.
    pub(super) tools: BTreeSet<Tool>,
    pub(super) rotations: Vec<Rotation>,
    /// Remarks about tools: a reason for omitting one, a deviation, or a failed run.
    pub(super) notes: Vec<(Tool, String)>,
    /// Lateness by rate of each tool that was tried at several rates.
    pub(super) curves: BTreeMap<Tool, LatenessCurve>,
}

/// Checks every tool once, then runs the suitable tools in each rotation, in random order.
pub(super) fn rotate(
    row: &'static Row,
    server: ServerKind,
    contest: &mut dyn Contest,
    tools: &[Tool],
    rotations: usize,
    numbers: &mut RandomNumbers,
) -> Result<Outcome, String> {
    let mut outcome = Outcome {
        row,
        server,
        tools: BTreeSet::new(),
        rotations: Vec::new(),
        notes: Vec::new(),
        curves: BTreeMap::new(),
    };
    let label = outcome.named(row.id);
    let mut order = Vec::new();
    for &tool in tools {
        contest.settle()?;
        let remark = match contest.examine(tool) {
            Ok(remark) => {
                order.push(tool);
                remark
            }
            Err(problem) => Some(format!("is omitted: {problem}")),
        };
        if let Some(remark) = remark {
            println!("{label:<14} {} {remark}", tool.name());
            outcome.notes.push((tool, remark));
        }
    }
    outcome.tools.extend(&order);
    for number in 1..=rotations {
        numbers.shuffle(&mut order);
        let mut rotation = Rotation::new();
        for &tool in &order {
            contest.settle()?;
            let text = match contest.run(tool) {
                Ok(run) => {
                    let remarks = run.remarks.into_iter().map(|remark| (tool, remark));
                    outcome.notes.extend(remarks);
                    for (rate, late) in run.curve {
                        add_point(outcome.curves.entry(tool).or_default(), rate, late);
                    }
                    let text = line_of(&run.values);
                    rotation.insert(tool, run.values);
                    text
                }
                Err(problem) => {
                    let note = format!("failed in rotation {number}: {problem}");
                    outcome.notes.push((tool, note));
                    format!("failed: {problem}")
                }
            };
            println!(
                "{label:<14} {number}/{rotations} {:<12} {text}",
                tool.name()
            );
        }
        outcome.rotations.push(rotation);
    }
    Ok(outcome)
}

impl Outcome {
    /// A name of the row, with the server's if the row has several.
    pub(super) fn named(&self, name: &str) -> String {
        match self.row.servers.len() {
            1 => name.to_owned(),
            _ => format!("{name}, {}", self.server.name()),
        }
    }

    /// The ratio of a tool's value to the reference's in each rotation that has both.
    fn ratios(&self, measure: Measure, tool: Tool, reference: Tool) -> impl Iterator<Item = f64> {
        self.rotations.iter().filter_map(move |rotation| {
            let of = |tool| rotation.get(&tool)?.get(&measure).copied();
            Some(of(tool)? / of(reference)?)
        })
    }

    /// Median and range of the ratios of a tool's value to the reference's.
    pub(super) fn ratio(&self, measure: Measure, tool: Tool, reference: Tool) -> Option<Spread> {
        Spread::of(self.ratios(measure, tool, reference))
    }

    /// Change of a value from the earlier build of prony to the later one, as a ratio with its 95%
    /// interval.
    pub(super) fn change(&self, measure: Measure) -> Option<Spread> {
        interval(self.ratios(measure, Tool::Prony, Tool::OldProny))
    }

    /// Median and range of a tool's value over all rotations.
    pub(super) fn spread(&self, measure: Measure, tool: Tool) -> Option<Spread> {
        let rotations = self.rotations.iter();
        Spread::of(rotations.filter_map(|r| r.get(&tool)?.get(&measure).copied()))
    }

    /// Returns true if the tool has a result in any rotation.
    pub(super) fn has(&self, tool: Tool) -> bool {
        self.rotations
            .iter()
            .any(|rotation| rotation.contains_key(&tool))
    }

    /// The first of the row's reference tools that has a result.
    pub(super) fn reference(&self) -> Option<Tool> {
        let mut references = self.row.references.iter().copied();
        references.find(|&tool| self.has(tool))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows;
    use super::*;

    /// An outcome of a row with these rotations.
    pub(in crate::bench) fn outcome(id: &str, rotations: Vec<Rotation>) -> Outcome {
        let row = rows::find(id).unwrap();
        Outcome {
            row,
            server: row.servers[0],
            tools: rotations.iter().flat_map(|r| r.keys().copied()).collect(),
            rotations,
            notes: Vec::new(),
            curves: BTreeMap::new(),
        }
    }

    /// A rotation with these costs. Rates are inverse to the costs.
    pub(in crate::bench) fn rotation(costs: &[(Tool, f64)]) -> Rotation {
        let values = |&(tool, cost): &(Tool, f64)| {
            let values = [
                (Measure::Cost, cost),
                (Measure::Rate, 1e6 / cost),
                (Measure::PeakMemory, 8.4),
            ];
            (tool, values.into())
        };
        costs.iter().map(values).collect()
    }

    /// An outcome with one rotation.
    pub(in crate::bench) fn costs(id: &str, costs: &[(Tool, f64)]) -> Outcome {
        outcome(id, vec![rotation(costs)])
    }

    /// A contest whose results are scripted, and which records what the engine asks for.
    #[derive(Default)]
    struct Script {
        calls: Vec<(&'static str, Tool)>,
        unfit: Option<Tool>,
        /// The tool that fails in one run, counted from 0.
        fails: Option<(Tool, usize)>,
        /// The call of `settle` that fails, counted from 0.
        unsettled: Option<usize>,
        settled: usize,
    }

    impl Contest for Script {
        fn settle(&mut self) -> Result<(), String> {
            self.settled += 1;
            match self.unsettled {
                Some(number) if number + 1 == self.settled => Err("still busy".to_owned()),
                _ => Ok(()),
            }
        }

        fn examine(&mut self, tool: Tool) -> Result<Option<String>, String> {
            self.calls.push(("examine", tool));
            match self.unfit {
                Some(unfit) if unfit == tool => Err("closes connections".to_owned()),
                _ => Ok((tool == Tool::Ab).then(|| "resumes 50%".to_owned())),
            }
        }

        fn run(&mut self, tool: Tool) -> Result<Run, String> {
            let runs = self
                .calls
                .iter()
                .filter(|call| **call == ("run", tool))
                .count();
            self.calls.push(("run", tool));
            if self.fails == Some((tool, runs)) {
                return Err("killed".to_owned());
            }
            // The machine gets slower with each run, for all tools alike.
            let base = if tool == Tool::Floor { 10.0 } else { 12.0 };
            Ok(Run {
                values: [(Measure::Cost, base * (1.0 + runs as f64))].into(),
                ..Run::default()
            })
        }
    }

    const TOOLS: [Tool; 4] = [Tool::Floor, Tool::Prony, Tool::OldProny, Tool::Ab];

    fn rotated(script: &mut Script, rotations: usize, seed: u64) -> Outcome {
        let row = rows::find("ka-1k").unwrap();
        let mut numbers = RandomNumbers::new(seed);
        rotate(
            row,
            ServerKind::Nginx,
            script,
            &TOOLS,
            rotations,
            &mut numbers,
        )
        .unwrap()
    }

    #[test]
    fn each_rotation_runs_every_tool_once_in_an_order_of_its_own() {
        let order = |seed| {
            let mut script = Script::default();
            rotated(&mut script, 20, seed);
            let runs = script.calls.iter().filter(|(call, _)| *call == "run");
            let runs: Vec<Tool> = runs.map(|(_, tool)| *tool).collect();
            // The server settles before each check and before each run.
            assert_eq!(script.settled, TOOLS.len() + runs.len());
            runs
        };
        let runs = order(1);
        assert_eq!(runs.len(), 20 * TOOLS.len());
        for rotation in runs.chunks(TOOLS.len()) {
            let tools: BTreeSet<Tool> = rotation.iter().copied().collect();
            assert_eq!(tools, TOOLS.into());
        }
        let orders: BTreeSet<&[Tool]> = runs.chunks(TOOLS.len()).collect();
        assert!(orders.len() > 1);
        assert_eq!(order(1), runs);
        assert_ne!(order(2), runs);
    }

    #[test]
    fn all_tools_are_examined_before_the_first_run_and_unfit_ones_do_not_run() {
        let mut script = Script {
            unfit: Some(Tool::OldProny),
            ..Script::default()
        };
        let outcome = rotated(&mut script, 2, 1);
        let examined: Vec<Tool> = script.calls[..4].iter().map(|(_, tool)| *tool).collect();
        assert_eq!(examined, TOOLS);
        assert!(
            script.calls[4..]
                .iter()
                .all(|call| call.0 == "run" && call.1 != Tool::OldProny)
        );
        let notes = [
            (Tool::OldProny, "is omitted: closes connections".to_owned()),
            (Tool::Ab, "resumes 50%".to_owned()),
        ];
        assert_eq!(outcome.notes, notes);
        assert!(!outcome.tools.contains(&Tool::OldProny) && outcome.tools.contains(&Tool::Ab));
    }

    #[test]
    fn a_tool_that_fails_lacks_one_rotation_and_the_others_go_on() {
        let mut script = Script {
            fails: Some((Tool::Prony, 1)),
            ..Script::default()
        };
        let outcome = rotated(&mut script, 3, 1);
        let has_prony = |rotation: &Rotation| rotation.contains_key(&Tool::Prony);
        let with_prony: Vec<bool> = outcome.rotations.iter().map(has_prony).collect();
        assert_eq!(with_prony, [true, false, true]);
        assert!(
            outcome
                .rotations
                .iter()
                .all(|rotation| rotation.contains_key(&Tool::Ab))
        );
        let note = "failed in rotation 2: killed".to_owned();
        assert!(outcome.notes.contains(&(Tool::Prony, note)));
        assert_eq!(
            outcome
                .ratios(Measure::Cost, Tool::Prony, Tool::Floor)
                .count(),
            2
        );
        assert_eq!(
            outcome.ratios(Measure::Cost, Tool::Ab, Tool::Floor).count(),
            3
        );
    }

    #[test]
    fn a_server_that_does_not_settle_ends_the_benchmark() {
        let mut script = Script {
            unsettled: Some(TOOLS.len() + 1),
            ..Script::default()
        };
        let row = rows::find("ka-1k").unwrap();
        let mut numbers = RandomNumbers::new(1);
        let ended = rotate(row, ServerKind::Nginx, &mut script, &TOOLS, 1, &mut numbers);
        assert_eq!(ended.err().as_deref(), Some("still busy"));
    }

    #[test]
    fn tools_are_paired_within_a_rotation_so_that_a_shared_drift_cancels() {
        let outcome = rotated(&mut Script::default(), 4, 1);
        let cost = outcome
            .ratio(Measure::Cost, Tool::Prony, Tool::Floor)
            .unwrap();
        for value in [cost.min, cost.median, cost.max] {
            assert!((value - 1.2).abs() < 1e-9, "{cost:?}");
        }
        let change = outcome.change(Measure::Cost).unwrap();
        assert!((change.max - 1.0).abs() < 1e-9, "{change:?}");
        assert_eq!(
            outcome.spread(Measure::Cost, Tool::Floor).unwrap().max,
            40.0
        );
        assert_eq!(outcome.ratio(Measure::Rate, Tool::Prony, Tool::Floor), None);
        assert_eq!(outcome.ratio(Measure::Cost, Tool::Wrk, Tool::Floor), None);
    }
}
