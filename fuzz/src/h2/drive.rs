//! Feeds a server's bytes to a connection piece by piece and records the events.

use std::collections::BTreeMap;
use std::fmt;

use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::{
    ClientSettings, CommonFrame, Connection, ConnectionEvent, EncodedRequest, RequestScheme,
    StreamId, Violation,
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
                ConnectionEvent::Broken { tag, violation } => write!(f, "{tag}: {violation:?}"),
                ConnectionEvent::GoAway { last_stream, code } => {
                    write!(f, "goaway {last_stream} {code}")
                }
                ConnectionEvent::Settings => write!(f, "settings"),
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
    EncodedRequest::new(&spec, RequestScheme::Http).expect("a valid request")
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
    /// Output so far.
    pub sent: Vec<u8>,
    open: BTreeMap<u32, Stage>,
    bodies: BTreeMap<u32, Vec<u8>>,
}

/// Largest amount of unsent output in bytes that a connection may hold for a peer that provokes
/// replies but doesn't read. The client's own requests aren't counted.
const UNSENT_BYTES: usize = 20_000;

impl Client {
    pub fn new(settings: ClientSettings) -> Client {
        Client {
            connection: Connection::new(settings),
            seen: Vec::new(),
            sent: Vec::new(),
            open: BTreeMap::new(),
            bodies: BTreeMap::new(),
        }
    }

    /// Restarts the connection with an empty record. Returns the previous record.
    pub fn restart(&mut self, settings: ClientSettings) -> Client {
        let mut next = Client::new(settings);
        std::mem::swap(&mut next.connection, &mut self.connection);
        next.connection.restart();
        std::mem::replace(self, next)
    }

    /// Returns true if the request with this tag is in flight.
    pub fn is_open(&self, tag: u32) -> bool {
        self.open.contains_key(&tag)
    }

    /// Starts a request if the connection allows one.
    pub fn start(&mut self, method: &str, body: &[u8], tag: u32) -> Option<StreamId> {
        assert!(!self.open.contains_key(&tag), "each tag must be unique");
        let may = self.connection.can_start();
        let stream = self.connection.start(&request(method, body), tag);
        if may.is_err() {
            assert_eq!(stream.err(), may.err());
        }
        if stream.is_ok() {
            self.open.insert(tag, Stage::Started);
            self.bodies.insert(tag, body.to_vec());
        }
        stream.ok()
    }

    pub fn cancel(&mut self, stream: StreamId, tag: u32) {
        self.connection.cancel(stream);
        self.open.remove(&tag);
    }

    /// Feeds these bytes to the connection and records the events.
    pub fn receive(&mut self, mut input: &[u8]) {
        loop {
            while let Some(frame) = self.connection.next_common(&mut input) {
                self.note_common(frame);
            }
            let before = input.len();
            match self.connection.next(&mut input) {
                Ok(ConnectionEvent::NeedMore) => {
                    assert!(input.is_empty(), "NeedMore although input is left");
                    break;
                }
                Ok(event) => {
                    assert!(
                        input.len() < before || self.open.len() < usize::MAX && is_late(event),
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
        assert_eq!(self.connection.active() as usize, self.open.len());
        assert!(
            self.connection
                .unfinished()
                .all(|left| self.open.contains_key(&left.tag))
        );
    }

    /// Records a common frame as the events that the same bytes would lead to in several parts.
    fn note_common(&mut self, frame: CommonFrame<'_>) {
        match frame {
            CommonFrame::Head { tag, status } => self.note(ConnectionEvent::Head { tag, status }),
            CommonFrame::Part { tag, bytes } => self.note(ConnectionEvent::Body { tag, bytes }),
            CommonFrame::Trailers { tag, call } => {
                self.note(ConnectionEvent::Trailers { tag });
                self.note(ConnectionEvent::End { tag, call });
            }
            CommonFrame::Rest { tag, bytes, call } => {
                if !bytes.is_empty() {
                    self.note(ConnectionEvent::Body { tag, bytes });
                }
                self.note(ConnectionEvent::End { tag, call });
            }
        }
    }

    fn note(&mut self, event: ConnectionEvent) {
        let seen = match event {
            ConnectionEvent::NeedMore => return,
            ConnectionEvent::Body { tag, bytes } => {
                assert!(!bytes.is_empty());
                assert_eq!(self.open.get(&tag), Some(&Stage::Headed));
                if let Some(TraceEvent::Body {
                    tag: last,
                    bytes: body,
                }) = self.seen.last_mut()
                    && *last == tag
                {
                    body.extend_from_slice(bytes);
                    return;
                }
                TraceEvent::Body {
                    tag,
                    bytes: bytes.to_vec(),
                }
            }
            ConnectionEvent::Settings => TraceEvent::Event(ConnectionEvent::Settings),
            ConnectionEvent::GoAway { last_stream, code } => {
                assert!(self.connection.can_start().is_err());
                TraceEvent::Event(ConnectionEvent::GoAway { last_stream, code })
            }
            ConnectionEvent::Interim { tag, status } => {
                assert!((100..200).contains(&status) && status != 101);
                assert_eq!(self.open.get(&tag), Some(&Stage::Started));
                TraceEvent::Event(ConnectionEvent::Interim { tag, status })
            }
            ConnectionEvent::Head { tag, status } => {
                assert!(!(100..200).contains(&status));
                assert_eq!(self.open.insert(tag, Stage::Headed), Some(Stage::Started));
                TraceEvent::Event(ConnectionEvent::Head { tag, status })
            }
            ConnectionEvent::Trailers { tag } => {
                assert_eq!(self.open.get(&tag), Some(&Stage::Headed));
                TraceEvent::Event(ConnectionEvent::Trailers { tag })
            }
            ConnectionEvent::End { tag, call } => {
                assert_eq!(self.open.remove(&tag), Some(Stage::Headed));
                TraceEvent::Event(ConnectionEvent::End { tag, call })
            }
            ConnectionEvent::Reset {
                tag,
                code,
                unprocessed,
            } => {
                assert!(self.open.remove(&tag).is_some());
                TraceEvent::Event(ConnectionEvent::Reset {
                    tag,
                    code,
                    unprocessed,
                })
            }
            ConnectionEvent::Broken { tag, violation } => {
                assert!(self.open.remove(&tag).is_some());
                assert!(!violation.to_string().is_empty());
                TraceEvent::Event(ConnectionEvent::Broken { tag, violation })
            }
        };
        self.seen.push(seen);
    }

    /// Checks that every call after a violation returns the same violation, and that no request can
    /// be started.
    fn fail(&mut self, violation: Violation) {
        if self.seen.last() != Some(&TraceEvent::Violation(violation)) {
            self.seen.push(TraceEvent::Violation(violation));
        }
        assert!(!violation.to_string().is_empty());
        assert!(self.connection.can_start().is_err());
        for mut more in [b"".as_slice(), b"\0\0\0\x04\0\0\0\0\0", b"HTTP/1.1"] {
            assert_eq!(self.connection.next(&mut more), Err(violation));
        }
    }

    /// Sends the output, one batch of bodies at a time.
    pub fn send(&mut self) {
        let mut out = Vec::new();
        let bodies = &self.bodies;
        while self.connection.has_output() {
            let before = out.len();
            self.connection
                .take_output(&mut out, |tag| bodies[&tag].as_slice());
            assert!(
                out.len() - before < UNSENT_BYTES + 600_000,
                "a batch is bounded"
            );
        }
        self.sent.extend_from_slice(&out);
    }

    pub fn has_failed(&self) -> bool {
        matches!(self.seen.last(), Some(TraceEvent::Violation(_)))
    }
}

/// Returns true if this event may occur without consuming input.
fn is_late(event: ConnectionEvent) -> bool {
    matches!(
        event,
        ConnectionEvent::End { .. }
            | ConnectionEvent::Broken { .. }
            | ConnectionEvent::Reset {
                unprocessed: true,
                ..
            }
    )
}

/// Events and output of a client.
pub type Trace = (Vec<TraceEvent>, Vec<u8>);

/// Records the trace of a client that has these requests in flight and receives these pieces.
pub fn trace<'a>(
    settings: ClientSettings,
    requests: &[(&str, &[u8])],
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Trace {
    let mut client = Client::new(settings);
    converse(&mut client, requests, pieces);
    (client.seen, client.sent)
}

/// Like [`trace`], but on a connection that has processed the same bytes before and was restarted.
pub fn trace_again(settings: ClientSettings, requests: &[(&str, &[u8])], bytes: &[u8]) -> Trace {
    let mut client = Client::new(settings);
    converse(&mut client, requests, [bytes]);
    client.restart(settings);
    converse(&mut client, requests, [bytes]);
    (client.seen, client.sent)
}

/// Starts the requests and receives the pieces. After sending the requests, the client sends only
/// at the end, so the output doesn't depend on how the input is split.
fn converse<'a>(
    client: &mut Client,
    requests: &[(&str, &[u8])],
    pieces: impl IntoIterator<Item = &'a [u8]>,
) {
    for (tag, (method, body)) in (0..).zip(requests) {
        client.start(method, body, tag);
    }
    client.send();
    for piece in pieces {
        client.receive(piece);
        if client.has_failed() {
            break;
        }
    }
    client.send();
}
