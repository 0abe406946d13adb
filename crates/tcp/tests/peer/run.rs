//! One run: connections of the client, the link, and the server, in virtual time.

use std::net::{IpAddr, SocketAddr};

use prony_tcp::{
    Chunk, CloseMode, ConnectOptions, Event, Handle, SendState, StackConfig, TcpStack,
};
use smoltcp::wire::IpAddress;

use crate::link::{Faults, Link, Random};
use crate::server::{Behavior, PORT, Server, body_byte};

/// Virtual time after which users give up, like the request timeout of a load. It is longer than
/// all timeouts of TCP, so that only a user who waits for a response can reach it.
const USER_TIMEOUT: u64 = 2_000_000_000_000;
/// Virtual time by which all connections are gone.
const TIME_MAX: u64 = 2 * USER_TIMEOUT;

/// Settings of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
    /// True if the server closes after one response, and the client reconnects.
    pub(crate) close: bool,
    pub(crate) server_buffer: usize,
    pub(crate) window: u32,
    pub(crate) mtu: usize,
    pub(crate) ipv6: bool,
    pub(crate) nodelay: bool,
    pub(crate) faults: Faults,
    /// Time in nanoseconds after which no packet arrives.
    pub(crate) breaks_at: Option<u64>,
}

impl Plan {
    /// Draws the settings of a run whose link loses this share of the packets.
    pub(crate) fn draw(seed: u64, loss: f64) -> Plan {
        let mut random = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let rough = loss > 0.0;
        Plan {
            seed,
            connections: 1 + random.below(4) as usize,
            requests: 1 + random.below(4) as usize,
            request_bytes: 1 + random.below(400) as usize,
            response_bytes: random.below(20_000) as usize,
            close: random.below(3) == 0,
            server_buffer: 4_096,
            window: 2_048 << random.below(6),
            mtu: 200 + random.below(1_301) as usize,
            ipv6: random.below(2) == 0,
            nodelay: random.below(2) == 0,
            faults: Faults {
                loss,
                duplication: if rough { 0.02 } else { 0.0 },
                corruption: if rough { 0.02 } else { 0.0 },
                delay: random.below(20_000_000),
                jitter: if rough { random.below(10_000_000) } else { 0 },
            },
            breaks_at: None,
        }
    }
}

/// Counts of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    pub(crate) connections: u64,
    /// Connections with all their responses.
    pub(crate) complete: u64,
    /// Connections that reported a failure.
    pub(crate) failed: u64,
    /// Responses with wrong bytes.
    pub(crate) wrong: u64,
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) out_of_order: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, other: &Summary) {
        self.connections += other.connections;
        self.complete += other.complete;
        self.failed += other.failed;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.out_of_order += other.out_of_order;
    }
}

/// A user of the client, with one connection at a time.
struct User {
    handle: Option<Handle>,
    requests_left: usize,
    received: usize,
    done: bool,
    failed: bool,
    wrong: bool,
}

struct Client<'a> {
    plan: &'a Plan,
    stack: TcpStack<'a>,
    users: Vec<User>,
    local: IpAddr,
    remote: SocketAddr,
    request: &'a [u8],
}

impl<'a> Client<'a> {
    fn connect(&mut self, user: usize, now: u64) {
        let options = ConnectOptions {
            nodelay: self.plan.nodelay,
            window: None,
        };
        let (local, ports) = (self.local, 40_000..=40_015);
        let connected =
            self.stack
                .connect_from(user as u64, local, ports, self.remote, options, now);
        self.users[user].handle = Some(connected.expect("ports are free"));
        self.users[user].received = 0;
    }

    fn request(&mut self, user: usize, now: u64) {
        let handle = self.users[user].handle.expect("connected");
        // Half of the bytes are in an owned chunk, so that chunks of both kinds are retransmitted.
        let (first, second) = self.request.split_at(self.request.len() / 2);
        assert_ne!(
            self.stack.send(handle, Chunk::Shared(first), now),
            SendState::Ended
        );
        let second = Chunk::Owned(second.to_vec());
        assert_ne!(self.stack.send(handle, second, now), SendState::Ended);
    }

    fn take(&mut self, user: usize, data: &[u8], now: u64) {
        let state = &mut self.users[user];
        for byte in data {
            state.wrong |= *byte != body_byte(state.received);
            state.received += 1;
        }
        state.wrong |= state.received > self.plan.response_bytes;
        self.proceed(user, now);
    }

    /// Sends the next request if the response is complete.
    fn proceed(&mut self, user: usize, now: u64) {
        let state = &mut self.users[user];
        if state.done || state.handle.is_none() || state.received != self.plan.response_bytes {
            return;
        }
        if self.plan.response_bytes == 0 && !self.plan.close {
            // The arrival of an empty response can't be observed, so the user sends only one
            // request.
            state.requests_left = 1;
        }
        state.requests_left -= 1;
        let handle = state.handle.expect("connected");
        if state.requests_left == 0 {
            state.done = true;
            self.stack.close(handle, CloseMode::Orderly, now);
        } else if self.plan.close {
            self.stack.close(handle, CloseMode::Orderly, now);
            self.connect(user, now);
        } else {
            state.received = 0;
            self.request(user, now);
        }
    }

    fn handle(&mut self, event: Event, packet: &[u8], now: u64) {
        match event {
            Event::Connected(user) => {
                self.request(user as usize, now);
                if self.plan.response_bytes == 0 && !self.plan.close {
                    self.proceed(user as usize, now);
                }
            }
            Event::SendSpace(_) => {}
            Event::Received(user, range) => self.take(user as usize, &packet[range], now),
            Event::Reassembled(user, data) => self.take(user as usize, &data, now),
            Event::Closed(user) => {
                let user = user as usize;
                if self.plan.response_bytes == 0 {
                    self.proceed(user, now);
                } else if !self.users[user].done {
                    self.users[user].wrong = true;
                }
            }
            Event::Failed(user, failure) => {
                if self.plan.breaks_at.is_none() && self.plan.faults.loss < 0.1 {
                    println!(
                        "seed {}: {failure:?} at {now}: {:?}",
                        self.plan.seed, self.plan
                    );
                }
                self.users[user as usize].failed = true;
                self.users[user as usize].done = true;
            }
        }
    }

    /// Aborts all connections whose users are still waiting.
    fn give_up(&mut self, now: u64) {
        for user in self.users.iter_mut().filter(|user| !user.done) {
            if let Some(handle) = user.handle {
                self.stack.close(handle, CloseMode::Abort, now);
            }
            user.failed = true;
            user.done = true;
        }
    }

    fn is_done(&self) -> bool {
        self.users.iter().all(|user| user.done) && self.stack.connection_count() == 0
    }

    fn summary(&self) -> Summary {
        let count = |of: fn(&User) -> bool| self.users.iter().filter(|u| of(u)).count() as u64;
        let counts = self.stack.counts();
        Summary {
            connections: self.users.len() as u64,
            complete: count(|user| user.done && !user.failed),
            failed: count(|user| user.failed),
            wrong: count(|user| user.wrong),
            retransmitted: counts.retransmitted,
            timeouts: counts.timeouts,
            out_of_order: counts.out_of_order,
        }
    }
}

/// Runs until every connection has ended.
pub(crate) fn run(plan: &Plan) -> Summary {
    let request = vec![b'r'; plan.request_bytes];
    let (local, server): (IpAddr, IpAddr) = if plan.ipv6 {
        ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
    } else {
        ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
    };
    let behavior = Behavior {
        request_bytes: plan.request_bytes,
        response_bytes: plan.response_bytes,
        close: plan.close,
    };
    let mut peer = Server::new(
        IpAddress::from(server),
        plan.server_buffer,
        plan.mtu,
        behavior,
    );
    let config = StackConfig {
        mtu: plan.mtu as u32,
        window: plan.window,
        reassembly_bytes: 1 << 20,
        clock_base_millis: plan.seed,
        secret: plan.seed,
    };
    let mut client = Client {
        plan,
        stack: TcpStack::new(config, 0),
        users: Vec::new(),
        local,
        remote: SocketAddr::new(server, PORT),
        request: &request,
    };
    let mut up = Link::new(plan.faults, plan.seed ^ 1);
    let mut down = Link::new(plan.faults, plan.seed ^ 2);
    for user in 0..plan.connections {
        let requests_left = plan.requests;
        client.users.push(User {
            handle: None,
            requests_left,
            received: 0,
            done: false,
            failed: false,
            wrong: false,
        });
        client.connect(user, 0);
    }
    let mut now = 0;
    while !client.is_done() && now < TIME_MAX {
        if now >= USER_TIMEOUT {
            client.give_up(now);
        }
        turn(&mut client, &mut peer, &mut up, &mut down, now);
        let times = [
            up.next_arrival(),
            down.next_arrival(),
            client.stack.next_timeout(),
            peer.next_timeout(now),
            Some(now.max(USER_TIMEOUT) + 1),
        ];
        let Some(next) = times.into_iter().flatten().min() else {
            break;
        };
        now = next.max(now);
    }
    client.summary()
}

fn turn(client: &mut Client, peer: &mut Server, up: &mut Link, down: &mut Link, now: u64) {
    let is_broken = client.plan.breaks_at.is_some_and(|at| now >= at);
    while let Some(packet) = up.receive(now) {
        if !is_broken {
            peer.receive(now, packet);
        }
    }
    for packet in peer.poll(now) {
        down.send(now, packet);
    }
    while let Some(packet) = down.receive(now) {
        if is_broken {
            continue;
        }
        client.stack.handle_packet(now, &packet);
        while let Some(event) = client.stack.poll_event() {
            client.handle(event, &packet, now);
        }
    }
    client.stack.handle_timeouts(now);
    while let Some(event) = client.stack.poll_event() {
        client.handle(event, &[], now);
    }
    let mut packet = vec![0; client.plan.mtu];
    while let Some(size) = client.stack.poll_transmit(now, &mut packet) {
        up.send(now, packet[..size].to_vec());
    }
}
