//! HTTP/2 on one connection, with at most one response in progress per stream number.
//!
//! A *stream number* is the index of a request slot on the connection, from 0. Successive HTTP/2
//! streams reuse it.

use prony_protocol::CallMessageId;
use prony_protocol::h2::{
    ClientSettings, CommonFrame, Connection, ConnectionEvent, ErrorCode, StartError, StreamId,
    data_wire_bytes,
};
use prony_record::{Nanos, Outcome};

use super::events::{EventKind, ExchangeEvent, Progress, RequestCapacity, ResponseProgress, Reuse};
use super::fault::{ResetCode, StreamFault};
use super::interface::{ByteCarrier, Carrier, StartFailure, Started};
use super::response::StreamResponse;
use super::{CapturedResponse, Reason};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::request::protocols::StreamsLimit;
use crate::request::script::CaptureSpec;

/// The client side of one HTTP/2 connection.
pub(crate) struct H2 {
    http: Connection,
    /// State of each stream, indexed by stream number.
    streams: Vec<H2Stream>,
    /// Number of received bytes that are not yet attributed to a response.
    unclaimed: u64,
    /// True if the peer's settings changed since the last check.
    has_new_settings: bool,
    /// The error code of the peer's GOAWAY, unless it was NO_ERROR.
    goaway_error: Option<ErrorCode>,
}

/// State of a stream number and of the HTTP/2 stream that uses it.
struct H2Stream {
    stream: Option<StreamId>,
    /// The HTTP/2 stream that last used this stream number. It may have ended.
    last_stream: Option<StreamId>,
    response: StreamResponse,
}

impl H2 {
    /// Creates the state of a connection with up to `streams` requests in flight.
    pub(super) fn new(streams: u32, capture: CaptureSpec) -> H2 {
        let settings = ClientSettings {
            streams,
            ..ClientSettings::default()
        };
        let streams = (0..streams).map(|_| H2Stream {
            stream: None,
            last_stream: None,
            response: StreamResponse::new(capture),
        });
        let streams = streams.collect();
        let mut http = Connection::new(settings);
        if capture.heads {
            http.keep_fields();
        }
        H2::with_memory(http, streams)
    }

    /// Creates the state of a connection from the memory of an earlier one.
    fn with_memory(http: Connection, streams: Vec<H2Stream>) -> H2 {
        H2 {
            http,
            streams,
            unclaimed: 0,
            has_new_settings: false,
            goaway_error: None,
        }
    }

    /// Returns the state of another connection, with the memory of this one.
    pub(super) fn renewed(mut self) -> H2 {
        self.http.restart();
        let streams = self.streams.into_iter().map(|old| H2Stream {
            stream: None,
            last_stream: None,
            response: old.response.renewed(),
        });
        H2::with_memory(self.http, streams.collect())
    }

    /// Returns `Ok` if another request can start now. Until the peer's settings arrive, only one
    /// request can be in flight, because the peer may refuse a second one.
    ///
    /// # Errors
    ///
    /// Returns the reason why no request can start.
    #[inline]
    pub(crate) fn can_start(&self) -> Result<(), StartError> {
        self.http.can_start()?;
        if self.http.is_established() || self.http.active() == 0 {
            Ok(())
        } else {
            Err(StartError::OwnLimit)
        }
    }

    /// Attributes all bytes received since the last call to this response, including frames that
    /// concern the whole connection.
    #[inline]
    fn claim(&mut self, tag: u32, now: Nanos) -> &mut StreamResponse {
        let response = &mut self.streams[tag as usize].response;
        response.bytes_in += std::mem::take(&mut self.unclaimed);
        response.first_byte.get_or_insert(now);
        response
    }

    /// Processes the common frames at the front of the input.
    #[inline]
    fn receive_common(
        &mut self,
        input: &mut &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) {
        let mut before = input.len();
        while let Some(frame) = self.http.next_common(input) {
            self.unclaimed += (before - input.len()) as u64;
            before = input.len();
            match frame {
                CommonFrame::Head { tag, status } => self.claim(tag, now).add_head(status),
                CommonFrame::Part { tag, bytes } => {
                    let response = self.claim(tag, now);
                    response.add_body(bytes, tag, events);
                    if response.is_stream() {
                        response.end_frame(tag, events);
                    }
                }
                CommonFrame::Trailers { tag, call } => {
                    let response = self.claim(tag, now);
                    response.add_trailers();
                    response.finish_body(tag, events);
                    let kind = response.end(call, expected, Reuse::Allowed);
                    self.streams[tag as usize].stream = None;
                    events.push(ExchangeEvent { stream: tag, kind });
                }
                CommonFrame::Rest { tag, bytes, call } => {
                    let response = self.claim(tag, now);
                    if !bytes.is_empty() {
                        response.add_body(bytes, tag, events);
                    }
                    response.finish_body(tag, events);
                    let kind = response.end(call, expected, Reuse::Allowed);
                    self.streams[tag as usize].stream = None;
                    events.push(ExchangeEvent { stream: tag, kind });
                }
            }
        }
    }

    /// Number of concurrent streams that the peer allows, if it set a limit.
    pub(crate) fn peer_limit(&self) -> Option<u32> {
        self.http.peer_limit()
    }
}

impl Carrier for H2 {
    #[inline]
    fn capacity(&self, in_flight: u32) -> RequestCapacity {
        match self.can_start() {
            Ok(()) => RequestCapacity::Available,
            // If no request is in flight, one request is accepted although the peer allows no
            // streams. It waits and may time out. Without it, a load might wait forever.
            Err(StartError::PeerLimit) if in_flight == 0 => {
                RequestCapacity::NoStreamsAllowed(StreamsLimit::Settings(0))
            }
            Err(StartError::PeerLimit) => {
                let limit = self.peer_limit().unwrap_or(u32::MAX);
                RequestCapacity::Full(StreamsLimit::Settings(limit))
            }
            Err(StartError::Unsent) => RequestCapacity::Backpressured,
            Err(_) => RequestCapacity::NotNow,
        }
    }

    #[inline]
    fn received(&self, stream: u32) -> ResponseProgress {
        self.streams[stream as usize].response.received()
    }

    fn captured(&self, stream: u32) -> Option<&CapturedResponse> {
        self.streams[stream as usize].response.captured.as_deref()
    }

    fn captured_mut(&mut self, stream: u32) -> Option<&mut CapturedResponse> {
        let response = &mut self.streams[stream as usize].response;
        response.captured.as_deref_mut()
    }

    fn hash_bodies(&mut self) {
        for stream in &mut self.streams {
            stream.response.body.hash_always();
        }
    }

    fn take_hash(&mut self, stream: u32) -> [u8; 32] {
        self.streams[stream as usize].response.body.take_hash()
    }

    fn version(&self) -> Option<&'static str> {
        Some("2")
    }

    #[cfg(test)]
    fn active_count(&self) -> Option<u32> {
        Some(self.http.active())
    }

    fn cancel(&mut self, stream: u32) {
        if let Some(stream) = self.streams[stream as usize].stream.take() {
            self.http.cancel(stream);
        }
    }

    /// Returns true if the peer's SETTINGS have arrived, which proves that it speaks HTTP/2.
    #[inline]
    fn is_established(&self) -> bool {
        self.http.is_established()
    }

    fn is_going_away(&self) -> bool {
        self.http.is_going_away()
    }

    fn announce_end(&mut self) -> bool {
        self.http.go_away();
        true
    }

    fn call_message(&self, id: CallMessageId) -> &[u8] {
        self.http.call_message(id)
    }

    fn end_reason(&self) -> Option<Reason> {
        let code = self.goaway_error;
        code.map(|code| Reason::GoneAway(ResetCode::Http2(code)))
    }

    fn take_new_settings(&mut self) -> bool {
        std::mem::take(&mut self.has_new_settings)
    }
}

impl ByteCarrier for H2 {
    #[inline]
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        let Some(encoded) = request.encodings.http2() else {
            return Err(StartFailure::Never(Reason::only_http1()));
        };
        let id = self
            .http
            .start(encoded, stream)
            .map_err(|error| match error {
                StartError::FieldsTooLong { .. } => StartFailure::Never(Reason::NotStarted(error)),
                _ => StartFailure::NotNow,
            })?;
        let slot = &mut self.streams[stream as usize];
        slot.stream = Some(id);
        slot.last_stream = Some(id);
        slot.response.start(request.kind, expected);
        Ok(Started {
            bytes: encoded.wire_bytes(),
            sends_now: false,
        })
    }

    fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        loop {
            self.receive_common(&mut bytes, now, expected, events);
            let before = bytes.len();
            let event = self.http.next(&mut bytes);
            self.unclaimed += (before - bytes.len()) as u64;
            let event = match event {
                Ok(event) => event,
                Err(violation) => {
                    return Progress::Broken(Outcome::Protocol, Reason::Http2(violation));
                }
            };
            match event {
                ConnectionEvent::NeedMore => return Progress::Open,
                ConnectionEvent::Settings => self.has_new_settings = true,
                ConnectionEvent::GoAway { code, .. } => {
                    self.goaway_error = Some(code).filter(|code| *code != ErrorCode::NO_ERROR);
                }
                ConnectionEvent::Interim { tag, .. } => {
                    self.claim(tag, now);
                }
                ConnectionEvent::Head { tag, status } => {
                    let response = &mut self.streams[tag as usize].response;
                    if let Some(captured) = &mut response.captured {
                        captured.add_head(self.http.fields());
                    }
                    self.claim(tag, now).add_head(status);
                }
                ConnectionEvent::Body { tag, bytes } => {
                    let is_frame_end = self.http.is_at_frame_end();
                    let response = self.claim(tag, now);
                    response.add_body(bytes, tag, events);
                    if response.is_stream() && is_frame_end {
                        response.end_frame(tag, events);
                    }
                }
                ConnectionEvent::Trailers { tag } => self.claim(tag, now).add_trailers(),
                ConnectionEvent::End { tag, call } => {
                    let response = self.claim(tag, now);
                    response.finish_body(tag, events);
                    let kind = response.end(call, expected, Reuse::Allowed);
                    self.streams[tag as usize].stream = None;
                    events.push(ExchangeEvent { stream: tag, kind });
                }
                ConnectionEvent::Reset {
                    tag,
                    code,
                    unprocessed,
                } => {
                    self.streams[tag as usize].stream = None;
                    events.push(ExchangeEvent {
                        stream: tag,
                        kind: EventKind::Reset {
                            code: ResetCode::Http2(code),
                            unprocessed,
                        },
                    });
                }
                ConnectionEvent::Broken { tag, violation } => {
                    self.streams[tag as usize].stream = None;
                    events.push(ExchangeEvent {
                        stream: tag,
                        kind: EventKind::Malformed(StreamFault::Http2(violation)),
                    });
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
        match self.http.active() {
            0 => Progress::Closed,
            _ => Progress::Lost,
        }
    }

    #[inline]
    fn take_output<'r>(
        &mut self,
        _limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        out: &mut Vec<u8>,
    ) {
        if self.http.has_output() {
            self.http.take_output(out, |stream| {
                let encoded = request_of(stream).and_then(|request| request.encodings.http2());
                encoded.map_or(&[][..], |encoded| encoded.body())
            });
        }
    }

    /// Attributes the bytes in the socket to the exchange only if it is alone, because the bytes of
    /// several streams can't be distinguished.
    fn unsent(&self, stream: u32, request: &Request, in_socket: u64, is_alone: bool) -> u64 {
        let encoded = request.encodings.http2();
        let Some(encoded) = encoded.filter(|encoded| !encoded.body().is_empty()) else {
            return 0;
        };
        let last = self.streams[stream as usize].last_stream;
        let body = last.map_or(0, |stream| self.http.unsent_body_bytes(stream));
        let in_socket = if body > 0 && is_alone { in_socket } else { 0 };
        (data_wire_bytes(body) + in_socket).min(encoded.wire_bytes())
    }
}
