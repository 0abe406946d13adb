//! The HTTP state machine of a connection, for any HTTP version.

use prony_record::Nanos;

use super::CapturedResponse;
use super::fault::ResetCode;
use super::http1::H1;
use super::http2::H2;
use super::http3::H3;
use super::reason::Reason;
use super::stream::{HttpEvent, Progress, RequestCapacity, ResponseProgress};
use crate::expect::Expectations;
use crate::protocols::{Protocols, StreamsLimit};
use crate::quic::QuicConnection;
use crate::script::CaptureSpec;

/// Maximum number of state machines of closed connections that are kept for reuse, per HTTP
/// version.
const SPARE_MACHINES_MAX: usize = 64;

/// The HTTP state machine of a connection. All HTTP versions report the same [`HttpEvent`]s.
pub(crate) enum HttpMachine {
    /// HTTP/1.0 or 1.1. It has one stream at a time.
    One(H1),
    /// HTTP/2.
    Two(Box<H2>),
    /// HTTP/3. It reads and writes QUIC streams instead of the connection's bytes.
    Three(Box<H3>),
}

impl HttpMachine {
    /// Processes cleartext bytes from the peer and appends the resulting events.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<HttpEvent>,
    ) -> Progress {
        match self {
            HttpMachine::One(h1) => h1.receive(bytes, now, expected, events),
            HttpMachine::Two(h2) => h2.receive(bytes, now, expected, events),
            HttpMachine::Three(_) => Progress::Open,
        }
    }

    /// Handles a close by the peer. `orderly` is false if TLS was cut without `close_notify`.
    pub(crate) fn peer_closed(
        &mut self,
        orderly: bool,
        expected: &Expectations,
        events: &mut Vec<HttpEvent>,
    ) -> Progress {
        match self {
            HttpMachine::One(h1) => h1.peer_closed(orderly, expected, events),
            HttpMachine::Two(h2) => h2.peer_closed(),
            HttpMachine::Three(_) => Progress::Closed,
        }
    }

    /// Capacity for another request on a connection that has `in_flight` requests.
    #[inline]
    pub(crate) fn room(&self, in_flight: u32) -> RequestCapacity {
        match self {
            HttpMachine::One(_) if in_flight == 0 => RequestCapacity::Available,
            HttpMachine::One(_) => RequestCapacity::Full(StreamsLimit::Http1),
            HttpMachine::Two(h2) => h2.room(in_flight),
            HttpMachine::Three(h3) => h3.room(in_flight),
        }
    }

    /// Progress of the response on a stream, or of the stream's last response.
    #[inline]
    pub(crate) fn received(&self, stream: u32) -> ResponseProgress {
        match self {
            HttpMachine::One(h1) => h1.received(),
            HttpMachine::Two(h2) => h2.received(stream),
            HttpMachine::Three(h3) => h3.received(stream),
        }
    }

    /// The captured part of the last response on a stream, if responses are captured.
    pub(crate) fn captured(&self, stream: u32) -> Option<&CapturedResponse> {
        match self {
            HttpMachine::One(h1) => h1.captured(),
            HttpMachine::Two(h2) => h2.captured(stream),
            HttpMachine::Three(h3) => h3.captured(stream),
        }
    }

    /// Body length of the last response on a stream.
    pub(crate) fn body_length(&self, stream: u32) -> u64 {
        match self {
            HttpMachine::One(h1) => h1.body_length(),
            HttpMachine::Two(h2) => h2.received(stream).body_bytes,
            HttpMachine::Three(h3) => h3.received(stream).body_bytes,
        }
    }

    /// SHA-256 of the last body on a stream. The state machine must come from a factory that hashes
    /// bodies.
    pub(crate) fn take_hash(&mut self, stream: u32) -> [u8; 32] {
        match self {
            HttpMachine::One(h1) => h1.take_hash(),
            HttpMachine::Two(h2) => h2.take_hash(stream),
            HttpMachine::Three(h3) => h3.take_hash(stream),
        }
    }

    /// The HTTP version that both sides use, once it is known.
    pub(crate) fn version(&self) -> Option<&'static str> {
        match self {
            HttpMachine::One(h1) => h1.version(),
            HttpMachine::Two(_) => Some("2"),
            HttpMachine::Three(_) => Some("3"),
        }
    }

    /// Returns true if the connection uses HTTP/1 and any byte of the response in flight has
    /// arrived.
    pub(crate) fn has_response_begun(&self) -> bool {
        match self {
            HttpMachine::One(h1) => h1.has_response_begun(),
            HttpMachine::Two(_) | HttpMachine::Three(_) => false,
        }
    }

    /// Returns true if the connection can carry several requests at the same time, each on its own
    /// stream.
    #[inline]
    pub(crate) fn has_streams(&self) -> bool {
        !matches!(self, HttpMachine::One(_))
    }

    /// Number of requests in flight; `None` for HTTP/1, which has no streams.
    #[cfg(test)]
    pub(crate) fn active(&self) -> Option<u32> {
        match self {
            HttpMachine::One(_) => None,
            HttpMachine::Two(h2) => Some(h2.active()),
            HttpMachine::Three(h3) => Some(h3.active()),
        }
    }

    /// The HTTP/2 state machine, if this is HTTP/2.
    #[cfg(test)]
    pub(crate) fn h2(&self) -> Option<&H2> {
        match self {
            HttpMachine::Two(h2) => Some(h2),
            _ => None,
        }
    }

    /// Mutable reference to the HTTP/2 state machine, if this is HTTP/2.
    #[inline]
    pub(crate) fn h2_mut(&mut self) -> Option<&mut H2> {
        match self {
            HttpMachine::Two(h2) => Some(h2),
            _ => None,
        }
    }

    /// Mutable reference to the HTTP/3 state machine, if this is HTTP/3.
    #[inline]
    pub(crate) fn h3_mut(&mut self) -> Option<&mut H3> {
        match self {
            HttpMachine::Three(h3) => Some(h3),
            _ => None,
        }
    }

    /// Returns true if the peer has proved that it speaks this version. Always true for HTTP/1,
    /// where nothing proves the version before the first response.
    pub(crate) fn is_established(&self) -> bool {
        match self {
            HttpMachine::One(_) => true,
            HttpMachine::Two(h2) => h2.is_established(),
            HttpMachine::Three(h3) => h3.is_established(),
        }
    }

    /// Returns true if requests are being sent as early data while the handshake is in progress.
    pub(crate) fn is_early(&self) -> bool {
        match self {
            HttpMachine::Three(h3) => h3.is_early(),
            HttpMachine::One(_) | HttpMachine::Two(_) => false,
        }
    }

    /// Returns true if the peer has announced that it accepts no more requests on the connection.
    #[inline]
    pub(crate) fn is_going_away(&self) -> bool {
        match self {
            HttpMachine::One(_) => false,
            HttpMachine::Two(h2) => h2.is_going_away(),
            HttpMachine::Three(h3) => h3.is_going_away(),
        }
    }

    /// The error that the peer reported when it ended the connection, if any.
    pub(crate) fn end_reason(&self) -> Option<Reason> {
        match self {
            HttpMachine::One(_) => None,
            HttpMachine::Two(h2) => {
                let code = h2.goaway_error();
                code.map(|code| Reason::GoneAway(ResetCode::Http2(code)))
            }
            HttpMachine::Three(h3) => h3.end().cloned(),
        }
    }

    /// Returns true if the limits on requests may have risen since the last call.
    #[inline]
    pub(crate) fn take_new_settings(&mut self) -> bool {
        match self {
            HttpMachine::One(_) => false,
            HttpMachine::Two(h2) => h2.take_new_settings(),
            HttpMachine::Three(h3) => h3.take_new_settings(),
        }
    }

    /// Cancels the request on a stream, if there is one. Without streams, the connection must be
    /// closed instead.
    pub(crate) fn cancel(&mut self, stream: u32) {
        match self {
            HttpMachine::One(_) => {}
            HttpMachine::Two(h2) => h2.cancel(stream),
            HttpMachine::Three(h3) => h3.cancel(stream),
        }
    }
}

/// Creates the HTTP state machines of new connections, and reuses the memory of closed ones.
#[derive(Default)]
pub(crate) struct HttpFactory {
    protocols: Protocols,
    capture: CaptureSpec,
    hashes_bodies: bool,
    spare_h1: Vec<H1>,
    #[expect(clippy::vec_box, reason = "the boxes themselves are reused")]
    spare_h2: Vec<Box<H2>>,
    #[expect(clippy::vec_box, reason = "the boxes themselves are reused")]
    spare_h3: Vec<Box<H3>>,
}

impl HttpFactory {
    /// Creates a factory for connections that may use these protocols.
    pub(crate) fn new(protocols: Protocols) -> HttpFactory {
        HttpFactory {
            protocols,
            ..HttpFactory::default()
        }
    }

    /// Makes the state machines capture parts of each response.
    pub(crate) fn with_capture(mut self, capture: CaptureSpec) -> HttpFactory {
        self.capture = capture;
        self
    }

    /// Makes the state machines hash each body, for [`HttpMachine::take_hash`].
    pub(crate) fn with_body_hashes(mut self) -> HttpFactory {
        self.hashes_bodies = true;
        self
    }

    /// The HTTP versions that a connection may use.
    pub(crate) fn protocols(&self) -> Protocols {
        self.protocols
    }

    /// Creates a state machine for a cleartext connection.
    pub(super) fn cleartext(&mut self) -> HttpMachine {
        if self.protocols.is_http2_only() {
            self.h2()
        } else {
            self.h1()
        }
    }

    /// Creates an HTTP/1 state machine.
    pub(super) fn h1(&mut self) -> HttpMachine {
        let mut h1 = self.spare_h1.pop().unwrap_or_else(|| H1::new(self.capture));
        if self.hashes_bodies {
            h1.hash_bodies();
        }
        HttpMachine::One(h1)
    }

    /// Creates an HTTP/2 state machine.
    pub(super) fn h2(&mut self) -> HttpMachine {
        let spare = self.spare_h2.pop();
        let mut h2 =
            spare.unwrap_or_else(|| Box::new(H2::new(self.protocols.streams, self.capture)));
        if self.hashes_bodies {
            h2.hash_bodies();
        }
        HttpMachine::Two(h2)
    }

    /// Creates an HTTP/3 state machine, which opens its streams on an established connection.
    pub(super) fn h3(&mut self, quic: &mut QuicConnection) -> HttpMachine {
        let spare = self.spare_h3.pop();
        let mut h3 =
            spare.unwrap_or_else(|| Box::new(H3::new(self.protocols.streams, self.capture)));
        if self.hashes_bodies {
            h3.hash_bodies();
        }
        h3.open(quic);
        HttpMachine::Three(h3)
    }

    /// Keeps the state machine of a closed connection for reuse.
    pub(super) fn recycle(&mut self, http: HttpMachine) {
        match http {
            HttpMachine::One(mut h1) if self.spare_h1.len() < SPARE_MACHINES_MAX => {
                h1.reset();
                self.spare_h1.push(h1);
            }
            HttpMachine::Two(mut h2) if self.spare_h2.len() < SPARE_MACHINES_MAX => {
                h2.reset();
                self.spare_h2.push(h2);
            }
            HttpMachine::Three(mut h3) if self.spare_h3.len() < SPARE_MACHINES_MAX => {
                h3.reset();
                self.spare_h3.push(h3);
            }
            _ => {}
        }
    }
}
