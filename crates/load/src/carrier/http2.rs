//! HTTP/2 on one connection, with at most one response in progress per stream number.
//!
//! A *stream number* is the index of a request slot on the connection, from 0. Successive HTTP/2
//! streams reuse it.

use prony_protocol::h2::{
    ClientSettings, Connection, ConnectionEvent, EncodedRequest, ErrorCode, StartError, StreamId,
};
use prony_record::{Nanos, Outcome};

use super::fault::{ResetCode, StreamFault};
use super::response::StreamResponse;
use super::stream::{EventKind, HttpEvent, Progress, RequestCapacity, ResponseProgress};
use super::{CapturedResponse, Reason};
use crate::expect::Expectations;
use crate::protocols::StreamsLimit;
use crate::script::CaptureSpec;

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
        H2 {
            http,
            streams,
            unclaimed: 0,
            has_new_settings: false,
            goaway_error: None,
        }
    }

    /// The captured part of the last response on a stream.
    pub(super) fn captured(&self, stream: u32) -> Option<&CapturedResponse> {
        self.streams[stream as usize].response.captured.as_deref()
    }

    /// Resets the state machine for another connection, and keeps its allocated memory.
    pub(super) fn reset(&mut self) {
        self.http.restart();
        self.unclaimed = 0;
        self.has_new_settings = false;
        self.goaway_error = None;
        for stream in &mut self.streams {
            stream.last_stream = None;
        }
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

    /// Starts a request on stream number `stream`.
    ///
    /// # Errors
    ///
    /// Returns the reason why the request can't start now or can never start on this connection.
    #[inline]
    pub(crate) fn start(
        &mut self,
        tag: u32,
        request: &EncodedRequest,
        expected: &Expectations,
    ) -> Result<(), StartError> {
        let stream = self.http.start(request, tag)?;
        let slot = &mut self.streams[tag as usize];
        slot.stream = Some(stream);
        slot.last_stream = Some(stream);
        slot.response.start(expected);
        Ok(())
    }

    #[inline]
    pub(super) fn room(&self, in_flight: u32) -> RequestCapacity {
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

    pub(super) fn peer_closed(&self) -> Progress {
        match self.active() {
            0 => Progress::Closed,
            _ => Progress::Lost,
        }
    }

    /// Cancels the request on a stream, if there is one.
    pub(crate) fn cancel(&mut self, tag: u32) {
        if let Some(stream) = self.streams[tag as usize].stream.take() {
            self.http.cancel(stream);
        }
    }

    /// See [`Connection::take_output`].
    #[inline]
    pub(crate) fn take_output<'b>(
        &mut self,
        out: &mut Vec<u8>,
        body_of: impl FnMut(u32) -> &'b [u8],
    ) {
        if self.http.has_output() {
            self.http.take_output(out, body_of);
        }
    }

    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<HttpEvent>,
    ) -> Progress {
        loop {
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
                    self.claim(tag, now).status = Some(status);
                    let response = &mut self.streams[tag as usize].response;
                    if let Some(captured) = &mut response.captured {
                        captured.add_head(self.http.fields());
                    }
                }
                ConnectionEvent::Body { tag, bytes } => self.claim(tag, now).add_body(bytes),
                ConnectionEvent::End { tag } => {
                    let call = self.http.ended_call();
                    let kind = self.claim(tag, now).end(expected, call);
                    self.streams[tag as usize].stream = None;
                    events.push(HttpEvent { stream: tag, kind });
                }
                ConnectionEvent::Reset {
                    tag,
                    code,
                    unprocessed,
                } => {
                    self.streams[tag as usize].stream = None;
                    events.push(HttpEvent {
                        stream: tag,
                        kind: EventKind::Reset {
                            code: ResetCode::Http2(code),
                            unprocessed,
                        },
                    });
                }
                ConnectionEvent::Broken { tag, violation } => {
                    self.streams[tag as usize].stream = None;
                    events.push(HttpEvent {
                        stream: tag,
                        kind: EventKind::Malformed(StreamFault::Http2(violation)),
                    });
                }
            }
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

    #[inline]
    pub(super) fn received(&self, tag: u32) -> ResponseProgress {
        self.streams[tag as usize].response.received()
    }

    /// Number of request body bytes on a stream that have not been taken for sending yet. If no
    /// request is in flight on the stream, the number refers to its last request.
    pub(crate) fn unsent_body_bytes(&self, tag: u32) -> u64 {
        let stream = self.streams[tag as usize].last_stream;
        stream.map_or(0, |stream| self.http.unsent_body_bytes(stream))
    }

    /// Returns true if the peer's SETTINGS have arrived, which proves that it speaks HTTP/2.
    #[inline]
    pub(crate) fn is_established(&self) -> bool {
        self.http.is_established()
    }

    /// Number of requests in flight.
    pub(crate) fn active(&self) -> u32 {
        self.http.active()
    }

    /// Returns true if the connection accepts no more requests.
    pub(crate) fn is_going_away(&self) -> bool {
        self.http.is_going_away()
    }

    /// Number of concurrent streams that the peer allows, if it set a limit.
    pub(crate) fn peer_limit(&self) -> Option<u32> {
        self.http.peer_limit()
    }

    /// The error code with which the peer ended the connection, if it sent one.
    pub(crate) fn goaway_error(&self) -> Option<ErrorCode> {
        self.goaway_error
    }

    /// Returns true if the peer's settings changed since the last call.
    pub(crate) fn take_new_settings(&mut self) -> bool {
        std::mem::take(&mut self.has_new_settings)
    }

    pub(super) fn hash_bodies(&mut self) {
        for stream in &mut self.streams {
            stream.response.body.hash_always();
        }
    }

    pub(super) fn take_hash(&mut self, tag: u32) -> [u8; 32] {
        self.streams[tag as usize].response.body.take_hash()
    }
}
