//! prony-report
