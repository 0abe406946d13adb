//! HTTP/3 (RFC 9114), client side, above QUIC.
//!
//! An [`EncodedRequest`] is encoded once, before the run. If the content varies, a
//! [`RequestPattern`] contains the fixed parts. A [`Connection`] belongs to one QUIC connection and
//! carries many concurrent exchanges. The caller owns the QUIC connection and its streams:
//!
//! ```
//! use prony_protocol::h1::{RequestSpec, Version};
//! use prony_protocol::h2::RequestScheme;
//! use prony_protocol::h3::{Connection, ConnectionEvent, EncodedRequest, ClientSettings};
//!
//! let spec = RequestSpec {
//!     method: "GET",
//!     target: "/",
//!     version: Version::Http11,
//!     host: "localhost",
//!     headers: &[],
//!     body: b"",
//!     keep_alive: true,
//! };
//! let request = EncodedRequest::new(&spec, RequestScheme::Https)?;
//!
//! let mut connection = Connection::new(ClientSettings { streams: 32, ..Default::default() });
//! // Output for two unidirectional streams.
//! let (mut control, mut decoder) = (Vec::new(), Vec::new());
//! connection.take_control(&mut control);
//! connection.take_decoder(&mut decoder);
//! assert!(control.starts_with(b"\x00\x04"), "the stream's type, then SETTINGS");
//!
//! // The caller writes `request.wire()` to the first bidirectional stream and ends it.
//! connection.start(&request, 0, 7)?;
//!
//! // The server's control stream, with SETTINGS.
//! let mut input: &[u8] = b"\x00\x04\x00";
//! assert_eq!(connection.next(3, &mut input)?, ConnectionEvent::Settings);
//!
//! // HEADERS with status 200, and DATA.
//! let mut input: &[u8] = b"\x01\x03\0\0\xd9\x00\x02hi";
//! assert_eq!(connection.next(0, &mut input)?, ConnectionEvent::Head { tag: 7, status: 200 });
//! assert_eq!(connection.next(0, &mut input)?, ConnectionEvent::Body { tag: 7, bytes: b"hi" });
//! assert_eq!(connection.next(0, &mut input)?, ConnectionEvent::NeedMore);
//! assert_eq!(connection.finished(0)?, ConnectionEvent::End { tag: 7, call: None });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The sections of RFC 9114 are implemented in these places:
//!
//! | section | code |
//! |---|---|
//! | §4.1, §4.4 structure of a response, tunnels | `stream`; `response_stage`, shared with HTTP/2 |
//! | §4.1.1, §5.2 cancellation, rejection, GOAWAY | [`ConnectionEvent::Reset`], [`Connection::cancel`], `connection::control`: `goaway` |
//! | §4.1.2 malformed responses | [`StreamViolation`] ends an exchange: `break_stream` |
//! | §4.2, §4.3 fields | `compression::fields`, `request_fields`; both shared with HTTP/2; [`qpack`] (RFC 9204) |
//! | §4.6, §7.2.3, §7.2.5, §7.2.7 push | refused: [`Violation::Push`] |
//! | §5.2, §6.2.1, §8 state of the connection | `connection::state` |
//! | §6.1 bidirectional streams | `streams`; [`Connection::next`] |
//! | §6.2 unidirectional streams | `unidirectional`; `connection::peer_streams` |
//! | §7.1 layout of frames | `frame`, `varint` (RFC 9000 §16); `connection::responses`: `finish_response` |
//! | §7.2 frames, and the streams that they may be on | `stream`: `check_frame`; `connection::control`: `read_control_header` |
//! | §7.2.4 SETTINGS | `settings` |
//! | §8 errors | [`Violation`] ends the connection: [`Connection::next`] |
//! | §9 unknown frames, streams and settings | ignored by all of these |
//! | §10.5 limits on the cost that a peer can cause | `limits` |

mod connection;
mod error_code;
mod event;
mod frame;
mod limits;
mod pattern;
pub mod qpack;
mod request;
mod settings;
mod stream;
mod streams;
mod unidirectional;
mod varint;
mod violation;

pub use connection::Connection;
pub use error_code::ErrorCode;
pub use event::{ConnectionEvent, StartError};
pub use frame::FrameType;
pub use pattern::RequestPattern;
pub use request::EncodedRequest;
pub use settings::ClientSettings;
pub use violation::{CriticalStream, StreamViolation, Violation};

pub use crate::response_stage::{ResponseFault, UnfinishedRequest};
