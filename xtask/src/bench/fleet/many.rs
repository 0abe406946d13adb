//! Hundreds of agents, simulated in one process, with a real nats-server.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::super::process::{self, End};
use super::site::{Program, json};
use super::together::{incomplete_agent, memory};
use super::{FleetFigure, FleetPrograms};

const AGENTS: &str = "500";
const SECONDS: u64 = 20;
/// Total requests per second of all agents.
const RATE: &str = "500000";
/// Time limit for the load.
const LIMIT: Duration = Duration::from_secs(SECONDS + 100);

/// Measures the coordinator's cost, and compares its counts with the agents'.
pub(super) fn measure(programs: &FleetPrograms, folder: &Path) -> Result<Vec<FleetFigure>, String> {
    let up_folder = folder.join("up");
    let mut command = Command::new(&programs.prony);
    command.args(["fleet", "up", "--agents", AGENTS, "--listen", "127.0.0.1:0"]);
    command.arg("--dir").arg(&up_folder);
    let mut up = Program::start(&mut command, &folder.join("up.said"))?;
    up.wait_for("nats-server listens")?;

    let sum = folder.join("sum.json");
    let mut command = Command::new(&programs.simulated_agents);
    command.arg(&up_folder).arg(AGENTS).arg(&sum);
    let mut agents = Program::start(&mut command, &folder.join("agents.said"))?;
    agents.wait_for("are registered")?;

    let record = folder.join("record.json");
    let said = folder.join("load.said");
    let duration = format!("{SECONDS}s");
    let mut command = Command::new(&programs.prony);
    command.args([
        "load", "--agents", AGENTS, "-c", AGENTS, "-r", RATE, "-d", &duration,
    ]);
    // The simulated agents keep the machine busier than real agents would, so a larger clock error
    // is allowed.
    command.args(["--clock-bound", "1s", "--creds"]);
    command.arg(up_folder.join("coordinator.creds"));
    command
        .arg("--json")
        .arg(&record)
        .arg("http://127.0.0.1:1/");
    process::log_into(&mut command, &said).map_err(|e| e.to_string())?;
    let before = up.cpu_of_children()?;
    let usage = process::run(End::ByItself(LIMIT), &mut command).map_err(|e| e.to_string())?;
    let server = up.cpu_of_children()?.saturating_sub(before);
    if !usage.status.success() {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        return Err(format!("prony load: {}: {said}", usage.status));
    }
    agents.end()?;
    let said = agents.said();
    let sent = said.lines().last().unwrap_or_default().to_owned();
    let (record, sum) = (json(&record)?, json(&sum)?);
    let lost = incomplete_agent(&record);
    let share = usage.cpu.as_secs_f64() / SECONDS as f64;
    Ok(vec![
        FleetFigure::judged(
            "coordinator < 0.5 of a core",
            format!(
                "{share:.2} ({:.1} s of CPU time for a load of {SECONDS} s)",
                usage.cpu.as_secs_f64()
            ),
            share < 0.5,
        ),
        FleetFigure::judged(
            "no message lost",
            match &lost {
                None => sent,
                Some(name) => format!("the results of {name} are incomplete; {sent}"),
            },
            lost.is_none(),
        ),
        equal(&record, &sum),
        FleetFigure::shown(memory(&usage)),
        FleetFigure::shown(format!(
            "nats-server's CPU time while the coordinator ran: {:.1} s",
            server.as_secs_f64()
        )),
    ])
}

/// Compares the record with the sum of the agents' records.
fn equal(record: &Value, sum: &Value) -> FleetFigure {
    let parts = ["histograms", "outcomes", "status", "totals"];
    let plain = |document: &Value, part: &str| {
        let mut value = document[part].clone();
        // The duration is a maximum, not a sum.
        if let Some(totals) = value.as_object_mut() {
            totals.remove("elapsed_s");
        }
        value
    };
    let differ: Vec<&str> = parts
        .into_iter()
        .filter(|part| record[*part].is_null() || plain(record, part) != plain(sum, part))
        .collect();
    let found = match differ.is_empty() {
        true => "equal in every bucket".to_owned(),
        false => format!("{} differ", differ.join(", ")),
    };
    let wanted = "counts and histograms equal the sum of the agents'";
    FleetFigure::judged(wanted, found, differ.is_empty())
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
        assert!(equal(&record("a", 1.0), &record("a", 2.0)).met);
        let figure = equal(&record("a", 1.0), &record("b", 1.0));
        assert!(!figure.met && figure.found.contains("histograms"));
        assert!(!equal(&serde_json::json!({}), &serde_json::json!({})).met);
    }
}
