//! Rows with four agents and an nginx, each on its own host.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::super::process::{self, End, Usage};
use super::site::{Hosts, Program, json};
use super::{FleetFigure, FleetPrograms};

const AGENTS: usize = 4;
/// Number of starts whose skew is measured.
const STARTS: usize = 100;
/// Duration in seconds and total requests per second of the cost row.
const SECONDS: u64 = 20;
const RATE: u64 = 8_000;
/// Maximum time by which a load may exceed its duration.
const OVERTIME_MAX: Duration = Duration::from_secs(60);

/// Index of the host that runs nginx. The agents' hosts have lower indices.
const WEB: usize = AGENTS + 1;

const NGINX: &str = "
daemon off;
worker_processes 1;
pid pid;
events { worker_connections 512; }
http {
  access_log off;
  keepalive_requests 1000000;
  server { listen {address}:80; location / { return 200 'hello, fleet'; } }
}
";

struct Site<'a> {
    // The agents must end before the server, and all programs before their hosts are removed.
    _agents: Vec<Program>,
    _up: Program,
    _nginx: Program,
    hosts: Hosts,
    programs: &'a FleetPrograms,
    folder: &'a Path,
}

impl<'a> Site<'a> {
    fn new(programs: &'a FleetPrograms, folder: &'a Path) -> Result<Site<'a>, String> {
        let hosts = Hosts::new(AGENTS + 1)?;
        let mut command = hosts.command(0, &programs.prony);
        command
            .args(["fleet", "up", "--dir"])
            .arg(folder.join("up"));
        let listen = format!("{}:4222", Hosts::address(0));
        command.args(["--agents", &AGENTS.to_string(), "--listen", &listen]);
        let mut up = Program::start(&mut command, &folder.join("up.said"))?;
        up.wait_for("nats-server listens")?;
        let text = NGINX.replace("{address}", &Hosts::address(WEB));
        let file = folder.join("fleet.conf");
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut command = hosts.command(WEB, &programs.nginx);
        command
            .arg("-p")
            .arg(folder)
            .args(["-e", "stderr", "-c"])
            .arg(&file);
        let nginx = Program::start(&mut command, &folder.join("nginx.said"))?;
        let mut agents = Vec::new();
        for agent in 1..=AGENTS {
            let mut command = hosts.command(agent, &programs.prony);
            let creds = folder.join(format!("up/agent-{agent}.creds"));
            command.arg("agent").arg("--creds").arg(creds);
            command
                .arg("--state")
                .arg(folder.join(format!("state-{agent}")));
            let said = folder.join(format!("agent-{agent}.said"));
            agents.push(Program::start(&mut command, &said)?);
        }
        for agent in &mut agents {
            agent.wait_for("registered as")?;
        }
        Ok(Site {
            _agents: agents,
            _up: up,
            _nginx: nginx,
            hosts,
            programs,
            folder,
        })
    }

    /// Runs a load and returns its record and the coordinator's resource usage.
    fn load(&self, words: &[&str]) -> Result<(Value, Usage), String> {
        let record = self.folder.join("record.json");
        let said = self.folder.join("load.said");
        let mut command: Command = self.hosts.command(0, &self.programs.prony);
        command.args(["load", "--agents", &AGENTS.to_string(), "--creds"]);
        command.arg(self.folder.join("up/coordinator.creds"));
        command.args(words).arg("--json").arg(&record);
        command.arg(format!("http://{}/", Hosts::address(WEB)));
        process::log_into(&mut command, &said).map_err(|e| e.to_string())?;
        let limit = Duration::from_secs(SECONDS) + OVERTIME_MAX;
        let usage = process::run(End::ByItself(limit), &mut command).map_err(|e| e.to_string())?;
        if !usage.status.success() {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            return Err(format!("prony load: {}: {said}", usage.status));
        }
        let record = json(&record)?;
        match incomplete_agent(&record) {
            Some(name) => Err(format!("the results of {name} are incomplete")),
            None => Ok((record, usage)),
        }
    }
}

/// Returns the name of an agent whose results are incomplete, if there is one.
pub(super) fn incomplete_agent(record: &Value) -> Option<String> {
    let agents = record.pointer("/fleet/agents").and_then(Value::as_array);
    let Some(agents) = agents else {
        return Some("every agent".to_owned());
    };
    let lost = agents.iter().find(|agent| agent["ended_because"] != "done");
    lost.map(|agent| agent["name"].to_string())
}

/// Measures the skew of the agents' first requests.
pub(super) fn skew(programs: &FleetPrograms, folder: &Path) -> Result<Vec<FleetFigure>, String> {
    let site = Site::new(programs, folder)?;
    let (mut true_ms, mut told_ms, mut bounds_ms) = (Vec::new(), Vec::new(), Vec::new());
    // In a closed loop, every agent's first request is due at the start.
    let words = ["-n", "40", "-c", "4", "--threads", "1"];
    for _ in 0..STARTS {
        let (record, _) = site.load(&words)?;
        let fleet = &record["fleet"];
        let of = |name: &str| {
            let us = fleet[name].as_f64();
            us.map(|us| us / 1e3).ok_or(format!("no {name}"))
        };
        true_ms.push(true_skew_us(fleet).ok_or("an agent started no request")? / 1e3);
        told_ms.push(of("start_skew_us")?);
        bounds_ms.push(of("clock_bound_us")?);
    }
    let p99 = percentile(&mut true_ms, 0.99);
    Ok(vec![
        FleetFigure::judged(
            "p99 of the skew of first requests < 2 ms",
            format!(
                "{p99:.2} ms (p50 {:.2}, max {:.2}), on the shared clock",
                percentile(&mut true_ms, 0.5),
                percentile(&mut true_ms, 1.0)
            ),
            p99 < 2.0,
        ),
        FleetFigure::shown(format!(
            "in the records: {:.2} ms (p99), with clock errors up to {:.2} ms (p99)",
            percentile(&mut told_ms, 0.99),
            percentile(&mut bounds_ms, 0.99)
        )),
    ])
}

/// Difference between the latest and the earliest first request in microseconds, on the clock that
/// all hosts of this machine share. The record shifts each agent's time by its estimated clock
/// offset, whose true value is 0.
fn true_skew_us(fleet: &Value) -> Option<f64> {
    let agents = fleet["agents"].as_array()?;
    let moments = agents
        .iter()
        .map(|agent| Some(agent["first_start_us"].as_f64()? + agent["clock_offset_us"].as_f64()?));
    let moments: Vec<f64> = moments.collect::<Option<_>>()?;
    let most = moments.iter().copied().reduce(f64::max)?;
    let least = moments.iter().copied().reduce(f64::min)?;
    (moments.len() > 1).then_some(most - least)
}

/// Returns the smallest value that is at least as large as the fraction `share` of all values.
fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Measures the cost of the coordinator.
pub(super) fn cost(programs: &FleetPrograms, folder: &Path) -> Result<Vec<FleetFigure>, String> {
    let site = Site::new(programs, folder)?;
    let duration = format!("{SECONDS}s");
    let rate = RATE.to_string();
    let (record, usage) = site.load(&["-d", &duration, "-r", &rate, "-c", "64"])?;
    let share = usage.cpu.as_secs_f64() / SECONDS as f64;
    let started = record.pointer("/totals/started").and_then(Value::as_u64);
    let wanted = RATE * SECONDS;
    Ok(vec![
        FleetFigure::judged(
            "coordinator < 1% of a core",
            format!(
                "{:.2}% ({:.0} ms of CPU time for a load of {SECONDS} s)",
                share * 100.0,
                usage.cpu.as_secs_f64() * 1e3
            ),
            share < 0.01,
        ),
        FleetFigure::judged(
            "all scheduled requests started",
            format!("{} of {wanted}", started.unwrap_or(0)),
            started == Some(wanted),
        ),
        FleetFigure::shown(memory(&usage)),
    ])
}

/// Describes the peak memory of a coordinator.
pub(super) fn memory(usage: &Usage) -> String {
    format!("coordinator's peak memory: {} MiB", usage.peak_bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_of_a_hundred_is_the_second_largest() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.99), 99.0);
        assert_eq!(percentile(&mut values, 0.5), 50.0);
        assert_eq!(percentile(&mut values, 1.0), 100.0);
    }

    #[test]
    fn an_offset_that_was_only_estimated_is_no_skew() {
        let agent = |first: f64, offset: f64| serde_json::json!({"first_start_us": first, "clock_offset_us": offset});
        let fleet = serde_json::json!({"agents": [agent(300.0, -200.0), agent(90.0, 50.0)]});
        assert_eq!(true_skew_us(&fleet), Some(40.0));
        let fleet = serde_json::json!({"agents": [agent(1.0, 0.0), {"first_start_us": null}]});
        assert_eq!(true_skew_us(&fleet), None);
    }

    #[test]
    fn a_part_that_is_lost_is_named() {
        let record = |because: &str| serde_json::json!({"fleet": {"agents": [{"name": "a", "ended_because": because}]}});
        assert_eq!(incomplete_agent(&record("done")), None);
        assert!(incomplete_agent(&record("lost")).is_some());
        assert!(incomplete_agent(&serde_json::json!({})).is_some());
    }
}
