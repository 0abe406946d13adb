//! A scripted HTTP/2 server in memory. It reads the client's frames, checks that they follow the
//! protocol, and responds according to its script. It shares no code with prony's own HTTP/2.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use prony_record::Nanos;

use crate::socket::simulated::{Connect, ReceivedRequest, Reply, SendTiming, Server, Step};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

pub(super) const NO_ERROR: u32 = 0;
pub(super) const INTERNAL_ERROR: u32 = 2;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Initial flow-control window (RFC 9113 §6.9.2).
const INITIAL_WINDOW: i64 = 65_535;

/// Creates a frame (RFC 9113 §4.1).
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Creates a HEADERS frame with a response head. `status` is an entry of the static table (RFC 7541
/// appendix A).
pub(super) fn head(stream: u32, status: u8, flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &[status])
}

/// Entries for `:status` 200 and 500 in the static table.
pub(super) const OK: u8 = 0x88;
pub(super) const FAILED: u8 = 0x8e;

/// Creates the head of an interim response (status 103).
pub(super) fn interim(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, b"\x08\x03103")
}

/// Encodes a field for HPACK, without indexing.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(text.len() as u8);
        bytes.extend(text.as_bytes());
    }
    bytes
}

pub(super) fn trailers(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x00\x01x\x01y")
}

pub(super) fn data(stream: u32, body: &[u8], flags: u8) -> Vec<u8> {
    frame(DATA, flags, stream, body)
}

/// Creates a complete response with status 302. Its Location is added to the dynamic table.
pub(super) fn redirect(stream: u32, location: &str) -> Vec<u8> {
    let mut block = b"\x48\x03302\x6e".to_vec();
    block.push(location.len() as u8);
    block.extend(location.as_bytes());
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// Creates a complete response with a body of two bytes.
pub(super) fn ok(stream: u32) -> Vec<u8> {
    [head(stream, OK, 0), data(stream, b"hi", END_STREAM)].concat()
}

pub(super) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(super) fn goaway(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

pub(super) fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"are you?")
}

pub(super) fn window_update(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

pub(super) fn settings(list: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in list {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame(SETTINGS, 0, 0, &payload)
}

pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;

/// Creates SETTINGS that allow `streams` concurrent streams.
pub(super) fn limit(streams: u32) -> Vec<u8> {
    settings(&[(MAX_CONCURRENT_STREAMS, streams)])
}

/// Steps of a server, each with its delay.
pub(super) type Steps = Vec<(Nanos, Step)>;

pub(super) fn after(time: Nanos, bytes: impl Into<Vec<u8>>) -> Steps {
    vec![(time, Step::Send(bytes.into()))]
}

/// A request that the server has received completely.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) now: Nanos,
    /// Index of the connection, counted from 0.
    pub(super) connection: u64,
    pub(super) port: u16,
    pub(super) stream: u32,
    /// Index of the request among the requests on all connections, counted from 0.
    pub(super) number: u64,
    /// First field of the request, which is its method.
    pub(super) method: u8,
    /// Size of the request's body in bytes.
    pub(super) body: usize,
}

/// Entries for `:method` in the static table.
pub(super) const GET: u8 = 0x82;
pub(super) const POST: u8 = 0x83;

/// Log of the client's frames, for assertions.
#[derive(Debug, Default)]
pub(super) struct ServerLog {
    /// Complete requests in order of arrival.
    pub(super) calls: Vec<Call>,
    /// Streams that the client reset: time of the reset and index of the connection.
    pub(super) resets: Vec<(Nanos, u64)>,
    /// Number of GOAWAY frames.
    pub(super) goaways: u32,
    /// Number of acknowledged SETTINGS frames.
    pub(super) acks: u32,
}

impl ServerLog {
    /// Returns the number of requests that arrived at this time.
    pub(super) fn at(&self, now: Nanos) -> usize {
        self.calls.iter().filter(|call| call.now == now).count()
    }

    /// Returns the number of requests on this connection.
    pub(super) fn on(&self, connection: u64) -> usize {
        let on = |call: &&Call| call.connection == connection;
        self.calls.iter().filter(on).count()
    }
}

/// The server's side of one connection.
#[derive(Default)]
struct H2Peer {
    unread: Vec<u8>,
    has_preface: bool,
    has_settings: bool,
    has_acknowledged: bool,
    speaks_from: Nanos,
    last_stream: u32,
    /// Requests that have not fully arrived, by stream.
    open: HashMap<u32, Open>,
    window: i64,
}

#[derive(Clone, Copy)]
struct Open {
    method: u8,
    body: usize,
    window: i64,
}

impl H2Peer {
    /// Applies the server's first settings when the client acknowledges them. From then on, the
    /// client must respect these settings (RFC 9113 §6.9.2).
    fn acknowledge(&mut self, first_window: i64) {
        if !std::mem::replace(&mut self.has_acknowledged, true) {
            for open in self.open.values_mut() {
                open.window += first_window - INITIAL_WINDOW;
            }
        }
    }

    fn begin(&mut self, stream: u32, method: u8, first_window: i64) {
        let follows = stream % 2 == 1 && stream > self.last_stream;
        assert!(
            follows,
            "stream {stream} was opened after stream {}",
            self.last_stream
        );
        self.last_stream = stream;
        let open = Open {
            method,
            body: 0,
            window: if self.has_acknowledged {
                first_window
            } else {
                INITIAL_WINDOW
            },
        };
        self.open.insert(stream, open);
    }

    /// Receives bytes of a body. Returns a window update of the same size if the server sends
    /// window updates.
    fn data(&mut self, stream: u32, bytes: u32, opens: bool) -> Vec<u8> {
        let open = self
            .open
            .get_mut(&stream)
            .expect("DATA must arrive on an open stream");
        open.body += bytes as usize;
        open.window -= i64::from(bytes);
        self.window -= i64::from(bytes);
        let is_kept = open.window >= 0 && self.window >= 0;
        assert!(
            is_kept || bytes == 0,
            "the client exceeded a flow-control window"
        );
        if !opens || bytes == 0 {
            return Vec::new();
        }
        open.window += i64::from(bytes);
        self.window += i64::from(bytes);
        [window_update(0, bytes), window_update(stream, bytes)].concat()
    }
}

type Scripted<ReceivedRequest, Said> = Box<dyn FnMut(ReceivedRequest) -> Said>;

/// A server for the simulated sockets that runs a script on every connection.
pub(super) struct ScriptedH2Server {
    connect: Scripted<Nanos, Connect>,
    /// Returns the first steps on a connection, which begin when its preface arrives.
    greet: Scripted<u64, Steps>,
    response: Box<dyn FnMut(&Call) -> Steps>,
    taken: Scripted<u64, SendTiming>,
    /// Initial window of each stream, and delay of window updates; `None` if the server sends no
    /// window updates.
    windows: (i64, Option<Nanos>),
    /// True if the server responds to the head of a request and leaves its body unread.
    responds_to_heads: bool,
    peers: HashMap<u64, H2Peer>,
    seen: Rc<RefCell<ServerLog>>,
}

impl ScriptedH2Server {
    /// Creates a server that accepts connections, sends its settings immediately, and computes its
    /// responses with a function.
    pub(super) fn new(response: impl FnMut(&Call) -> Steps + 'static) -> ScriptedH2Server {
        ScriptedH2Server {
            connect: Box::new(|_| Connect::Accept(Nanos::ZERO)),
            greet: Box::new(|_| after(Nanos::ZERO, settings(&[]))),
            response: Box::new(response),
            taken: Box::new(|_| SendTiming::AtOnce),
            windows: (INITIAL_WINDOW, Some(Nanos::ZERO)),
            responds_to_heads: false,
            peers: HashMap::new(),
            seen: Rc::default(),
        }
    }

    pub(super) fn connecting(
        mut self,
        connect: impl FnMut(Nanos) -> Connect + 'static,
    ) -> ScriptedH2Server {
        self.connect = Box::new(connect);
        self
    }

    pub(super) fn greeting(
        mut self,
        greet: impl FnMut(u64) -> Steps + 'static,
    ) -> ScriptedH2Server {
        self.greet = Box::new(greet);
        self
    }

    /// Sets the function that determines when the socket accepts each send, from the connection's
    /// index.
    pub(super) fn taking(
        mut self,
        taken: impl FnMut(u64) -> SendTiming + 'static,
    ) -> ScriptedH2Server {
        self.taken = Box::new(taken);
        self
    }

    /// Sets the initial window of a stream and the delay of window updates.
    pub(super) fn with_windows(mut self, bytes: u32, opened: Option<Nanos>) -> ScriptedH2Server {
        self.windows = (i64::from(bytes), opened);
        self.greeting(move |_| after(Nanos::ZERO, settings(&[(INITIAL_WINDOW_SIZE, bytes)])))
    }

    pub(super) fn responding_to_heads(mut self) -> ScriptedH2Server {
        self.responds_to_heads = true;
        self
    }

    pub(super) fn seen(&self) -> Rc<RefCell<ServerLog>> {
        self.seen.clone()
    }

    fn read(&mut self, request: &ReceivedRequest) -> Steps {
        let mut steps = Vec::new();
        let (first, opened) = self.windows;
        let peer = self
            .peers
            .entry(request.connection)
            .or_insert_with(|| H2Peer {
                window: INITIAL_WINDOW,
                ..H2Peer::default()
            });
        peer.unread.extend(&request.bytes);
        if !peer.has_preface {
            assert!(peer.unread.starts_with(PREFACE), "{:?}", peer.unread);
            peer.unread.drain(..PREFACE.len());
            peer.has_preface = true;
            steps.extend((self.greet)(request.connection));
            // The server sends nothing before its settings.
            let first = steps.iter().map(|(after, _)| *after).min();
            peer.speaks_from = request.now + first.unwrap_or_default();
        }
        let hold_back = peer.speaks_from.since(request.now);
        while let Some((kind, flags, stream, payload)) = take_frame(&mut peer.unread) {
            let was_first = !std::mem::replace(&mut peer.has_settings, true);
            assert_eq!(was_first, was_first && kind == SETTINGS, "frame {kind}");
            assert!(
                payload.len() <= 16_384,
                "frame too long: {} bytes",
                payload.len()
            );
            let mut seen = self.seen.borrow_mut();
            match kind {
                SETTINGS if flags & ACK == 0 => {}
                SETTINGS => {
                    seen.acks += 1;
                    peer.acknowledge(first);
                }
                GOAWAY => seen.goaways += 1,
                RST_STREAM => {
                    peer.open.remove(&stream);
                    seen.resets.push((request.now, request.connection));
                }
                HEADERS => peer.begin(stream, payload[0], first),
                DATA => {
                    let updates = peer.data(stream, payload.len() as u32, opened.is_some());
                    if !updates.is_empty() {
                        steps.extend(after(opened.unwrap_or_default().max(hold_back), updates));
                    }
                }
                PING => assert_eq!(flags & ACK, ACK),
                WINDOW_UPDATE | CONTINUATION => {}
                _ => panic!("a client must not send frames of type {kind}"),
            }
            let is_asked = if self.responds_to_heads {
                kind == HEADERS
            } else {
                matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0
            };
            if is_asked {
                let Open { method, body, .. } = peer.open[&stream];
                if flags & END_STREAM != 0 {
                    peer.open.remove(&stream);
                }
                let call = Call {
                    now: request.now,
                    connection: request.connection,
                    port: request.port,
                    stream,
                    number: seen.calls.len() as u64,
                    method,
                    body,
                };
                seen.calls.push(call.clone());
                drop(seen);
                let response = (self.response)(&call).into_iter();
                steps.extend(response.map(|(after, step)| (after.max(hold_back), step)));
            }
        }
        steps
    }
}

/// Removes the first frame from `bytes` if it is complete. Returns its type, flags, stream and
/// payload.
fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, u8, u32, Vec<u8>)> {
    let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<9>()?;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    let payload = bytes.get(9..9 + length)?.to_vec();
    bytes.drain(..9 + length);
    Some((kind, flags, u32::from_be_bytes([d, e, f, g]), payload))
}

impl Server for ScriptedH2Server {
    fn connect(&mut self, now: Nanos) -> Connect {
        (self.connect)(now)
    }

    fn response(&mut self, request: &ReceivedRequest) -> Reply {
        Reply {
            steps: self.read(request),
            taken: (self.taken)(request.connection),
        }
    }
}
