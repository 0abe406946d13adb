//! SETTINGS of both sides (RFC 9114 §7.2.4, RFC 9204 §5).

use super::frame::{self, FrameType};
use super::{Violation, limits, varint};

/// Identifiers of settings (RFC 9114 §7.2.4.1, RFC 9204 §5).
mod id {
    pub(super) const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
    pub(super) const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
    pub(super) const QPACK_BLOCKED_STREAMS: u64 = 0x07;
}

/// Settings of this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSettings {
    /// Maximum number of requests in flight, 1 to [`ClientSettings::STREAMS_MAX`]; other values are
    /// clamped. Memory is reserved for all of them.
    pub streams: u32,
    /// Maximum size of the dynamic table that the peer's encoder may use, 0 to 64 KiB; larger
    /// values are lowered to that. Default: 4,096, as for HTTP/2.
    pub header_table_bytes: u32,
}

impl ClientSettings {
    /// Maximum number of concurrent requests on one connection.
    pub const STREAMS_MAX: u32 = 65_536;

    const HEADER_TABLE_MAX_BYTES: u32 = 64 * 1_024;

    pub(super) fn within_bounds(self) -> ClientSettings {
        ClientSettings {
            streams: self.streams.clamp(1, ClientSettings::STREAMS_MAX),
            header_table_bytes: self
                .header_table_bytes
                .min(ClientSettings::HEADER_TABLE_MAX_BYTES),
        }
    }

    /// Appends the SETTINGS frame. Settings with their default value are omitted.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        // Fewer than 64 bytes follow, so the length fits in one byte.
        frame::write_header(out, FrameType::Settings, 0);
        let start = out.len();
        let table_bytes = u64::from(self.header_table_bytes);
        let section_bytes = u64::from(limits::FIELD_SECTION_BYTES_MAX);
        if table_bytes > 0 {
            varint::write(id::QPACK_MAX_TABLE_CAPACITY, out);
            varint::write(table_bytes, out);
        }
        varint::write(id::MAX_FIELD_SECTION_SIZE, out);
        varint::write(section_bytes, out);
        out[start - 1] = (out.len() - start) as u8;
    }
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            streams: 1,
            header_table_bytes: 4_096,
        }
    }
}

/// Settings of the peer. Its settings for QPACK don't matter, because this client's encoder doesn't
/// use the dynamic table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PeerSettings {
    /// Largest list of fields that the peer accepts, in bytes as counted by RFC 9114 §4.2.2.
    pub(super) max_field_section_bytes: Option<u64>,
}

impl PeerSettings {
    pub(super) fn read(payload: &[u8]) -> Result<PeerSettings, Violation> {
        let mut settings = PeerSettings::default();
        let (mut table_seen, mut blocked_seen) = (false, false);
        let mut rest = payload;
        while !rest.is_empty() {
            let pair = (varint::take(&mut rest), varint::take(&mut rest));
            let (Some(identifier), Some(value)) = pair else {
                return Err(Violation::FrameLength(FrameType::Settings));
            };
            let is_repeated = match identifier {
                // These settings are defined by HTTP/2 and have no counterpart in HTTP/3 (RFC 9114
                // §7.2.4.1).
                0x02..=0x05 => return Err(Violation::Http2Setting(identifier)),
                id::QPACK_MAX_TABLE_CAPACITY => std::mem::replace(&mut table_seen, true),
                id::QPACK_BLOCKED_STREAMS => std::mem::replace(&mut blocked_seen, true),
                id::MAX_FIELD_SECTION_SIZE => {
                    settings.max_field_section_bytes.replace(value).is_some()
                }
                // Unknown settings are ignored (RFC 9114 §7.2.4).
                _ => false,
            };
            if is_repeated {
                return Err(Violation::SettingTwice(identifier));
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(u64, u64)]) -> Result<PeerSettings, Violation> {
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            varint::write(*identifier, &mut payload);
            varint::write(*value, &mut payload);
        }
        PeerSettings::read(&payload)
    }

    #[test]
    fn settings_are_read() {
        assert_eq!(read(&[]), Ok(PeerSettings::default()));
        let known = read(&[(1, 4_096), (0x21, 7), (0x08, 1), (6, 1 << 40), (7, 100)]);
        let expected = PeerSettings {
            max_field_section_bytes: Some(1 << 40),
        };
        assert_eq!(known, Ok(expected));
    }

    #[test]
    fn wrong_settings_are_refused() {
        for identifier in 2..=5 {
            let result = read(&[(6, 1), (identifier, 0)]);
            assert_eq!(result, Err(Violation::Http2Setting(identifier)));
        }
        for identifier in [1, 6, 7] {
            let result = read(&[(identifier, 1), (0x99, 0), (0x99, 0), (identifier, 1)]);
            assert_eq!(result, Err(Violation::SettingTwice(identifier)));
        }
        for payload in [&b"\x06"[..], b"\x06\x40", b"\x40", b"\x06\x01\x07"] {
            let length = Violation::FrameLength(FrameType::Settings);
            assert_eq!(PeerSettings::read(payload), Err(length));
        }
    }

    #[test]
    fn own_settings_are_bounded_and_written() {
        let silly = ClientSettings {
            streams: 0,
            header_table_bytes: u32::MAX,
        };
        let bounded = ClientSettings {
            streams: 1,
            header_table_bytes: 65_536,
        };
        assert_eq!(silly.within_bounds(), bounded);
        let mut out = Vec::new();
        ClientSettings::default().write(&mut out);
        assert_eq!(out, b"\x04\x08\x01\x50\x00\x06\x80\x01\x00\x00");
        out.clear();
        let without_table = ClientSettings {
            header_table_bytes: 0,
            ..silly
        };
        without_table.write(&mut out);
        assert_eq!(out, b"\x04\x05\x06\x80\x01\x00\x00");
    }
}
