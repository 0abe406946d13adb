//! Interleaved runs of the tools, all against the same server and from the same core.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::process::{self, End, Usage};
use super::ratios::{RandomNumbers, Rotation, Run, shuffle};
use super::rows::{ConnectionUse, Http, Row, Security};
use super::server::{Nginx, SLOW_PATH, WITNESS_LOG};
use super::tool::Tool;
use super::tools::RunParameters;
use super::witness::{LogTotals, objection_to_most};

/// Time after the planned end of a run at which the tool is killed.
const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Duration of the trial run that checks a tool's behavior.
const EXAMINED_SECONDS: u32 = 1;

/// Duration of the trial run for a tool that waits for slow responses.
const SLOW_EXAMINED_SECONDS: u32 = 3;

/// Maximum number of connections for which each tool gets a trial run. Rows with more connections
/// are measured without trial runs.
const EXAMINED_CONNECTIONS_MAX: u32 = 1000;

/// Name of prony's record file.
const RECORD: &str = "record.json";

/// Names of the files that k6 and vegeta read.
pub(super) const K6_SCRIPT: &str = "k6.js";
pub(super) const VEGETA_TARGETS: &str = "targets";

/// Minimum fraction of the requested rate that an open loop must reach. The cost at a different
/// rate isn't comparable.
const RATE_SHARE_MIN: f64 = 0.97;

/// Environment that all runs share.
pub(super) struct Arena<'a> {
    pub(super) nginx: Nginx,
    /// Folder for the tools' files.
    pub(super) folder: &'a Path,
    pub(super) programs: &'a BTreeMap<Tool, PathBuf>,
    /// The generator's core.
    pub(super) core: usize,
    /// Length of a run in seconds.
    pub(super) seconds: u32,
    /// Number of runs so far, which determines the address of the next run.
    pub(super) runs: u32,
}

/// Results of one row.
pub(super) struct Outcome {
    pub(super) row: &'static Row,
    pub(super) rotations: Vec<Rotation>,
    /// Remarks about tools: a reason for omitting one, a deviation, or a failed run.
    pub(super) notes: Vec<(Tool, String)>,
}

impl Arena<'_> {
    /// Checks every tool once, then runs the suitable tools in each rotation, in random order.
    pub(super) fn measure(
        &mut self,
        row: &'static Row,
        tools: &[Tool],
        rotations: usize,
        numbers: &mut RandomNumbers,
    ) -> Result<Outcome, String> {
        let mut outcome = Outcome {
            row,
            rotations: Vec::new(),
            notes: Vec::new(),
        };
        let mut order = Vec::new();
        for &tool in tools {
            self.nginx.settle()?;
            if row.connections <= EXAMINED_CONNECTIONS_MAX {
                match self.examine(row, tool) {
                    Ok(None) => {}
                    Ok(Some(remark)) => {
                        println!("{:<14} {} {remark}", row.id, tool.name());
                        outcome.notes.push((tool, remark));
                    }
                    Err(problem) => {
                        let problem = format!("is omitted: {problem}");
                        println!("{:<14} {} {problem}", row.id, tool.name());
                        outcome.notes.push((tool, problem));
                        continue;
                    }
                }
            }
            order.push(tool);
        }
        for number in 1..=rotations {
            shuffle(&mut order, numbers);
            let mut rotation = Rotation::new();
            for &tool in &order {
                self.nginx.settle()?;
                print!("{:<14} {number}/{rotations} {:<9}", row.id, tool.name());
                let _ = std::io::stdout().flush();
                match self.run(row, tool) {
                    Ok(run) => {
                        println!("{}", progress(&run));
                        rotation.insert(tool, run);
                    }
                    Err(problem) => {
                        println!("failed: {problem}");
                        let note = format!("failed in rotation {number}: {problem}");
                        outcome.notes.push((tool, note));
                    }
                }
            }
            outcome.rotations.push(rotation);
        }
        Ok(outcome)
    }

    /// Checks that a tool behaves as the row requires. Returns a remark, if there is one. If the
    /// tool deviates, the error describes the deviation.
    fn examine(&mut self, row: &Row, tool: Tool) -> Result<Option<String>, String> {
        let log = self.folder.join(WITNESS_LOG);
        let text = |e: std::io::Error| format!("{}: {e}", log.display());
        // The log can be truncated while nginx runs, because nginx opened it in append mode.
        let file = File::options().write(true).open(&log).map_err(text)?;
        file.set_len(0).map_err(text)?;
        let port = self.nginx.witnessed_port(row);
        let before = self.nginx.page.read()?.connections;
        self.drive(row, tool, port, EXAMINED_SECONDS)?;
        self.nginx.settle()?;
        let opened = self.nginx.page.read()?.connections - before;
        let lines = std::fs::read_to_string(&log).map_err(text)?;
        let seen = LogTotals::of(&lines);
        if let Some(problem) = seen.objection(row) {
            return Err(problem);
        }
        if row.http != Http::One {
            // nginx sends a body of 13 bytes before it reads the next request. Concurrent requests
            // are visible at the server only if each takes a while.
            let slow = Row {
                path: SLOW_PATH,
                ..*row
            };
            let most = self.watch(&slow, tool)?;
            if let Some(problem) = objection_to_most(row, most) {
                return Err(problem);
            }
        }
        Ok(seen.remark(row, opened))
    }

    /// Runs a tool and returns its largest number of concurrent requests.
    fn watch(&mut self, row: &Row, tool: Tool) -> Result<u64, String> {
        let port = self.nginx.port(row);
        let mut page = self.nginx.page.clone();
        let (ended, most) = page.watch(|| self.drive(row, tool, port, SLOW_EXAMINED_SECONDS));
        // The client of the status page subtracts its own requests, so its counters are kept.
        self.nginx.page = page;
        ended?;
        most
    }

    fn run(&mut self, row: &Row, tool: Tool) -> Result<Run, String> {
        let port = self.nginx.port(row);
        let before = self.nginx.page.read()?.requests;
        let usage = self.drive(row, tool, port, self.seconds)?;
        let requests = self.nginx.page.read()?.requests - before;
        if requests == 0 {
            return Err("no request arrived".to_string());
        }
        let mut run = figures(&usage, requests);
        if let ConnectionUse::Paced(rate) = row.shape {
            let kept = requests as f64 / (f64::from(rate) * f64::from(self.seconds));
            if kept < RATE_SHARE_MIN {
                return Err(format!("ran at {:.1}% of the rate", kept * 100.0));
            }
            run.kept = Some(kept);
        }
        if matches!(tool, Tool::Prony | Tool::OldProny) {
            let path = self.folder.join(RECORD);
            let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
            run.late_p99_us = sound_record(&text)?;
        }
        Ok(run)
    }

    /// Runs a tool against one of the server's ports, at a new address.
    fn drive(&mut self, row: &Row, tool: Tool, port: u16, seconds: u32) -> Result<Usage, String> {
        let program = self.programs.get(&tool).ok_or("not installed")?;
        let address = address(self.runs);
        self.runs += 1;
        let scheme = match row.security {
            Security::Clear => "http",
            Security::Resumable | Security::Full => "https",
        };
        let names = [RECORD, "keep-alive", "close", K6_SCRIPT, VEGETA_TARGETS];
        let [record, keeps, closes, k6_script, vegeta_targets] =
            names.map(|n| self.folder.join(n).display().to_string());
        let url = format!("{scheme}://{address}:{port}{}", row.path);
        write_tool_files(self.folder, &url).map_err(|e| e.to_string())?;
        let errand = RunParameters {
            url: &url,
            address: &address,
            port,
            seconds,
            record: &record,
            siege_keeps: &keeps,
            siege_closes: &closes,
            k6_script: &k6_script,
            vegeta_targets: &vegeta_targets,
        };
        let mut command = Command::new(program);
        command.args(tool.arguments(row, &errand));
        // Tools may write files into the home folder, so it is set to a folder that is removed
        // after the benchmark.
        command.env("HOME", self.folder);
        let log = self.folder.join(format!("{}.log", tool.name()));
        process::log_into(&mut command, &log).map_err(|e| e.to_string())?;
        let time = Duration::from_secs(u64::from(seconds));
        let (end, own) = match tool.ends(row) {
            true => (End::ByItself(time + OVERTIME_MAX), true),
            false => (End::Terminated(time), false),
        };
        let usage = process::run_on(self.core, end, &mut command).map_err(|e| e.to_string())?;
        // A terminated tool doesn't exit with status 0, and siege never does.
        if own && tool != Tool::Siege && !usage.status.success() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("{}: {}", usage.status, last_words(&said)));
        }
        Ok(usage)
    }
}

fn figures(usage: &Usage, requests: u64) -> Run {
    let requests = requests as f64;
    Run {
        cpu_us: usage.cpu.as_secs_f64() * 1e6 / requests,
        rate_per_s: requests / usage.wall.as_secs_f64(),
        memory_mib: usage.peak_bytes as f64 / f64::from(1 << 20),
        late_p99_us: None,
        kept: None,
    }
}

/// Returns the lateness from prony's record, or an error if a request failed.
fn sound_record(text: &str) -> Result<Option<f64>, String> {
    let record: Value = serde_json::from_str(text).map_err(|e| format!("the record: {e}"))?;
    let failed = record.pointer("/totals/failed").and_then(Value::as_u64);
    if failed != Some(0) {
        let outcomes = record.get("outcomes").unwrap_or(&Value::Null);
        return Err(format!("some requests failed: {outcomes}"));
    }
    let late = record.pointer("/generator/late_us/p99");
    Ok(late.and_then(Value::as_f64))
}

fn progress(run: &Run) -> String {
    let late = run
        .late_p99_us
        .map(|late| format!("  p99 lateness {late:.0} us"))
        .unwrap_or_default();
    format!(
        "{:>8.2} us/request {:>8.0}/s {:>6.1} MiB{late}",
        run.cpu_us, run.rate_per_s, run.memory_mib
    )
}

/// Last lines of a log, as one line.
fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    last.join(" | ").chars().take(300).collect()
}

/// Returns a different loopback address for each run, because connections in TIME_WAIT would use up
/// the ports of one address.
fn address(run: u32) -> String {
    let (high, low) = (run / 250 % 250, run % 250);
    format!("127.1.{high}.{}", low + 1)
}

/// Writes both of siege's configuration files, for settings that have no flag.
pub(super) fn configure_siege(folder: &Path) -> std::io::Result<()> {
    for kind in ["keep-alive", "close"] {
        let text = format!(
            "verbose = false\nquiet = true\njson_output = false\nshow-logfile = false\n\
             logging = false\nprotocol = HTTP/1.1\nconnection = {kind}\nlimit = 1000\n\
             benchmark = true\nparser = false\ncache = false\n"
        );
        std::fs::write(folder.join(kind), text)?;
    }
    Ok(())
}

/// Writes the k6 script and the vegeta targets file. k6 has no flag for a constant rate, and vegeta
/// has no flag for the URL.
pub(super) fn write_tool_files(folder: &Path, url: &str) -> std::io::Result<()> {
    std::fs::write(folder.join(VEGETA_TARGETS), format!("GET {url}\n"))?;
    let script = "import http from 'k6/http';\n\
                  export const options = { discardResponseBodies: true, scenarios: { open: {\n\
                  executor: 'constant-arrival-rate', timeUnit: '1s', gracefulStop: '0s',\n\
                  rate: Number(__ENV.RATE), duration: `${__ENV.SECONDS}s`,\n\
                  preAllocatedVUs: Number(__ENV.CONNECTIONS) } } };\n\
                  export default function () { http.get(__ENV.URL); }\n";
    std::fs::write(folder.join(K6_SCRIPT), script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_its_own_address() {
        assert_eq!(address(0), "127.1.0.1");
        assert_eq!(address(251), "127.1.1.2");
        let all: std::collections::BTreeSet<String> = (0..5000).map(address).collect();
        assert_eq!(all.len(), 5000);
    }

    #[test]
    fn a_record_with_failures_is_no_measurement() {
        let record = |failed| {
            format!(
                r#"{{"totals":{{"failed":{failed}}},"outcomes":{{"ok":9,"refused":{failed}}},
                "generator":{{"late_us":{{"p99":17.5}}}}}}"#
            )
        };
        assert_eq!(sound_record(&record(0)), Ok(Some(17.5)));
        assert!(sound_record(&record(2)).unwrap_err().contains("refused"));
        assert!(sound_record("{").is_err());
    }

    #[test]
    fn the_cost_is_divided_by_the_requests_that_the_server_counted() {
        let usage = Usage {
            status: Default::default(),
            wall: Duration::from_secs(2),
            cpu: Duration::from_secs(1),
            peak_bytes: 5 << 20,
            anonymous_bytes: 3 << 20,
        };
        let run = figures(&usage, 100_000);
        assert!((run.cpu_us - 10.0).abs() < 1e-9);
        assert!((run.rate_per_s - 50_000.0).abs() < 1e-6);
        assert!((run.memory_mib - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_log_excerpt_ends_with_the_relevant_lines() {
        assert_eq!(last_words("a\nb\n\nc\nd\n"), "b | c | d");
        assert_eq!(last_words(""), "");
    }
}
