//! An exchange of any kind: the only place that lists them all.

use super::batch::{Batch, EarlierResponse};
use super::kind::{CompleteResponse, ExchangeKind, ResponseEnd};
use super::single::SingleResponse;

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
            RequestKind::Single => AnyKind::Single(SingleResponse),
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

/// Calls a method of the kind, whichever it is.
macro_rules! each {
    ($any:expr, $kind:ident => $call:expr) => {
        match $any {
            AnyKind::Single($kind) => $call,
            AnyKind::Batch($kind) => $call,
        }
    };
}

impl ExchangeKind for AnyKind {
    #[inline]
    fn head(&mut self, status: u16) {
        each!(self, kind => kind.head(status));
    }

    #[inline]
    fn body(&mut self, bytes: &[u8]) -> u32 {
        each!(self, kind => kind.body(bytes))
    }

    fn trailers(&mut self) {
        each!(self, kind => kind.trailers());
    }

    #[inline(always)]
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        each!(self, kind => kind.end(response))
    }
}
