//! The coordinator of a fleet row: its load, costs and record.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::super::figures::{Measure, Values};
use super::super::process::{self, End, Usage};

/// Maximum time by which a load may exceed its duration.
const OVERTIME_MAX: Duration = Duration::from_secs(100);

const MIB: f64 = 1024.0 * 1024.0;

/// Runs a load as the coordinator. Returns its record and resource usage. `command` is the load
/// without the record's path and the URL.
pub(super) fn coordinate(
    mut command: Command,
    url: &str,
    seconds: u64,
    folder: &Path,
) -> Result<(Value, Usage), String> {
    let record = folder.join("record.json");
    let log = folder.join("load.out");
    command.arg("--json").arg(&record).arg(url);
    process::log_into(&mut command, &log).map_err(|e| e.to_string())?;
    let end = End::ByItself(Duration::from_secs(seconds) + OVERTIME_MAX);
    let usage = process::run(None, end, &mut command).map_err(|e| e.to_string())?;
    if !usage.status.success() {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        return Err(format!("prony load: {}: {said}", usage.status));
    }
    Ok((read_json(&record)?, usage))
}

/// Values of a coordinator under a load of some seconds.
pub(super) fn coordinator_values(usage: &Usage, seconds: u64) -> Values {
    let percent = usage.cpu.as_secs_f64() * 100.0 / seconds as f64;
    Values::from([
        (Measure::CoordinatorShare, percent),
        (Measure::PeakMemory, usage.peak_bytes as f64 / MIB),
    ])
}

/// Returns the names of the agents whose results are incomplete.
pub(super) fn incomplete_agents(record: &Value) -> Result<Vec<String>, String> {
    let agents = record.pointer("/fleet/agents").and_then(Value::as_array);
    let agents = agents.ok_or("the record names no agents")?.iter();
    let incomplete = agents.filter(|agent| agent["ended_because"] != "done");
    Ok(incomplete.map(|agent| agent["name"].to_string()).collect())
}

pub(super) fn read_json(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_lost_is_named() {
        let record = |because: &str| serde_json::json!({"fleet": {"agents": [{"name": "a", "ended_because": because}]}});
        assert_eq!(incomplete_agents(&record("done")).unwrap(), [""; 0]);
        assert_eq!(incomplete_agents(&record("lost")).unwrap(), ["\"a\""]);
        assert!(incomplete_agents(&serde_json::json!({})).is_err());
    }
}
