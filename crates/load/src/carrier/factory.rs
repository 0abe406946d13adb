//! Creates carriers, and reuses the memory of closed ones.

use std::sync::Arc;

use super::Reason;
use super::any::AnyCarrier;
use super::http1::H1;
use super::http2::H2;
use super::http3::H3;
use super::interface::Carrier;
use super::websocket::{Http2Sockets, WebSocket};
use crate::quic::QuicConnection;
use crate::request::protocols::Protocols;
use crate::request::script::CaptureSpec;
use crate::request::websocket::Upgrade;

/// Maximum number of carriers of closed connections that are kept for reuse, per HTTP version.
const SPARE_MAX: usize = 64;

/// Creates the carriers of a worker's connections.
#[derive(Default)]
pub(crate) struct CarrierFactory {
    protocols: Protocols,
    capture: CaptureSpec,
    hashes_bodies: bool,
    /// The handshake of WebSockets, if connections become these.
    upgrade: Option<Arc<Upgrade>>,
    spare_h1: Vec<H1>,
    spare_h2: Vec<H2>,
    spare_h3: Vec<H3>,
}

impl CarrierFactory {
    /// Creates a factory for connections that may use these protocols.
    pub(crate) fn new(protocols: Protocols) -> CarrierFactory {
        CarrierFactory {
            protocols,
            ..CarrierFactory::default()
        }
    }

    /// Makes the carriers capture parts of each response.
    pub(crate) fn with_capture(mut self, capture: CaptureSpec) -> CarrierFactory {
        self.capture = capture;
        self
    }

    /// Makes each connection a WebSocket.
    pub(crate) fn with_upgrade(mut self, upgrade: Option<Arc<Upgrade>>) -> CarrierFactory {
        self.upgrade = upgrade;
        self
    }

    /// Makes the carriers hash each body, for [`Carrier::take_hash`].
    pub(crate) fn with_body_hashes(mut self) -> CarrierFactory {
        self.hashes_bodies = true;
        self
    }

    /// The HTTP versions that a connection may use.
    pub(crate) fn protocols(&self) -> Protocols {
        self.protocols
    }

    /// Creates a carrier for a cleartext connection.
    pub(super) fn cleartext(&mut self) -> AnyCarrier {
        if self.protocols.is_http2_only() {
            self.h2()
        } else {
            self.h1()
        }
    }

    /// Creates a carrier of HTTP/1, or of the WebSocket that it opens.
    pub(super) fn h1(&mut self) -> AnyCarrier {
        if let Some(upgrade) = &self.upgrade {
            let socket = WebSocket::new(upgrade.clone());
            return self.prepared(AnyCarrier::WebSocket(Box::new(socket)));
        }
        let h1 = self.spare_h1.pop().unwrap_or_else(|| H1::new(self.capture));
        self.prepared(AnyCarrier::Http1(h1))
    }

    /// Creates a carrier of HTTP/2, or of the WebSockets on its streams.
    pub(super) fn h2(&mut self) -> AnyCarrier {
        if let Some(upgrade) = &self.upgrade {
            let sockets = Http2Sockets::new(upgrade.clone(), self.protocols.streams);
            return self.prepared(AnyCarrier::Http2Sockets(Box::new(sockets)));
        }
        let h2 = self.spare_h2.pop();
        let h2 = h2.unwrap_or_else(|| H2::new(self.protocols.streams, self.capture));
        self.prepared(AnyCarrier::Http2(Box::new(h2)))
    }

    /// Creates a carrier of HTTP/3, which opens its streams on an established connection.
    ///
    /// # Errors
    ///
    /// The server allows too few streams.
    pub(super) fn h3(&mut self, quic: &mut QuicConnection) -> Result<AnyCarrier, Reason> {
        let h3 = self.spare_h3.pop();
        let mut h3 = h3.unwrap_or_else(|| H3::new(self.protocols.streams, self.capture));
        h3.open(quic)?;
        Ok(self.prepared(AnyCarrier::Http3(Box::new(h3))))
    }

    fn prepared(&self, mut carrier: AnyCarrier) -> AnyCarrier {
        if self.hashes_bodies {
            carrier.hash_bodies();
        }
        carrier
    }

    /// Keeps the memory of a closed connection's carrier for reuse.
    pub(super) fn recycle(&mut self, carrier: AnyCarrier) {
        match carrier {
            AnyCarrier::Http1(h1) if self.spare_h1.len() < SPARE_MAX => {
                self.spare_h1.push(h1.renewed());
            }
            AnyCarrier::Http2(h2) if self.spare_h2.len() < SPARE_MAX => {
                self.spare_h2.push(h2.renewed());
            }
            AnyCarrier::Http3(h3) if self.spare_h3.len() < SPARE_MAX => {
                self.spare_h3.push(h3.renewed());
            }
            _ => {}
        }
    }
}
