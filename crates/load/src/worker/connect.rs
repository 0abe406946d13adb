//! Connection setup: connect, tunnel and TLS handshake, and their failures.

use std::io;

use prony_protocol::h2::ErrorCode;
use prony_record::{Nanos, Outcome, TlsHandshake};

use super::Worker;
use super::sink::OpenedConnection;
use super::timers::Alarm;
use crate::carrier::{ConnectionState, Progress, Reason, ResetCode, Secured};
use crate::quic::{EarlyData, QuicEnd};
use crate::socket::{Close, Peer, Route, Sockets, system};

/// The backoff after the first failed connection attempt. It doubles with each subsequent failure.
pub(super) const BACKOFF_MIN: Nanos = Nanos::from_millis(10);
/// Maximum backoff.
const BACKOFF_MAX: Nanos = Nanos::from_millis(500);
/// Minimum and maximum pause between two attempts to connect to a UNIX socket whose backlog is
/// full. Between these limits, the pause is a quarter of the time waited so far. If a thousand
/// connections each retried every millisecond, the retries would occupy a whole core, perhaps the
/// one that the server runs on.
const RETRY_PAUSE: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_millis(20));

impl<'run, S: Sockets<'run>> Worker<'run, S> {
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
        if let ConnectionState::Connecting { since } = self.connections[index].state {
            self.submit_connect(index, since);
        }
    }

    fn submit_connect(&mut self, index: u32, since: Nanos) {
        let turn = self.source_selector(index);
        self.connections.begin_connect(index, since);
        self.dispatcher.occupancy_mut(index).write_backpressured = false;
        let entry = &self.connections[index];
        let target = &self.targets[entry.target];
        let has_proxy_header = self.spec.sources.proxy_protocol().is_some();
        let has_own_requests = self.script.is_some() || self.redirects.is_some();
        let route = Route {
            peer: &target.peer,
            server_name: target.tls.as_ref(),
            source: self.spec.sources.source(&target.peer, turn),
            buffers: self.spec.transport.buffers,
            nodelay: target.nodelay || has_proxy_header || has_own_requests,
            keepalive: self.spec.transport.keepalive,
        };
        self.sockets.connect(entry.key(index), route);
    }

    /// Continues the setup of a connection whose socket has connected.
    pub(super) fn connected(&mut self, index: u32, now: Nanos) {
        if S::HAS_STREAMS {
            self.quic_connected(index, now);
            return;
        }
        let entry = &self.connections[index];
        if self.targets[entry.target].tls.is_none() {
            self.sink.refusals.rule_out();
        }
        self.write_proxy_header(index);
        if self.request_tunnel(index, now) {
            return;
        }
        let connect = self.end_connect(index, now);
        let entry = &self.connections[index];
        if self.targets[entry.target].tls.is_some() {
            self.begin_tls(index, connect, now);
            return;
        }
        self.connections.open_cleartext(index);
        let opened = OpenedConnection {
            connect,
            handshake: None,
            is_tcp: self.is_tcp(index),
        };
        self.record_opened(index, &opened, now);
        if let Some(script) = &mut self.script {
            script.connection_made(self.connections[index].slot, Some(connect), None);
        }
        self.ready(index, now);
    }

    /// Continues the setup of a QUIC connection that is established, or that accepts early data.
    fn quic_connected(&mut self, index: u32, now: Nanos) {
        let entry = &self.connections[index];
        let since = entry.state.connecting_since().unwrap_or(now);
        let key = entry.key(index);
        let Some(quic) = self.sockets.quic(key) else {
            return;
        };
        let early_data = quic.early_data();
        self.connections.open_quic(index, quic);
        if self.fail_without_own_streams(index, now) {
            return;
        }
        if early_data == EarlyData::Offered {
            // The connect timeout keeps running until the end of the handshake.
            if let Some(h3) = self.connections.h3_mut(index) {
                h3.begin_early(since);
            }
        } else {
            self.quic_established(index, since, now);
        }
        self.ready(index, now);
    }

    /// Fails a QUIC connection on which the server allows too few streams for HTTP/3. Returns true if
    /// it failed.
    fn fail_without_own_streams(&mut self, index: u32, now: Nanos) -> bool {
        let h3 = self.connections.h3_mut(index);
        if h3.is_none_or(|h3| h3.has_own_streams()) {
            return false;
        }
        self.sink.refusals.rule_out();
        let text = "the server allows fewer unidirectional streams than HTTP/3 needs \
                    (initial_max_streams_uni must be 3 or more)";
        let reason = Some(Reason::Text(text.to_owned()));
        self.connect_failed(index, Outcome::Protocol, reason, now);
        true
    }

    /// Records an established QUIC connection. Its connect began at `since` and included the TLS
    /// handshake.
    fn quic_established(&mut self, index: u32, since: Nanos, now: Nanos) {
        self.sink.refusals.rule_out();
        self.timers.connects.clear(index);
        let entry = &mut self.connections[index];
        entry.backoff = Nanos::ZERO;
        let (slot, key) = (entry.slot, entry.key(index));
        let connect = now.since(since);
        let agreed = self.sockets.quic(key).and_then(|quic| quic.agreed());
        let handshake = Some(TlsHandshake {
            took: connect,
            resumed: agreed.is_some_and(|agreed| agreed.resumed),
        });
        let opened = OpenedConnection {
            connect,
            handshake,
            is_tcp: false,
        };
        self.record_opened(index, &opened, now);
        if let Some(script) = &mut self.script {
            script.connection_made(slot, Some(connect), handshake);
        }
    }

    /// Handles the end of the handshake on a QUIC connection that has already sent requests as
    /// early data.
    pub(super) fn end_early_data(&mut self, index: u32, now: Nanos) {
        let key = self.connections[index].key(index);
        let (Some(h3), Some(quic)) = (self.connections.h3_mut(index), self.sockets.quic(key))
        else {
            return;
        };
        let Some(since) = h3.end_early(quic) else {
            return;
        };
        let is_rejected = quic.early_data() == EarlyData::Rejected;
        if self.fail_without_own_streams(index, now) {
            return;
        }
        self.quic_established(index, since, now);
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

    /// Records that a connection is established, including any tunnel. Returns the time that this
    /// took.
    fn end_connect(&mut self, index: u32, now: Nanos) -> Nanos {
        self.timers.connects.clear(index);
        let entry = &mut self.connections[index];
        entry.backoff = Nanos::ZERO;
        now.since(entry.state.connecting_since().unwrap_or(now))
    }

    /// Requests a tunnel on a new connection if the target needs one. The time until the tunnel is
    /// open counts as connect time, and is subject to the connect timeout. Returns true if the
    /// target needs a tunnel.
    fn request_tunnel(&mut self, index: u32, now: Nanos) -> bool {
        let entry = &mut self.connections[index];
        let Some(tunnel) = &self.targets[entry.target].tunnel else {
            return false;
        };
        let since = entry.state.connecting_since().unwrap_or(now);
        entry.state.open_tunnel(since);
        let mut out = std::mem::take(&mut entry.outbox);
        out.extend_from_slice(tunnel);
        self.send_owned(index, out);
        true
    }

    /// Continues the setup of a connection after the proxy has opened the tunnel.
    pub(super) fn tunneled(&mut self, index: u32, now: Nanos) {
        let connect = self.end_connect(index, now);
        self.begin_tls(index, connect, now);
    }

    /// Starts the TLS handshake on a connection that took `connect` to establish.
    fn begin_tls(&mut self, index: u32, connect: Nanos, now: Nanos) {
        let entry = &mut self.connections[index];
        let target = &self.targets[entry.target];
        let (Some(name), Some(client)) = (&target.tls, &self.targets.tls) else {
            // Unreachable, because every TLS target has TLS settings.
            self.fail(index, Outcome::Tls, None, now);
            return;
        };
        if let Some(script) = &mut self.script {
            script.connection_made(entry.slot, Some(connect), None);
        }
        match entry.state.open_tls(client, name, connect, now) {
            Ok(()) => self.send_ciphertext(index),
            Err(reason) => self.fail(index, Outcome::Tls, Some(reason), now),
        }
    }

    /// Continues the setup of a connection after its TLS handshake.
    pub(super) fn secured(&mut self, index: u32, secured: Secured, now: Nanos) {
        let handshake = Some(secured.handshake);
        if let Some(script) = &mut self.script {
            script.connection_made(self.connections[index].slot, None, handshake);
        }
        let opened = OpenedConnection {
            connect: secured.connect,
            handshake,
            is_tcp: self.is_tcp(index),
        };
        self.record_opened(index, &opened, now);
        if let Some(session) = self.connections[index].session_mut() {
            session.last_heard = now;
        }
        self.ready(index, now);
    }

    fn is_tcp(&self, index: u32) -> bool {
        let target = &self.targets[self.connections[index].target];
        matches!(target.peer, Peer::Tcp(_))
    }

    fn record_opened(&mut self, index: u32, opened: &OpenedConnection, now: Nanos) {
        let source = (self.sink.sources.is_counting())
            .then(|| self.source_of(index))
            .flatten();
        self.sink.connection_opened(now, opened, source);
    }

    /// Makes a connection available for requests.
    fn ready(&mut self, index: u32, now: Nanos) {
        self.note_negotiated(index);
        let session = self.connections[index].session();
        if let Some(session) = session.filter(|session| session.http.has_streams()) {
            if session.http.is_going_away() {
                // GOAWAY arrived with the end of the handshake. A new connection would also receive
                // a GOAWAY.
                let no_error = Reason::GoneAway(ResetCode::Http2(ErrorCode::NO_ERROR));
                let reason = session.http.end_reason().unwrap_or(no_error);
                self.connect_failed(index, Outcome::Reset, Some(reason), now);
                return;
            }
            self.connections.mark_dirty(index);
        }
        if !self.hold(index, now) {
            self.send_waiting(index, now);
            self.dispatcher.unpark(index, now);
        }
        // The last flight of the TLS handshake may still have to be sent.
        self.send_ciphertext(index);
    }

    /// Holds the request of a new connection if the ramp is in progress, and stops the request's
    /// clock. Returns true if the request is held.
    fn hold(&mut self, index: u32, now: Nanos) -> bool {
        let Some(ramp) = &mut self.ramp else {
            return false;
        };
        let settled = self.sockets.cached_now();
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
            self.connections[index].state,
            ConnectionState::Tunneling { .. }
        );
        match progress {
            Progress::Open => self.send_ciphertext(index),
            Progress::Broken(outcome, reason) if is_tunneling => {
                self.connect_failed(index, outcome, Some(reason), now);
            }
            _ if is_tunneling => {
                let reason = Some(Reason::NoTunnel(None));
                self.connect_failed(index, Outcome::ConnectFailed, reason, now);
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
            let waited = now.since(entry.state.connecting_since().unwrap_or(now));
            let pause = Nanos(waited.0 / 4).clamp(RETRY_PAUSE.0, RETRY_PAUSE.1);
            let generation = entry.generation;
            self.timers
                .set_alarm(now + pause, index, generation, Alarm::RetryConnect);
            return;
        }
        let quic = error
            .get_ref()
            .and_then(|error| error.downcast_ref::<QuicEnd>());
        let (outcome, reason) = match quic {
            Some(end) => {
                let given = self.targets.tls.as_ref().map(|tls| tls.given);
                let reason = Reason::of_quic(end, given.unwrap_or_default());
                (end.outcome(), reason)
            }
            None => (system::connect_outcome(error), Reason::of_io(error)),
        };
        let reason = Some(reason);
        self.connect_failed(index, outcome, reason, now);
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
        entry.state = ConnectionState::Backoff;
        let generation = entry.generation;
        self.timers
            .set_alarm(until, index, generation, Alarm::EndBackoff);
    }
}
