//! The embedded origin: a server with known bodies, delays and faults.
//!
//! Input: a [`Config`] (addresses, UNIX paths, TLS, cores, CPU cost). Output: a running [`Origin`]
//! that serves the paths listed in [`PATHS`] over HTTP/1.0, HTTP/1.1, HTTP/2 and HTTP/3 until it is
//! stopped or dropped. hyper parses and serves over TCP and UNIX sockets; h3 and quinn do so over
//! QUIC. They share no code with prony's own client. For a path under `/fault/`, the origin takes
//! the socket back from hyper, or the stream from h3. It then sends a short script of bytes and
//! pauses, after which the connection ends or continues ([`Fault`]).
//!
//! The origin runs one thread per core, each with a single-threaded runtime. Threads share only the
//! freeze schedule ([`stall`]).
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
//! The origin never logs, never serves files, and never sends load. The only files that it reads
//! are those of the TLS certificate. It does not depend on plans or trials.

mod accept;
mod alarm;
mod body;
mod config;
mod connection;
mod cpu;
mod error;
mod events;
mod fault;
mod http3;
mod listen;
mod path_value;
pub mod pattern;
mod respond;
mod route;
mod script;
mod server;
mod service_queue;
pub mod stall;
mod stream;
mod tls;

pub use config::{AcceptFault, Config, Tls};
pub use cpu::Work;
pub use error::OriginError;
pub use fault::Fault;
pub use route::PATHS;
pub use server::Origin;
pub use stall::{FreezeSchedule, Stall};

/// Body of the response to `/`, which has 13 bytes.
pub const HELLO: &str = "Hello, world!";
