//! Statistics through the public interface. One binary, because each one has to be linked.

mod capacity_sentences;
mod designs;
mod error_rates;
mod gates;
mod interleaving;
mod load_conditions;
mod movements;
mod properties;
mod runs;
mod sentences;
mod simulation;
