//! A connection: bytes in, events out, requests in, bytes out.

mod answers;
mod control;
mod outbox;
mod output;
mod reading;

use answers::Gathering;
use outbox::Outbox;
use reading::Reading;

use super::flow::{INITIAL_WINDOW_BYTES, ReceiveWindow, SendWindow};
use super::hpack::{Decoder, Texts};
use super::settings::PeerSettings;
use super::streams::Streams;
use super::{
    ClientSettings, EncodedRequest, ErrorCode, StartError, StreamId, Violation, frame, limits,
};

/// The client's side of one connection, as a state machine.
///
/// The caller starts requests, hands in what the peer sent, takes the events, and sends what
/// [`take_output`](Connection::take_output) gives after each of these. A connection that ended can
/// be used for the next one with [`restart`](Connection::restart), with its memory.
#[derive(Debug)]
pub struct Connection {
    settings: ClientSettings,
    peer: PeerSettings,
    streams: Streams,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    decoder: Decoder,
    /// The same blocks as text, where that is wanted.
    texts: Option<Box<Texts>>,
    reading: Reading,
    /// The beginning of a frame, or of its header, that came in parts.
    kept: Vec<u8>,
    /// A block of fields that came in several frames.
    block: Vec<u8>,
    /// Where that block belongs, until its last frame has come.
    gathering: Option<Gathering>,
    outbox: Outbox,
    /// The peer has acknowledged the settings.
    acknowledged: bool,
    /// The next block to be sent must begin by resizing the dynamic table.
    resize_due: bool,
    /// Frames in a row that moved nothing ahead.
    idle_frames: u32,
    /// The last stream that the peer may answer, once it said GOAWAY.
    last_stream: Option<u32>,
    /// And why it said it.
    goaway_code: ErrorCode,
    /// This side said GOAWAY.
    shut_down: bool,
    failed: Option<Violation>,
    /// Whose turn it is to send a piece of its body.
    turn: usize,
    /// No stream can send more of its body before the peer opens a window.
    bodies_blocked: bool,
}

/// A request that has no answer when its connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    /// What was given to [`Connection::start`].
    pub tag: u32,
    /// Some part of the answer has come. If not, and the method allows it, the request may be sent
    /// once more (RFC 9110 §9.2.2).
    pub answered: bool,
}

impl Connection {
    /// A new connection, with the preface and SETTINGS to be sent (RFC 9113 §3.4).
    #[must_use]
    pub fn new(settings: ClientSettings) -> Connection {
        let settings = settings.within_bounds();
        let mut connection = Connection {
            settings,
            peer: PeerSettings::new(),
            streams: Streams::new(settings.streams),
            send_window: SendWindow::new(INITIAL_WINDOW_BYTES),
            receive_window: ReceiveWindow::new(settings.connection_window_bytes),
            decoder: Decoder::new(limits::HEADER_LIST_BYTES),
            texts: None,
            reading: Reading::Header,
            kept: Vec::new(),
            block: Vec::new(),
            gathering: None,
            outbox: Outbox::default(),
            acknowledged: false,
            resize_due: false,
            idle_frames: 0,
            last_stream: None,
            goaway_code: ErrorCode::NO_ERROR,
            shut_down: false,
            failed: None,
            turn: 0,
            bodies_blocked: false,
        };
        connection.write_preface();
        connection
    }

    /// Begins anew, for the next connection. Keeps the memory and what the decoder has learnt.
    pub fn restart(&mut self) {
        self.peer = PeerSettings::new();
        self.streams.restart();
        self.send_window = SendWindow::new(INITIAL_WINDOW_BYTES);
        self.receive_window = ReceiveWindow::new(self.settings.connection_window_bytes);
        self.decoder.restart();
        if let Some(texts) = &mut self.texts {
            texts.restart();
        }
        self.reading = Reading::Header;
        self.kept.clear();
        self.block.clear();
        self.gathering = None;
        self.outbox.clear();
        self.acknowledged = false;
        self.resize_due = false;
        self.idle_frames = 0;
        self.last_stream = None;
        self.shut_down = false;
        self.failed = None;
        self.turn = 0;
        self.bodies_blocked = false;
        self.write_preface();
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

    /// Starts a request. `tag` comes back with each event about it.
    ///
    /// # Errors
    ///
    /// Why it can't be started now, or ever on this connection; nothing has happened then.
    #[inline]
    pub fn start(&mut self, request: &EncodedRequest, tag: u32) -> Result<StreamId, StartError> {
        self.can_start()?;
        if let Some(limit_bytes) = self.peer.max_header_list_bytes
            && request.list_bytes() > limit_bytes
        {
            return Err(StartError::FieldsTooLong { limit_bytes });
        }
        let windows = (
            SendWindow::new(self.peer.initial_window_bytes),
            ReceiveWindow::new(self.settings.stream_window_bytes),
        );
        let body_bytes = request.body().len() as u64;
        let id = self
            .streams
            .open(tag, request.expects(), body_bytes, windows);
        request.write_head(id, self.resize_due, self.outbox.own());
        self.resize_due = false;
        self.bodies_blocked &= body_bytes == 0;
        Ok(StreamId(id))
    }

    /// Bytes of a request's body that were not given to be sent; also after the stream's end, until
    /// another request starts.
    #[must_use]
    pub fn unsent_body_bytes(&self, stream: StreamId) -> u64 {
        self.streams.unsent_bytes(stream.0)
    }

    /// Could a request be started now?
    ///
    /// # Errors
    ///
    /// Why not.
    #[inline]
    pub fn can_start(&self) -> Result<(), StartError> {
        let active = self.streams.active();
        if self.failed.is_some() || self.last_stream.is_some() || self.shut_down {
            Err(StartError::GoingAway)
        } else if active >= self.settings.streams {
            Err(StartError::OwnLimit)
        } else if self.peer.max_streams.is_some_and(|most| active >= most) {
            Err(StartError::PeerLimit)
        } else if self.outbox.bytes() >= limits::UNSENT_BYTES {
            Err(StartError::Unsent)
        } else if !self.streams.has_ids() {
            Err(StartError::IdsExhausted)
        } else {
            Ok(())
        }
    }

    /// Gives a request up: its stream is reset (CANCEL), and no event comes for it any more. Does
    /// nothing where it is over already.
    pub fn cancel(&mut self, stream: StreamId) {
        let Some(place) = self.streams.find(stream.0) else {
            return;
        };
        self.streams.cancel(place);
        self.reading.forget(stream.0);
        // What still comes for it is no flood.
        self.idle_frames = self.idle_frames.saturating_sub(limits::LATE_FRAMES);
        // Where the connection has failed, GOAWAY is the last that was said.
        if self.failed.is_none() {
            frame::write_rst_stream(self.outbox.own(), stream.0, ErrorCode::CANCEL);
        }
    }

    /// Tells the peer that no further requests come (GOAWAY). Those under way go on.
    pub fn shut_down(&mut self) {
        if !self.shut_down && self.failed.is_none() {
            self.shut_down = true;
            frame::write_goaway(self.outbox.own(), ErrorCode::NO_ERROR);
        }
    }

    /// From now on, which must be before the first bytes from the peer are read, the fields of heads
    /// are kept as text for [`fields`](Connection::fields).
    pub fn keep_fields(&mut self) {
        self.texts.get_or_insert_with(|| Box::new(Texts::new()));
    }

    /// After [`Event::Head`](super::Event::Head), and until more is read: its fields as text, a line
    /// each, ended by CRLF, below a status line such as `HTTP/2 200`. Empty where they are not kept.
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        self.texts.as_ref().map_or(&[], |texts| texts.lines())
    }

    /// How many requests are under way.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.streams.active()
    }

    /// The requests that are under way. After a violation, or when the peer has closed the
    /// connection, they end with it.
    pub fn unfinished(&self) -> impl Iterator<Item = Unfinished> {
        self.streams.live().map(|stream| Unfinished {
            tag: stream.tag,
            answered: stream.is_answered(),
        })
    }

    /// How many streams the peer allows at once (SETTINGS_MAX_CONCURRENT_STREAMS), which may be
    /// none; `None` where it sets no limit. 100 before it has said anything.
    #[must_use]
    pub fn peer_limit(&self) -> Option<u32> {
        self.peer.max_streams
    }

    /// Has the peer's SETTINGS come, so that it speaks HTTP/2?
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.peer.seen
    }

    /// Will the connection never again take a request? Once nothing is under way it can be closed.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        matches!(
            self.can_start(),
            Err(StartError::GoingAway | StartError::IdsExhausted)
        )
    }

    /// The connection is of no use any more: GOAWAY is to be sent, with the reason.
    #[cold]
    fn fail(&mut self, violation: Violation) {
        self.failed = Some(violation);
        frame::write_goaway(self.outbox.own(), violation.code());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::{RequestSpec, Version};
    use crate::h2::Scheme;

    #[test]
    fn a_connection_whose_identifiers_are_used_up_takes_no_requests() {
        let spec = RequestSpec {
            method: "GET",
            target: "/",
            version: Version::Http11,
            host: "host",
            headers: &[],
            body: b"",
            keep_alive: true,
        };
        let request = EncodedRequest::new(&spec, Scheme::Http).expect("a valid request");
        let mut connection = Connection::new(ClientSettings::default());
        connection.streams.skip_ids();
        let mut last = 0;
        while let Ok(stream) = connection.start(&request, 0) {
            assert!(stream.number() > last);
            last = stream.number();
            connection.cancel(stream);
        }
        assert_eq!(connection.can_start(), Err(StartError::IdsExhausted));
        assert!(connection.is_going_away());
        assert!(last > frame::MAX_31_BITS - 100);
    }
}
