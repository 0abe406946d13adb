//! One connection without its socket: its state, TLS, and the HTTP state machine. Input and output
//! are bytes. This module uses no socket and no clock.
//!
//! Each HTTP version has its own state machine (`h1`, `h2`, `h3`). All report the same
//! [`HttpEvent`]s.

mod captured;
mod fault;
mod http;
mod http1;
mod http2;
mod http3;
mod pipeline;
mod reason;
mod response;
mod session;
mod state;
mod stream;
mod tunnel;

use crate::tls;

pub(crate) use captured::CapturedResponse;
pub(crate) use fault::{ResetCode, StreamFault};
pub(crate) use http::{HttpFactory, HttpMachine};
pub(crate) use http3::H3;
pub(crate) use pipeline::PipelinedResponse;
pub(crate) use reason::Reason;
pub(crate) use session::HttpSession;
pub(crate) use state::ConnectionState;
pub(crate) use stream::{
    EventKind, HttpEvent, Progress, RequestCapacity, ResponseProgress, Secured,
};

/// Memory that all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct SharedBuffers {
    tls: tls::TlsBuffers,
    /// HTTP/2 output that TLS has yet to encrypt.
    plain: Vec<u8>,
    /// Events that resulted from the last received bytes.
    pub(crate) events: Vec<HttpEvent>,
}
