//! One connection of a scripted HTTP/2 server, and the server's record of the client's frames.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};

use crate::h2_frames::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame sent by the client.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    fn number_at(&self, offset: usize) -> u32 {
        let bytes = self.payload.get(offset..offset + 4);
        bytes.map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()))
    }
}

/// A server's record of its clients.
#[derive(Debug, Default)]
pub(crate) struct ClientRecord {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// Error codes of received GOAWAY frames.
    pub(crate) goaways: Vec<u32>,
    /// Error codes of received RST_STREAM frames.
    pub(crate) resets: Vec<u32>,
    /// Number of body bytes received.
    pub(crate) body_bytes: usize,
    /// Protocol violations by clients.
    pub(crate) wrongs: Vec<String>,
    /// Number of scripts that have not ended.
    pub(crate) running: usize,
}

/// Data shared by all connections of a server.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    seen: Mutex<ClientRecord>,
    pub(crate) ended: Condvar,
}

impl Shared {
    pub(crate) fn seen(&self) -> MutexGuard<'_, ClientRecord> {
        self.seen.lock().unwrap()
    }
}

/// The transport of a connection.
pub(crate) enum Link {
    Clear(TcpStream),
    Secured(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Link {
    fn either(&mut self) -> &mut dyn ReadWrite {
        match self {
            Link::Clear(stream) => stream,
            Link::Secured(stream) => stream,
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// The server's end of a connection.
pub(crate) struct Peer {
    link: Link,
    shared: Arc<Shared>,
    /// Index of the connection on this server, from 0.
    pub(crate) connection_index: usize,
    /// True if the client's SETTINGS have arrived.
    introduced: bool,
    last_stream: u32,
    /// True if a field block is incomplete.
    in_block: bool,
}

impl Peer {
    fn blame(&self, wrong: String) {
        self.seen().wrongs.push(wrong);
    }

    /// Returns the server's record of all its connections.
    pub(crate) fn seen(&self) -> MutexGuard<'_, ClientRecord> {
        self.shared.seen()
    }

    /// Reads the client's connection preface.
    pub(crate) fn accept(link: Link, shared: Arc<Shared>) -> Option<Peer> {
        let connection_index = {
            let mut seen = shared.seen();
            seen.connections += 1;
            seen.connections - 1
        };
        let mut peer = Peer {
            link,
            shared,
            connection_index,
            introduced: false,
            last_stream: 0,
            in_block: false,
        };
        let preface = peer.read(PREFACE.len())?;
        if preface != PREFACE {
            peer.blame(format!("it begins with {}", preface.escape_ascii()));
            return None;
        }
        Some(peer)
    }

    fn read(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.link.either().read_exact(&mut read).ok()?;
        Some(read)
    }

    /// Returns the client's next frame, or `None` if it has closed the connection.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let header = self.read(9)?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let frame = Frame {
            kind: header[3],
            flags: header[4],
            stream: u32::from_be_bytes(header[5..].try_into().unwrap()),
            payload: self.read(length as usize)?,
        };
        self.note(&frame);
        Some(frame)
    }

    /// Records a frame for the tests, and any violation by the client.
    fn note(&mut self, frame: &Frame) {
        let Frame { kind, stream, .. } = *frame;
        let introduced = std::mem::replace(&mut self.introduced, true);
        let first = kind == SETTINGS && frame.flags & ACK == 0;
        let wrong = if introduced == first {
            "SETTINGS after the first frame, or a first frame that isn't SETTINGS"
        } else if frame.payload.len() > 16_384 {
            "a frame over 16,384 bytes, which is this server's limit"
        } else if self.in_block != (kind == CONTINUATION) {
            "a field block that is interrupted, or CONTINUATION without HEADERS"
        } else if kind == HEADERS && (stream.is_multiple_of(2) || stream <= self.last_stream) {
            "a stream ID that is even or not higher than the ones before"
        } else if matches!(kind, DATA | RST_STREAM) && !(1..=self.last_stream).contains(&stream) {
            "a frame on a stream that it never opened"
        } else if kind == WINDOW_UPDATE && frame.number_at(0) == 0 {
            "WINDOW_UPDATE of zero"
        } else {
            ""
        };
        if !wrong.is_empty() {
            self.blame(format!("{wrong}: {frame:?}"));
        }
        match kind {
            HEADERS => {
                self.last_stream = stream;
                self.in_block = frame.flags & END_HEADERS == 0;
                self.seen().requests += 1;
            }
            CONTINUATION => self.in_block = frame.flags & END_HEADERS == 0,
            DATA => self.seen().body_bytes += frame.payload.len(),
            GOAWAY => self.seen().goaways.push(frame.number_at(4)),
            RST_STREAM => self.seen().resets.push(frame.number_at(0)),
            _ => {}
        }
    }

    /// Returns the client's next frame of this type. SETTINGS and PING before it are acknowledged.
    pub(crate) fn next(&mut self, kind: u8) -> Option<Frame> {
        self.next_of(&[kind])
    }

    /// Returns the client's next frame of one of these types, like [`Peer::next`].
    pub(crate) fn next_of(&mut self, kinds: &[u8]) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.flags & ACK == 0 && matches!(frame.kind, SETTINGS | PING) {
                let acknowledged = match frame.kind {
                    SETTINGS => Vec::new(),
                    _ => frame.payload.clone(),
                };
                self.send(&self::frame(frame.kind, ACK, 0, &acknowledged))?;
            }
            if kinds.contains(&frame.kind) {
                return Some(frame);
            }
        }
    }

    /// Returns the stream of the client's next request.
    pub(crate) fn request(&mut self) -> Option<u32> {
        Some(self.next(HEADERS)?.stream)
    }

    /// Returns the streams of the next requests.
    pub(crate) fn requests(&mut self, count: usize) -> Option<Vec<u32>> {
        (0..count).map(|_| self.request()).collect()
    }

    /// Reads DATA up to the end of a stream. No other stream may have a body in flight.
    pub(crate) fn body(&mut self, stream: u32) -> Option<()> {
        loop {
            let frame = self.next(DATA)?;
            if frame.stream == stream && frame.flags & END_STREAM != 0 {
                return Some(());
            }
        }
    }

    /// Pings the client, and returns the requests that arrived before its acknowledgment.
    pub(crate) fn requests_so_far(&mut self) -> Option<Vec<u32>> {
        self.send(&frame(PING, 0, 0, b"measured"))?;
        let mut streams = Vec::new();
        loop {
            match self.frame()? {
                Frame {
                    kind: HEADERS,
                    stream,
                    ..
                } => streams.push(stream),
                Frame { kind: PING, .. } => return Some(streams),
                _ => {}
            }
        }
    }

    /// Sends bytes. Returns `None` if the client has closed the connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Option<()> {
        let link = self.link.either();
        link.write_all(bytes).and_then(|()| link.flush()).ok()
    }

    /// Sends SETTINGS, which may be empty.
    pub(crate) fn send_settings(&mut self, list: &[(u16, u32)]) -> Option<()> {
        self.send(&settings(list))
    }

    /// Sends the same bytes forever, and reads nothing.
    pub(crate) fn flood(&mut self, again: &[u8]) -> Option<()> {
        let batch = again.repeat(1 + 16_384 / again.len());
        loop {
            self.send(&batch)?;
        }
    }

    /// Reads until the client closes the connection.
    pub(crate) fn read_to_end(&mut self) -> Option<()> {
        loop {
            self.frame()?;
        }
    }

    /// Closes the sending direction (over TLS without close_notify), and reads until the client
    /// closes.
    pub(crate) fn close(&mut self) -> Option<()> {
        self.tcp().shutdown(Shutdown::Write).ok()?;
        self.read_to_end()
    }

    /// Ends the connection with a TCP reset.
    pub(crate) fn reset(&mut self) -> Option<()> {
        let socket = socket2::SockRef::from(self.tcp());
        socket.set_linger(Some(Duration::ZERO)).ok()?;
        None
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match &self.link {
            Link::Clear(stream) => stream,
            Link::Secured(stream) => &stream.sock,
        }
    }

    /// Returns the TLS state, if there is one, and the socket below.
    pub(crate) fn tls(&mut self) -> Option<(&mut ServerConnection, &mut TcpStream)> {
        match &mut self.link {
            Link::Clear(_) => None,
            Link::Secured(stream) => Some((&mut stream.conn, &mut stream.sock)),
        }
    }
}
