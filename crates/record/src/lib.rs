//! prony-record
