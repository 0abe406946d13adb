//! A carrier of any protocol: the only place that lists them all.

use prony_protocol::CallMessageId;
use prony_record::Nanos;

use super::events::{ExchangeEvent, Progress, RequestCapacity, ResponseProgress};
use super::http1::H1;
use super::http2::H2;
use super::http3::H3;
use super::interface::{ByteCarrier, Carrier, StartFailure, Started, StreamCarrier};
use super::websocket::{Http2Sockets, WebSocket};
use super::{CapturedResponse, Reason};
use crate::exchange::EarlierResponse;
use crate::request::Request;
use crate::request::expect::Expectations;

/// A carrier of any protocol.
pub(crate) enum AnyCarrier {
    /// HTTP/1.0 or 1.1.
    Http1(H1),
    /// HTTP/2.
    Http2(Box<H2>),
    /// HTTP/3.
    Http3(Box<H3>),
    /// WebSocket, opened with HTTP/1.1.
    WebSocket(Box<WebSocket>),
    /// WebSockets on the streams of HTTP/2.
    Http2Sockets(Box<Http2Sockets>),
}

/// Calls a method of the carrier, whichever it is.
macro_rules! each {
    ($any:expr, $carrier:ident => $call:expr) => {
        match $any {
            AnyCarrier::Http1($carrier) => $call,
            AnyCarrier::Http2($carrier) => $call,
            AnyCarrier::Http3($carrier) => $call,
            AnyCarrier::WebSocket($carrier) => $call,
            AnyCarrier::Http2Sockets($carrier) => $call,
        }
    };
}

/// Calls a method of a carrier of bytes. Evaluates to the alternative for a carrier of streams,
/// which a transport of bytes never has.
macro_rules! each_of_bytes {
    ($any:expr, $carrier:ident => $call:expr, $other:expr) => {
        match $any {
            AnyCarrier::Http1($carrier) => $call,
            AnyCarrier::Http2($carrier) => $call,
            AnyCarrier::WebSocket($carrier) => $call,
            AnyCarrier::Http2Sockets($carrier) => $call,
            AnyCarrier::Http3(_) => $other,
        }
    };
}

impl AnyCarrier {
    /// The carrier as one of streams; `None` for a carrier of bytes.
    #[inline]
    pub(super) fn streams(&mut self) -> Option<&mut H3> {
        match self {
            AnyCarrier::Http3(h3) => Some(h3),
            _ => None,
        }
    }

    /// Number of bytes of a stream's request that a carrier of streams has not written.
    pub(super) fn unwritten(&self, stream: u32) -> u64 {
        match self {
            AnyCarrier::Http3(h3) => StreamCarrier::unsent(&**h3, stream),
            _ => 0,
        }
    }

    /// The HTTP/1 carrier, if this is one.
    #[inline]
    pub(super) fn http1(&mut self) -> Option<&mut H1> {
        match self {
            AnyCarrier::Http1(h1) => Some(h1),
            _ => None,
        }
    }

    /// The HTTP/2 carrier, if this is one.
    #[cfg(test)]
    pub(crate) fn http2(&self) -> Option<&H2> {
        match self {
            AnyCarrier::Http2(h2) => Some(h2),
            _ => None,
        }
    }
}

impl Carrier for AnyCarrier {
    #[inline]
    fn capacity(&self, in_flight: u32) -> RequestCapacity {
        each!(self, carrier => carrier.capacity(in_flight))
    }

    #[inline]
    fn received(&self, stream: u32) -> ResponseProgress {
        each!(self, carrier => carrier.received(stream))
    }

    fn captured(&self, stream: u32) -> Option<&CapturedResponse> {
        each!(self, carrier => carrier.captured(stream))
    }

    fn captured_mut(&mut self, stream: u32) -> Option<&mut CapturedResponse> {
        each!(self, carrier => carrier.captured_mut(stream))
    }

    fn body_length(&self, stream: u32) -> u64 {
        each!(self, carrier => carrier.body_length(stream))
    }

    fn hash_bodies(&mut self) {
        each!(self, carrier => carrier.hash_bodies());
    }

    fn take_hash(&mut self, stream: u32) -> [u8; 32] {
        each!(self, carrier => carrier.take_hash(stream))
    }

    fn take_messages(&mut self, stream: u32) -> Vec<EarlierResponse> {
        each!(self, carrier => carrier.take_messages(stream))
    }

    fn receives_deliveries(&self, stream: u32) -> bool {
        each!(self, carrier => carrier.receives_deliveries(stream))
    }

    fn take_delivery(&mut self, stream: u32) -> Option<Vec<u8>> {
        each!(self, carrier => carrier.take_delivery(stream))
    }

    fn end_fan_out(&mut self, stream: u32) {
        each!(self, carrier => carrier.end_fan_out(stream));
    }

    fn version(&self) -> Option<&'static str> {
        each!(self, carrier => carrier.version())
    }

    #[inline]
    fn is_multiplexed(&self) -> bool {
        each!(self, carrier => carrier.is_multiplexed())
    }

    #[inline]
    fn may_receive_anytime(&self) -> bool {
        matches!(self, AnyCarrier::WebSocket(_) | AnyCarrier::Http2Sockets(_))
    }

    #[cfg(test)]
    fn active_count(&self) -> Option<u32> {
        each!(self, carrier => carrier.active_count())
    }

    fn cancel(&mut self, stream: u32) {
        each!(self, carrier => carrier.cancel(stream));
    }

    fn is_established(&self) -> bool {
        each!(self, carrier => carrier.is_established())
    }

    fn is_early(&self) -> bool {
        each!(self, carrier => carrier.is_early())
    }

    #[inline]
    fn was_too_early(&self, stream: u32) -> bool {
        each!(self, carrier => carrier.was_too_early(stream))
    }

    #[inline]
    fn is_going_away(&self) -> bool {
        each!(self, carrier => carrier.is_going_away())
    }

    fn announce_last(&mut self) {
        each!(self, carrier => carrier.announce_last());
    }

    fn announce_end(&mut self) -> bool {
        each!(self, carrier => carrier.announce_end())
    }

    fn awaits_close(&self) -> bool {
        each!(self, carrier => carrier.awaits_close())
    }

    fn call_message(&self, id: CallMessageId) -> &[u8] {
        each!(self, carrier => carrier.call_message(id))
    }

    fn end_reason(&self) -> Option<Reason> {
        each!(self, carrier => carrier.end_reason())
    }

    #[inline]
    fn take_new_settings(&mut self) -> bool {
        each!(self, carrier => carrier.take_new_settings())
    }
}

impl ByteCarrier for AnyCarrier {
    #[inline]
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        each_of_bytes!(self, carrier => carrier.start(stream, request, expected), Err(StartFailure::NotNow))
    }

    #[inline]
    fn receive(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        each_of_bytes!(self, carrier => carrier.receive(bytes, now, expected, events), Progress::Open)
    }

    fn peer_closed(
        &mut self,
        orderly: bool,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        each_of_bytes!(self, carrier => carrier.peer_closed(orderly, expected, events), Progress::Closed)
    }

    #[inline]
    fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        out: &mut Vec<u8>,
    ) {
        each_of_bytes!(self, carrier => carrier.take_output(limit, request_of, out), ());
    }

    fn unsent(&self, stream: u32, request: &Request, in_socket: u64, is_alone: bool) -> u64 {
        each_of_bytes!(self, carrier => carrier.unsent(stream, request, in_socket, is_alone), 0)
    }
}
