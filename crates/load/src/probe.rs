//! One request at a time, with its answer kept: to see whether a server is ready, and whether
//! variants return the same bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use prony_record::{Nanos, Negotiated, Outcome};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::connection::{Buffers, Connection, Ending, Progress, Reason};
use crate::content_coding::{self, BodyDigest, DecodeError};
use crate::expect::Expectations;
use crate::proxy::Begun;
use crate::request::Request;
use crate::script::CaptureSpec;
use crate::socket::Peer;
use crate::socket::local::{Source, leave_from};
use crate::source::Turn;
use crate::spec::LoadSpec;

/// How soon a probe notices that it is to stop.
const NOTICE: Duration = Duration::from_millis(100);

/// Characters that are kept of a header field.
const FIELD_LENGTH_MAX: usize = 100;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Method and URL.
    pub request: String,
    /// The final status.
    pub status: u16,
    /// The body as sent.
    pub body: BodyDigest,
    /// The body without its content codings; equal to `body` where it has none.
    pub decoded: Result<BodyDigest, DecodeError>,
    /// The `Content-Type` field, cut at [`FIELD_LENGTH_MAX`] characters.
    pub content_type: Option<String>,
    /// The content codings in lower case, `gzip, br`, cut likewise; none where the body has none.
    pub content_encoding: Option<String>,
    /// What was agreed on.
    pub negotiated: Negotiated,
}

/// Sends the spec's request number `index`, counted from 0, over a connection of its own and reads
/// the answer, whatever its status.
///
/// # Errors
///
/// In words why there is no whole answer within `timeout`, or no such request.
pub fn probe(spec: &LoadSpec, index: usize, timeout: Duration) -> Result<Answer, String> {
    probe_until(spec, index, timeout, &|| false)
}

/// Connects to the load's first target, and sends nothing: to see whether it is there.
///
/// # Errors
///
/// In words why there is no connection within `timeout`.
pub fn reach(spec: &LoadSpec, timeout: Duration) -> Result<(), String> {
    connect(spec, 0, timeout)
}

/// Connects to a target, by its index, and sends nothing.
pub(crate) fn connect(spec: &LoadSpec, index: usize, timeout: Duration) -> Result<(), String> {
    let Some(target) = spec.targets.get(index) else {
        return Err("the load has no target".to_owned());
    };
    let source = spec.sources.source(&target.peer, Turn::first(spec));
    Line::connect(&target.peer, source, timeout, &|| false).map(|_| ())
}

/// [`probe`], given up soon after `is_stopped` says so.
///
/// # Errors
///
/// As [`probe`]; whoever stopped it knows why there is no answer.
pub fn probe_until(
    spec: &LoadSpec,
    index: usize,
    timeout: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Answer, String> {
    let Some(request) = spec.requests.get(index) else {
        return Err(format!("the load has no request number {index}"));
    };
    let target = &spec.targets[request.target as usize];
    let turn = Turn::first(spec);
    let source = spec.sources.source(&target.peer, turn);
    let mut line = Line::connect(&target.peer, source, timeout, is_stopped)?;
    if let Some(proxy) = spec.sources.proxy() {
        let local = line.socket.local_addr().ok();
        let mut header = Vec::new();
        let begun = Begun::to(target, local.and_then(|local| local.as_socket()));
        proxy.write(begun, turn, spec.sources.order(), &mut header);
        line.send(&header)?;
    }
    let mut connection = Connection::new();
    connection.see(CaptureSpec {
        ends: false,
        heads: true,
        body_bytes: content_coding::ENCODED_BYTES_MAX,
    });
    if let Some(tunnel) = &target.tunnel {
        line.tunnel(&mut connection, tunnel)?;
    }
    match (&target.tls, &spec.tls) {
        (Some(name), Some(settings)) => connection
            .open_tls(&settings.client(1), name, spec.protocols)
            .map_err(|reason| reason.to_string())?,
        _ => {
            connection.open(spec.protocols);
            begin(&mut connection, request)?;
            if !connection.is_multiplexed() {
                line.send(&request.bytes)?;
            }
        }
    }
    let anything = Expectations::anything();
    let (mut buffer, mut buffers) = (vec![0; 64 * 1024], Buffers::default());
    loop {
        line.flush(&mut connection, request, &mut buffers)?;
        let progress = match line.receive(&mut buffer)? {
            0 => connection.closed(&anything),
            length => connection.receive(&buffer[..length], Nanos::ZERO, &anything, &mut buffers),
        };
        let ended = buffers.ended.drain(..).next();
        match (ended, progress) {
            (Some((_, Ending::Answered(_))), _) | (None, Progress::Answered { .. }) => {
                return Ok(answer(&mut connection, request));
            }
            (Some((_, Ending::Reset { code, .. })), _) => {
                let reason = Reason::Reset { code, again: false };
                return Err(format!("{}: {reason}", Outcome::Reset.name()));
            }
            (Some((_, Ending::Broken(violation))), _) => {
                return Err(format!("{}: {violation}", Outcome::Protocol.name()));
            }
            (None, Progress::Secured) => begin(&mut connection, request)?,
            (None, Progress::Waiting | Progress::Streams | Progress::Tunneled) => {}
            (None, Progress::Broken(outcome, reason)) => {
                return Err(format!("{}: {reason}", outcome.name()));
            }
            (None, Progress::Lost | Progress::Idle | Progress::Unasked) => {
                return Err(format!(
                    "{}: the server closed the connection without an answer",
                    Outcome::ClosedEarly.name()
                ));
            }
        }
    }
}

impl Turn {
    /// That of a load's first connection.
    fn first(spec: &LoadSpec) -> Turn {
        Turn {
            connection: 0,
            user: 0,
            seed: spec.seed,
        }
    }
}

/// The request begins, in the first place where there are several.
fn begin(connection: &mut Connection, request: &Request) -> Result<(), String> {
    let anything = Expectations::anything();
    connection.hash_bodies();
    match (connection.multiplexed_mut(), &request.frames) {
        (Some(multiplexed), Some(frames)) => multiplexed
            .start(0, frames, &anything)
            .map_err(|error| error.to_string()),
        _ => {
            connection.begin(request, &anything);
            Ok(())
        }
    }
}

fn answer(connection: &mut Connection, request: &Request) -> Answer {
    let received = connection.received(0);
    let body = BodyDigest {
        length: received.body_bytes,
        sha256: connection.take_hash(),
    };
    let (head, bytes) = match connection.seen(0) {
        Some(seen) => (seen.head(), seen.body()),
        None => (&b""[..], &b""[..]),
    };
    let fields = FieldLines(head);
    let codings = content_coding::codings(fields.values("content-encoding"));
    let listed = codings.join(", ");
    Answer {
        request: request.name.clone(),
        status: received.status.unwrap_or(0),
        body,
        decoded: content_coding::decode(&codings, bytes, body),
        content_type: fields.values("content-type").next().map(shortened),
        content_encoding: (!listed.is_empty()).then(|| shortened(&listed)),
        negotiated: connection.negotiated(),
    }
}

fn shortened(value: &str) -> String {
    value.chars().take(FIELD_LENGTH_MAX).collect()
}

/// The header fields of a response, a line each.
struct FieldLines<'a>(&'a [u8]);

impl<'a> FieldLines<'a> {
    /// The values of a field, whose name is in lower case. Values that aren't UTF-8 are left out.
    fn values(&self, name: &'static str) -> impl Iterator<Item = &'a str> + use<'a> {
        let lines = self.0.split(|&byte| byte == b'\n').skip(1);
        let texts = lines.filter_map(|line| std::str::from_utf8(line).ok());
        let fields = texts.filter_map(|line| line.split_once(':'));
        fields
            .filter(move |(field, _)| field.trim().eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

/// A blocking socket with one deadline for all that is done on it.
struct Line<'a> {
    socket: Socket,
    timeout: Duration,
    until: Instant,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> Line<'a> {
    fn connect(
        peer: &Peer,
        source: Option<Source>,
        timeout: Duration,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let until = Instant::now() + timeout;
        let connected = match peer {
            Peer::Tcp(address) => Socket::new(Domain::for_address(*address), Type::STREAM, None)
                .and_then(|socket| {
                    if let Some(source) = source {
                        leave_from(&socket, source)?;
                    }
                    socket.connect_timeout(&SockAddr::from(*address), timeout)?;
                    Ok(socket)
                }),
            // Where a UNIX socket's backlog is full, connecting waits as long as sending may.
            Peer::Unix(path) => Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|socket| {
                socket.set_write_timeout(Some(timeout))?;
                socket.connect(&SockAddr::unix(path)?)?;
                Ok(socket)
            }),
        };
        let socket = connected.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("connecting: no connection within {timeout:?}")
            }
            _ => format!("connecting: {error}"),
        })?;
        Ok(Line {
            socket,
            timeout,
            until,
            is_stopped,
        })
    }

    /// How long to wait at a stretch, of the time that is left.
    fn left(&self) -> Result<Option<Duration>, String> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(format!("no whole answer within {:?}", self.timeout)),
            _ if (self.is_stopped)() => Err("stopped".to_owned()),
            left => Ok(Some(left.min(NOTICE))),
        }
    }

    /// Sends all of it, or as much as the server takes: one that answers early stops reading.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self
                .socket
                .set_write_timeout(self.left()?)
                .and_then(|()| self.socket.write(rest));
            match sent {
                Ok(length) => rest = &rest[length..],
                Err(error) if is_passing(&error) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(format!("sending the request: {error}")),
            }
        }
        Ok(())
    }

    /// Has the proxy at the other end make a tunnel.
    fn tunnel(&mut self, connection: &mut Connection, request: &[u8]) -> Result<(), String> {
        let (anything, mut buffers) = (Expectations::anything(), Buffers::default());
        let mut buffer = vec![0; 4096];
        connection.open_tunnel();
        self.send(request)?;
        loop {
            let length = self.receive(&mut buffer)?;
            let bytes = &buffer[..length];
            let reason = match connection.receive(bytes, Nanos::ZERO, &anything, &mut buffers) {
                Progress::Tunneled => return Ok(()),
                Progress::Waiting if length > 0 => continue,
                Progress::Broken(_, reason) => reason,
                _ => Reason::NoTunnel(None),
            };
            return Err(format!("{}: {reason}", Outcome::ConnectFailed.name()));
        }
    }

    /// Sends all that TLS and HTTP/2 have to say, the request included once it has begun.
    fn flush(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        buffers: &mut Buffers,
    ) -> Result<(), String> {
        let mut out = Vec::new();
        let body = request.frames.as_ref().map_or(&[][..], |it| it.body());
        loop {
            match connection.is_multiplexed() {
                true => connection.take_frames(&mut out, buffers, |_| body),
                false => connection.take_out(&request.bytes, &mut out),
            }
            if out.is_empty() {
                return Ok(());
            }
            self.send(&out)?;
            out.clear();
        }
    }

    /// Waits for bytes; none mean the end.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        loop {
            let received = self
                .socket
                .set_read_timeout(self.left()?)
                .and_then(|()| self.socket.read(buffer));
            match received {
                Ok(length) => return Ok(length),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(format!("reading the answer: {error}")),
            }
        }
    }
}

/// Whether nothing is the matter but that nothing has happened yet.
fn is_passing(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
