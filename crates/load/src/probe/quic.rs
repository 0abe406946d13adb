//! Probes over HTTP/3.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use prony_record::Nanos;

use super::error::{ProbeError, ProbeFault, QuicSilence};
use super::{ProbeResponse, STOP_CHECK_INTERVAL, factory, failure, response};
use crate::address_list::SourceSelector;
use crate::carrier::{ConnectionState, EventKind, Reason, SharedBuffers};
use crate::expect::Expectations;
use crate::quic::{QuicClient, QuicEnd};
use crate::request::Request;
use crate::socket::{Close, Completion, Key, QuicSockets, Route, Sockets, UdpDatagrams};
use crate::spec::LoadSpec;
use crate::target::Target;

/// Key of a probe's only connection.
const KEY: Key = Key {
    index: 0,
    generation: 1,
};

/// A connection for a probe, with one deadline for all operations.
pub(super) struct QuicProbe<'a> {
    sockets: QuicSockets<UdpDatagrams>,
    timeout: Duration,
    until: Instant,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> QuicProbe<'a> {
    /// Connects to a target.
    pub(super) fn connect(
        spec: &LoadSpec,
        target: &Target,
        timeout: Duration,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Result<QuicProbe<'a>, ProbeError> {
        let client = spec.tls.as_ref().map(|tls| tls.client(1));
        let given = client.as_ref().map(|client| client.given);
        let client = client.as_ref().and_then(QuicClient::new);
        let client = client.ok_or(ProbeFault::NoTls)?;
        let datagrams = UdpDatagrams::new(1).map_err(ProbeFault::NoSocket)?;
        let mut probe = QuicProbe {
            sockets: QuicSockets::new(datagrams, client, 1),
            timeout,
            until: Instant::now() + timeout,
            is_stopped,
        };
        let route = Route {
            peer: &target.peer,
            server_name: target.tls.as_ref(),
            source: spec
                .sources
                .source(&target.peer, SourceSelector::first(spec)),
            buffers: spec.transport.buffers,
            nodelay: true,
            keepalive: true,
        };
        probe.sockets.connect(KEY, route);
        match probe.next()? {
            Some(Completion::Failed(_, _, error)) => {
                let end = error.get_ref().and_then(|error| error.downcast_ref());
                Err(match end {
                    Some(end) => {
                        let reason = Reason::of_quic(end, given.unwrap_or_default());
                        ProbeFault::Failed(QuicEnd::outcome(end), reason)
                    }
                    None if error.kind() == ErrorKind::ConnectionRefused => {
                        ProbeFault::NoQuic(name(target), QuicSilence::Refused(error))
                    }
                    None => ProbeFault::Connecting(error),
                }
                .into())
            }
            Some(_) => Ok(probe),
            None => {
                let silence = QuicSilence::Timeout(timeout);
                Err(ProbeFault::NoQuic(name(target), silence).into())
            }
        }
    }

    /// The next completion; `None` when the time is up.
    fn next(&mut self) -> Result<Option<Completion>, ProbeError> {
        loop {
            if let Some(completion) = self.sockets.next() {
                return Ok(Some(completion));
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if (self.is_stopped)() {
                return Err(ProbeFault::Stopped.into());
            }
            let until = self.sockets.now() + Nanos::from(left.min(STOP_CHECK_INTERVAL));
            let waited = self.sockets.wait(until);
            waited.map_err(ProbeFault::Waiting)?;
        }
    }

    /// Ends the connection.
    pub(super) fn close(mut self) {
        self.sockets.close(KEY, Close::Orderly);
    }

    /// Sends a request and reads its response.
    pub(super) fn ask(
        mut self,
        spec: &LoadSpec,
        request: &Request,
    ) -> Result<ProbeResponse, ProbeError> {
        let anything = Expectations::anything();
        let mut factory = factory(spec);
        let (mut connection, mut buffers) = (ConnectionState::default(), SharedBuffers::default());
        if let Some(quic) = self.sockets.quic(KEY) {
            connection.open_quic(&mut factory, quic);
        }
        let mut has_begun = false;
        loop {
            let session = connection.session_mut();
            let h3 = session.and_then(|session| session.http.h3_mut());
            if let (Some(h3), Some(quic), Some(encoded)) =
                (h3, self.sockets.quic(KEY), &request.http3)
            {
                if !has_begun {
                    has_begun = h3.start(0, encoded, &anything, quic).is_ok();
                }
                h3.write_output(quic);
            }
            let Some(completion) = self.next()? else {
                return Err(ProbeFault::NoResponseWithin(self.timeout).into());
            };
            if let Completion::Failed(_, _, error) = completion {
                return Err(ProbeFault::Reading(error).into());
            }
            let Some(quic) = self.sockets.quic(KEY) else {
                return Err(ProbeFault::NoConnection.into());
            };
            let progress = connection.receive_streams(quic, Nanos::ZERO, &anything, &mut buffers);
            let event = buffers.events.drain(..).next();
            if let Some(EventKind::Response { .. } | EventKind::CallFailed { .. }) =
                event.map(|event| event.kind)
            {
                let response = response(&mut connection, request);
                self.sockets.close(KEY, Close::Orderly);
                return response;
            }
            failure(event.map(|event| event.kind), progress)?;
        }
    }
}

fn name(target: &Target) -> String {
    target
        .peer
        .address()
        .map_or_else(String::new, |address| address.to_string())
}
