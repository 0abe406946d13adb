//! The finished program, run as people run it: arguments in; status, streams and files out.

mod agents;
mod compares;
mod doctor;
mod fleet_loads;
mod fleet_views;
mod fleets;
mod gates;
mod help;
mod interrupts;
mod loads;
mod metrics;
mod mistakes;
mod running;
mod statuses;
mod studies;
mod terminals;
