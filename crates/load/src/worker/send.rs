//! Sends bytes: requests, and the output of TLS and HTTP/2.

use prony_protocol::h2::StartError;
use prony_protocol::h3::H3StartError;
use prony_record::{Nanos, Outcome};

use super::Worker;
use super::connect::BACKOFF_MIN;
use super::connections::SendState;
use super::timers::Alarm;
use crate::carrier::{ConnectionState, HttpMachine, Reason};
use crate::socket::{Key, Outgoing, Sending, Sockets};

/// Maximum number of bytes of a cleartext request that are sent together with the PROXY header. The
/// rest is sent from the request's own memory.
const SENT_WITH_HEADER_BYTES: usize = 16 * 1024;
/// Reason for the failure of an HTTP/1 request on an HTTP/2 or HTTP/3 connection.
const ONLY_HTTP1: &str = "the request is raw HTTP/1, but the connection uses HTTP/2 or HTTP/3";

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Sends a slot's request on its connection, which must have capacity for it.
    #[inline]
    pub(super) fn send_request(&mut self, slot: u32, now: Nanos) {
        let taken = self.dispatcher.slot(slot);
        let index = taken.connection;
        let entry = &mut self.connections[index];
        let (Some(request), ConnectionState::Ready(session)) =
            (taken.request(&self.spec.requests), &mut entry.state)
        else {
            return;
        };
        let h1 = match &mut session.http {
            HttpMachine::One(h1) => h1,
            HttpMachine::Two(_) => {
                self.start_stream(slot, now);
                return;
            }
            HttpMachine::Three(_) => {
                self.start_quic_stream(slot, now);
                return;
            }
        };
        h1.start(taken.stream(), request, &self.spec.responses.expect);
        entry.slot = slot;
        let bytes = request.bytes.len() as u64;
        self.dispatcher.set_in_flight(slot, bytes, now);
        if session.is_tls() {
            self.send_ciphertext(index);
            return;
        }
        let taken = self.dispatcher.slot(slot);
        let listed = match (&taken.own, taken.pending()) {
            (Some(own), _) => {
                let mut out = std::mem::take(&mut entry.outbox);
                out.extend_from_slice(&own.bytes);
                self.send_owned(index, out);
                return;
            }
            (None, Some(pending)) => &self.spec.requests[pending.request as usize].bytes,
            (None, None) => return,
        };
        if entry.outbox.is_empty() {
            self.send_shared(index, listed);
        } else {
            let mut out = std::mem::take(&mut entry.outbox);
            out.extend_from_slice(&listed[..listed.len().min(SENT_WITH_HEADER_BYTES)]);
            self.send_owned(index, out);
        }
    }

    /// Starts a slot's request on an HTTP/2 stream.
    fn start_stream(&mut self, slot: u32, now: Nanos) {
        let taken = self.dispatcher.slot(slot);
        let index = taken.connection;
        let request = taken.request(&self.spec.requests);
        let session = self.connections[index].session_mut();
        let h2 = session.and_then(|session| session.http.h2_mut());
        let (Some(request), Some(h2)) = (request, h2) else {
            return;
        };
        let Some(frames) = &request.frames else {
            let reason = Reason::Text(ONLY_HTTP1.to_owned());
            self.reject(slot, &reason, now);
            return;
        };
        match h2.start(taken.stream(), frames, &self.spec.responses.expect) {
            Ok(()) => {
                let bytes = request.bytes_in_frames;
                self.dispatcher.set_in_flight(slot, bytes, now);
                self.connections.mark_dirty(index);
            }
            Err(error @ StartError::FieldsTooLong { .. }) => {
                self.reject(slot, &Reason::NotStarted(error), now);
            }
            // The connection has no capacity now, so the request keeps waiting for it.
            Err(_) => {}
        }
    }

    /// Starts a slot's request on a QUIC stream.
    fn start_quic_stream(&mut self, slot: u32, now: Nanos) {
        let taken = self.dispatcher.slot(slot);
        let index = taken.connection;
        let request = taken.request(&self.spec.requests);
        let entry = &mut self.connections[index];
        let key = entry.key(index);
        let session = entry.session_mut();
        let h3 = session.and_then(|session| session.http.h3_mut());
        let (Some(request), Some(h3), Some(quic)) = (request, h3, self.sockets.quic(key)) else {
            return;
        };
        let Some(encoded) = &request.http3 else {
            let reason = Reason::Text(ONLY_HTTP1.to_owned());
            self.reject(slot, &reason, now);
            return;
        };
        match h3.start(taken.stream(), encoded, &self.spec.responses.expect, quic) {
            Ok(()) => {
                let bytes = encoded.wire().len() as u64;
                self.dispatcher.set_in_flight(slot, bytes, now);
                self.connections.mark_dirty(index);
            }
            Err(error @ H3StartError::FieldsTooLong { .. }) => {
                self.reject(slot, &Reason::Text(error.to_string()), now);
            }
            // The connection has no capacity now, so the request keeps waiting for it.
            Err(_) => {}
        }
    }

    /// Rejects a request that can't be sent on this connection. The slot is parked for a while,
    /// because otherwise its requests would fail in an endless loop.
    fn reject(&mut self, slot: u32, reason: &Reason, now: Nanos) {
        let index = self.dispatcher.slot(slot).connection;
        self.record_end(slot, Outcome::Protocol, Some(reason), now);
        self.dispatcher.park(slot);
        let generation = self.connections[index].generation;
        self.timers
            .set_alarm(now + BACKOFF_MIN, index, generation, Alarm::Unpark);
    }

    /// Handles the completion of a send. `buffer` is the sent buffer if the send owned one.
    #[inline]
    pub(super) fn sent(&mut self, key: Key, buffer: Option<Vec<u8>>) {
        if !self.connections.is_current(key) {
            return;
        }
        let index = key.index;
        let entry = &mut self.connections[index];
        entry.send = SendState::Idle;
        let Some(buffer) = buffer else {
            return;
        };
        entry.outbox = buffer;
        entry.outbox.clear();
        if entry.has_streams() {
            self.send_frames(index);
            self.end_backpressure(index);
        } else if entry.state.is_tls() {
            self.send_ciphertext(index);
        } else {
            self.send_rest(index);
        }
    }

    /// Sends the rest of a cleartext request whose beginning was sent together with the PROXY
    /// header.
    fn send_rest(&mut self, index: u32) {
        let entry = &self.connections[index];
        let slot = self.dispatcher.slot(entry.slot);
        // A request that the slot owns is always sent as a whole.
        if slot.own.is_some() || !self.dispatcher.is_in_flight_on(entry.slot, index) {
            return;
        }
        let Some(pending) = slot.pending() else {
            return;
        };
        let request = &self.spec.requests[pending.request as usize].bytes;
        let rest = request.get(SENT_WITH_HEADER_BYTES..).unwrap_or_default();
        if !rest.is_empty() && entry.send != SendState::Failed {
            self.send_shared(index, rest);
        }
    }

    /// Sends bytes that outlive the run.
    #[inline]
    fn send_shared(&mut self, index: u32, bytes: &'run [u8]) {
        let entry = &mut self.connections[index];
        let sending = self.sockets.send(entry.key(index), Outgoing::Shared(bytes));
        entry.send = match sending {
            Sending::InFlight => SendState::InFlight,
            Sending::Done => SendState::Idle,
        };
    }

    /// Sends a buffer. An empty buffer is not sent, but kept for later output.
    pub(super) fn send_owned(&mut self, index: u32, out: Vec<u8>) {
        let entry = &mut self.connections[index];
        if out.is_empty() {
            entry.outbox = out;
        } else {
            entry.send = SendState::InFlight;
            self.sockets.send(entry.key(index), Outgoing::Owned(out));
        }
    }

    /// Sends the output of TLS, and then the next piece of an HTTP/1 request.
    pub(super) fn send_ciphertext(&mut self, index: u32) {
        let entry = &mut self.connections[index];
        if entry.send != SendState::Idle || !entry.state.is_tls() {
            return;
        }
        let request = self
            .dispatcher
            .slot(entry.slot)
            .request(&self.spec.requests);
        let request = request.map_or(&[][..], |request| &request.bytes);
        let mut out = std::mem::take(&mut entry.outbox);
        entry.state.take_ciphertext(request, &mut out);
        self.send_owned(index, out);
    }

    /// Sends the pending output of HTTP/2 connections.
    #[inline]
    pub(super) fn send_dirty(&mut self) {
        while let Some(index) = self.connections.take_dirty() {
            self.send_frames(index);
        }
        self.sockets.flush();
    }

    /// Sends the output of an HTTP/2 connection. If a send is in flight, the output is sent after
    /// it.
    pub(super) fn send_frames(&mut self, index: u32) {
        if S::HAS_STREAMS {
            self.write_streams(index);
            return;
        }
        let entry = &self.connections[index];
        if entry.send != SendState::Idle || !entry.has_streams() {
            return;
        }
        let first = self.dispatcher.slots_of(index).start;
        let (slots, requests) = (&self.dispatcher.slots, &self.spec.requests);
        let body_of = |stream: u32| {
            let request = slots[(first + stream) as usize].request(requests);
            let frames = request.and_then(|request| request.frames.as_ref());
            frames.map_or(&[][..], |frames| frames.body())
        };
        let out = self.connections.take_frames(index, body_of);
        self.send_owned(index, out);
    }

    /// Writes the HTTP/3 output of a connection to its QUIC streams. The next flush sends it.
    fn write_streams(&mut self, index: u32) {
        let entry = &mut self.connections[index];
        let key = entry.key(index);
        let session = entry.session_mut();
        let h3 = session.and_then(|session| session.http.h3_mut());
        if let (Some(h3), Some(quic)) = (h3, self.sockets.quic(key)) {
            h3.write_output(quic);
        }
    }

    /// Frees slots that were parked because of backpressure, once the send has completed.
    fn end_backpressure(&mut self, index: u32) {
        let occupancy = self.dispatcher.occupancy_mut(index);
        if std::mem::take(&mut occupancy.write_backpressured) || occupancy.waiting > 0 {
            let now = self.sockets.cached_now();
            self.fill(index, now);
        }
    }

    /// Fills a connection's capacity, first with waiting requests, then with parked slots.
    pub(super) fn fill(&mut self, index: u32, now: Nanos) {
        self.send_waiting(index, now);
        if self.dispatcher.occupancy(index).waiting == 0 {
            self.dispatcher.unpark(index, now);
        }
    }

    /// Sends the requests that are waiting for a connection, as long as it has capacity for them.
    /// Requests that an earlier connection refused come first, because a server that limits the
    /// requests of a connection might refuse the last ones again.
    pub(super) fn send_waiting(&mut self, index: u32, now: Nanos) {
        for is_retried in [true, false] {
            for slot in self.dispatcher.slots_of(index) {
                if self.dispatcher.occupancy(index).waiting == 0
                    || !self.dispatcher.has_room(index, self.view())
                {
                    return;
                }
                if self.dispatcher.is_waiting_on(slot, index) && self.is_retried(slot) == is_retried
                {
                    self.send_request(slot, now);
                }
            }
        }
    }
}
