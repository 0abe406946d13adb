//! Frames (RFC 6455 §5).

use super::utf8::Utf8Check;
use super::violation::Violation;

/// Maximum length of a control frame's payload.
const CONTROL_MAX: usize = 125;
/// Maximum length of a header without a mask.
const HEADER_MAX: usize = 10;

/// Opcode of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// A further part of a message.
    Continuation = 0,
    /// The first part of a text message.
    Text = 1,
    /// The first part of a binary message.
    Binary = 2,
    /// The end of the connection.
    Close = 8,
    /// A request for a pong.
    Ping = 9,
    /// The response to a ping, or a sign of life.
    Pong = 10,
}

impl Opcode {
    fn of(number: u8) -> Result<Opcode, Violation> {
        Ok(match number {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            other => return Err(Violation::ReservedOpcode(other)),
        })
    }

    fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// Length of a key with which a client masks a frame.
pub const KEY_BYTES: usize = 4;

/// Appends the header of a final frame from a client, whose payload has this length and is masked
/// with this key. RSV1 marks a compressed message (RFC 7692 §6).
pub fn write_header(
    opcode: Opcode,
    is_compressed: bool,
    length: usize,
    key: [u8; KEY_BYTES],
    out: &mut Vec<u8>,
) {
    const MASK: u8 = 0x80;
    out.push(0x80 | u8::from(is_compressed) << 6 | opcode as u8);
    match length {
        short @ 0..=125 => out.push(MASK | short as u8),
        medium @ 126..=0xffff => {
            out.push(MASK | 126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(MASK | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&key);
}

/// Length of the header that [`write_header`] appends.
#[must_use]
pub fn header_bytes(length: usize) -> usize {
    let extended = match length {
        0..=125 => 0,
        126..=0xffff => 2,
        _ => 8,
    };
    2 + extended + KEY_BYTES
}

/// Appends a piece of a masked payload. `offset` is the number of payload bytes before the piece.
pub fn write_masked(piece: &[u8], offset: usize, mut key: [u8; KEY_BYTES], out: &mut Vec<u8>) {
    key.rotate_left(offset % KEY_BYTES);
    let word = u32::from_ne_bytes(key);
    let word = u64::from(word) << 32 | u64::from(word);
    let (words, rest) = piece.as_chunks::<8>();
    out.reserve(piece.len());
    for &bytes in words {
        out.extend_from_slice(&(u64::from_ne_bytes(bytes) ^ word).to_ne_bytes());
    }
    out.extend(
        rest.iter()
            .zip(key.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
}

/// Appends a whole frame from a client, which is not compressed.
pub fn write_frame(opcode: Opcode, payload: &[u8], key: [u8; KEY_BYTES], out: &mut Vec<u8>) {
    write_header(opcode, false, payload.len(), key, out);
    write_masked(payload, 0, key, out);
}

/// Something that frames from the server mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketEvent<'a> {
    /// All input was used, and nothing is complete.
    NeedMore,
    /// A part of a message. Text has been checked.
    Data(&'a [u8]),
    /// A part of a compressed message. The caller checks the text that it inflates.
    Compressed {
        /// The part, as it was sent.
        bytes: &'a [u8],
        /// True for a binary message, false for text.
        is_binary: bool,
    },
    /// The message is complete.
    MessageEnd {
        /// True for a binary message, false for text.
        is_binary: bool,
        /// True if the parts were [`SocketEvent::Compressed`].
        is_compressed: bool,
    },
    /// A ping; [`Frames::control`] has its payload, which the pong must repeat.
    Ping,
    /// A pong.
    Pong,
    /// The server closes the connection, with this code if it gave one.
    Close(Option<u16>),
}

/// The frame that is being read.
#[derive(Debug, Clone, Copy)]
struct Frame {
    opcode: Opcode,
    is_final: bool,
    /// Number of payload bytes that have not arrived.
    left: u64,
}

/// A message whose last frame has not ended.
#[derive(Debug, Default)]
struct Message {
    is_binary: bool,
    is_compressed: bool,
    text: Utf8Check,
}

/// Reads the frames of a server, whose bytes are split anywhere. Messages are not buffered.
#[derive(Debug, Default)]
pub struct Frames {
    header: [u8; HEADER_MAX],
    header_length: u8,
    frame: Option<Frame>,
    message: Option<Message>,
    control: Vec<u8>,
    has_closed: bool,
    /// True if the handshake agreed on compression.
    has_compression: bool,
    violation: Option<Violation>,
}

impl Frames {
    /// Creates the state of a connection whose handshake is complete. Messages may be compressed
    /// only if the handshake agreed on it.
    #[must_use]
    pub fn new(has_compression: bool) -> Frames {
        Frames {
            has_compression,
            ..Frames::default()
        }
    }

    /// Payload of the last control frame.
    #[must_use]
    pub fn control(&self) -> &[u8] {
        &self.control
    }

    /// Returns true if a message has begun and not ended.
    #[must_use]
    pub fn is_within_message(&self) -> bool {
        self.message.is_some() || self.frame.is_some() || self.header_length > 0
    }

    /// Takes the next event from the input.
    ///
    /// # Errors
    ///
    /// The server violated the protocol. Each later call returns the same violation.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<SocketEvent<'a>, Violation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        let event = self.read(bytes);
        self.violation = event.err();
        event
    }

    fn read<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<SocketEvent<'a>, Violation> {
        loop {
            let frame = match self.frame {
                Some(frame) => frame,
                None => match self.read_header(bytes)? {
                    Some(frame) => self.frame.insert(frame).to_owned(),
                    None => return Ok(SocketEvent::NeedMore),
                },
            };
            if frame.left == 0 {
                self.frame = None;
                match self.end_frame(frame)? {
                    Some(event) => return Ok(event),
                    None => continue,
                }
            }
            if bytes.is_empty() {
                return Ok(SocketEvent::NeedMore);
            }
            let length = usize::try_from(frame.left).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(length.min(bytes.len()));
            *bytes = rest;
            self.frame = Some(Frame {
                left: frame.left - piece.len() as u64,
                ..frame
            });
            if frame.opcode.is_control() {
                self.control.extend_from_slice(piece);
                continue;
            }
            if let Some(message) = &mut self.message {
                let is_binary = message.is_binary;
                if message.is_compressed {
                    let bytes = piece;
                    return Ok(SocketEvent::Compressed { bytes, is_binary });
                }
                if !is_binary && !message.text.add(piece) {
                    return Err(Violation::Utf8);
                }
            }
            return Ok(SocketEvent::Data(piece));
        }
    }

    /// Reads a frame's header. Returns `None` if it is incomplete.
    fn read_header(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, Violation> {
        loop {
            let have = usize::from(self.header_length);
            let needed = match (have, self.header[1] & 0x7f) {
                (0 | 1, _) => 2,
                (_, 126) => 4,
                (_, 127) => 10,
                _ => 2,
            };
            if have == needed {
                break;
            }
            let Some((&first, rest)) = bytes.split_first() else {
                return Ok(None);
            };
            if self.has_closed {
                return Err(Violation::AfterClose);
            }
            *bytes = rest;
            self.header[have] = first;
            self.header_length += 1;
        }
        let header = self.header;
        self.header_length = 0;
        self.header[1] = 0;
        self.begin_frame(header).map(Some)
    }

    fn begin_frame(&mut self, header: [u8; HEADER_MAX]) -> Result<Frame, Violation> {
        let opcode = Opcode::of(header[0] & 0x0f);
        // Only the first frame of a message has the bit of compression (RFC 7692 §6).
        let begins = matches!(opcode, Ok(Opcode::Text | Opcode::Binary));
        let is_compressed = header[0] & 0x40 != 0;
        if header[0] & 0x30 != 0 || is_compressed && !(begins && self.has_compression) {
            return Err(Violation::ReservedBits);
        }
        let opcode = opcode?;
        let is_final = header[0] & 0x80 != 0;
        if header[1] & 0x80 != 0 {
            return Err(Violation::Masked);
        }
        let [_, _, a, b, c, d, e, f, g, h] = header;
        let (left, least) = match header[1] & 0x7f {
            126 => (u64::from(u16::from_be_bytes([a, b])), 126),
            127 => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 0x1_0000),
            short => (u64::from(short), 0),
        };
        if opcode.is_control() {
            if !is_final {
                return Err(Violation::FragmentedControl);
            }
            if left > CONTROL_MAX as u64 {
                return Err(Violation::LongControl);
            }
            self.control.clear();
        }
        if left < least || left >> 63 != 0 {
            return Err(Violation::Length);
        }
        match (opcode, &self.message) {
            (Opcode::Continuation, None) => return Err(Violation::LoneContinuation),
            (Opcode::Text | Opcode::Binary, Some(_)) => return Err(Violation::NestedMessage),
            (Opcode::Text | Opcode::Binary, None) => {
                self.message = Some(Message {
                    is_binary: opcode == Opcode::Binary,
                    is_compressed,
                    text: Utf8Check::default(),
                });
            }
            _ => {}
        }
        Ok(Frame {
            opcode,
            is_final,
            left,
        })
    }

    /// Ends a frame. Returns its event, if it has one.
    fn end_frame(&mut self, frame: Frame) -> Result<Option<SocketEvent<'static>>, Violation> {
        Ok(match frame.opcode {
            Opcode::Ping => Some(SocketEvent::Ping),
            Opcode::Pong => Some(SocketEvent::Pong),
            Opcode::Close => Some(SocketEvent::Close(self.close_code()?)),
            _ if !frame.is_final => None,
            _ => {
                let message = self.message.take().unwrap_or_default();
                if !message.text.is_complete() {
                    return Err(Violation::Utf8);
                }
                Some(SocketEvent::MessageEnd {
                    is_binary: message.is_binary,
                    is_compressed: message.is_compressed,
                })
            }
        })
    }

    /// Returns the code of the close frame that has ended.
    fn close_code(&mut self) -> Result<Option<u16>, Violation> {
        self.has_closed = true;
        let [high, low, reason @ ..] = &self.control[..] else {
            return if self.control.is_empty() {
                Ok(None)
            } else {
                Err(Violation::Close)
            };
        };
        let code = u16::from_be_bytes([*high, *low]);
        if !is_sendable(code) || std::str::from_utf8(reason).is_err() {
            return Err(Violation::Close);
        }
        Ok(Some(code))
    }
}

/// Returns true if a close frame may have this code (RFC 6455 §7.4, and the registry that it
/// created).
fn is_sendable(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Returns the registered name of a close code; `None` if it has none.
#[must_use]
pub fn close_code_name(code: u16) -> Option<&'static str> {
    Some(match code {
        1000 => "normal closure",
        1001 => "going away",
        1002 => "protocol error",
        1003 => "unsupported data",
        1007 => "invalid payload data",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "extension needed",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        _ => return None,
    })
}
