//! Unidirectional streams of the peer and their types (RFC 9114 §6.2, RFC 9204 §4.2).

use super::violation::CriticalStream;
use super::{Violation, limits, varint};
use crate::buffer::emptied;

/// Types of unidirectional streams.
pub(super) mod stream_type {
    pub(crate) const CONTROL: u64 = 0x00;
    pub(crate) const PUSH: u64 = 0x01;
    pub(crate) const QPACK_ENCODER: u64 = 0x02;
    pub(crate) const QPACK_DECODER: u64 = 0x03;
}

/// Placeholder for the identifier of a stream that hasn't been opened.
const NO_STREAM: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct PeerStreams {
    control: Option<u64>,
    encoder: Option<u64>,
    decoder: Option<u64>,
    /// Streams whose type hasn't arrived completely.
    untyped: Vec<UntypedStream>,
    /// The most recent streams of unknown types.
    discarded: [u64; limits::DISCARDED_STREAMS_MAX],
    /// Position in `discarded` at which the next stream is stored.
    next_discarded: usize,
}

#[derive(Debug)]
struct UntypedStream {
    id: u64,
    bytes: [u8; varint::VARINT_BYTES_MAX],
    length: usize,
}

/// Role of a unidirectional stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerStream {
    /// The stream's type hasn't arrived completely.
    Untyped,
    Critical(CriticalStream),
    /// The stream's type is unknown.
    Discarded,
}

impl PeerStreams {
    pub(super) fn new() -> PeerStreams {
        PeerStreams {
            control: None,
            encoder: None,
            decoder: None,
            untyped: Vec::new(),
            discarded: [NO_STREAM; limits::DISCARDED_STREAMS_MAX],
            next_discarded: 0,
        }
    }

    /// Returns the streams of a new connection, which take over the memory.
    pub(super) fn renewed(&mut self) -> PeerStreams {
        PeerStreams {
            untyped: emptied(&mut self.untyped),
            ..PeerStreams::new()
        }
    }

    #[inline]
    pub(super) fn get(&self, id: u64) -> PeerStream {
        if self.control == Some(id) {
            PeerStream::Critical(CriticalStream::Control)
        } else if self.encoder == Some(id) {
            PeerStream::Critical(CriticalStream::Encoder)
        } else if self.decoder == Some(id) {
            PeerStream::Critical(CriticalStream::Decoder)
        } else if self.discarded.contains(&id) {
            PeerStream::Discarded
        } else {
            PeerStream::Untyped
        }
    }

    /// Parses the type of a stream at the start of its bytes. Returns `Untyped` if all input was
    /// consumed and more is needed.
    ///
    /// # Errors
    ///
    /// Returns an error for a push stream, for a second critical stream of the same type, and for
    /// too many streams without a type.
    pub(super) fn begin(&mut self, id: u64, input: &mut &[u8]) -> Result<PeerStream, Violation> {
        let Some(number) = self.take_type(id, input)? else {
            return Ok(PeerStream::Untyped);
        };
        let (critical, known) = match number {
            stream_type::CONTROL => (CriticalStream::Control, &mut self.control),
            stream_type::QPACK_ENCODER => (CriticalStream::Encoder, &mut self.encoder),
            stream_type::QPACK_DECODER => (CriticalStream::Decoder, &mut self.decoder),
            stream_type::PUSH => return Err(Violation::Push),
            _ => {
                self.discarded[self.next_discarded] = id;
                self.next_discarded = (self.next_discarded + 1) % self.discarded.len();
                return Ok(PeerStream::Discarded);
            }
        };
        match known.replace(id) {
            None => Ok(PeerStream::Critical(critical)),
            Some(_) => Err(Violation::StreamTwice(critical)),
        }
    }

    fn take_type(&mut self, id: u64, input: &mut &[u8]) -> Result<Option<u64>, Violation> {
        let position = self.untyped.iter().position(|stream| stream.id == id);
        let Some(at) = position else {
            if let Some(number) = varint::take(input) {
                return Ok(Some(number));
            }
            if self.untyped.len() == limits::UNTYPED_STREAMS_MAX {
                let limit = limits::UNTYPED_STREAMS_MAX as u32;
                return Err(Violation::TooManyUntyped { limit });
            }
            // An incomplete number has fewer bytes than the longest encoding.
            let mut bytes = [0; varint::VARINT_BYTES_MAX];
            bytes[..input.len()].copy_from_slice(input);
            let length = input.len();
            self.untyped.push(UntypedStream { id, bytes, length });
            *input = &[];
            return Ok(None);
        };
        let stream = &mut self.untyped[at];
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            stream.bytes[stream.length] = byte;
            stream.length += 1;
            if let Some(number) = varint::take(&mut &stream.bytes[..stream.length]) {
                self.untyped.swap_remove(at);
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Removes a stream that ended before its type was complete, which is allowed (RFC 9114 §6.2).
    pub(super) fn forget(&mut self, id: u64) {
        self.untyped.retain(|stream| stream.id != id);
    }
}
