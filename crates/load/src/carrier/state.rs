//! The state of one connection, without its socket.
//!
//! ```text
//!  Vacant ─► Connecting ─► (Tunneling) ─► (Handshaking) ─► Ready ─► Draining ─► Vacant
//!     ▲ ▲         │             │               │            │
//!     │ └─────────┴─────────────┴───────────────┴────────────┘  closed or failed
//!     └── Backoff ◄─ connect or tunnel failed
//! ```

use prony_record::{Nanos, Outcome};
use rustls::pki_types::ServerName;

use super::events::{Progress, Secured};
use super::factory::CarrierFactory;
use super::interface::ByteCarrier;
use super::session::Session;
use super::tunnel::Tunnel;
use super::{Reason, SharedBuffers};
use crate::quic::QuicConnection;
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::tls::{self, PeerSpeaks, Tls};

/// The state of a connection. Each variant holds the data of that state.
#[derive(Default)]
pub(crate) enum ConnectionState {
    /// There is no connection. A request may open one.
    #[default]
    Vacant,
    /// The last connection attempt failed. A timer starts the next one.
    Backoff,
    /// A connect is in progress or waits to be retried.
    Connecting { since: Nanos },
    /// A tunnel was requested from a proxy.
    Tunneling { since: Nanos, tunnel: Tunnel },
    /// The TLS handshake is in progress. `connect` is the duration of the connect.
    Handshaking {
        connect: Nanos,
        since: Nanos,
        tls: Tls,
    },
    /// The connection is idle or has requests in flight.
    Ready(Session),
    /// The last response has arrived, and the peer gets a short time to close first. If it does,
    /// its side enters TIME_WAIT (RFC 9293 §3.6), and the load's ports stay free.
    Draining(Session),
}

impl ConnectionState {
    /// The session, if the connection is ready or draining.
    #[inline]
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            ConnectionState::Ready(session) | ConnectionState::Draining(session) => Some(session),
            _ => None,
        }
    }

    /// Mutable reference to the session, if the connection is ready or draining.
    #[inline]
    pub(crate) fn session_mut(&mut self) -> Option<&mut Session> {
        match self {
            ConnectionState::Ready(session) | ConnectionState::Draining(session) => Some(session),
            _ => None,
        }
    }

    /// Returns true if the connection is idle or has requests in flight.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, ConnectionState::Ready(_))
    }

    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self, ConnectionState::Draining(_))
    }

    /// Returns true if there is no connection.
    pub(crate) fn is_vacant(&self) -> bool {
        matches!(self, ConnectionState::Vacant)
    }

    /// Returns true if a connection is being established.
    pub(crate) fn is_being_made(&self) -> bool {
        use ConnectionState::{Connecting, Handshaking, Tunneling};
        matches!(
            self,
            Connecting { .. } | Tunneling { .. } | Handshaking { .. }
        )
    }

    /// Time at which the connect began; `None` once TLS begins.
    pub(crate) fn connecting_since(&self) -> Option<Nanos> {
        match self {
            ConnectionState::Connecting { since } | ConnectionState::Tunneling { since, .. } => {
                Some(*since)
            }
            _ => None,
        }
    }

    /// Requests a tunnel on a connection to a proxy.
    pub(crate) fn open_tunnel(&mut self, since: Nanos) {
        let tunnel = Tunnel::new();
        *self = ConnectionState::Tunneling { since, tunnel };
    }

    /// Makes a connection ready for cleartext requests.
    pub(crate) fn open_cleartext(&mut self, factory: &mut CarrierFactory) {
        *self = ConnectionState::Ready(Session::new(None, factory.cleartext()));
    }

    /// Makes a connection ready for requests on QUIC streams.
    ///
    /// # Errors
    ///
    /// The server allows too few streams.
    pub(super) fn open_streams(
        &mut self,
        factory: &mut CarrierFactory,
        quic: &mut QuicConnection,
    ) -> Result<(), Reason> {
        *self = ConnectionState::Ready(Session::new(None, factory.h3(quic)?));
        Ok(())
    }

    /// Starts TLS on a connection whose connect took `connect`. The first TLS flight is then
    /// available from [`ConnectionState::take_output`].
    ///
    /// # Errors
    ///
    /// TLS can't be started for this server name with these settings.
    pub(crate) fn open_tls(
        &mut self,
        client: &tls::TlsClient,
        name: &ServerName<'static>,
        connect: Nanos,
        now: Nanos,
    ) -> Result<(), Reason> {
        let tls = Tls::new(client, name)
            .map_err(|error| Reason::of_tls(&error, PeerSpeaks::Unknown, client.given))?;
        *self = ConnectionState::Handshaking {
            connect,
            since: now,
            tls,
        };
        Ok(())
    }

    /// Processes bytes from the peer and appends the resulting events to the buffers.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        factory: &mut CarrierFactory,
        expected: &Expectations,
        buffers: &mut SharedBuffers,
    ) -> Progress {
        match self {
            ConnectionState::Ready(session) | ConnectionState::Draining(session) => {
                session.receive(bytes, now, expected, buffers)
            }
            ConnectionState::Tunneling { tunnel, .. } => tunnel.receive(bytes),
            ConnectionState::Handshaking { .. } => {
                self.handshake(bytes, now, factory, expected, buffers)
            }
            ConnectionState::Vacant
            | ConnectionState::Backoff
            | ConnectionState::Connecting { .. } => Progress::Unsolicited,
        }
    }

    /// Processes bytes of the TLS handshake. Once the handshake is complete, the result of ALPN
    /// determines the HTTP version.
    #[cold]
    fn handshake(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        factory: &mut CarrierFactory,
        expected: &Expectations,
        buffers: &mut SharedBuffers,
    ) -> Progress {
        let ConnectionState::Handshaking {
            connect,
            since,
            tls,
        } = self
        else {
            return Progress::Open;
        };
        let early = match tls.receive(&mut bytes, &mut buffers.tls) {
            Ok(tls::TlsEvent::Secured { early }) => early,
            Ok(_) if tls.peer_has_closed() => return closed_in_handshake(),
            Ok(_) => return Progress::Open,
            Err(error) => {
                let reason = Reason::of_tls(&error, tls.peer_speaks(), tls.given());
                return Progress::Broken(Outcome::Tls, reason);
            }
        };
        let agreed = tls.agreed();
        let secured = Secured {
            connect: *connect,
            handshake: tls::NegotiatedTls::handshake_of(agreed, now.since(*since)),
        };
        let http = if agreed.and_then(|agreed| agreed.alpn) == Some(tls::HTTP2) {
            let mut http = factory.h2();
            let progress = http.receive(&early, now, expected, &mut buffers.events);
            if !matches!(progress, Progress::Open) {
                factory.recycle(http);
                return progress;
            }
            http
        } else if factory.protocols().is_http2_only() {
            return Progress::Broken(Outcome::Protocol, Reason::NoHttp2);
        } else if !early.is_empty() {
            // The server sent a response before any request.
            return super::http1::broken(prony_protocol::h1::Violation::BytesAfterEnd);
        } else {
            factory.h1()
        };
        if let ConnectionState::Handshaking { tls, .. } = std::mem::take(self) {
            *self = ConnectionState::Ready(Session::new(Some(tls), http));
        }
        Progress::Secured(secured)
    }

    /// Handles a close of the socket by the peer. A close during the TLS handshake counts as a
    /// handshake failure.
    pub(crate) fn peer_closed(
        &mut self,
        expected: &Expectations,
        buffers: &mut SharedBuffers,
    ) -> Progress {
        match self {
            ConnectionState::Ready(session) | ConnectionState::Draining(session) => {
                session.peer_closed(expected, buffers)
            }
            ConnectionState::Handshaking { .. } => closed_in_handshake(),
            _ => Progress::Closed,
        }
    }

    /// Appends the output: that of the handshake, or of the session. See [`Session::take_output`].
    pub(crate) fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        buffers: &mut SharedBuffers,
        out: &mut Vec<u8>,
    ) {
        match self {
            ConnectionState::Ready(session) | ConnectionState::Draining(session) => {
                session.take_output(limit, request_of, buffers, out);
            }
            ConnectionState::Handshaking { tls, .. } => tls.take_out(&[], out),
            _ => {}
        }
    }

    /// Changes the state to draining.
    pub(crate) fn drain(&mut self) {
        *self = match std::mem::take(self) {
            ConnectionState::Ready(session) => ConnectionState::Draining(session),
            other => other,
        };
    }

    /// Ends the connection and returns its memory to the factory.
    pub(crate) fn close(&mut self, factory: &mut CarrierFactory) {
        if let ConnectionState::Ready(session) | ConnectionState::Draining(session) =
            std::mem::take(self)
        {
            factory.recycle(session.carrier);
        }
    }
}

fn closed_in_handshake() -> Progress {
    let reason = "the server closed the connection during the TLS handshake";
    Progress::Broken(Outcome::Tls, Reason::Text(reason.to_owned()))
}
