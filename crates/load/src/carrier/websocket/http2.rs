//! WebSockets on the streams of an HTTP/2 connection (RFC 8441). Each stream number has one, which is
//! opened again after it has ended.

use std::sync::Arc;

use prony_protocol::h2::{ClientSettings, Connection, ConnectionEvent, ErrorCode, StreamId};
use prony_protocol::websocket::{Agreed, HandshakeError};
use prony_record::{Nanos, Outcome};

use super::socket::Socket;
use crate::carrier::events::{
    EventKind, ExchangeEvent, Progress, RequestCapacity, ResponseProgress, Reuse,
};
use crate::carrier::fault::{ResetCode, SocketFault, StreamFault};
use crate::carrier::interface::{ByteCarrier, Carrier, StartFailure, Started};
use crate::carrier::{CapturedResponse, Reason};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::request::protocols::StreamsLimit;
use crate::request::websocket::Upgrade;

/// An HTTP/2 connection whose streams are WebSockets.
pub(crate) struct Http2Sockets {
    upgrade: Arc<Upgrade>,
    http: Connection,
    streams: Vec<SocketStream>,
    /// True if the capacity may have risen since the last call of [`Carrier::take_new_settings`].
    has_opened: bool,
    hashes_bodies: bool,
    /// True if the load needs the connection no longer.
    is_ending: bool,
    goaway_error: Option<ErrorCode>,
}

/// The WebSocket with one stream number.
struct SocketStream {
    /// The HTTP/2 stream; `None` between two WebSockets.
    id: Option<StreamId>,
    /// Tag of the HTTP/2 stream. The number of streams divides the difference of the tag and the
    /// stream number, so a late event of an earlier stream is recognized.
    tag: u32,
    is_open: bool,
    socket: Socket,
    /// Output that the windows have not allowed to be sent.
    out: Vec<u8>,
}

impl SocketStream {
    fn new(number: u32) -> SocketStream {
        SocketStream {
            id: None,
            tag: number,
            is_open: false,
            socket: Socket::new(Agreed::default(), false),
            out: Vec::new(),
        }
    }
}

impl Http2Sockets {
    pub(in crate::carrier) fn new(upgrade: Arc<Upgrade>, streams: u32) -> Http2Sockets {
        let mut http = Connection::new(ClientSettings {
            streams,
            ..ClientSettings::default()
        });
        http.keep_fields();
        Http2Sockets {
            upgrade,
            http,
            streams: (0..streams).map(SocketStream::new).collect(),
            has_opened: false,
            hashes_bodies: false,
            is_ending: false,
            goaway_error: None,
        }
    }

    fn stream(&self, stream: u32) -> &SocketStream {
        &self.streams[stream as usize]
    }

    fn stream_mut(&mut self, stream: u32) -> &mut SocketStream {
        &mut self.streams[stream as usize]
    }

    /// Opens a WebSocket for each stream number that has none, as far as the server allows it.
    fn open_all(&mut self) {
        let Some(request) = &self.upgrade.http2 else {
            return;
        };
        if self.is_ending || !self.http.allows_extended_connect() {
            return;
        }
        let count = self.streams.len() as u32;
        for stream in &mut self.streams {
            if stream.id.is_none() {
                let tag = stream.tag.checked_add(count).unwrap_or(stream.tag % count);
                match self.http.start_tunnel(request, tag) {
                    Ok(id) => (stream.id, stream.tag) = (Some(id), tag),
                    Err(_) => return,
                }
            }
        }
    }

    /// Returns the stream number with this tag, unless another WebSocket has replaced its own.
    fn number_of(&self, tag: u32) -> Option<u32> {
        let number = tag % self.streams.len() as u32;
        let stream = self.stream(number);
        (stream.tag == tag && stream.id.is_some()).then_some(number)
    }

    /// Handles the head of the response to a handshake.
    fn on_head(&mut self, number: u32, status: u16) -> Result<(), SocketFault> {
        if !(200..300).contains(&status) {
            return Err(SocketFault::NotOpened(HandshakeError::Status(status)));
        }
        let agreed = self.upgrade.offer.read_fields(self.http.fields());
        let agreed = agreed.map_err(SocketFault::NotOpened)?;
        let (hashes_bodies, is_fan_out) = (self.hashes_bodies, self.upgrade.is_fan_out);
        let stream = self.stream_mut(number);
        stream.socket = Socket::new(agreed, is_fan_out);
        if hashes_bodies {
            stream.socket.hash_bodies();
        }
        stream.is_open = true;
        self.has_opened = true;
        Ok(())
    }

    /// Processes bytes of a WebSocket.
    fn on_bytes(
        &mut self,
        number: u32,
        mut bytes: &[u8],
        around: (Nanos, &Expectations),
        events: &mut Vec<ExchangeEvent>,
    ) {
        let stream = &mut self.streams[number as usize];
        if !stream.is_open {
            return;
        }
        let from = events.len();
        let received = stream.socket.receive(&mut bytes, number, around, events);
        let mut is_refused = false;
        for event in events.iter_mut().skip(from) {
            if let EventKind::Response { reuse, .. } = &mut event.kind {
                // A WebSocket that can't be used again ends alone; the connection continues.
                is_refused |= *reuse != Reuse::Allowed;
                *reuse = Reuse::Allowed;
            }
        }
        if let Err(fault) = received {
            self.end(number, fault, events);
        } else if is_refused {
            self.cancel(number);
        }
    }

    /// Ends a WebSocket and its exchange, and this side of its stream.
    fn end(&mut self, number: u32, fault: SocketFault, events: &mut Vec<ExchangeEvent>) {
        let stream = &mut self.streams[number as usize];
        stream.is_open = false;
        // The close frame, if there is one, is the last that is sent.
        stream.socket.take_output(usize::MAX, None, &mut stream.out);
        if let Some(id) = stream.id.take() {
            self.http.send_tunnel(id, &stream.out);
            self.http.end_tunnel(id);
        }
        stream.out.clear();
        if stream.socket.abandon() {
            events.push(ExchangeEvent {
                stream: number,
                kind: EventKind::SocketEnded(fault),
            });
        }
        self.open_all();
    }

    /// Handles the end of an HTTP/2 stream. Returns the failure of the connection if the WebSocket
    /// was not open.
    fn on_stream_end(
        &mut self,
        tag: u32,
        reset: Option<ErrorCode>,
        events: &mut Vec<ExchangeEvent>,
    ) -> Option<SocketFault> {
        let Some(number) = self.number_of(tag) else {
            self.open_all();
            return None;
        };
        let stream = &mut self.streams[number as usize];
        let reset = reset.map(SocketFault::Reset);
        if !stream.is_open {
            return reset.or(Some(SocketFault::ClosedWhileOpening));
        }
        let cut_off = stream.socket.cut_off();
        let fault = reset.or(cut_off).unwrap_or(SocketFault::Ended);
        self.end(number, fault, events);
        None
    }
}

impl Carrier for Http2Sockets {
    #[inline]
    fn capacity(&self, _in_flight: u32) -> RequestCapacity {
        let is_ready = |stream: &SocketStream| stream.is_open && stream.socket.is_ready();
        if self.streams.iter().any(is_ready) {
            return RequestCapacity::Available;
        }
        match self.http.peer_limit() {
            Some(limit) if (limit as usize) < self.streams.len() && self.is_established() => {
                RequestCapacity::Full(StreamsLimit::Settings(limit))
            }
            _ => RequestCapacity::NotNow,
        }
    }

    #[inline]
    fn received(&self, stream: u32) -> ResponseProgress {
        self.stream(stream).socket.received()
    }

    fn captured(&self, _stream: u32) -> Option<&CapturedResponse> {
        None
    }

    fn captured_mut(&mut self, _stream: u32) -> Option<&mut CapturedResponse> {
        None
    }

    fn hash_bodies(&mut self) {
        self.hashes_bodies = true;
    }

    fn take_hash(&mut self, stream: u32) -> [u8; 32] {
        self.stream_mut(stream).socket.take_hash()
    }

    fn receives_deliveries(&self, stream: u32) -> bool {
        let stream = self.stream(stream);
        stream.is_open && stream.socket.is_open()
    }

    fn take_delivery(&mut self, stream: u32) -> Option<Vec<u8>> {
        self.stream_mut(stream).socket.take_delivery()
    }

    fn end_fan_out(&mut self, stream: u32) {
        self.stream_mut(stream).socket.abandon();
    }

    fn version(&self) -> Option<&'static str> {
        Some("2")
    }

    #[inline]
    fn may_receive_anytime(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn active_count(&self) -> Option<u32> {
        let awaiting = self.streams.iter().filter(|it| it.socket.is_awaiting());
        Some(awaiting.count() as u32)
    }

    fn cancel(&mut self, stream: u32) {
        let stream = &mut self.streams[stream as usize];
        // A late response would look like that of the next message.
        if let Some(id) = stream.id.take() {
            self.http.cancel(id);
        }
        stream.is_open = false;
        stream.socket.abandon();
        stream.out.clear();
        self.open_all();
    }

    /// Returns true if each WebSocket is open that the server allows.
    fn is_established(&self) -> bool {
        let all = self.streams.iter().all(|it| it.id.is_none() || it.is_open);
        all && self.streams.iter().any(|it| it.is_open)
    }

    fn is_going_away(&self) -> bool {
        self.http.is_going_away()
    }

    fn announce_end(&mut self) -> bool {
        self.is_ending = true;
        for stream in &mut self.streams {
            stream.socket.close_normally();
        }
        true
    }

    fn awaits_close(&self) -> bool {
        let mut streams = self.streams.iter();
        streams.any(|it| it.is_open && it.socket.is_closing())
    }

    fn end_reason(&self) -> Option<Reason> {
        let code = self.goaway_error;
        code.map(|code| Reason::GoneAway(ResetCode::Http2(code)))
    }

    fn take_new_settings(&mut self) -> bool {
        std::mem::take(&mut self.has_opened)
    }
}

impl ByteCarrier for Http2Sockets {
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure> {
        let stream = self.stream_mut(stream);
        match request.encodings.message() {
            Some((opcode, payload)) if stream.is_open && stream.socket.is_ready() => Ok(Started {
                bytes: stream.socket.start(opcode, payload, expected),
                sends_now: false,
            }),
            _ => Err(StartFailure::NotNow),
        }
    }

    fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        loop {
            let event = match self.http.next(&mut bytes) {
                Ok(event) => event,
                Err(violation) => {
                    return Progress::Broken(Outcome::Protocol, Reason::Http2(violation));
                }
            };
            let fault = match event {
                ConnectionEvent::NeedMore => break,
                ConnectionEvent::Settings => {
                    self.open_all();
                    let is_announced = self.http.allows_extended_connect();
                    (!is_announced).then_some(SocketFault::NotAnnounced)
                }
                ConnectionEvent::GoAway { code, .. } => {
                    self.goaway_error = Some(code).filter(|code| *code != ErrorCode::NO_ERROR);
                    None
                }
                ConnectionEvent::Head { tag, status } => self
                    .number_of(tag)
                    .and_then(|number| self.on_head(number, status).err()),
                ConnectionEvent::Body { tag, bytes } => {
                    if let Some(number) = self.number_of(tag) {
                        self.on_bytes(number, bytes, (now, expected), events);
                    }
                    None
                }
                ConnectionEvent::Interim { .. } | ConnectionEvent::Trailers { .. } => None,
                ConnectionEvent::End { tag, .. } => self.on_stream_end(tag, None, events),
                ConnectionEvent::Reset { tag, code, .. } => {
                    self.on_stream_end(tag, Some(code), events)
                }
                ConnectionEvent::Broken { violation, .. } => {
                    let reason = Reason::Stream(StreamFault::Http2(violation));
                    return Progress::Broken(Outcome::Protocol, reason);
                }
            };
            if let Some(fault) = fault {
                return Progress::Unusable(fault.outcome(), fault.into());
            }
        }
        if self.is_ending && !self.awaits_close() {
            return Progress::Closed;
        }
        Progress::Open
    }

    fn peer_closed(
        &mut self,
        _orderly: bool,
        _expected: &Expectations,
        _events: &mut Vec<ExchangeEvent>,
    ) -> Progress {
        if self.streams.iter().any(|it| it.socket.is_awaiting()) {
            Progress::Lost
        } else if self.streams.iter().any(|it| it.is_open) || self.is_ending {
            Progress::Closed
        } else {
            let fault = SocketFault::ClosedWhileOpening;
            Progress::Unusable(fault.outcome(), fault.into())
        }
    }

    fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        out: &mut Vec<u8>,
    ) {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let Some(id) = stream.id.filter(|_| stream.is_open) else {
                continue;
            };
            let payload = request_of(number as u32).map(Request::http1);
            loop {
                if stream.out.is_empty() {
                    stream.socket.take_output(limit, payload, &mut stream.out);
                }
                let sent = self.http.send_tunnel(id, &stream.out);
                stream.out.drain(..sent);
                if sent == 0 || !stream.out.is_empty() {
                    break;
                }
            }
        }
        if self.http.has_output() {
            self.http.take_output(out, |_| &[]);
        }
    }

    fn unsent(&self, stream: u32, _request: &Request, in_socket: u64, is_alone: bool) -> u64 {
        let stream = self.stream(stream);
        let in_socket = if is_alone { in_socket } else { 0 };
        stream.socket.unsent(stream.out.len() as u64 + in_socket)
    }
}
