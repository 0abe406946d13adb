//! An open WebSocket.

use std::collections::VecDeque;

use prony_protocol::websocket::{
    Agreed, Frames, KEY_BYTES, Opcode, SocketEvent, Violation, header_bytes, write_frame,
    write_header, write_masked,
};
use prony_record::Nanos;

use super::deflate::Deflate;
use crate::carrier::events::{EventKind, ExchangeEvent, ResponseProgress, Reuse};
use crate::carrier::fault::SocketFault;
use crate::request::expect::{Expectations, ReceivedBody};

/// Maximum number of bytes of pongs that wait to be sent. A server that sends more pings without
/// reading gets no pongs for them.
const CONTROL_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of payload bytes that are masked at a time, so that a large message is never in
/// memory twice.
const MASKED_PIECE_BYTES: usize = 64 * 1024;
/// Code with which the load closes a WebSocket.
const NORMAL_CLOSURE: u16 = 1000;

/// The state of an open WebSocket (RFC 6455 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketPhase {
    Open,
    /// This side has sent a close frame and awaits the server's.
    Closing,
    /// No more frames are sent.
    Closed,
}

/// A message whose frame has not been taken for sending completely.
#[derive(Debug)]
struct Outgoing {
    opcode: Opcode,
    key: [u8; KEY_BYTES],
    is_compressed: bool,
    /// Length of the payload as it is sent.
    length: usize,
    /// Number of payload bytes that were taken; `None` before the header.
    taken: Option<usize>,
}

/// The messages of the server.
#[derive(Debug, Default)]
struct Incoming {
    /// True if a message of this side awaits its response.
    is_awaited: bool,
    first_byte: Option<Nanos>,
    bytes: u64,
    /// Payload bytes as they were sent, which may be compressed.
    payload_bytes: u64,
    /// The message itself.
    body: ReceivedBody,
    /// The messages themselves, if the load is a fan-out.
    deliveries: Option<Box<Deliveries>>,
}

impl Incoming {
    /// Counts a part of a payload.
    #[inline]
    fn count(&mut self, part: &[u8]) {
        if self.is_awaited {
            self.payload_bytes += part.len() as u64;
        }
    }

    #[inline]
    fn add(&mut self, piece: &[u8], now: Nanos) {
        if let Some(deliveries) = &mut self.deliveries {
            let room = DELIVERY_BYTES_MAX - deliveries.current.len();
            let piece = &piece[..piece.len().min(room)];
            deliveries.current.extend_from_slice(piece);
        }
        if self.is_awaited {
            self.first_byte.get_or_insert(now);
            self.body.add(piece);
        }
    }
}

/// Maximum number of bytes of a message that a fan-out recognizes.
const DELIVERY_BYTES_MAX: usize = 1 << 20;

/// The messages of a fan-out that arrived on one WebSocket.
#[derive(Debug, Default)]
struct Deliveries {
    /// The beginning of the message that is being received.
    current: Vec<u8>,
    /// Messages that the worker has yet to take.
    complete: VecDeque<Vec<u8>>,
}

/// An open WebSocket.
#[derive(Debug)]
pub(super) struct Socket {
    frames: Frames,
    deflate: Option<Box<Deflate>>,
    phase: SocketPhase,
    /// Pongs and close frames to send.
    control: Vec<u8>,
    outgoing: Option<Outgoing>,
    /// Length of the last message's frame.
    message_bytes: u64,
    incoming: Incoming,
    /// True if the message in flight is the last one.
    is_last: bool,
    keys: MaskKeys,
}

impl Socket {
    pub(super) fn new(agreed: Agreed, is_fan_out: bool) -> Socket {
        let deflate = agreed.deflate.map(|it| Box::new(Deflate::new(it)));
        Socket {
            frames: Frames::new(deflate.is_some()),
            deflate,
            phase: SocketPhase::Open,
            control: Vec::new(),
            outgoing: None,
            message_bytes: 0,
            incoming: Incoming {
                deliveries: is_fan_out.then(Box::default),
                ..Incoming::default()
            },
            is_last: false,
            keys: MaskKeys::new(),
        }
    }

    /// Returns true if another message can be sent.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.is_open() && !self.incoming.is_awaited
    }

    /// Returns true if no side has closed the WebSocket.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.phase == SocketPhase::Open
    }

    /// Removes and returns the oldest message that was not taken, if the load is a fan-out.
    pub(super) fn take_delivery(&mut self) -> Option<Vec<u8>> {
        self.incoming.deliveries.as_mut()?.complete.pop_front()
    }

    /// Returns true if a message awaits its response.
    pub(super) fn is_awaiting(&self) -> bool {
        self.incoming.is_awaited
    }

    /// Returns true if this side has sent a close frame, and the server has not.
    pub(super) fn is_closing(&self) -> bool {
        self.phase == SocketPhase::Closing
    }

    pub(super) fn hash_bodies(&mut self) {
        self.incoming.body.hash_always();
    }

    pub(super) fn take_hash(&mut self) -> [u8; 32] {
        self.incoming.body.take_hash()
    }

    pub(super) fn received(&self) -> ResponseProgress {
        ResponseProgress {
            status: None,
            first_byte: self.incoming.first_byte,
            bytes: self.incoming.bytes,
            body_bytes: self.incoming.payload_bytes,
        }
    }

    /// Ends the exchange in flight, if there is one. Returns true if there was.
    pub(super) fn abandon(&mut self) -> bool {
        std::mem::take(&mut self.incoming.is_awaited)
    }

    /// Makes the next message the last one.
    pub(super) fn announce_last(&mut self) {
        self.is_last = true;
    }

    /// Starts a message. Returns the length of its frame.
    pub(super) fn start(&mut self, opcode: Opcode, payload: &[u8], expected: &Expectations) -> u64 {
        let compressed = self.deflate.as_mut().and_then(|it| it.deflate(payload));
        let length = compressed.unwrap_or(payload.len());
        self.outgoing = Some(Outgoing {
            opcode,
            key: self.keys.next(),
            is_compressed: compressed.is_some(),
            length,
            taken: None,
        });
        self.message_bytes = (header_bytes(length) + length) as u64;
        let incoming = &mut self.incoming;
        (incoming.is_awaited, incoming.first_byte) = (true, None);
        (incoming.bytes, incoming.payload_bytes) = (0, 0);
        incoming.body.start(expected);
        self.message_bytes
    }

    /// Closes the WebSocket, unless the frame of a message is incomplete. Returns true if a close
    /// frame is then to be sent.
    pub(super) fn close(&mut self, code: u16) -> bool {
        if self.phase != SocketPhase::Open || !self.write_close(Some(code)) {
            return false;
        }
        self.phase = SocketPhase::Closing;
        true
    }

    /// Closes the WebSocket because the load needs it no longer.
    pub(super) fn close_normally(&mut self) -> bool {
        self.close(NORMAL_CLOSURE)
    }

    fn write_close(&mut self, code: Option<u16>) -> bool {
        if self.is_within_message() {
            return false;
        }
        self.outgoing = None;
        let payload = code.map(u16::to_be_bytes);
        let payload = payload.as_ref().map_or(&[][..], |code| code);
        let key = self.keys.next();
        write_frame(Opcode::Close, payload, key, &mut self.control);
        true
    }

    /// Returns true if a part of a message's frame was taken. No control frame may follow it.
    fn is_within_message(&self) -> bool {
        self.outgoing.as_ref().is_some_and(|it| it.taken.is_some())
    }

    /// Processes bytes from the server, and appends the resulting events of this stream number.
    ///
    /// # Errors
    ///
    /// The WebSocket has ended. A close frame may have to be sent.
    pub(super) fn receive(
        &mut self,
        bytes: &mut &[u8],
        stream: u32,
        (now, expected): (Nanos, &Expectations),
        events: &mut Vec<ExchangeEvent>,
    ) -> Result<(), SocketFault> {
        loop {
            let before = bytes.len();
            let event = self.frames.next(bytes);
            if self.incoming.is_awaited {
                self.incoming.bytes += (before - bytes.len()) as u64;
            }
            let event = match event {
                Ok(SocketEvent::NeedMore) => return Ok(()),
                Ok(event) => self.handle(event, now),
                Err(violation) => Err(violation),
            };
            match event {
                Ok(None) => {}
                Ok(Some(SocketStep::Message)) => events.push(ExchangeEvent {
                    stream,
                    kind: self.message_event(now, expected),
                }),
                Ok(Some(SocketStep::Close(code))) => return Err(self.closed(code)),
                Err(violation) => {
                    self.write_close(Some(violation.close_code()));
                    self.phase = SocketPhase::Closed;
                    return Err(SocketFault::Violation(violation));
                }
            }
        }
    }

    fn handle(
        &mut self,
        event: SocketEvent<'_>,
        now: Nanos,
    ) -> Result<Option<SocketStep>, Violation> {
        let incoming = &mut self.incoming;
        match event {
            SocketEvent::Data(piece) => {
                incoming.count(piece);
                incoming.add(piece, now);
            }
            SocketEvent::Compressed { bytes, is_binary } => {
                incoming.count(bytes);
                if let Some(deflate) = &mut self.deflate {
                    deflate.inflate(bytes, is_binary, &mut |piece| incoming.add(piece, now))?;
                }
            }
            SocketEvent::MessageEnd {
                is_binary,
                is_compressed,
            } => {
                if let Some(deflate) = self.deflate.as_mut().filter(|_| is_compressed) {
                    deflate.end(is_binary, &mut |piece| incoming.add(piece, now))?;
                }
                return Ok(Some(SocketStep::Message));
            }
            SocketEvent::Ping => self.write_pong(),
            SocketEvent::Pong | SocketEvent::NeedMore => {}
            SocketEvent::Close(code) => return Ok(Some(SocketStep::Close(code))),
        }
        Ok(None)
    }

    /// The event of a complete message from the server. It ends the exchange in flight, if there is
    /// one.
    fn message_event(&mut self, now: Nanos, expected: &Expectations) -> EventKind {
        if let Some(deliveries) = &mut self.incoming.deliveries {
            let message = std::mem::take(&mut deliveries.current);
            deliveries.complete.push_back(message);
            return EventKind::Unawaited;
        }
        if !std::mem::take(&mut self.incoming.is_awaited) {
            return EventKind::Unawaited;
        }
        self.incoming.first_byte.get_or_insert(now);
        let is_last = std::mem::take(&mut self.is_last);
        let reuse = if self.outgoing.is_some() {
            // The rest of the message can't be sent, because its exchange is over.
            self.phase = SocketPhase::Closed;
            Reuse::Refused
        } else if is_last {
            self.close_normally();
            Reuse::PeerCloses { requested: true }
        } else {
            Reuse::Allowed
        };
        let outcome = self.incoming.body.judge_content(expected);
        EventKind::Response { outcome, reuse }
    }

    fn write_pong(&mut self) {
        if self.phase == SocketPhase::Open && self.control.len() < CONTROL_BYTES_MAX {
            let key = self.keys.next();
            let payload = self.frames.control();
            write_frame(Opcode::Pong, payload, key, &mut self.control);
        }
    }

    /// Handles the server's close frame, which the last output repeats (RFC 6455 §5.5.1).
    fn closed(&mut self, code: Option<u16>) -> SocketFault {
        if self.phase == SocketPhase::Open {
            self.write_close(code);
        }
        self.phase = SocketPhase::Closed;
        SocketFault::Closed(code)
    }

    /// Ends the WebSocket, because its bytes have ended. Returns the fault of the exchange in flight;
    /// `None` if no byte of its response has arrived.
    pub(super) fn cut_off(&mut self) -> Option<SocketFault> {
        self.phase = SocketPhase::Closed;
        self.incoming.first_byte.map(|_| SocketFault::Truncated)
    }

    /// Appends up to about `limit` bytes of output. `payload` is that of the message in flight.
    pub(super) fn take_output(&mut self, limit: usize, payload: Option<&[u8]>, out: &mut Vec<u8>) {
        if !self.is_within_message() {
            out.append(&mut self.control);
        }
        let Some(outgoing) = &mut self.outgoing else {
            return;
        };
        let payload = match &self.deflate {
            Some(deflate) if outgoing.is_compressed => Some(deflate.compressed()),
            _ => payload,
        };
        let Some(payload) = payload else {
            return;
        };
        let key = outgoing.key;
        let taken = outgoing.taken.unwrap_or_else(|| {
            let Outgoing { opcode, length, .. } = *outgoing;
            write_header(opcode, outgoing.is_compressed, length, key, out);
            0
        });
        let rest = payload.get(taken..).unwrap_or_default();
        let piece = &rest[..rest.len().min(limit).min(MASKED_PIECE_BYTES)];
        write_masked(piece, taken, key, out);
        outgoing.taken = Some(taken + piece.len());
        if taken + piece.len() >= outgoing.length {
            self.outgoing = None;
            out.append(&mut self.control);
        }
    }

    /// Number of bytes of the last message's frame that were not taken, or are among the `in_socket`
    /// bytes that have not been sent.
    pub(super) fn unsent(&self, in_socket: u64) -> u64 {
        let left = match &self.outgoing {
            Some(Outgoing {
                taken: Some(taken),
                length,
                ..
            }) => (length - taken) as u64,
            Some(_) => self.message_bytes,
            None => 0,
        };
        (left + in_socket).min(self.message_bytes)
    }
}

/// Step of a WebSocket that a frame completes.
enum SocketStep {
    /// A message is complete.
    Message,
    /// The server closes the WebSocket.
    Close(Option<u16>),
}

/// Generator of mask keys: SplitMix64 from a random start. Servers and proxies can't predict the next
/// key of a WebSocket from other WebSockets (RFC 6455 §5.3).
#[derive(Debug)]
struct MaskKeys(u64);

impl MaskKeys {
    fn new() -> MaskKeys {
        let mut start = [0; 8];
        // Without random numbers, keys are predictable, which only proxies could exploit.
        let _ = aws_lc_rs::rand::fill(&mut start);
        MaskKeys(u64::from_ne_bytes(start))
    }

    #[inline]
    fn next(&mut self) -> [u8; KEY_BYTES] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed >> 32) as u32).to_ne_bytes()
    }
}
