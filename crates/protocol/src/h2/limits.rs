//! Limits on the cost of a peer, in addition to flow control and settings. Each limit is far above
//! the needs of real servers and far below any harm.

/// Frames in a row without progress: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown
/// types, and frames for streams that have ended. A frame of a response, or a part of a request
/// that may be sent, resets the count.
///
/// They use no memory, but a connection with nothing else would keep a worker busy. A server that
/// sends a PING every second while it computes a response for an hour stays below the limit.
pub(super) const IDLE_FRAMES_MAX: u32 = 10_000;

/// Frames without progress that are credited for each cancelled request, because its response may
/// be on the way: WINDOW_UPDATE, HEADERS, an empty last DATA, RST_STREAM. Otherwise a server whose
/// responses all come too late would count as a flood.
pub(super) const LATE_FRAMES_PER_REQUEST: u32 = 4;

/// Bytes of unsent replies to the peer: acknowledgements of SETTINGS and PING, about 1,000 frames.
/// A peer that reads its replies has few outstanding. RST_STREAM needs no limit, because there is
/// at most one per request, nor does WINDOW_UPDATE, which is written when it is sent.
pub(super) const REPLY_BYTES_MAX: usize = 16 * 1_024;

/// Bytes of unsent output above which no further request is started, so that requests don't
/// accumulate when a worker can't send. 100 streams with large cookies stay below the limit.
pub(super) const UNSENT_BYTES_MAX: usize = 512 * 1_024;

/// Bytes of request bodies in one batch of output, so that large bodies aren't copied as a whole
/// and streams take turns.
pub(super) const BATCH_BODY_BYTES_MAX: usize = 64 * 1_024;

/// CONTINUATION frames of one block. The longest allowed block needs four; the limit stops a peer
/// that sends small or empty frames without end.
pub(super) const CONTINUATION_FRAMES_MAX: u32 = 128;

/// Longest list of fields, in bytes as counted by RFC 9113 §6.5.2, announced as
/// SETTINGS_MAX_HEADER_LIST_SIZE. The same as the limit of an HTTP/1.1 head. It also bounds the
/// bytes of a split block, because each field counts for 32 bytes in addition to its text, and no
/// reasonable coding needs more.
pub(super) const HEADER_LIST_BYTES_MAX: u32 = 64 * 1_024;

/// Number of streams assumed to be allowed before the peer's SETTINGS arrive: the recommended
/// minimum (RFC 9113 §6.5.2). Not waiting for SETTINGS saves a round trip (§3.4).
pub(super) const STREAMS_BEFORE_SETTINGS: u32 = 100;
