//! prony-origin
