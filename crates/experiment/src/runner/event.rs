//! What an experiment tells while it runs.

use std::time::Duration;

use prony_stats::VerdictDocument;

use super::TrialResult;

/// Something that happened. Texts for people are the listener's business.
#[derive(Debug)]
pub enum Event<'a> {
    /// An earlier part of the same experiment was read back.
    Resumed {
        /// Its complete blocks.
        blocks: u32,
    },
    /// A trial begins.
    TrialBegan {
        /// Its block, from 1.
        block: u32,
        /// Its place in the block, from 0.
        position: usize,
        /// How many variants the block has.
        variants: usize,
        /// The variant.
        id: &'a str,
    },
    /// A service is being started or waited for.
    Starting {
        /// The service.
        service: &'a str,
    },
    /// The load runs, for so long.
    Loading {
        /// Warm-up and measurement.
        planned: Duration,
    },
    /// The trial ended and is stored.
    TrialEnded {
        /// The variant.
        id: &'a str,
        /// What it gave.
        result: &'a TrialResult,
    },
    /// Verdicts were sought.
    Looked {
        /// What they are so far.
        document: &'a VerdictDocument,
        /// The number of blocks after which they are sought again; none if this was the last time.
        next: Option<u32>,
    },
}
