//! Tests of the built program: arguments in; exit status, streams and files out.

mod aborted_experiments;
mod action;
mod agents;
mod bypass_loads;
mod capacities;
mod capacity_plans;
mod compares;
mod containers;
mod cookies;
mod cpu_quotas;
mod curl_commands;
mod differing_requests;
mod doctor;
mod dry_runs;
mod entries;
mod exports;
mod fleet_loads;
mod fleet_tokens;
mod fleet_views;
mod fleets;
mod gates;
mod grpc_calls;
mod habits;
mod help;
mod histories;
mod interrupts;
mod journeys;
mod limits;
mod loads;
mod metrics;
mod mistakes;
mod outputs;
mod precisions;
mod printed_reports;
mod profiles;
#[path = "../frontends/recorder.rs"]
#[allow(dead_code)]
mod recorder;
mod requests;
mod revisions;
mod running;
mod sampling_profiles;
mod scripts;
mod ssh_hosts;
#[path = "../../../machine/tests/sshd/mod.rs"]
mod sshd;
mod statuses;
mod stored_runs;
mod streams;
mod studies;
mod terminals;
mod think_times;
mod transcripts;
mod websockets;
