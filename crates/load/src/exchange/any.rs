//! An exchange of any kind: the only place that lists them all.

use std::sync::Arc;

use prony_protocol::event_stream::EventSyntax;

use super::batch::{Batch, EarlierResponse};
use super::call::{Call, CallRules};
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
    /// A gRPC call.
    Call {
        /// True if the response may have any number of messages, each of which has a time of its
        /// own.
        is_stream: bool,
    },
    /// This number of pipelined requests, at least two, and their responses.
    Batch(u32),
}

impl RequestKind {
    /// Returns true if the response is a stream, in a load that has streams.
    #[inline]
    pub(crate) fn may_stream(self) -> bool {
        !matches!(
            self,
            RequestKind::Unstreamed | RequestKind::Call { is_stream: false }
        )
    }
}

/// The way in which the responses of a load are read.
#[derive(Debug, Clone)]
pub(crate) enum ResponseReading {
    /// Each as a whole.
    Whole,
    /// As streams of events.
    Events(Arc<EventSyntax>),
    /// As responses to gRPC calls.
    Calls(CallRules),
    /// As messages that arrive on several WebSockets.
    Deliveries,
}

/// An exchange of any kind.
#[derive(Debug)]
pub(crate) enum AnyKind {
    Single(SingleResponse),
    Batch(Box<Batch>),
    Events(Box<EventStream>),
    Call(Box<Call>),
}

impl AnyKind {
    /// Begins an exchange of this kind, in place of an earlier one. The load's way of reading
    /// responses applies to single responses.
    #[inline]
    pub(crate) fn begin(&mut self, kind: RequestKind, reading: &ResponseReading) {
        match (kind, reading) {
            (RequestKind::Call { is_stream }, ResponseReading::Calls(rules)) => {
                self.begin_call(*rules, is_stream);
            }
            (RequestKind::Single, ResponseReading::Events(syntax)) => self.begin_stream(syntax),
            (RequestKind::Single | RequestKind::Unstreamed | RequestKind::Call { .. }, _) => {
                *self = AnyKind::Single(SingleResponse);
            }
            (RequestKind::Batch(responses), _) => {
                *self = AnyKind::Batch(Box::new(Batch::new(responses)));
            }
        }
    }

    /// Begins a call, with the memory of an earlier one if there is one.
    fn begin_call(&mut self, rules: CallRules, is_stream: bool) {
        let new = Call::new(rules, is_stream);
        match self {
            AnyKind::Call(call) => **call = new,
            other => *other = AnyKind::Call(Box::new(new)),
        }
    }

    #[cold]
    fn begin_stream(&mut self, syntax: &EventSyntax) {
        *self = AnyKind::Events(Box::new(EventStream::new(syntax)));
    }

    /// Returns true if the response is a stream of events: ends of frames, and the end of the body, may then
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
            AnyKind::Single(_) | AnyKind::Events(_) | AnyKind::Call(_) => 0,
        }
    }

    /// Removes and returns the responses that were messages.
    pub(crate) fn take_messages(&mut self) -> Vec<EarlierResponse> {
        match self {
            AnyKind::Batch(batch) => batch.take(),
            AnyKind::Single(_) | AnyKind::Events(_) | AnyKind::Call(_) => Vec::new(),
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
            AnyKind::Call($kind) => $call,
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
