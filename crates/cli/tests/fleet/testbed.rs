//! Sets up a NATS server, agents on separate hosts, and an nginx that logs its clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use prony_fleet::credentials::FleetCredentials;
use prony_record::Record;
use rustix::process::{Pid, Signal, kill_process};

use crate::netns::{HUB, HUB_ADDRESS, Network, address, find};
use crate::process::{Process, TEST_TIMEOUT, wait_until};

const WEB: &str = "web";
/// URL of the loads, served by the testbed's nginx.
pub(crate) const URL: &str = "http://10.77.0.2/";

const NGINX: &str = "
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events { worker_connections 512; }
http {
  log_format from '$remote_addr';
  log_format age '$connection $connection_requests $connection_time';
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000;
  server {
    access_log {folder}/access from;
    access_log {folder}/ages age;
    listen 10.77.0.2:80;
    location / { return 200 'hello, fleet'; }
  }
}
";

/// A NATS server, agents on separate hosts, and an nginx as the target. Agents have numbers from 0
/// and the names `agent-1`, `agent-2` and so on.
pub(crate) struct Testbed {
    // Declared first, because the processes must be dropped before their hosts.
    pub(crate) agents: Vec<Process>,
    pub(crate) up: Process,
    web: Process,
    pub(crate) network: Network,
    folder: tempfile::TempDir,
    number: u32,
}

/// Returns the name of an agent, which is also the name of its host.
pub(crate) fn name(agent: usize) -> String {
    format!("agent-{}", agent + 1)
}

impl Testbed {
    /// Starts a testbed with the given number of agents, and waits until they are registered.
    pub(crate) fn new(agents: usize) -> Testbed {
        Testbed::with(agents, |_, _, _| {})
    }

    /// Works like [`Testbed::new`], but calls `more` for each agent, which can extend the agent's
    /// command and write files to a folder.
    pub(crate) fn with(agents: usize, more: impl Fn(usize, &mut Command, &Path)) -> Testbed {
        let names: Vec<String> = (0..agents).map(name).collect();
        let hosts: Vec<&str> = [WEB]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .collect();
        let network = Network::new(&hosts);
        let folder = tempfile::tempdir().unwrap();
        // nginx's workers run as another user and need access to the folder.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let mut testbed = Testbed {
            up: up(&network, folder.path(), agents),
            web: web(&network, folder.path()),
            network,
            folder,
            agents: Vec::new(),
            number: 0,
        };
        for agent in 0..agents {
            let started = testbed.start_agent(agent, &more);
            testbed.agents.push(started);
        }
        testbed
            .agents
            .iter_mut()
            .for_each(|agent| agent.wait_for("registered as"));
        wait_until("nginx listens", || {
            testbed.path("pid").exists().then_some(())
        });
        testbed
    }

    fn start_agent(&mut self, agent: usize, more: impl Fn(usize, &mut Command, &Path)) -> Process {
        let name = name(agent);
        let mut command = self.prony(&name, &["agent"]);
        command
            .arg("--creds")
            .arg(self.path(&format!("up/{name}.creds")));
        command.arg("--state").arg(self.state(agent));
        more(agent, &mut command, self.folder.path());
        self.number += 1;
        let name = format!("{name}-{}", self.number);
        Process::start(command, self.folder.path(), &name)
    }

    /// Restarts an agent that has exited.
    pub(crate) fn restart_agent(&mut self, agent: usize) {
        self.agents[agent] = self.start_agent(agent, |_, _, _| {});
    }

    /// Restarts the NATS server with the same folder.
    pub(crate) fn restart_server(&mut self) {
        self.up = up(&self.network, self.folder.path(), 0);
    }

    /// Kills the NATS server's process.
    pub(crate) fn kill_server(&self) {
        let pid = std::fs::read_to_string(self.path("up/store/nats.pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn state(&self, agent: usize) -> PathBuf {
        self.path(&format!("state-{agent}"))
    }

    fn prony(&self, host: &str, words: &[&str]) -> Command {
        let mut command = self
            .network
            .command(host, Path::new(env!("CARGO_BIN_EXE_prony")));
        command.args(words).env_remove("PRONY_PUBLIC");
        command
    }

    /// Returns the credentials of an agent or of the coordinator.
    pub(crate) fn credentials(&self, name: &str) -> FleetCredentials {
        FleetCredentials::read(&self.path(&format!("up/{name}.creds"))).unwrap()
    }

    /// Starts a prony command with the coordinator's credentials.
    pub(crate) fn coordinator(&mut self, words: &[&str]) -> Process {
        let mut command = self.prony(HUB, words);
        command
            .arg("--creds")
            .arg(self.path("up/coordinator.creds"));
        self.number += 1;
        let name = format!("coordinator-{}", self.number);
        Process::start(command, self.folder.path(), &name)
    }

    /// Starts a prony command on the coordinator's host that doesn't connect to the NATS server.
    pub(crate) fn command(&mut self, words: &[&str]) -> Process {
        self.number += 1;
        let name = format!("command-{}", self.number);
        Process::start(self.prony(HUB, words), self.folder.path(), &name)
    }

    /// Starts a load with all agents, and waits until they are sending requests.
    pub(crate) fn load(&mut self, words: &str) -> Load {
        let mut load = self.begin(words);
        load.process.wait_for("started");
        load.kept = self.keep_files();
        load
    }

    /// Starts a load with all agents, without waiting for it to begin.
    pub(crate) fn begin(&mut self, words: &str) -> Load {
        let agents = self.agents.len().to_string();
        let mut all = vec!["load", "--agents", &agents, "--clock-bound", "500ms"];
        all.extend(words.split(' '));
        self.recorded(&all, URL)
    }

    /// Starts a command that writes a record.
    pub(crate) fn recorded(&mut self, words: &[&str], last: &str) -> Load {
        let json = self.path(&format!("record-{}.json", self.number));
        let mut all = words.to_vec();
        let to = json.to_str().unwrap().to_owned();
        all.extend(["--progress", "lines", "--json", &to, last]);
        Load {
            process: self.coordinator(&all),
            json,
            kept: Vec::new(),
        }
    }

    /// Creates links to the agents' result files. Agents delete the originals when all results are
    /// collected.
    fn keep_files(&self) -> Vec<PathBuf> {
        let folder = self.path("kept");
        std::fs::create_dir_all(&folder).unwrap();
        let mut kept = Vec::new();
        for agent in 0..self.agents.len() {
            for file in files(&self.state(agent)) {
                let to = folder.join(file.file_name().unwrap());
                let linked = std::fs::hard_link(&file, &to);
                assert!(linked.is_ok() || to.exists(), "{linked:?}");
                kept.push(to);
            }
        }
        kept
    }

    /// Returns the number of result files that agents have not deleted.
    pub(crate) fn files_left(&self) -> usize {
        (0..self.agents.len())
            .map(|agent| files(&self.state(agent)).len())
            .sum()
    }

    /// Returns the number of requests that nginx responded to, by client.
    pub(crate) fn answered(&self) -> BTreeMap<String, u64> {
        let text = std::fs::read_to_string(self.path("access")).unwrap();
        let mut answered = BTreeMap::new();
        for line in text.lines() {
            let agent = (0..self.agents.len()).find(|agent| address(agent + 1) == line);
            let agent = agent.unwrap_or_else(|| panic!("no agent has the address {line}"));
            *answered.entry(name(agent)).or_default() += 1;
        }
        answered
    }

    /// Returns the age in seconds of each of nginx's connections at the end of its first request.
    pub(crate) fn ages(&self) -> Vec<f64> {
        let text = std::fs::read_to_string(self.path("ages")).unwrap();
        let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let firsts = words.filter(|words| words[1] == "1");
        firsts.map(|words| words[2].parse().unwrap()).collect()
    }

    /// Checks that nginx receives no more requests.
    pub(crate) fn expect_quiet(&mut self) {
        let before = self.answered();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(
            before,
            self.answered(),
            "an agent is still sending requests"
        );
        let _ = &self.web;
    }
}

fn up(network: &Network, folder: &Path, agents: usize) -> Process {
    // Retry while the old server still occupies the address.
    let mut command = network.command(HUB, Path::new(env!("CARGO_BIN_EXE_prony")));
    command
        .args(["fleet", "up", "--dir"])
        .arg(folder.join("up"));
    if agents > 0 {
        command.args(["--agents", &agents.to_string()]);
        command.args(["--listen", &format!("{HUB_ADDRESS}:4222")]);
    }
    let mut up = Process::start(command, folder, &format!("up-{agents}"));
    up.wait_for("nats-server listens on");
    up
}

fn web(network: &Network, folder: &Path) -> Process {
    let file = folder.join("nginx.conf");
    let text = NGINX.replace("{folder}", folder.to_str().unwrap());
    std::fs::write(&file, text).unwrap();
    let mut command = network.command(WEB, &find("nginx"));
    command
        .arg("-p")
        .arg(folder)
        .args(["-e", "stderr", "-c"])
        .arg(&file);
    Process::start(command, folder, "nginx")
}

/// Returns the result files in an agent's folder.
fn files(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state.join("runs")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns true if a file in this folder or below it contains the text.
pub(crate) fn folder_contains(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            folder_contains(&path, text)
        } else {
            // The server may have removed the file after it was listed.
            std::fs::read(&path).is_ok_and(|bytes| {
                let mut windows = bytes.windows(text.len());
                windows.any(|window| window == text.as_bytes())
            })
        }
    })
}

/// A running command that writes a record.
pub(crate) struct Load {
    pub(crate) process: Process,
    json: PathBuf,
    /// Links to the agents' result files.
    pub(crate) kept: Vec<PathBuf>,
}

impl Load {
    /// Returns the ID of the run.
    pub(crate) fn run(&self) -> String {
        let printed = self.process.stderr();
        let line = printed.lines().find_map(|line| line.strip_prefix("run "));
        line.unwrap().split(':').next().unwrap().to_owned()
    }

    /// Waits for the command to exit, and returns the record.
    pub(crate) fn record(&mut self) -> Record {
        let began = Instant::now();
        let status = self.process.end();
        assert!(began.elapsed() < TEST_TIMEOUT);
        let json = std::fs::read_to_string(&self.json).unwrap_or_default();
        Record::from_json(&json)
            .unwrap_or_else(|error| panic!("status {status}, {error}:\n{}", self.process.stderr()))
    }
}
