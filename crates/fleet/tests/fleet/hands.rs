//! An agent in this process, and a coordinator whose every word a test says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prony_fleet::agent::{Agent, AgentError, Settings, spool};
use prony_fleet::clock::Clock;
use prony_fleet::division::Stretch;
use prony_fleet::ledger::Ledger;
use prony_fleet::link::{Link, Replay};
use prony_fleet::messages::{
    Load, Order, PartEnd, Registration, Reply, ResultMessage, VERSION, What,
};
use prony_fleet::names::{AGENTS, AgentName, RunId};
use prony_fleet::permissions::Role;
use prony_fleet::policy::Policy;
use prony_origin::{Config, Origin};

use crate::ground::{Ground, agent};

/// Long enough for a busy machine; nothing waits that long unless it fails.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// An agent that runs.
pub(crate) struct There {
    pub(crate) name: AgentName,
    pub(crate) clock: Clock,
    said: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), AgentError>>>,
}

/// What an agent is by default: its state is in the ground's folder.
pub(crate) fn settings(ground: &Ground, name: &str) -> Settings {
    Settings {
        name: name.parse().unwrap(),
        server: None,
        credentials: ground.credentials(&agent(name)),
        labels: BTreeMap::from([("site".to_owned(), "here".to_owned())]),
        policy: Policy::default(),
        state: state(ground),
        cores: Vec::new(),
        clock: Clock::new(),
        tell: Arc::new(|_| {}),
    }
}

/// Where the agents of a ground keep what they measured.
pub(crate) fn state(ground: &Ground) -> PathBuf {
    ground.folder.path().join("state")
}

/// A policy as a file has it.
pub(crate) fn policy(folder: &Path, text: &str) -> Policy {
    let path = folder.join("policy.toml");
    std::fs::write(&path, text).unwrap();
    Policy::read(&path).unwrap()
}

impl There {
    pub(crate) fn start(mut settings: Settings) -> There {
        let stop = Arc::new(AtomicBool::new(false));
        let said = Arc::new(Mutex::new(Vec::new()));
        let (name, clock) = (settings.name.clone(), settings.clock.clone());
        let (says, told) = (said.clone(), stop.clone());
        settings.tell = Arc::new(move |text: &str| says.lock().unwrap().push(text.to_owned()));
        let thread =
            std::thread::spawn(move || Agent::connect(settings, &told)?.run(&told).map(drop));
        There {
            name,
            clock,
            said,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn says(&self, what: &str) -> bool {
        let said = self.said.lock().unwrap();
        said.iter().any(|line| line.contains(what))
    }

    /// Waits for its end, asked for or not.
    pub(crate) fn end(mut self, is_asked_for: bool) -> Result<(), AgentError> {
        if is_asked_for {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for There {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for something to be so.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A coordinator's hands.
pub(crate) struct Hands {
    pub(crate) link: Link,
}

impl Hands {
    pub(crate) fn new(ground: &Ground) -> Hands {
        let link = ground.link(&Role::Coordinator);
        link.prepare_server().unwrap();
        Hands { link }
    }

    pub(crate) fn registered(&self, name: &AgentName) -> Option<Registration> {
        let entries = self.link.entries(AGENTS).unwrap();
        let found = entries.iter().find(|(key, _)| key == name.as_str())?;
        Registration::of_entry(&found.0, &found.1)
    }

    /// Waits until an agent takes orders.
    pub(crate) fn wait_for(&self, agent: &There) -> Registration {
        until("it is registered", || self.registered(&agent.name))
    }

    pub(crate) fn say(&self, agent: &AgentName, message: impl Into<Vec<u8>>) -> Reply {
        let reply = self
            .link
            .ask(&agent.orders(), message.into(), SOON)
            .unwrap();
        serde_json::from_slice(&reply).unwrap()
    }

    pub(crate) fn order(&self, agent: &AgentName, run: &str, what: What) -> Reply {
        let order = Order {
            version: VERSION.to_owned(),
            run: run.parse().unwrap(),
            experiment: None,
            what,
        };
        self.say(agent, serde_json::to_vec(&order).unwrap())
    }

    /// Has an agent get ready and begin soon; tells when, on its clock.
    pub(crate) fn begin(&self, agent: &There, run: &str, load: Load) -> i64 {
        let reply = self.order(&agent.name, run, What::Prepare(load));
        assert!(matches!(reply, Reply::Ready(_)), "{reply:?}");
        let at = agent.clock.now() + 400_000_000;
        assert_eq!(
            self.order(&agent.name, run, What::Start { at }),
            Reply::Done
        );
        at
    }

    pub(crate) fn results(&self, run: &str) -> Results {
        let run: RunId = run.parse().unwrap();
        Results {
            replay: until("the stream is there", || {
                self.link.replay(&run.all_results()).ok()
            }),
            messages: Vec::new(),
        }
    }
}

/// What came of a run.
pub(crate) struct Results {
    replay: Replay,
    pub(crate) messages: Vec<ResultMessage>,
}

impl Results {
    /// Waits for the next message.
    pub(crate) fn next(&mut self) -> &ResultMessage {
        let message = self.replay.next(SOON).expect("a message comes");
        self.messages
            .push(serde_json::from_slice(&message.payload).unwrap());
        self.messages.last().unwrap()
    }

    /// All that comes until the last message has, added up and with what belongs to the whole.
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

/// All of a load, of so many workers.
pub(crate) fn load(url: &str, words: &str, workers: u32) -> Load {
    Load {
        url: Some(url.to_owned()),
        words: words.split_whitespace().map(str::to_owned).collect(),
        stretch: Stretch {
            first: 0,
            workers,
            of: workers,
        },
        lease_ms: 60_000,
    }
}

/// What an agent's own file of a run holds.
pub(crate) fn kept(ground: &Ground, run: &str, name: &AgentName) -> Option<Vec<ResultMessage>> {
    let path = state(ground).join(format!("runs/{run}.{name}.jsonl"));
    path.exists().then(|| spool::read(&path).unwrap())
}

/// A server to load.
pub(crate) fn origin() -> (Origin, String) {
    let origin = Origin::start(Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..Config::default()
    });
    let origin = origin.unwrap();
    let url = format!("http://{}/", origin.addresses()[0]);
    (origin, url)
}
