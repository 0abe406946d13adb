//! Checks over HTTP/3.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use prony_record::Nanos;

use super::error::{CheckError, CheckFault, QuicSilence};
use super::{
    CheckedResponse, STOP_CHECK_INTERVAL, factory, failure, is_end, is_response, response,
};
use crate::carrier::{
    Link, Reason, RequestRef, SetupStep, SetupTarget, SharedBuffers, SharedState, StartFailure,
    StreamTransport, Transport,
};
use crate::quic::{QuicClient, QuicEnd};
use crate::request::Request;
use crate::socket::{Close, Completion, Key, QuicSockets, Route, Sockets, UdpDatagrams};
use crate::spec::LoadSpec;
use crate::target::Target;
use crate::target::address_list::SourceSelector;

/// Key of a check's only connection.
const KEY: Key = Key {
    index: 0,
    generation: 1,
};

/// A connection for a check, with one deadline for all operations.
pub(super) struct QuicCheck<'a> {
    transport: StreamTransport<QuicSockets<UdpDatagrams>>,
    timeout: Duration,
    until: Instant,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> QuicCheck<'a> {
    /// Connects to a target.
    pub(super) fn connect(
        spec: &LoadSpec,
        target: &Target,
        timeout: Duration,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Result<QuicCheck<'a>, CheckError> {
        let client = spec.tls.as_ref().map(|tls| tls.client(1));
        let given = client.as_ref().map(|client| client.given);
        let client = client.as_ref().and_then(QuicClient::new);
        let client = client.ok_or(CheckFault::NoTls)?;
        let datagrams = UdpDatagrams::new(1).map_err(CheckFault::NoSocket)?;
        let mut check = QuicCheck {
            transport: StreamTransport(QuicSockets::new(datagrams, client, 1)),
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
        check.transport.0.connect(KEY, route);
        match check.next()? {
            Some(Completion::Failed(_, _, error)) => {
                let end = error.get_ref().and_then(|error| error.downcast_ref());
                Err(match end {
                    Some(end) => {
                        let reason = Reason::of_quic(end, given.unwrap_or_default());
                        CheckFault::Failed(QuicEnd::outcome(end), reason)
                    }
                    None if error.kind() == ErrorKind::ConnectionRefused => {
                        CheckFault::NoQuic(target_name(target), QuicSilence::Refused(error))
                    }
                    None => CheckFault::Connecting(error),
                }
                .into())
            }
            Some(_) => Ok(check),
            None => {
                let silence = QuicSilence::Timeout(timeout);
                Err(CheckFault::NoQuic(target_name(target), silence).into())
            }
        }
    }

    /// The next completion; `None` when the time is up.
    fn next(&mut self) -> Result<Option<Completion>, CheckError> {
        loop {
            if let Some(completion) = self.transport.0.next() {
                return Ok(Some(completion));
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if (self.is_stopped)() {
                return Err(CheckFault::Stopped.into());
            }
            let until = self.transport.0.now() + Nanos::from(left.min(STOP_CHECK_INTERVAL));
            let waited = self.transport.0.wait(until);
            waited.map_err(CheckFault::Waiting)?;
        }
    }

    /// Ends the connection.
    pub(super) fn close(mut self) {
        self.transport.0.close(KEY, Close::Orderly);
    }

    /// Sends a request and reads its response.
    pub(super) fn send_request(
        mut self,
        spec: &LoadSpec,
        request: &Request,
    ) -> Result<CheckedResponse, CheckError> {
        let anything = spec.responses.expect.anything_read_alike();
        let mut factory = factory(spec);
        let (mut link, mut buffers) = (Link::new(), SharedBuffers::default());
        let target = SetupTarget {
            tunnel: None,
            tls: None,
        };
        let step = self
            .transport
            .connected(KEY, &mut link, target, &mut factory, Nanos::ZERO);
        if let SetupStep::Unusable(outcome, reason) = step {
            return Err(CheckFault::Failed(outcome, reason).into());
        }
        let mut has_begun = false;
        loop {
            if !has_begun {
                let started = self.transport.start(KEY, &mut link, 0, request, &anything);
                match started {
                    Ok(_) => has_begun = true,
                    Err(StartFailure::NotNow) => {}
                    Err(StartFailure::Never(reason)) => {
                        return Err(CheckFault::Encoding(reason.to_string()).into());
                    }
                }
            }
            let request_of = |_| Some(RequestRef::Own(request));
            self.transport
                .send_output(KEY, &mut link, &mut buffers, request_of);
            let Some(completion) = self.next()? else {
                return Err(CheckFault::NoResponseWithin(self.timeout).into());
            };
            if let Completion::Failed(_, _, error) = completion {
                return Err(CheckFault::Reading(error).into());
            }
            let shared = SharedState {
                factory: &mut factory,
                buffers: &mut buffers,
                expected: &anything,
            };
            let progress = self.transport.receive(KEY, &mut link, shared, Nanos::ZERO);
            let event = buffers.events.drain(..).find(|event| is_end(event.kind));
            if event.is_some_and(|event| is_response(event.kind)) {
                let is_stream = anything.are_streams();
                let response = response(&mut link.state, request, is_stream);
                self.transport.0.close(KEY, Close::Orderly);
                return response;
            }
            failure(event.map(|event| event.kind), progress)?;
        }
    }
}

fn target_name(target: &Target) -> String {
    target
        .peer
        .address()
        .map_or_else(String::new, |address| address.to_string())
}
