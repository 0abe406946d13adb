//! The fleet over real nats-server processes.

mod agent;
mod agent_faults;
mod agent_loads;
mod coordinator;
mod deploy;
mod enrollment;
mod forgeries;
mod harness;
mod hosts;
mod nats_server;
mod operator;
mod outages;
mod reflection;
mod reservations;
mod scripted_agent;
mod server;
mod slow_orders;
mod stored_runs;
