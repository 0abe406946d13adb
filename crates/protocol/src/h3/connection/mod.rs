//! An HTTP/3 connection as a state machine: bytes in, events out.

mod control;
mod peer_streams;
mod responses;
mod state;

use control::ControlReading;
use state::ConnectionState;

use super::qpack::Decoder;
use super::stream::FrameReading;
use super::streams::Streams;
use super::unidirectional::{PeerStream, PeerStreams, stream_type};
use super::{
    ClientSettings, ConnectionEvent, EncodedRequest, ErrorCode, StartError, StreamViolation,
    Violation, limits, varint,
};
use crate::buffer::emptied;
use crate::compression::CallMessageId;
use crate::response_stage::UnfinishedRequest;

/// Client side of one connection, as a state machine above QUIC.
///
/// The caller opens QUIC streams and owns them. For each request, it writes [`EncodedRequest::wire`] to
/// a new bidirectional stream and ends the stream. It passes in the bytes that arrive on all
/// streams. It also opens two unidirectional streams, for
/// [`take_control`](Connection::take_control) and [`take_decoder`](Connection::take_decoder).
/// After a connection has ended, [`restart`](Connection::restart) prepares the object for the
/// next one and reuses its memory.
#[derive(Debug)]
pub struct Connection {
    settings: ClientSettings,
    state: ConnectionState,
    streams: Streams,
    peer_streams: PeerStreams,
    decoder: Decoder,
    /// Position in the peer's control stream.
    control: ControlReading,
    /// The part of an incomplete frame on the control stream that has arrived.
    control_kept: Vec<u8>,
    /// Number of bytes of an unfinished integer on the peer's decoder stream; 0 between
    /// instructions.
    decoder_integer_bytes: u8,
    /// Output for the control stream.
    control_out: Vec<u8>,
    /// True until the type of the decoder stream has been sent.
    decoder_type_due: bool,
    /// Total size of all streams' incomplete field sections, in bytes.
    partial_bytes: usize,
    /// Number of consecutive frames that made no progress.
    idle_frames: u32,
}

/// Initiator and direction of a stream, which are encoded in the lowest two bits of its identifier
/// (RFC 9000 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    Request,
    ServerBidirectional,
    OwnUnidirectional,
    PeerUnidirectional,
}

impl StreamKind {
    #[inline]
    fn of(stream: u64) -> StreamKind {
        match stream & 3 {
            0 => StreamKind::Request,
            1 => StreamKind::ServerBidirectional,
            2 => StreamKind::OwnUnidirectional,
            _ => StreamKind::PeerUnidirectional,
        }
    }
}

/// The parts of a connection that own memory, each in its initial state.
struct ConnectionParts {
    streams: Streams,
    peer_streams: PeerStreams,
    decoder: Decoder,
    control_kept: Vec<u8>,
    control_out: Vec<u8>,
}

impl Connection {
    /// Creates a connection, with SETTINGS to be sent (RFC 9114 §6.2.1).
    #[must_use]
    pub fn new(settings: ClientSettings) -> Connection {
        let settings = settings.within_bounds();
        let list_limit_bytes = limits::FIELD_SECTION_BYTES_MAX;
        let parts = ConnectionParts {
            streams: Streams::new(settings.streams),
            peer_streams: PeerStreams::new(),
            decoder: Decoder::new(settings.header_table_bytes, list_limit_bytes),
            control_kept: Vec::new(),
            control_out: Vec::new(),
        };
        Connection::from_parts(settings, parts)
    }

    fn from_parts(settings: ClientSettings, parts: ConnectionParts) -> Connection {
        let mut connection = Connection {
            settings,
            state: ConnectionState::Opening,
            streams: parts.streams,
            peer_streams: parts.peer_streams,
            decoder: parts.decoder,
            control: ControlReading::Header,
            control_kept: parts.control_kept,
            decoder_integer_bytes: 0,
            control_out: parts.control_out,
            decoder_type_due: true,
            partial_bytes: 0,
            idle_frames: 0,
        };
        connection.write_opening();
        connection
    }

    /// Replaces this connection by a new one, which takes over the memory and the decoder's cache.
    pub fn restart(&mut self) {
        let parts = ConnectionParts {
            streams: self.streams.renewed(),
            peer_streams: self.peer_streams.renewed(),
            decoder: self.decoder.renewed(),
            control_kept: emptied(&mut self.control_kept),
            control_out: emptied(&mut self.control_out),
        };
        *self = Connection::from_parts(self.settings, parts);
    }

    /// Writes the beginning of the control stream.
    fn write_opening(&mut self) {
        varint::write(stream_type::CONTROL, &mut self.control_out);
        self.settings.write(&mut self.control_out);
    }

    /// Enables [`fields`](Connection::fields), which returns the fields of heads as text. Must be
    /// called before the first bytes from the peer are read.
    pub fn keep_fields(&mut self) {
        self.decoder.keep_texts();
    }

    /// Returns the fields as text after [`ConnectionEvent::Head`], until more input is read. There is one
    /// line per field, ended by CRLF, after a status line such as `HTTP/3 200`. The result is empty
    /// without [`keep_fields`](Connection::keep_fields).
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        self.decoder.lines()
    }

    /// Returns the value of a `grpc-message` that this connection received, percent-encoded.
    #[must_use]
    pub fn call_message(&self, id: CallMessageId) -> &[u8] {
        self.decoder.call_message(id)
    }

    /// Returns `Ok` if a request can be started now. QUIC's limit on streams is not checked.
    ///
    /// # Errors
    ///
    /// Returns the reason why no request can be started.
    #[inline]
    pub fn can_start(&self) -> Result<(), StartError> {
        if !self.state.accepts_requests() {
            Err(StartError::GoingAway)
        } else if self.streams.active() >= self.settings.streams {
            Err(StartError::OwnLimit)
        } else {
            Ok(())
        }
    }

    /// Starts a request on a new bidirectional stream of this client, with this identifier. Every
    /// event of the request contains `tag`.
    ///
    /// # Errors
    ///
    /// Returns the reason why the request can't be started now or can never be started on this
    /// connection. The state is then unchanged.
    #[inline]
    pub fn start(
        &mut self,
        request: &EncodedRequest,
        stream: u64,
        tag: u32,
    ) -> Result<(), StartError> {
        self.can_start()?;
        let peer = self.state.peer_settings();
        let limit = peer.and_then(|peer| peer.max_field_section_bytes);
        if let Some(limit_bytes) = limit
            && u64::from(request.list_bytes()) > limit_bytes
        {
            return Err(StartError::FieldsTooLong { limit_bytes });
        }
        debug_assert!(StreamKind::of(stream) == StreamKind::Request);
        self.streams.open(stream, tag, request.expects());
        Ok(())
    }

    /// Cancels a request, and reports no more events for it. Returns its stream, which the caller
    /// must reset and stop with [`ErrorCode::REQUEST_CANCELLED`], or `None` if the request has
    /// ended.
    pub fn cancel(&mut self, tag: u32) -> Option<u64> {
        let slot = self.streams.find_tag(tag)?;
        let stream = self.streams.at(slot).id;
        self.abandon(slot);
        Some(stream)
    }

    /// Ends a stream whose remaining bytes won't be read (RFC 9204 §2.2.2.2).
    fn abandon(&mut self, slot: usize) {
        let stream = self.streams.at(slot);
        let (id, partial_bytes) = (stream.id, stream.partial_bytes());
        self.partial_bytes -= partial_bytes;
        self.streams.close(slot);
        self.decoder.cancel(id);
    }

    /// Consumes bytes that arrived in order on a stream, from the front of `input`, up to the next
    /// event. The stream carries one of this client's requests, or was opened by the peer.
    ///
    /// Call it until it returns [`ConnectionEvent::NeedMore`]. Only frame headers, field sections and
    /// instructions that arrive in parts are copied; body bytes never are.
    ///
    /// # Errors
    ///
    /// Returns the first connection error. The caller must close the connection with the error's
    /// code. Until a restart, each call returns the same violation.
    #[inline]
    pub fn next<'a>(
        &mut self,
        stream: u64,
        input: &mut &'a [u8],
    ) -> Result<ConnectionEvent<'a>, Violation> {
        self.state.check()?;
        let result = match StreamKind::of(stream) {
            StreamKind::Request => self.read_response(stream, input),
            StreamKind::PeerUnidirectional => self.read_peer_stream(stream, input),
            StreamKind::ServerBidirectional => Err(Violation::ServerBidirectional),
            StreamKind::OwnUnidirectional => {
                *input = &[];
                Ok(ConnectionEvent::NeedMore)
            }
        };
        result.inspect_err(|violation| self.state.fail(*violation))
    }

    /// Handles the orderly end of a stream (FIN). All bytes of the stream must already have been
    /// passed to [`next`](Connection::next).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`next`](Connection::next).
    pub fn finished(&mut self, stream: u64) -> Result<ConnectionEvent<'static>, Violation> {
        self.state.check()?;
        let result = match StreamKind::of(stream) {
            StreamKind::Request => self.finish_response(stream),
            _ => self.peer_stream_closed(stream),
        };
        result.inspect_err(|violation| self.state.fail(*violation))
    }

    /// Handles the peer's reset of its side of a stream (RESET_STREAM).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`next`](Connection::next).
    pub fn reset(
        &mut self,
        stream: u64,
        code: ErrorCode,
    ) -> Result<ConnectionEvent<'static>, Violation> {
        self.state.check()?;
        let result = match StreamKind::of(stream) {
            StreamKind::Request => Ok(self.reset_response(stream, code)),
            _ => self.peer_stream_closed(stream),
        };
        result.inspect_err(|violation| self.state.fail(*violation))
    }

    /// Handles the peer's request to stop sending on a stream of this client (STOP_SENDING).
    ///
    /// A server that doesn't need the rest of a request stops it and still sends a response (RFC
    /// 9114 §4.1), so the request continues. The caller must reset its side of the stream with the
    /// same code.
    ///
    /// # Errors
    ///
    /// Returns a connection error for a unidirectional stream: the peer must read this client's
    /// control and decoder streams (RFC 9114 §6.2.1, RFC 9204 §4.2).
    pub fn stopped(&mut self, stream: u64) -> Result<ConnectionEvent<'static>, Violation> {
        self.state.check()?;
        if StreamKind::of(stream) != StreamKind::OwnUnidirectional {
            return Ok(ConnectionEvent::Ignored);
        }
        self.state.fail(Violation::CriticalStopped);
        Err(Violation::CriticalStopped)
    }

    /// Handles the end of a stream that doesn't carry a request. The end of a critical stream is a
    /// connection error (RFC 9114 §6.2.1).
    fn peer_stream_closed(&mut self, stream: u64) -> Result<ConnectionEvent<'static>, Violation> {
        match StreamKind::of(stream) {
            StreamKind::Request | StreamKind::OwnUnidirectional => Ok(ConnectionEvent::Ignored),
            StreamKind::ServerBidirectional => Err(Violation::ServerBidirectional),
            StreamKind::PeerUnidirectional => match self.peer_streams.get(stream) {
                PeerStream::Critical(kind) => Err(Violation::CriticalClosed(kind)),
                PeerStream::Untyped | PeerStream::Discarded => {
                    self.peer_streams.forget(stream);
                    Ok(ConnectionEvent::Ignored)
                }
            },
        }
    }

    /// Appends the output for this client's control stream, which begins with the stream's type.
    pub fn take_control(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.control_out);
    }

    /// Appends the output for this client's QPACK decoder stream, which begins with the stream's
    /// type. Call this only after earlier output was sent; otherwise a peer that doesn't read the
    /// stream would not be detected.
    pub fn take_decoder(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.decoder_type_due) {
            varint::write(stream_type::QPACK_DECODER, out);
        }
        self.decoder.take_output(out);
    }

    /// Returns true if there is output for the control or the decoder stream.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.control_out.is_empty() || self.decoder_type_due || self.decoder.has_output()
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.streams.active()
    }

    /// Returns the requests in flight. They remain unfinished after a violation, or if the peer
    /// closes the connection.
    pub fn unfinished(&self) -> impl Iterator<Item = UnfinishedRequest> {
        self.streams.live().map(|stream| UnfinishedRequest {
            tag: stream.tag,
            answered: stream.is_answered(),
        })
    }

    /// Returns the tag of the request in flight on a stream.
    #[must_use]
    pub fn tag_of(&self, stream: u64) -> Option<u32> {
        self.streams.get(stream).map(|stream| stream.tag)
    }

    /// Returns true if the last part of the body on a stream was the end of its DATA frame.
    #[must_use]
    pub fn is_at_frame_end(&self, stream: u64) -> bool {
        let stream = self.streams.get(stream);
        stream.is_none_or(|stream| stream.reading == FrameReading::Header)
    }

    /// Returns true if the peer's SETTINGS have arrived.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state.peer_settings().is_some()
    }

    /// Returns true if the connection will never accept a request again. It can be closed once no
    /// request is in flight.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        self.can_start() == Err(StartError::GoingAway)
    }

    /// Counts a frame that made no progress. Too many consecutive frames of this kind are treated
    /// as a flood.
    fn note_idle_frame(&mut self) -> Result<(), Violation> {
        self.note_idle_frames(1)
    }

    fn note_idle_frames(&mut self, frames: u32) -> Result<(), Violation> {
        self.idle_frames = self.idle_frames.saturating_add(frames);
        if self.idle_frames > limits::IDLE_FRAMES_MAX {
            let limit = limits::IDLE_FRAMES_MAX;
            return Err(Violation::TooManyIdleFrames { limit });
        }
        Ok(())
    }

    /// Abandons a stream because of a stream error (RFC 9114 §8). The connection continues.
    #[cold]
    fn break_stream(
        &mut self,
        slot: usize,
        violation: StreamViolation,
    ) -> ConnectionEvent<'static> {
        let stream = self.streams.at(slot);
        let (id, tag) = (stream.id, stream.tag);
        self.abandon(slot);
        ConnectionEvent::Broken {
            tag,
            stream: id,
            violation,
        }
    }
}

#[cfg(test)]
mod tests;
