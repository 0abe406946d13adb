//! What an experiment tells while it runs.

use std::sync::Arc;
use std::time::Duration;

use prony_load::Control;
use prony_record::LoadInfo;
use prony_stats::{InterimEstimate, VerdictDocument};

use super::TrialResult;
use crate::telemetry::LatestSample;

/// Something that happened. Texts for people are the listener's business.
#[derive(Debug)]
pub enum Event<'a> {
    /// An earlier part of the same experiment was read back.
    Resumed {
        /// Its complete blocks.
        blocks: u32,
    },
    /// The pre-check starts a variant: before the first block each of them is started once.
    Checking {
        /// Its place in the plan, from 0.
        position: usize,
        /// How many variants are checked.
        variants: usize,
        /// The variant.
        id: &'a str,
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
    /// The load begins.
    Loading {
        /// Warm-up and measurement.
        planned: Duration,
        /// What it is.
        info: &'a LoadInfo,
        /// A handle on it, for whoever watches.
        control: &'a Arc<Control>,
        /// The agents that are asked to make it, as the plan names them; the handle then only stops it.
        agents: Option<&'a str>,
        /// What its services use meanwhile.
        latest: &'a Arc<LatestSample>,
    },
    /// The load is over; its services are looked at and stopped.
    Loaded,
    /// The trial ended and is stored.
    TrialEnded {
        /// The variant.
        id: &'a str,
        /// What it gave.
        result: &'a TrialResult,
    },
    /// A block is complete.
    BlockEnded {
        /// Which, from 1.
        block: u32,
        /// What the blocks so far look like; verdicts come with [`Event::Looked`].
        glances: &'a [InterimEstimate],
    },
    /// Verdicts were sought.
    Looked {
        /// What they are so far.
        document: &'a VerdictDocument,
        /// The number of blocks after which they are sought again; none if this was the last time.
        next: Option<u32>,
    },
}
