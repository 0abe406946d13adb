//! Running the tools in turn, each against the same server from the same core.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::process::{self, Usage};
use super::ratios::{Numbers, Rotation, Run, shuffle};
use super::rows::{Row, Security, Shape};
use super::server::Nginx;
use super::tools::{Errand, Tool};

/// How much longer than asked for a tool may take before it is killed.
const GRACE: Duration = Duration::from_secs(30);

/// An open loop that starts less than this share of its requests has missed its rate.
const KEPT: f64 = 0.99;

/// Where the runs take place.
pub(super) struct Arena<'a> {
    pub(super) nginx: Nginx,
    /// For what the tools read and write.
    pub(super) folder: &'a Path,
    pub(super) programs: &'a BTreeMap<Tool, PathBuf>,
    /// The generator's core.
    pub(super) core: usize,
    /// The length of a run.
    pub(super) seconds: u32,
    /// Runs so far: each has an address of its own.
    pub(super) runs: u32,
}

/// All rotations of one row.
pub(super) struct Outcome {
    pub(super) row: &'static Row,
    pub(super) rotations: Vec<Rotation>,
    /// What went wrong, by tool: the last time that it did.
    pub(super) failures: BTreeMap<Tool, String>,
}

impl Arena<'_> {
    /// Runs every tool once in each rotation, in an order that is random each time.
    pub(super) fn measure(
        &mut self,
        row: &'static Row,
        tools: &[Tool],
        rotations: usize,
        numbers: &mut Numbers,
    ) -> Result<Outcome, String> {
        let mut outcome = Outcome {
            row,
            rotations: Vec::new(),
            failures: BTreeMap::new(),
        };
        let mut order = tools.to_vec();
        for number in 1..=rotations {
            shuffle(&mut order, numbers);
            let mut rotation = Rotation::new();
            for &tool in &order {
                self.nginx.settle()?;
                print!("{:<12} {number}/{rotations} {:<8}", row.id, tool.name());
                let _ = std::io::stdout().flush();
                match self.run(row, tool) {
                    Ok(run) => {
                        println!("{}", progress(&run));
                        rotation.insert(tool, run);
                    }
                    Err(problem) => {
                        println!("failed: {problem}");
                        outcome.failures.insert(tool, problem);
                    }
                }
            }
            outcome.rotations.push(rotation);
        }
        Ok(outcome)
    }

    fn run(&mut self, row: &Row, tool: Tool) -> Result<Run, String> {
        let program = self.programs.get(&tool).ok_or("not here")?;
        let address = address(self.runs);
        self.runs += 1;
        let port = self.nginx.port(row.security);
        let scheme = if row.security == Security::Clear {
            "http"
        } else {
            "https"
        };
        let record = self.folder.join("record.json");
        let [keeps, closes] = ["keep-alive", "close"].map(|kind| self.folder.join(kind));
        let errand = Errand {
            url: &format!("{scheme}://{address}:{port}{}", row.path),
            address: &address,
            port,
            seconds: self.seconds,
            record: &record.to_string_lossy(),
            siege_keeps: &keeps.to_string_lossy(),
            siege_closes: &closes.to_string_lossy(),
        };
        let mut command = Command::new(program);
        command.args(tool.arguments(row, &errand));
        // What a tool writes at home is swept with the folder.
        command.env("HOME", self.folder);
        let log = self.folder.join(format!("{}.log", tool.name()));
        process::log_into(&mut command, &log).map_err(|e| e.to_string())?;
        let before = self.nginx.requests()?;
        let limit = Duration::from_secs(u64::from(self.seconds)) + GRACE;
        let usage = process::run_on(self.core, limit, &mut command).map_err(|e| e.to_string())?;
        let requests = self.nginx.requests()? - before;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        if !usage.status.success() && tool != Tool::Siege {
            return Err(format!("{}: {}", usage.status, last_words(&said)));
        }
        if requests == 0 {
            return Err(format!("no request came: {}", last_words(&said)));
        }
        let mut run = figures(&usage, requests);
        if let Shape::Paced(rate) = row.shape {
            let kept = requests as f64 / (f64::from(rate) * f64::from(self.seconds));
            if kept < KEPT {
                return Err(format!("{:.1}% of the rate", kept * 100.0));
            }
        }
        if tool == Tool::Prony {
            let text = std::fs::read_to_string(&record).map_err(|e| e.to_string())?;
            run.late_p99_us = sound_record(&text)?;
        }
        Ok(run)
    }
}

fn figures(usage: &Usage, requests: u64) -> Run {
    let requests = requests as f64;
    Run {
        cpu_us: usage.cpu.as_secs_f64() * 1e6 / requests,
        rate_per_s: requests / usage.wall.as_secs_f64(),
        memory_mib: usage.peak_bytes as f64 / f64::from(1 << 20),
        late_p99_us: None,
    }
}

/// The lateness in a record of prony's, if nothing failed.
fn sound_record(text: &str) -> Result<Option<f64>, String> {
    let record: Value = serde_json::from_str(text).map_err(|e| format!("the record: {e}"))?;
    let failed = record.pointer("/totals/failed").and_then(Value::as_u64);
    if failed != Some(0) {
        let outcomes = record.get("outcomes").unwrap_or(&Value::Null);
        return Err(format!("not every request succeeded: {outcomes}"));
    }
    let late = record.pointer("/generator/late_us/p99");
    Ok(late.and_then(Value::as_f64))
}

fn progress(run: &Run) -> String {
    let late = run
        .late_p99_us
        .map(|late| format!("  starts late p99 {late:.0} us"))
        .unwrap_or_default();
    format!(
        "{:>8.2} us/request {:>8.0}/s {:>6.1} MiB{late}",
        run.cpu_us, run.rate_per_s, run.memory_mib
    )
}

/// The last lines of a log, on one.
fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    last.join(" | ").chars().take(300).collect()
}

/// A loopback address for each run, so that what one leaves behind in TIME_WAIT takes no ports from
/// the next.
fn address(run: u32) -> String {
    let (high, low) = (run / 250 % 250, run % 250);
    format!("127.1.{high}.{}", low + 1)
}

/// Writes siege's two configurations, for it has no flag for what they say.
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
    fn the_cost_is_spread_over_what_the_server_counted() {
        let usage = Usage {
            status: Default::default(),
            wall: Duration::from_secs(2),
            cpu: Duration::from_secs(1),
            peak_bytes: 5 << 20,
        };
        let run = figures(&usage, 100_000);
        assert!((run.cpu_us - 10.0).abs() < 1e-9);
        assert!((run.rate_per_s - 50_000.0).abs() < 1e-6);
        assert!((run.memory_mib - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_log_ends_with_what_matters() {
        assert_eq!(last_words("a\nb\n\nc\nd\n"), "b | c | d");
        assert_eq!(last_words(""), "");
    }
}
