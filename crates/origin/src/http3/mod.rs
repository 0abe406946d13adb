//! HTTP/3: quinn drives QUIC, h3 parses and frames.

mod body;
mod connection;
mod context;
mod endpoint;
mod faults;
mod transport;

pub(crate) use endpoint::{server_config, start, stop};
