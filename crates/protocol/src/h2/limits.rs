//! Limits on the cost that a peer can cause, in addition to flow control and settings. Each limit
//! is far above the needs of real servers and low enough to prevent harm.

/// Maximum number of consecutive frames without progress: SETTINGS, PING, PRIORITY, WINDOW_UPDATE,
/// empty DATA, unknown types, and frames for streams that have ended. A frame of a response, or
/// permission to send part of a request, resets the count.
///
/// Such frames use no memory, but an endless sequence of them would keep a worker busy. A server
/// that sends a PING every second while it computes a response for an hour stays below the limit.
pub(super) const IDLE_FRAMES_MAX: u32 = 10_000;

/// Number of frames without progress that are allowed for each canceled request. WINDOW_UPDATE,
/// HEADERS, an empty last DATA and RST_STREAM may be in flight when the request is canceled.
/// Without this allowance, late responses of a slow server would count as a flood.
pub(super) const LATE_FRAMES_PER_REQUEST: u32 = 4;

/// Maximum size, in bytes, of unsent replies to the peer: acknowledgments of SETTINGS and PING,
/// about 1,000 frames. As long as the peer reads the replies, few of them are unsent at any time.
/// RST_STREAM needs no limit, because there is at most one per request. WINDOW_UPDATE needs none
/// either, because it is written only when output is sent.
pub(super) const REPLY_BYTES_MAX: usize = 16 * 1_024;

/// Maximum size, in bytes, of unsent output at which another request may start. Without this limit,
/// requests would accumulate while a worker can't send. The requests of 100 streams with large
/// cookies stay below the limit.
pub(super) const UNSENT_BYTES_MAX: usize = 512 * 1_024;

/// Maximum size of the request bodies in one batch of output, in bytes. The limit prevents a large
/// body from being copied all at once, and lets streams take turns.
pub(super) const BATCH_BODY_BYTES_MAX: usize = 64 * 1_024;

/// Maximum number of CONTINUATION frames in one block. The longest allowed block needs four frames.
/// The limit stops a peer that sends small or empty frames endlessly.
pub(super) const CONTINUATION_FRAMES_MAX: u32 = 128;

/// Maximum size of a field list, in bytes as counted by RFC 9113 §6.5.2, announced as
/// SETTINGS_MAX_HEADER_LIST_SIZE. It equals the limit on an HTTP/1.1 head. It also bounds the size
/// of a split block: each field counts for 32 bytes in addition to its text, and no reasonable
/// encoding needs more.
pub(super) const HEADER_LIST_BYTES_MAX: u32 = 64 * 1_024;

/// Number of streams that are assumed to be allowed before the peer's SETTINGS arrive: the
/// recommended minimum (RFC 9113 §6.5.2). Because requests don't wait for SETTINGS, a round trip is
/// saved (§3.4).
pub(super) const STREAMS_BEFORE_SETTINGS: u32 = 100;
