//! The figures of a running experiment that its live view shows.

use std::collections::VecDeque;
use std::time::Duration;

use prony_experiment::runner::Forecast;
use prony_stats::{Comparison, Effect, InterimEstimate, Metric, Verdict};

use super::follower::LoadFigures;
use super::rounds::Rounds;

/// The most ended trials that are shown.
const ENDED_TRIALS_MAX: usize = 20;

/// The figures of an experiment that the view shows.
#[derive(Debug, Default)]
pub(crate) struct ExperimentState {
    /// The plan's name and question.
    pub(crate) title: String,
    /// The least and the greatest number of blocks.
    pub(crate) blocks: (u32, u32),
    /// The number of variants.
    pub(crate) variants: u32,
    /// Least and greatest time by the forecast; `None` if that was unknown.
    pub(crate) time: Option<(Duration, Duration)>,
    /// Time budget, if there is one.
    pub(crate) budget: Option<Duration>,
    /// Time since the start.
    pub(crate) elapsed: Duration,
    /// Blocks completed before the experiment was resumed.
    pub(crate) resumed: u32,
    /// Mean time of the trials in those blocks.
    pub(crate) earlier_trial: Option<Duration>,
    /// The current block, from 1.
    pub(crate) block: u32,
    /// Trials that ended since the start or resumption.
    pub(crate) trials_ended: u32,
    /// The time until the last of them ended.
    pub(crate) trials_took: Duration,
    /// The current trial: its variant, and its position in the block from 1.
    pub(crate) trial: Option<(String, u32)>,
    /// The phase of the current trial.
    pub(crate) phase: TrialPhase,
    /// The current load, or the last one.
    pub(crate) load: Option<LoadFigures>,
    /// The rounds of the current block, or the last one, if blocks are interleaved.
    pub(crate) rounds: Option<Rounds>,
    /// CPU use of the services and the machine.
    pub(crate) cpu: Vec<CpuUse>,
    /// A line for each ended trial, the newest last.
    pub(crate) ended: VecDeque<String>,
    /// The comparisons of the family so far.
    pub(crate) comparisons: Vec<ComparisonRow>,
    /// The number of blocks that they cover.
    pub(crate) compared_blocks: u32,
    /// The block after which the next look takes place.
    pub(crate) next_look: Option<u32>,
    /// The experiment was asked to stop.
    pub(crate) is_stopped: bool,
}

/// The phase of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum TrialPhase {
    /// Between trials.
    #[default]
    Between,
    /// A service starts.
    Starting(String),
    /// The load runs.
    Loading,
    /// Services are inspected and stopped.
    Stopping,
}

/// CPU use since the last sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CpuUse {
    /// A service, the generator, or other processes.
    pub(crate) name: String,
    /// In user mode, percent of one core.
    pub(crate) user_percent: f64,
    /// In the kernel.
    pub(crate) system_percent: f64,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComparisonRow {
    /// The variant and its baseline.
    pub(crate) names: (String, String),
    /// The metric.
    pub(crate) metric: Metric,
    /// The estimate and its interval.
    pub(crate) effect: Effect,
    /// The verdict of the last look, if there was one.
    pub(crate) verdict: Option<Verdict>,
}

impl ExperimentState {
    /// An experiment before its start.
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

    /// Takes over the blocks of an earlier run, and their mean time.
    pub(crate) fn resume(&mut self, blocks: u32, block_time: Option<Duration>) {
        self.resumed = blocks;
        self.earlier_trial = block_time.map(|time| time / self.variants.max(1));
    }

    /// Stores a block's estimates; the verdicts stay those of the last look.
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

    /// Takes a look's verdicts.
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

    /// Adds the line of an ended probe to the list, which also contains ended trials.
    pub(crate) fn probe_ended(&mut self, line: String) {
        self.list_ended(line);
    }

    /// Takes the line of an ended trial.
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

    /// Least and greatest time that is left: by the trials so far, or by the forecast before the first
    /// one has ended. `None` if neither is known.
    pub(crate) fn left(&self) -> Option<(Duration, Duration)> {
        let left_of = |time: Duration| time.saturating_sub(self.elapsed);
        let measured = match self.trials_ended {
            0 => self.earlier_trial,
            ended => Some(self.trials_took / ended),
        };
        let Some(each) = measured else {
            return self
                .time
                .map(|(least, most)| (left_of(least), left_of(most)));
        };
        // The trials of an interleaved block end together.
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
