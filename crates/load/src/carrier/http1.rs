//! HTTP/1 on one connection: one request at a time, or one pipelined batch.

use prony_protocol::h1::{Eof, H1Violation, Limits, ResponseEvent, ResponseParser, Version};
use prony_record::{Nanos, Outcome};

use super::pipeline::{Pipeline, PipelinedResponse};
use super::stream::{EventKind, HttpEvent, Progress, ResponseProgress};
use super::{CapturedResponse, Reason};
use crate::expect::{Expectations, ReceivedBody};
use crate::request::Request;
use crate::script::CaptureSpec;

/// The response side of one HTTP/1 connection.
pub(crate) struct H1 {
    parser: ResponseParser,
    body: ReceivedBody,
    /// True if a response is expected and none of its bytes has arrived.
    is_awaiting: bool,
    /// True if the request in flight, or the last one, asked the server to close the connection.
    asked_to_close: bool,
    /// The stream number of the request in flight, or of the last one.
    stream: u32,
    status: Option<u16>,
    version: Option<Version>,
    first_byte: Option<Nanos>,
    bytes_in: u64,
    /// The phrase with which the last response with status 400 says that the port expects TLS.
    tls_phrase: Option<&'static str>,
    /// Number of request bytes that TLS has encrypted. Unused in cleartext.
    encrypted: usize,
    /// Rarely needed state. It is boxed to keep connections without it small.
    extras: Option<Box<Extras>>,
}

/// State of connections whose responses are captured or pipelined.
#[derive(Debug, Default)]
struct Extras {
    captured: Option<CapturedResponse>,
    pipeline: Option<Pipeline>,
}

impl Extras {
    /// Starts capturing the next response head, for example after an interim response.
    fn restart_capture(&mut self) {
        if let Some(captured) = &mut self.captured {
            captured.start();
        }
    }
}

impl H1 {
    pub(super) fn new(capture: CaptureSpec) -> H1 {
        let captured = CapturedResponse::new(capture);
        let extras = captured.map(|captured| {
            Box::new(Extras {
                captured: Some(captured),
                pipeline: None,
            })
        });
        H1 {
            parser: ResponseParser::new(Limits::default()),
            body: ReceivedBody::default(),
            is_awaiting: false,
            asked_to_close: false,
            stream: 0,
            status: None,
            version: None,
            first_byte: None,
            bytes_in: 0,
            tls_phrase: None,
            encrypted: 0,
            extras,
        }
    }

    /// Resets the state machine for another connection, and keeps its allocated memory.
    pub(super) fn reset(&mut self) {
        self.is_awaiting = false;
        self.status = None;
        self.version = None;
        self.first_byte = None;
        self.bytes_in = 0;
        self.encrypted = 0;
    }

    /// Starts a request. In cleartext the caller sends the request's bytes; over TLS,
    /// [`HttpSession::take_ciphertext`](super::HttpSession::take_ciphertext) encrypts them.
    pub(crate) fn start(&mut self, stream: u32, request: &Request, expected: &Expectations) {
        self.parser.start(request.expects);
        self.body.start(expected);
        if self.extras.is_some() || request.response_count > 1 {
            let extras = self.extras.get_or_insert_default();
            extras.pipeline = Pipeline::new(request.response_count, request.expects);
            extras.restart_capture();
        }
        self.is_awaiting = true;
        self.asked_to_close = request.closes;
        self.stream = stream;
        self.status = None;
        self.first_byte = None;
        self.bytes_in = 0;
        self.encrypted = 0;
    }

    /// The phrase with which the last response said that the port expects TLS.
    pub(crate) fn tls_phrase(&self) -> Option<&'static str> {
        self.tls_phrase.filter(|_| self.status == Some(400))
    }

    /// Returns the next part of `request` to encrypt, at most `limit` bytes.
    pub(super) fn take_unencrypted<'r>(&mut self, request: &'r [u8], limit: usize) -> &'r [u8] {
        if !self.is_awaiting {
            return &[];
        }
        let rest = request.get(self.encrypted..).unwrap_or_default();
        let piece = &rest[..rest.len().min(limit)];
        self.encrypted += piece.len();
        piece
    }

    /// Number of bytes that are not yet encrypted in a request of `length` bytes.
    pub(super) fn unencrypted(&self, length: usize) -> usize {
        length.saturating_sub(self.encrypted)
    }

    #[inline]
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<HttpEvent>,
    ) -> Progress {
        if !self.is_awaiting {
            return Progress::Unsolicited;
        }
        if !bytes.is_empty() {
            self.first_byte.get_or_insert(now);
        }
        self.bytes_in += bytes.len() as u64;
        loop {
            let before = bytes;
            match self.parser.next(&mut bytes) {
                Ok(ResponseEvent::NeedMore) => {
                    if self.status.is_none() {
                        self.capture_head(before);
                    }
                    return Progress::Open;
                }
                Ok(ResponseEvent::Interim(_)) => {
                    if let Some(extras) = &mut self.extras {
                        extras.restart_capture();
                    }
                }
                Ok(ResponseEvent::Head(head)) => {
                    self.capture_head(&before[..before.len() - bytes.len()]);
                    self.status = Some(head.status);
                    self.version = Some(head.version);
                    if head.status == 400 {
                        self.tls_phrase = tls_phrase(bytes);
                    }
                    if let Some(body) = self.parser.rest(&mut bytes) {
                        self.add_body(body);
                        if let Some(progress) =
                            self.complete(head.reusable, bytes, expected, events)
                        {
                            return progress;
                        }
                    }
                }
                Ok(ResponseEvent::Body(piece)) => self.add_body(piece),
                Ok(ResponseEvent::End { reusable }) => {
                    if let Some(progress) = self.complete(reusable, bytes, expected, events) {
                        return progress;
                    }
                }
                Err(violation) => return broken(violation),
            }
        }
    }

    #[inline]
    fn capture_head(&mut self, piece: &[u8]) {
        if let Some(captured) = self.extras.as_mut().and_then(|it| it.captured.as_mut()) {
            captured.add_head(piece);
        }
    }

    #[inline]
    fn add_body(&mut self, piece: &[u8]) {
        self.body.add(piece);
        if let Some(captured) = self.extras.as_mut().and_then(|it| it.captured.as_mut()) {
            captured.add_body(piece);
        }
    }

    /// Completes a response that is followed by the bytes in `rest`. Returns `None` if another
    /// pipelined response is expected.
    #[inline]
    fn complete(
        &mut self,
        reusable: bool,
        rest: &[u8],
        expected: &Expectations,
        events: &mut Vec<HttpEvent>,
    ) -> Option<Progress> {
        let pipeline = self.pipeline();
        if pipeline.is_some_and(Pipeline::is_more_due) {
            return self.next_in_pipeline(reusable, expected);
        }
        if !rest.is_empty() {
            return Some(broken(H1Violation::BytesAfterEnd));
        }
        self.is_awaiting = false;
        let outcome = self.body.judge(self.status.unwrap_or(0), expected);
        let outcome = match self.pipeline() {
            Some(pipeline) => pipeline.outcome_with(outcome),
            None => outcome,
        };
        events.push(HttpEvent {
            stream: self.stream,
            kind: EventKind::Response { outcome, reusable },
        });
        Some(Progress::Open)
    }

    /// Expects the next response of a pipelined batch, if the connection stays open.
    fn next_in_pipeline(&mut self, reusable: bool, expected: &Expectations) -> Option<Progress> {
        let status = self.status.unwrap_or(0);
        let outcome = self.body.judge(status, expected);
        let extras = self.extras.as_mut()?;
        let captured = extras.captured.as_ref();
        let response = PipelinedResponse {
            status,
            head: captured.map_or_else(Vec::new, |it| it.head().to_vec()),
            body: captured.map_or_else(Vec::new, |it| it.body().to_vec()),
            length: self.body.length(),
        };
        let expects = extras.pipeline.as_mut()?.add(response, outcome);
        extras.restart_capture();
        if !reusable {
            let reason = "the server closes the connection before the last pipelined response";
            return Some(Progress::Broken(
                Outcome::ClosedEarly,
                Reason::Text(reason.to_owned()),
            ));
        }
        self.parser.start(expects);
        self.body.start(expected);
        self.status = None;
        None
    }

    #[inline]
    fn pipeline(&self) -> Option<&Pipeline> {
        self.extras.as_ref()?.pipeline.as_ref()
    }

    /// Removes and returns the complete responses that precede the current one in a pipelined
    /// batch.
    pub(crate) fn take_pipelined(&mut self) -> Vec<PipelinedResponse> {
        let pipeline = self.extras.as_mut().and_then(|it| it.pipeline.as_mut());
        pipeline.map_or_else(Vec::new, Pipeline::take)
    }

    /// Returns true if the last request asked the server to close the connection.
    #[inline]
    pub(crate) fn asked_to_close(&self) -> bool {
        self.asked_to_close
    }

    /// Returns true if any byte of the response in flight has arrived.
    pub(crate) fn has_response_begun(&self) -> bool {
        self.is_awaiting && self.first_byte.is_some()
    }

    #[inline]
    pub(super) fn received(&self) -> ResponseProgress {
        ResponseProgress {
            status: self.status,
            first_byte: self.first_byte,
            bytes: self.bytes_in,
            body_bytes: self.body.length() + self.pipeline().map_or(0, Pipeline::body_bytes),
        }
    }

    pub(super) fn captured(&self) -> Option<&CapturedResponse> {
        self.extras.as_ref()?.captured.as_ref()
    }

    pub(super) fn body_length(&self) -> u64 {
        self.body.length()
    }

    pub(super) fn hash_bodies(&mut self) {
        self.body.hash_always();
    }

    pub(super) fn take_hash(&mut self) -> [u8; 32] {
        self.body.take_hash()
    }

    pub(super) fn version(&self) -> Option<&'static str> {
        self.version.map(|version| match version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        })
    }

    pub(super) fn peer_closed(
        &mut self,
        orderly: bool,
        expected: &Expectations,
        events: &mut Vec<HttpEvent>,
    ) -> Progress {
        if !self.is_awaiting {
            return Progress::Closed;
        }
        match self.parser.eof() {
            Eof::Idle if self.pipeline().is_some_and(Pipeline::has_begun) => {
                let reason = "the connection closed before the last pipelined response";
                Progress::Broken(Outcome::ClosedEarly, Reason::Text(reason.to_owned()))
            }
            Eof::Idle => Progress::Lost,
            Eof::Complete if orderly => self
                .complete(false, &[], expected, events)
                .unwrap_or(Progress::Open),
            Eof::Complete => truncated("the connection closed without TLS's close_notify"),
            Eof::Truncated if self.status.is_none() => {
                truncated("the connection closed in the middle of the response head")
            }
            Eof::Truncated => truncated("the connection closed in the middle of the response body"),
        }
    }
}

/// Returns the phrase that says that a server received cleartext where it expects TLS, if `body`
/// has it. The servers send the head and this short body together.
#[cold]
fn tls_phrase(body: &[u8]) -> Option<&'static str> {
    /// Phrases of nginx, servers in Go, Apache httpd and Tomcat.
    const PHRASES: [&str; 4] = [
        "The plain HTTP request was sent to HTTPS port",
        "Client sent an HTTP request to an HTTPS server",
        "speaking plain HTTP to an SSL-enabled server port",
        "This combination of host and port requires TLS",
    ];
    let beginning = &body[..body.len().min(1024)];
    let contains = |phrase: &str| {
        let mut windows = beginning.windows(phrase.len());
        windows.any(|window| window == phrase.as_bytes())
    };
    PHRASES.into_iter().find(|phrase| contains(phrase))
}

/// Reports the failure of a request whose response violates HTTP/1.
pub(super) fn broken(violation: H1Violation) -> Progress {
    Progress::Broken(Outcome::Protocol, Reason::Http1(violation))
}

fn truncated(reason: &str) -> Progress {
    Progress::Broken(Outcome::Truncated, Reason::Text(reason.to_owned()))
}
