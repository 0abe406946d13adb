//! Tests of the fleet with real nats-server processes.

mod agent;
mod agent_faults;
mod agent_loads;
mod agent_orders;
mod agent_runs;
mod coordinator;
mod coordinator_clocks;
mod coordinator_ends;
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
