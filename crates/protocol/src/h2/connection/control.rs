//! Handling of frames other than HEADERS, CONTINUATION and DATA.

use super::Connection;
use super::reading::ReadState;
use super::state::ConnectionState;
use crate::h2::frame::{self, FrameHeader, FrameType, U31_MAX};
use crate::h2::settings::PeerSettings;
use crate::h2::{ConnectionEvent, ErrorCode, StreamViolation, Violation, limits};

impl Connection {
    /// Counts a frame that made no progress. Too many consecutive frames of this kind are treated
    /// as a flood.
    pub(super) fn note_idle_frame(&mut self) -> Result<(), Violation> {
        self.idle_frames += 1;
        if self.idle_frames > limits::IDLE_FRAMES_MAX {
            let limit = limits::IDLE_FRAMES_MAX;
            return Err(Violation::TooManyIdleFrames { limit });
        }
        Ok(())
    }

    /// Checks the stream and the length in a frame header against the frame's type, before the
    /// payload arrives.
    #[inline]
    pub(super) fn check_header(&self, header: FrameHeader) -> Result<(), Violation> {
        let length_fits = match header.kind {
            FrameType::Settings if header.has(frame::flag::ACK) && header.length > 0 => {
                return Err(Violation::SettingsAckLength);
            }
            FrameType::RstStream | FrameType::WindowUpdate => header.length == 4,
            FrameType::Ping => header.length == 8,
            FrameType::GoAway => header.length >= 8,
            _ => true,
        };
        match (header.kind, header.stream) {
            (FrameType::PushPromise, _) => Err(Violation::Push),
            (FrameType::Settings | FrameType::Ping | FrameType::GoAway, 1..) => {
                Err(Violation::StreamNotZero(header.kind))
            }
            (FrameType::Headers | FrameType::Priority | FrameType::RstStream, 0) => {
                Err(Violation::StreamZero(header.kind))
            }
            _ if !length_fits => Err(Violation::FrameLength(header.kind)),
            (FrameType::Headers | FrameType::RstStream | FrameType::WindowUpdate, id @ 1..)
                if self.streams.find(id).is_none() =>
            {
                self.check_late(header)
            }
            _ => Ok(()),
        }
    }

    /// Applies the peer's SETTINGS, adjusts the send windows of all streams, and queues the
    /// acknowledgment (RFC 9113 §6.5).
    pub(super) fn settings(
        &mut self,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        self.note_idle_frame()?;
        if self.state == ConnectionState::Opening {
            self.state = ConnectionState::Open;
            self.peer = PeerSettings::initial();
        }
        let changes = self.peer.apply(payload)?;
        if changes.windows_by != 0 {
            for stream in self.streams.live_mut() {
                stream
                    .send_window
                    .change(changes.windows_by)
                    .map_err(|_| Violation::WindowSettingOverflow)?;
            }
            self.bodies_blocked = false;
        }
        self.outbox.answer(frame::write_settings_ack)?;
        self.resize_due |= changes.table_lowered;
        Ok(Some(ConnectionEvent::Settings))
    }

    /// Handles the acknowledgment of this side's settings. From now on, the peer must respect the
    /// limit on the dynamic table (RFC 9113 §6.5.3).
    pub(super) fn settings_ack(&mut self) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        self.note_idle_frame()?;
        self.decoder.limit_table(self.settings.header_table_bytes);
        Ok(None)
    }

    /// Queues the reply to a PING (RFC 9113 §6.7). Ignores acknowledgments, because this side sends
    /// no PING.
    pub(super) fn ping(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        self.note_idle_frame()?;
        if !header.has(frame::flag::ACK) {
            self.outbox
                .answer(|out| frame::write_ping_ack(out, payload))?;
        }
        Ok(None)
    }

    /// Enlarges the send window of the connection or of a stream (RFC 9113 §6.9). An increment of
    /// zero or an overflow is a connection error or, on a stream, a stream error.
    pub(super) fn window_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        self.note_idle_frame()?;
        let increment = first_u32(payload) & U31_MAX;
        if header.stream == 0 {
            if increment == 0 {
                return Err(Violation::ZeroIncrement);
            }
            self.bodies_blocked = false;
            let widened = self.send_window.change(i64::from(increment));
            return widened
                .map(|()| None)
                .map_err(|_| Violation::WindowOverflow);
        }
        let Some(slot) = self.streams.find(header.stream) else {
            return Ok(None);
        };
        if increment == 0 {
            let zero = StreamViolation::ZeroIncrement;
            return Ok(Some(self.break_stream(slot, zero)));
        }
        self.bodies_blocked = false;
        let window = &mut self.streams.at(slot).send_window;
        if window.change(i64::from(increment)).is_err() {
            let overflow = StreamViolation::WindowOverflow;
            return Ok(Some(self.break_stream(slot, overflow)));
        }
        Ok(None)
    }

    /// Closes the stream that the peer reset (RFC 9113 §6.4). Resets of streams that are not live
    /// are ignored.
    pub(super) fn rst_stream(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        let Some(slot) = self.streams.find(header.stream) else {
            self.note_idle_frame()?;
            return Ok(None);
        };
        let tag = self.streams.at(slot).tag;
        self.streams.close(slot);
        let code = ErrorCode(first_u32(payload));
        let unprocessed = code == ErrorCode::REFUSED_STREAM;
        Ok(Some(ConnectionEvent::Reset {
            tag,
            code,
            unprocessed,
        }))
    }

    /// Stores the last stream that the peer will process (RFC 9113 §6.8). The next events report
    /// the later streams, which it won't process.
    pub(super) fn goaway(
        &mut self,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        self.note_idle_frame()?;
        let (last_stream, code) = payload.split_at(4);
        let last_stream = first_u32(last_stream) & U31_MAX;
        if let ConnectionState::GoingAway {
            last_stream: before,
            ..
        } = self.state
            && last_stream > before
        {
            return Err(Violation::GoAwayIncreased);
        }
        let code = ErrorCode(first_u32(code));
        self.state = ConnectionState::GoingAway { last_stream, code };
        self.reading = ReadState::Unprocessed(0);
        Ok(Some(ConnectionEvent::GoAway { last_stream, code }))
    }

    /// Reports the next stream that the peer won't process, searching from slot `from`.
    pub(super) fn report_unprocessed(&mut self, from: usize) -> Option<ConnectionEvent<'static>> {
        self.reading = ReadState::Header;
        let ConnectionState::GoingAway { last_stream, code } = self.state else {
            return None;
        };
        for slot in from..self.streams.slots() {
            let stream = self.streams.at(slot);
            if stream.is_live() && stream.id > last_stream {
                let tag = stream.tag;
                // Later frames for the stream are ignored, as if this side had reset it.
                self.streams.cancel(slot);
                self.reading = ReadState::Unprocessed(slot + 1);
                return Some(ConnectionEvent::Reset {
                    tag,
                    code,
                    unprocessed: true,
                });
            }
        }
        None
    }

    /// Handles PRIORITY. Priorities are deprecated (RFC 9113 §5.3.2) and have no meaning for a
    /// client, but the length is checked (§6.3). A wrong length ends the stream or, without a
    /// stream, the connection.
    pub(super) fn priority(
        &mut self,
        header: FrameHeader,
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        self.note_idle_frame()?;
        if header.length == 5 {
            return Ok(None);
        }
        let length = StreamViolation::PriorityLength;
        match self.streams.find(header.stream) {
            Some(slot) => Ok(Some(self.break_stream(slot, length))),
            None => Err(Violation::FrameLength(header.kind)),
        }
    }
}

/// Returns the first 32 bits of a payload, which must be at least that long.
fn first_u32(payload: &[u8]) -> u32 {
    payload
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
