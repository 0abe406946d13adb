//! HTTP/1.0 and HTTP/1.1 (RFC 9112) from the client's side.
//!
//! [`encode_request`] writes a request once, before the run. A [`ResponseParser`] belongs to one
//! connection and is used again for each exchange:
//!
//! ```
//! use prony_protocol::h1::{Event, Expects, Limits, ResponseParser};
//!
//! let mut parser = ResponseParser::new(Limits::default());
//! parser.start(Expects::Body);
//! let mut input: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
//! let mut body = Vec::new();
//! loop {
//!     match parser.next(&mut input)? {
//!         Event::NeedMore => panic!("all of the answer is here"),
//!         Event::Interim(_) => {}
//!         Event::Head(head) => assert_eq!(head.status, 200),
//!         Event::Body(piece) => body.extend_from_slice(piece),
//!         Event::End { reusable } => break assert!(reusable),
//!     }
//! }
//! assert_eq!(body, b"hi");
//! # Ok::<(), prony_protocol::h1::Violation>(())
//! ```
//!
//! Where RFC 9112 leaves a client the choice, prony takes what browsers and curl take, so that
//! whatever they can fetch can be measured, unless the leniency would leave in doubt where an
//! answer ends: a wrong end would turn one server's failure into two answers that look right. So a
//! lone LF ends a line of the head (§2.2), a folded value is read (§5.2) and the reason may be
//! missing with its space (§4), but lines that hold chunk sizes must end in CRLF (§7.1), a field
//! that frames the body may not be folded, and Transfer-Encoding beside Content-Length is refused
//! (§6.3).

mod chunk;
mod event;
mod head;
mod lines;
mod opening;
mod plain;
mod request;
mod response;
mod violation;

pub use event::{Eof, Event, Expects, Framing, Head, Limits, Version};
pub(crate) use request::{BodyFraming, USER_AGENT, check_request, header_values, takes_away};
pub use request::{RequestError, RequestSpec, encode_request};
pub use response::ResponseParser;
pub use violation::Violation;
