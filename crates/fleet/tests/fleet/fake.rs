//! An agent that makes no load: it answers as one does, and sends what a test has it measure.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prony_fleet::clock::{Clock, Told};
use prony_fleet::link::{Link, Message};
use prony_fleet::messages::{
    AGENT_SCHEMA, Because, Checked, Load, Order, PartEnd, Ready, Registration, Reply,
    ResultMessage, VERSION, What,
};
use prony_fleet::names::{AgentName, RunId};
use prony_load::LoadOptions;
use prony_record::{Delta, Finding, Generator, LoadInfo, Nanos, Negotiated, Outcome, Packed};

use crate::ground::{Ground, agent};

/// What it is to do.
#[derive(Clone)]
pub(crate) struct Script {
    /// What it measures, a message each.
    pub(crate) deltas: Vec<Delta>,
    /// Between two messages.
    pub(crate) pace: Duration,
    /// What it says when it is to get ready, in place of what others say.
    pub(crate) says: Option<Reply>,
    pub(crate) findings: Vec<Finding>,
    /// What it says that its measured part was, where that is not what was ordered.
    pub(crate) span: Option<(u64, u64)>,
    pub(crate) clock: Clock,
    /// By how much its clock jumps when the load begins, in nanoseconds.
    pub(crate) jump: i64,
    /// How much later than it was told it begins.
    pub(crate) late: Duration,
    /// Whether it loads on when it is told to stop.
    pub(crate) is_deaf: bool,
    /// How long it takes to tell the time.
    pub(crate) slow_clock: Duration,
    pub(crate) instance: String,
    pub(crate) addresses: Vec<std::net::IpAddr>,
}

impl Default for Script {
    fn default() -> Script {
        Script {
            deltas: (0..5).map(|n| measured(n + 1)).collect(),
            pace: Duration::from_millis(20),
            says: None,
            findings: Vec::new(),
            span: None,
            clock: Clock::new(),
            jump: 0,
            late: Duration::ZERO,
            is_deaf: false,
            slow_clock: Duration::ZERO,
            instance: "one".to_owned(),
            addresses: Vec::new(),
        }
    }
}

/// So many requests that went well, one that didn't, and one that is under way.
pub(crate) fn measured(n: u64) -> Delta {
    let mut delta = Delta::default();
    let end = Nanos(500_000_000 + n * 1_000_000_000);
    (delta.span, delta.started) = (Some((Nanos(500_000_000), end)), n + 2);
    delta.outcomes.add_many(Outcome::Ok, n);
    delta.outcomes.add(Outcome::Timeout);
    delta.bytes_in = n * 1000;
    for i in 0..n {
        delta.response_time.record(Nanos(i * 77_000 + n));
        delta.service_time.record(Nanos(i * 70_000 + n));
    }
    delta
}

/// What an agent was told, and what its load is.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) orders: Mutex<Vec<What>>,
    pub(crate) renewed: AtomicU64,
    is_loading: AtomicBool,
    is_stopped: AtomicBool,
    is_killed: AtomicBool,
}

impl Seen {
    pub(crate) fn loads(&self) -> Vec<Load> {
        let orders = self.orders.lock().unwrap();
        let loads = orders.iter().filter_map(|what| match what {
            What::Prepare(load) => Some(load.clone()),
            _ => None,
        });
        loads.collect()
    }

    pub(crate) fn was_told(&self, what: &What) -> bool {
        self.orders.lock().unwrap().contains(what)
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Relaxed)
    }

    fn ends(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }
}

/// The agent; killed when it is dropped.
pub(crate) struct Fake {
    pub(crate) seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

impl Fake {
    /// Registers `name`, and waits for orders.
    pub(crate) fn start(ground: &Ground, name: &str, script: Script) -> Fake {
        let name: AgentName = name.parse().unwrap();
        let link = Arc::new(ground.link(&agent(name.as_str())));
        let seen = Arc::new(Seen::default());
        let mut clock_questions = link.subscribe(&name.clock()).unwrap();
        let mut orders = link.subscribe(&name.orders()).unwrap();
        register(&link, &name, &script, None);
        let telling = {
            let (link, seen, script) = (link.clone(), seen.clone(), script.clone());
            move || {
                while !seen.ends() {
                    if let Some(question) = clock_questions.next(TURN) {
                        tell_time(&link, &script, &question);
                    }
                }
            }
        };
        let obeying = {
            let seen = seen.clone();
            move || {
                let mut loads = Vec::new();
                while !seen.ends() {
                    if let Some(order) = orders.next(TURN) {
                        loads.extend(obey(&link, &name, &seen, &script, &order));
                    }
                }
                for load in loads {
                    JoinHandle::join(load).unwrap();
                }
            }
        };
        Fake {
            seen,
            threads: vec![std::thread::spawn(telling), std::thread::spawn(obeying)],
        }
    }

    /// Waits until its load runs.
    pub(crate) fn wait_for_load(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.seen.is_loading() {
            assert!(Instant::now() < until, "no load began");
            std::thread::sleep(TURN);
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.seen.is_killed.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

const TURN: Duration = Duration::from_millis(10);

fn register(link: &Link, name: &AgentName, script: &Script, busy_with: Option<RunId>) {
    let registration = Registration {
        schema: AGENT_SCHEMA.to_owned(),
        version: VERSION.to_owned(),
        name: name.clone(),
        instance: script.instance.clone(),
        labels: BTreeMap::from([("kind".to_owned(), "fake".to_owned())]),
        cores: 2,
        addresses: script.addresses.clone(),
        system: "Fake 1".to_owned(),
        host: "host".to_owned(),
        open_files: 1024,
        clock: None,
        policy: "everything".to_owned(),
        busy_with,
        reserved: None,
        sending: Default::default(),
    };
    let json = serde_json::to_vec(&registration).unwrap();
    link.store(&format!("$KV.prony_agents.{name}"), None, json)
        .unwrap();
}

fn tell_time(link: &Link, script: &Script, question: &Message) {
    let heard = script.clock.now();
    std::thread::sleep(script.slow_clock);
    let told = Told {
        heard,
        // On the way, as far as anybody can tell.
        answered: heard,
    };
    let _ = link.say(question.reply.as_deref().unwrap(), told.to_bytes().to_vec());
}

fn obey(
    link: &Arc<Link>,
    name: &AgentName,
    seen: &Arc<Seen>,
    script: &Script,
    message: &Message,
) -> Option<JoinHandle<()>> {
    let order: Order = serde_json::from_slice(&message.payload).unwrap();
    if order.what == What::Renew {
        seen.renewed.fetch_add(1, Ordering::Relaxed);
    } else {
        seen.orders.lock().unwrap().push(order.what.clone());
    }
    let mut load = None;
    let reply = match order.what {
        What::Prepare(part) => script.says.clone().unwrap_or_else(|| ready(&part)),
        What::Check(_) => match &script.says {
            Some(said) => said.clone(),
            None => Reply::Checked(Checked {
                target: Ok("200, 13 bytes".to_owned()),
                forecast: Vec::new(),
            }),
        },
        What::Start { at } => {
            register(link, name, script, Some(order.run.clone()));
            let job = Job {
                link: link.clone(),
                name: name.clone(),
                run: order.run,
                seen: seen.clone(),
                script: script.clone(),
                at,
            };
            load = Some(std::thread::spawn(move || job.run()));
            Reply::Done
        }
        What::Stop => {
            seen.is_stopped.store(!script.is_deaf, Ordering::Relaxed);
            Reply::Done
        }
        What::Renew if script.instance == "another" => Reply::Wrong {
            text: "no such run".to_owned(),
        },
        What::Put(_) | What::Renew | What::Forget => Reply::Done,
        What::Host(_) => Reply::Wrong {
            text: "it makes loads alone".to_owned(),
        },
    };
    let json = serde_json::to_vec(&reply).unwrap();
    let _ = link.say(message.reply.as_deref().unwrap(), json);
    load
}

fn ready(part: &Load) -> Reply {
    ready_for(LoadInfo {
        url: part.url.clone().unwrap_or_default(),
        model: "closed".to_owned(),
        connections: 50,
        threads: part.stretch.workers,
        io: "poll".to_owned(),
        sources: 1,
        // What is waited for is what was typed, whatever an agent says of it.
        duration_s: None,
        ..LoadInfo::default()
    })
}

/// What an agent says that read this load.
pub(crate) fn ready_for(load: LoadInfo) -> Reply {
    Reply::Ready(Ready {
        connections: 0,
        forecast: Vec::new(),
        load: Box::new(load),
    })
}

struct Job {
    link: Arc<Link>,
    name: AgentName,
    run: RunId,
    seen: Arc<Seen>,
    script: Script,
    at: i64,
}

impl Job {
    fn run(self) {
        let moment = self.script.clock.moment(self.at);
        let moment = moment + self.script.late;
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        self.seen.is_loading.store(true, Ordering::Relaxed);
        let first = self.script.clock.now();
        self.script.clock.shift(self.script.jump);
        let mut sequence = 0;
        for delta in &self.script.deltas {
            std::thread::sleep(self.script.pace);
            if self.seen.ends() {
                return;
            }
            if self.seen.is_stopped.load(Ordering::Relaxed) {
                break;
            }
            self.send(sequence, delta, None);
            sequence += 1;
        }
        let because = match self.seen.is_stopped.load(Ordering::Relaxed) {
            true => Because::Stopped,
            false => Because::Done,
        };
        // What was under way ends with the load.
        let mut last = Delta::default();
        last.outcomes.add_many(Outcome::Unfinished, sequence);
        let end = PartEnd {
            because,
            began: Some((self.at, first)),
            span: self.script.span.unwrap_or_else(|| self.span()),
            response_time_us: None,
            generator: Generator {
                cpu_user_s: 1.0,
                busy_share: 0.25,
                ..Generator::default()
            },
            negotiated: Negotiated::default(),
            sources: None,
            findings: self.script.findings.clone(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
        };
        self.send(sequence, &last, Some(Box::new(end)));
        register(&self.link, &self.name, &self.script, None);
        self.seen.is_loading.store(false, Ordering::Relaxed);
    }

    /// The measured part as the order has it.
    fn span(&self) -> (u64, u64) {
        let load = self.seen.loads().pop().unwrap();
        let options = LoadOptions::parse_words(&load.words).unwrap_or_default();
        let measured = options.planned().unwrap_or(Duration::from_secs(3));
        let begin = options.warmup.as_nanos() as u64;
        (begin, begin + measured.as_nanos() as u64)
    }

    /// Until the server has it, as an agent does.
    fn send(&self, sequence: u64, delta: &Delta, end: Option<Box<PartEnd>>) {
        let message = ResultMessage {
            run: self.run.clone(),
            agent: self.name.clone(),
            sequence,
            packed: Packed::of(delta),
            end,
        };
        let json = serde_json::to_vec(&message).unwrap();
        let number = format!("{}.{}.{sequence}", self.run, self.name);
        let subject = self.name.results(&self.run);
        while self
            .link
            .store(&subject, Some(&number), json.clone())
            .is_err()
        {
            if self.seen.ends() {
                return;
            }
        }
    }
}
