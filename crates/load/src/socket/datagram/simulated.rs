//! A link that loses, duplicates, delays and reorders datagrams, with a scripted HTTP/3 server at
//! its other end. The clock is virtual.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use prony_record::Nanos;
use quinn_proto::EcnCodepoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::server::QuicServer;
pub(crate) use self::server::{QuicLog, QuicReply, QuicScript, ReplyEnd};
use super::{DatagramEvent, Datagrams, ReceivedDatagrams};
use crate::quic::DatagramBatch;
use crate::socket::{Key, Route};

mod server;

/// Limit on consecutive waits during which time did not advance. Reaching the limit means that the
/// worker is spinning.
const WAITS_AT_ONCE_MAX: u32 = 20_000;

/// Quality of the link, which is the same in both directions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkQuality {
    /// Minimum one-way delay.
    pub(crate) delay: Duration,
    /// Maximum jitter. A random jitter is drawn for each datagram, so datagrams can overtake each
    /// other.
    pub(crate) jitter: Duration,
    /// Share of datagrams that are lost.
    pub(crate) loss: f64,
    /// Share of datagrams that arrive twice.
    pub(crate) duplication: f64,
}

/// The simulated backend. See [`Datagrams`].
pub(crate) struct SimulatedDatagrams {
    clock: Duration,
    /// Real time that corresponds to time 0.
    epoch: Instant,
    quality: LinkQuality,
    random: ChaCha8Rng,
    server: QuicServer,
    /// Datagrams that arrived at the far end, each with the client's port; `None` if a server
    /// processes the datagrams.
    unserved: Option<VecDeque<(u16, Vec<u8>)>>,
    /// Key and port of each of the client's sockets, by index.
    sockets: Vec<Option<(Key, u16)>>,
    next_port: u16,
    due: BinaryHeap<Reverse<InTransit>>,
    sent: u64,
    arrived: VecDeque<(Key, Vec<u8>, Option<EcnCodepoint>)>,
    /// The key of the connection that the current datagram belongs to.
    current_key: Option<Key>,
    current: (Vec<u8>, Option<EcnCodepoint>),
    waits_at_once: u32,
    log: Rc<RefCell<QuicLog>>,
}

/// A datagram in transit on the link. Datagrams are ordered by arrival time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InTransit {
    at: Duration,
    order: u64,
    /// The client's port.
    port: u16,
    is_to_server: bool,
    bytes: Vec<u8>,
    ecn: u8,
}

impl SimulatedDatagrams {
    /// Creates a backend for up to `capacity` connections.
    pub(crate) fn new(
        capacity: usize,
        quality: LinkQuality,
        streams: u32,
        seed: u64,
        script: QuicScript,
    ) -> SimulatedDatagrams {
        SimulatedDatagrams {
            clock: Duration::ZERO,
            epoch: Instant::now(),
            quality,
            random: ChaCha8Rng::seed_from_u64(seed),
            server: QuicServer::new(streams, script),
            unserved: None,
            sockets: vec![None; capacity],
            next_port: 10_000,
            due: BinaryHeap::new(),
            sent: 0,
            arrived: VecDeque::new(),
            current_key: None,
            current: (Vec::new(), None),
            waits_at_once: 0,
            log: Rc::default(),
        }
    }

    /// Creates a backend whose far end only stores the datagrams that arrive.
    pub(crate) fn without_server(capacity: usize, quality: LinkQuality) -> SimulatedDatagrams {
        let script: QuicScript = Box::new(|_| unreachable!("this link has no server"));
        let mut datagrams = SimulatedDatagrams::new(capacity, quality, 0, 1, script);
        datagrams.unserved = Some(VecDeque::new());
        datagrams
    }

    /// Sets the number of unidirectional streams that the server allows the client to open.
    pub(crate) fn set_unidirectional_streams(&mut self, streams: u32) {
        self.server.set_unidirectional_streams(streams);
    }

    /// Lets the server end connections on which nothing has arrived for this time.
    pub(crate) fn set_idle_timeout(&mut self, time: Duration) {
        self.server.set_idle_timeout(time);
    }

    /// Removes and returns a datagram that arrived at the far end, with the client's port.
    pub(crate) fn take_unserved(&mut self) -> Option<(u16, Vec<u8>)> {
        self.unserved.as_mut()?.pop_front()
    }

    /// Sends a datagram from the far end to a port of the client.
    pub(crate) fn send_back(&mut self, port: u16, bytes: &[u8]) {
        self.carry(port, false, bytes, None);
    }

    /// Returns the counts of the server and the link.
    pub(crate) fn log(&self) -> Rc<RefCell<QuicLog>> {
        self.log.clone()
    }

    /// Puts a datagram on the link. The link may lose or duplicate the datagram.
    fn carry(&mut self, port: u16, is_to_server: bool, bytes: &[u8], ecn: Option<EcnCodepoint>) {
        let copies = if self.random.random_bool(self.quality.duplication) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            if self.random.random_bool(self.quality.loss) {
                self.log.borrow_mut().lost += 1;
                continue;
            }
            let jitter = self.quality.jitter.as_nanos() as u64;
            let jitter = Duration::from_nanos(self.random.random_range(0..=jitter));
            self.sent += 1;
            self.due.push(Reverse(InTransit {
                at: self.clock + self.quality.delay + jitter,
                order: self.sent,
                port,
                is_to_server,
                bytes: bytes.to_vec(),
                ecn: ecn.map_or(0, |ecn| ecn as u8),
            }));
        }
    }

    /// Returns the time of the next event on the link or at the server.
    fn next_at(&mut self) -> Option<Duration> {
        let link = self.due.peek().map(|Reverse(datagram)| datagram.at);
        let server = self.server.next_at(self.epoch);
        link.into_iter().chain(server).min()
    }

    /// Handles all due events on the link and at the server.
    fn step(&mut self) {
        let now = self.epoch + self.clock;
        while self
            .due
            .peek()
            .is_some_and(|Reverse(datagram)| datagram.at <= self.clock)
        {
            let Some(Reverse(datagram)) = self.due.pop() else {
                break;
            };
            let ecn = EcnCodepoint::from_bits(datagram.ecn);
            if datagram.is_to_server
                && let Some(unserved) = &mut self.unserved
            {
                unserved.push_back((datagram.port, datagram.bytes));
            } else if datagram.is_to_server {
                let mut log = self.log.borrow_mut();
                self.server
                    .receive(&datagram.bytes, datagram.port, ecn, now, &mut log);
            } else {
                let mut sockets = self.sockets.iter().flatten();
                if let Some((key, _)) = sockets.find(|(_, port)| *port == datagram.port) {
                    self.arrived.push_back((*key, datagram.bytes, ecn));
                }
            }
        }
        let clock = self.clock;
        self.server.reply(clock, now);
        self.server.expire(now);
        let out = self.server.drive(clock, now, &mut self.log.borrow_mut());
        for (port, bytes, ecn) in out {
            self.carry(port, false, &bytes, ecn);
        }
    }
}

impl Datagrams for SimulatedDatagrams {
    fn now(&self) -> Nanos {
        Nanos::from(self.clock)
    }

    fn instant(&self) -> Instant {
        self.epoch + self.clock
    }

    fn open(&mut self, key: Key, _peer: SocketAddr, _route: &Route<'_>) -> io::Result<()> {
        self.next_port += 1;
        self.sockets[key.index as usize] = Some((key, self.next_port));
        Ok(())
    }

    fn segments_max(&self, _key: Key) -> usize {
        10
    }

    fn send(&mut self, key: Key, bytes: &[u8], batch: DatagramBatch) -> io::Result<bool> {
        let open = self.sockets[key.index as usize].filter(|(of, _)| *of == key);
        let Some((_, port)) = open else {
            return Ok(true);
        };
        for datagram in bytes.chunks(batch.segment_bytes) {
            self.carry(port, true, datagram, batch.ecn);
        }
        Ok(true)
    }

    fn local_address(&self, key: Key) -> Option<SocketAddr> {
        let (_, port) = self.sockets[key.index as usize].filter(|(of, _)| *of == key)?;
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn close(&mut self, key: Key) -> u64 {
        let socket = &mut self.sockets[key.index as usize];
        let _ = socket.take_if(|(of, _)| *of == key);
        self.arrived.retain(|(of, ..)| *of != key);
        0
    }

    fn calls(&self) -> (u64, u64) {
        (self.sent, 0)
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        let until = self.clock + time;
        let before = self.clock;
        self.step();
        while self.arrived.is_empty() && self.clock < until {
            self.clock = self.next_at().unwrap_or(until).clamp(self.clock, until);
            self.step();
        }
        if self.clock == before {
            self.waits_at_once += 1
        } else {
            self.waits_at_once = 0
        }
        assert!(
            self.waits_at_once < WAITS_AT_ONCE_MAX,
            "the worker spins: its clock does not advance"
        );
        Ok(())
    }

    fn next(&mut self) -> Option<DatagramEvent> {
        let (key, bytes, ecn) = self.arrived.pop_front()?;
        self.current = (bytes, ecn);
        self.current_key = Some(key);
        Some(DatagramEvent::Received(key))
    }

    fn next_received(&mut self) -> bool {
        let next = self.arrived.front().map(|(key, ..)| *key);
        let is_same = next.is_some() && next == self.current_key;
        is_same && self.next().is_some()
    }

    fn received(&self) -> ReceivedDatagrams<'_> {
        ReceivedDatagrams {
            bytes: &self.current.0,
            segment_bytes: self.current.0.len(),
            ecn: self.current.1,
        }
    }
}
