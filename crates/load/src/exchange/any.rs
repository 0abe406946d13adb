//! An exchange of any kind: the only place that lists them all.

use prony_protocol::event_stream::EventSyntax;

use super::batch::{Batch, EarlierResponse};
use super::events::EventStream;
use super::kind::{CompleteResponse, EventCounts, ExchangeKind, ResponseEnd};
use super::single::SingleResponse;

/// The kind of exchange that a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// One request and its response.
    Single,
    /// One request and its response, which is no stream even if the load has events.
    Unstreamed,
    /// This number of pipelined requests, at least two, and their responses.
    Batch(u32),
}

/// An exchange of any kind.
#[derive(Debug)]
pub(crate) enum AnyKind {
    Single(SingleResponse),
    Batch(Box<Batch>),
    Events(Box<EventStream>),
}

impl AnyKind {
    /// Begins an exchange of this kind. If the load has events, a single response is a stream of
    /// them.
    #[inline]
    pub(crate) fn begin(kind: RequestKind, events: Option<&EventSyntax>) -> AnyKind {
        match kind {
            RequestKind::Single if events.is_some() => AnyKind::begin_stream(events),
            RequestKind::Single | RequestKind::Unstreamed => AnyKind::Single(SingleResponse),
            RequestKind::Batch(responses) => AnyKind::Batch(Box::new(Batch::new(responses))),
        }
    }

    #[cold]
    fn begin_stream(events: Option<&EventSyntax>) -> AnyKind {
        events.map_or(AnyKind::Single(SingleResponse), |syntax| {
            AnyKind::Events(Box::new(EventStream::new(syntax)))
        })
    }

    /// Returns true if the response is a stream: ends of frames, and the end of the body, may then
    /// complete messages.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, AnyKind::Events(_))
    }

    /// Length of the bodies of the responses that were messages.
    #[inline]
    pub(crate) fn earlier_body_bytes(&self) -> u64 {
        match self {
            AnyKind::Batch(batch) => batch.earlier_body_bytes(),
            AnyKind::Single(_) | AnyKind::Events(_) => 0,
        }
    }

    /// Removes and returns the responses that were messages.
    pub(crate) fn take_messages(&mut self) -> Vec<EarlierResponse> {
        match self {
            AnyKind::Batch(batch) => batch.take(),
            AnyKind::Single(_) | AnyKind::Events(_) => Vec::new(),
        }
    }
}

impl Default for AnyKind {
    fn default() -> AnyKind {
        AnyKind::Single(SingleResponse)
    }
}

/// Calls a method of the kind, whichever it is.
macro_rules! each {
    ($any:expr, $kind:ident => $call:expr) => {
        match $any {
            AnyKind::Single($kind) => $call,
            AnyKind::Batch($kind) => $call,
            AnyKind::Events($kind) => $call,
        }
    };
}

impl ExchangeKind for AnyKind {
    #[inline]
    fn head(&mut self, status: u16, fields: &[u8]) {
        each!(self, kind => kind.head(status, fields));
    }

    #[inline]
    fn body(&mut self, bytes: &[u8]) -> EventCounts {
        each!(self, kind => kind.body(bytes))
    }

    fn end_frame(&mut self) -> EventCounts {
        each!(self, kind => kind.end_frame())
    }

    fn finish_body(&mut self) -> EventCounts {
        each!(self, kind => kind.finish_body())
    }

    fn trailers(&mut self) {
        each!(self, kind => kind.trailers());
    }

    #[inline(always)]
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        each!(self, kind => kind.end(response))
    }
}
