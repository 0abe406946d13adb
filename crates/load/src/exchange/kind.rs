//! The interface of a kind of exchange.

use prony_protocol::GrpcCall;
pub use prony_protocol::event_stream::EventCounts;
use prony_record::{CallFailure, Outcome};

use super::stream_failure::StreamFailure;

/// A complete response.
#[derive(Debug, Clone, Copy)]
pub struct CompleteResponse<'a> {
    /// Status code.
    pub status: u16,
    /// Length of the body in bytes.
    pub length: u64,
    /// Outcome by the load's expectations about status, size and hash.
    pub outcome: Outcome,
    /// The gRPC call to which this was the response, if it was one.
    pub call: Option<GrpcCall>,
    /// The captured part of the head; empty if heads are not captured.
    pub head: &'a [u8],
    /// The captured part of the body; empty if bodies are not captured.
    pub body: &'a [u8],
}

/// The consequence of a complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEnd {
    /// The exchange ends.
    Exchange(Outcome),
    /// The exchange ends, because the gRPC call failed.
    FailedCall(CallFailure),
    /// The exchange ends, because its stream is incomplete or couldn't be read.
    FailedStream(StreamFailure),
    /// The response is a message of the exchange, and another response follows on the connection.
    Message,
}

/// A kind of exchange: reads the response while it arrives. Input is split anywhere.
pub trait ExchangeKind {
    /// The head of the response arrived. `fields` is its captured part.
    fn head(&mut self, _status: u16, _fields: &[u8]) {}

    /// A part of the body arrived. Returns the numbers of messages that it completes.
    fn body(&mut self, _bytes: &[u8]) -> EventCounts {
        EventCounts::default()
    }

    /// The body bytes so far end a frame: a chunk of HTTP/1.1, or a DATA frame. Returns the numbers
    /// of messages that this completes.
    fn end_frame(&mut self) -> EventCounts {
        EventCounts::default()
    }

    /// The body is complete. Returns the numbers of messages that this completes.
    fn finish_body(&mut self) -> EventCounts {
        EventCounts::default()
    }

    /// The trailers arrived.
    fn trailers(&mut self) {}

    /// The response is complete.
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd;
}
