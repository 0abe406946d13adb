//! The fleet over real nats-server processes.

mod agent;
mod agent_faults;
mod coordinator;
mod deploy;
mod enrollment;
mod fake;
mod forgeries;
mod ground;
mod hands;
mod hosts;
mod maker;
mod operator;
mod outages;
mod reflection;
mod reservations;
mod server;
mod slow_orders;
mod stored_runs;
