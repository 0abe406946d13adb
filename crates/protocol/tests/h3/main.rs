//! HTTP/3 tests with a scripted server, with every split of the input, with random bytes and
//! operations, and with an encoder that has a dynamic table.

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
