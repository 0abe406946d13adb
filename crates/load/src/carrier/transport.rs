//! Transports connect carriers to sockets: one kind for sockets that carry bytes, and one for those
//! that carry streams.

mod bytes;
mod streams;

use std::io;

use prony_record::{Nanos, Outcome, TlsHandshake};
use rustls::pki_types::ServerName;

pub(crate) use bytes::ByteTransport;
pub(crate) use streams::StreamTransport;

use super::events::Progress;
use super::factory::CarrierFactory;
use super::interface::{RequestRef, StartFailure, Started};
use super::link::Link;
use super::{Reason, SharedBuffers};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::socket::{Key, Sockets};
use crate::tls::{GivenTlsOptions, TlsClient};

/// The tunnel and the TLS settings that a new connection needs.
#[derive(Clone, Copy)]
pub(crate) struct SetupTarget<'a> {
    /// The request for a tunnel, if the connection leads to a proxy that must open one.
    pub(crate) tunnel: Option<&'a [u8]>,
    /// The TLS client and the server's name, if the target uses TLS.
    pub(crate) tls: Option<(&'a TlsClient, &'a ServerName<'static>)>,
}

/// A step in setting up a connection.
#[derive(Debug)]
pub(crate) enum SetupStep {
    /// The proxy must respond to the request for a tunnel, which is the connection's output.
    TunnelRequested,
    /// The connect took this long, and the TLS handshake begins. Its first flight is the
    /// connection's output.
    HandshakeBegun {
        connect: Nanos,
        started: Result<(), Reason>,
    },
    /// The connection can carry exchanges.
    Established(Established),
    /// The connection can carry exchanges as early data, while the handshake continues.
    Early,
    /// The connection is established, but can't carry exchanges.
    Unusable(Outcome, Reason),
}

/// An established connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Established {
    /// Duration of the connect. With QUIC, it includes the handshake.
    pub(crate) connect: Nanos,
    pub(crate) handshake: Option<TlsHandshake>,
}

/// Memory and settings that all connections of a worker share.
pub(crate) struct SharedState<'a> {
    pub(crate) factory: &'a mut CarrierFactory,
    pub(crate) buffers: &'a mut SharedBuffers,
    pub(crate) expected: &'a Expectations,
}

/// The sockets of a worker, with everything between them and the carriers.
///
/// The functions take the connection's [`Key`] and its [`Link`].
pub(crate) trait Transport<'run> {
    /// The sockets of this transport.
    type Sockets: Sockets;

    fn sockets(&self) -> &Self::Sockets;

    fn sockets_mut(&mut self) -> &mut Self::Sockets;

    /// Continues the setup of a connection whose socket has connected.
    fn connected(
        &mut self,
        key: Key,
        link: &mut Link,
        target: SetupTarget<'_>,
        factory: &mut CarrierFactory,
        now: Nanos,
    ) -> SetupStep;

    /// Continues the setup of a connection whose proxy has opened the tunnel.
    fn tunneled(&mut self, link: &mut Link, target: SetupTarget<'_>, now: Nanos) -> SetupStep;

    /// Returns the outcome of a connect that failed with this error, and the reason.
    fn connect_failure(&self, error: &io::Error, given: GivenTlsOptions) -> (Outcome, Reason);

    /// Number of bytes of the `Received` that the sockets returned last.
    fn received_bytes(&self) -> usize;

    /// Processes what arrived on a connection, and appends the resulting events to the buffers. Must
    /// be called again after [`Progress::EarlyDataEnded`].
    fn receive(
        &mut self,
        key: Key,
        link: &mut Link,
        shared: SharedState<'_>,
        now: Nanos,
    ) -> Progress;

    /// Acknowledges the bytes received so far immediately. Returns false if the transport can't.
    fn acknowledge(&mut self, key: Key) -> bool;

    /// Starts an exchange on a ready connection.
    ///
    /// # Errors
    ///
    /// See [`StartFailure`].
    fn start(
        &mut self,
        key: Key,
        link: &mut Link,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure>;

    /// Sends the output of a connection. If a send is in flight, the output is sent after it.
    /// `request_of` returns the request of a stream's exchange.
    fn send_output<'a>(
        &mut self,
        key: Key,
        link: &mut Link,
        buffers: &mut SharedBuffers,
        request_of: impl Fn(u32) -> Option<RequestRef<'run, 'a>>,
    ) where
        'run: 'a;

    /// Sends output that waits for the first request of a connection, without that request.
    fn send_waiting_output(&mut self, key: Key, link: &mut Link);

    /// Sends what [`Transport::send_output`] has left to be sent together.
    fn flush(&mut self);

    /// Number of bytes of a stream's request that have not been sent. `is_alone` is true if its
    /// exchange is the only one in flight on the connection.
    fn unsent(&self, key: Key, link: &Link, stream: u32, request: &Request, is_alone: bool) -> u64;
}
