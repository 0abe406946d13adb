//! Limits on the cost that a peer can cause, in addition to QUIC's flow control. Each limit is far
//! above the needs of real servers, and low enough to prevent harm.

/// Maximum number of consecutive frames and QPACK instructions without progress: SETTINGS, GOAWAY,
/// empty DATA, unknown types, insertions into the dynamic table, and streams of unknown types. A
/// head, trailers, or part of a body resets the count.
pub(super) const IDLE_FRAMES_MAX: u32 = 10_000;

/// Maximum size of a field list, in bytes as counted by RFC 9114 §4.2.2, announced as
/// SETTINGS_MAX_FIELD_SECTION_SIZE. The limit is the same as for HTTP/2. It also bounds the size of
/// a field section: each field counts for 32 bytes in addition to its text, and no reasonable
/// encoding needs more.
pub(super) const FIELD_SECTION_BYTES_MAX: u32 = 64 * 1_024;

/// Maximum size, in bytes, of a frame that is read from the control stream rather than skipped.
/// SETTINGS with every defined setting is shorter than 100 bytes.
pub(super) const CONTROL_FRAME_BYTES_MAX: u32 = 4 * 1_024;

/// Base of the limit, in bytes, on the total size of all streams' incomplete field sections.
/// [`PARTIAL_BYTES_PER_STREAM`] is added for each allowed stream.
pub(super) const PARTIAL_BYTES_MAX: usize = 1_024 * 1_024;

/// Bytes that each allowed stream adds to the limit described at [`PARTIAL_BYTES_MAX`].
pub(super) const PARTIAL_BYTES_PER_STREAM: usize = 1_024;

/// Largest buffer, in bytes, that is kept for the next stream in the same slot.
pub(super) const RETAINED_BUFFER_BYTES_MAX: usize = 4 * 1_024;

/// Maximum size, in bytes, of unsent instructions for the peer's encoder, about 4,000
/// acknowledgments. As long as the peer reads the decoder stream, few of them are unsent at any
/// time.
pub(super) const DECODER_OUTPUT_BYTES_MAX: usize = 16 * 1_024;

/// Maximum number of unidirectional streams whose type hasn't arrived completely. Nearly all types
/// take one byte.
pub(super) const UNTYPED_STREAMS_MAX: usize = 100;

/// Number of streams of unknown types that are remembered, so that bytes that arrive late on them
/// are recognized.
pub(super) const DISCARDED_STREAMS_MAX: usize = 16;
