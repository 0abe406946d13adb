//! Exchanges: what occupies a request slot.
//!
//! An exchange begins at its intended time, has events, and ends with exactly one outcome:
//!
//! | event | reported by |
//! |---|---|
//! | sent: the first byte was passed to the socket | the worker |
//! | first byte: the first byte of the response arrived | the carrier |
//! | message: a part of the response that is complete in itself arrived | the kind |
//! | trailers | the carrier |
//! | end | the kind or, if the exchange fails, the carrier or the worker |
//!
//! Its *kind* ([`ExchangeKind`]) reads the response as it arrives and decides what is a message,
//! what ends the exchange, and the outcome. A request with one response ([`SingleResponse`]) is the
//! simplest kind; a batch of pipelined requests (`batch`) has a message for each response but the
//! last. A streamed response (`events`) has one for each event, and a gRPC call (`call`) whose method
//! streams has one for each message.
//!
//! A new kind is a file here, a variant of `RequestKind` and of `AnyKind`, and the setting that
//! makes requests of this kind. The carriers and transports stay as they are, and the worker only
//! has to record what a message means. The example `exchange_kind` shows one.
//!
//! A kind reads one response after another, so it can't end an exchange in the middle of a response,
//! and it sends nothing after the request.

mod any;
mod batch;
mod call;
mod events;
mod kind;
mod single;
mod stream_failure;

pub(crate) use any::{AnyKind, RequestKind, ResponseReading};
pub(crate) use batch::EarlierResponse;
pub(crate) use call::CallRules;
pub use kind::{CompleteResponse, EventCounts, ExchangeKind, ResponseEnd};
pub use single::SingleResponse;
pub use stream_failure::StreamFailure;
