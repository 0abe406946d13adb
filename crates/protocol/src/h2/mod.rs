//! HTTP/2 (RFC 9113), client side.
//!
//! An [`EncodedRequest`] is encoded once, before the run. If the content varies, a
//! [`RequestPattern`] contains the fixed parts. A [`Connection`] represents one connection and
//! carries many concurrent exchanges:
//!
//! ```
//! use prony_protocol::h1::{RequestSpec, Version};
//! use prony_protocol::h2::{ClientSettings, Connection, EncodedRequest, ConnectionEvent, RequestScheme};
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
//! let request = EncodedRequest::new(&spec, RequestScheme::Http)?;
//!
//! let mut connection = Connection::new(ClientSettings { streams: 32, ..Default::default() });
//! connection.start(&request, 7)?;
//! let mut out = Vec::new();
//! connection.take_output(&mut out, |_tag| request.body());
//! assert!(out.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
//!
//! // SETTINGS, the head on stream 1 with status 200, and DATA that ends the stream.
//! let mut input: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\x01\0\0\0\x01hi";
//! let mut body = Vec::new();
//! loop {
//!     match connection.next(&mut input)? {
//!         ConnectionEvent::NeedMore => break,
//!         ConnectionEvent::Head { tag, status } => assert_eq!((tag, status), (7, 200)),
//!         ConnectionEvent::Body { tag: 7, bytes } => body.extend_from_slice(bytes),
//!         ConnectionEvent::End { tag, call: None } => assert_eq!(tag, 7),
//!         _ => {}
//!     }
//! }
//! assert_eq!(body, b"hi");
//! assert!(connection.has_output(), "SETTINGS must be acknowledged");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The sections of RFC 9113 are implemented in these places:
//!
//! | section | code |
//! |---|---|
//! | §3.4 preface | `connection`: `write_preface`; `connection::reading`: `begin`, `judge_opening` |
//! | §3.4, §5.4.1, §6.8 state of the connection | `connection::state` |
//! | §4.1, §4.2 frames and their size | `frame`; `connection::reading`, `connection::control`: `check_header` |
//! | §4.3, §6.10 field blocks | `connection::responses`: `check_block`, `headers`, `continuation`; [`hpack`] (RFC 7541) |
//! | §5.1 states of a stream | `stream`: `StreamState`; `streams`: `StreamStatus`; `connection::responses`: `end`, `check_late` |
//! | §5.1.1, §5.1.2 identifiers, concurrent streams | `streams`; [`Connection::can_start`] |
//! | §5.2, §6.1, §6.9 flow control | `flow`; `connection::responses`: `begin_data`; `connection::control`: `window_update`; `connection::output` |
//! | §5.4 errors | [`Violation`] ends the connection: `Connection::fail`; [`StreamViolation`] ends an exchange: `break_stream` |
//! | §6.3 to §6.8 other frames | `connection::control`, one method each; `settings` |
//! | RFC 8441 tunnels for other protocols | `request`: `extended_connect`; `connection::output`: `send_tunnel` |
//! | §8.1, §8.5 structure of a response, tunnels | `response_stage`, shared with HTTP/3 |
//! | §8.2, §8.3 fields | `compression::fields`, `request_fields`; both shared with HTTP/3 |
//! | §8.7 retries | [`ConnectionEvent::Reset`], [`UnfinishedRequest`] |
//! | §10.5 limits on the cost that a peer can cause | `limits` |
//!
//! The RFC leaves open how to treat HEADERS or DATA on a stream that the peer has already ended.
//! prony treats them as a connection error (§5.1). The exception is an empty DATA frame, which
//! nginx may send.

mod connection;
mod error_code;
mod event;
mod flow;
mod frame;
pub mod hpack;
mod limits;
mod pattern;
mod request;
mod settings;
mod stream;
mod streams;
mod violation;

pub use connection::Connection;
pub use error_code::ErrorCode;
pub use event::{CommonFrame, ConnectionEvent, StartError, StreamId};
pub use frame::FrameType;
pub use pattern::RequestPattern;
pub use request::{EncodedRequest, data_wire_bytes};
pub use settings::ClientSettings;
pub use violation::{StreamViolation, Violation};

pub use crate::request_fields::RequestScheme;
pub use crate::response_stage::UnfinishedRequest;
