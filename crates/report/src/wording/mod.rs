//! The sentences about results that reports compose themselves.
//!
//! Stored documents already contain the sentences about single comparisons; see `prony_stats`. This
//! module summarizes several of them, describes loads, and contains the captions.

pub(crate) mod captions;
pub(crate) mod entries;
pub(crate) mod experiment;
pub(crate) mod load;
pub(crate) mod runs;
pub(crate) mod scaling;
pub(crate) mod verdict;
mod verdict_lines;
mod verdict_word;
pub(crate) mod why;
