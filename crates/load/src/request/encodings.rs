//! The encodings of a request, for the HTTP versions that may carry it.

use prony_protocol::websocket::Opcode;
use prony_protocol::{h2, h3};

/// A request, encoded for each HTTP version that may carry it.
#[derive(Debug, Clone)]
pub(crate) enum Encodings {
    /// Head and body.
    Http1(Vec<u8>),
    /// Frames.
    Http2(h2::EncodedRequest),
    /// Both, because ALPN selects the version for each connection.
    Http1Or2 {
        http1: Vec<u8>,
        http2: h2::EncodedRequest,
    },
    /// Frames.
    Http3(h3::EncodedRequest),
    /// A message of a WebSocket. Its frame is written for each WebSocket, because the mask differs.
    Message { opcode: Opcode, payload: Vec<u8> },
}

impl Encodings {
    /// Head and body for HTTP/1, or the payload of a message; empty if only later versions of HTTP
    /// are possible.
    #[inline]
    pub(crate) fn http1(&self) -> &[u8] {
        match self {
            Encodings::Http1(http1)
            | Encodings::Http1Or2 { http1, .. }
            | Encodings::Message { payload: http1, .. } => http1,
            Encodings::Http2(_) | Encodings::Http3(_) => &[],
        }
    }

    /// Frames for HTTP/2, if it is possible.
    #[inline]
    pub(crate) fn http2(&self) -> Option<&h2::EncodedRequest> {
        match self {
            Encodings::Http2(http2) | Encodings::Http1Or2 { http2, .. } => Some(http2),
            Encodings::Http1(_) | Encodings::Http3(_) | Encodings::Message { .. } => None,
        }
    }

    /// Opcode and payload, if this is a message.
    pub(crate) fn message(&self) -> Option<(Opcode, &[u8])> {
        match self {
            Encodings::Message { opcode, payload } => Some((*opcode, payload)),
            _ => None,
        }
    }

    /// Frames for HTTP/3, if it is used.
    #[inline]
    pub(crate) fn http3(&self) -> Option<&h3::EncodedRequest> {
        match self {
            Encodings::Http3(http3) => Some(http3),
            _ => None,
        }
    }

    /// The buffer of [`Encodings::http1`].
    pub(crate) fn http1_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Encodings::Http1(http1)
            | Encodings::Http1Or2 { http1, .. }
            | Encodings::Message { payload: http1, .. } => Some(http1),
            Encodings::Http2(_) | Encodings::Http3(_) => None,
        }
    }

    /// The buffers of [`Encodings::http2`].
    pub(crate) fn http2_mut(&mut self) -> Option<&mut h2::EncodedRequest> {
        match self {
            Encodings::Http2(http2) | Encodings::Http1Or2 { http2, .. } => Some(http2),
            Encodings::Http1(_) | Encodings::Http3(_) | Encodings::Message { .. } => None,
        }
    }

    /// The buffers of [`Encodings::http3`].
    pub(crate) fn http3_mut(&mut self) -> Option<&mut h3::EncodedRequest> {
        match self {
            Encodings::Http3(http3) => Some(http3),
            _ => None,
        }
    }

    /// Changes to the versions of `other`. The buffers are kept if these are the same versions, and
    /// are otherwise empty.
    pub(crate) fn adopt_versions(&mut self, other: &Encodings) {
        *self = match (&self, other) {
            (Encodings::Http1(_), Encodings::Http1(_))
            | (Encodings::Http2(_), Encodings::Http2(_))
            | (Encodings::Http1Or2 { .. }, Encodings::Http1Or2 { .. })
            | (Encodings::Http3(_), Encodings::Http3(_))
            | (Encodings::Message { .. }, Encodings::Message { .. }) => return,
            (_, Encodings::Http1(_)) => Encodings::Http1(Vec::new()),
            (_, Encodings::Http2(_)) => Encodings::Http2(h2::EncodedRequest::default()),
            (_, Encodings::Http1Or2 { .. }) => Encodings::Http1Or2 {
                http1: Vec::new(),
                http2: h2::EncodedRequest::default(),
            },
            (_, Encodings::Http3(_)) => Encodings::Http3(h3::EncodedRequest::default()),
            (_, Encodings::Message { opcode, .. }) => Encodings::Message {
                opcode: *opcode,
                payload: Vec::new(),
            },
        };
    }

    /// Number of bytes in all encodings.
    pub(crate) fn len(&self) -> usize {
        let http2 = self.http2().map_or(0, h2::EncodedRequest::wire_bytes) as usize;
        let http3 = self.http3().map_or(0, |http3| http3.wire().len());
        self.http1().len() + http2 + http3
    }
}
