//! Runs of a tool with the load of a row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::arguments::{RECORD, RunParameters};
use super::engine::{Contest, Run};
use super::figures::Measure;
use super::process::{self, End, Usage};
use super::rows::Row;
use super::server::{Endpoint, Server};
use super::tool::Tool;

/// Time after the planned end of a run at which the tool is killed.
const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Minimum percentage of the requested rate that an open loop must reach. The cost at a different
/// rate isn't comparable.
const KEPT_MIN: f64 = 97.0;

const MIB: f64 = 1024.0 * 1024.0;

/// Runs tools on one core.
#[derive(Clone, Copy)]
pub(super) struct Runner<'a> {
    /// Folder for the tools' files.
    pub(super) folder: &'a Path,
    pub(super) programs: &'a BTreeMap<Tool, PathBuf>,
    pub(super) core: usize,
}

impl Runner<'_> {
    /// Runs a tool against a server's endpoint.
    pub(super) fn drive(
        &self,
        row: &Row,
        tool: Tool,
        endpoint: &Endpoint,
        seconds: u32,
        prepare: impl Fn(&mut Command) -> Result<(), String>,
    ) -> Result<Usage, String> {
        let text = |e: std::io::Error| e.to_string();
        let program = self.programs.get(&tool).ok_or("not installed")?;
        let run = RunParameters {
            row,
            endpoint,
            seconds,
            folder: self.folder,
        };
        run.write_tool_files().map_err(text)?;
        let mut command = Command::new(program);
        command.args(tool.arguments(&run));
        // Tools may write files into the home folder, so it is set to a folder that is removed
        // after the benchmark.
        command.env("HOME", self.folder);
        // nginx has no hybrid key exchange, so Go's clients would make a key that isn't used.
        command.env("GODEBUG", "tlsmlkem=0");
        process::log_into(&mut command, &self.log(tool)).map_err(text)?;
        prepare(&mut command)?;
        let time = Duration::from_secs(seconds.into());
        let ends = tool.ends(row);
        let end = if ends {
            End::ByItself(time + OVERTIME_MAX)
        } else {
            End::Terminated(time)
        };
        let usage = process::run(Some(self.core), end, &mut command).map_err(text)?;
        // A terminated tool doesn't exit with status 0, and siege never does.
        if ends && tool != Tool::Siege && !usage.status.success() {
            let said = std::fs::read_to_string(self.log(tool)).unwrap_or_default();
            return Err(format!("{}: {}", usage.status, last_words(&said)));
        }
        Ok(usage)
    }

    fn log(&self, tool: Tool) -> PathBuf {
        self.folder.join(format!("{}.log", tool.name()))
    }

    /// What a tool reports about its last run: prony's record, or another tool's output.
    pub(super) fn report(&self, tool: Tool) -> Result<String, String> {
        let path = if tool.is_prony() {
            self.folder.join(RECORD)
        } else {
            self.log(tool)
        };
        std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// A row on a server that serves all runs.
pub(super) struct LoadContest<'a> {
    pub(super) row: &'static Row,
    pub(super) server: Box<dyn Server>,
    pub(super) runner: Runner<'a>,
    /// Length of a run in seconds.
    pub(super) seconds: u32,
}

impl Contest for LoadContest<'_> {
    fn settle(&mut self) -> Result<(), String> {
        self.server.settle()
    }

    fn examine(&mut self, tool: Tool) -> Result<Option<String>, String> {
        let runner = self.runner;
        let mut drive = |row: &Row, endpoint: &Endpoint, seconds| {
            let ended = runner.drive(row, tool, endpoint, seconds, |_| Ok(()));
            ended.map(drop)
        };
        self.server.examine(self.row, &mut drive)
    }

    fn run(&mut self, tool: Tool) -> Result<Run, String> {
        let LoadContest {
            row,
            server,
            runner,
            seconds,
        } = self;
        let endpoint = server.endpoint(row);
        let before = server.requests()?;
        let prepare = |command: &mut Command| server.prepare(command);
        let usage = runner.drive(row, tool, &endpoint, *seconds, prepare)?;
        let report = runner.report(tool);
        let requests = match (before, server.requests()?) {
            (Some(before), Some(after)) => Some(after - before),
            _ => tool.requests(report.as_deref()?),
        };
        let requests = requests
            .filter(|&requests| requests > 0)
            .ok_or("no request arrived")?;
        let mut run = Run::of(costs(&usage, requests));
        if let Some(kept) = kept_percent(row, requests, *seconds) {
            if kept < KEPT_MIN {
                return Err(format!("ran at {kept:.1}% of the rate"));
            }
            run.values.insert(Measure::Kept, kept);
        }
        if tool.is_prony() {
            run.values.extend(values_of_record(&report?, &usage)?);
        }
        Ok(run)
    }
}

/// Requests of an open loop as a percentage of the scheduled ones; `None` for a closed loop.
pub(super) fn kept_percent(row: &Row, requests: u64, seconds: u32) -> Option<f64> {
    let scheduled = f64::from(row.rate()?) * f64::from(seconds);
    Some(requests as f64 * 100.0 / scheduled)
}

fn costs(usage: &Usage, requests: u64) -> [(Measure, f64); 3] {
    let requests = requests as f64;
    [
        (Measure::Cost, usage.cpu.as_secs_f64() * 1e6 / requests),
        (Measure::Rate, requests / usage.wall.as_secs_f64()),
        (Measure::PeakMemory, usage.peak_bytes as f64 / MIB),
    ]
}

/// Returns lateness and memory from prony's record, or an error if a request failed.
fn values_of_record(text: &str, usage: &Usage) -> Result<Vec<(Measure, f64)>, String> {
    let record: Value = serde_json::from_str(text).map_err(|e| format!("the record: {e}"))?;
    let failed = record.pointer("/totals/failed").and_then(Value::as_u64);
    if failed != Some(0) {
        let outcomes = record.get("outcomes").unwrap_or(&Value::Null);
        return Err(format!("some requests failed: {outcomes}"));
    }
    let number = |pointer: &str| record.pointer(pointer).and_then(Value::as_f64);
    let late = number("/generator/late_us/p99").map(|late| (Measure::LateP99, late));
    let memory = number("/generator/xdp/ring_bytes").map(|rings| {
        let memory = (usage.anonymous_bytes as f64 - rings) / MIB;
        (Measure::AnonymousMemory, memory)
    });
    Ok(late.into_iter().chain(memory).collect())
}

/// Last lines of a log, as one line.
fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    last.join(" | ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage() -> Usage {
        Usage {
            status: Default::default(),
            wall: Duration::from_secs(2),
            cpu: Duration::from_secs(1),
            peak_bytes: 5 << 20,
            anonymous_bytes: 3 << 20,
        }
    }

    #[test]
    fn a_record_with_failures_is_no_measurement() {
        let record = |failed| {
            format!(
                r#"{{"totals":{{"failed":{failed}}},"outcomes":{{"ok":9,"refused":{failed}}},
                "generator":{{"late_us":{{"p99":17.5}}}}}}"#
            )
        };
        let values = values_of_record(&record(0), &usage());
        assert_eq!(values, Ok(vec![(Measure::LateP99, 17.5)]));
        let problem = values_of_record(&record(2), &usage()).unwrap_err();
        assert!(problem.contains("refused"));
        assert!(values_of_record("{", &usage()).is_err());
    }

    #[test]
    fn the_rings_of_af_xdp_are_not_in_its_memory() {
        let record = r#"{"totals":{"failed":0},"generator":{"xdp":{"ring_bytes":1048576}}}"#;
        let values = values_of_record(record, &usage());
        assert_eq!(values, Ok(vec![(Measure::AnonymousMemory, 2.0)]));
    }

    #[test]
    fn the_cost_is_divided_by_the_number_of_requests() {
        let costs = costs(&usage(), 100_000);
        for (found, (measure, expected)) in costs.into_iter().zip([
            (Measure::Cost, 10.0),
            (Measure::Rate, 50_000.0),
            (Measure::PeakMemory, 5.0),
        ]) {
            assert!(
                found.0 == measure && (found.1 - expected).abs() < 1e-6,
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_log_excerpt_ends_with_the_relevant_lines() {
        assert_eq!(last_words("a\nb\n\nc\nd\n"), "b | c | d");
        assert_eq!(last_words(""), "");
    }
}
