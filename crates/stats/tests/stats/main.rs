//! Tests of the statistics through the public interface. They share one binary, because linking
//! several takes longer.

mod bisections;
mod designs;
mod error_rates;
mod gates;
mod interleaving;
mod load_conditions;
mod movements;
mod properties;
mod run_intervals;
mod runs;
mod simulation;
