//! gRPC's messages in the body of a request or response over HTTP/2 or 3: each has a prefix of five
//! bytes, which says if the message is compressed and how long it is.
//!
//! Input: parts of a body. Output: the number of complete messages, or the reason why the body is
//! not valid. Messages are counted where they are, and never copied or decoded.

mod reader;

pub use reader::{MessageFault, MessageReader};

/// Length of the prefix of each message.
pub const PREFIX_BYTES: usize = 5;

/// Appends a message with its prefix. The message has less than 4 GiB.
pub fn write_message(message: &[u8], is_compressed: bool, out: &mut Vec<u8>) {
    out.push(u8::from(is_compressed));
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
}
