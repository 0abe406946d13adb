//! HTTP/1 on one connection: one request at a time, or one pipelined batch.

use prony_protocol::h1::{Eof, Expects, Limits, ResponseEvent, ResponseParser, Version, Violation};
use prony_record::{Nanos, Outcome};

use super::events::{EventKind, ExchangeEvent, Progress, RequestCapacity, ResponseProgress, Reuse};
use super::interface::{ByteCarrier, Carrier, StartFailure, Started};
use super::response::StreamResponse;
use super::{CapturedResponse, Reason};
use crate::exchange::{EarlierResponse, RequestKind};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::request::protocols::StreamsLimit;
use crate::request::script::CaptureSpec;

/// The field that is added to the last request of a connection.
const CLOSE_FIELD: &[u8] = b"Connection: close\r\n";

/// The response side of one HTTP/1 connection.
pub(crate) struct H1 {
    parser: ResponseParser,
    response: StreamResponse,
    /// True if a response is expected and none of its bytes has arrived.
    is_awaiting: bool,
    /// True if the request in flight, or the last one, asked the server to close the connection.
    asked_to_close: bool,
    /// The stream number of the request in flight, or of the last one.
    stream: u32,
    version: Option<Version>,
    /// The phrase with which the last response with status 400 says that the port expects TLS.
    tls_phrase: Option<TlsPhrase>,
    /// Number of bytes of the request that were taken for sending, with those of the added field.
    taken: usize,
    /// True if the next request is the connection's last one.
    is_last: bool,
    /// Position in the request at which [`CLOSE_FIELD`] is added; 0 if it isn't.
    close_at: u32,
    /// Kind of body that each response of the exchange may have.
    expects: Expects,
}

impl H1 {
    pub(super) fn new(capture: CaptureSpec) -> H1 {
        H1::with_memory(
            ResponseParser::new(Limits::default()),
            StreamResponse::new(capture),
        )
    }

    /// Creates the state of a connection that uses the memory of an earlier one.
    fn with_memory(parser: ResponseParser, response: StreamResponse) -> H1 {
        H1 {
            parser,
            response,
            is_awaiting: false,
            asked_to_close: false,
            stream: 0,
            version: None,
            tls_phrase: None,
            taken: 0,
            is_last: false,
            close_at: 0,
            expects: Expects::Body,
        }
    }

    /// Returns the state of another connection, with the memory of this one.
    pub(super) fn renewed(self) -> H1 {
        H1::with_memory(self.parser, self.response.renewed())
    }

    /// The phrase with which the last response said that the port expects TLS.
    pub(super) fn tls_phrase(&self) -> Option<&'static str> {
        let is_bad_request = self.response.status == Some(400);
        self.tls_phrase
            .filter(|_| is_bad_request)
            .map(TlsPhrase::text)
    }

    /// Stream number of the request in flight.
    #[inline]
    pub(super) fn stream_in_flight(&self) -> Option<u32> {
        self.is_awaiting.then_some(self.stream)
    }

    /// Takes the next part of the request in flight for sending, at most `limit` bytes.
    #[inline]
    pub(super) fn take_piece<'r>(&mut self, request: &'r [u8], limit: usize) -> &'r [u8] {
        let rest = if self.adds_close() {
            self.rest_with_close(request)
        } else {
            request.get(self.taken..).unwrap_or_default()
        };
        let piece = &rest[..rest.len().min(limit)];
        self.taken += piece.len();
        piece
    }

    /// Returns true if the request in flight gets the field [`CLOSE_FIELD`].
    #[inline]
    pub(super) fn adds_close(&self) -> bool {
        self.close_at > 0
    }

    /// The next contiguous part of a request to which the field is added.
    #[cold]
    fn rest_with_close<'r>(&self, request: &'r [u8]) -> &'r [u8] {
        let at = (self.close_at as usize).min(request.len());
        let added = at + CLOSE_FIELD.len();
        match self.taken {
            taken if taken < at => &request[taken..at],
            taken if taken < added => &CLOSE_FIELD[taken - at..],
            taken => request.get(taken - CLOSE_FIELD.len()..).unwrap_or_default(),
        }
    }

    /// Number of bytes that the request in flight takes on the connection.
    #[inline]
    fn length_of(&self, request: &Request) -> u64 {
        let added = if self.adds_close() {
            CLOSE_FIELD.len()
        } else {
            0
        };
        (request.http1().len() + added) as u64
    }

    /// Makes the request that begins the connection's last one. Pipelined requests are sent as they
    /// are, and the connection is closed after them.
    #[cold]
    fn begin_last(&mut self, request: &Request) {
        self.is_last = false;
        if !self.asked_to_close && !matches!(request.kind, RequestKind::Batch(_)) {
            let mut ends = request.http1().windows(4);
            let end = ends.position(|window| window == b"\r\n\r\n");
            self.close_at = end.map_or(0, |end| end as u32 + 2);
        }
        self.asked_to_close = true;
    }

    #[inline]
    fn capture_head(&mut self, piece: &[u8]) {
        if let Some(captured) = &mut self.response.captured {
            captured.add_head(piece);
        }
    }

    /// Completes a response that is followed by the bytes in `rest`. Returns `None` if the exchange
    /// expects another response.
    #[inline]
    fn complete(
        &mut self,
        reusable: bool,
        rest: &[u8],
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Option<Progress> {
        let reuse = match (reusable, self.asked_to_close) {
            (true, false) => Reuse::Allowed,
            (true, true) => Reuse::Refused,
            (false, requested) => Reuse::PeerCloses { requested },
        };
        self.response.finish_body(self.stream, events);
        let kind = self.response.end(None, expected, reuse);
        if let EventKind::Message(_) = kind {
            return self.next_response(reusable, kind, expected, events);
        }
        if !rest.is_empty() {
            return Some(broken(Violation::BytesAfterEnd));
        }
        self.is_awaiting = false;
        events.push(ExchangeEvent {
            stream: self.stream,
            kind,
        });
        Some(Progress::Open)
    }

    /// Expects the exchange's next response, if the connection stays open.
    fn next_response(
        &mut self,
        reusable: bool,
        kind: EventKind,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Option<Progress> {
        if !reusable {
            let reason = "the server closes the connection before the last pipelined response";
            return Some(Progress::Broken(
                Outcome::ClosedEarly,
                Reason::Text(reason.to_owned()),
            ));
        }
        events.push(ExchangeEvent {
            stream: self.stream,
            kind,
        });
        self.parser.start(self.expects);
        self.response.start_next(expected);
        None
    }
}

impl Carrier for H1 {
    #[inline]
    fn capacity(&self, in_flight: u32) -> RequestCapacity {
        if in_flight == 0 {
            RequestCapacity::Available
        } else {
            RequestCapacity::Full(StreamsLimit::Http1)
        }
    }

    #[inline]
    fn received(&self, _stream: u32) -> ResponseProgress {
        self.response.received()
    }

    fn captured(&self, _stream: u32) -> Option<&CapturedResponse> {
        self.response.captured.as_deref()
    }

    fn captured_mut(&mut self, _stream: u32) -> Option<&mut CapturedResponse> {
        self.response.captured.as_deref_mut()
    }

    fn body_length(&self, _stream: u32) -> u64 {
        self.response.body.length()
    }

    fn hash_bodies(&mut self) {
        self.response.body.hash_always();
    }

    fn take_hash(&mut self, _stream: u32) -> [u8; 32] {
        self.response.body.take_hash()
    }

    fn take_messages(&mut self, _stream: u32) -> Vec<EarlierResponse> {
        self.response.take_messages()
    }

    fn version(&self) -> Option<&'static str> {
        self.version.map(|version| match version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        })
    }

    #[inline]
    fn is_multiplexed(&self) -> bool {
        false
    }

    #[cfg(test)]
    fn active_count(&self) -> Option<u32> {
        None
    }

    fn cancel(&mut self, _stream: u32) {}

    fn announce_last(&mut self) {
        self.is_last = true;
    }
}

impl ByteCarrier for H1 {
    #[inline]
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        self.parser.start(request.expects);
        self.response.start(request.kind, expected);
        self.expects = request.expects;
        self.is_awaiting = true;
        self.asked_to_close = request.closes;
        self.stream = stream;
        self.taken = 0;
        self.close_at = 0;
        if self.is_last {
            self.begin_last(request);
        }
        Ok(Started {
            bytes: self.length_of(request),
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
        if !self.is_awaiting {
            return Progress::Unsolicited;
        }
        if !bytes.is_empty() {
            self.response.first_byte.get_or_insert(now);
        }
        self.response.bytes_in += bytes.len() as u64;
        loop {
            let before = bytes;
            match self.parser.next(&mut bytes) {
                Ok(ResponseEvent::NeedMore) => {
                    if self.response.status.is_none() {
                        self.capture_head(before);
                    }
                    return Progress::Open;
                }
                Ok(ResponseEvent::Interim(_)) => {
                    if let Some(captured) = &mut self.response.captured {
                        captured.start();
                    }
                }
                Ok(ResponseEvent::Head(head)) => {
                    self.capture_head(&before[..before.len() - bytes.len()]);
                    self.response.add_head(head.status);
                    self.version = Some(head.version);
                    if head.status == 400 {
                        self.tls_phrase = TlsPhrase::find(bytes);
                    }
                    if let Some(body) = self.parser.rest(&mut bytes) {
                        self.response.add_body(body, self.stream, events);
                        if let Some(progress) =
                            self.complete(head.reusable, bytes, expected, events)
                        {
                            return progress;
                        }
                    }
                }
                Ok(ResponseEvent::SwitchingProtocols) => {
                    return Progress::Broken(Outcome::Protocol, Reason::SwitchedProtocols);
                }
                Ok(ResponseEvent::Body(piece)) => {
                    self.response.add_body(piece, self.stream, events);
                    if self.response.is_stream() && self.parser.is_at_chunk_end() {
                        self.response.end_frame(self.stream, events);
                    }
                }
                Ok(ResponseEvent::End { reusable }) => {
                    if let Some(progress) = self.complete(reusable, bytes, expected, events) {
                        return progress;
                    }
                }
                Err(violation) => return broken(violation),
            }
        }
    }

    fn peer_closed(
        &mut self,
        orderly: bool,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        if !self.is_awaiting {
            return Progress::Closed;
        }
        match self.parser.eof() {
            Eof::Idle if self.response.first_byte.is_some() => {
                let reason = "the connection closed before the last pipelined response";
                Progress::Broken(Outcome::ClosedEarly, Reason::Text(reason.to_owned()))
            }
            Eof::Idle => Progress::Lost,
            Eof::Complete if orderly => self
                .complete(false, &[], expected, events)
                .unwrap_or(Progress::Open),
            Eof::Complete => truncated("the connection closed without TLS's close_notify"),
            Eof::Truncated if self.response.status.is_none() => {
                truncated("the connection closed in the middle of the response head")
            }
            Eof::Truncated => truncated("the connection closed in the middle of the response body"),
        }
    }

    fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        out: &mut Vec<u8>,
    ) {
        if let Some(request) = self.stream_in_flight().and_then(request_of) {
            out.extend_from_slice(self.take_piece(request.http1(), limit));
            while self.adds_close() && out.len() < limit {
                match self.take_piece(request.http1(), limit - out.len()) {
                    [] => break,
                    piece => out.extend_from_slice(piece),
                }
            }
        }
    }

    fn unsent(&self, _stream: u32, request: &Request, in_socket: u64, _is_alone: bool) -> u64 {
        let length = self.length_of(request);
        let left = length.saturating_sub(self.taken as u64);
        (left + in_socket).min(length)
    }
}

/// A phrase that says that a server received cleartext where it expects TLS, by its index.
#[derive(Debug, Clone, Copy)]
struct TlsPhrase(u8);

impl TlsPhrase {
    /// Phrases of nginx, servers in Go, Apache httpd and Tomcat.
    const TEXTS: [&str; 4] = [
        "The plain HTTP request was sent to HTTPS port",
        "Client sent an HTTP request to an HTTPS server",
        "speaking plain HTTP to an SSL-enabled server port",
        "This combination of host and port requires TLS",
    ];

    /// Returns the phrase in `body`, if it has one. The servers send the head and this short body
    /// together.
    #[cold]
    fn find(body: &[u8]) -> Option<TlsPhrase> {
        let beginning = &body[..body.len().min(1024)];
        let contains = |phrase: &&str| {
            let mut windows = beginning.windows(phrase.len());
            windows.any(|window| window == phrase.as_bytes())
        };
        let index = TlsPhrase::TEXTS.iter().position(contains)?;
        Some(TlsPhrase(index as u8))
    }

    fn text(self) -> &'static str {
        TlsPhrase::TEXTS[usize::from(self.0)]
    }
}

/// Reports the failure of a request whose response violates HTTP/1.
pub(super) fn broken(violation: Violation) -> Progress {
    Progress::Broken(Outcome::Protocol, Reason::Http1(violation))
}

fn truncated(reason: &str) -> Progress {
    Progress::Broken(Outcome::Truncated, Reason::Text(reason.to_owned()))
}
