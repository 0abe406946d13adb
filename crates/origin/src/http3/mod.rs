//! HTTP/3: quinn implements QUIC, and h3 parses and writes HTTP/3 frames.

mod body;
mod connection;
mod context;
mod endpoint;
mod faults;
mod transport;

pub(crate) use endpoint::{server_config, start, stop};
