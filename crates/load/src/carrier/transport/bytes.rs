//! Sockets that carry bytes, with TLS and proxies.

use std::io;

use prony_record::{Nanos, Outcome};

use super::super::events::Progress;
use super::super::factory::CarrierFactory;
use super::super::interface::{ByteCarrier, RequestRef, StartFailure, Started};
use super::super::link::{Link, SendState};
use super::super::state::ConnectionState;
use super::super::{Reason, SharedBuffers};
use super::{Established, SetupStep, SetupTarget, SharedState, Transport};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::socket::{ByteSockets, Key, Outgoing, Sending, system};
use crate::tls::GivenTlsOptions;

/// Maximum number of bytes of a cleartext request that are sent together with the output before it.
/// The rest is sent from the request's own memory.
const SENT_WITH_PREFIX_BYTES: usize = 16 * 1024;

/// A transport over sockets that carry bytes.
pub(crate) struct ByteTransport<S>(pub(crate) S);

impl<S> ByteTransport<S> {
    #[inline]
    fn send<'run>(&mut self, key: Key, link: &mut Link, bytes: Outgoing<'run>)
    where
        S: ByteSockets<'run>,
    {
        link.send = match self.0.send(key, bytes) {
            Sending::InFlight => SendState::InFlight,
            Sending::Done => SendState::Idle,
        };
    }

    /// Sends a buffer. An empty buffer is not sent, but kept for later output.
    fn send_buffer<'run>(&mut self, key: Key, link: &mut Link, out: Vec<u8>)
    where
        S: ByteSockets<'run>,
    {
        if out.is_empty() {
            link.outbox = out;
        } else {
            self.send(key, link, Outgoing::Owned(out));
        }
    }
}

/// Begins the TLS handshake on a connection that is connected to its target.
fn begin_handshake(link: &mut Link, target: SetupTarget<'_>, now: Nanos) -> Option<SetupStep> {
    let (client, name) = target.tls?;
    let connect = now.since(link.state.connecting_since().unwrap_or(now));
    Some(SetupStep::HandshakeBegun {
        connect,
        started: link.state.open_tls(client, name, connect, now),
    })
}

impl<'run, S: ByteSockets<'run>> Transport<'run> for ByteTransport<S> {
    type Sockets = S;

    #[inline]
    fn sockets(&self) -> &S {
        &self.0
    }

    #[inline]
    fn sockets_mut(&mut self) -> &mut S {
        &mut self.0
    }

    fn connected(
        &mut self,
        _key: Key,
        link: &mut Link,
        target: SetupTarget<'_>,
        factory: &mut CarrierFactory,
        now: Nanos,
    ) -> SetupStep {
        let since = link.state.connecting_since().unwrap_or(now);
        if let Some(tunnel) = target.tunnel {
            link.state.open_tunnel(since);
            link.outbox.extend_from_slice(tunnel);
            return SetupStep::TunnelRequested;
        }
        begin_handshake(link, target, now).unwrap_or_else(|| {
            link.state.open_cleartext(factory);
            SetupStep::Established(Established {
                connect: now.since(since),
                handshake: None,
            })
        })
    }

    fn tunneled(&mut self, link: &mut Link, target: SetupTarget<'_>, now: Nanos) -> SetupStep {
        // Without TLS, requests are sent to the proxy itself, so tunnels always lead to TLS.
        let no_tls = || SetupStep::Unusable(Outcome::ConnectFailed, Reason::NoTunnel(None));
        begin_handshake(link, target, now).unwrap_or_else(no_tls)
    }

    fn connect_failure(&self, error: &io::Error, _given: GivenTlsOptions) -> (Outcome, Reason) {
        (system::connect_outcome(error), Reason::of_io(error))
    }

    #[inline]
    fn received_bytes(&self) -> usize {
        self.0.received().len()
    }

    #[inline]
    fn receive(
        &mut self,
        _key: Key,
        link: &mut Link,
        shared: SharedState<'_>,
        now: Nanos,
    ) -> Progress {
        let bytes = self.0.received();
        link.state
            .receive(bytes, now, shared.factory, shared.expected, shared.buffers)
    }

    fn acknowledge(&mut self, key: Key) -> bool {
        self.0.acknowledge(key)
    }

    #[inline]
    fn start(
        &mut self,
        _key: Key,
        link: &mut Link,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        match &mut link.state {
            ConnectionState::Ready(session) => session.carrier.start(stream, request, expected),
            _ => Err(StartFailure::NotNow),
        }
    }

    #[inline]
    fn send_output<'a>(
        &mut self,
        key: Key,
        link: &mut Link,
        buffers: &mut SharedBuffers,
        request_of: impl Fn(u32) -> Option<RequestRef<'run, 'a>>,
    ) where
        'run: 'a,
    {
        if link.send != SendState::Idle {
            return;
        }
        if link.outbox.is_empty()
            && let Some(session) = link.state.session_mut()
            && let Some(bytes) = session.take_shared(&request_of)
        {
            if !bytes.is_empty() {
                self.send(key, link, Outgoing::Shared(bytes));
            }
            return;
        }
        let request_of = |stream| request_of(stream).map(RequestRef::request);
        let mut out = std::mem::take(&mut link.outbox);
        let limit = if out.is_empty() {
            usize::MAX
        } else {
            SENT_WITH_PREFIX_BYTES
        };
        let session = link.state.session_mut();
        if session.is_some_and(|session| session.awaits_request()) {
            link.outbox = out;
            return;
        }
        link.state
            .take_output(limit, &request_of, buffers, &mut out);
        self.send_buffer(key, link, out);
    }

    fn send_waiting_output(&mut self, key: Key, link: &mut Link) {
        if link.send == SendState::Idle
            && let Some(session) = link.state.session_mut()
            && session.awaits_request()
        {
            let out = std::mem::take(&mut link.outbox);
            self.send_buffer(key, link, out);
        }
    }

    fn flush(&mut self) {}

    fn unsent(&self, key: Key, link: &Link, stream: u32, request: &Request, is_alone: bool) -> u64 {
        let in_socket = if link.is_all_sent() {
            0
        } else {
            self.0.unsent(key)
        };
        let session = link.state.session();
        session.map_or(0, |it| {
            it.carrier.unsent(stream, request, in_socket, is_alone)
        })
    }
}
