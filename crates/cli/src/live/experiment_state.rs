//! The data that the live view of an experiment shows.

use std::collections::VecDeque;
use std::time::Duration;

use prony_experiment::runner::Forecast;
use prony_stats::{Comparison, Effect, InterimEstimate, Metric, Verdict};

use super::follower::LoadFigures;
use super::rounds::Rounds;

/// Maximum number of finished trials that are shown.
const ENDED_TRIALS_MAX: usize = 20;

/// The data that the live view of an experiment shows.
#[derive(Debug, Default)]
pub(crate) struct ExperimentState {
    /// Name and question of the plan.
    pub(crate) title: String,
    /// Minimum and maximum number of blocks.
    pub(crate) blocks: (u32, u32),
    pub(crate) variants: u32,
    /// Forecast minimum and maximum time of the experiment, or `None` if unknown.
    pub(crate) time: Option<(Duration, Duration)>,
    /// Maximum time of the experiment, if it has a budget.
    pub(crate) budget: Option<Duration>,
    /// Time since the start or resumption.
    pub(crate) elapsed: Duration,
    /// Blocks completed before the experiment was resumed.
    pub(crate) resumed: u32,
    /// Mean duration of a trial in the blocks completed before the resumption.
    pub(crate) earlier_trial: Option<Duration>,
    /// The current block, from 1.
    pub(crate) block: u32,
    /// Number of trials that have ended since the start or resumption.
    pub(crate) trials_ended: u32,
    /// Time that the pre-check took.
    pub(crate) checked: Duration,
    /// Time from the start or resumption to the end of the last trial.
    pub(crate) trials_took: Duration,
    /// Variant of the current trial, and the trial's position in its block, from 1.
    pub(crate) trial: Option<(String, u32)>,
    /// The phase of the current trial.
    pub(crate) phase: TrialPhase,
    /// Load of the current trial, or of the last one.
    pub(crate) load: Option<LoadFigures>,
    /// Rounds of the current block or, between blocks, of the last one. `None` if blocks aren't
    /// interleaved.
    pub(crate) rounds: Option<Rounds>,
    /// CPU usage of the services and the machine.
    pub(crate) cpu: Vec<CpuUse>,
    /// One line for each finished trial, the newest last.
    pub(crate) ended: VecDeque<String>,
    /// The comparisons so far.
    pub(crate) comparisons: Vec<ComparisonRow>,
    /// Number of blocks that the comparisons include.
    pub(crate) compared_blocks: u32,
    /// Block after which the next look takes place.
    pub(crate) next_look: Option<u32>,
    /// True if the user asked to stop the experiment.
    pub(crate) is_stopped: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum TrialPhase {
    /// No trial is in progress.
    #[default]
    Between,
    /// The named service is starting.
    Starting(String),
    /// The load is running.
    Loading,
    /// The services are being inspected and stopped.
    Stopping,
}

/// CPU usage since the last sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CpuUse {
    /// A service, the generator, or other processes.
    pub(crate) name: String,
    /// CPU time in user mode, in percent of one core.
    pub(crate) user_percent: f64,
    /// CPU time in the kernel, in percent of one core.
    pub(crate) system_percent: f64,
}

/// A row in the table of comparisons.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComparisonRow {
    /// Names of the variant and of its baseline.
    pub(crate) names: (String, String),
    pub(crate) metric: Metric,
    /// The estimated ratio and its interval.
    pub(crate) effect: Effect,
    /// Verdict at the last look, or `None` before the first.
    pub(crate) verdict: Option<Verdict>,
}

impl ExperimentState {
    /// Creates the state before the start of an experiment.
    pub(crate) fn new(title: String, forecast: Forecast) -> ExperimentState {
        ExperimentState {
            title,
            blocks: forecast.blocks,
            variants: u32::try_from(forecast.variants).unwrap_or(u32::MAX),
            time: forecast.time,
            budget: forecast.budget,
            ..ExperimentState::default()
        }
    }

    /// Replaces the forecast when the pre-check has ended.
    pub(crate) fn check_ended(&mut self, forecast: &Forecast) {
        self.checked = self.elapsed;
        self.variants = u32::try_from(forecast.variants).unwrap_or(u32::MAX);
        let from_start = |time: Duration| time.saturating_add(self.elapsed);
        self.time = (forecast.time).map(|(least, most)| (from_start(least), from_start(most)));
    }

    /// Stores the number of blocks that were complete before a resumption, and the mean duration of
    /// such a block.
    pub(crate) fn resume(&mut self, blocks: u32, block_time: Option<Duration>) {
        self.resumed = blocks;
        self.earlier_trial = block_time.map(|time| time / self.variants.max(1));
    }

    /// Stores the estimates after a block. The verdicts of the last look stay unchanged.
    pub(crate) fn take_estimates(&mut self, block: u32, estimates: &[InterimEstimate]) {
        let verdicts: Vec<_> = self.comparisons.iter().map(|it| it.verdict).collect();
        let compared = |(number, estimate): (usize, &InterimEstimate)| ComparisonRow {
            names: (estimate.name.clone(), estimate.against_name.clone()),
            metric: estimate.metric,
            effect: estimate.effect.clone(),
            verdict: verdicts.get(number).copied().flatten(),
        };
        self.comparisons = estimates.iter().enumerate().map(compared).collect();
        self.compared_blocks = block;
    }

    /// Stores the verdicts of a look.
    pub(crate) fn take_look(&mut self, blocks: u32, comparisons: &[Comparison], next: Option<u32>) {
        let compared = |it: &Comparison| ComparisonRow {
            names: (it.name.clone(), it.against_name.clone()),
            metric: it.metric,
            effect: it.effect.clone(),
            verdict: Some(it.verdict),
        };
        self.comparisons = comparisons.iter().map(compared).collect();
        self.compared_blocks = blocks;
        self.next_look = next;
    }

    /// Adds the line of a finished probe to the list of trials.
    pub(crate) fn probe_ended(&mut self, line: String) {
        self.list_ended(line);
    }

    /// Adds the line of a finished trial.
    pub(crate) fn trial_ended(&mut self, line: String) {
        self.trials_ended += 1;
        self.trials_took = self.elapsed;
        self.list_ended(line);
    }

    fn list_ended(&mut self, line: String) {
        self.ended.push_back(line);
        if self.ended.len() > ENDED_TRIALS_MAX {
            self.ended.pop_front();
        }
    }

    /// Estimates the minimum and maximum remaining time, from the finished trials or, before the
    /// first block has ended, from the forecast. Returns `None` if neither is available.
    pub(crate) fn left(&self) -> Option<(Duration, Duration)> {
        let left_of = |time: Duration| time.saturating_sub(self.elapsed);
        let measured = match self.trials_ended {
            0 => self.earlier_trial,
            // The variants of the first block may differ.
            ended if ended < self.variants && self.resumed == 0 && self.time.is_some() => None,
            ended => Some(self.trials_took.saturating_sub(self.checked) / ended),
        };
        let Some(each) = measured else {
            return self
                .time
                .map(|(least, most)| (left_of(least), left_of(most)));
        };
        // All trials of an interleaved block end at the same time.
        let together = match self.rounds {
            Some(_) => self.variants,
            None => 1,
        };
        let since = self.elapsed.saturating_sub(self.trials_took);
        let into_this_one = since.min(each * together);
        let done = self.resumed * self.variants + self.trials_ended;
        let [least, most] = [self.blocks.0, self.blocks.1].map(|blocks| {
            let left = (blocks * self.variants).saturating_sub(done);
            (each * left).saturating_sub(into_this_one)
        });
        let within_budget = self.budget.map_or(Duration::MAX, left_of);
        Some((least, most.min(within_budget.max(least))))
    }
}
