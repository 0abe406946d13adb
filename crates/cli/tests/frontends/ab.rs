//! `prony ab` beside ab.
