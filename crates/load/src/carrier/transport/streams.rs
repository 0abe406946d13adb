//! Sockets that carry streams and secure them.

use std::io;

use prony_record::{Nanos, Outcome};

use super::super::events::Progress;
use super::super::factory::CarrierFactory;
use super::super::http3;
use super::super::interface::{RequestRef, StartFailure, Started, StreamCarrier};
use super::super::link::Link;
use super::super::{Reason, SharedBuffers};
use super::{Established, SetupStep, SetupTarget, SharedState, Transport};
use crate::quic::{EarlyData, QuicEnd};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::socket::{Key, StreamSockets};
use crate::tls::GivenTlsOptions;

/// A transport over sockets that carry streams.
pub(crate) struct StreamTransport<S>(pub(crate) S);

impl<'run, S: StreamSockets> Transport<'run> for StreamTransport<S> {
    type Sockets = S;

    fn sockets(&self) -> &S {
        &self.0
    }

    fn sockets_mut(&mut self) -> &mut S {
        &mut self.0
    }

    /// The connection is secure, or accepts early data.
    fn connected(
        &mut self,
        key: Key,
        link: &mut Link,
        _target: SetupTarget<'_>,
        factory: &mut CarrierFactory,
        now: Nanos,
    ) -> SetupStep {
        let since = link.state.connecting_since().unwrap_or(now);
        let unusable = |reason| SetupStep::Unusable(Outcome::Protocol, reason);
        let Some(quic) = self.0.streams(key) else {
            return unusable(Reason::Text("the connection has no streams".to_owned()));
        };
        let early_data = quic.early_data();
        if let Err(reason) = link.state.open_streams(factory, quic) {
            return unusable(reason);
        }
        let session = link.state.session_mut();
        if early_data == EarlyData::Offered
            && let Some(h3) = session.and_then(|session| session.carrier.streams())
        {
            h3.begin_early(since);
            return SetupStep::Early;
        }
        let connect = now.since(since);
        SetupStep::Established(Established {
            connect,
            handshake: Some(http3::handshake(quic, connect)),
        })
    }

    /// Never called: no proxy opens tunnels for QUIC.
    fn tunneled(&mut self, _link: &mut Link, _target: SetupTarget<'_>, _now: Nanos) -> SetupStep {
        SetupStep::Unusable(Outcome::ConnectFailed, Reason::NoTunnel(None))
    }

    fn connect_failure(&self, error: &io::Error, given: GivenTlsOptions) -> (Outcome, Reason) {
        let end = error
            .get_ref()
            .and_then(|error| error.downcast_ref::<QuicEnd>());
        match end {
            Some(end) => (end.outcome(), Reason::of_quic(end, given)),
            None => (
                crate::socket::system::connect_outcome(error),
                Reason::of_io(error),
            ),
        }
    }

    fn received_bytes(&self) -> usize {
        0
    }

    fn receive(
        &mut self,
        key: Key,
        link: &mut Link,
        shared: SharedState<'_>,
        now: Nanos,
    ) -> Progress {
        let session = link.state.session_mut();
        match (
            session.and_then(|session| session.carrier.streams()),
            self.0.streams(key),
        ) {
            (Some(h3), Some(quic)) => {
                h3.receive(quic, now, shared.expected, &mut shared.buffers.events)
            }
            _ => Progress::Open,
        }
    }

    fn acknowledge(&mut self, _key: Key) -> bool {
        false
    }

    fn start(
        &mut self,
        key: Key,
        link: &mut Link,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        let session = link.state.session_mut();
        let h3 = session.and_then(|session| session.carrier.streams());
        match (h3, self.0.streams(key)) {
            (Some(h3), Some(quic)) => h3.start(stream, request, expected, quic),
            _ => Err(StartFailure::NotNow),
        }
    }

    fn send_output<'a>(
        &mut self,
        key: Key,
        link: &mut Link,
        _buffers: &mut SharedBuffers,
        _request_of: impl Fn(u32) -> Option<RequestRef<'run, 'a>>,
    ) where
        'run: 'a,
    {
        let session = link.state.session_mut();
        let h3 = session.and_then(|session| session.carrier.streams());
        if let (Some(h3), Some(quic)) = (h3, self.0.streams(key)) {
            h3.write_output(quic);
        }
    }

    fn send_waiting_output(&mut self, _key: Key, _link: &mut Link) {}

    fn flush(&mut self) {
        self.0.flush();
    }

    fn unsent(
        &self,
        _key: Key,
        link: &Link,
        stream: u32,
        _request: &Request,
        _is_alone: bool,
    ) -> u64 {
        let session = link.state.session();
        session.map_or(0, |session| session.carrier.unwritten(stream))
    }
}
