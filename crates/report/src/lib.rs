//! Reports: stored results in; text, Markdown, CSV, JSON, HTML and SVG out.
//!
//! A [`Document`] is built from a [`Record`](prony_record::Record), an [`Experiment`] or two
//! compared runs. [`text`], [`markdown`], [`html`] and [`svg`] render it. [`csv`],
//! [`data`], [`metrics`] and [`ci`] write the same results for programs.
//!
//! Every output depends only on stored data, so the same folder always gives the same output. Only
//! [`folder`] and [`stored`] read files. This crate reads no clock, opens no socket, measures
//! nothing, and computes no statistics: stored results already contain the verdicts and the
//! sentences about single comparisons.

mod call_tree;
mod captions;
mod chart;
pub mod ci;
pub mod csv;
pub mod data;
pub mod doctor;
mod document;
mod environment;
mod experiment;
mod figures;
pub mod folder;
pub mod hdr;
pub mod html;
pub mod markdown;
mod method;
pub mod metrics;
mod reports;
pub mod stored;
pub mod svg;
pub mod table;
mod tables;
pub mod text;
mod timeline;

pub use document::Document;
pub use environment::machine_name;
pub use experiment::{
    Experiment, ProbeReading, Trial, TrialProbe, TrialProfile, TrialSearch, TrialSlice,
};
pub use figures::collapsed_stacks;
pub use prony_record::number;
pub use prony_wording::runs::regressions;
pub use tables::entries::worst_entries;
pub use tables::times::PERCENTILES;
pub use timeline::timeline;
