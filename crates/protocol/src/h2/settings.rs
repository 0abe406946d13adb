//! SETTINGS of both sides (RFC 9113 §6.5).

use super::flow::INITIAL_WINDOW_BYTES;
use super::frame::{PAYLOAD_BYTES_MAX, U31_MAX};
use super::hpack::DEFAULT_TABLE_BYTES;
use super::{Violation, limits};

/// Identifiers of settings (RFC 9113 §6.5.2).
mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(super) const ENABLE_PUSH: u16 = 0x2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(super) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    /// RFC 8441 §3.
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
}

/// Settings of this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSettings {
    /// Maximum number of requests in flight, 1 to [`ClientSettings::STREAMS_MAX`]; other values are
    /// clamped. Memory is reserved for twice as many.
    pub streams: u32,
    /// Size of each stream's receive window, 65,535 to 2³¹ − 1 bytes; other values are clamped.
    /// Default: 16 MiB.
    pub stream_window_bytes: u32,
    /// Size of the connection's receive window, 65,535 to 2³¹ − 1 bytes; other values are clamped.
    /// Default: 1 GiB.
    ///
    /// Windows protect the memory of a receiver that stores data. This client stores nothing, so
    /// small windows would only limit the throughput and cause WINDOW_UPDATE frames.
    pub connection_window_bytes: u32,
    /// Maximum size of the dynamic table that the peer's encoder may use, 0 to 64 KiB; larger
    /// values are lowered to that. Default: 4,096, the protocol's initial value.
    ///
    /// The limit makes no difference for a server that never uses the table, such as nginx. With
    /// other servers, a limit of 0 makes responses several times as long and costs the client about
    /// a quarter more CPU time. The server also works harder than it does for other clients.
    /// `examples/h2_cost.rs` measures the costs for the client.
    pub header_table_bytes: u32,
}

impl ClientSettings {
    /// Maximum number of concurrent streams on one connection.
    pub const STREAMS_MAX: u32 = 65_536;

    const HEADER_TABLE_MAX_BYTES: u32 = 64 * 1_024;

    pub(super) fn within_bounds(self) -> ClientSettings {
        let window = |bytes: u32| bytes.clamp(INITIAL_WINDOW_BYTES, U31_MAX);
        ClientSettings {
            streams: self.streams.clamp(1, ClientSettings::STREAMS_MAX),
            stream_window_bytes: window(self.stream_window_bytes),
            connection_window_bytes: window(self.connection_window_bytes),
            header_table_bytes: self
                .header_table_bytes
                .min(ClientSettings::HEADER_TABLE_MAX_BYTES),
        }
    }

    /// Returns the settings that differ from the protocol's initial values, and their number.
    pub(super) fn list(&self) -> ([(u16, u32); 4], usize) {
        let mut list = [
            (id::ENABLE_PUSH, 0),
            (id::INITIAL_WINDOW_SIZE, self.stream_window_bytes),
            (id::MAX_HEADER_LIST_SIZE, limits::HEADER_LIST_BYTES_MAX),
            (0, 0),
        ];
        if self.header_table_bytes == DEFAULT_TABLE_BYTES {
            return (list, 3);
        }
        list[3] = (id::HEADER_TABLE_SIZE, self.header_table_bytes);
        (list, 4)
    }
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            streams: 1,
            stream_window_bytes: 16 * 1_024 * 1_024,
            connection_window_bytes: 1_024 * 1_024 * 1_024,
            header_table_bytes: DEFAULT_TABLE_BYTES,
        }
    }
}

/// Settings of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerSettings {
    /// Number of concurrent streams that the peer allows; `None` without a limit.
    pub(super) max_streams: Option<u32>,
    /// Initial size of each stream's send window, in bytes.
    pub(super) initial_window_bytes: u32,
    /// Largest list of fields that the peer accepts, in bytes as counted by RFC 9113 §6.5.2.
    pub(super) max_header_list_bytes: Option<u32>,
    /// Largest dynamic table that the peer's decoder allows, in bytes.
    pub(super) header_table_bytes: u32,
    /// True if the peer accepts extended CONNECT requests (RFC 8441 §3).
    pub(super) extended_connect: bool,
}

/// Changes in a peer's SETTINGS that affect the connection's streams or encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Change of every stream's send window (RFC 9113 §6.9.2).
    pub(super) windows_by: i64,
    /// True if the maximum size of the dynamic table was lowered, which the next block must
    /// acknowledge (RFC 9113 §4.3.1).
    pub(super) table_lowered: bool,
}

impl PeerSettings {
    /// Returns the values that are assumed until the peer's first SETTINGS arrive.
    pub(super) fn unknown() -> PeerSettings {
        PeerSettings {
            max_streams: Some(limits::STREAMS_BEFORE_SETTINGS),
            ..PeerSettings::initial()
        }
    }

    /// Returns the protocol's initial values, which the first SETTINGS change.
    pub(super) fn initial() -> PeerSettings {
        PeerSettings {
            max_streams: None,
            initial_window_bytes: INITIAL_WINDOW_BYTES,
            max_header_list_bytes: None,
            header_table_bytes: DEFAULT_TABLE_BYTES,
            extended_connect: false,
        }
    }

    /// Applies the payload of a SETTINGS frame, in order (RFC 9113 §6.5.3).
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<Changes, Violation> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(Violation::SettingsLength);
        };
        let before = self.initial_window_bytes;
        let mut table_lowered = false;
        for &[a, b, ref value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([a, b]) {
                id::HEADER_TABLE_SIZE => {
                    table_lowered |= value < self.header_table_bytes;
                    self.header_table_bytes = value;
                }
                id::ENABLE_PUSH if value != 0 => return Err(Violation::PushSetting),
                id::MAX_CONCURRENT_STREAMS => self.max_streams = Some(value),
                id::INITIAL_WINDOW_SIZE if value > U31_MAX => {
                    return Err(Violation::WindowSetting);
                }
                id::INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
                // This side never sends a frame larger than the smallest permitted limit, so larger
                // limits make no difference.
                id::MAX_FRAME_SIZE if !(PAYLOAD_BYTES_MAX as u32..=0xff_ffff).contains(&value) => {
                    return Err(Violation::FrameSizeSetting);
                }
                id::MAX_HEADER_LIST_SIZE => self.max_header_list_bytes = Some(value),
                id::ENABLE_CONNECT_PROTOCOL if value > 1 || self.extended_connect && value == 0 => {
                    return Err(Violation::ConnectSetting);
                }
                id::ENABLE_CONNECT_PROTOCOL => self.extended_connect = value == 1,
                // Unknown settings are ignored (RFC 9113 §6.5.2).
                _ => {}
            }
        }
        Ok(Changes {
            windows_by: i64::from(self.initial_window_bytes) - i64::from(before),
            table_lowered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(peer: &mut PeerSettings, settings: &[(u16, u32)]) -> Result<Changes, Violation> {
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            payload.extend_from_slice(&identifier.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        peer.apply(&payload)
    }

    #[test]
    fn settings_are_kept_in_their_order() {
        let mut peer = PeerSettings::initial();
        let settings = [
            (3, 7),
            (4, 10),
            (5, 16_384),
            (6, 99),
            (4, 70_000),
            (0x99, 1),
            (2, 0),
        ];
        let changes = apply(&mut peer, &settings).expect("valid settings");
        assert_eq!(
            changes,
            Changes {
                windows_by: 4_465,
                table_lowered: false
            }
        );
        assert_eq!(
            (peer.max_streams, peer.max_header_list_bytes),
            (Some(7), Some(99))
        );
        assert_eq!(peer.initial_window_bytes, 70_000);
    }

    #[test]
    fn before_settings_a_hundred_streams_are_allowed_and_without_a_limit_all() {
        assert_eq!(PeerSettings::unknown().max_streams, Some(100));
        let mut peer = PeerSettings::initial();
        assert_eq!(apply(&mut peer, &[]), Ok(Changes::default()));
        assert_eq!(peer.max_streams, None);
        assert_eq!(apply(&mut peer, &[(3, 0)]), Ok(Changes::default()));
        assert_eq!(apply(&mut peer, &[]), Ok(Changes::default()));
        assert_eq!(peer.max_streams, Some(0));
    }

    #[test]
    fn a_table_that_was_smaller_in_between_counts_as_lowered() {
        let mut peer = PeerSettings::initial();
        for (settings, lowered) in [
            ([(1, 4_096), (1, 8_192)], false),
            ([(1, 0), (1, 8_192)], true),
            ([(1, 8_192), (1, 8_191)], true),
            ([(1, 8_191), (1, 8_192)], false),
        ] {
            let changes = apply(&mut peer, &settings).expect("valid settings");
            assert_eq!(changes.table_lowered, lowered, "{settings:?}");
        }
    }

    #[test]
    fn what_is_out_of_range() {
        for (setting, violation) in [
            ((2, 1), Violation::PushSetting),
            ((2, 2), Violation::PushSetting),
            ((4, 1 << 31), Violation::WindowSetting),
            ((5, 16_383), Violation::FrameSizeSetting),
            ((5, 1 << 24), Violation::FrameSizeSetting),
            ((8, 2), Violation::ConnectSetting),
        ] {
            assert_eq!(
                apply(&mut PeerSettings::initial(), &[setting]),
                Err(violation)
            );
        }
        assert_eq!(
            PeerSettings::initial().apply(&[0; 7]),
            Err(Violation::SettingsLength)
        );
    }

    #[test]
    fn extended_connect_can_not_be_withdrawn() {
        let mut peer = PeerSettings::initial();
        assert_eq!(apply(&mut peer, &[(8, 0)]), Ok(Changes::default()));
        assert!(!peer.extended_connect);
        assert_eq!(apply(&mut peer, &[(8, 1)]), Ok(Changes::default()));
        assert!(peer.extended_connect);
        let withdrawn = apply(&mut peer, &[(8, 0)]);
        assert_eq!(withdrawn, Err(Violation::ConnectSetting));
    }

    #[test]
    fn only_settings_that_differ_are_sent() {
        let plain = ClientSettings::default();
        assert_eq!(plain.list().1, 3);
        let (list, count) = ClientSettings {
            header_table_bytes: 0,
            ..plain
        }
        .list();
        assert_eq!((list[3], count), ((1, 0), 4));
        let silly = ClientSettings {
            streams: 0,
            stream_window_bytes: 0,
            connection_window_bytes: u32::MAX,
            header_table_bytes: u32::MAX,
        };
        let bounded = ClientSettings {
            streams: 1,
            stream_window_bytes: 65_535,
            connection_window_bytes: U31_MAX,
            header_table_bytes: 65_536,
        };
        assert_eq!(silly.within_bounds(), bounded);
    }
}
