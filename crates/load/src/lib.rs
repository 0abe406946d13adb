//! prony-load
