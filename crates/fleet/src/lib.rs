//! Agents on many machines, over NATS: room kept for it, nothing built yet.
//!
//! What will enter: an experiment and a list of hosts. What will leave: the same records that one
//! machine gives, merged exactly. It will implement [`prony_experiment`]'s `Host` and nothing below
//! it will know that it exists; everything else works without it.
