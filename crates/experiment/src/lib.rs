//! prony-experiment
