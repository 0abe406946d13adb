//! Tests of the origin over real sockets.

mod client;
mod faults;
mod http2;
mod http3;
mod http3_client;
mod http3_faults;
mod lifecycle;
mod paths;
mod stall;
mod tls;
