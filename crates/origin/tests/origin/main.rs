//! The origin over real sockets.

mod client;
mod faults;
mod http2;
mod lifecycle;
mod paths;
mod stall;
mod tls;
