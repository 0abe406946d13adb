//! A backend with a virtual clock and scripted servers. The real worker runs over this backend
//! faster than real time, and each run is reproducible to the nanosecond.
//!
//! The backend also checks the worker's side of the contract: a violation causes a panic.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use prony_record::Nanos;

use super::{
    ByteSockets, Close, Completion, Key, Operation, Outgoing, Peer, Route, Sending, Sockets,
};
use crate::engine::progress::Control;

/// The local port of every connection, on 127.0.0.1.
pub(crate) const LOCAL_PORT: u16 = 5555;
/// Limit on the total number of waits. No test needs that many waits, so reaching the limit means
/// that the worker is spinning.
const WAITS_MAX: u64 = 5_000_000;
/// Limit on consecutive waits during which time did not advance and nothing happened. Reaching the
/// limit means that the worker is spinning.
const IDLE_WAITS_MAX: u32 = 100;
/// Limit on consecutive waits during which time did not advance. No server causes that many events
/// at the same time, so reaching the limit means that the worker is spinning.
const WAITS_AT_ONCE_MAX: u32 = 20_000;

/// A simulated server, which responds to connection attempts and requests.
pub(crate) trait Server {
    /// Returns the result of a connection attempt.
    fn connect(&mut self, now: Nanos) -> Connect;

    /// Returns the server's actions on a new connection that don't depend on a request. Connections
    /// are numbered from 0.
    fn greet(&mut self, _connection: u64) -> Vec<(Nanos, Step)> {
        Vec::new()
    }

    /// Converts the bytes of a due step to the bytes that are sent on the connection. Servers with
    /// TLS override this method to encrypt the bytes.
    fn sealed(&mut self, _connection: u64, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    /// Responds to a request or, with HTTP/2, to any bytes from the client.
    fn response(&mut self, request: &ReceivedRequest) -> Reply;
}

/// The result of a connection attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Connect {
    /// The connection is established after this time.
    Accept(Nanos),
    /// The connection attempt fails after this time with this system error.
    Fail(Nanos, i32),
    /// The connection attempt never completes.
    Never,
}

/// A request as the server receives it.
#[derive(Debug)]
pub(crate) struct ReceivedRequest {
    /// Real time, which includes the time between slices.
    pub(crate) now: Nanos,
    /// Index of the connection, counted from 0.
    pub(crate) connection: u64,
    /// The target's port.
    pub(crate) port: u16,
    /// Index of the send on the connection, counted from 0. In cleartext HTTP/1, each send is a
    /// request.
    pub(crate) number: u64,
    /// Bytes that the client sent.
    pub(crate) bytes: Vec<u8>,
}

/// The server's reaction to a request. Times are relative to the arrival of the request.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) taken: SendTiming,
    pub(crate) steps: Vec<(Nanos, Step)>,
}

/// The time at which the client's socket accepts the bytes of a send, or the failure of the send.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum SendTiming {
    #[default]
    AtOnce,
    After(Nanos),
    Never,
    Fail(Nanos, i32),
}

/// One action of a server.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Close,
    Fail(i32),
}

/// Log of calls to the backend, for assertions.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Start times of connection attempts.
    pub(crate) connects: Vec<Nanos>,
    /// Time and bytes of each send. With HTTP/1, each is a request.
    pub(crate) requests: Vec<(Nanos, Vec<u8>)>,
    /// The ways in which connections were closed.
    pub(crate) closes: Vec<Close>,
    /// The log of the calls before the clock was restarted. Its times refer to the clock before the
    /// restart.
    pub(crate) before: Option<Box<Log>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DueEvent {
    at: Nanos,
    /// Sequence number, which orders events at the same time by the order in which they were
    /// scheduled.
    order: u64,
    key: (u32, u32),
    action: DueAction,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DueAction {
    Connected,
    ConnectFailed(i32),
    SendTiming,
    SendFailed(i32),
    Send(Vec<u8>),
    Close,
    Fail(i32),
}

struct SimulatedLink<'run> {
    key: Key,
    number: u64,
    port: u16,
    requests: u64,
    connected: bool,
    /// True if the peer's side is closed or the connection has failed.
    over: bool,
    send_failed: bool,
    sending: Option<Outgoing<'run>>,
    /// Number of unsent bytes in a failed send.
    unsent: usize,
}

/// Backend with a virtual clock. See [`Sockets`].
pub(crate) struct SimulatedSockets<'run> {
    /// The worker's clock.
    clock: Nanos,
    /// Lead of the server's clock over the worker's clock, which does not advance between the
    /// slices of a load.
    server_ahead: Nanos,
    /// Time that the worker takes to reap a completion.
    cost: Nanos,
    /// Real time at which the load is interrupted.
    interrupt: Option<(Nanos, Rc<Control>)>,
    /// Real time at which the worker stalls, and the duration of the stall.
    stop: Option<(Nanos, Nanos)>,
    server: Box<dyn Server>,
    links: Vec<Option<SimulatedLink<'run>>>,
    used: HashSet<Key>,
    due: BinaryHeap<Reverse<DueEvent>>,
    planned: u64,
    connections: u64,
    received: Vec<u8>,
    waits: u64,
    idle_waits: u32,
    waits_at_once: u32,
    log: Rc<RefCell<Log>>,
}

impl<'run> SimulatedSockets<'run> {
    /// Creates a backend for up to `capacity` connections to a server.
    pub(crate) fn new(capacity: usize, server: Box<dyn Server>) -> SimulatedSockets<'run> {
        let mut links = Vec::new();
        links.resize_with(capacity, || None);
        SimulatedSockets {
            clock: Nanos::ZERO,
            server_ahead: Nanos::ZERO,
            cost: Nanos::ZERO,
            interrupt: None,
            stop: None,
            server,
            links,
            used: HashSet::new(),
            due: BinaryHeap::new(),
            planned: 0,
            connections: 0,
            received: Vec::new(),
            waits: 0,
            idle_waits: 0,
            waits_at_once: 0,
            log: Rc::default(),
        }
    }

    /// Sets the time that the worker takes to reap a completion.
    pub(crate) fn with_cost(mut self, cost: Nanos) -> SimulatedSockets<'run> {
        self.cost = cost;
        self
    }

    /// Stalls the worker for `length` during its first wait after `at`.
    pub(crate) fn with_stop(mut self, at: Nanos, length: Nanos) -> SimulatedSockets<'run> {
        self.stop = Some((at, length));
        self
    }

    /// Interrupts the load at this real time.
    pub(crate) fn with_interrupt(mut self, at: Nanos, control: Rc<Control>) -> Self {
        self.interrupt = Some((at, control));
        self
    }

    /// Returns the log of calls. It stays available after the worker has taken the backend.
    pub(crate) fn log(&self) -> Rc<RefCell<Log>> {
        self.log.clone()
    }

    /// Advances the clock without a wait.
    pub(crate) fn pass(&mut self, time: Nanos) {
        self.clock = self.clock + time;
    }

    /// Sets the worker's clock after a pause. Pending events of the server keep their real times.
    pub(crate) fn set_clock(&mut self, pause: Nanos, clock: Nanos) {
        let now = self.server_clock() + pause;
        assert!(clock <= now, "the worker's clock is ahead of real time");
        self.clock = clock;
        self.server_ahead = now - clock;
    }

    /// Returns the real time, which is the servers' clock.
    pub(crate) fn server_clock(&self) -> Nanos {
        self.clock + self.server_ahead
    }

    /// Starts the clock again at zero.
    pub(crate) fn start_clock(&mut self) {
        let passed = std::mem::take(&mut self.clock);
        let due = std::mem::take(&mut self.due);
        let counted_anew = due.into_iter().map(|Reverse(mut due)| {
            due.at = due.at.since(passed);
            Reverse(due)
        });
        self.due = counted_anew.collect();
        let mut log = self.log.borrow_mut();
        let before = std::mem::take(&mut *log);
        log.before = Some(Box::new(before));
    }

    fn plan(&mut self, after: Nanos, key: Key, action: DueAction) {
        self.planned += 1;
        self.due.push(Reverse(DueEvent {
            at: self.server_clock() + after,
            order: self.planned,
            key: (key.index, key.generation),
            action,
        }));
    }

    fn plan_steps(&mut self, key: Key, steps: Vec<(Nanos, Step)>) {
        for (after, step) in steps {
            let action = match step {
                Step::Send(bytes) => DueAction::Send(bytes),
                Step::Close => DueAction::Close,
                Step::Fail(errno) => DueAction::Fail(errno),
            };
            self.plan(after, key, action);
        }
    }

    fn link(&mut self, key: Key) -> &mut SimulatedLink<'run> {
        let link = self.links[key.index as usize].as_mut();
        link.filter(|link| link.key == key)
            .expect("the worker used the key of a connection that is not open")
    }

    /// Handles an event that is due. Returns its completion, if it has one and the connection is
    /// still open.
    fn happen(&mut self, due: DueEvent) -> Option<Completion> {
        let (index, generation) = due.key;
        let key = Key { index, generation };
        let entry = self.links.get_mut(index as usize)?.as_mut();
        let link = entry.filter(|link| link.key == key)?;
        let error = io::Error::from_raw_os_error;
        match due.action {
            DueAction::Connected => {
                link.connected = true;
                let number = link.number;
                let steps = self.server.greet(number);
                self.plan_steps(key, steps);
                Some(Completion::Connected(key))
            }
            DueAction::ConnectFailed(errno) => {
                link.over = true;
                Some(Completion::Failed(key, Operation::Connect, error(errno)))
            }
            DueAction::SendTiming => match link.sending.take()? {
                Outgoing::Owned(buffer) => Some(Completion::Sent(key, Some(buffer))),
                Outgoing::Shared(_) => Some(Completion::Sent(key, None)),
            },
            DueAction::SendFailed(errno) => {
                link.send_failed = true;
                link.unsent = link.sending.take().map_or(0, |it| it.bytes().len());
                Some(Completion::Failed(key, Operation::Send, error(errno)))
            }
            _ if link.over => None,
            DueAction::Send(bytes) => {
                self.received = self.server.sealed(link.number, bytes);
                Some(Completion::Received(key))
            }
            DueAction::Close => {
                link.over = true;
                Some(Completion::Closed(key))
            }
            DueAction::Fail(errno) => {
                link.over = true;
                link.sending = None;
                Some(Completion::Failed(key, Operation::Receive, error(errno)))
            }
        }
    }
}

impl Sockets for SimulatedSockets<'_> {
    fn now(&self) -> Nanos {
        self.clock
    }

    fn cached_now(&self) -> Nanos {
        self.clock
    }

    fn connect(&mut self, key: Key, route: Route<'_>) {
        assert!(self.used.insert(key), "{key:?} was already used");
        let entry = &mut self.links[key.index as usize];
        let over = entry.as_ref().is_none_or(|link| link.over);
        assert!(over, "index {} is still in use", key.index);
        *entry = Some(SimulatedLink {
            key,
            number: self.connections,
            port: match route.peer {
                Peer::Tcp(address) => address.port(),
                Peer::Unix(_) | Peer::Quic(_) => 0,
            },
            requests: 0,
            connected: false,
            over: false,
            send_failed: false,
            sending: None,
            unsent: 0,
        });
        self.connections += 1;
        self.log.borrow_mut().connects.push(self.clock);
        match self.server.connect(self.server_clock()) {
            Connect::Accept(after) => self.plan(after, key, DueAction::Connected),
            Connect::Fail(after, errno) => self.plan(after, key, DueAction::ConnectFailed(errno)),
            Connect::Never => {}
        }
    }

    fn local_address(&self, key: Key) -> Option<SocketAddr> {
        let link = self.links[key.index as usize].as_ref()?;
        (link.key == key).then(|| SocketAddr::from(([127, 0, 0, 1], LOCAL_PORT)))
    }

    fn close(&mut self, key: Key, how: Close) {
        let entry = &mut self.links[key.index as usize];
        if entry.take_if(|link| link.key == key).is_some() {
            self.log.borrow_mut().closes.push(how);
        }
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        self.waits += 1;
        assert!(self.waits < WAITS_MAX, "the worker never stops waiting");
        let ahead = self.server_ahead;
        let next = self.due.peek();
        let next = next.map_or(Nanos::MAX, |Reverse(due)| due.at.since(ahead));
        let mut wake = next.min(until).max(self.clock);
        let stop = self.stop.take_if(|(at, _)| *at <= wake + ahead);
        if let Some((at, length)) = stop {
            wake = wake.max((at + length).since(ahead));
        }
        if wake == self.clock && next > self.clock {
            self.idle_waits += 1;
            assert!(self.idle_waits < IDLE_WAITS_MAX, "the worker spins");
        } else {
            self.idle_waits = 0;
        }
        let is_due = |(at, _): &mut (Nanos, Rc<Control>)| *at <= wake + ahead;
        if let Some((at, control)) = self.interrupt.take_if(is_due) {
            wake = wake.min(at.since(ahead)).max(self.clock);
            control.stop();
        }
        self.waits_at_once = if wake == self.clock {
            self.waits_at_once + 1
        } else {
            0
        };
        assert!(
            self.waits_at_once < WAITS_AT_ONCE_MAX,
            "the worker spins: its clock does not advance"
        );
        self.clock = wake;
        Ok(())
    }

    fn next(&mut self) -> Option<Completion> {
        self.received.clear();
        while self
            .due
            .peek()
            .is_some_and(|Reverse(due)| due.at <= self.server_clock())
        {
            let Reverse(due) = self.due.pop()?;
            if let Some(completion) = self.happen(due) {
                self.clock = self.clock + self.cost;
                return Some(completion);
            }
        }
        None
    }
}

impl<'run> ByteSockets<'run> for SimulatedSockets<'run> {
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending {
        let (clock, now) = (self.clock, self.server_clock());
        let link = self.link(key);
        assert!(
            link.connected,
            "the worker sent before the connection was established"
        );
        assert!(
            link.sending.is_none(),
            "the worker sent while another send was in flight"
        );
        assert!(!link.send_failed, "the worker sent after a failed send");
        let request = ReceivedRequest {
            now,
            connection: link.number,
            port: link.port,
            number: link.requests,
            bytes: bytes.bytes().to_vec(),
        };
        link.requests += 1;
        link.sending = Some(bytes);
        let reply = self.server.response(&request);
        self.log.borrow_mut().requests.push((clock, request.bytes));
        match reply.taken {
            SendTiming::AtOnce => self.plan(Nanos::ZERO, key, DueAction::SendTiming),
            SendTiming::After(after) => self.plan(after, key, DueAction::SendTiming),
            SendTiming::Never => {}
            SendTiming::Fail(after, errno) => self.plan(after, key, DueAction::SendFailed(errno)),
        }
        self.plan_steps(key, reply.steps);
        Sending::InFlight
    }

    fn unsent(&self, key: Key) -> u64 {
        let link = self.links[key.index as usize].as_ref();
        link.filter(|link| link.key == key).map_or(0, |link| {
            let sending = link.sending.as_ref();
            sending.map_or(link.unsent, |it| it.bytes().len()) as u64
        })
    }

    fn received(&self) -> &[u8] {
        &self.received
    }
}
