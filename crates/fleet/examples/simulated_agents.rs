//! Hundreds of agents in one process, for the benchmark of the coordinator.
//!
//! They register, get ready, begin at one moment and send what they measured each second, numbered and
//! stored as an agent's; only the load is none. What they send was recorded as an engine records it, from
//! latencies that were drawn. Ends with the load, and writes the record of all that was sent, added up
//! from the recorders themselves.
//!
//! `simulated_agents FOLDER N FILE`: the folder of `prony fleet up --agents N`, and where the record goes.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use prony_fleet::clock::{Clock, Told};
use prony_fleet::credentials::Credentials;
use prony_fleet::link::{Link, Message};
use prony_fleet::messages::{
    AGENT_SCHEMA, Because, Load, Order, PartEnd, Ready, Registration, Reply, ResultMessage,
    VERSION, What,
};
use prony_fleet::names::{AgentName, RunId};
use prony_fleet::permissions::Role;
use prony_load::{LoadOptions, LoadSpec, Part};
use prony_record::{
    Delta, Exchange, Generator, LoadInfo, Measured, Nanos, Negotiated, Outcome, Packed, Record,
    Recorder,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Different measurements; agents share them.
const PATTERNS: usize = 16;
/// How often an agent registers, and how long it waits for an order in between.
const EVERY: Duration = Duration::from_secs(4);
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long the coordinator may take to count the last message and say so.
const FORGETTING: Duration = Duration::from_secs(30);
/// Agents that connect at once.
const AT_ONCE: usize = 8;

/// What one agent measures: a part for each second, and all of it.
struct Pattern {
    seconds: Vec<Packed>,
    total: Delta,
}

/// What all agents share.
struct Simulation {
    clock: Clock,
    /// The load as it was ordered, once it was.
    load: OnceLock<(LoadInfo, Vec<Pattern>)>,
    preparing: Mutex<()>,
    registered: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    sent_again: AtomicU64,
    /// Agents whose last message is stored.
    through: AtomicU64,
    forgotten: AtomicU64,
    over: AtomicBool,
}

fn main() -> ExitCode {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count, file] = typed.as_slice() else {
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
    let count: u64 = count.parse().map_err(|_| format!("{count} is no number"))?;
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
        let connecting: Vec<_> = (0..AT_ONCE)
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
    wait_for(&simulation.registered, count, PATIENCE)?;
    println!("{count} agents are registered");
    wait_for(&simulation.through, count, PATIENCE)?;
    // Who is lost to the coordinator is not told to forget: the record says who.
    if wait_for(&simulation.forgotten, count, FORGETTING).is_err() {
        let told = simulation.forgotten.load(Ordering::Relaxed);
        println!("{told} of {count} agents were told to forget the run");
    }
    simulation.over.store(true, Ordering::Relaxed);
    let record = simulation.record(count).ok_or("there was no load")?;
    std::fs::write(file, record.to_json())
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let sent = simulation.sent.load(Ordering::Relaxed);
    println!(
        "{sent} messages of {} bytes on average were sent, {} of them more than once",
        simulation.sent_bytes.load(Ordering::Relaxed) / sent.max(1),
        simulation.sent_again.load(Ordering::Relaxed)
    );
    Ok(())
}

fn wait_for(count: &AtomicU64, whole: u64, patience: Duration) -> Result<(), String> {
    let began = Instant::now();
    while count.load(Ordering::Relaxed) < whole {
        if began.elapsed() > patience {
            let there = count.load(Ordering::Relaxed);
            return Err(format!(
                "{there} of {whole} agents came so far, and no more"
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Connects an agent and lets it wait for orders.
fn begin(folder: &Path, number: u64, simulation: &Arc<Simulation>) -> Result<(), String> {
    let name = format!("agent-{}", number + 1);
    let credentials = Credentials::read(&folder.join(format!("{name}.creds")))?;
    let name: AgentName = name.parse().map_err(|error| format!("{error}"))?;
    let link = Link::connect(None, &credentials, &Role::Agent(name.clone()));
    let link = link.map_err(|error| error.to_string())?;
    let agent = Arc::new(Agent {
        name,
        number: number as usize,
        link,
        simulation: simulation.clone(),
    });
    let (telling, obeying) = (agent.clone(), agent);
    spawn(move || telling.tell_time())?;
    spawn(move || obeying.obey())
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

    /// What the load is, and what is measured of it: the first who asks has it made.
    fn load(&self, order: &Load) -> Result<&(LoadInfo, Vec<Pattern>), String> {
        let _one = self.preparing.lock().map_err(|error| error.to_string())?;
        if self.load.get().is_none() {
            let made = made(order)?;
            let _ = self.load.set(made);
        }
        self.load.get().ok_or_else(|| "no load".to_owned())
    }

    /// The record of all that was sent.
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

fn made(order: &Load) -> Result<(LoadInfo, Vec<Pattern>), String> {
    let options = LoadOptions::parse_words(&order.words)?;
    let part = Part {
        first: order.stretch.first,
        workers: order.stretch.workers,
        of: order.stretch.of,
    };
    let spec = LoadSpec::resolve_part(order.url.as_deref(), &options, Some(part));
    let info = spec.map_err(|error| error.to_string())?.info().clone();
    let seconds = options.duration.ok_or("give --duration")?.as_secs();
    let rate = options.rate.ok_or("give --rate")? / f64::from(order.stretch.of);
    let warmup = Nanos(u64::try_from(options.warmup.as_nanos()).unwrap_or(0));
    let patterns = (0..PATTERNS).map(|seed| measured(seed as u64 + 1, warmup, seconds, rate));
    Ok((info, patterns.collect()))
}

/// What an engine records of so many requests a second.
fn measured(seed: u64, warmup: Nanos, seconds: u64, rate: f64) -> Pattern {
    let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
    let mut recorder = Recorder::new(Measured::DueFrom(warmup));
    recorder.watch();
    let end = Nanos(warmup.0 + seconds * 1_000_000_000);
    let mut parts = Vec::new();
    let (mut second, mut request) = (Nanos(1_000_000_000), 0_u64);
    loop {
        let intended = Nanos((request as f64 / rate * 1e9) as u64);
        while second <= intended {
            recorder.passed(second);
            parts.push(taken(&mut recorder));
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
            // Requests end in their order here: a recorder goes forwards only.
            ended,
            status: (outcome == Outcome::Ok).then_some(200),
            bytes_in: 161,
            body_bytes_in: 13,
            bytes_out: 73,
        };
        recorder.ended(&exchange, outcome);
        request += 1;
    }
    recorder.finish(end.max(second));
    parts.push(taken(&mut recorder));
    Pattern {
        seconds: parts,
        total: recorder.total().clone(),
    }
}

fn taken(recorder: &mut Recorder) -> Packed {
    let mut delta = Box::default();
    recorder.hand_over(&mut delta);
    Packed::of(&delta)
}

/// Draws numbers.
struct Random(ChaCha8Rng);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// About 1, as latencies are about their median: the exponential of something nearly normal.
    fn spread(&mut self, sigma: f64) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (sigma * normal).exp()
    }
}

/// One agent.
struct Agent {
    name: AgentName,
    number: usize,
    link: Link,
    simulation: Arc<Simulation>,
}

impl Agent {
    fn tell_time(&self) -> Result<(), String> {
        let clock = &self.simulation.clock;
        let asked = self.link.subscribe(&self.name.clock());
        let mut asked = asked.map_err(|error| error.to_string())?;
        while !self.simulation.is_over() {
            let Some(question) = asked.next(EVERY) else {
                continue;
            };
            let heard = clock.now();
            if let Some(to) = &question.reply {
                let answered = clock.now();
                let told = Told { heard, answered };
                let _ = self.link.say(to, told.to_bytes().to_vec());
            }
        }
        Ok(())
    }

    fn obey(self: Arc<Agent>) -> Result<(), String> {
        let orders = self.link.subscribe(&self.name.orders());
        let mut orders = orders.map_err(|error| error.to_string())?;
        let mut registered: Option<Instant> = None;
        while !self.simulation.is_over() {
            if registered.is_none_or(|at| at.elapsed() >= EVERY) {
                self.register()?;
                if registered.is_none() {
                    self.simulation.registered.fetch_add(1, Ordering::Relaxed);
                }
                registered = Some(Instant::now());
            }
            let Some(order) = orders.next(EVERY) else {
                continue;
            };
            let reply = self.clone().reply(&order)?;
            if let Some(to) = &order.reply {
                let json = serde_json::to_vec(&reply).map_err(|error| error.to_string())?;
                let _ = self.link.say(to, json);
            }
        }
        Ok(())
    }

    fn register(&self) -> Result<(), String> {
        let registration = Registration {
            schema: AGENT_SCHEMA.to_owned(),
            version: VERSION.to_owned(),
            name: self.name.clone(),
            instance: "simulated".to_owned(),
            labels: [("kind".to_owned(), "simulated".to_owned())].into(),
            cores: 1,
            addresses: Vec::new(),
            system: "simulated".to_owned(),
            host: "simulated".to_owned(),
            open_files: 1024,
            clock: None,
            policy: "no load; no services".to_owned(),
            busy_with: None,
            reserved: None,
            sending: Default::default(),
        };
        let json = serde_json::to_vec(&registration).map_err(|error| error.to_string())?;
        let subject = format!("$KV.prony_agents.{}", self.name);
        let stored = self.link.store(&subject, None, json);
        stored.map_err(|error| error.to_string())
    }

    fn reply(self: Arc<Agent>, message: &Message) -> Result<Reply, String> {
        let order: Order =
            serde_json::from_slice(&message.payload).map_err(|error| error.to_string())?;
        Ok(match order.what {
            What::Prepare(load) => match self.simulation.load(&load) {
                Ok((info, _)) => Reply::Ready(Ready {
                    connections: 1,
                    forecast: Vec::new(),
                    load: Box::new(info.clone()),
                }),
                Err(text) => Reply::Wrong { text },
            },
            What::Start { at } => {
                spawn(move || self.make(&order.run, at))?;
                Reply::Done
            }
            What::Forget => {
                self.simulation.forgotten.fetch_add(1, Ordering::Relaxed);
                Reply::Done
            }
            What::Renew | What::Put(_) | What::Stop => Reply::Done,
            What::Check(_) | What::Host(_) => Reply::Wrong {
                text: "it is simulated".to_owned(),
            },
        })
    }

    /// Sends each second what was measured in it.
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
            let subject = self.name.results(run);
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
            because: Because::Done,
            began: Some((at, at)),
            span: (span.0.0, span.1.0),
            generator: Generator::default(),
            response_time_us: None,
            negotiated: Negotiated::default(),
            sources: None,
            findings: Vec::new(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
        }
    }
}
