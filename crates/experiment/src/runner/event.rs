//! Events of a running experiment.

use std::sync::Arc;
use std::time::Duration;

use prony_load::Control;
use prony_record::LoadInfo;
use prony_stats::{InterimEstimate, TrialMode, VerdictDocument};

use super::sampling::LatestSample;
use super::{SliceResult, TrialResult};
use crate::capacity::ProbeReport;

/// One variant's load in an interleaved block.
#[derive(Debug)]
pub struct InterleavedLoad<'a> {
    /// Index of the variant in the plan.
    pub variant: usize,
    /// Id of the variant.
    pub id: &'a str,
    /// Description of the load.
    pub info: &'a LoadInfo,
    /// Progress of the load, and a way to stop it.
    pub control: &'a Arc<Control>,
}

/// An event of a running experiment. The listener composes the text for the user.
#[derive(Debug)]
pub enum ExperimentEvent<'a> {
    /// It was decided if trials are interleaved. If this event occurs, it is the first one.
    Mode {
        /// The choice, with its reason.
        mode: &'a TrialMode,
    },
    /// An earlier run of the experiment was loaded.
    Resumed {
        /// Number of its complete blocks.
        blocks: u32,
        /// Mean length of the loads of a block.
        block_time: Option<Duration>,
    },
    /// The pre-check, which starts each variant once before the first block, starts a variant.
    Checking {
        /// Index of the variant in the plan.
        position: usize,
        /// Number of variants.
        variants: usize,
        /// Id of the variant.
        id: &'a str,
    },
    /// A trial began.
    TrialBegan {
        /// Block, from 1.
        block: u32,
        /// Position within the block, from 0.
        position: usize,
        /// Number of variants.
        variants: usize,
        /// Id of the variant.
        id: &'a str,
    },
    /// A service is starting.
    Starting {
        /// Name of the service.
        service: &'a str,
    },
    /// The load began.
    Loading {
        /// Planned length, including the warm-up.
        planned: Duration,
        /// Description of the load.
        info: &'a LoadInfo,
        /// Progress of the load, and a way to stop it.
        control: &'a Arc<Control>,
        /// Agents that generate the load, as named in the plan. `control` then has no progress.
        agents: Option<&'a str>,
        /// Latest telemetry of the services.
        latest: &'a Arc<LatestSample>,
    },
    /// A probe of a capacity search ended. Each probe begins with [`ExperimentEvent::Loading`].
    Probed {
        /// Result of the probe.
        probe: &'a ProbeReport,
        /// Highest rate that met the goals so far, and lowest that did not, in requests per second.
        bracket: (Option<f64>, Option<f64>),
    },
    /// An interleaved block began.
    InterleavedBlockBegan {
        /// Block, from 1.
        block: u32,
    },
    /// The loads of an interleaved block began.
    Interleaving {
        /// The variants' loads, in the order of their warm-ups.
        loads: &'a [InterleavedLoad<'a>],
        /// Planned length of all loads together, including the warm-ups.
        planned: Duration,
        /// Latest telemetry of all services.
        latest: &'a Arc<LatestSample>,
    },
    /// The rounds of an interleaved block began.
    RoundsBegan {
        /// Length of a slice.
        slice: Duration,
        /// Number of rounds.
        rounds: u32,
    },
    /// A round of an interleaved block ended.
    RoundEnded {
        /// Round, from 0.
        round: u32,
        /// The slices of this round, with the indexes of their variants in the plan.
        slices: &'a [(usize, SliceResult)],
    },
    /// The load ended, and the services are being stopped.
    Loaded,
    /// The trial ended and was stored.
    TrialEnded {
        /// Id of the variant.
        id: &'a str,
        /// Result of the trial.
        result: &'a TrialResult,
    },
    /// A block ended.
    BlockEnded {
        /// Block, from 1.
        block: u32,
        /// Interim estimates. Verdicts come with [`ExperimentEvent::Looked`].
        glances: &'a [InterimEstimate],
    },
    /// A look ended.
    Looked {
        /// Verdicts so far.
        document: &'a VerdictDocument,
        /// Number of blocks at the next look; `None` after the last one.
        next: Option<u32>,
    },
}
