//! prony-protocol
