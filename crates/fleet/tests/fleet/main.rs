//! The fleet over real nats-server processes.

mod ground;
mod reflection;
mod server;
