//! How much a peer may cost, beside what flow control and settings bound. Each limit is far above
//! what servers do and far below what would hurt.

/// Frames in a row that move nothing ahead: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA,
/// unknown types, whatever is for streams that are gone. A frame of an answer, or a piece of a
/// request that may be sent, ends the row.
///
/// They cost no memory, but a connection with nothing else would keep a worker busy. A server that
/// pings every second while it computes an answer for an hour stays below.
pub(super) const IDLE_FRAMES: u32 = 10_000;

/// Frames of that kind that each request which is given up makes up for, as its answer may be on the
/// way: WINDOW_UPDATE, HEADERS, an empty last DATA, RST_STREAM. Or a server whose every answer comes
/// too late would be taken for a flood.
pub(super) const LATE_FRAMES: u32 = 4;

/// Bytes that wait to be sent because the peer asked for them: acknowledgements of SETTINGS and PING.
/// Some 1,000 frames; a peer that reads what it asks for has few of them out. RST_STREAM needs no
/// limit of its own, as there is one for each request at the most, nor does WINDOW_UPDATE, which is
/// written when it is sent.
pub(super) const ANSWER_BYTES: usize = 16 * 1_024;

/// Bytes that may wait to be sent before no further request is started: a worker that doesn't send
/// what it has must not pile up requests. 100 streams with large cookies stay below.
pub(super) const UNSENT_BYTES: usize = 512 * 1_024;

/// Bytes of request bodies in one batch of output, so that large bodies are not in memory twice and
/// streams take turns.
pub(super) const BODY_BYTES_A_BATCH: usize = 64 * 1_024;

/// CONTINUATION frames of one block. The longest block allowed needs four; those who send small
/// ones, or empty ones for ever, are bounded by this.
pub(super) const CONTINUATIONS: u32 = 128;

/// The longest list of fields, in bytes as RFC 9113 §6.5.2 counts them: what
/// SETTINGS_MAX_HEADER_LIST_SIZE says. The same as for a head of HTTP/1.1. It bounds the bytes of a
/// split block, too: each field counts 32 bytes beside its text, and no sensible coding needs more.
pub(super) const HEADER_LIST_BYTES: u32 = 64 * 1_024;

/// Interim answers (1xx) before the final one. The same as for HTTP/1.1.
pub(super) const INTERIMS: u8 = 32;

/// How many streams are taken to be allowed before the peer's SETTINGS say it: as many as it should
/// allow at the least (RFC 9113 §6.5.2). Not to wait for SETTINGS saves a round trip (§3.4).
pub(super) const STREAMS_BEFORE_SETTINGS: u32 = 100;
