//! Carriers: the protocols of connections, without their sockets. Input and output are bytes or
//! streams. This module uses no clock.
//!
//! ```text
//!  worker ──► Transport ──► Link ──► Session ──► carrier: Http1, Http2, Http3, WebSocket
//!                │           │          └ TLS
//!             sockets   state of the setup
//! ```
//!
//! A carrier implements the [`Carrier`] interface and reports [`ExchangeEvent`]s. The worker knows no
//! protocol by name: it uses that interface, and a [`Transport`], which connects carriers to the
//! sockets of one kind.
//!
//! A new protocol is a file here, a variant of `AnyCarrier` (`any.rs`), a way to create it
//! (`factory.rs`, and `state.rs` if the handshake selects it), and the encoding of its requests
//! (`request/encodings.rs`). Besides these, only `session.rs` names protocols: requests of HTTP/1
//! are sent from their own memory, and HTTP/3 has negotiated TLS itself.

mod any;
mod call_explanation;
mod captured;
mod events;
mod factory;
mod fault;
mod http1;
mod http2;
mod http3;
mod interface;
mod link;
mod reason;
mod response;
mod session;
mod state;
mod transport;
mod tunnel;
mod websocket;

use crate::tls;

pub(crate) use call_explanation::CallExplanation;
pub(crate) use captured::CapturedResponse;
pub(crate) use events::{
    EventKind, ExchangeEvent, Progress, RequestCapacity, ResponseProgress, Reuse, Secured,
};
pub(crate) use factory::CarrierFactory;
pub(crate) use fault::StreamFault;
pub(crate) use interface::{ByteCarrier, Carrier, RequestRef, StartFailure};
pub(crate) use link::{Link, SendState};
pub(crate) use reason::Reason;
pub(crate) use session::{Session, SessionLife};
pub(crate) use state::ConnectionState;
pub(crate) use transport::{
    ByteTransport, Established, SetupStep, SetupTarget, SharedState, StreamTransport, Transport,
};

/// Memory that all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct SharedBuffers {
    tls: tls::TlsBuffers,
    /// Output of a carrier that TLS has yet to encrypt.
    plain: Vec<u8>,
    /// Events that resulted from the last received bytes.
    pub(crate) events: Vec<ExchangeEvent>,
}
