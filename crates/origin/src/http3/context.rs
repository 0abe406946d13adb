//! State that the requests of an HTTP/3 connection share.

use std::rc::Rc;

use bytes::Bytes;
use h3::error::Code;
use h3::server::RequestStream;
use tokio::sync::Notify;

use super::transport::{SendHalf, varint};
use crate::connection::ThreadContext;

/// The sending side of a request's stream, to which h3 writes frames.
pub(super) type ResponseStream = RequestStream<SendHalf, Bytes>;

/// State that the requests of an HTTP/3 connection share.
pub(super) struct ConnectionContext {
    pub(super) quic: quinn::Connection,
    pub(super) thread: Rc<ThreadContext>,
    /// Notified when the connection should end after the current responses.
    pub(super) go_away: Notify,
}

impl ConnectionContext {
    /// Closes the connection immediately, without waiting for its streams.
    pub(super) fn close(&self, code: Code) {
        self.quic.close(varint(code.value()), b"");
    }
}

/// State of a stream after its response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The stream is finished, but the client has not acknowledged it yet.
    Finished,
    /// The stream is finished, and the connection closes when the client has acknowledged it.
    EndsConnection,
    /// The stream was reset, or was lost with its connection.
    Aborted,
}
