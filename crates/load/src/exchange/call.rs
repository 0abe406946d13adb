//! A gRPC call: a request with one or more messages, and a response with messages and a status.

use prony_protocol::GrpcCall;
use prony_protocol::grpc::{MessageFault, MessageReader};
use prony_record::{CallFailure, Outcome};

use super::kind::{CompleteResponse, EventCounts, ExchangeKind, ResponseEnd};
use super::single::failure_of;

/// Rules for the responses of a load's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallRules {
    /// Maximum length of a message in bytes.
    pub(crate) message_bytes_max: u32,
    /// True if the requests accept compressed messages.
    pub(crate) accepts_compressed: bool,
    /// True if some responses are streams of messages, each of which has a time of its own.
    pub(crate) has_streams: bool,
}

/// A gRPC call whose response is being received.
#[derive(Debug)]
pub(crate) struct Call {
    reader: MessageReader,
    is_stream: bool,
    messages: u32,
    fault: Option<MessageFault>,
}

impl Call {
    pub(super) fn new(rules: CallRules, is_stream: bool) -> Call {
        Call {
            reader: MessageReader::new(rules.message_bytes_max, rules.accepts_compressed),
            is_stream,
            messages: 0,
            fault: None,
        }
    }

    /// Returns the reason why the call failed; `None` if it succeeded.
    #[inline]
    fn failure(&self, call: Option<GrpcCall>, body_bytes: u64) -> Option<CallFailure> {
        let Some(call) = call else {
            return Some(CallFailure::ContentType);
        };
        match self.fault {
            Some(MessageFault::Flag) => return Some(CallFailure::Frame),
            Some(MessageFault::Compressed) => return Some(CallFailure::Compression),
            Some(MessageFault::TooLong) => return Some(CallFailure::MessageSize),
            None => {}
        }
        if call.is_in_head && body_bytes > 0 {
            return Some(CallFailure::Trailers);
        }
        // A call that fails may end anywhere.
        if call.status != Some(0) {
            return Some(failure_of(call));
        }
        if !self.reader.is_between_messages() {
            return Some(CallFailure::Frame);
        }
        (!self.is_stream && self.messages != 1).then_some(CallFailure::MessageCount)
    }
}

impl ExchangeKind for Call {
    #[inline]
    fn body(&mut self, bytes: &[u8]) -> EventCounts {
        if self.fault.is_some() {
            return EventCounts::default();
        }
        let complete = match self.reader.read(bytes) {
            Ok(complete) => complete,
            Err(fault) => {
                self.fault = Some(fault);
                0
            }
        };
        self.messages = self.messages.saturating_add(complete);
        EventCounts {
            events: if self.is_stream { complete } else { 0 },
            ..EventCounts::default()
        }
    }

    #[inline]
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        // The expectations about the status of HTTP come first.
        match response.outcome {
            Outcome::Ok => match self.failure(response.call, response.length) {
                Some(failure) => ResponseEnd::FailedCall(failure),
                None => ResponseEnd::Exchange(Outcome::Ok),
            },
            outcome => ResponseEnd::Exchange(outcome),
        }
    }
}
