//! Estimates and records in; text, Markdown, CSV, JSON arrays, HTML, SVG and PDF out.
//!
//! Enters: a [`Record`](prony_record::Record), or a whole [`Experiment`] with its verdict. Leaves:
//! strings, and bytes for a PDF. Every output is a pure transform of what was stored, so that an old
//! folder renders for ever and twice the same; only [`folder`] reads files. Nothing here reads a
//! clock, opens a socket, measures, or computes a statistic: verdicts and their sentences arrive
//! ready.

mod chart;
pub mod ci;
pub mod csv;
pub mod data;
pub mod doctor_view;
mod experiment;
mod figures;
pub mod folder;
pub mod html;
mod load_times;
mod load_view;
pub mod markdown;
pub mod openmetrics;
pub mod pdf;
mod report_view;
pub mod runs_markdown;
mod runs_view;
pub mod stored;
pub mod svg;
pub mod table;
pub mod text;
mod timeline;
mod verdict_view;

pub use experiment::{Experiment, Trial};
pub use load_times::PERCENTILES;
pub use prony_record::number;
pub use runs_view::regressions;
pub use timeline::timeline;
