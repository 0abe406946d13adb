//! WebSocket on one connection (RFC 6455): a message is sent, and the next message from the server
//! is its response.

use std::sync::Arc;

use prony_protocol::websocket::{Frames, Handshake, Opcode, SocketEvent, write_frame};
use prony_record::{Nanos, Outcome};

use super::events::{EventKind, ExchangeEvent, Progress, RequestCapacity, ResponseProgress, Reuse};
use super::interface::{ByteCarrier, Carrier, StartFailure, Started};
use super::{CapturedResponse, Reason};
use crate::request::Request;
use crate::request::expect::{Expectations, ReceivedBody};
use crate::request::protocols::StreamsLimit;
use crate::request::websocket::Upgrade;

/// Maximum number of bytes of pongs that wait to be sent. A server that sends more pings without
/// reading gets no pongs for them.
const CONTROL_BYTES_MAX: usize = 16 * 1024;
/// Key of masked control frames. Their payload is the server's own.
const CONTROL_KEY: [u8; 4] = [0; 4];

/// The state of one WebSocket.
pub(crate) struct WebSocket {
    upgrade: Arc<Upgrade>,
    /// The handshake; `None` once the WebSocket is open.
    handshake: Option<Handshake>,
    /// True if the capacity rose since the last call of [`Carrier::take_new_settings`].
    has_opened: bool,
    /// Number of bytes of the handshake's request that were taken for sending.
    upgrade_taken: usize,
    frames: Frames,
    /// Pongs and close frames to send.
    control: Vec<u8>,
    has_closed: bool,
    /// Stream number of the message whose response is awaited.
    in_flight: Option<u32>,
    /// Number of bytes of the message in flight that were taken for sending.
    taken: usize,
    /// True if the message in flight is the connection's last one.
    is_last: bool,
    first_byte: Option<Nanos>,
    bytes_in: u64,
    body: ReceivedBody,
}

impl WebSocket {
    pub(super) fn new(upgrade: Arc<Upgrade>) -> WebSocket {
        WebSocket {
            upgrade,
            handshake: Some(Handshake::default()),
            has_opened: false,
            upgrade_taken: 0,
            frames: Frames::new(),
            control: Vec::new(),
            has_closed: false,
            in_flight: None,
            taken: 0,
            is_last: false,
            first_byte: None,
            bytes_in: 0,
            body: ReceivedBody::default(),
        }
    }

    /// Reads the response to the handshake. Returns `None` once the WebSocket is open.
    #[cold]
    fn open(&mut self, bytes: &mut &[u8]) -> Option<Progress> {
        let handshake = self.handshake.as_mut()?;
        match handshake.add(bytes, &self.upgrade.accept, &self.upgrade.protocols) {
            Ok(false) => Some(Progress::Open),
            Ok(true) => {
                self.handshake = None;
                self.has_opened = true;
                None
            }
            Err(error) => {
                let reason = Reason::Text(error.to_string());
                Some(Progress::Unusable(Outcome::ConnectFailed, reason))
            }
        }
    }

    /// Ends the exchange in flight, whose response is complete.
    fn complete(&mut self, expected: &Expectations, events: &mut Vec<ExchangeEvent>) {
        let Some(stream) = self.in_flight.take() else {
            return;
        };
        let reuse = if std::mem::take(&mut self.is_last) {
            Reuse::Refused
        } else {
            Reuse::Allowed
        };
        let outcome = self.body.judge_content(expected);
        let kind = EventKind::Response { outcome, reuse };
        events.push(ExchangeEvent { stream, kind });
    }

    fn write_pong(&mut self) {
        if self.control.len() < CONTROL_BYTES_MAX {
            let payload = self.frames.control();
            write_frame(Opcode::Pong, payload, CONTROL_KEY, &mut self.control);
        }
    }

    /// Handles a close frame, which the connection's last output repeats.
    fn closed(&mut self, code: Option<u16>) -> Progress {
        let payload = code.map(u16::to_be_bytes);
        let payload = payload.as_ref().map_or(&[][..], |code| code);
        write_frame(Opcode::Close, payload, CONTROL_KEY, &mut self.control);
        self.has_closed = true;
        if self.in_flight.is_none() {
            return Progress::Closed;
        }
        let code = code.map_or("without a code".to_owned(), |code| {
            format!("with code {code}")
        });
        let reason = format!("the server closed the WebSocket {code}");
        Progress::Broken(Outcome::ClosedEarly, Reason::Text(reason))
    }
}

impl Carrier for WebSocket {
    #[inline]
    fn capacity(&self, in_flight: u32) -> RequestCapacity {
        match in_flight {
            _ if self.handshake.is_some() || self.has_closed => RequestCapacity::NotNow,
            0 => RequestCapacity::Available,
            _ => RequestCapacity::Full(StreamsLimit::Http1),
        }
    }

    #[inline]
    fn received(&self, _stream: u32) -> ResponseProgress {
        ResponseProgress {
            status: None,
            first_byte: self.first_byte,
            bytes: self.bytes_in,
            body_bytes: self.body.length(),
        }
    }

    fn captured(&self, _stream: u32) -> Option<&CapturedResponse> {
        None
    }

    fn captured_mut(&mut self, _stream: u32) -> Option<&mut CapturedResponse> {
        None
    }

    fn hash_bodies(&mut self) {
        self.body.hash_always();
    }

    fn take_hash(&mut self, _stream: u32) -> [u8; 32] {
        self.body.take_hash()
    }

    fn version(&self) -> Option<&'static str> {
        self.handshake.is_none().then_some("1.1")
    }

    #[inline]
    fn is_multiplexed(&self) -> bool {
        false
    }

    #[inline]
    fn may_receive_anytime(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn active_count(&self) -> Option<u32> {
        None
    }

    fn cancel(&mut self, _stream: u32) {}

    fn is_established(&self) -> bool {
        self.handshake.is_none()
    }

    fn announce_last(&mut self) {
        self.is_last = true;
    }

    fn take_new_settings(&mut self) -> bool {
        std::mem::take(&mut self.has_opened)
    }
}

impl ByteCarrier for WebSocket {
    #[inline]
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        self.in_flight = Some(stream);
        self.taken = 0;
        self.first_byte = None;
        self.bytes_in = 0;
        self.body.start(expected);
        Ok(Started {
            bytes: request.http1().len() as u64,
            sends_now: true,
        })
    }

    #[inline]
    fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        if self.handshake.is_some()
            && let Some(progress) = self.open(&mut bytes)
        {
            return progress;
        }
        loop {
            let before = bytes.len();
            let event = self.frames.next(&mut bytes);
            if self.in_flight.is_some() {
                self.bytes_in += (before - bytes.len()) as u64;
            }
            match event {
                Ok(SocketEvent::NeedMore) => return Progress::Open,
                // Messages that no message of this side awaits are ignored.
                Ok(SocketEvent::Data(piece)) => {
                    if self.in_flight.is_some() {
                        self.first_byte.get_or_insert(now);
                        self.body.add(piece);
                    }
                }
                Ok(SocketEvent::MessageEnd { .. }) => {
                    if self.in_flight.is_some() {
                        self.first_byte.get_or_insert(now);
                    }
                    self.complete(expected, events);
                }
                Ok(SocketEvent::Ping) => self.write_pong(),
                Ok(SocketEvent::Pong) => {}
                Ok(SocketEvent::Close(code)) => return self.closed(code),
                Err(violation) => {
                    let reason = Reason::WebSocket(violation);
                    return Progress::Broken(Outcome::Protocol, reason);
                }
            }
        }
    }

    fn peer_closed(
        &mut self,
        _orderly: bool,
        _expected: &Expectations,
        _events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        if self.handshake.is_some() {
            let reason = "the connection closed before the WebSocket was open";
            let reason = Reason::Text(reason.to_owned());
            return Progress::Unusable(Outcome::ClosedEarly, reason);
        }
        match (self.in_flight, self.first_byte) {
            (None, _) => Progress::Closed,
            (Some(_), None) => Progress::Lost,
            (Some(_), Some(_)) => {
                let reason = "the connection closed within a message";
                Progress::Broken(Outcome::Truncated, Reason::Text(reason.to_owned()))
            }
        }
    }

    fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        out: &mut Vec<u8>,
    ) {
        let upgrade = self.upgrade.request.get(self.upgrade_taken..);
        let upgrade = upgrade.unwrap_or_default();
        out.extend_from_slice(upgrade);
        self.upgrade_taken += upgrade.len();
        // A control frame must not be within the frame of a message.
        if self.taken == 0 || self.in_flight.is_none() {
            out.append(&mut self.control);
        }
        let Some(request) = self.in_flight.and_then(request_of) else {
            return;
        };
        let rest = request.http1().get(self.taken..).unwrap_or_default();
        let piece = &rest[..rest.len().min(limit)];
        out.extend_from_slice(piece);
        self.taken += piece.len();
        if self.taken == request.http1().len() {
            out.append(&mut self.control);
        }
    }

    fn unsent(&self, _stream: u32, request: &Request, in_socket: u64, _is_alone: bool) -> u64 {
        let length = request.http1().len();
        let left = length.saturating_sub(self.taken) as u64;
        (left + in_socket).min(length as u64)
    }
}
