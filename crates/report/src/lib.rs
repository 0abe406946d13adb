//! Estimates and records in; text, Markdown, CSV, JSON arrays and HTML out.
//!
//! Enters: a [`Record`](prony_record::Record), or a whole experiment with its verdict. Leaves:
//! strings. Every output is a pure transform of what was stored, so that an old folder renders for
//! ever and twice the same. Nothing here reads a clock, opens a
//! socket, measures, or computes a statistic: verdicts and their sentences arrive ready.

mod chart;
pub mod csv;
mod load_view;
pub mod number;
pub mod table;
pub mod text;
mod timeline;

pub use timeline::timeline;
