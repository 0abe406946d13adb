//! The embedded origin: a server whose bodies, delays and faults are known beforehand.
//!
//! In comes a [`Config`] (addresses, UNIX paths, TLS, cores, a price in CPU); out comes a running
//! [`Origin`] that answers the paths listed in [`PATHS`] over HTTP/1.0, HTTP/1.1 and HTTP/2 until
//! it is stopped or dropped. hyper parses and serves; a path under `/fault/` takes the socket back
//! from hyper and plays a short script of bytes, pauses and an ending on it ([`Fault`]).
//!
//! It runs one thread per core it is given, with one single-threaded runtime each; they share
//! nothing but the freeze schedule ([`stall`]).
//!
//! ```
//! use prony_origin::{Config, Origin};
//!
//! let listen = vec!["127.0.0.1:0".parse()?];
//! let origin = Origin::start(Config { listen, ..Config::default() })?;
//! println!("http://{}/bytes/10K", origin.addresses()[0]);
//! origin.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It never logs, never reads or serves files (the TLS files aside), never sends load, and never
//! knows plans or trials.

mod accept;
mod alarm;
mod answer;
mod body;
mod config;
mod connection;
mod cpu;
mod error;
mod fault;
mod listen;
pub mod pattern;
mod quantity;
mod route;
mod script;
mod server;
pub mod stall;
mod stream;
mod tls;

pub use config::{AcceptFault, Config, Tls};
pub use cpu::Work;
pub use error::OriginError;
pub use fault::Fault;
pub use route::PATHS;
pub use server::Origin;
pub use stall::{Schedule, Stall};

/// The body of `/`: 13 bytes.
pub const HELLO: &str = "Hello, world!";
