//! HTTP/2 (RFC 9113) from the client's side.

pub mod hpack;
