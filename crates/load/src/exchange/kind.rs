//! The interface of a kind of exchange.

use prony_protocol::GrpcCall;
use prony_record::Outcome;

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
    /// The exchange ends, because the gRPC call failed with this status, or without a status.
    FailedCall(Option<u16>),
    /// The response is a message of the exchange, and another response follows on the connection.
    Message,
}

/// A kind of exchange: reads the response while it arrives. Input is split anywhere.
pub trait ExchangeKind {
    /// The head of the response arrived.
    fn head(&mut self, _status: u16) {}

    /// A part of the body arrived. Returns the number of messages that it completes.
    fn body(&mut self, _bytes: &[u8]) -> u32 {
        0
    }

    /// The trailers arrived.
    fn trailers(&mut self) {}

    /// The response is complete.
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd;
}
