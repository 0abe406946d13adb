//! QPACK, the field compression of HTTP/3 (RFC 9204).
//!
//! Like HPACK, this isn't a general implementation:
//!
//! - The *encoder* encodes a request once, before the run, with only the static table and literals.
//!   The same bytes are valid on every stream of every connection, and no encoder stream is needed.
//! - The *decoder* reads all fields but keeps only the status, the length and errors. It allows a
//!   dynamic table but no blocked streams (SETTINGS_QPACK_BLOCKED_STREAMS is 0), so a server refers
//!   only to acknowledged entries. No response waits for another stream or is buffered for that
//!   reason. If heads are needed as text, `texts` decodes each section a second time.
//! - Responses to the same request consist mostly of the same bytes, so a repeated section is
//!   recognized by comparison.
//!
//! | section of RFC 9204 | code |
//! |---|---|
//! | §2.2.1 blocked decoding | [`DecodeError::Blocked`] |
//! | §2.2.2, §4.4 decoder instructions | `decoder`: `acknowledge`, `cancel`, `take_output` |
//! | §2.2.3 invalid references | [`DecodeError::Index`] |
//! | §3.1, Appendix A static table | `static_table` |
//! | §3.2 dynamic table | `compression::table`, shared with HPACK; indices: `decoder`, `prefix` |
//! | §4.1.1, §4.1.2 integers, strings | `compression`, shared with HPACK |
//! | §4.3 encoder instructions | `instruction`; `decoder`: `apply` |
//! | §4.5.1 prefix of a section | `prefix` |
//! | §4.5.2 to §4.5.6 field lines | `decoder`: `line` for responses, `encoder` for requests |
//! | §6 error codes | [`Violation::code`](super::Violation::code) |

pub use crate::compression::{FieldFault, Fields, HuffmanError};

mod decoder;
mod encoder;
mod error;
mod instruction;
mod prefix;
mod static_table;
mod texts;

pub use decoder::Decoder;
pub(crate) use encoder::{Qpack, SECTION_PREFIX};
pub use error::DecodeError;

/// Size of the dynamic table until the encoder sets its capacity, in bytes (RFC 9204 §3.2.3).
const INITIAL_TABLE_BYTES: u32 = 0;
