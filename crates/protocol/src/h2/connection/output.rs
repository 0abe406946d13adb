//! Output of a connection: first the waiting frames, then as much of the request bodies as the
//! windows allow. Tunnels (RFC 8441) send what the caller gives them.

use super::Connection;
use crate::h2::frame::{self, FrameType, PAYLOAD_BYTES_MAX, flag};
use crate::h2::stream::StreamState;
use crate::h2::{EncodedRequest, ErrorCode, StartError, StreamId, limits};

impl Connection {
    /// Appends all output that is due: requests, cancellations and acknowledgments since the last
    /// call, window updates, and up to 64 KiB of request bodies. The bodies take turns frame by
    /// frame.
    ///
    /// `body_of` returns the body of the request with a given tag, and must always return the same
    /// body for a request. It is called only for requests with a body.
    ///
    /// If `out` is empty, the connection's buffer is swapped into it, which avoids a copy. Passing
    /// the same buffer again reuses all memory.
    #[inline]
    pub fn take_output<'b>(&mut self, out: &mut Vec<u8>, body_of: impl FnMut(u32) -> &'b [u8]) {
        if self.has_window_updates() {
            self.write_window_updates();
        }
        self.outbox.take(out);
        if self.wants_to_send_bodies() {
            self.write_bodies(out, body_of);
        }
    }

    /// Returns true if there is output to be sent now.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.outbox.bytes() > 0 || self.has_window_updates() || self.wants_to_send_bodies()
    }

    #[inline]
    fn has_window_updates(&self) -> bool {
        let low = self.receive_window.is_low() || self.streams.has_window_updates();
        low && !self.state.has_failed()
    }

    /// Writes window updates (RFC 9113 §6.9). Only this function enlarges receive windows, so a
    /// peer that sends more than allowed is detected.
    fn write_window_updates(&mut self) {
        let out = self.outbox.own();
        if self.receive_window.is_low() {
            frame::write_window_update(out, 0, self.receive_window.refill());
        }
        while let Some((id, increment)) = self.streams.next_window_update() {
            frame::write_window_update(out, id, increment);
        }
    }

    #[inline]
    fn wants_to_send_bodies(&self) -> bool {
        self.streams.sending() > 0 && !self.bodies_blocked && !self.state.has_failed()
    }

    fn write_bodies<'b>(&mut self, out: &mut Vec<u8>, mut body_of: impl FnMut(u32) -> &'b [u8]) {
        let mut room = limits::BATCH_BODY_BYTES_MAX;
        let mut passed_over = 0;
        while self.streams.sending() > 0 {
            if room == 0 {
                return;
            }
            // All slots have been skipped, so no stream can send.
            if passed_over == self.streams.slots() {
                self.bodies_blocked = true;
                return;
            }
            let slot = self.turn;
            self.turn = (self.turn + 1) % self.streams.slots();
            match self.write_data(slot, room, out, &mut body_of) {
                0 => passed_over += 1,
                bytes => {
                    room -= bytes;
                    passed_over = 0;
                    self.idle_frames = 0;
                }
            }
        }
    }

    /// Writes a DATA frame for the stream in this slot, as large as its body, the windows and
    /// `room` allow. Returns the number of body bytes.
    fn write_data<'b>(
        &mut self,
        slot: usize,
        room: usize,
        out: &mut Vec<u8>,
        body_of: &mut impl FnMut(u32) -> &'b [u8],
    ) -> usize {
        let stream = self.streams.at(slot);
        let StreamState::Open { unsent } = stream.state else {
            return 0;
        };
        let window = stream
            .send_window
            .available()
            .min(self.send_window.available());
        let most = room.min(PAYLOAD_BYTES_MAX).min(window as usize);
        let bytes = usize::try_from(unsent).map_or(most, |unsent| unsent.min(most));
        if bytes == 0 {
            return 0;
        }
        let id = stream.id;
        let body = body_of(stream.tag);
        let from = body.len().wrapping_sub(unsent as usize);
        let Some(piece) = body.get(from..).and_then(|rest| rest.get(..bytes)) else {
            // The caller returned a different body, so the part that was already sent can't be
            // completed.
            self.streams.cancel(slot);
            self.reading.forget(id);
            frame::write_rst_stream(out, id, ErrorCode::INTERNAL_ERROR);
            return 0;
        };
        stream.send_window.take(bytes as u32);
        self.send_window.take(bytes as u32);
        let all = self.streams.sent(slot, bytes as u64);
        let flags = if all { flag::END_STREAM } else { 0 };
        frame::write_header(out, bytes, FrameType::Data, flags, id);
        out.extend_from_slice(piece);
        bytes
    }

    /// Returns true if the peer accepts extended CONNECT requests. Only its SETTINGS say so.
    #[must_use]
    pub fn allows_extended_connect(&self) -> bool {
        self.peer.extended_connect
    }

    /// Starts an extended CONNECT request. After a head with a status from 200 to 299, the stream is
    /// a tunnel: the body of the response is what the peer sends, and [`Connection::send_tunnel`]
    /// sends bytes.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::start`].
    pub fn start_tunnel(
        &mut self,
        request: &EncodedRequest,
        tag: u32,
    ) -> Result<StreamId, StartError> {
        self.check_start(request)?;
        let windows = self.initial_windows();
        let id = self.streams.open_tunnel(tag, windows);
        request.write_head(id, self.resize_due, self.outbox.own());
        self.resize_due = false;
        Ok(StreamId(id))
    }

    /// Sends as many bytes through a tunnel as the windows allow. Returns their number.
    pub fn send_tunnel(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        let Some(slot) = self.streams.find(stream.0) else {
            return 0;
        };
        let mut sent = 0;
        while sent < bytes.len() && self.outbox.bytes() < limits::UNSENT_BYTES_MAX {
            let tunnel = self.streams.at(slot);
            let window = tunnel.send_window.available();
            let most = window.min(self.send_window.available()) as usize;
            let piece = most.min(PAYLOAD_BYTES_MAX).min(bytes.len() - sent);
            if piece == 0 || tunnel.state != StreamState::Tunnel || self.state.has_failed() {
                break;
            }
            tunnel.send_window.take(piece as u32);
            self.send_window.take(piece as u32);
            let out = self.outbox.own();
            frame::write_header(out, piece, FrameType::Data, 0, stream.0);
            out.extend_from_slice(&bytes[sent..sent + piece]);
            sent += piece;
            self.idle_frames = 0;
        }
        sent
    }

    /// Ends this side of a tunnel.
    pub fn end_tunnel(&mut self, stream: StreamId) {
        let Some(slot) = self.streams.find(stream.0) else {
            return;
        };
        let tunnel = self.streams.at(slot);
        if tunnel.state == StreamState::Tunnel && !self.state.has_failed() {
            tunnel.state = StreamState::HalfClosedLocal;
            let out = self.outbox.own();
            frame::write_header(out, 0, FrameType::Data, flag::END_STREAM, stream.0);
        }
    }
}
