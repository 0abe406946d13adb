//! Exchanges: what occupies a request slot.
//!
//! An exchange begins at its intended time, has events, and ends with exactly one outcome:
//!
//! | event | reported by |
//! |---|---|
//! | sent: the first byte was passed to the socket | the worker |
//! | first byte: the first byte of the response arrived | the carrier |
//! | message: a part of the response that is complete in itself arrived, and others follow | the kind |
//! | trailers | the carrier |
//! | end | the kind or, if the exchange fails, the carrier or the worker |
//!
//! Its *kind* ([`ExchangeKind`]) reads the response as it arrives and decides what is a message,
//! what ends the exchange, and the outcome. A request with one response ([`SingleResponse`]) is the
//! simplest kind; a batch of pipelined requests (`batch`) has a message for each response but the
//! last.
//!
//! A new kind is a file here, a variant of [`RequestKind`] and of `AnyKind`, and the setting that
//! makes requests of this kind. The carriers and the worker stay as they are. The example
//! `exchange_kind` shows one.

mod batch;
mod single;

use prony_protocol::GrpcCall;
use prony_record::Outcome;

pub(crate) use batch::EarlierResponse;
pub use single::SingleResponse;

use batch::Batch;

/// A complete response.
#[derive(Debug, Clone, Copy)]
pub struct CompleteResponse<'a> {
    /// Status code.
    pub status: u16,
    /// Length of the body in bytes.
    pub length: u64,
    /// Outcome by the load's expectations about status, size and hash.
    pub outcome: Outcome,
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
    /// The head of the response arrived. `call` is the gRPC call that it belongs to, if any.
    fn head(&mut self, _status: u16, _call: Option<GrpcCall>) {}

    /// A part of the body arrived. Returns the number of messages that it completes.
    fn body(&mut self, _bytes: &[u8]) -> u32 {
        0
    }

    /// The trailers arrived. `call` is the gRPC call that they belong to, if any.
    fn trailers(&mut self, _call: Option<GrpcCall>) {}

    /// The response is complete.
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd;
}

/// The kind of exchange that a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// One request and its response.
    Single,
    /// This number of pipelined requests, at least two, and their responses.
    Batch(u32),
}

/// An exchange of any kind.
#[derive(Debug)]
pub(crate) enum AnyKind {
    Single(SingleResponse),
    Batch(Box<Batch>),
}

impl AnyKind {
    /// Begins an exchange of this kind.
    #[inline]
    pub(crate) fn begin(kind: RequestKind) -> AnyKind {
        match kind {
            RequestKind::Single => AnyKind::Single(SingleResponse::default()),
            RequestKind::Batch(responses) => AnyKind::Batch(Box::new(Batch::new(responses))),
        }
    }

    /// Length of the bodies of the responses that were messages.
    #[inline]
    pub(crate) fn earlier_body_bytes(&self) -> u64 {
        match self {
            AnyKind::Batch(batch) => batch.earlier_body_bytes(),
            AnyKind::Single(_) => 0,
        }
    }

    /// Removes and returns the responses that were messages.
    pub(crate) fn take_messages(&mut self) -> Vec<EarlierResponse> {
        match self {
            AnyKind::Batch(batch) => batch.take(),
            AnyKind::Single(_) => Vec::new(),
        }
    }
}

impl Default for AnyKind {
    fn default() -> AnyKind {
        AnyKind::begin(RequestKind::Single)
    }
}

impl ExchangeKind for AnyKind {
    #[inline]
    fn head(&mut self, status: u16, call: Option<GrpcCall>) {
        match self {
            AnyKind::Single(kind) => kind.head(status, call),
            AnyKind::Batch(kind) => kind.head(status, call),
        }
    }

    #[inline]
    fn body(&mut self, bytes: &[u8]) -> u32 {
        match self {
            AnyKind::Single(kind) => kind.body(bytes),
            AnyKind::Batch(kind) => kind.body(bytes),
        }
    }

    fn trailers(&mut self, call: Option<GrpcCall>) {
        match self {
            AnyKind::Single(kind) => kind.trailers(call),
            AnyKind::Batch(kind) => kind.trailers(call),
        }
    }

    #[inline]
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        match self {
            AnyKind::Single(kind) => kind.end(response),
            AnyKind::Batch(kind) => kind.end(response),
        }
    }
}
