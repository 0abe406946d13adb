//! The received part of the response on one stream.

use prony_protocol::GrpcCall;
use prony_record::Nanos;

use super::CapturedResponse;
use super::events::{EventKind, ExchangeEvent, ResponseProgress, Reuse};
use crate::exchange::{
    AnyKind, CompleteResponse, EarlierResponse, EventCounts, ExchangeKind, RequestKind, ResponseEnd,
};
use crate::request::expect::{Expectations, ReceivedBody};
use crate::request::script::CaptureSpec;

/// The received part of a response.
#[derive(Default)]
pub(super) struct StreamResponse {
    pub(super) status: Option<u16>,
    pub(super) first_byte: Option<Nanos>,
    pub(super) bytes_in: u64,
    pub(super) body: ReceivedBody,
    pub(super) captured: Option<Box<CapturedResponse>>,
    kind: AnyKind,
}

impl StreamResponse {
    /// Creates a response whose buffers are reused by later responses on the stream.
    pub(super) fn new(capture: CaptureSpec) -> StreamResponse {
        StreamResponse {
            captured: CapturedResponse::new(capture).map(Box::new),
            ..StreamResponse::default()
        }
    }

    /// Returns an empty response with the memory of this one.
    pub(super) fn renewed(self) -> StreamResponse {
        StreamResponse {
            body: self.body,
            captured: self.captured,
            ..StreamResponse::default()
        }
    }

    /// Discards the previous exchange and begins another.
    #[inline]
    pub(super) fn start(&mut self, kind: RequestKind, expected: &Expectations) {
        self.first_byte = None;
        self.bytes_in = 0;
        self.kind.begin(kind, expected.reading());
        self.start_response(expected);
    }

    /// Prepares for another response of the same exchange.
    pub(super) fn start_next(&mut self, expected: &Expectations) {
        self.start_response(expected);
    }

    #[inline]
    fn start_response(&mut self, expected: &Expectations) {
        self.status = None;
        self.body.start(expected);
        if let Some(captured) = &mut self.captured {
            captured.start();
        }
    }

    /// Adds the head. Its fields must have been captured before.
    #[inline]
    pub(super) fn add_head(&mut self, status: u16) {
        self.status = Some(status);
        let captured = self.captured.as_deref();
        self.kind
            .head(status, captured.map_or(&[], CapturedResponse::head));
    }

    /// Adds part of the body, and appends an event if it completes messages.
    #[inline]
    pub(super) fn add_body(&mut self, bytes: &[u8], stream: u32, events: &mut Vec<ExchangeEvent>) {
        self.body.add(bytes);
        if let Some(captured) = &mut self.captured {
            captured.add_body(bytes);
        }
        let counts = self.kind.body(bytes);
        push_messages(counts, stream, events);
    }

    /// Returns true if the response is a stream, so that the ends of frames must be reported with
    /// [`StreamResponse::end_frame`].
    #[inline]
    pub(super) fn is_stream(&self) -> bool {
        self.kind.is_stream()
    }

    /// Ends a chunk or DATA frame, and appends an event if it completes messages.
    pub(super) fn end_frame(&mut self, stream: u32, events: &mut Vec<ExchangeEvent>) {
        push_messages(self.kind.end_frame(), stream, events);
    }

    /// Ends the body, and appends an event if this completes messages.
    #[inline]
    pub(super) fn finish_body(&mut self, stream: u32, events: &mut Vec<ExchangeEvent>) {
        if self.is_stream() {
            push_messages(self.kind.finish_body(), stream, events);
        }
    }

    /// Adds the trailers.
    pub(super) fn add_trailers(&mut self) {
        self.kind.trailers();
    }

    /// Returns the event of the complete response, after which the connection has this use. `call` is
    /// the gRPC call to which this was the response, if it was one.
    ///
    /// Always inlined, because an event that is returned through memory costs a stall.
    #[inline(always)]
    pub(super) fn end(
        &mut self,
        call: Option<GrpcCall>,
        expected: &Expectations,
        reuse: Reuse,
    ) -> EventKind {
        let status = self.status.unwrap_or(0);
        let captured = self.captured.as_deref();
        let end = self.kind.end(CompleteResponse {
            status,
            length: self.body.length(),
            outcome: self.body.judge(status, expected),
            call,
            head: captured.map_or(&[], CapturedResponse::head),
            body: captured.map_or(&[], CapturedResponse::body),
        });
        match end {
            ResponseEnd::Exchange(outcome) => EventKind::Response { outcome, reuse },
            ResponseEnd::FailedCall(failure) => EventKind::CallFailed {
                failure,
                message: call.and_then(|call| call.message),
            },
            ResponseEnd::FailedStream(failure) => EventKind::StreamFailed { failure, reuse },
            ResponseEnd::Message => EventKind::Message(ONE_MESSAGE),
        }
    }

    #[inline]
    pub(super) fn received(&self) -> ResponseProgress {
        ResponseProgress {
            status: self.status,
            first_byte: self.first_byte,
            bytes: self.bytes_in,
            body_bytes: self.kind.earlier_body_bytes() + self.body.length(),
        }
    }

    /// Removes and returns the exchange's messages so far.
    pub(super) fn take_messages(&mut self) -> Vec<EarlierResponse> {
        self.kind.take_messages()
    }
}

/// The counts of one message that isn't an event of a stream.
const ONE_MESSAGE: EventCounts = EventCounts {
    events: 1,
    others: 0,
    chars: 0,
};

/// Appends an event for completed messages, if there are any.
#[inline]
fn push_messages(counts: EventCounts, stream: u32, events: &mut Vec<ExchangeEvent>) {
    if !counts.is_empty() {
        let kind = EventKind::Message(counts);
        events.push(ExchangeEvent { stream, kind });
    }
}
