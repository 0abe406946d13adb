//! Sends single requests and keeps their responses, to find out if a server is ready and if
//! variants return the same bytes.

mod error;
mod quic;
mod reflection;

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use prony_record::{Nanos, Negotiated, Outcome};
use socket2::{Domain, SockAddr, Socket, Type};

use self::error::CheckFault;
use self::quic::QuicCheck;
use crate::carrier::{
    ByteCarrier, Carrier, CarrierFactory, ConnectionState, EventKind, Progress, Reason,
    SharedBuffers, StartFailure,
};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::request::script::CaptureSpec;
use crate::socket::Peer;
use crate::socket::local::{Source, bind_to_source};
use crate::spec::LoadSpec;
use crate::target::address_list::SourceSelector;
use crate::target::proxy_protocol::ConnectionEnds;
use crate::values::content_coding::{self, BodyDigest, DecodeError};
use crate::values::response_head;

pub use self::error::CheckError;
pub use self::reflection::{needs_reflection, reflected_schema};

/// Interval at which a check finds out if it should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum length of a stored header field value in characters.
const FIELD_LENGTH_MAX: usize = 100;

/// The response to a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedResponse {
    /// Method and URL.
    pub request: String,
    /// Status code of the final response.
    pub status: u16,
    /// The body as sent.
    pub body: BodyDigest,
    /// The body with its content codings removed; equal to `body` if it has none.
    pub decoded: Result<BodyDigest, DecodeError>,
    /// Value of the `Content-Type` field, cut at `FIELD_LENGTH_MAX` characters.
    pub content_type: Option<String>,
    /// Content codings in lower case (`gzip, br`), cut at `FIELD_LENGTH_MAX` characters; `None` if
    /// the body has none.
    pub content_encoding: Option<String>,
    /// The cause of the status with a hint, if the response says that the port expects TLS.
    pub tls_expected: Option<String>,
    /// Protocols that the connection negotiated.
    pub negotiated: Negotiated,
}

/// Sends request number `index` of the spec, counted from 0, over a separate connection and reads
/// the response, whatever its status.
///
/// # Errors
///
/// There is no such request, or no complete response within `timeout`.
pub fn check_request(
    spec: &LoadSpec,
    index: usize,
    timeout: Duration,
) -> Result<CheckedResponse, CheckError> {
    check_request_until(spec, index, timeout, &|| false)
}

/// Connects to the load's first target without sending anything, to find out if it accepts
/// connections.
pub fn reach(spec: &LoadSpec, timeout: Duration) -> Result<(), CheckError> {
    connect(spec, 0, timeout)
}

/// Connects to the target with this index without sending anything.
pub(crate) fn connect(spec: &LoadSpec, index: usize, timeout: Duration) -> Result<(), CheckError> {
    let Some(target) = spec.targets.get(index) else {
        return Err(CheckFault::NoTarget.into());
    };
    if let Peer::Quic(_) = target.peer {
        return QuicCheck::connect(spec, target, timeout, &|| false).map(QuicCheck::close);
    }
    let source = spec
        .sources
        .source(&target.peer, SourceSelector::first(spec));
    CheckSocket::connect(&target.peer, source, timeout, &|| false).map(|_| ())
}

/// Like [`check_request`], but gives up soon after `is_stopped` returns true.
///
/// # Errors
///
/// Those of [`check_request`].
pub fn check_request_until(
    spec: &LoadSpec,
    index: usize,
    timeout: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<CheckedResponse, CheckError> {
    let request = spec.request(index);
    let request = request.ok_or(CheckFault::NoRequest(index))?;
    let request = &*request;
    let target = &spec.targets[request.target as usize];
    if let Peer::Quic(_) = target.peer {
        let check = QuicCheck::connect(spec, target, timeout, is_stopped)?;
        return check.send_request(spec, request);
    }
    let (mut connection, _) = exchange(spec, request, timeout, is_stopped)?;
    let is_stream = spec.responses.expect.are_streams();
    response(&mut connection, request, is_stream)
}

/// Sends a request over a separate connection that carries bytes. Returns the connection with the
/// response, and the event that ended the check.
fn exchange(
    spec: &LoadSpec,
    request: &Request,
    timeout: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(ConnectionState, EventKind), CheckError> {
    let target = &spec.targets[request.target as usize];
    let selector = SourceSelector::first(spec);
    let source = spec.sources.source(&target.peer, selector);
    let mut line = CheckSocket::connect(&target.peer, source, timeout, is_stopped)?;
    if let Some(proxy) = spec.sources.proxy_protocol() {
        let local = line.socket.local_addr().ok();
        let mut header = Vec::new();
        let ends = ConnectionEnds::to(
            target,
            &target.peer,
            local.and_then(|local| local.as_socket()),
        );
        proxy.write(ends, selector, spec.sources.order(), &mut header);
        line.send(&header)?;
    }
    let mut factory = factory(spec);
    let mut connection = ConnectionState::default();
    if let Some(tunnel) = &target.tunnel {
        line.tunnel(&mut connection, &mut factory, tunnel)?;
    }
    let anything = spec.responses.expect.anything_read_alike();
    match (&target.tls, &spec.tls) {
        (Some(name), Some(settings)) => connection
            .open_tls(&settings.client(1), name, Nanos::ZERO, Nanos::ZERO)
            .map_err(CheckFault::Tls)?,
        _ => {
            connection.open_cleartext(&mut factory);
            begin(&mut connection, request, &anything)?;
        }
    }
    let (mut buffer, mut buffers) = (vec![0; 64 * 1024], SharedBuffers::default());
    loop {
        line.flush(&mut connection, request, &mut buffers)?;
        let progress = match line.receive(&mut buffer)? {
            0 => connection.peer_closed(&anything, &mut buffers),
            length => {
                let bytes = &buffer[..length];
                connection.receive(bytes, Nanos::ZERO, &mut factory, &anything, &mut buffers)
            }
        };
        let event = buffers.events.drain(..).find(|event| is_end(event.kind));
        match (event.map(|event| event.kind), progress) {
            (Some(kind), _) if is_response(kind) => {
                return Ok((connection, kind));
            }
            (None, Progress::Secured(_)) => begin(&mut connection, request, &anything)?,
            (event, Progress::Broken(outcome, reason)) => {
                let reason = reason.of_request(request.http1());
                failure(event, Progress::Broken(outcome, reason))?;
            }
            (event, progress) => failure(event, progress)?,
        }
    }
}

/// Creates the factory of a check's connection.
fn factory(spec: &LoadSpec) -> CarrierFactory {
    CarrierFactory::new(spec.transport.protocols)
        .with_capture(CaptureSpec {
            ends: false,
            heads: true,
            body_bytes: content_coding::ENCODED_BYTES_MAX,
        })
        .with_body_hashes()
}

/// Returns true if an event ends a check: the end of the exchange or, if the response is a stream,
/// its first event. A stream may never end.
fn is_end(kind: EventKind) -> bool {
    kind.ends_exchange() || matches!(kind, EventKind::Message(_))
}

/// Returns true if an event means that there is a response.
fn is_response(kind: EventKind) -> bool {
    use EventKind::{CallFailed, Message, Response, StreamFailed};
    matches!(
        kind,
        Response { .. } | CallFailed { .. } | StreamFailed { .. } | Message(_)
    )
}

/// Returns an error if the request or its connection has ended without a response.
fn failure(event: Option<EventKind>, progress: Progress) -> Result<(), CheckError> {
    match (event, progress) {
        (Some(EventKind::Reset { code, .. }), _) => {
            let reason = Reason::Reset { code, again: false };
            Err(CheckFault::Failed(Outcome::Reset, reason).into())
        }
        (Some(EventKind::Malformed(fault)), _) => Err(CheckFault::Malformed(fault).into()),
        (_, Progress::Broken(outcome, reason) | Progress::Unusable(outcome, reason)) => {
            Err(CheckFault::Failed(outcome, reason).into())
        }
        (_, Progress::Lost | Progress::Closed | Progress::Unsolicited) => {
            Err(CheckFault::Closed.into())
        }
        (
            _,
            Progress::Open
            | Progress::Tunneled
            | Progress::Secured(_)
            | Progress::EarlyDataEnded { .. },
        ) => Ok(()),
    }
}

impl SourceSelector {
    /// Returns the source selector of the load's first connection.
    fn first(spec: &LoadSpec) -> SourceSelector {
        SourceSelector {
            connection: 0,
            user: 0,
            seed: spec.seed,
        }
    }
}

/// Starts the request, on the first stream if the connection has streams.
fn begin(
    connection: &mut ConnectionState,
    request: &Request,
    expected: &Expectations,
) -> Result<(), CheckError> {
    let Some(session) = connection.session_mut() else {
        return Ok(());
    };
    match session.carrier.start(0, request, expected) {
        Ok(_) => Ok(()),
        Err(StartFailure::Never(reason)) => Err(CheckFault::Encoding(reason.to_string()).into()),
        Err(StartFailure::NotNow) => Err(CheckFault::NoConnection.into()),
    }
}

/// Returns the response that arrived on the connection. The body of a stream, whose events usually
/// differ each time, counts as empty.
fn response(
    connection: &mut ConnectionState,
    request: &Request,
    is_stream: bool,
) -> Result<CheckedResponse, CheckError> {
    let Some(session) = connection.session_mut() else {
        return Err(CheckFault::NoConnection.into());
    };
    let received = session.carrier.received(0);
    let body = if is_stream {
        BodyDigest::empty()
    } else {
        BodyDigest {
            length: received.body_bytes,
            sha256: session.carrier.take_hash(0),
        }
    };
    let (head, bytes) = match session.carrier.captured(0) {
        Some(captured) => (captured.head(), captured.body()),
        None => (&b""[..], &b""[..]),
    };
    let codings = content_coding::codings(response_head::values(head, "content-encoding"));
    let listed = codings.join(", ");
    Ok(CheckedResponse {
        request: request.name.clone(),
        status: received.status.unwrap_or(0),
        body,
        decoded: content_coding::decode(&codings, bytes, body),
        content_type: response_head::values(head, "content-type")
            .next()
            .map(shortened),
        content_encoding: (!listed.is_empty()).then(|| shortened(&listed)),
        tls_expected: session.tls_expected().map(|reason| reason.to_string()),
        negotiated: session.negotiated(),
    })
}

fn shortened(value: &str) -> String {
    value.chars().take(FIELD_LENGTH_MAX).collect()
}

/// A blocking socket with one deadline for all operations.
struct CheckSocket<'a> {
    socket: Socket,
    timeout: Duration,
    until: Instant,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> CheckSocket<'a> {
    fn connect(
        peer: &Peer,
        source: Option<Source>,
        timeout: Duration,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Result<Self, CheckError> {
        let until = Instant::now() + timeout;
        let connected = match peer {
            Peer::Tcp(address) => Socket::new(Domain::for_address(*address), Type::STREAM, None)
                .and_then(|socket| {
                    if let Some(source) = source {
                        bind_to_source(&socket, source)?;
                    }
                    socket.connect_timeout(&SockAddr::from(*address), timeout)?;
                    Ok(socket)
                }),
            Peer::Quic(_) => Err(ErrorKind::Unsupported.into()),
            // If the backlog of a UNIX socket is full, the connect waits for at most the send
            // timeout.
            Peer::Unix(path) => Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|socket| {
                socket.set_write_timeout(Some(timeout))?;
                socket.connect(&SockAddr::unix(path)?)?;
                Ok(socket)
            }),
        };
        let socket = connected.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => CheckFault::NotConnectedWithin(timeout),
            _ => CheckFault::Connecting(error),
        })?;
        Ok(CheckSocket {
            socket,
            timeout,
            until,
            is_stopped,
        })
    }

    /// Returns the length of the next wait, or `None` when the time is up or the check was stopped.
    fn next_wait(&self) -> Result<Option<Duration>, CheckError> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(CheckFault::NoResponseWithin(self.timeout).into()),
            _ if (self.is_stopped)() => Err(CheckFault::Stopped.into()),
            left => Ok(Some(left.min(STOP_CHECK_INTERVAL))),
        }
    }

    /// Sends all bytes, or as many as the server accepts: a server that responds early may stop
    /// reading.
    fn send(&mut self, bytes: &[u8]) -> Result<(), CheckError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self
                .socket
                .set_write_timeout(self.next_wait()?)
                .and_then(|()| self.socket.write(rest));
            match sent {
                Ok(length) => rest = &rest[length..],
                Err(error) if is_transient(&error) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(CheckFault::Sending(error).into()),
            }
        }
        Ok(())
    }

    /// Requests a tunnel from the proxy that the socket is connected to.
    fn tunnel(
        &mut self,
        connection: &mut ConnectionState,
        factory: &mut CarrierFactory,
        request: &[u8],
    ) -> Result<(), CheckError> {
        let (anything, mut buffers) = (Expectations::anything(), SharedBuffers::default());
        let mut buffer = vec![0; 4096];
        connection.open_tunnel(Nanos::ZERO);
        self.send(request)?;
        loop {
            let length = self.receive(&mut buffer)?;
            let bytes = &buffer[..length];
            let reason =
                match connection.receive(bytes, Nanos::ZERO, factory, &anything, &mut buffers) {
                    Progress::Tunneled => return Ok(()),
                    Progress::Open if length > 0 => continue,
                    Progress::Broken(_, reason) => reason,
                    _ => Reason::NoTunnel(None),
                };
            return Err(CheckFault::Failed(Outcome::ConnectFailed, reason).into());
        }
    }

    /// Sends all pending bytes of TLS and HTTP/2, including the request once it has begun.
    fn flush(
        &mut self,
        connection: &mut ConnectionState,
        request: &Request,
        buffers: &mut SharedBuffers,
    ) -> Result<(), CheckError> {
        let mut out = Vec::new();
        loop {
            connection.take_output(usize::MAX, &|_| Some(request), buffers, &mut out);
            if out.is_empty() {
                return Ok(());
            }
            self.send(&out)?;
            out.clear();
        }
    }

    /// Waits for bytes. A result of zero means that the connection was closed.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, CheckError> {
        loop {
            let received = self
                .socket
                .set_read_timeout(self.next_wait()?)
                .and_then(|()| self.socket.read(buffer));
            match received {
                Ok(length) => return Ok(length),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(CheckFault::Reading(error).into()),
            }
        }
    }
}

/// Returns true for an error after which the operation can be repeated, because nothing has
/// happened yet.
fn is_transient(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
