//! Four agents and an nginx, each in its own network namespace, behind a bridge.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::coordinator::{coordinate, coordinator_values, incomplete_agents};
use crate::bench::engine::Run;
use crate::bench::figures::{Measure, percentile};
use crate::bench::namespaces::{Namespaces, enter_on_start, in_namespace};
use crate::bench::process::{Program, Usage};

const AGENTS: usize = 4;
/// Number of starts whose skew is measured.
const STARTS: usize = 100;
/// Duration in seconds and total requests per second of the cost row.
const SECONDS: u64 = 20;
const RATE: u64 = 8_000;

/// Index of the host that runs nginx. Host 0 is the hub, and the agents' hosts are in between.
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
    /// Names of the hosts' namespaces.
    hosts: Vec<String>,
    _namespaces: Namespaces,
    prony: &'a Path,
    folder: &'a Path,
}

/// Address of a host.
fn address(host: usize) -> String {
    format!("10.78.0.{}", host + 1)
}

/// Returns a command that runs a program on a host.
fn on_host(host: &str, program: &Path) -> Result<Command, String> {
    let mut command = Command::new(program);
    enter_on_start(&mut command, host)?;
    Ok(command)
}

/// Adds a hub with a bridge, for the server and the coordinator, and hosts connected to it.
fn add_hosts(namespaces: &mut Namespaces) -> Result<Vec<String>, String> {
    let hub = namespaces.add("hub")?;
    in_namespace(&hub, "ip link add br0 type bridge")?;
    in_namespace(&hub, &format!("ip addr add {}/24 dev br0", address(0)))?;
    in_namespace(&hub, "ip link set br0 up")?;
    let mut hosts = vec![hub];
    for host in 1..=WEB {
        let name = namespaces.add(&host.to_string())?;
        let pair = format!("ip link add v{host} type veth peer name eth0 netns {name}");
        in_namespace(&hosts[0], &pair)?;
        in_namespace(&hosts[0], &format!("ip link set v{host} master br0 up"))?;
        in_namespace(&name, &format!("ip addr add {}/24 dev eth0", address(host)))?;
        in_namespace(&name, "ip link set eth0 up")?;
        hosts.push(name);
    }
    Ok(hosts)
}

impl<'a> Site<'a> {
    fn new(prony: &'a Path, nginx: &Path, folder: &'a Path) -> Result<Site<'a>, String> {
        let mut namespaces = Namespaces::new()?;
        let hosts = add_hosts(&mut namespaces)?;
        let mut command = on_host(&hosts[0], prony)?;
        command
            .args(["fleet", "up", "--dir"])
            .arg(folder.join("up"));
        let listen = format!("{}:4222", address(0));
        command.args(["--agents", &AGENTS.to_string(), "--listen", &listen]);
        let mut up = Program::start(None, &mut command, folder.join("up.out"))?;
        up.wait_for("nats-server listens")?;
        let file = folder.join("fleet.conf");
        let text = NGINX.replace("{address}", &address(WEB));
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut command = on_host(&hosts[WEB], nginx)?;
        command.arg("-p").arg(folder).args(["-e", "stderr", "-c"]);
        command.arg(&file);
        let nginx = Program::start(None, &mut command, folder.join("nginx.out"))?;
        let mut agents = Vec::new();
        for (agent, host) in hosts.iter().enumerate().take(WEB).skip(1) {
            let mut command = on_host(host, prony)?;
            command.args(["agent", "--creds"]);
            command.arg(folder.join(format!("up/agent-{agent}.creds")));
            command.arg("--state");
            command.arg(folder.join(format!("state-{agent}")));
            let log = folder.join(format!("agent-{agent}.out"));
            agents.push(Program::start(None, &mut command, log)?);
        }
        for agent in &mut agents {
            agent.wait_for("registered as")?;
        }
        Ok(Site {
            _agents: agents,
            _up: up,
            _nginx: nginx,
            hosts,
            _namespaces: namespaces,
            prony,
            folder,
        })
    }

    /// Runs a load and returns its record and the coordinator's resource usage.
    fn load(&self, words: &[&str]) -> Result<(Value, Usage), String> {
        let mut command = on_host(&self.hosts[0], self.prony)?;
        command.args(["load", "--agents", &AGENTS.to_string(), "--creds"]);
        command.arg(self.folder.join("up/coordinator.creds"));
        command.args(words);
        let url = format!("http://{}/", address(WEB));
        let (record, usage) = coordinate(command, &url, SECONDS, self.folder)?;
        match incomplete_agents(&record)?.as_slice() {
            [] => Ok((record, usage)),
            names => Err(format!(
                "the results of {} are incomplete",
                names.join(", ")
            )),
        }
    }
}

/// Measures the skew of the agents' first requests.
pub(super) fn skew(prony: &Path, nginx: &Path, folder: &Path) -> Result<Run, String> {
    let site = Site::new(prony, nginx, folder)?;
    let (mut true_ms, mut recorded_ms, mut bounds_ms) = (Vec::new(), Vec::new(), Vec::new());
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
        recorded_ms.push(of("start_skew_us")?);
        bounds_ms.push(of("clock_bound_us")?);
    }
    Ok(Run::of([
        (Measure::SkewP99, percentile(&mut true_ms, 0.99)),
        (Measure::SkewP50, percentile(&mut true_ms, 0.5)),
        (Measure::SkewMax, percentile(&mut true_ms, 1.0)),
        (Measure::RecordedSkewP99, percentile(&mut recorded_ms, 0.99)),
        (Measure::ClockErrorP99, percentile(&mut bounds_ms, 0.99)),
    ]))
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

/// Measures the cost of the coordinator.
pub(super) fn cost(prony: &Path, nginx: &Path, folder: &Path) -> Result<Run, String> {
    let site = Site::new(prony, nginx, folder)?;
    let duration = format!("{SECONDS}s");
    let rate = RATE.to_string();
    let (record, usage) = site.load(&["-d", &duration, "-r", &rate, "-c", "64"])?;
    let started = record.pointer("/totals/started").and_then(Value::as_u64);
    let unstarted = (RATE * SECONDS).abs_diff(started.unwrap_or(0));
    let mut run = Run::of(coordinator_values(&usage, SECONDS));
    run.values.insert(Measure::Unstarted, unstarted as f64);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_that_was_only_estimated_is_no_skew() {
        let agent = |first: f64, offset: f64| serde_json::json!({"first_start_us": first, "clock_offset_us": offset});
        let fleet = serde_json::json!({"agents": [agent(300.0, -200.0), agent(90.0, 50.0)]});
        assert_eq!(true_skew_us(&fleet), Some(40.0));
        let fleet = serde_json::json!({"agents": [agent(1.0, 0.0), {"first_start_us": null}]});
        assert_eq!(true_skew_us(&fleet), None);
    }
}
