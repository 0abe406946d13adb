//! An agent without a load engine. It sends the results in a test's script.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prony_fleet::clock::{Clock, ClockReply};
use prony_fleet::link::{NatsLink, NatsMessage};
use prony_fleet::names::{AgentName, RunId};
use prony_fleet::wire::{
    AgentOrder, CheckReport, Command, EndReason, LoadOrder, PartEnd, ReadyReport, Registration,
    Reply, ResultMessage,
};
use prony_record::{Delta, EncodedDelta, Finding, Generator, LoadInfo, Nanos, Negotiated, Outcome};

use crate::nats_server::{TestServer, agent};

/// Behavior of a scripted agent.
#[derive(Clone)]
pub(crate) struct AgentScript {
    /// Results to send, one message for each entry.
    pub(crate) deltas: Vec<Delta>,
    /// Pause between messages.
    pub(crate) pace: Duration,
    /// Reply to an order to prepare or check a load, instead of the default reply.
    pub(crate) reply: Option<Reply>,
    pub(crate) findings: Vec<Finding>,
    /// Start and end of the measured part to report instead of the ordered ones, in nanoseconds.
    pub(crate) span: Option<(u64, u64)>,
    pub(crate) clock: Clock,
    /// Jump of the agent's clock at the start of the load, in nanoseconds.
    pub(crate) jump: i64,
    /// Delay of the load's start after the ordered time.
    pub(crate) late: Duration,
    /// True if the agent ignores orders to stop.
    pub(crate) is_deaf: bool,
    /// Delay of replies to clock requests.
    pub(crate) slow_clock: Duration,
    pub(crate) instance: String,
    pub(crate) addresses: Vec<std::net::IpAddr>,
}

impl Default for AgentScript {
    fn default() -> AgentScript {
        AgentScript {
            deltas: (0..5).map(|n| measured(n + 1)).collect(),
            pace: Duration::from_millis(20),
            reply: None,
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

/// Returns results with `n` successful requests, one failed request, and one in flight.
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

/// Orders that an agent has received, and the state of its load.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) orders: Mutex<Vec<Command>>,
    pub(crate) renewed: AtomicU64,
    is_loading: AtomicBool,
    is_stopped: AtomicBool,
    is_killed: AtomicBool,
}

impl Observed {
    pub(crate) fn loads(&self) -> Vec<LoadOrder> {
        let orders = self.orders.lock().unwrap();
        let loads = orders.iter().filter_map(|command| match command {
            Command::Prepare(load) => Some(load.clone()),
            _ => None,
        });
        loads.collect()
    }

    pub(crate) fn received_order(&self, command: &Command) -> bool {
        self.orders.lock().unwrap().contains(command)
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Relaxed)
    }

    fn ends(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }
}

/// Running scripted agent, which ends when this value is dropped.
pub(crate) struct ScriptedAgent {
    pub(crate) seen: Arc<Observed>,
    threads: Vec<JoinHandle<()>>,
}

impl ScriptedAgent {
    /// Registers an agent with this name, and starts waiting for orders.
    pub(crate) fn start(nats: &TestServer, name: &str, script: AgentScript) -> ScriptedAgent {
        let name: AgentName = name.parse().unwrap();
        let link = Arc::new(nats.link(&agent(name.as_str())));
        let seen = Arc::new(Observed::default());
        let mut clock_questions = link.subscribe(&name.clock_subject()).unwrap();
        let mut orders = link.subscribe(&name.orders_subject()).unwrap();
        register(&link, &name, &script, None);
        let telling = {
            let (link, seen, script) = (link.clone(), seen.clone(), script.clone());
            move || {
                while !seen.ends() {
                    if let Some(question) = clock_questions.next(POLL_INTERVAL) {
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
                    if let Some(order) = orders.next(POLL_INTERVAL) {
                        loads.extend(handle_order(&link, &name, &seen, &script, &order));
                    }
                }
                for load in loads {
                    JoinHandle::join(load).unwrap();
                }
            }
        };
        ScriptedAgent {
            seen,
            threads: vec![std::thread::spawn(telling), std::thread::spawn(obeying)],
        }
    }

    /// Waits until the agent is generating load.
    pub(crate) fn wait_for_load(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.seen.is_loading() {
            assert!(Instant::now() < until, "no load began");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for ScriptedAgent {
    fn drop(&mut self) {
        self.seen.is_killed.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(10);

fn register(link: &NatsLink, name: &AgentName, script: &AgentScript, busy_with: Option<RunId>) {
    let registration = Registration {
        instance: script.instance.clone(),
        labels: BTreeMap::from([("kind".to_owned(), "fake".to_owned())]),
        cores: 2,
        addresses: script.addresses.clone(),
        system: "Fake 1".to_owned(),
        host: "host".to_owned(),
        policy: "everything".to_owned(),
        busy_with,
        ..Registration::new(name.clone())
    };
    let json = serde_json::to_vec(&registration).unwrap();
    link.store(&format!("$KV.prony_agents.{name}"), None, json)
        .unwrap();
}

fn tell_time(link: &NatsLink, script: &AgentScript, question: &NatsMessage) {
    let received = script.clock.now();
    std::thread::sleep(script.slow_clock);
    let reply = ClockReply {
        received,
        // The delay looks like network latency to the coordinator.
        sent: received,
    };
    let _ = link.publish(
        question.reply.as_deref().unwrap(),
        reply.to_bytes().to_vec(),
    );
}

fn handle_order(
    link: &Arc<NatsLink>,
    name: &AgentName,
    seen: &Arc<Observed>,
    script: &AgentScript,
    message: &NatsMessage,
) -> Option<JoinHandle<()>> {
    let order: AgentOrder = serde_json::from_slice(&message.payload).unwrap();
    if order.command == Command::Renew {
        seen.renewed.fetch_add(1, Ordering::Relaxed);
    } else {
        seen.orders.lock().unwrap().push(order.command.clone());
    }
    let mut load = None;
    let reply = match order.command {
        Command::Prepare(part) => script.reply.clone().unwrap_or_else(|| ready(&part)),
        Command::Check(_) => match &script.reply {
            Some(reply) => reply.clone(),
            None => Reply::Checked(CheckReport {
                target: Ok("200, 13 bytes".to_owned()),
                forecast: Vec::new(),
            }),
        },
        Command::Start { at } => {
            register(link, name, script, Some(order.run.clone()));
            let job = ScriptedLoad {
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
        Command::Stop => {
            seen.is_stopped.store(!script.is_deaf, Ordering::Relaxed);
            Reply::Done
        }
        Command::Renew if script.instance == "another" => Reply::Wrong {
            text: "no such run".to_owned(),
        },
        Command::Put(_) | Command::Renew | Command::Forget => Reply::Done,
        Command::Host(_) => Reply::Wrong {
            text: "scripted agents only generate loads".to_owned(),
        },
    };
    let json = serde_json::to_vec(&reply).unwrap();
    let _ = link.publish(message.reply.as_deref().unwrap(), json);
    load
}

fn ready(part: &LoadOrder) -> Reply {
    ready_for(LoadInfo {
        url: part.url.clone().unwrap_or_default(),
        model: "closed".to_owned(),
        connections: 50,
        threads: part.shard.workers,
        io: "poll".to_owned(),
        sources: 1,
        // The coordinator must take the duration from the command line, not from the agent.
        duration_s: None,
        ..LoadInfo::default()
    })
}

/// Returns the reply of an agent that is ready to start this load.
pub(crate) fn ready_for(load: LoadInfo) -> Reply {
    Reply::Ready(ReadyReport {
        connections: 0,
        forecast: Vec::new(),
        load: Box::new(load),
    })
}

struct ScriptedLoad {
    link: Arc<NatsLink>,
    name: AgentName,
    run: RunId,
    seen: Arc<Observed>,
    script: AgentScript,
    at: i64,
}

impl ScriptedLoad {
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
        let reason = if self.seen.is_stopped.load(Ordering::Relaxed) {
            EndReason::Stopped
        } else {
            EndReason::Done
        };
        // Requests in flight end when the load ends.
        let mut last = Delta::default();
        last.outcomes.add_many(Outcome::Unfinished, sequence);
        let end = PartEnd {
            reason,
            began: Some((self.at, first)),
            span: self.script.span.unwrap_or_else(|| self.span()),
            response_time_us: None,
            generator: Generator {
                cpu_user_s: 1.0,
                busy_share: 0.25,
                ..Generator::default()
            },
            negotiated: Negotiated::default(),
            quic: None,
            sources: None,
            addresses: None,
            idle: None,
            websocket: None,
            findings: self.script.findings.clone(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
        };
        self.send(sequence, &last, Some(Box::new(end)));
        register(&self.link, &self.name, &self.script, None);
        self.seen.is_loading.store(false, Ordering::Relaxed);
    }

    /// Returns the start and end of the measured part according to the order.
    fn span(&self) -> (u64, u64) {
        let load = self.seen.loads().pop().unwrap();
        let options = &load.settings;
        let measured = options.planned().unwrap_or(Duration::from_secs(3));
        let begin = options.warmup().as_nanos() as u64;
        (begin, begin + measured.as_nanos() as u64)
    }

    /// Like a real agent, sends a message repeatedly until the server has stored it.
    fn send(&self, sequence: u64, delta: &Delta, end: Option<Box<PartEnd>>) {
        let message = ResultMessage {
            run: self.run.clone(),
            agent: self.name.clone(),
            sequence,
            packed: EncodedDelta::of(delta),
            end,
        };
        let json = serde_json::to_vec(&message).unwrap();
        let number = format!("{}.{}.{sequence}", self.run, self.name);
        let subject = self.name.results_subject(&self.run);
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
