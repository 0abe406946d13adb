//! Sentences about results: comparisons, explanations, capacities, and conditions in words.
//!
//! Input: what `prony-stats` found, and names. Output: text, usually without a final period, in the
//! fields named `text` of its documents. This is the last step before a document is stored or
//! printed. No code decides anything by these texts. The sentences of findings are in
//! `prony-record`, next to their rows, and those of error messages next to their errors.

pub mod bisection;
pub mod capacity;
mod change;
mod comparisons;
pub mod conditions;
mod distributions;
mod effects;
pub mod entries;
mod functions;
mod gates;
pub mod history;
pub mod limits;
pub mod load;
mod rounds;
pub mod run_intervals;
pub mod runs;
pub mod scaling;
mod statement;
mod tone;
pub mod verdict;
mod verdict_lines;
mod verdict_word;
pub mod why;

pub use change::Change;
pub use comparisons::{
    Claim, claim, compose_evaluation, moved_noun, movement, undecided_cost, withheld_reason,
};
pub use distributions::compose_distributions;
pub use functions::changed_function;
pub use gates::gate_results;
pub use rounds::compose_rounds;
pub use tone::Tone;
pub use verdict_lines::VerdictLine;
