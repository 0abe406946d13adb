//! `prony hey` beside hey.
