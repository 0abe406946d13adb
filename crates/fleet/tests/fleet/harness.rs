//! Runs an agent in the test process, and a coordinator that sends single orders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prony_fleet::agent::{Agent, AgentError, AgentSettings, LogSink, spool};
use prony_fleet::clock::Clock;
use prony_fleet::division::AgentShard;
use prony_fleet::ledger::Ledger;
use prony_fleet::link::{NatsLink, StoredMessages};
use prony_fleet::names::{AGENTS_BUCKET, AgentName, RunId};
use prony_fleet::permissions::Role;
use prony_fleet::policy::Policy;
use prony_fleet::wire::{
    AgentOrder, Command, LoadOrder, PartEnd, Registration, Reply, ResultMessage, SenderVersion,
};
use prony_origin::{Config, Origin};

use crate::nats_server::{TestServer, agent};

/// Timeout of waits in tests. It is long enough for a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(90);

pub(crate) struct RunningAgent {
    pub(crate) name: AgentName,
    pub(crate) clock: Clock,
    log: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), AgentError>>>,
}

/// Returns default settings for an agent, whose state folder is within the server's folder.
pub(crate) fn settings(nats: &TestServer, name: &str) -> AgentSettings {
    AgentSettings {
        name: name.parse().unwrap(),
        server: None,
        credentials: nats.credentials(&agent(name)),
        labels: BTreeMap::from([("site".to_owned(), "here".to_owned())]),
        policy: Policy::default(),
        state: state(nats),
        cores: Vec::new(),
        clock: Clock::new(),
        log: log_to_stderr(name),
    }
}

/// Creates a log that is printed if the test fails.
pub(crate) fn log_to_stderr(agent: &str) -> LogSink {
    let agent = agent.to_owned();
    Arc::new(move |line: &str| eprintln!("agent {agent}: {line}"))
}

/// Returns the folder in which agents keep their results.
pub(crate) fn state(nats: &TestServer) -> PathBuf {
    nats.folder.path().join("state")
}

/// Parses a policy.
pub(crate) fn policy(folder: &Path, text: &str) -> Policy {
    let path = folder.join("policy.toml");
    std::fs::write(&path, text).unwrap();
    Policy::read(&path).unwrap()
}

impl RunningAgent {
    pub(crate) fn start(mut settings: AgentSettings) -> RunningAgent {
        let stop = Arc::new(AtomicBool::new(false));
        let log = Arc::new(Mutex::new(Vec::new()));
        let (name, clock) = (settings.name.clone(), settings.clock.clone());
        let (lines, stop_set) = (log.clone(), stop.clone());
        let print = settings.log.clone();
        settings.log = Arc::new(move |line: &str| {
            print(line);
            lines.lock().unwrap().push(line.to_owned());
        });
        let thread = std::thread::spawn(move || {
            let name = settings.name.clone();
            let ended = Agent::connect(settings, &stop_set).and_then(|agent| agent.run(&stop_set));
            if let Err(error) = &ended {
                eprintln!("agent {name}: {error}");
            }
            ended.map(drop)
        });
        RunningAgent {
            name,
            clock,
            log,
            stop,
            thread: Some(thread),
        }
    }

    /// Returns true if the agent has logged a line with this text.
    pub(crate) fn logged(&self, text: &str) -> bool {
        let log = self.log.lock().unwrap();
        log.iter().any(|line| line.contains(text))
    }

    /// Waits until the agent exits. If `is_asked_for` is true, stops it first.
    pub(crate) fn end(mut self, is_asked_for: bool) -> Result<(), AgentError> {
        if is_asked_for {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until `look` returns a value. Panics with `what` after [`TEST_TIMEOUT`].
pub(crate) fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    look_until_timeout(look).unwrap_or_else(|| panic!("timeout: {what}"))
}

/// Repeats `look` until it returns a value. Returns `None` after [`TEST_TIMEOUT`].
pub(crate) fn look_until_timeout<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + TEST_TIMEOUT;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A coordinator that sends single orders.
pub(crate) struct TestCoordinator {
    pub(crate) link: NatsLink,
}

impl TestCoordinator {
    pub(crate) fn new(nats: &TestServer) -> TestCoordinator {
        let link = nats.link(&Role::Coordinator);
        link.prepare_server().unwrap();
        TestCoordinator { link }
    }

    pub(crate) fn registered(&self, name: &AgentName) -> Option<Registration> {
        let entries = self.link.entries(AGENTS_BUCKET).unwrap();
        let found = entries.iter().find(|(key, _)| key == name.as_str())?;
        Registration::of_entry(&found.0, &found.1)
    }

    /// Waits until an agent is registered.
    pub(crate) fn wait_for(&self, agent: &RunningAgent) -> Registration {
        wait_until("the agent is registered", || self.registered(&agent.name))
    }

    pub(crate) fn send_raw(&self, agent: &AgentName, message: impl Into<Vec<u8>>) -> Reply {
        let reply = self
            .link
            .request(&agent.orders_subject(), message.into(), TEST_TIMEOUT)
            .unwrap();
        serde_json::from_slice(&reply).unwrap()
    }

    pub(crate) fn order(&self, agent: &AgentName, run: &str, command: Command) -> Reply {
        let order = AgentOrder {
            sender: SenderVersion::own(),
            run: run.parse().unwrap(),
            experiment: None,
            command,
        };
        self.send_raw(agent, serde_json::to_vec(&order).unwrap())
    }

    /// Prepares a load and starts it soon afterwards. Returns the start time on the agent's clock.
    pub(crate) fn begin(&self, agent: &RunningAgent, run: &str, load: LoadOrder) -> i64 {
        let reply = self.order(&agent.name, run, Command::Prepare(load));
        assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
        let at = agent.clock.now() + 400_000_000;
        assert_eq!(
            self.order(&agent.name, run, Command::Start { at }),
            Reply::Done
        );
        at
    }

    pub(crate) fn results(&self, run: &str) -> Results {
        let run: RunId = run.parse().unwrap();
        Results {
            replay: wait_until("the stream of results exists", || {
                self.link.replay(&run.results_subject()).ok()
            }),
            messages: Vec::new(),
        }
    }
}

/// Receives the results of a run.
pub(crate) struct Results {
    replay: StoredMessages,
    pub(crate) messages: Vec<ResultMessage>,
}

impl Results {
    /// Waits for the next message and returns it.
    pub(crate) fn next(&mut self) -> &ResultMessage {
        let message = self.replay.next(TEST_TIMEOUT).expect("a message comes");
        self.messages
            .push(serde_json::from_slice(&message.payload).unwrap());
        self.messages.last().unwrap()
    }

    /// Waits for the last message. Returns all messages, their sum, and the end of the part.
    pub(crate) fn whole(mut self, agent: &AgentName) -> (Vec<ResultMessage>, Ledger, PartEnd) {
        let mut ledger = Ledger::new([agent.to_string()]);
        let mut end = None;
        for message in &self.messages {
            let name = message.agent.as_str();
            ledger
                .take(name, message.sequence, &message.packed)
                .unwrap();
        }
        while !ledger.is_whole(agent.as_str()) {
            let message = self.next().clone();
            let name = message.agent.as_str();
            ledger
                .take(name, message.sequence, &message.packed)
                .unwrap();
            if let Some(it) = message.end {
                ledger.end(name, message.sequence + 1).unwrap();
                end = Some(*it);
            }
        }
        (self.messages, ledger, end.unwrap())
    }
}

/// Parses flags into settings.
pub(crate) fn load_settings(flags: &[&str]) -> prony_load::LoadSettings {
    serde_json::from_value(flags::settings(flags.iter().copied())).unwrap()
}

#[path = "../../../load/tests/flags/mod.rs"]
pub(crate) mod flags;

/// Creates an order for a whole load with this number of workers.
pub(crate) fn load(url: &str, words: &str, workers: u32) -> LoadOrder {
    LoadOrder {
        url: Some(url.to_owned()),
        settings: load_settings(&words.split_whitespace().collect::<Vec<_>>()),
        shard: AgentShard {
            first: 0,
            workers,
            of: workers,
        },
        lease_ms: 60_000,
    }
}

/// Returns the messages in an agent's result file of a run, or `None` if the file doesn't exist.
pub(crate) fn kept(nats: &TestServer, run: &str, name: &AgentName) -> Option<Vec<ResultMessage>> {
    let path = state(nats).join(format!("runs/{run}.{name}.jsonl"));
    path.exists().then(|| spool::read_spool(&path).unwrap())
}

/// Starts an HTTP server as a target, and returns it with its URL.
pub(crate) fn origin() -> (Origin, String) {
    let origin = Origin::start(Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..Config::default()
    });
    let origin = origin.unwrap();
    let url = format!("http://{}/", origin.addresses()[0]);
    (origin, url)
}
