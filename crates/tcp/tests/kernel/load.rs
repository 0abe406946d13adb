//! A load that the client generates on the kernel's server, in real time.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Instant, SystemTime};

use prony_tcp::{
    Chunk, CloseMode, ConnectOptions, Event, Failure, Handle, StackConfig, TcpCounts, TcpStack,
};

use crate::server::{End, body_byte, request};
use crate::tun::{MTU, Tun};

/// Time after which users stop waiting, in nanoseconds. The kernel interprets lost acknowledgments
/// as long round trips, so with many losses its timeouts grow to minutes.
const USER_TIMEOUT: u64 = 60_000_000_000;

/// A load: each user opens its connections in sequence, and sends its requests in sequence.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) ipv6: bool,
    pub(crate) port: u16,
    pub(crate) users: usize,
    /// Number of connections of each user.
    pub(crate) connections: usize,
    /// Number of requests on each connection.
    pub(crate) requests: usize,
    /// Largest sizes of request and response bodies, in bytes.
    pub(crate) upload_max: usize,
    pub(crate) download_max: usize,
    pub(crate) end: End,
    /// True if the client resets connections instead of closing them.
    pub(crate) abort: bool,
    pub(crate) window: u32,
    pub(crate) source_ports: RangeInclusive<u16>,
    /// Time in milliseconds by which the client's timestamps are ahead of the wall clock.
    pub(crate) clock_ahead_millis: u64,
}

impl Plan {
    pub(crate) fn new() -> Plan {
        Plan {
            ipv6: false,
            port: 80,
            users: 8,
            connections: 4,
            requests: 4,
            upload_max: 30_000,
            download_max: 100_000,
            end: End::Keep,
            abort: false,
            window: 262_144,
            source_ports: 20_000..=20_999,
            clock_ahead_millis: 0,
        }
    }
}

/// Result of a load.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Complete responses.
    pub(crate) responses: usize,
    /// Responses with wrong or excess bytes.
    pub(crate) wrong: usize,
    /// Connections that the server closed before the end of a response.
    pub(crate) truncated: usize,
    pub(crate) failures: Vec<Failure>,
    /// Connections that were aborted because their user gave up.
    pub(crate) abandoned: usize,
    /// SYNs sent.
    pub(crate) syns: usize,
    /// Packets sent without data.
    pub(crate) empty: usize,
    pub(crate) counts: TcpCounts,
}

struct User {
    handle: Option<Handle>,
    connections_left: usize,
    requests_left: usize,
    expected: usize,
    received: usize,
    /// True if all requests have responses, and the server will close the connection.
    closing: bool,
}

struct Load<'a> {
    plan: &'a Plan,
    stack: TcpStack<'static>,
    users: Vec<User>,
    outcome: Outcome,
    number: usize,
}

/// Runs a load until every user is done and every connection has ended.
pub(crate) fn run(tun: &mut Tun, plan: &Plan) -> Outcome {
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let config = StackConfig {
        mtu: MTU as u32,
        window: plan.window,
        reassembly_bytes: 4 << 20,
        clock_base_millis: wall.as_millis() as u64 + plan.clock_ahead_millis,
        secret: 0x5eed,
    };
    let mut load = Load {
        plan,
        stack: TcpStack::new(config, 0),
        users: Vec::new(),
        outcome: Outcome::default(),
        number: 0,
    };
    for user in 0..plan.users {
        load.users.push(User {
            handle: None,
            connections_left: plan.connections,
            requests_left: 0,
            expected: 0,
            received: 0,
            closing: false,
        });
        load.connect(user, now());
    }
    let mut packet = Vec::new();
    let mut out = [0; MTU];
    loop {
        let batch = now();
        while tun.receive(&mut packet) {
            load.stack.handle_packet(batch, &packet);
            load.handle_events(&packet, batch);
        }
        load.stack.handle_timeouts(batch);
        load.handle_events(&[], batch);
        while let Some(size) = load.stack.poll_transmit(batch, &mut out) {
            load.note_sent(&out[..size]);
            tun.send(&out[..size]);
        }
        if load.stack.connection_count() == 0 && load.users.iter().all(|u| u.handle.is_none()) {
            load.outcome.counts = load.stack.counts();
            return load.outcome;
        }
        if batch > USER_TIMEOUT {
            load.abandon(batch);
        }
        let next = load.stack.next_timeout().unwrap_or(batch + 1_000_000_000);
        tun.wait(next.saturating_sub(now()));
    }
}

impl Load<'_> {
    fn connect(&mut self, user: usize, now: u64) {
        let Plan { ipv6, port, .. } = *self.plan;
        let (local, remote): (IpAddr, IpAddr) = if ipv6 {
            ("fd09::1".parse().unwrap(), "fd09::2".parse().unwrap())
        } else {
            ([10, 9, 0, 1].into(), [10, 9, 0, 2].into())
        };
        let options = ConnectOptions {
            nodelay: true,
            window: None,
        };
        let (ports, remote) = (
            self.plan.source_ports.clone(),
            SocketAddr::new(remote, port),
        );
        let handle = self
            .stack
            .connect_from(user as u64, local, ports, remote, options, now);
        let state = &mut self.users[user];
        state.handle = Some(handle.expect("ports are free"));
        state.connections_left -= 1;
        state.requests_left = self.plan.requests;
        state.closing = false;
    }

    /// Sends the next request, whose sizes depend on its number.
    fn request(&mut self, user: usize, now: u64) {
        self.number += 1;
        let drawn = |max: usize, factor: usize| self.number.wrapping_mul(factor) % (max + 1);
        let upload = drawn(self.plan.upload_max, 7_919);
        let download = 1 + drawn(self.plan.download_max, 104_729);
        let state = &mut self.users[user];
        state.requests_left -= 1;
        (state.expected, state.received) = (download, 0);
        let end = match (self.plan.end, state.requests_left) {
            (End::Close | End::Reset, 1..) => End::Keep,
            (end, _) => end,
        };
        state.closing = end == End::Close;
        let bytes = request(upload, download, end);
        self.stack
            .send(state.handle.expect("connected"), Chunk::Owned(bytes), now);
    }

    fn take(&mut self, user: usize, data: &[u8], now: u64) {
        let state = &mut self.users[user];
        let is_right = |(at, byte): (usize, &u8)| *byte == body_byte(state.received + at);
        let right = data.iter().enumerate().all(is_right);
        state.received += data.len();
        if !right || state.received > state.expected {
            self.outcome.wrong += 1;
        }
        if state.received < state.expected {
            return;
        }
        self.outcome.responses += 1;
        if state.requests_left > 0 {
            self.request(user, now);
        } else if !state.closing {
            self.end(user, now);
        }
    }

    /// Ends the connection, and opens the next one.
    fn end(&mut self, user: usize, now: u64) {
        let mode = if self.plan.abort {
            CloseMode::Abort
        } else {
            CloseMode::Orderly
        };
        let state = &mut self.users[user];
        if let Some(handle) = state.handle.take() {
            self.stack.close(handle, mode, now);
        }
        if state.connections_left > 0 {
            self.connect(user, now);
        }
    }

    /// Aborts all connections, and opens no more.
    fn abandon(&mut self, now: u64) {
        for user in &mut self.users {
            user.connections_left = 0;
            if let Some(handle) = user.handle.take() {
                self.outcome.abandoned += 1;
                self.stack.close(handle, CloseMode::Abort, now);
            }
        }
    }

    fn handle_events(&mut self, packet: &[u8], now: u64) {
        while let Some(event) = self.stack.poll_event() {
            let user = event.tag() as usize;
            match event {
                Event::Connected(_) => self.request(user, now),
                Event::SendSpace(_) => {}
                Event::Received(_, range) => self.take(user, &packet[range], now),
                Event::Reassembled(_, data) => self.take(user, &data, now),
                Event::Closed(_) => {
                    let state = &self.users[user];
                    let complete = state.requests_left == 0 && state.received == state.expected;
                    self.outcome.truncated += usize::from(!complete);
                    self.end(user, now);
                }
                Event::Failed(_, failure) => {
                    self.outcome.failures.push(failure);
                    self.end(user, now);
                }
            }
        }
    }

    fn note_sent(&mut self, packet: &[u8]) {
        let header = if self.plan.ipv6 { 40 } else { 20 };
        let data = header + usize::from(packet[header + 12] >> 4) * 4;
        self.outcome.syns += usize::from(packet[header + 13] & 2 != 0);
        self.outcome.empty += usize::from(data == packet.len());
    }
}
