//! An HTTP/2 connection as a state machine: bytes in, events out; requests in, bytes out.

mod control;
mod outbox;
mod output;
mod reading;
mod responses;
mod state;

use outbox::Outbox;
use reading::ReadState;
use responses::FieldBlock;
use state::ConnectionState;

use super::flow::{INITIAL_WINDOW_BYTES, ReceiveWindow, SendWindow};
use super::hpack::{Decoder, FieldTexts};
use super::settings::PeerSettings;
use super::streams::Streams;
use super::{
    ClientSettings, EncodedRequest, ErrorCode, StartError, StreamId, Violation, frame, limits,
};
use crate::buffer::emptied;
use crate::compression::CallMessageId;
use crate::response_stage::UnfinishedRequest;

/// Client side of one connection, as a state machine.
///
/// The caller starts requests, passes in the received bytes, and handles the events. After each of
/// these steps, it sends the bytes from [`take_output`](Connection::take_output). After a
/// connection has ended, [`restart`](Connection::restart) prepares the object for the next one and
/// reuses its memory.
#[derive(Debug)]
pub struct Connection {
    settings: ClientSettings,
    state: ConnectionState,
    peer: PeerSettings,
    streams: Streams,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    decoder: Decoder,
    /// The field blocks as text, if requested by `keep_fields`.
    texts: Option<Box<FieldTexts>>,
    reading: ReadState,
    /// The part of an incomplete frame or frame header that has arrived.
    kept: Vec<u8>,
    /// The part of an incomplete field block that has arrived, if it takes several frames.
    block: Vec<u8>,
    /// Metadata of the block in `block`, until its last frame has arrived.
    field_block: Option<FieldBlock>,
    outbox: Outbox,
    /// True if the next block sent must begin with a dynamic table size update.
    resize_due: bool,
    /// Number of consecutive frames that made no progress.
    idle_frames: u32,
    /// Slot of the stream that may send part of its body next.
    turn: usize,
    /// True if no stream can send more of its body until the peer enlarges a window.
    bodies_blocked: bool,
}

/// The parts of a connection that own memory, each in its initial state.
struct ConnectionParts {
    streams: Streams,
    decoder: Decoder,
    texts: Option<Box<FieldTexts>>,
    kept: Vec<u8>,
    block: Vec<u8>,
    outbox: Outbox,
}

impl Connection {
    /// Creates a connection, with the preface and SETTINGS to be sent (RFC 9113 §3.4).
    #[must_use]
    pub fn new(settings: ClientSettings) -> Connection {
        let settings = settings.within_bounds();
        let parts = ConnectionParts {
            streams: Streams::new(settings.streams),
            decoder: Decoder::new(limits::HEADER_LIST_BYTES_MAX),
            texts: None,
            kept: Vec::new(),
            block: Vec::new(),
            outbox: Outbox::default(),
        };
        Connection::from_parts(settings, parts)
    }

    fn from_parts(settings: ClientSettings, parts: ConnectionParts) -> Connection {
        let mut connection = Connection {
            settings,
            state: ConnectionState::Opening,
            peer: PeerSettings::unknown(),
            streams: parts.streams,
            send_window: SendWindow::new(INITIAL_WINDOW_BYTES),
            receive_window: ReceiveWindow::new(settings.connection_window_bytes),
            decoder: parts.decoder,
            texts: parts.texts,
            reading: ReadState::Header,
            kept: parts.kept,
            block: parts.block,
            field_block: None,
            outbox: parts.outbox,
            resize_due: false,
            idle_frames: 0,
            turn: 0,
            bodies_blocked: false,
        };
        connection.write_preface();
        connection
    }

    /// Replaces this connection by a new one, which takes over the memory and the decoder's cache.
    pub fn restart(&mut self) {
        let parts = ConnectionParts {
            streams: self.streams.renewed(),
            decoder: self.decoder.renewed(),
            texts: self.texts.take().map(|mut texts| {
                *texts = texts.renewed();
                texts
            }),
            kept: emptied(&mut self.kept),
            block: emptied(&mut self.block),
            outbox: self.outbox.renewed(),
        };
        *self = Connection::from_parts(self.settings, parts);
    }

    fn write_preface(&mut self) {
        let out = self.outbox.own();
        out.extend_from_slice(frame::PREFACE);
        let (list, count) = self.settings.list();
        frame::write_settings(out, &list[..count]);
        let more = self.settings.connection_window_bytes - INITIAL_WINDOW_BYTES;
        if more > 0 {
            frame::write_window_update(out, 0, more);
        }
    }

    /// Starts a request. Every event of the request contains `tag`.
    ///
    /// # Errors
    ///
    /// Returns the reason why the request can't be started now or can never be started on this
    /// connection. The state is then unchanged.
    #[inline]
    pub fn start(&mut self, request: &EncodedRequest, tag: u32) -> Result<StreamId, StartError> {
        self.check_start(request)?;
        let windows = self.initial_windows();
        let body_bytes = request.body().len() as u64;
        let id = self
            .streams
            .open(tag, request.expects(), body_bytes, windows);
        request.write_head(id, self.resize_due, self.outbox.own());
        self.resize_due = false;
        self.bodies_blocked &= body_bytes == 0;
        Ok(StreamId(id))
    }

    /// Returns `Ok` if this request can be started now.
    #[inline]
    fn check_start(&self, request: &EncodedRequest) -> Result<(), StartError> {
        self.can_start()?;
        if let Some(limit_bytes) = self.peer.max_header_list_bytes
            && request.list_bytes() > limit_bytes
        {
            return Err(StartError::FieldsTooLong { limit_bytes });
        }
        Ok(())
    }

    /// The windows of a new stream.
    #[inline]
    fn initial_windows(&self) -> (SendWindow, ReceiveWindow) {
        (
            SendWindow::new(self.peer.initial_window_bytes),
            ReceiveWindow::new(self.settings.stream_window_bytes),
        )
    }

    /// Returns the number of unsent body bytes of a request. The number stays valid after the end
    /// of the stream, until another request starts.
    #[must_use]
    pub fn unsent_body_bytes(&self, stream: StreamId) -> u64 {
        self.streams.unsent_bytes(stream.0)
    }

    /// Returns `Ok` if a request can be started now.
    ///
    /// # Errors
    ///
    /// Returns the reason why no request can be started.
    #[inline]
    pub fn can_start(&self) -> Result<(), StartError> {
        let active = self.streams.active();
        if !self.state.accepts_requests() {
            Err(StartError::GoingAway)
        } else if active >= self.settings.streams {
            Err(StartError::OwnLimit)
        } else if self.peer.max_streams.is_some_and(|most| active >= most) {
            Err(StartError::PeerLimit)
        } else if self.outbox.bytes() >= limits::UNSENT_BYTES_MAX {
            Err(StartError::Unsent)
        } else if !self.streams.has_ids() {
            Err(StartError::IdsExhausted)
        } else {
            Ok(())
        }
    }

    /// Cancels a request: resets its stream (CANCEL), and reports no more events for it. Does
    /// nothing if the request has finished.
    pub fn cancel(&mut self, stream: StreamId) {
        let Some(slot) = self.streams.find(stream.0) else {
            return;
        };
        self.streams.cancel(slot);
        self.reading.forget(stream.0);
        // Late frames of the canceled request must not count as a flood.
        self.idle_frames = self
            .idle_frames
            .saturating_sub(limits::LATE_FRAMES_PER_REQUEST);
        // After a failure, GOAWAY must remain the last frame.
        if !self.state.has_failed() {
            frame::write_rst_stream(self.outbox.own(), stream.0, ErrorCode::CANCEL);
        }
    }

    /// Enables [`fields`](Connection::fields), which returns the fields of heads as text. Must be
    /// called before the first bytes from the peer are read.
    pub fn keep_fields(&mut self) {
        self.texts
            .get_or_insert_with(|| Box::new(FieldTexts::new()));
    }

    /// Returns the fields as text after [`ConnectionEvent::Head`](super::ConnectionEvent::Head),
    /// until more input is read. There is one line per field, ended by CRLF, after a status line
    /// such as `HTTP/2 200`. The result is empty without [`keep_fields`](Connection::keep_fields).
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        self.texts.as_ref().map_or(&[], |texts| texts.lines())
    }

    /// Returns the value of a `grpc-message` that this connection received, percent-encoded.
    #[must_use]
    pub fn call_message(&self, id: CallMessageId) -> &[u8] {
        self.decoder.call_message(id)
    }

    /// Returns true if the last part of a body was the end of its DATA frame.
    #[must_use]
    pub fn is_at_frame_end(&self) -> bool {
        !matches!(&self.reading, ReadState::Data(frame) if frame.content > 0)
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

    /// Returns the number of concurrent streams that the peer allows
    /// (SETTINGS_MAX_CONCURRENT_STREAMS), possibly 0, or `None` without a limit. Until the peer's
    /// SETTINGS arrive, the limit is 100.
    #[must_use]
    pub fn peer_limit(&self) -> Option<u32> {
        self.peer.max_streams
    }

    /// Returns true if the peer's SETTINGS have arrived, which shows that it speaks HTTP/2.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state.is_established()
    }

    /// Returns true if the connection will never accept a request again. It can be closed once no
    /// request is in flight.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        matches!(
            self.can_start(),
            Err(StartError::GoingAway | StartError::IdsExhausted)
        )
    }

    /// Announces that the connection carries no more requests, with a GOAWAY without an error.
    pub fn go_away(&mut self) {
        if !self.state.has_failed() {
            frame::write_goaway(self.outbox.own(), ErrorCode::NO_ERROR);
        }
    }

    /// Records a connection error, and queues a GOAWAY with its error code.
    #[cold]
    fn fail(&mut self, violation: Violation) {
        self.state.fail(violation);
        frame::write_goaway(self.outbox.own(), violation.code());
    }
}

#[cfg(test)]
mod tests;
