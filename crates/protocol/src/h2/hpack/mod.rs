//! HPACK, the compression of fields in HTTP/2 (RFC 7541).
//!
//! A load generator sends the same requests again and again and wants to know little of the
//! answers, so neither side of this is a general implementation:
//!
//! - The *encoder* writes a request once, before the run, without touching the dynamic table, so
//!   that the same bytes are right on every connection at every time.
//! - The *decoder* reads everything and keeps what matters: the status, the length and whatever is
//!   wrong. Of an entry of the dynamic table it keeps the size and the meaning, never the text, so
//!   that a table costs the same whatever a peer puts into it. Who wants to see heads as text has
//!   `texts` read each block once more.
//! - Answers to the same request are mostly the same bytes: a block like one before is recognised
//!   by comparing it, see `memo`.

mod decoder;
mod encoder;
mod fields;
mod huffman;
mod integer;
mod memo;
mod static_table;
mod table;
mod texts;

pub use decoder::{Decoder, HpackError};
pub(crate) use encoder::encode_field;
pub use fields::{FieldFault, Fields};
pub use huffman::HuffmanError;
pub(crate) use texts::Texts;

/// The size of the dynamic table until SETTINGS_HEADER_TABLE_SIZE says otherwise, in bytes (RFC
/// 9113 §6.5.2).
pub const DEFAULT_TABLE_BYTES: u32 = 4_096;

/// What an entry of the dynamic table (RFC 7541 §4.1), or a field in the size of a list (RFC 9113
/// §6.5.2), counts beside its name and value, in bytes.
pub(crate) const FIELD_OVERHEAD_BYTES: u32 = 32;
