//! Hundreds of agents, simulated in one process, with a real nats-server.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::coordinator::{coordinate, coordinator_values, incomplete_agents, read_json};
use crate::bench::engine::Run;
use crate::bench::figures::Measure;
use crate::bench::process::{Program, ticks_per_second};

const AGENTS: &str = "500";
const SECONDS: u64 = 20;
/// Total requests per second of all agents.
const RATE: &str = "500000";

/// Measures the coordinator's cost, and compares its counts with the agents'.
pub(super) fn measure(prony: &Path, simulated: &Path, folder: &Path) -> Result<Run, String> {
    let up_folder = folder.join("up");
    let mut command = Command::new(prony);
    command.args(["fleet", "up", "--agents", AGENTS, "--listen", "127.0.0.1:0"]);
    command.arg("--dir").arg(&up_folder);
    let mut up = Program::start(None, &mut command, folder.join("up.out"))?;
    up.wait_for("nats-server listens")?;

    let sum = folder.join("sum.json");
    let mut command = Command::new(simulated);
    command.arg(&up_folder).arg(AGENTS).arg(&sum);
    let mut agents = Program::start(None, &mut command, folder.join("agents.out"))?;
    agents.wait_for("are registered")?;

    let duration = format!("{SECONDS}s");
    let mut command = Command::new(prony);
    command.args([
        "load", "--agents", AGENTS, "-c", AGENTS, "-r", RATE, "-d", &duration,
    ]);
    // The simulated agents keep the machine busier than real agents would, so a larger clock error
    // is allowed.
    command.args(["--clock-bound", "1s", "--creds"]);
    command.arg(up_folder.join("coordinator.creds"));
    let before = cpu_of_children(up.id())?;
    let (record, usage) = coordinate(command, "http://127.0.0.1:1/", SECONDS, folder)?;
    let nats = cpu_of_children(up.id())?.saturating_sub(before);
    let said = agents.end()?;
    let sent = said.lines().last().unwrap_or_default();

    let incomplete = incomplete_agents(&record)?;
    let different = different_parts(&record, &read_json(&sum)?);
    let mut run = Run::of(coordinator_values(&usage, SECONDS));
    run.values.extend([
        (Measure::IncompleteAgents, incomplete.len() as f64),
        (Measure::DifferentParts, different.len() as f64),
        (Measure::NatsCpu, nats.as_secs_f64()),
    ]);
    run.remarks.push(format!("reports: {sent}"));
    for (names, fault) in [
        (incomplete.join(", "), "are incomplete"),
        (
            different.join(", "),
            "differ from the sum of the agents' records",
        ),
    ] {
        if !names.is_empty() {
            run.remarks.push(format!("reports that {names} {fault}"));
        }
    }
    Ok(run)
}

/// Compares the record with the sum of the agents' records.
fn different_parts(record: &Value, sum: &Value) -> Vec<&'static str> {
    let plain = |document: &Value, part: &str| {
        let mut value = document[part].clone();
        // The duration is a maximum, not a sum.
        if let Some(totals) = value.as_object_mut() {
            totals.remove("elapsed_s");
        }
        value
    };
    let differs = |part: &&str| record[*part].is_null() || plain(record, part) != plain(sum, part);
    let parts = ["histograms", "outcomes", "status", "totals"];
    parts.into_iter().filter(differs).collect()
}

/// User and system time of the running child processes of a process.
fn cpu_of_children(parent: u32) -> Result<Duration, String> {
    let mut all = Duration::ZERO;
    for entry in std::fs::read_dir("/proc").map_err(|e| format!("/proc: {e}"))? {
        let Ok(entry) = entry else { continue };
        // Some entries of /proc aren't processes, and a process may have ended meanwhile.
        let stat = std::fs::read_to_string(entry.path().join("stat"));
        let cpu = stat.ok().and_then(|stat| cpu_of(&stat, parent));
        all += cpu.unwrap_or_default();
    }
    Ok(all)
}

/// CPU time of a process from its stat line (proc(5)), if it is a child of `parent`.
fn cpu_of(stat: &str, parent: u32) -> Option<Duration> {
    // The program's name is in parentheses and may contain any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    if fields.get(1)?.parse() != Ok(parent) {
        return None;
    }
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(ticks as f64 / ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bucket_more_is_a_difference() {
        let record = |histogram: &str, elapsed: f64| {
            serde_json::json!({
                "histograms": {"response_time": histogram},
                "outcomes": {"ok": 1},
                "status": {"200": 1},
                "totals": {"started": 1, "elapsed_s": elapsed},
            })
        };
        assert_eq!(
            different_parts(&record("a", 1.0), &record("a", 2.0)),
            [""; 0]
        );
        assert_eq!(
            different_parts(&record("a", 1.0), &record("b", 1.0)),
            ["histograms"]
        );
        let empty = serde_json::json!({});
        assert_eq!(different_parts(&empty, &empty).len(), 4);
    }

    #[test]
    fn what_children_used_is_in_their_lines() {
        let line = "7 (a) b) S 5 7 7 0 -1 0 1 2 3 4 150 50 0 0 20 0 1 0 9";
        let second = ticks_per_second();
        let used = cpu_of(line, 5).unwrap();
        assert!((used.as_secs_f64() - 200.0 / second).abs() < 1e-9);
        assert_eq!(cpu_of(line, 7), None);
        assert_eq!(cpu_of("", 7), None);
    }
}
