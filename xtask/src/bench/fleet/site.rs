//! Hosts (network namespaces), a server and agents for the fleet rows, removed on drop.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::process;
use crate::test::install::find_program;

/// Prefix of the names of the benchmark's namespaces, which is followed by the process ID.
const PREFIX: &str = "prony-bench-";

/// Time limit for a program to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running program, terminated on drop.
pub(super) struct Program {
    child: Child,
    said: PathBuf,
}

impl Program {
    /// Starts a program whose standard output and standard error are redirected to the file `said`.
    pub(super) fn start(command: &mut Command, said: &Path) -> Result<Program, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", said.display());
        process::log_into(command, said).map_err(failed)?;
        let child = command.stdin(Stdio::null()).spawn().map_err(failed)?;
        Ok(Program {
            child,
            said: said.to_owned(),
        })
    }

    /// Returns the output of the program so far.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// User and system time of the child processes that are still running.
    pub(super) fn cpu_of_children(&self) -> Result<Duration, String> {
        let mut all = Duration::ZERO;
        for entry in std::fs::read_dir("/proc").map_err(|e| format!("/proc: {e}"))? {
            let Ok(entry) = entry else { continue };
            // Some entries of /proc aren't processes, and a process may have ended meanwhile.
            let stat = std::fs::read_to_string(entry.path().join("stat"));
            let cpu = stat.ok().and_then(|stat| cpu_of(&stat, self.child.id()));
            all += cpu.unwrap_or_default();
        }
        Ok(all)
    }

    /// Waits until the output contains `text`.
    pub(super) fn wait_for(&mut self, text: &str) -> Result<(), String> {
        let began = Instant::now();
        while !self.said().contains(text) {
            let ended = self.child.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || began.elapsed() > START_TIMEOUT {
                return Err(format!(
                    "the output does not contain {text:?}:\n{}",
                    self.said()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until the program ends successfully.
    pub(super) fn end(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.child.try_wait().map_err(|e| e.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{status}:\n{}", self.said())),
                None if began.elapsed() > START_TIMEOUT => {
                    return Err(format!("the program did not end:\n{}", self.said()));
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
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
    Some(Duration::from_secs_f64(
        ticks as f64 / process::ticks_per_second(),
    ))
}

impl Drop for Program {
    fn drop(&mut self) {
        process::terminate(&self.child);
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A hub for the server and the coordinator, and hosts connected to its bridge.
pub(super) struct Hosts {
    ip: PathBuf,
    names: Vec<String>,
}

impl Hosts {
    /// Creates the hub with address 10.78.0.1, and `count` hosts with addresses from 10.78.0.2.
    pub(super) fn new(count: usize) -> Result<Hosts, String> {
        if !process::is_root() {
            return Err("network namespaces need root".to_owned());
        }
        let ip = find_program("ip").ok_or("ip (package iproute2) is not installed")?;
        let mut hosts = Hosts {
            ip,
            names: Vec::new(),
        };
        hosts.sweep();
        hosts.add("hub")?;
        hosts.within(0, "link add br0 type bridge")?;
        hosts.within(0, "addr add 10.78.0.1/24 dev br0")?;
        hosts.within(0, "link set br0 up")?;
        for host in 1..=count {
            hosts.add(&host.to_string())?;
            let name = &hosts.names[host];
            let pair = format!("link add v{host} type veth peer name eth0 netns {name}");
            hosts.within(0, &pair)?;
            hosts.within(0, &format!("link set v{host} master br0 up"))?;
            let address = format!("addr add {}/24 dev eth0", Hosts::address(host));
            hosts.within(host, &address)?;
            hosts.within(host, "link set eth0 up")?;
        }
        Ok(hosts)
    }

    /// Address of a host. Host 0 is the hub.
    pub(super) fn address(host: usize) -> String {
        format!("10.78.0.{}", host + 1)
    }

    /// Returns a command that runs a program on a host.
    pub(super) fn command(&self, host: usize, program: &Path) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.names[host]]);
        command.arg(program);
        command
    }

    fn add(&mut self, host: &str) -> Result<(), String> {
        let name = format!("{PREFIX}{}-{host}", std::process::id());
        self.ip(&format!("netns add {name}"))?;
        self.names.push(name);
        self.within(self.names.len() - 1, "link set lo up")
    }

    fn within(&self, host: usize, words: &str) -> Result<(), String> {
        self.ip(&format!("-n {} {words}", self.names[host]))
    }

    fn ip(&self, words: &str) -> Result<(), String> {
        let output = Command::new(&self.ip).args(words.split(' ')).output();
        let output = output.map_err(|e| format!("ip: {e}"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("ip {words}: {}", said.trim()))
            }
        }
    }

    /// Removes namespaces left by a benchmark that was killed.
    fn sweep(&self) {
        let listed = Command::new(&self.ip).args(["netns", "list"]).output();
        let listed = listed.map(|it| it.stdout).unwrap_or_default();
        for line in String::from_utf8_lossy(&listed).lines() {
            let name = line.split(' ').next().unwrap_or_default();
            let owner = name
                .strip_prefix(PREFIX)
                .and_then(|it| it.split('-').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = self.ip(&format!("netns del {name}"));
            }
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = self.ip(&format!("netns del {name}"));
        }
    }
}

/// Reads a JSON file.
pub(super) fn json(path: &Path) -> Result<serde_json::Value, String> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_reader(file).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_children_used_is_in_their_lines() {
        let line = "7 (a) b) S 5 7 7 0 -1 0 1 2 3 4 150 50 0 0 20 0 1 0 9";
        let second = process::ticks_per_second();
        let used = cpu_of(line, 5).unwrap();
        assert!((used.as_secs_f64() - 200.0 / second).abs() < 1e-9);
        assert_eq!(cpu_of(line, 7), None);
        assert_eq!(cpu_of("", 7), None);
    }
}
