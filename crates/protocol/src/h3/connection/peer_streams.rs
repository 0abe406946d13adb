//! Unidirectional streams of the peer (RFC 9114 §6.2, RFC 9204 §4.2).

use super::Connection;
use crate::h3::unidirectional::PeerStream;
use crate::h3::violation::CriticalStream;
use crate::h3::{ConnectionEvent, ErrorCode, Violation};

/// Maximum number of bytes of an integer on the decoder stream. Integers have at most 62 bits.
const INTEGER_BYTES_MAX: u8 = 10;

impl Connection {
    /// Reads bytes that arrived on a unidirectional stream of the peer.
    pub(super) fn read_peer_stream<'a>(
        &mut self,
        stream: u64,
        input: &mut &'a [u8],
    ) -> Result<ConnectionEvent<'a>, Violation> {
        let role = match self.peer_streams.get(stream) {
            PeerStream::Untyped if input.is_empty() => return Ok(ConnectionEvent::NeedMore),
            PeerStream::Untyped => {
                let begun = self.peer_streams.begin(stream, input)?;
                if begun == PeerStream::Discarded {
                    self.note_idle_frame()?;
                    *input = &[];
                    return Ok(ConnectionEvent::Discard {
                        stream,
                        code: ErrorCode::STREAM_CREATION_ERROR,
                    });
                }
                begun
            }
            role => role,
        };
        match role {
            PeerStream::Critical(CriticalStream::Control) => return self.read_control(input),
            PeerStream::Critical(CriticalStream::Encoder) => {
                let instructions = self
                    .decoder
                    .read_instructions(input)
                    .map_err(Violation::EncoderStream)?;
                self.note_idle_frames(instructions)?;
            }
            PeerStream::Critical(CriticalStream::Decoder) => self.read_peer_decoder(input)?,
            PeerStream::Untyped | PeerStream::Discarded => {}
        }
        *input = &[];
        Ok(ConnectionEvent::NeedMore)
    }

    /// Reads the peer's decoder stream (RFC 9204 §4.4). This client inserts nothing into the peer's
    /// table, so the only valid instruction is the cancellation of a stream.
    fn read_peer_decoder(&mut self, input: &[u8]) -> Result<(), Violation> {
        for &byte in input {
            let continues = match self.decoder_integer_bytes {
                0 if byte & 0xc0 == 0x40 => {
                    self.note_idle_frame()?;
                    byte & 0x3f == 0x3f
                }
                0 | INTEGER_BYTES_MAX => return Err(Violation::DecoderStream),
                _ => byte & 0x80 != 0,
            };
            self.decoder_integer_bytes = if continues {
                self.decoder_integer_bytes + 1
            } else {
                0
            };
        }
        Ok(())
    }
}
