//! HPACK, the header compression of HTTP/2 (RFC 7541).
//!
//! A load generator sends the same requests repeatedly and needs little information from the
//! responses, so this isn't a general implementation:
//!
//! - The *encoder* encodes a request once, before the run. It doesn't use the dynamic table, so the
//!   same bytes are valid on every connection at any time.
//! - The *decoder* reads all fields but keeps only the status, the length and errors. For an entry
//!   of the dynamic table it keeps the size and the meaning, never the text, so its memory is
//!   independent of the peer's input. If heads are needed as text, `texts` decodes each block a
//!   second time.
//! - Responses to the same request consist mostly of the same bytes, so `block_cache` recognizes
//!   repeated blocks by comparison.

pub use crate::compression::{FieldFault, Fields, HuffmanError};

mod block_cache;
mod decoder;
mod encoder;
mod static_table;
mod texts;

pub use decoder::{DecodeError, Decoder};
pub(crate) use encoder::Hpack;
pub(crate) use texts::FieldTexts;

/// Initial size of the dynamic table, until SETTINGS_HEADER_TABLE_SIZE changes it, in bytes (RFC
/// 9113 §6.5.2).
pub const DEFAULT_TABLE_BYTES: u32 = 4_096;
