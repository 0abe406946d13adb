//! HTTP/3 against a server that is a script, against itself at every split, against random bytes
//! and operations, and against an encoder with a dynamic table.

mod client;
mod connection_errors;
mod encoder;
mod exchanges;
mod generated;
mod hostile;
mod requests;
mod smoke;
mod splits;
mod stream_errors;

#[expect(unreachable_pub, dead_code, reason = "a library for the fuzz targets")]
#[path = "../../../../fuzz/src/lib.rs"]
mod bodies;
