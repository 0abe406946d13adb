//! A WebSocket on a connection of its own, which HTTP/1.1 opens (RFC 6455 §4).

use std::sync::Arc;

use prony_protocol::websocket::{Agreed, Handshake};
use prony_record::Nanos;

use super::socket::Socket;
use crate::carrier::events::{ExchangeEvent, Progress, RequestCapacity, ResponseProgress};
use crate::carrier::fault::SocketFault;
use crate::carrier::interface::{ByteCarrier, Carrier, StartFailure, Started};
use crate::carrier::{CapturedResponse, Reason};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::request::protocols::StreamsLimit;
use crate::request::websocket::Upgrade;

/// A connection that becomes a WebSocket.
pub(crate) struct WebSocket {
    upgrade: Arc<Upgrade>,
    /// The opening handshake; `None` once the WebSocket is open.
    opening: Option<Opening>,
    /// True if the capacity rose since the last call of [`Carrier::take_new_settings`].
    has_opened: bool,
    hashes_bodies: bool,
    socket: Socket,
}

struct Opening {
    /// The rest of the request.
    request: Vec<u8>,
    /// The expected value of `Sec-WebSocket-Accept`.
    accept: String,
    handshake: Handshake,
}

impl WebSocket {
    pub(in crate::carrier) fn new(upgrade: Arc<Upgrade>) -> WebSocket {
        let (request, accept) = upgrade.with_key();
        WebSocket {
            opening: Some(Opening {
                request,
                accept,
                handshake: Handshake::default(),
            }),
            has_opened: false,
            hashes_bodies: false,
            socket: Socket::new(Agreed::default(), upgrade.is_fan_out),
            upgrade,
        }
    }

    /// Reads the response to the handshake. Returns `None` once the WebSocket is open.
    #[cold]
    fn open(&mut self, bytes: &mut &[u8]) -> Option<Progress> {
        let opening = self.opening.as_mut()?;
        let offer = &self.upgrade.offer;
        match opening.handshake.add(bytes, &opening.accept, offer) {
            Ok(None) => Some(Progress::Open),
            Ok(Some(agreed)) => {
                self.opening = None;
                self.has_opened = true;
                if agreed.deflate.is_some() {
                    self.socket = Socket::new(agreed, self.upgrade.is_fan_out);
                    if self.hashes_bodies {
                        self.socket.hash_bodies();
                    }
                }
                None
            }
            Err(error) => {
                let fault = SocketFault::NotOpened(error);
                Some(Progress::Unusable(fault.outcome(), fault.into()))
            }
        }
    }
}

impl Carrier for WebSocket {
    #[inline]
    fn capacity(&self, in_flight: u32) -> RequestCapacity {
        match in_flight {
            0 if self.opening.is_none() && self.socket.is_ready() => RequestCapacity::Available,
            0 => RequestCapacity::NotNow,
            _ => RequestCapacity::Full(StreamsLimit::Http1),
        }
    }

    #[inline]
    fn received(&self, _stream: u32) -> ResponseProgress {
        self.socket.received()
    }

    fn captured(&self, _stream: u32) -> Option<&CapturedResponse> {
        None
    }

    fn captured_mut(&mut self, _stream: u32) -> Option<&mut CapturedResponse> {
        None
    }

    fn hash_bodies(&mut self) {
        self.hashes_bodies = true;
        self.socket.hash_bodies();
    }

    fn take_hash(&mut self, _stream: u32) -> [u8; 32] {
        self.socket.take_hash()
    }

    fn receives_deliveries(&self, _stream: u32) -> bool {
        self.opening.is_none() && self.socket.is_open()
    }

    fn take_delivery(&mut self, _stream: u32) -> Option<Vec<u8>> {
        self.socket.take_delivery()
    }

    fn end_fan_out(&mut self, _stream: u32) {
        self.socket.abandon();
    }

    fn version(&self) -> Option<&'static str> {
        self.opening.is_none().then_some("1.1")
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
        self.opening.is_none()
    }

    fn announce_last(&mut self) {
        self.socket.announce_last();
    }

    fn announce_end(&mut self) -> bool {
        self.opening.is_none() && self.socket.close_normally()
    }

    fn awaits_close(&self) -> bool {
        self.socket.is_closing()
    }

    fn take_new_settings(&mut self) -> bool {
        std::mem::take(&mut self.has_opened)
    }
}

impl ByteCarrier for WebSocket {
    #[inline]
    fn start(
        &mut self,
        _stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        let Some((opcode, payload)) = request.encodings.message() else {
            return Err(StartFailure::NotNow);
        };
        Ok(Started {
            bytes: self.socket.start(opcode, payload, expected),
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
        if self.opening.is_some()
            && let Some(progress) = self.open(&mut bytes)
        {
            return progress;
        }
        let received = self.socket.receive(&mut bytes, 0, (now, expected), events);
        match received {
            Ok(()) => Progress::Open,
            Err(SocketFault::Closed(_)) if !self.socket.is_awaiting() => Progress::Closed,
            Err(fault) => Progress::Broken(fault.outcome(), fault.into()),
        }
    }

    fn peer_closed(
        &mut self,
        _orderly: bool,
        _expected: &Expectations,
        _events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        if self.opening.is_some() {
            let fault = SocketFault::ClosedWhileOpening;
            return Progress::Unusable(fault.outcome(), fault.into());
        }
        match (self.socket.is_awaiting(), self.socket.cut_off()) {
            (false, _) => Progress::Closed,
            (true, None) => Progress::Lost,
            (true, Some(fault)) => Progress::Broken(fault.outcome(), fault.into()),
        }
    }

    fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        out: &mut Vec<u8>,
    ) {
        if let Some(opening) = &mut self.opening {
            out.append(&mut opening.request);
            return;
        }
        let payload = request_of(0).map(Request::http1);
        self.socket.take_output(limit, payload, out);
    }

    fn unsent(&self, _stream: u32, _request: &Request, in_socket: u64, _is_alone: bool) -> u64 {
        self.socket.unsent(in_socket)
    }
}

impl From<SocketFault> for Reason {
    fn from(fault: SocketFault) -> Reason {
        Reason::WebSocket(fault)
    }
}
