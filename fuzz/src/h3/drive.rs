//! Feeds a server's streams to a connection piece by piece and records the events.

use std::collections::BTreeMap;
use std::fmt;

use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::RequestScheme;
use prony_protocol::h3::{
    ClientSettings, Connection, ConnectionEvent, EncodedRequest, ErrorCode, Violation,
};

/// Recorded events, in order. Consecutive pieces of one body are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEvent {
    Event(ConnectionEvent<'static>),
    Body { tag: u32, bytes: Vec<u8> },
    Violation(Violation),
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEvent::Body { tag, bytes } => write!(f, "{tag}: body {}", bytes.escape_ascii()),
            TraceEvent::Violation(violation) => write!(f, "{violation:?}"),
            TraceEvent::Event(event) => match event {
                ConnectionEvent::Interim { tag, status } => write!(f, "{tag}: interim {status}"),
                ConnectionEvent::Head { tag, status, .. } => write!(f, "{tag}: head {status}"),
                ConnectionEvent::Trailers { tag, .. } => write!(f, "{tag}: trailers"),
                ConnectionEvent::End { tag, .. } => write!(f, "{tag}: end"),
                ConnectionEvent::Reset {
                    tag,
                    code,
                    unprocessed: false,
                } => write!(f, "{tag}: reset {code}"),
                ConnectionEvent::Reset { tag, code, .. } => write!(f, "{tag}: unprocessed {code}"),
                ConnectionEvent::Broken { tag, violation, .. } => write!(f, "{tag}: {violation:?}"),
                ConnectionEvent::GoAway { first_rejected } => write!(f, "goaway {first_rejected}"),
                ConnectionEvent::Settings => write!(f, "settings"),
                ConnectionEvent::Discard { stream, code } => write!(f, "discard {stream} {code}"),
                ConnectionEvent::Ignored => write!(f, "ignored"),
                ConnectionEvent::NeedMore | ConnectionEvent::Body { .. } => write!(f, "{event:?}"),
            },
        }
    }
}

/// Encodes a request with this method and body.
pub fn request(method: &str, body: &[u8]) -> EncodedRequest {
    let spec = RequestSpec {
        method,
        target: if method == "CONNECT" { "host:443" } else { "/" },
        version: Version::Http11,
        host: "host",
        headers: &[],
        body,
        keep_alive: true,
    };
    EncodedRequest::new(&spec, RequestScheme::Https).expect("a valid request")
}

/// Stage of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Started,
    Headed,
}

/// A connection, with checks of each event against the state of its exchange.
pub struct Client {
    pub connection: Connection,
    /// Events so far.
    pub seen: Vec<TraceEvent>,
    /// Output so far on the control stream and the decoder stream.
    pub control: Vec<u8>,
    pub decoder: Vec<u8>,
    open: BTreeMap<u32, (u64, Stage)>,
    next_stream: u64,
}

impl Client {
    pub fn new(settings: ClientSettings) -> Client {
        Client::of(Connection::new(settings))
    }

    fn of(connection: Connection) -> Client {
        Client {
            connection,
            seen: Vec::new(),
            control: Vec::new(),
            decoder: Vec::new(),
            open: BTreeMap::new(),
            next_stream: 0,
        }
    }

    /// Restarts the connection with an empty record.
    #[must_use]
    pub fn restart(mut self) -> Client {
        self.connection.restart();
        Client::of(self.connection)
    }

    /// Returns the streams of all requests in flight.
    pub fn streams(&self) -> impl Iterator<Item = u64> {
        self.open.values().map(|(stream, _)| *stream)
    }

    /// Returns the stream ID of the next request.
    pub fn next_stream(&self) -> u64 {
        self.next_stream
    }

    /// Starts a request if the connection allows one. Returns its stream.
    pub fn start(&mut self, method: &str, body: &[u8], tag: u32) -> Option<u64> {
        assert!(!self.open.contains_key(&tag), "each tag must be unique");
        let may = self.connection.can_start();
        let stream = self.next_stream;
        let result = self.connection.start(&request(method, body), stream, tag);
        if may.is_err() {
            assert_eq!(result, may);
        }
        result.ok()?;
        assert_eq!(self.connection.tag_of(stream), Some(tag));
        self.next_stream += 4;
        self.open.insert(tag, (stream, Stage::Started));
        Some(stream)
    }

    pub fn cancel(&mut self, tag: u32) {
        let stream = self.open.remove(&tag).map(|(stream, _)| stream);
        assert_eq!(self.connection.cancel(tag), stream);
        self.check();
    }

    /// Feeds these bytes to a stream and records the events.
    pub fn receive(&mut self, stream: u64, mut input: &[u8]) {
        loop {
            let before = input.len();
            match self.connection.next(stream, &mut input) {
                Ok(ConnectionEvent::NeedMore) => {
                    assert!(input.is_empty(), "NeedMore although input is left");
                    break;
                }
                Ok(event) => {
                    assert!(
                        input.len() < before || is_late(event),
                        "no progress: {event:?}"
                    );
                    self.note(event);
                }
                Err(violation) => {
                    self.fail(violation);
                    break;
                }
            }
        }
        self.check();
    }

    /// Ends a stream and records the event.
    pub fn finish(&mut self, stream: u64) {
        let result = self.connection.finished(stream);
        self.note_result(result);
    }

    /// Resets a stream on behalf of the server and records the event.
    pub fn reset(&mut self, stream: u64, code: u64) {
        let result = self.connection.reset(stream, ErrorCode(code));
        self.note_result(result);
    }

    /// Delivers STOP_SENDING from the server and records the event.
    pub fn stop(&mut self, stream: u64) {
        let result = self.connection.stopped(stream);
        self.note_result(result);
    }

    fn note_result(&mut self, result: Result<ConnectionEvent<'static>, Violation>) {
        match result {
            Ok(event) => {
                assert_ne!(event, ConnectionEvent::NeedMore);
                self.note(event);
            }
            Err(violation) => self.fail(violation),
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.connection.active() as usize, self.open.len());
        let unfinished: Vec<u32> = self.connection.unfinished().map(|left| left.tag).collect();
        assert!(unfinished.iter().all(|tag| self.open.contains_key(tag)));
        assert_eq!(unfinished.len(), self.open.len());
    }

    fn note(&mut self, event: ConnectionEvent) {
        let event = match event {
            ConnectionEvent::NeedMore => return,
            ConnectionEvent::Body { tag, bytes } => {
                assert!(!bytes.is_empty());
                assert!(matches!(self.open.get(&tag), Some((_, Stage::Headed))));
                if let Some(TraceEvent::Body {
                    tag: last,
                    bytes: body,
                }) = self.seen.last_mut()
                    && *last == tag
                {
                    body.extend_from_slice(bytes);
                    return;
                }
                let bytes = bytes.to_vec();
                self.seen.push(TraceEvent::Body { tag, bytes });
                return;
            }
            ConnectionEvent::Settings => {
                assert!(self.connection.is_established());
                ConnectionEvent::Settings
            }
            ConnectionEvent::GoAway { first_rejected } => {
                assert!(self.connection.is_going_away());
                ConnectionEvent::GoAway { first_rejected }
            }
            ConnectionEvent::Interim { tag, status } => {
                assert!((100..200).contains(&status) && status != 101);
                assert!(matches!(self.open.get(&tag), Some((_, Stage::Started))));
                ConnectionEvent::Interim { tag, status }
            }
            ConnectionEvent::Head { tag, status } => {
                assert!(!(100..200).contains(&status));
                let (_, stage) = self.open.get_mut(&tag).expect("a request in flight");
                assert_eq!(std::mem::replace(stage, Stage::Headed), Stage::Started);
                ConnectionEvent::Head { tag, status }
            }
            ConnectionEvent::Trailers { tag } => {
                assert!(matches!(self.open.get(&tag), Some((_, Stage::Headed))));
                ConnectionEvent::Trailers { tag }
            }
            ConnectionEvent::End { tag, call } => {
                assert!(matches!(self.open.remove(&tag), Some((_, Stage::Headed))));
                ConnectionEvent::End { tag, call }
            }
            ConnectionEvent::Reset {
                tag,
                code,
                unprocessed,
            } => {
                assert!(self.open.remove(&tag).is_some());
                assert!(!code.to_string().is_empty());
                ConnectionEvent::Reset {
                    tag,
                    code,
                    unprocessed,
                }
            }
            ConnectionEvent::Broken {
                tag,
                stream,
                violation,
            } => {
                let known = self.open.remove(&tag).map(|(stream, _)| stream);
                assert_eq!(known, Some(stream));
                assert!(!violation.to_string().is_empty());
                assert!(!violation.code().is_no_error());
                ConnectionEvent::Broken {
                    tag,
                    stream,
                    violation,
                }
            }
            ConnectionEvent::Discard { stream, code } => {
                assert_eq!(stream % 4, 3);
                ConnectionEvent::Discard { stream, code }
            }
            ConnectionEvent::Ignored => ConnectionEvent::Ignored,
        };
        self.seen.push(TraceEvent::Event(event));
    }

    /// Checks that every call after a violation returns the same violation, and that no request can
    /// be started.
    fn fail(&mut self, violation: Violation) {
        if self.seen.last() != Some(&TraceEvent::Violation(violation)) {
            self.seen.push(TraceEvent::Violation(violation));
        }
        assert!(!violation.to_string().is_empty());
        assert!(!violation.code().is_no_error());
        assert!(self.connection.is_going_away());
        for stream in [0, 1, 2, 3, 7, 400] {
            let mut more = b"\x00\x04\x00".as_slice();
            assert_eq!(self.connection.next(stream, &mut more), Err(violation));
            assert_eq!(self.connection.finished(stream), Err(violation));
            assert_eq!(self.connection.stopped(stream), Err(violation));
            let reset = self.connection.reset(stream, ErrorCode::NO_ERROR);
            assert_eq!(reset, Err(violation));
        }
    }

    /// Takes the pending output from the connection.
    pub fn send(&mut self) {
        let had_output = self.connection.has_output();
        let before = self.control.len() + self.decoder.len();
        self.connection.take_control(&mut self.control);
        self.connection.take_decoder(&mut self.decoder);
        let sent = self.control.len() + self.decoder.len() - before;
        assert_eq!(had_output, sent > 0);
        assert!(sent < 17_000, "unread output must be bounded");
        assert!(!self.connection.has_output());
    }

    pub fn has_failed(&self) -> bool {
        matches!(self.seen.last(), Some(TraceEvent::Violation(_)))
    }
}

/// Returns true if this event may occur without consuming input.
fn is_late(event: ConnectionEvent) -> bool {
    matches!(
        event,
        ConnectionEvent::Reset {
            unprocessed: true,
            ..
        }
    )
}

/// One input to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Bytes on the stream with this ID.
    Bytes(u64, Vec<u8>),
    /// End of this stream.
    Fin(u64),
    /// RESET_STREAM for the stream with this ID, with this error code.
    Reset(u64, u64),
    /// STOP_SENDING for the stream with this ID.
    Stop(u64),
    /// Starts a request with this method and tag.
    Start(&'static str, u32),
    /// Cancels the request with this tag if it is in flight.
    Cancel(u32),
    /// Takes the pending output.
    Send,
}

/// Runs these steps. `split` splits the bytes of each step.
pub fn run<'s, P: Iterator<Item = &'s [u8]>>(
    client: &mut Client,
    steps: &'s [Step],
    split: impl Fn(&'s [u8]) -> P,
) {
    for step in steps {
        match step {
            Step::Bytes(stream, bytes) if bytes.is_empty() => client.receive(*stream, b""),
            Step::Bytes(stream, bytes) => {
                for piece in split(bytes) {
                    client.receive(*stream, piece);
                }
            }
            Step::Fin(stream) => client.finish(*stream),
            Step::Reset(stream, code) => client.reset(*stream, *code),
            Step::Stop(stream) => client.stop(*stream),
            Step::Start(method, tag) => drop(client.start(method, b"", *tag)),
            Step::Cancel(tag) if client.open.contains_key(tag) => client.cancel(*tag),
            Step::Cancel(_) => {}
            Step::Send => client.send(),
        }
        if client.has_failed() {
            break;
        }
    }
    client.send();
}

/// Events, output on the control stream, and output on the decoder stream.
pub type Trace = (Vec<TraceEvent>, Vec<u8>, Vec<u8>);

/// Returns the trace of a client.
pub fn trace_of(client: &Client) -> Trace {
    let Client {
        seen,
        control,
        decoder,
        ..
    } = client;
    (seen.clone(), control.clone(), decoder.clone())
}

/// Returns the trace of these steps on a new connection.
pub fn trace<'s, P: Iterator<Item = &'s [u8]>>(
    settings: ClientSettings,
    steps: &'s [Step],
    split: impl Fn(&'s [u8]) -> P,
) -> Trace {
    let mut client = Client::new(settings);
    run(&mut client, steps, split);
    trace_of(&client)
}

/// Like [`trace`] without splitting, but on a connection that has processed the same steps before
/// and was restarted.
pub fn trace_again(settings: ClientSettings, steps: &[Step]) -> Trace {
    let mut client = Client::new(settings);
    run(&mut client, steps, std::iter::once);
    let mut client = client.restart();
    run(&mut client, steps, std::iter::once);
    trace_of(&client)
}
