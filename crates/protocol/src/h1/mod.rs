//! HTTP/1.0 and HTTP/1.1 (RFC 9112), client side.
//!
//! [`encode_request`] writes a request once, before the run. A [`ResponseParser`] belongs to one
//! connection and is reused for each exchange:
//!
//! ```
//! use prony_protocol::h1::{ResponseEvent, Expects, Limits, ResponseParser};
//!
//! let mut parser = ResponseParser::new(Limits::default());
//! parser.start(Expects::Body);
//! let mut input: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
//! let mut body = Vec::new();
//! loop {
//!     match parser.next(&mut input)? {
//!         ResponseEvent::NeedMore => panic!("the response is complete"),
//!         ResponseEvent::Interim(_) | ResponseEvent::SwitchingProtocols => {}
//!         ResponseEvent::Head(head) => assert_eq!(head.status, 200),
//!         ResponseEvent::Body(piece) => body.extend_from_slice(piece),
//!         ResponseEvent::End { reusable } => break assert!(reusable),
//!     }
//! }
//! assert_eq!(body, b"hi");
//! # Ok::<(), prony_protocol::h1::Violation>(())
//! ```
//!
//! If RFC 9112 gives a client a choice, prony accepts the responses that browsers and curl accept,
//! so that everything that they can fetch can be measured. prony is strict only where leniency
//! would make the end of a response ambiguous: with a wrong end, one failed response could look
//! like two valid ones. Therefore:
//!
//! - A lone LF ends a line of the head (§2.2), a folded value is accepted (§5.2), and the reason
//!   and the space before it may be missing (§4).
//! - Lines with chunk sizes must end in CRLF (§7.1).
//! - A field that determines the end of the body must not be folded.
//! - Transfer-Encoding together with Content-Length is rejected (§6.3).

mod chunk;
mod event;
mod first_bytes;
mod head;
mod lines;
mod plain;
mod request;
mod response;
mod violation;

pub use event::{Eof, Expects, Framing, Head, Limits, ResponseEvent, Version};
pub use request::USER_AGENT;
pub(crate) use request::{BodyFraming, check_request, header_values, only_suppresses_default};
pub use request::{RequestError, RequestSpec, asks_to_close, asks_to_upgrade, encode_request};
pub use response::ResponseParser;
pub use violation::Violation;
