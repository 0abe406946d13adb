//! HTTP/3 on one QUIC connection, with at most one response in progress per request slot.
//!
//! A *stream number* is the index of such a slot, from 0. It isn't the QUIC stream's ID: successive
//! streams reuse a slot.

use bytes::Bytes;
use prony_protocol::CallMessageId;
use prony_protocol::h3::{
    ClientSettings, Connection, ConnectionEvent, ErrorCode, StartError, Violation,
};
use prony_record::{Nanos, Negotiated, Outcome, TlsHandshake};

use super::events::{
    EventKind, ExchangeEvent, Progress, RequestCapacity, ResponseProgress, Reuse, Secured,
};
use super::fault::{ResetCode, StreamFault};
use super::interface::{Carrier, StartFailure, Started, StreamCarrier};
use super::response::StreamResponse;
use super::{CapturedResponse, Reason};
use crate::quic::{EarlyData, QuicConnection, QuicEnd, QuicEvent, StreamDirection, StreamEnd};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::request::protocols::StreamsLimit;
use crate::request::script::CaptureSpec;
use crate::tls::{GivenTlsOptions, NegotiatedTls};

/// Maximum number of request bytes that may wait for flow control. While more bytes are waiting, no
/// request starts.
const UNSENT_BYTES_MAX: usize = 512 * 1024;

/// Status of a request that the server does not process as early data (RFC 8470 §5.2).
const TOO_EARLY: u16 = 425;

/// The client side of HTTP/3 on one connection.
pub(crate) struct H3 {
    http: Connection,
    /// State of each stream, indexed by stream number.
    streams: Vec<H3Stream>,
    last_request: SharedRequest,
    /// QUIC stream for the next request, if the server allows one.
    next_stream: Option<u64>,
    /// This side's control and QPACK streams, once they are open.
    own: Option<OwnStreams>,
    /// Highest number of requests that were in flight at the same time. It stands in for a server's
    /// limit on concurrent streams, because QUIC has no such limit: MAX_STREAMS counts all streams,
    /// and the server raises it as they end (RFC 9000 §4.6).
    active_peak: u32,
    /// Streams to be abandoned, with their error codes.
    abandoned: Vec<(u64, ErrorCode)>,
    /// Number of request bytes that wait for flow control.
    unsent_bytes: usize,
    /// True if the limits on requests may have risen since the last check: the server has allowed
    /// more streams or changed its settings, or fewer bytes wait for flow control.
    has_new_settings: bool,
    /// The reason that the server gave for ending the connection.
    end: Option<Reason>,
    negotiated: Negotiated,
    /// Time at which the connect began, if requests are sent before the end of the handshake.
    early_since: Option<Nanos>,
    /// Number of calls to [`StreamCarrier::receive`] so far.
    receive_calls: u64,
}

/// This side's unidirectional streams (RFC 9114 §6.2).
struct OwnStreams {
    control: UniStream,
    decoder: UniStream,
}

/// A unidirectional stream and the bytes not yet written to it.
struct UniStream {
    stream: u64,
    pending: Vec<u8>,
}

/// State of the QUIC stream that uses a stream number.
struct H3Stream {
    /// The QUIC stream of the request in flight.
    stream: Option<u64>,
    /// The part of the request that flow control has not permitted yet.
    pending: Bytes,
    /// Value of `receive_calls` during the last call to [`StreamCarrier::receive`] that read the stream.
    read_in: u64,
    response: StreamResponse,
    /// True if the request was sent as early data.
    is_early: bool,
}

/// The bytes of the last short request. Successive requests of a connection are often equal, and
/// equal ones share memory.
#[derive(Default)]
struct SharedRequest(Bytes);

impl SharedRequest {
    /// Maximum length of a request that is kept, in bytes.
    const BYTES_MAX: usize = 1024;

    /// Returns the bytes of a request, copied only if they differ from the last request's.
    fn share(&mut self, request: &[u8]) -> Bytes {
        if self.0 == request {
            return self.0.clone();
        }
        let copy = Bytes::copy_from_slice(request);
        if request.len() <= SharedRequest::BYTES_MAX {
            self.0 = copy.clone();
        }
        copy
    }
}

impl H3 {
    /// Creates the state of a connection with up to `streams` requests in flight.
    pub(super) fn new(streams: u32, capture: CaptureSpec) -> H3 {
        let settings = ClientSettings {
            streams,
            ..ClientSettings::default()
        };
        let mut http = Connection::new(settings);
        if capture.heads {
            http.keep_fields();
        }
        let streams = (0..streams).map(|_| H3Stream::new(StreamResponse::new(capture)));
        H3::with_memory(http, streams.collect(), SharedRequest::default())
    }

    /// Creates the state of a connection from the memory of an earlier one.
    fn with_memory(http: Connection, streams: Vec<H3Stream>, last_request: SharedRequest) -> H3 {
        H3 {
            http,
            streams,
            last_request,
            next_stream: None,
            own: None,
            active_peak: 0,
            abandoned: Vec::new(),
            unsent_bytes: 0,
            has_new_settings: false,
            end: None,
            negotiated: Negotiated::default(),
            early_since: None,
            receive_calls: 0,
        }
    }

    /// Returns the state of another connection, with the memory of this one.
    pub(super) fn renewed(mut self) -> H3 {
        self.http.restart();
        let streams = self.streams.into_iter();
        let streams = streams.map(|old| H3Stream::new(old.response.renewed()));
        H3::with_memory(self.http, streams.collect(), self.last_request)
    }

    /// Begins again with the same connection, after the server has rejected early data.
    fn restart(&mut self) {
        self.http.restart();
        for stream in &mut self.streams {
            *stream = H3Stream::new(std::mem::take(&mut stream.response).renewed());
        }
        self.next_stream = None;
        self.own = None;
        self.active_peak = 0;
        self.abandoned.clear();
        self.unsent_bytes = 0;
    }

    /// Records that requests are being sent before the end of the handshake. The connect began at
    /// `since`.
    pub(super) fn begin_early(&mut self, since: Nanos) {
        self.early_since = Some(since);
    }

    /// Handles the end of the handshake of a connection with early data, if it has ended. If the
    /// server has rejected the early data, the streams are opened again, and the caller must start
    /// all requests again (RFC 9114 §3.2).
    fn end_early(&mut self, quic: &mut QuicConnection, now: Nanos) -> Option<Progress> {
        let since = self
            .early_since
            .take_if(|_| quic.early_data() != EarlyData::Offered)?;
        let is_rejected = quic.early_data() == EarlyData::Rejected;
        if is_rejected {
            self.restart();
            if let Err(reason) = self.open(quic) {
                return Some(Progress::Unusable(Outcome::Protocol, reason));
            }
        } else {
            self.negotiated = negotiated(quic);
        }
        let connect = now.since(since);
        Some(Progress::EarlyDataEnded {
            secured: Secured {
                connect,
                handshake: handshake(quic, connect),
            },
            is_rejected,
        })
    }

    /// Begins HTTP/3 on a connection that is established or accepts early data.
    ///
    /// Until the server's SETTINGS arrive, their default values apply, because values from earlier
    /// connections are not stored (RFC 9114 §7.2.4.2).
    ///
    /// # Errors
    ///
    /// The server allows too few streams. It must allow three from the start (RFC 9114 §6.2); without
    /// them, no request can ever be sent.
    pub(super) fn open(&mut self, quic: &mut QuicConnection) -> Result<(), Reason> {
        self.negotiated = negotiated(quic);
        let control = quic.open(StreamDirection::One);
        let decoder = quic.open(StreamDirection::One);
        if let (Some(control), Some(decoder)) = (control, decoder) {
            self.own = Some(OwnStreams {
                control: UniStream::new(control),
                decoder: UniStream::new(decoder),
            });
        }
        self.next_stream = quic.open(StreamDirection::Both);
        if self.own.is_some() {
            return Ok(());
        }
        let text = "the server allows fewer unidirectional streams than HTTP/3 needs \
                    (initial_max_streams_uni must be 3 or more)";
        Err(Reason::Text(text.to_owned()))
    }

    /// Continues sending a request once flow control permits more bytes.
    fn write_rest(&mut self, tag: u32, quic: &mut QuicConnection) {
        let slot = &mut self.streams[tag as usize];
        let Some(stream) = slot.stream.filter(|_| !slot.pending.is_empty()) else {
            return;
        };
        let written = quic.write_shared(stream, &mut slot.pending);
        if slot.pending.is_empty() {
            quic.finish(stream);
        }
        self.subtract_unsent(written);
    }

    /// Subtracts `bytes` from the number of request bytes that wait for flow control.
    fn subtract_unsent(&mut self, bytes: usize) {
        let was_full = self.unsent_bytes >= UNSENT_BYTES_MAX;
        self.unsent_bytes -= bytes;
        self.has_new_settings |= was_full && self.unsent_bytes < UNSENT_BYTES_MAX;
    }

    /// Drops the rest of a request that the server has stopped reading. The response continues (RFC
    /// 9114 §4.1).
    fn drop_rest(&mut self, stream: u64, quic: &mut QuicConnection) {
        if let Some(tag) = self.http.tag_of(stream) {
            let pending = &mut self.streams[tag as usize].pending;
            let bytes = pending.len();
            pending.clear();
            self.subtract_unsent(bytes);
        }
        quic.reset(stream, ErrorCode::NO_ERROR.0);
    }

    /// Frees a stream number. If the request was not sent completely, its QUIC stream is abandoned.
    fn release(&mut self, tag: u32) {
        let slot = &mut self.streams[tag as usize];
        let stream = slot.stream.take();
        if let Some(stream) = stream.filter(|_| !slot.pending.is_empty()) {
            self.abandoned.push((stream, ErrorCode::REQUEST_CANCELLED));
            let bytes = slot.pending.len();
            slot.pending.clear();
            self.subtract_unsent(bytes);
        }
    }

    /// Returns true if the current call to [`StreamCarrier::receive`] has already read a request's stream.
    /// QUIC reports a stream once for each packet that arrived.
    fn is_already_read(&mut self, stream: u64) -> bool {
        self.http.tag_of(stream).is_some_and(|tag| {
            let slot = &mut self.streams[tag as usize];
            std::mem::replace(&mut slot.read_in, self.receive_calls) == self.receive_calls
        })
    }

    /// Reads the bytes that have arrived on a stream.
    fn read(
        &mut self,
        stream: u64,
        quic: &mut QuicConnection,
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Result<(), Violation> {
        let mut result = Ok(());
        let mut discarded = None;
        let end = quic.read(stream, |mut bytes| {
            match self.read_bytes(stream, &mut bytes, now, expected, events) {
                Ok(None) => true,
                Ok(Some(code)) => {
                    discarded = Some(code);
                    false
                }
                Err(violation) => {
                    result = Err(violation);
                    false
                }
            }
        });
        result?;
        if let Some(code) = discarded {
            quic.abandon(stream, code.0);
            return Ok(());
        }
        let event = match end {
            StreamEnd::Open | StreamEnd::Gone => return Ok(()),
            StreamEnd::Finished => self.http.finished(stream)?,
            StreamEnd::Reset(code) => self.http.reset(stream, ErrorCode(code))?,
        };
        if let Some(code) = self.on_event(event, expected, events) {
            quic.abandon(stream, code.0);
        }
        Ok(())
    }

    /// Processes bytes of a stream. Returns an error code if the rest of the stream must be
    /// abandoned.
    fn read_bytes(
        &mut self,
        stream: u64,
        bytes: &mut &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Result<Option<ErrorCode>, Violation> {
        let tag = self.http.tag_of(stream);
        if let Some(tag) = tag {
            let response = &mut self.streams[tag as usize].response;
            response.first_byte.get_or_insert(now);
            response.bytes_in += bytes.len() as u64;
        }
        loop {
            match self.http.next(stream, bytes)? {
                ConnectionEvent::NeedMore => return Ok(None),
                ConnectionEvent::Body { tag, bytes } => {
                    let response = &mut self.streams[tag as usize].response;
                    response.add_body(bytes, tag, events);
                    if response.is_stream() && self.http.is_at_frame_end(stream) {
                        response.end_frame(tag, events);
                    }
                }
                ConnectionEvent::Head { tag, status } => {
                    let response = &mut self.streams[tag as usize].response;
                    if let Some(captured) = &mut response.captured {
                        captured.add_head(self.http.fields());
                    }
                    response.add_head(status);
                }
                event => {
                    if let Some(code) = self.on_event(event, expected, events) {
                        return Ok(Some(code));
                    }
                }
            }
        }
    }

    /// Handles an HTTP/3 event other than the head or the body of a response. Returns an error code
    /// if the stream must be abandoned.
    fn on_event(
        &mut self,
        event: ConnectionEvent<'_>,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Option<ErrorCode> {
        let (tag, kind) = match event {
            ConnectionEvent::End { tag, call } => {
                let response = &mut self.streams[tag as usize].response;
                response.finish_body(tag, events);
                (tag, response.end(call, expected, Reuse::Allowed))
            }
            ConnectionEvent::Trailers { tag } => {
                self.streams[tag as usize].response.add_trailers();
                return None;
            }
            ConnectionEvent::Reset {
                tag,
                code,
                unprocessed,
            } => {
                if let Some(stream) = self.streams[tag as usize].stream {
                    self.abandoned.push((stream, ErrorCode::REQUEST_CANCELLED));
                }
                let code = ResetCode::Http3(code);
                (tag, EventKind::Reset { code, unprocessed })
            }
            ConnectionEvent::Broken { tag, violation, .. } => {
                let code = violation.code();
                self.release(tag);
                let kind = EventKind::Malformed(StreamFault::Http3(violation));
                events.push(ExchangeEvent { stream: tag, kind });
                return Some(code);
            }
            ConnectionEvent::Discard { code, .. } => return Some(code),
            ConnectionEvent::Settings => {
                self.has_new_settings = true;
                return None;
            }
            ConnectionEvent::GoAway { .. }
            | ConnectionEvent::NeedMore
            | ConnectionEvent::Interim { .. }
            | ConnectionEvent::Head { .. }
            | ConnectionEvent::Body { .. }
            | ConnectionEvent::Ignored => return None,
        };
        self.release(tag);
        events.push(ExchangeEvent { stream: tag, kind });
        None
    }

    /// Handles the end of the connection.
    fn ended(&mut self, end: QuicEnd) -> Progress {
        let is_idle = self.http.active() == 0;
        let text = end.to_string();
        self.end = match end {
            QuicEnd::Closed { code } => {
                let code = ErrorCode(code);
                (code != ErrorCode::NO_ERROR).then_some(Reason::GoneAway(ResetCode::Http3(code)))
            }
            QuicEnd::Aborted { outcome, .. } if outcome != Outcome::Reset && !is_idle => {
                return Progress::Broken(outcome, Reason::Text(text));
            }
            QuicEnd::Tls(_) | QuicEnd::Alert(_) if !is_idle => {
                let reason = Reason::of_quic(&end, GivenTlsOptions::default());
                return Progress::Broken(Outcome::Tls, reason);
            }
            _ => Some(Reason::Text(text)),
        };
        if is_idle {
            Progress::Closed
        } else {
            Progress::Lost
        }
    }

    /// The negotiated TLS parameters.
    pub(super) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }
}

impl Carrier for H3 {
    #[inline]
    fn capacity(&self, in_flight: u32) -> RequestCapacity {
        if self.http.can_start().is_err() || self.own.is_none() {
            return RequestCapacity::NotNow;
        }
        if self.unsent_bytes >= UNSENT_BYTES_MAX {
            return RequestCapacity::Backpressured;
        }
        let limit = StreamsLimit::Quic(self.active_peak);
        match self.next_stream {
            Some(_) => RequestCapacity::Available,
            // If no request is in flight, one request is accepted although the server allows no
            // streams. It waits and may time out.
            None if in_flight == 0 => RequestCapacity::NoStreamsAllowed(limit),
            None => RequestCapacity::Full(limit),
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
        Some("3")
    }

    #[cfg(test)]
    fn active_count(&self) -> Option<u32> {
        Some(self.http.active())
    }

    /// Cancels the request on a stream, if there is one. The next output notifies the server.
    fn cancel(&mut self, stream: u32) {
        if let Some(id) = self.http.cancel(stream) {
            self.abandoned.push((id, ErrorCode::REQUEST_CANCELLED));
        }
        self.release(stream);
    }

    /// Returns true if the server's SETTINGS have arrived, which proves that it speaks HTTP/3.
    fn is_established(&self) -> bool {
        self.http.is_established()
    }

    fn is_early(&self) -> bool {
        self.early_since.is_some()
    }

    #[inline]
    fn was_too_early(&self, stream: u32) -> bool {
        let stream = &self.streams[stream as usize];
        stream.is_early && stream.response.status == Some(TOO_EARLY)
    }

    fn is_going_away(&self) -> bool {
        self.http.is_going_away()
    }

    fn call_message(&self, id: CallMessageId) -> &[u8] {
        self.http.call_message(id)
    }

    fn end_reason(&self) -> Option<Reason> {
        self.end.clone()
    }

    fn take_new_settings(&mut self) -> bool {
        std::mem::take(&mut self.has_new_settings)
    }
}

impl StreamCarrier for H3 {
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
        quic: &mut QuicConnection,
    ) -> Result<Started, StartFailure> {
        let Some(encoded) = request.encodings.http3() else {
            return Err(StartFailure::Never(Reason::only_http1()));
        };
        let Some(id) = self.next_stream else {
            return Err(StartFailure::NotNow);
        };
        self.http
            .start(encoded, id, stream)
            .map_err(|error| match error {
                StartError::FieldsTooLong { .. } => {
                    StartFailure::Never(Reason::Text(error.to_string()))
                }
                _ => StartFailure::NotNow,
            })?;
        self.next_stream = quic.open(StreamDirection::Both);
        self.active_peak = self.active_peak.max(self.http.active());
        let slot = &mut self.streams[stream as usize];
        slot.stream = Some(id);
        slot.is_early = self.early_since.is_some();
        slot.response.start(request.kind, expected);
        slot.pending = self.last_request.share(encoded.wire());
        quic.write_shared(id, &mut slot.pending);
        self.unsent_bytes += slot.pending.len();
        if slot.pending.is_empty() {
            quic.finish(id);
        }
        Ok(Started {
            bytes: encoded.wire().len() as u64,
            sends_now: false,
        })
    }

    /// Handles the events of the QUIC connection, and appends the resulting request events to
    /// `events`.
    fn receive(
        &mut self,
        quic: &mut QuicConnection,
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        if let Some(ended) = self.end_early(quic, now) {
            return ended;
        }
        self.receive_calls += 1;
        while let Some(event) = quic.next_event() {
            let handled = match event {
                QuicEvent::Readable(stream) if self.is_already_read(stream) => Ok(()),
                QuicEvent::Readable(stream) => self.read(stream, quic, now, expected, events),
                QuicEvent::Writable(stream) => {
                    if let Some(tag) = self.http.tag_of(stream) {
                        self.write_rest(tag, quic);
                    }
                    Ok(())
                }
                QuicEvent::Stopped(stream) => self
                    .http
                    .stopped(stream)
                    .map(|_| self.drop_rest(stream, quic)),
                QuicEvent::StreamsAllowed => {
                    if self.next_stream.is_none() {
                        self.next_stream = quic.open(StreamDirection::Both);
                    }
                    self.has_new_settings = true;
                    Ok(())
                }
                QuicEvent::Ended(end) => return self.ended(end),
            };
            if let Err(violation) = handled {
                quic.close(violation.code().0);
                return Progress::Broken(Outcome::Protocol, Reason::Http3(violation));
            }
        }
        Progress::Open
    }

    /// Writes the output of the HTTP/3 state machine to QUIC streams.
    fn write_output(&mut self, quic: &mut QuicConnection) {
        for (stream, code) in self.abandoned.drain(..) {
            quic.abandon(stream, code.0);
        }
        let Some(own) = &mut self.own else {
            return;
        };
        if self.http.has_output() {
            self.http.take_control(&mut own.control.pending);
            // While earlier output is pending, later output stays in the HTTP/3 state machine,
            // which counts it to detect a server that doesn't read.
            if own.decoder.pending.is_empty() {
                self.http.take_decoder(&mut own.decoder.pending);
            }
        }
        own.control.write(quic);
        own.decoder.write(quic);
    }

    /// Bytes of a stream's request that flow control has not permitted yet.
    fn unsent(&self, stream: u32) -> u64 {
        self.streams[stream as usize].pending.len() as u64
    }
}

/// The completed handshake of a connection that took `took` to establish.
pub(super) fn handshake(quic: &QuicConnection, took: Nanos) -> TlsHandshake {
    NegotiatedTls::handshake_of(quic.agreed().as_ref(), took)
}

/// The negotiated TLS parameters; empty before the end of the handshake.
fn negotiated(quic: &QuicConnection) -> Negotiated {
    let agreed = quic.agreed();
    agreed.map(|tls| tls.negotiated()).unwrap_or_default()
}

impl H3Stream {
    fn new(response: StreamResponse) -> H3Stream {
        H3Stream {
            stream: None,
            pending: Bytes::new(),
            read_in: 0,
            response,
            is_early: false,
        }
    }
}

impl UniStream {
    fn new(stream: u64) -> UniStream {
        UniStream {
            stream,
            pending: Vec::new(),
        }
    }

    /// Writes as many pending bytes as flow control permits.
    fn write(&mut self, quic: &mut QuicConnection) {
        if !self.pending.is_empty() {
            let written = quic.write(self.stream, &self.pending);
            self.pending.drain(..written);
        }
    }
}
