//! The state of a running experiment, collected from its events for the live view.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_experiment::runner::{Forecast, Interrupt, LatestSample};
use prony_experiment::telemetry::{HostSample, TelemetrySample};
use prony_stats::{Comparison, Effect, InterimEstimate, Metric, Verdict};
use ratatui::Frame;

use super::follower::{Follower, LoadFigures};
use super::{LiveView, ViewContext, experiment_page};
use crate::running_load::RunningLoad;

/// The most ended trials that are shown.
const ENDED_TRIALS_MAX: usize = 20;
/// The name of this process's workers among those that use CPU.
const GENERATOR: &str = "generator";

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

    /// Takes a block's estimates; the verdicts stay those of the last look.
    pub(crate) fn take_estimates(&mut self, block: u32, glances: &[InterimEstimate]) {
        let verdicts: Vec<_> = self.comparisons.iter().map(|it| it.verdict).collect();
        let compared = |(number, glance): (usize, &InterimEstimate)| ComparisonRow {
            names: (glance.name.clone(), glance.against_name.clone()),
            metric: glance.metric,
            effect: glance.effect.clone(),
            verdict: verdicts.get(number).copied().flatten(),
        };
        self.comparisons = glances.iter().enumerate().map(compared).collect();
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

    /// Takes the line of an ended trial.
    pub(crate) fn trial_ended(&mut self, line: String) {
        self.trials_ended += 1;
        self.trials_took = self.elapsed;
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
        let into_this_one = self.elapsed.saturating_sub(self.trials_took).min(each);
        let done = self.resumed * self.variants + self.trials_ended;
        let [least, most] = [self.blocks.0, self.blocks.1].map(|blocks| {
            let left = (blocks * self.variants).saturating_sub(done);
            (each * left).saturating_sub(into_this_one)
        });
        let within_budget = self.budget.map_or(Duration::MAX, left_of);
        Some((least, most.min(within_budget.max(least))))
    }
}

/// The state of an experiment, shared by the thread that runs it and the thread that draws it.
#[derive(Debug)]
pub(crate) struct ExperimentNotes {
    inner: Mutex<NotesInner>,
}

#[derive(Debug)]
struct NotesInner {
    state: ExperimentState,
    began: Instant,
    follower: Option<Follower>,
    latest: Option<Arc<LatestSample>>,
    before: Option<TelemetrySample>,
    /// Agents send the load, so this process is not the generator.
    is_by_agents: bool,
}

impl ExperimentNotes {
    pub(crate) fn new(state: ExperimentState) -> ExperimentNotes {
        ExperimentNotes {
            inner: Mutex::new(NotesInner {
                state,
                began: Instant::now(),
                follower: None,
                latest: None,
                before: None,
                is_by_agents: false,
            }),
        }
    }

    /// Changes the state.
    pub(crate) fn note(&self, change: impl FnOnce(&mut ExperimentState)) {
        change(&mut self.lock().state);
    }

    /// A load starts, here or on agents. `latest` has the CPU use of services meanwhile.
    pub(crate) fn loading(&self, latest: &Arc<LatestSample>) {
        let mut inner = self.lock();
        inner.follower = None;
        inner.latest = Some(latest.clone());
        inner.before = None;
        inner.state.phase = TrialPhase::Loading;
    }

    /// Follows that load.
    pub(crate) fn follow(&self, running_load: RunningLoad, planned: Duration) {
        let planned = Some(planned).filter(|planned| !planned.is_zero());
        let mut inner = self.lock();
        inner.is_by_agents = matches!(running_load, RunningLoad::ByAgents(_));
        inner.follower = Some(Follower::new(running_load, planned, &[]));
    }

    /// The load ended; its last figures stay.
    pub(crate) fn loaded(&self) {
        let mut inner = self.lock();
        inner.follower = None;
        inner.state.phase = TrialPhase::Stopping;
    }

    fn lock(&self) -> MutexGuard<'_, NotesInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NotesInner {
    fn refresh(&mut self, now: Instant) {
        self.state.elapsed = now.saturating_duration_since(self.began);
        if let Some(follower) = &mut self.follower {
            follower.refresh(now);
            self.state.load = Some(follower.figures().clone());
        }
        let newest = self.latest.as_ref().and_then(|latest| latest.take());
        if let Some(newest) = newest {
            if let Some(before) = &self.before {
                self.state.cpu = cpu(before, &newest);
                let is_by_agents = self.is_by_agents;
                self.state
                    .cpu
                    .retain(|it| !is_by_agents || it.name != GENERATOR);
            }
            self.before = Some(newest);
        }
    }
}

/// The live view of an experiment.
#[derive(Debug)]
pub(crate) struct ExperimentView<'a> {
    /// The state to draw.
    pub(crate) notes: &'a ExperimentNotes,
    /// Reports that the experiment was asked to stop.
    pub(crate) interrupt: &'a Interrupt,
}

impl LiveView for ExperimentView<'_> {
    fn refresh(&mut self, now: Instant) {
        let mut inner = self.notes.lock();
        inner.refresh(now);
        inner.state.is_stopped = self.interrupt.is_stopped();
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &ViewContext<'_>) {
        experiment_page::draw(frame, &self.notes.lock().state, context);
    }
}

/// CPU use between two samples: of each service, of the generator, and of all other processes.
fn cpu(before: &TelemetrySample, now: &TelemetrySample) -> Vec<CpuUse> {
    let span = now.t_s - before.t_s;
    if span <= 0.0 {
        return Vec::new();
    }
    let percent = |before: f64, now: f64| ((now - before) / span * 100.0).max(0.0);
    let services = now.services.iter().filter_map(|(name, now)| {
        let before = before.services.get(name)?;
        // The most precise source has no modes, so ticks divide it.
        let all = percent(before.cpu_s, now.cpu_s);
        let user = now.cpu_user_s - before.cpu_user_s;
        let system = now.cpu_system_s - before.cpu_system_s;
        let share = if user + system > 0.0 {
            user / (user + system)
        } else {
            1.0
        };
        Some(CpuUse {
            name: name.clone(),
            user_percent: all * share,
            system_percent: all * (1.0 - share),
        })
    });
    let of_host =
        |name: &str, user: fn(&HostSample) -> f64, system: fn(&HostSample) -> f64| CpuUse {
            name: name.to_owned(),
            user_percent: percent(user(&before.host), user(&now.host)),
            system_percent: percent(system(&before.host), system(&now.host)),
        };
    let generator = of_host(
        GENERATOR,
        |it| it.generator_user_s,
        |it| it.generator_system_s,
    );
    let others = of_host("others", |it| it.foreign_cpu_s, |_| 0.0);
    services.chain([generator, others]).collect()
}
