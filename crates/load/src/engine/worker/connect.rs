//! Connection setup: connect, PROXY header, tunnel and TLS handshake, and their failures.

use std::io;

use prony_record::{Nanos, Outcome, TlsHandshake};

use super::Worker;
use super::address_book::peer_of;
use super::sink::OpenedConnection;
use super::targets::Targets;
use super::timers::Alarm;
use crate::carrier::{
    Carrier, ConnectionState, Established, Progress, Reason, Secured, SetupStep, SetupTarget,
    Transport,
};
use crate::socket::{Close, Peer, Route, Sockets, system};
use crate::target::address_list::SourceSelector;
use crate::target::proxy_protocol::ConnectionEnds;

/// The backoff after the first failed connection attempt. It doubles with each subsequent failure.
pub(super) const BACKOFF_MIN: Nanos = Nanos::from_millis(10);
/// Maximum backoff.
const BACKOFF_MAX: Nanos = Nanos::from_millis(500);
/// Minimum and maximum pause between two attempts to connect to a UNIX socket whose backlog is
/// full. Between these limits, the pause is a quarter of the time waited so far. If a thousand
/// connections each retried every millisecond, the retries would occupy a whole core, perhaps the
/// one that the server runs on.
const RETRY_PAUSE: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_millis(20));

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Begins a connection for the requests that are waiting for it. The connect timeout starts
    /// now.
    pub(super) fn connect(&mut self, index: u32, now: Nanos) {
        let slot = self.dispatcher.first_waiting(index);
        let number = self.connections.take_number();
        let entry = &mut self.connections[index];
        entry.slot = slot.unwrap_or(entry.slot);
        entry.number = number;
        let deadline = now + self.spec.transport.connect_timeout;
        self.timers.connects.set(index, deadline);
        self.submit_connect(index, now);
    }

    /// Retries a connection attempt that found the backlog full.
    pub(super) fn retry_connect(&mut self, index: u32) {
        if let ConnectionState::Connecting { since } = self.connections[index].link.state {
            self.submit_connect(index, since);
        }
    }

    fn submit_connect(&mut self, index: u32, since: Nanos) {
        let turn = self.source_selector(index);
        if let Some(book) = &mut self.addresses {
            let entry = &self.connections[index];
            book.learn(&self.targets, &mut self.sink.addresses);
            book.choose(index, (entry.target, entry.number), self.spec, self.shard);
        }
        self.connections.begin_connect(index, since);
        self.dispatcher.occupancy_mut(index).write_backpressured = false;
        let entry = &self.connections[index];
        let target = &self.targets[entry.target];
        let peer = peer_of(self.addresses.as_deref(), index, target);
        let has_proxy_header = self.spec.sources.proxy_protocol().is_some();
        let has_own_requests = self.script.is_some() || self.redirects.is_some();
        let route = Route {
            peer,
            server_name: target.tls.as_ref(),
            source: self.spec.sources.source(peer, turn),
            buffers: self.spec.transport.buffers,
            nodelay: target.nodelay || has_proxy_header || has_own_requests,
            keepalive: self.spec.transport.keepalive,
        };
        self.transport
            .sockets_mut()
            .connect(entry.key(index), route);
    }

    /// Continues the setup of a connection whose socket has connected.
    pub(super) fn connected(&mut self, index: u32, now: Nanos) {
        if self.targets[self.connections[index].target].tls.is_none() {
            self.sink.refusals.rule_out();
        }
        if self.spec.transport.tcp_only {
            self.end_with_connect(index, now);
            return;
        }
        self.write_proxy_header(index);
        let (entry, factory, _) = self.connections.parts(index);
        let target = setup_target(&self.targets, entry.target);
        let key = entry.key(index);
        let step = self
            .transport
            .connected(key, &mut entry.link, target, factory, now);
        self.on_setup_step(index, step, now);
    }

    /// Ends the request that consists of a connect. The connection is aborted, because otherwise
    /// its port would stay in TIME_WAIT.
    fn end_with_connect(&mut self, index: u32, now: Nanos) {
        let since = self.connections[index].link.state.connecting_since();
        let connect = now.since(since.unwrap_or(now));
        self.sink.refusals.rule_out();
        self.end_connect(index);
        self.record_opened(index, connect, None, now);
        for slot in self.dispatcher.slots_of(index) {
            if self.dispatcher.is_waiting_on(slot, index) {
                self.record_end(slot, Outcome::Ok, None, now);
                self.dispatcher.set_free(slot, now);
            }
        }
        self.close(index, Close::Abort);
        self.vacated(index, now);
    }

    /// Continues the setup of a connection after the proxy has opened the tunnel.
    pub(super) fn tunneled(&mut self, index: u32, now: Nanos) {
        let entry = &mut self.connections[index];
        let target = setup_target(&self.targets, entry.target);
        let step = self.transport.tunneled(&mut entry.link, target, now);
        self.on_setup_step(index, step, now);
    }

    fn on_setup_step(&mut self, index: u32, step: SetupStep, now: Nanos) {
        match step {
            SetupStep::TunnelRequested => self.send_output(index),
            SetupStep::HandshakeBegun { connect, started } => {
                self.end_connect(index);
                self.tell_script(index, Some(connect), None);
                match started {
                    Ok(()) => self.send_output(index),
                    Err(reason) => self.fail(index, Outcome::Tls, Some(reason), now),
                }
            }
            SetupStep::Established(established) => {
                self.established(index, established, now);
                self.ready(index, now);
            }
            // The connect timeout keeps running until the end of the handshake.
            SetupStep::Early => self.ready(index, now),
            SetupStep::Unusable(outcome, reason) => {
                self.sink.refusals.rule_out();
                self.connect_failed(index, outcome, Some(reason), now);
            }
        }
    }

    /// Records an established connection.
    fn established(&mut self, index: u32, established: Established, now: Nanos) {
        self.sink.refusals.rule_out();
        self.end_connect(index);
        let Established { connect, handshake } = established;
        self.record_opened(index, connect, handshake, now);
        self.tell_script(index, Some(connect), handshake);
    }

    /// Handles the end of the handshake on a connection that has already sent requests as early
    /// data. If the server has rejected these, they are sent again.
    pub(super) fn early_data_ended(
        &mut self,
        index: u32,
        secured: Secured,
        is_rejected: bool,
        now: Nanos,
    ) {
        let established = Established {
            connect: secured.connect,
            handshake: Some(secured.handshake),
        };
        self.established(index, established, now);
        if !is_rejected {
            return;
        }
        // The server has processed none of the requests.
        for slot in self.dispatcher.slots_of(index) {
            if self.dispatcher.is_in_flight_on(slot, index) {
                self.requeue_for_retry(slot, now);
            }
        }
        self.connections.mark_dirty(index);
        self.fill(index, now);
    }

    /// Ends the connect timeout, and the backoff of earlier failures.
    fn end_connect(&mut self, index: u32) {
        self.timers.connects.clear(index);
        self.connections[index].backoff = Nanos::ZERO;
    }

    /// Continues the setup of a connection after its TLS handshake.
    pub(super) fn secured(&mut self, index: u32, secured: Secured, now: Nanos) {
        let handshake = Some(secured.handshake);
        self.tell_script(index, None, handshake);
        self.record_opened(index, secured.connect, handshake, now);
        self.note_heard(index, now);
        self.ready(index, now);
    }

    /// Tells the script how long the setup of a connection took so far.
    fn tell_script(&mut self, index: u32, connect: Option<Nanos>, handshake: Option<TlsHandshake>) {
        if let Some(script) = &mut self.script {
            script.connection_made(self.connections[index].slot, connect, handshake);
        }
    }

    /// The peer of an entry's connection.
    fn peer_of(&self, index: u32) -> &Peer {
        let target = &self.targets[self.connections[index].target];
        peer_of(self.addresses.as_deref(), index, target)
    }

    fn is_tcp(&self, index: u32) -> bool {
        matches!(self.peer_of(index), Peer::Tcp(_))
    }

    fn record_opened(
        &mut self,
        index: u32,
        connect: Nanos,
        handshake: Option<TlsHandshake>,
        now: Nanos,
    ) {
        let opened = OpenedConnection {
            connect,
            handshake,
            is_tcp: self.is_tcp(index),
        };
        let source = (self.sink.sources.is_counting())
            .then(|| self.source_of(index))
            .flatten();
        let is_measured = self.sink.connection_opened(now, &opened, source);
        let address = self
            .addresses
            .as_ref()
            .and_then(|book| book.index_of(index));
        if let Some(address) = address.filter(|_| is_measured) {
            self.sink.addresses.connected(address);
        }
    }

    /// Makes a connection available for requests.
    fn ready(&mut self, index: u32, now: Nanos) {
        self.note_negotiated(index);
        let entry = &self.connections[index];
        if entry.is_going_away() {
            // The announcement arrived with the end of the handshake. A new connection would also
            // receive it.
            let session = entry.session();
            let reason = session.and_then(|session| session.carrier.end_reason());
            let reason = Some(reason.unwrap_or_else(Reason::gone_away));
            self.connect_failed(index, Outcome::Reset, reason, now);
            return;
        }
        self.begin_life(index, now);
        // The last flight of the handshake may still have to be sent.
        self.connections.mark_dirty(index);
        if !self.hold(index, now) {
            self.send_waiting(index, now);
            self.dispatcher.unpark(index, now);
        }
    }

    /// Holds the request of a new connection if the ramp is in progress, and stops the request's
    /// clock. Returns true if the request is held.
    fn hold(&mut self, index: u32, now: Nanos) -> bool {
        let Some(ramp) = &mut self.ramp else {
            return false;
        };
        let settled = self.transport.sockets().cached_now();
        if !ramp.hold(index, settled) {
            return false;
        }
        let slot = self.connections[index].slot;
        self.dispatcher.slot_mut(slot).free_since = now;
        self.timers.requests.clear(slot);
        true
    }

    /// Handles received bytes, or the peer's close, on a connection that is not ready for requests.
    pub(super) fn on_early_progress(&mut self, index: u32, progress: Progress, now: Nanos) {
        let is_tunneling = matches!(
            self.connections[index].link.state,
            ConnectionState::Tunneling { .. }
        );
        match progress {
            Progress::Open => self.send_output(index),
            Progress::Broken(outcome, reason) if is_tunneling => {
                self.connect_failed(index, outcome, Some(reason), now);
            }
            _ if is_tunneling => {
                let reason = Some(Reason::NoTunnel(None));
                self.connect_failed(index, Outcome::ConnectFailed, reason, now);
            }
            Progress::Unusable(outcome, reason) => {
                self.connect_failed(index, outcome, Some(reason), now);
            }
            Progress::Broken(outcome, reason) => self.fail(index, outcome, Some(reason), now),
            _ => {}
        }
    }

    /// Handles a connection attempt that failed with a system error. If the backlog of a UNIX
    /// socket was full, schedules a retry.
    pub(super) fn on_connect_error(&mut self, index: u32, error: &io::Error, now: Nanos) {
        self.sink.refusals.add(error, now);
        let entry = &self.connections[index];
        if system::connect_would_block(error) {
            let waited = now.since(entry.link.state.connecting_since().unwrap_or(now));
            let pause = Nanos(waited.0 / 4).clamp(RETRY_PAUSE.0, RETRY_PAUSE.1);
            let generation = entry.generation;
            self.timers
                .set_alarm(now + pause, index, generation, Alarm::RetryConnect);
            return;
        }
        let given = self.targets.tls.as_ref().map(|tls| tls.given);
        let (outcome, reason) = self
            .transport
            .connect_failure(error, given.unwrap_or_default());
        self.connect_failed(index, outcome, Some(reason), now);
    }

    /// Handles a failed connection attempt. The requests that waited for the connection, or were
    /// sent as early data, have failed. The next connection attempt waits for a backoff.
    pub(super) fn connect_failed(
        &mut self,
        index: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        self.note_preconnect_failure(outcome, reason.as_ref());
        for slot in self.dispatcher.slots_of(index) {
            // The handshake isn't complete, so requests are in flight only if they were sent as
            // early data.
            let is_in_flight = self.dispatcher.is_in_flight_on(slot, index);
            if is_in_flight || self.dispatcher.is_waiting_on(slot, index) {
                self.record_end(slot, outcome, reason.as_ref(), now);
                self.dispatcher.park(slot);
            }
        }
        self.close(index, Close::Abort);
        let entry = &mut self.connections[index];
        let backoff = Nanos(entry.backoff.0 * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        let until = now + backoff;
        entry.backoff = backoff;
        entry.link.state = ConnectionState::Backoff;
        let generation = entry.generation;
        self.timers
            .set_alarm(until, index, generation, Alarm::EndBackoff);
    }

    /// Returns the inputs that determine the source address of an entry's current connection.
    /// Connections and virtual users are distributed among the workers in turn.
    pub(super) fn source_selector(&self, index: u32) -> SourceSelector {
        let among_all = |number: u32| u64::from(number) * self.shard.of + self.shard.worker;
        SourceSelector {
            connection: among_all(self.connections[index].number),
            user: among_all(index % self.dispatcher.primary_count),
            seed: self.spec.seed,
        }
    }

    /// Returns the index of a connection's source address among the counted sources.
    pub(super) fn source_of(&self, index: u32) -> Option<u64> {
        let peer = self.peer_of(index);
        self.spec
            .sources
            .source_index(peer, self.source_selector(index))
    }

    /// Writes the PROXY header of a new connection to its output buffer.
    pub(super) fn write_proxy_header(&mut self, index: u32) {
        let Some(proxy) = self.spec.sources.proxy_protocol() else {
            return;
        };
        let selector = self.source_selector(index);
        let mut out = std::mem::take(&mut self.connections[index].link.outbox);
        let entry = &self.connections[index];
        let local = if proxy.replaces_addresses() {
            None
        } else {
            self.transport.sockets().local_address(entry.key(index))
        };
        let ends = ConnectionEnds::to(&self.targets[entry.target], self.peer_of(index), local);
        let order = self.spec.sources.order();
        proxy.write(ends, selector, order, &mut out);
        self.connections[index].link.outbox = out;
    }
}

/// Returns what a connection to this target is set up for.
fn setup_target(targets: &Targets, target: u32) -> SetupTarget<'_> {
    let entry = &targets[target];
    SetupTarget {
        tunnel: entry.tunnel.as_deref(),
        tls: targets.tls.as_ref().zip(entry.tls.as_ref()),
    }
}
