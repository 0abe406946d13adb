//! Events of a running experiment.

use std::sync::Arc;
use std::time::Duration;

use prony_load::Control;
use prony_record::{Finding, LoadInfo};
use prony_stats::capacity::ProbeReport;
use prony_stats::{InterimEstimate, TrialMode, VerdictDocument};

use super::sampling::LatestSample;
use super::{SliceResult, TrialResult};

/// Load of one variant in an interleaved block.
#[derive(Debug)]
pub struct InterleavedLoad<'a> {
    /// Index of the variant in the plan.
    pub variant: usize,
    /// ID of the variant.
    pub id: &'a str,
    /// Description of the load.
    pub info: &'a LoadInfo,
    /// Control that reports the load's progress and can stop it.
    pub control: &'a Arc<Control>,
}

/// Expected number of blocks and duration of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Number of variants. Each variant runs once in a block.
    pub variants: usize,
    /// Minimum and maximum number of blocks.
    pub blocks: (u32, u32),
    /// Minimum and maximum duration of the experiment; `None` if the time of a block is unknown.
    pub time: Option<(Duration, Duration)>,
    /// Time budget of the experiment; `None` if there is none.
    pub budget: Option<Duration>,
}

impl Forecast {
    /// Returns the maximum time of the experiment; `None` if unknown.
    pub fn time_max(&self) -> Option<Duration> {
        self.time.map(|(_, most)| most).or(self.budget)
    }
}

/// An event of a running experiment. The listener composes the messages for the user.
#[derive(Debug)]
pub enum ExperimentEvent<'a> {
    /// The mode of the trials was chosen, or changed because interleaving failed. The choice is the
    /// first event of a run.
    Mode {
        /// The chosen mode, with its reason.
        mode: &'a TrialMode,
    },
    /// The results of an earlier run were loaded.
    Resumed {
        /// Number of complete blocks in the earlier run.
        blocks: u32,
        /// Mean duration of a block: its loads with their warm-ups, and the starts of services if
        /// the pre-check measured them.
        block_time: Option<Duration>,
    },
    /// The pre-check is starting a variant. It starts each variant once before the first block.
    Checking {
        /// Index of the variant in the plan.
        position: usize,
        /// Number of variants.
        variants: usize,
        /// ID of the variant.
        id: &'a str,
    },
    /// The pre-check found that variants can't get a verdict. They are left out.
    RuledOut {
        /// Indexes of these variants in the plan. If it has all of them, no block runs.
        variants: &'a [usize],
        /// Reasons.
        findings: &'a [&'a Finding],
    },
    /// The pre-check ended.
    Checked {
        /// Forecast of the blocks that follow, with the measured overhead of their trials.
        forecast: &'a Forecast,
        /// Time to start, check and stop the services of all variants of a block once.
        overhead: Duration,
    },
    /// A trial began.
    TrialBegan {
        /// Block number, from 1.
        block: u32,
        /// Position within the block, from 0.
        position: usize,
        /// Number of variants.
        variants: usize,
        /// ID of the variant.
        id: &'a str,
    },
    /// A service is being started.
    Starting {
        /// Name of the service.
        service: &'a str,
    },
    /// A load began.
    Loading {
        /// Planned duration, including the warm-up.
        planned: Duration,
        /// Description of the load.
        info: &'a LoadInfo,
        /// Control that reports the load's progress and can stop it.
        control: &'a Arc<Control>,
        /// Agents that generate the load, as named in the plan; `control` then reports no progress.
        /// `None` if this machine generates it.
        agents: Option<&'a str>,
        /// Latest telemetry of the services.
        latest: &'a Arc<LatestSample>,
    },
    /// A probe of a capacity search ended. Each probe begins with [`ExperimentEvent::Loading`].
    Probed {
        /// Result of the probe.
        probe: &'a ProbeReport,
        /// Highest rate that met the goals so far, and lowest rate that missed them, in requests
        /// per second.
        bracket: (Option<f64>, Option<f64>),
    },
    /// An interleaved block began.
    InterleavedBlockBegan {
        /// Block number, from 1.
        block: u32,
    },
    /// The loads of an interleaved block began.
    Interleaving {
        /// Loads of the variants, in the order of their warm-ups.
        loads: &'a [InterleavedLoad<'a>],
        /// Planned duration of all loads together, including the warm-ups.
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
        /// Round number, from 0.
        round: u32,
        /// Slices of this round, each with the index of the slice's variant in the plan.
        slices: &'a [(usize, SliceResult)],
    },
    /// The load ended, and the services are being stopped.
    Loaded,
    /// The trial ended and was stored.
    TrialEnded {
        /// ID of the variant.
        id: &'a str,
        /// Result of the trial.
        result: &'a TrialResult,
    },
    /// A block ended.
    BlockEnded {
        /// Block number, from 1.
        block: u32,
        /// Interim estimates. Verdicts follow with [`ExperimentEvent::Looked`].
        estimates: &'a [InterimEstimate],
    },
    /// A look (interim analysis) ended.
    Looked {
        /// Verdicts so far.
        document: &'a VerdictDocument,
        /// Number of blocks at the next look; `None` after the last one.
        next: Option<u32>,
    },
}
