//! The fleet over real nats-server processes.

mod agent;
mod agent_faults;
mod coordinator;
mod deploy;
mod fake;
mod ground;
mod hands;
mod hosts;
mod maker;
mod operator;
mod reflection;
mod server;
