//! The peer's control stream (RFC 9114 §6.2.1 and §7.2).

use super::Connection;
use super::responses::skip;
use super::state::ConnectionState;
use crate::h3::frame::{FrameHeader, FrameType};
use crate::h3::settings::PeerSettings;
use crate::h3::{ConnectionEvent, ErrorCode, Violation, limits, varint};

/// Meaning of the next byte on the control stream, or an event that must be reported before that
/// byte is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlReading {
    /// The header of a frame.
    Header,
    /// The payload of a frame that is processed as a whole.
    Payload(FrameHeader),
    /// Bytes to be skipped.
    Skip(u64),
    /// After GOAWAY, the remaining streams must be checked, beginning with this slot.
    Unprocessed(usize),
}

impl Connection {
    /// Reads bytes that arrived on the control stream.
    pub(super) fn read_control(
        &mut self,
        input: &mut &[u8],
    ) -> Result<ConnectionEvent<'static>, Violation> {
        loop {
            let event = match self.control {
                ControlReading::Unprocessed(slot) => self.report_unprocessed(slot),
                // The payload is read even without input, because it may be empty.
                ControlReading::Payload(header) => self.read_control_payload(header, input)?,
                _ if input.is_empty() => return Ok(ConnectionEvent::NeedMore),
                ControlReading::Header => {
                    self.read_control_header(input)?;
                    None
                }
                ControlReading::Skip(left) => {
                    self.control = match skip(left, input) {
                        0 => ControlReading::Header,
                        left => ControlReading::Skip(left),
                    };
                    None
                }
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    fn read_control_header(&mut self, input: &mut &[u8]) -> Result<(), Violation> {
        let Some(header) = FrameHeader::take_split(&mut self.control_kept, input) else {
            return Ok(());
        };
        let FrameHeader { kind, length } = header;
        let is_opening = self.state == ConnectionState::Opening;
        match (kind, is_opening) {
            (FrameType::Settings, true) | (FrameType::GoAway, false) => {
                if length > u64::from(limits::CONTROL_FRAME_BYTES_MAX) {
                    let limit_bytes = limits::CONTROL_FRAME_BYTES_MAX;
                    return Err(Violation::FrameTooLong { limit_bytes });
                }
                self.control = ControlReading::Payload(header);
            }
            (_, true) => return Err(Violation::NoSettings),
            (FrameType::Settings, false) => return Err(Violation::SettingsTwice),
            // No push identifier is allowed, so every identifier is too large (RFC 9114 §7.2.3).
            (FrameType::CancelPush, false) => return Err(Violation::Push),
            (FrameType::Unknown, false) => self.control = ControlReading::Skip(length),
            _ => return Err(Violation::OnControlStream(kind)),
        }
        self.note_idle_frame()
    }

    fn read_control_payload(
        &mut self,
        header: FrameHeader,
        input: &mut &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        let missing = header.length as usize - self.control_kept.len();
        let (part, rest) = input.split_at(missing.min(input.len()));
        *input = rest;
        self.control_kept.extend_from_slice(part);
        if part.len() < missing {
            return Ok(Some(ConnectionEvent::NeedMore));
        }
        self.control = ControlReading::Header;
        let payload = std::mem::take(&mut self.control_kept);
        let event = match header.kind {
            FrameType::Settings => self.settings(&payload),
            _ => self.goaway(&payload),
        };
        self.control_kept = payload;
        self.control_kept.clear();
        event.map(Some)
    }

    /// Stores the peer's SETTINGS (RFC 9114 §7.2.4).
    fn settings(&mut self, payload: &[u8]) -> Result<ConnectionEvent<'static>, Violation> {
        self.state = ConnectionState::Open(PeerSettings::read(payload)?);
        Ok(ConnectionEvent::Settings)
    }

    /// Stores the first stream that the peer rejects (RFC 9114 §5.2). The next events report that
    /// stream and the ones after it.
    fn goaway(&mut self, payload: &[u8]) -> Result<ConnectionEvent<'static>, Violation> {
        let mut rest = payload;
        let first_rejected = match varint::take(&mut rest) {
            Some(stream) if rest.is_empty() => stream,
            _ => return Err(Violation::FrameLength(FrameType::GoAway)),
        };
        if first_rejected % 4 != 0 {
            return Err(Violation::GoAwayStream);
        }
        self.state.go_away(first_rejected)?;
        self.control = ControlReading::Unprocessed(0);
        Ok(ConnectionEvent::GoAway { first_rejected })
    }

    /// Reports the next stream that the peer won't process, searching from slot `from`.
    fn report_unprocessed(&mut self, from: usize) -> Option<ConnectionEvent<'static>> {
        self.control = ControlReading::Header;
        let ConnectionState::GoingAway { first_rejected, .. } = self.state else {
            return None;
        };
        for slot in from..self.streams.slots() {
            let stream = self.streams.at(slot);
            if stream.is_live() && stream.id >= first_rejected {
                let tag = stream.tag;
                self.abandon(slot);
                self.control = ControlReading::Unprocessed(slot + 1);
                return Some(ConnectionEvent::Reset {
                    tag,
                    code: ErrorCode::REQUEST_REJECTED,
                    unprocessed: true,
                });
            }
        }
        None
    }
}
