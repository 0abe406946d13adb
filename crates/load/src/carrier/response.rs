//! The received part of the response on one stream.

use prony_protocol::GrpcCall;
use prony_record::{Nanos, Outcome};

use super::CapturedResponse;
use super::events::{EventKind, ResponseProgress, Reuse};
use crate::expect::{Expectations, ReceivedBody};
use crate::script::CaptureSpec;

/// The received part of a response.
#[derive(Default)]
pub(super) struct StreamResponse {
    pub(super) status: Option<u16>,
    pub(super) first_byte: Option<Nanos>,
    pub(super) bytes_in: u64,
    pub(super) body: ReceivedBody,
    pub(super) captured: Option<Box<CapturedResponse>>,
}

impl StreamResponse {
    /// Creates a response whose buffers are reused by later responses on the stream.
    pub(super) fn new(capture: CaptureSpec) -> StreamResponse {
        StreamResponse {
            captured: CapturedResponse::new(capture).map(Box::new),
            ..StreamResponse::default()
        }
    }

    /// Discards the previous response and prepares for the next one.
    #[inline]
    pub(super) fn start(&mut self, expected: &Expectations) {
        self.status = None;
        self.first_byte = None;
        self.bytes_in = 0;
        self.body.start(expected);
        if let Some(captured) = &mut self.captured {
            captured.start();
        }
    }

    /// Prepares for the next response of a batch, which counts as a part of the same response.
    pub(super) fn next_of_batch(&mut self, expected: &Expectations) {
        self.status = None;
        self.body.start(expected);
        if let Some(captured) = &mut self.captured {
            captured.start();
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

    /// Adds part of the body.
    #[inline]
    pub(super) fn add_body(&mut self, bytes: &[u8]) {
        self.body.add(bytes);
        if let Some(captured) = &mut self.captured {
            captured.add_body(bytes);
        }
    }

    /// Returns the outcome of the complete response.
    #[inline]
    pub(super) fn judge(&mut self, expected: &Expectations) -> Outcome {
        self.body.judge(self.status.unwrap_or(0), expected)
    }

    /// Returns the event of the complete response. `call` is the gRPC call that it belongs to.
    #[inline]
    pub(super) fn end(&mut self, expected: &Expectations, call: Option<GrpcCall>) -> EventKind {
        let outcome = self.judge(expected);
        match call {
            Some(GrpcCall { status }) if outcome == Outcome::Ok && status != Some(0) => {
                EventKind::CallFailed { status }
            }
            _ => EventKind::Response {
                outcome,
                reuse: Reuse::Allowed,
            },
        }
    }

    #[inline]
    pub(super) fn received(&self) -> ResponseProgress {
        ResponseProgress {
            status: self.status,
            first_byte: self.first_byte,
            bytes: self.bytes_in,
            body_bytes: self.body.length(),
        }
    }
}
