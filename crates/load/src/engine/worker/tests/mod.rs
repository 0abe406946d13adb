//! Tests of the real worker over simulated sockets: virtual time, scripted servers, exact results.

mod chaos;
mod connections;
mod counts;
mod event_streams;
mod invariants;
mod journeys;
mod latency;
mod many_workers;
mod pacing;
mod pipelining;
mod preconnect;
mod quic;
mod ramp;
mod redirects;
mod refusals;
mod scripts;
mod slices;
mod stalls;
mod streams;
mod think_times;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::SystemTime;

use prony_record::{Nanos, Outcome, Record};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{ScriptRunner, Worker};
use crate::carrier::ByteTransport;
use crate::engine::progress::{Control, Counter};
use crate::engine::run::merge;
use crate::request::script::{CaptureSpec, Script};
use crate::settings::LoadSettings;
use crate::socket::simulated::{
    Connect, Log, ReceivedRequest, Reply, Server, SimulatedSockets, Step,
};
use crate::spec::LoadSpec;
use crate::values::shard::Shard;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const OK_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A server defined by two functions, for connection attempts and for requests.
struct FunctionServer<C, A> {
    connect: C,
    response: A,
}

impl<C, A> Server for FunctionServer<C, A>
where
    C: FnMut(Nanos) -> Connect,
    A: FnMut(&ReceivedRequest) -> Reply,
{
    fn connect(&mut self, now: Nanos) -> Connect {
        (self.connect)(now)
    }

    fn response(&mut self, request: &ReceivedRequest) -> Reply {
        (self.response)(request)
    }
}

/// Creates a server that accepts every connection immediately, and computes its responses with a
/// function.
fn responding(response: impl FnMut(&ReceivedRequest) -> Reply + 'static) -> Box<dyn Server> {
    Box::new(FunctionServer {
        connect: |_| Connect::Accept(Nanos::ZERO),
        response,
    })
}

/// Creates a server that accepts every connection immediately, and sends the same response after a
/// constant time.
fn steady(service: Nanos, response: &'static [u8]) -> Box<dyn Server> {
    responding(move |_| reply([(service, Step::Send(response.to_vec()))]))
}

fn reply<const N: usize>(steps: [(Nanos, Step); N]) -> Reply {
    Reply {
        steps: steps.to_vec(),
        ..Reply::default()
    }
}

pub(super) fn spec(words: &str) -> LoadSpec {
    let words = format!("--threads 1 {words}");
    LoadSettings::from_flags(&words)
        .resolve(Some("http://127.0.0.1:1/"))
        .unwrap()
}

/// The results of a simulated load.
struct Outcomes {
    record: Record,
    /// Logs of the servers, one per worker.
    logs: Vec<Rc<RefCell<Log>>>,
}

impl Outcomes {
    fn count(&self, outcome: Outcome) -> u64 {
        self.record.outcomes.get(&outcome).copied().unwrap_or(0)
    }

    /// Returns every outcome that occurred, with its count.
    fn all(&self) -> Vec<(Outcome, u64)> {
        self.record.outcomes.clone().into_iter().collect()
    }

    /// Returns the text of the finding with this identifier, if the load has one.
    fn finding(&self, id: &str) -> Option<&str> {
        let mut findings = self.record.findings.iter();
        let found = findings.find(|finding| finding.id.as_str() == id)?;
        Some(&found.text)
    }

    fn connects(&self) -> usize {
        self.logs
            .iter()
            .map(|log| log.borrow().connects.len())
            .sum()
    }
}

/// Runs a load with one worker per server.
fn simulate(spec: &LoadSpec, servers: Vec<Box<dyn Server>>) -> Outcomes {
    simulate_costly(spec, servers, Nanos::ZERO, &Control::new(1))
}

fn simulate_costly(
    spec: &LoadSpec,
    servers: Vec<Box<dyn Server>>,
    cost: Nanos,
    control: &Control,
) -> Outcomes {
    let of = servers.len() as u64;
    let mut logs = Vec::new();
    let worked = (0..of).zip(servers).map(|(worker, server)| {
        let shard = Shard { worker, of };
        let slots = spec.connections_max(shard) as usize;
        let sockets = SimulatedSockets::new(slots, server).with_cost(cost);
        logs.push(sockets.log());
        Worker::new(spec, shard, ByteTransport(sockets)).run(control, &Counter::default())
    });
    let worked = worked.collect();
    // Merging asserts that every started request has exactly one outcome.
    let record = merge(spec, worked, SystemTime::UNIX_EPOCH).unwrap().record;
    Outcomes { record, logs }
}

/// The time between opening a load's connections and the load's start, in two parts.
#[derive(Debug, Clone, Copy, Default)]
struct PreconnectWait {
    /// Time from opening the connections to the call of `maintain`.
    maintained: Nanos,
    /// Time from the call of `maintain` to the load's start.
    started: Nanos,
}

impl PreconnectWait {
    /// Creates random times, which are often zero.
    fn random(random: &mut ChaCha8Rng) -> PreconnectWait {
        let mut time = || match random.random_range(0..3) {
            0 => Nanos::ZERO,
            1 => Nanos(random.random_range(0..10_000_000)),
            _ => Nanos(random.random_range(0..3_000_000_000)),
        };
        PreconnectWait {
            maintained: time(),
            started: time(),
        }
    }
}

/// A server that closes or resets some of its connections, or sends bytes on them, if no request
/// arrives in time.
struct IdleFailingServer {
    server: Box<dyn Server>,
    random: ChaCha8Rng,
    /// Percentage of connections that fail while idle, from 0 to 100.
    badness: u32,
}

impl Server for IdleFailingServer {
    fn connect(&mut self, now: Nanos) -> Connect {
        self.server.connect(now)
    }

    fn greet(&mut self, connection: u64) -> Vec<(Nanos, Step)> {
        let mut steps = self.server.greet(connection);
        if self.random.random_range(0..100) < self.badness {
            let after = Nanos(self.random.random_range(0..4_000_000_000));
            steps.push(match self.random.random_range(0..3) {
                0 => (after, Step::Close),
                1 => (after, Step::Fail(libc::ECONNRESET)),
                _ => (after, Step::Send(OK_CLOSE.to_vec())),
            });
        }
        steps
    }

    fn sealed(&mut self, connection: u64, bytes: Vec<u8>) -> Vec<u8> {
        self.server.sealed(connection, bytes)
    }

    fn response(&mut self, request: &ReceivedRequest) -> Reply {
        self.server.response(request)
    }
}

/// Runs a load whose connections are opened before it begins.
fn simulate_prepared(
    mut spec: LoadSpec,
    servers: Vec<Box<dyn Server>>,
    until: PreconnectWait,
    cost: Nanos,
    control: &Control,
) -> Outcomes {
    spec.open_before_start();
    let of = servers.len() as u64;
    let mut logs = Vec::new();
    let worked = (0..of).zip(servers).map(|(worker, server)| {
        let shard = Shard { worker, of };
        let slots = spec.connections_max(shard) as usize;
        let sockets = SimulatedSockets::new(slots, server).with_cost(cost);
        logs.push(sockets.log());
        let mut worker = Worker::new(&spec, shard, ByteTransport(sockets));
        worker.preconnect(control).unwrap();
        worker.start_clock(|sockets| sockets.pass(until.maintained));
        if worker.is_preconnecting() {
            worker.maintain(Nanos::ZERO).unwrap();
        }
        let mut worker = worker.restart();
        worker.start_clock(|sockets| {
            sockets.pass(until.started);
            sockets.start_clock();
        });
        worker.run(control, &Counter::default())
    });
    let worked = worked.collect();
    let record = merge(&spec, worked, SystemTime::UNIX_EPOCH).unwrap().record;
    Outcomes { record, logs }
}

/// Runs a load with one worker that runs a script.
fn simulate_script<'s>(
    spec: &'s LoadSpec,
    server: Box<dyn Server>,
    script: impl Script + 's,
    sees: CaptureSpec,
) -> Outcomes {
    let shard = Shard { worker: 0, of: 1 };
    let sockets = SimulatedSockets::new(spec.connections_max(shard) as usize, server);
    let logs = vec![sockets.log()];
    let worked = Worker::new(spec, shard, ByteTransport(sockets))
        .with_script(Some(ScriptRunner::new(Box::new(script), sees, 0)))
        .run(&Control::new(1), &Counter::default());
    let record = merge(spec, vec![worked], SystemTime::UNIX_EPOCH)
        .unwrap()
        .record;
    Outcomes { record, logs }
}

fn load(words: &str, server: Box<dyn Server>) -> Outcomes {
    simulate(&spec(words), vec![server])
}
