//! `prony wrk` beside wrk.
