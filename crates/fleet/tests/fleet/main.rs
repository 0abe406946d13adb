//! The fleet over real nats-server processes.

mod coordinator;
mod fake;
mod ground;
mod reflection;
mod server;
