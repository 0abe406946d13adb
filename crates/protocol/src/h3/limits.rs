//! Limits on the cost of a peer, in addition to QUIC's flow control. Each limit is far above the
//! needs of real servers, and low enough to prevent harm.

/// Frames and QPACK instructions in a row without progress: SETTINGS, GOAWAY, empty DATA, unknown
/// types, insertions into the dynamic table, and streams of unknown types. A head, trailers, or a
/// part of a body resets the count.
pub(super) const IDLE_FRAMES_MAX: u32 = 10_000;

/// Longest list of fields, in bytes as counted by RFC 9114 §4.2.2, announced as
/// SETTINGS_MAX_FIELD_SECTION_SIZE. The same as for HTTP/2. It also bounds the bytes of a field
/// section, because each field counts for 32 bytes in addition to its text, and no reasonable
/// coding needs more.
pub(super) const FIELD_SECTION_BYTES_MAX: u32 = 64 * 1_024;

/// Longest frame on the control stream that isn't skipped, in bytes. SETTINGS with every defined
/// setting has fewer than 100.
pub(super) const CONTROL_FRAME_BYTES_MAX: u32 = 4 * 1_024;

/// Bytes of field sections that arrived in parts, of all streams together: this and
/// [`PARTIAL_BYTES_PER_STREAM`] for each stream that is allowed.
pub(super) const PARTIAL_BYTES_MAX: usize = 1_024 * 1_024;

/// See [`PARTIAL_BYTES_MAX`].
pub(super) const PARTIAL_BYTES_PER_STREAM: usize = 1_024;

/// Largest buffer that a stream keeps for the next one, in bytes.
pub(super) const RETAINED_BUFFER_BYTES_MAX: usize = 4 * 1_024;

/// Bytes of unsent instructions for the peer's encoder, about 4,000 acknowledgments. A peer that
/// reads its decoder stream has few outstanding.
pub(super) const DECODER_OUTPUT_BYTES_MAX: usize = 16 * 1_024;

/// Unidirectional streams whose type hasn't arrived completely. Nearly all types take one byte.
pub(super) const UNTYPED_STREAMS_MAX: usize = 100;

/// Streams of unknown types whose late bytes are recognized.
pub(super) const DISCARDED_STREAMS_MAX: usize = 16;
