//! prony-stats
