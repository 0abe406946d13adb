//! Tests of sentences. Each kind of sentence is quoted here, and nowhere else.

mod capacity;
mod comparisons;
mod conditions;
mod effects;
mod gates;
mod runs;
