//! Every sentence that a report composes about results, in one place.
//!
//! Sentences about single comparisons arrive ready in the stored documents; see `prony_stats`. This
//! module summarizes several of them, describes loads, and holds the captions.

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
