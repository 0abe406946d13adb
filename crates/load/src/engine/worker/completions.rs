//! Handles the sockets' completions, and decides whether connections continue.

use std::io;

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::closing::LostEnds;
use crate::carrier::{
    Carrier, ConnectionState, Progress, Reason, SendState, Session, SharedState, Transport,
};
use crate::socket::{Close, Completion, Key, Operation};

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Handles a completion. Inlined into both callers, because a function call would add 1% to the
    /// CPU time of a request.
    #[inline(always)]
    pub(super) fn on_completion(&mut self, completion: Completion, now: Nanos) {
        let key = completion.key();
        if !self.connections.is_current(key) {
            return;
        }
        let index = key.index;
        match completion {
            Completion::Connected(_) => self.connected(index, now),
            Completion::Sent(_, buffer) => self.sent(key, buffer),
            Completion::Received(_) => self.on_received(key, now),
            Completion::Closed(_) => self.on_peer_closed(index, now),
            Completion::Failed(_, Operation::Connect, error) => {
                self.on_connect_error(index, &error, now);
            }
            Completion::Failed(_, Operation::Send, _) => {
                // Bytes that the peer sent before it stopped reading may still arrive.
                self.connections[index].link.send = SendState::Failed;
                self.close_if_spent(index, now);
            }
            Completion::Failed(_, Operation::Receive, error) => {
                self.on_receive_error(index, &error, now);
            }
        }
    }

    /// Processes what arrived on a connection.
    #[inline]
    fn on_received(&mut self, key: Key, now: Nanos) {
        let expected = &self.spec.responses.expect;
        let (entry, factory, buffers) = self.connections.parts(key.index);
        let shared = SharedState {
            factory,
            buffers,
            expected,
        };
        let progress = self.transport.receive(key, &mut entry.link, shared, now);
        if let Progress::EarlyDataEnded {
            secured,
            is_rejected,
        } = progress
        {
            self.early_data_ended(key.index, secured, is_rejected, now);
            if self.connections.is_current(key) {
                self.on_received(key, now);
            }
            return;
        }
        self.on_progress(key.index, progress, now);
    }

    /// Handles an orderly close by the peer. If a send failed before, the close counts as a reset.
    fn on_peer_closed(&mut self, index: u32, now: Nanos) {
        let entry = &self.connections[index];
        if entry.link.state.is_draining() {
            self.drained(index, Close::Orderly, now);
        } else if entry.link.send == SendState::Failed {
            // The failed send consumed the reset error, so the close looks orderly.
            let reset = io::Error::from_raw_os_error(libc::ECONNRESET);
            self.on_receive_error(index, &reset, now);
        } else {
            let expected = &self.spec.responses.expect;
            let (entry, _, buffers) = self.connections.parts(index);
            let progress = entry.link.state.peer_closed(expected, buffers);
            self.on_progress(index, progress, now);
            if self.connections[index].link.state.is_draining() {
                self.drained(index, Close::Orderly, now);
            }
        }
    }

    /// Handles the progress of a connection after bytes have arrived or the peer has closed it.
    #[inline]
    fn on_progress(&mut self, index: u32, progress: Progress, now: Nanos) {
        match progress {
            Progress::Secured(secured) => return self.secured(index, secured, now),
            Progress::Tunneled => return self.tunneled(index, now),
            _ => {}
        }
        match &self.connections[index].link.state {
            ConnectionState::Ready(_) => {}
            ConnectionState::Draining(_) => {
                return self.on_progress_while_draining(index, &progress, now);
            }
            _ => return self.on_early_progress(index, progress, now),
        }
        self.note_heard(index, now);
        self.note_negotiated(index);
        let has_ended = self.handle_events(index, now);
        if self.sink.body_waits.is_testing() {
            self.acknowledge_test(index);
        }
        match progress {
            Progress::Open => self.continue_connection(index, has_ended, now),
            Progress::Closed if self.answers_close(index) => {
                self.sink.closed_by_server(now);
                self.note_preconnect_close();
                self.drain(index, now);
                self.send_output(index);
            }
            Progress::Closed => {
                self.sink.closed_by_server(now);
                self.close_idle(index, Close::Orderly, now);
            }
            Progress::Lost => self.lost(index, now),
            Progress::Broken(outcome, reason) => self.broken(index, outcome, reason, now),
            Progress::Unusable(outcome, reason) => {
                self.connect_failed(index, outcome, Some(reason), now);
            }
            Progress::Unsolicited => {
                self.sink.unsolicited += 1;
                self.close_idle(index, Close::Abort, now);
            }
            // These were handled before.
            Progress::Secured(_) | Progress::Tunneled | Progress::EarlyDataEnded { .. } => {}
        }
    }

    /// Returns true if the peer's close of an idle connection has an answer: that of a WebSocket.
    fn answers_close(&self, index: u32) -> bool {
        let session = self.connections[index].session();
        session.is_some_and(|it| it.carrier.may_receive_anytime() && !it.carrier.is_multiplexed())
    }

    /// Acknowledges the beginning of a response immediately, if the response is a test.
    #[cold]
    fn acknowledge_test(&mut self, index: u32) {
        let mut slots = self.dispatcher.slots_of(index);
        let begun = slots.find(|&slot| {
            let stream = self.dispatcher.slot(slot).stream();
            let session = self.connections[index].session();
            let received = session.map(|session| session.carrier.received(stream));
            self.dispatcher.is_in_flight_on(slot, index)
                && received.is_some_and(|received| received.first_byte.is_some())
        });
        if begun.is_some_and(|slot| self.sink.body_waits.tests(slot)) {
            let key = self.connections[index].key(index);
            if !self.transport.acknowledge(key) {
                self.sink.body_waits.give_up();
            }
        }
    }

    /// Handles received bytes on a connection that has served its last request.
    fn on_progress_while_draining(&mut self, index: u32, progress: &Progress, now: Nanos) {
        self.connections.buffers.events.clear();
        if self.connections[index].is_multiplexed() {
            // The connection failed earlier, and only its GOAWAY remains to be sent, unless it awaits
            // the end of its WebSockets.
            if matches!(progress, Progress::Closed) {
                self.drained(index, Close::Abort, now);
            }
            return;
        }
        match progress {
            // The server has answered the close frame, and closes the connection.
            Progress::Closed => self.drain(index, now),
            Progress::Unsolicited => self.sink.unsolicited += 1,
            Progress::Broken(..) => self.drained(index, Close::Abort, now),
            _ => {}
        }
    }

    fn on_receive_error(&mut self, index: u32, error: &io::Error, now: Nanos) {
        let outcome = match error.raw_os_error() {
            Some(libc::ETIMEDOUT) => Outcome::Timeout,
            _ => Outcome::Reset,
        };
        let reason = Reason::of_io(error);
        match &self.connections[index].link.state {
            ConnectionState::Draining(_) => return self.drained(index, Close::Orderly, now),
            ConnectionState::Tunneling { .. } => {
                return self.connect_failed(index, Outcome::ConnectFailed, Some(reason), now);
            }
            ConnectionState::Ready(_) => self.sink.closed_by_server(now),
            _ => {}
        }
        let occupancy = self.dispatcher.occupancy(index);
        if occupancy.waiting + occupancy.in_flight == 0 {
            self.note_preconnect_failure(outcome, Some(&reason));
            self.close(index, Close::Orderly);
            self.vacated(index, now);
        } else if self.connections[index].link.state.is_ready() {
            self.end_lost(index, LostEnds::alike(outcome, Some(&reason)), now);
        } else {
            self.fail(index, outcome, Some(reason), now);
        }
    }

    /// Records the negotiated protocols, once the peer has proved that it speaks them.
    #[inline]
    pub(super) fn note_negotiated(&mut self, index: u32) {
        if self.sink.negotiated.is_some() {
            return;
        }
        let session = self.connections[index].session();
        let session = session.filter(|session| {
            session.carrier.is_established() && session.carrier.version().is_some()
        });
        self.sink.negotiated = session.map(Session::negotiated);
    }
}
