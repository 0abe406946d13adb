//! `prony siege` beside siege.
