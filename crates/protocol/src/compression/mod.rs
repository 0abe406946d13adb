//! Field compression: the parts that HPACK (RFC 7541) and QPACK (RFC 9204) have in common.
//!
//! Neither decoder stores text, except for a few messages of failed gRPC calls. Each field is reduced
//! to its meaning, so the memory of a dynamic table doesn't depend on the peer's input. A list of
//! fields is reduced to a summary.

mod block_cache;
mod call_messages;
mod coding;
mod fields;
mod huffman;
mod integer;
mod static_texts;
mod strings;
mod table;
mod text_table;

pub(crate) use block_cache::BlockCache;
pub(crate) use call_messages::CallMessages;
pub(crate) use coding::FieldCoding;
#[cfg(test)]
pub(crate) use fields::Meaning;
pub use fields::{CallMessageId, FieldFault, Fields};
pub(crate) use fields::{Field, Name};
pub use huffman::HuffmanError;
pub(crate) use integer::{IntegerError, decode as decode_integer, encode as encode_integer};
pub(crate) use static_texts::find_text;
pub(crate) use strings::{CodedString, StringError, encode_string, encode_value_with, string};
pub(crate) use table::Table;
pub(crate) use text_table::{FieldText, TextTable, write_line};

/// Number of bytes that a field adds, beyond its name and value, to the size of a dynamic table
/// entry (RFC 7541 §4.1, RFC 9204 §3.2.1) or of a field list (RFC 9113 §6.5.2, RFC 9114 §4.2.2).
pub(crate) const FIELD_OVERHEAD_BYTES: u32 = 32;
