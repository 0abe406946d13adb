//! HTTP/2 tests with a scripted server, with every split of the input, with random bytes and
//! operations, and with other implementations.

mod client;
mod connection_errors;
mod conversations;
mod exchanges;
mod flow_control;
mod generated;
mod hostile;
mod interop;
mod patterns;
mod requests;
mod shutting_down;
mod smoke;
mod splits;
mod states;
mod stream_errors;
mod transitions;

#[expect(unreachable_pub, dead_code, reason = "a library for the fuzz targets")]
#[path = "../../../../fuzz/src/lib.rs"]
mod bodies;
