//! Simulates hundreds of agents in one process, to benchmark the coordinator.
//!
//! The agents register, prepare, start together and send numbered results every second, which the
//! server stores like those of real agents. They generate no load: recorders of the load engine
//! record random latencies. The program exits when the load ends. It writes a record with the sum
//! of all recorders, to compare with the coordinator's record.
//!
//! Usage: `simulated_agents FOLDER N FILE`, with the folder of `prony fleet up --agents N` and the
//! path of the record.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use prony_fleet::clock::{Clock, ClockReply};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::link::{NatsLink, NatsMessage};
use prony_fleet::names::{AgentName, RunId};
use prony_fleet::permissions::Role;
use prony_fleet::wire::{
    AgentOrder, Command, EndReason, LoadOrder, PartEnd, ReadyReport, Registration, Reply,
    ResultMessage,
};
use prony_load::{LoadScope, ShardRange};
use prony_record::{
    Delta, EncodedDelta, Exchange, Generator, LoadInfo, MeasuredPart, Nanos, Negotiated, Outcome,
    Record, Recorder,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of distinct result patterns. Several agents use the same pattern.
const PATTERNS: usize = 16;
/// Interval between registrations, which is also the timeout when waiting for an order.
const REGISTER_INTERVAL: Duration = Duration::from_secs(4);
/// Timeout of the whole simulation.
const SIMULATION_TIMEOUT: Duration = Duration::from_secs(180);
/// Timeout for the coordinator's orders to delete the run.
const FORGET_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of agents that connect at the same time.
const CONCURRENT_CONNECTS: usize = 8;

/// Results of one agent: one per second, and their sum.
struct Pattern {
    seconds: Vec<EncodedDelta>,
    total: Delta,
}

/// State that all agents share.
struct Simulation {
    clock: Clock,
    /// Load that the coordinator ordered, with its results. Not set before the order.
    load: OnceLock<(LoadInfo, Vec<Pattern>)>,
    preparing: Mutex<()>,
    registered: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    sent_again: AtomicU64,
    /// Number of agents whose last message has been stored.
    through: AtomicU64,
    forgotten: AtomicU64,
    over: AtomicBool,
}

fn main() -> ExitCode {
    let text: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count, file] = text.as_slice() else {
        eprintln!("usage: simulated_agents FOLDER N FILE");
        return ExitCode::from(2);
    };
    match simulate(Path::new(folder), count, Path::new(file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("simulated_agents: {why}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(folder: &Path, count: &str, file: &Path) -> Result<(), String> {
    let count: u64 = count
        .parse()
        .map_err(|_| format!("{count} is not a number"))?;
    let simulation = Arc::new(Simulation {
        clock: Clock::new(),
        load: OnceLock::new(),
        preparing: Mutex::new(()),
        registered: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        sent_bytes: AtomicU64::new(0),
        sent_again: AtomicU64::new(0),
        through: AtomicU64::new(0),
        forgotten: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let connecting: Vec<_> = (0..CONCURRENT_CONNECTS)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return Ok(());
                        }
                        begin(folder, number, &simulation)?;
                    }
                })
            })
            .collect();
        let mut ended = connecting.into_iter().map(|it| it.join());
        ended.try_for_each(|it| it.unwrap_or_else(|_| Err("a thread failed".to_owned())))
    })?;
    wait_for(&simulation.registered, count, SIMULATION_TIMEOUT)?;
    println!("{count} agents are registered");
    wait_for(&simulation.through, count, SIMULATION_TIMEOUT)?;
    // Agents that the coordinator considers lost get no order to delete the run. The record names
    // them.
    if wait_for(&simulation.forgotten, count, FORGET_TIMEOUT).is_err() {
        let informed = simulation.forgotten.load(Ordering::Relaxed);
        println!("{informed} of {count} agents got the order to delete the run");
    }
    simulation.over.store(true, Ordering::Relaxed);
    let record = simulation.record(count).ok_or("no load was ordered")?;
    std::fs::write(file, record.to_json())
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let sent = simulation.sent.load(Ordering::Relaxed);
    println!(
        "{sent} messages of {} bytes on average were sent, with {} retries",
        simulation.sent_bytes.load(Ordering::Relaxed) / sent.max(1),
        simulation.sent_again.load(Ordering::Relaxed)
    );
    Ok(())
}

fn wait_for(count: &AtomicU64, whole: u64, timeout: Duration) -> Result<(), String> {
    let began = Instant::now();
    while count.load(Ordering::Relaxed) < whole {
        if began.elapsed() > timeout {
            let there = count.load(Ordering::Relaxed);
            return Err(format!("timeout: {there} of {whole} agents"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Connects an agent and starts its two threads: one replies to clock requests, one handles orders.
fn begin(folder: &Path, number: u64, simulation: &Arc<Simulation>) -> Result<(), String> {
    let name = format!("agent-{}", number + 1);
    let credentials = FleetCredentials::read(&folder.join(format!("{name}.creds")));
    let credentials = credentials.map_err(|error| error.to_string())?;
    let name: AgentName = name.parse().map_err(|error| format!("{error}"))?;
    let link = NatsLink::connect(None, &credentials, &Role::Agent(name.clone()));
    let link = link.map_err(|error| error.to_string())?;
    let agent = Arc::new(Agent {
        name,
        number: number as usize,
        link,
        simulation: simulation.clone(),
    });
    let (telling, obeying) = (agent.clone(), agent);
    spawn(move || telling.answer_clock_requests())?;
    spawn(move || obeying.handle_orders())
}

fn spawn(work: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), String> {
    let work = || {
        if let Err(why) = work() {
            eprintln!("simulated_agents: {why}");
        }
    };
    let builder = thread::Builder::new().stack_size(256 * 1024);
    let spawned = builder.spawn(work);
    spawned.map(|_| ()).map_err(|error| error.to_string())
}

impl Simulation {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns the load and its results, which are created by the first call.
    fn load(&self, order: &LoadOrder) -> Result<&(LoadInfo, Vec<Pattern>), String> {
        let _one = self.preparing.lock().map_err(|error| error.to_string())?;
        if self.load.get().is_none() {
            let load = prepare_load(order)?;
            let _ = self.load.set(load);
        }
        self.load.get().ok_or_else(|| "no load".to_owned())
    }

    /// Returns a record of all agents' results.
    fn record(&self, agents: u64) -> Option<Record> {
        let (info, patterns) = self.load.get()?;
        let mut all = Delta::default();
        for agent in 0..agents as usize {
            all.merge(&patterns[agent % PATTERNS].total);
        }
        Some(Record::build(
            info.clone(),
            &all,
            (Nanos::ZERO, Nanos::ZERO),
            None,
        ))
    }
}

fn prepare_load(order: &LoadOrder) -> Result<(LoadInfo, Vec<Pattern>), String> {
    let options = &order.settings;
    let scope = LoadScope {
        shards: Some(ShardRange {
            first: order.shard.first,
            workers: order.shard.workers,
            of: order.shard.of,
        }),
        ..LoadScope::default()
    };
    let spec = options.resolve_within(order.url.as_deref(), &scope);
    let info = spec.map_err(|error| error.to_string())?.info().clone();
    let seconds = options.duration.ok_or("give --duration")?.as_secs();
    let rate = options.constant_rate().ok_or("give --rate")? / f64::from(order.shard.of);
    let warmup = Nanos(u64::try_from(options.warmup().as_nanos()).unwrap_or(0));
    let patterns = (0..PATTERNS).map(|seed| record_pattern(seed as u64 + 1, warmup, seconds, rate));
    Ok((info, patterns.collect()))
}

/// Records results at a constant rate, as a load engine would.
fn record_pattern(seed: u64, warmup: Nanos, seconds: u64, rate: f64) -> Pattern {
    let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
    let mut recorder = Recorder::new(MeasuredPart::DueFrom(warmup));
    recorder.watch();
    let end = Nanos(warmup.0 + seconds * 1_000_000_000);
    let mut parts = Vec::new();
    let (mut second, mut request) = (Nanos(1_000_000_000), 0_u64);
    loop {
        let intended = Nanos((request as f64 / rate * 1e9) as u64);
        while second <= intended {
            recorder.passed(second);
            parts.push(take_delta(&mut recorder));
            second = second + Nanos(1_000_000_000);
        }
        if intended >= end {
            break;
        }
        let late = (5_000.0 * random.spread(1.0)) as u64;
        let sent = intended + Nanos(late);
        let first_byte = sent + Nanos((180_000.0 * random.spread(0.5)) as u64);
        let ended = first_byte + Nanos((9_000.0 * random.spread(0.3)) as u64);
        recorder.started();
        recorder.started_by_schedule(intended, Nanos::ZERO, sent);
        let outcome = match request % 997 {
            996 => Outcome::Timeout,
            _ => Outcome::Ok,
        };
        let exchange = Exchange {
            intended,
            sent,
            first_byte: Some(first_byte),
            ended,
            status: (outcome == Outcome::Ok).then_some(200),
            bytes_in: 161,
            body_bytes_in: 13,
            bytes_out: 73,
            is_settling: false,
            entry: 0,
        };
        recorder.ended(&exchange, outcome);
        request += 1;
    }
    recorder.finish(end.max(second));
    parts.push(take_delta(&mut recorder));
    Pattern {
        seconds: parts,
        total: recorder.total().clone(),
    }
}

fn take_delta(recorder: &mut Recorder) -> EncodedDelta {
    let mut delta = Box::default();
    recorder.hand_over(&mut delta);
    EncodedDelta::of(&delta)
}

/// A random number generator.
struct Random(ChaCha8Rng);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Returns a factor around 1, log-normally distributed like latencies around their median.
    fn spread(&mut self, sigma: f64) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (sigma * normal).exp()
    }
}

struct Agent {
    name: AgentName,
    number: usize,
    link: NatsLink,
    simulation: Arc<Simulation>,
}

impl Agent {
    fn answer_clock_requests(&self) -> Result<(), String> {
        let clock = &self.simulation.clock;
        let asked = self.link.subscribe(&self.name.clock_subject());
        let mut asked = asked.map_err(|error| error.to_string())?;
        while !self.simulation.is_over() {
            let Some(question) = asked.next(REGISTER_INTERVAL) else {
                continue;
            };
            let received = clock.now();
            if let Some(to) = &question.reply {
                let sent = clock.now();
                let reply = ClockReply { received, sent };
                let _ = self.link.publish(to, reply.to_bytes().to_vec());
            }
        }
        Ok(())
    }

    fn handle_orders(self: Arc<Agent>) -> Result<(), String> {
        let orders = self.link.subscribe(&self.name.orders_subject());
        let mut orders = orders.map_err(|error| error.to_string())?;
        let mut registered: Option<Instant> = None;
        while !self.simulation.is_over() {
            if registered.is_none_or(|at| at.elapsed() >= REGISTER_INTERVAL) {
                self.register()?;
                if registered.is_none() {
                    self.simulation.registered.fetch_add(1, Ordering::Relaxed);
                }
                registered = Some(Instant::now());
            }
            let Some(order) = orders.next(REGISTER_INTERVAL) else {
                continue;
            };
            let reply = self.clone().reply(&order)?;
            if let Some(to) = &order.reply {
                let json = serde_json::to_vec(&reply).map_err(|error| error.to_string())?;
                let _ = self.link.publish(to, json);
            }
        }
        Ok(())
    }

    fn register(&self) -> Result<(), String> {
        let registration = Registration {
            instance: "simulated".to_owned(),
            labels: [("kind".to_owned(), "simulated".to_owned())].into(),
            system: "simulated".to_owned(),
            host: "simulated".to_owned(),
            policy: "no load; no services".to_owned(),
            ..Registration::new(self.name.clone())
        };
        let json = serde_json::to_vec(&registration).map_err(|error| error.to_string())?;
        let subject = format!("$KV.prony_agents.{}", self.name);
        let stored = self.link.store(&subject, None, json);
        stored.map_err(|error| error.to_string())
    }

    fn reply(self: Arc<Agent>, message: &NatsMessage) -> Result<Reply, String> {
        let order: AgentOrder =
            serde_json::from_slice(&message.payload).map_err(|error| error.to_string())?;
        Ok(match order.command {
            Command::Prepare(load) => match self.simulation.load(&load) {
                Ok((info, _)) => Reply::Ready(ReadyReport {
                    connections: 1,
                    forecast: Vec::new(),
                    load: Box::new(info.clone()),
                }),
                Err(text) => Reply::Wrong { text },
            },
            Command::Start { at } => {
                spawn(move || self.make(&order.run, at))?;
                Reply::Done
            }
            Command::Forget => {
                self.simulation.forgotten.fetch_add(1, Ordering::Relaxed);
                Reply::Done
            }
            Command::Renew | Command::Put(_) | Command::Stop => Reply::Done,
            Command::Check(_) | Command::Host(_) => Reply::Wrong {
                text: "it is simulated".to_owned(),
            },
        })
    }

    /// Sends the results of each second.
    fn make(&self, run: &RunId, at: i64) -> Result<(), String> {
        let (_, patterns) = self.simulation.load.get().ok_or("no load")?;
        let pattern = &patterns[self.number % PATTERNS];
        let moment = self.simulation.clock.moment(at);
        let last = pattern.seconds.len() - 1;
        for (number, packed) in pattern.seconds.iter().enumerate() {
            let due = moment + Duration::from_secs(number as u64 + 1);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let message = ResultMessage {
                run: run.clone(),
                agent: self.name.clone(),
                sequence: number as u64,
                packed: packed.clone(),
                end: (number == last).then(|| Box::new(self.end(pattern, at))),
            };
            let json = serde_json::to_vec(&message).map_err(|error| error.to_string())?;
            let number = format!("{run}.{}.{number}", self.name);
            let subject = self.name.results_subject(run);
            self.simulation.sent.fetch_add(1, Ordering::Relaxed);
            let bytes = json.len() as u64;
            self.simulation
                .sent_bytes
                .fetch_add(bytes, Ordering::Relaxed);
            while self
                .link
                .store(&subject, Some(&number), json.clone())
                .is_err()
            {
                self.simulation.sent_again.fetch_add(1, Ordering::Relaxed);
                if self.simulation.is_over() {
                    return Ok(());
                }
            }
        }
        self.simulation.through.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn end(&self, pattern: &Pattern, at: i64) -> PartEnd {
        let span = pattern.total.span.unwrap_or((Nanos::ZERO, Nanos::ZERO));
        PartEnd {
            reason: EndReason::Done,
            began: Some((at, at)),
            span: (span.0.0, span.1.0),
            generator: Generator::default(),
            response_time_us: None,
            negotiated: Negotiated::default(),
            quic: None,
            sources: None,
            addresses: None,
            idle: None,
            websocket: None,
            findings: Vec::new(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
        }
    }
}
