//! What is known of an experiment while it runs: made of its events, drawn by its page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_experiment::runner::{Forecast, Interrupt};
use prony_experiment::telemetry::{HostSample, Latest, Sample};
use prony_stats::{Comparison, Effect, Glance, Metric, Verdict};
use ratatui::Frame;

use super::follower::{Figures, Follower};
use super::{Around, Picture, experiment_page};
use crate::under_way::UnderWay;

/// Trials that ended and are still shown.
const ENDED: usize = 20;
/// What this process's workers are called among those that use CPU.
const GENERATOR: &str = "generator";

/// All that is shown of an experiment.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The plan's name and question.
    pub(crate) title: String,
    /// Blocks at least and at most.
    pub(crate) blocks: (u32, u32),
    /// Variants, each once in a block.
    pub(crate) variants: u32,
    /// Time at least and at most, as was said beforehand.
    pub(crate) time: (Duration, Duration),
    /// How long it has been running.
    pub(crate) elapsed: Duration,
    /// Blocks that an earlier part had completed.
    pub(crate) resumed: u32,
    /// The block under way, from 1.
    pub(crate) block: u32,
    /// Trials that ended in this part.
    pub(crate) trials_ended: u32,
    /// The time until the last of them had ended.
    pub(crate) trials_took: Duration,
    /// The trial under way: its variant, and its place in the block from 1.
    pub(crate) trial: Option<(String, u32)>,
    /// What it does.
    pub(crate) phase: Phase,
    /// The load under way, or the last one.
    pub(crate) load: Option<Figures>,
    /// What services and the machine use.
    pub(crate) cpu: Vec<Cpu>,
    /// Trials that ended, in a line each, the newest last.
    pub(crate) ended: VecDeque<String>,
    /// The comparisons of the family so far.
    pub(crate) comparisons: Vec<Compared>,
    /// Complete blocks that they are made of.
    pub(crate) compared_blocks: u32,
    /// The block after which verdicts are sought next.
    pub(crate) next_look: Option<u32>,
    /// It was asked to end.
    pub(crate) is_stopped: bool,
}

/// What a trial does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between trials.
    #[default]
    Between,
    /// A service is started or waited for.
    Starting(String),
    /// The load runs.
    Loading,
    /// Services are looked at and stopped.
    Stopping,
}

/// What used so much CPU since the last sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cpu {
    /// A service, the generator, or others.
    pub(crate) name: String,
    /// In user mode, percent of one core.
    pub(crate) user_percent: f64,
    /// In the kernel.
    pub(crate) system_percent: f64,
}

/// One comparison of the family.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compared {
    /// The variant and its baseline.
    pub(crate) names: (String, String),
    /// What is compared.
    pub(crate) metric: Metric,
    /// The estimate and its interval.
    pub(crate) effect: Effect,
    /// The verdict of the last look, if there was one.
    pub(crate) verdict: Option<Verdict>,
}

impl State {
    /// An experiment that is about to begin.
    pub(crate) fn new(title: String, forecast: Forecast) -> State {
        State {
            title,
            blocks: forecast.blocks,
            variants: u32::try_from(forecast.variants).unwrap_or(u32::MAX),
            time: forecast.time,
            ..State::default()
        }
    }

    /// A block's estimates; the verdicts stay those of the last look.
    pub(crate) fn glanced(&mut self, block: u32, glances: &[Glance]) {
        let verdicts: Vec<_> = self.comparisons.iter().map(|it| it.verdict).collect();
        let compared = |(number, glance): (usize, &Glance)| Compared {
            names: (glance.name.clone(), glance.against_name.clone()),
            metric: glance.metric,
            effect: glance.effect.clone(),
            verdict: verdicts.get(number).copied().flatten(),
        };
        self.comparisons = glances.iter().enumerate().map(compared).collect();
        self.compared_blocks = block;
    }

    /// A look's verdicts.
    pub(crate) fn looked(&mut self, blocks: u32, comparisons: &[Comparison], next: Option<u32>) {
        let compared = |it: &Comparison| Compared {
            names: (it.name.clone(), it.against_name.clone()),
            metric: it.metric,
            effect: it.effect.clone(),
            verdict: Some(it.verdict),
        };
        self.comparisons = comparisons.iter().map(compared).collect();
        self.compared_blocks = blocks;
        self.next_look = next;
    }

    /// A trial ended.
    pub(crate) fn trial_ended(&mut self, line: String) {
        self.trials_ended += 1;
        self.trials_took = self.elapsed;
        self.ended.push_back(line);
        if self.ended.len() > ENDED {
            self.ended.pop_front();
        }
    }

    /// The time that is left at least and at most, by the trials so far.
    pub(crate) fn left(&self) -> (Duration, Duration) {
        let by_forecast = self.time.1.saturating_sub(self.elapsed);
        if self.trials_ended == 0 {
            return (self.time.0.saturating_sub(self.elapsed), by_forecast);
        }
        let each = self.trials_took / self.trials_ended;
        let into_this_one = self.elapsed.saturating_sub(self.trials_took).min(each);
        let done = self.resumed * self.variants + self.trials_ended;
        let [least, most] = [self.blocks.0, self.blocks.1].map(|blocks| {
            let left = (blocks * self.variants).saturating_sub(done);
            (each * left).saturating_sub(into_this_one)
        });
        // The budget ends what would go on.
        (least, most.min(by_forecast.max(least)))
    }
}

/// What one thread tells and another draws.
#[derive(Debug)]
pub(crate) struct Told {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: State,
    began: Instant,
    follower: Option<Follower>,
    latest: Option<Arc<Latest>>,
    before: Option<Sample>,
    /// Agents make the load: what this process uses is none of it.
    is_by_agents: bool,
}

impl Told {
    pub(crate) fn new(state: State) -> Told {
        Told {
            inner: Mutex::new(Inner {
                state,
                began: Instant::now(),
                follower: None,
                latest: None,
                before: None,
                is_by_agents: false,
            }),
        }
    }

    /// Takes note of something.
    pub(crate) fn note(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock().state);
    }

    /// A load begins, or agents are asked for it; what services use meanwhile is in `latest`.
    pub(crate) fn loading(&self, latest: &Arc<Latest>) {
        let mut inner = self.lock();
        inner.follower = None;
        inner.latest = Some(latest.clone());
        inner.before = None;
        inner.state.phase = Phase::Loading;
    }

    /// What is to be seen of that load.
    pub(crate) fn follow(&self, under_way: UnderWay, planned: Duration) {
        let planned = Some(planned).filter(|planned| !planned.is_zero());
        let mut inner = self.lock();
        inner.is_by_agents = matches!(under_way, UnderWay::ByAgents(_));
        inner.follower = Some(Follower::new(under_way, planned, &[]));
    }

    /// The load is over; its last figures stay.
    pub(crate) fn loaded(&self) {
        let mut inner = self.lock();
        inner.follower = None;
        inner.state.phase = Phase::Stopping;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
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

/// What draws from the notes.
#[derive(Debug)]
pub(crate) struct ExperimentPicture<'a> {
    /// The notes.
    pub(crate) told: &'a Told,
    /// Whether the experiment was asked to end.
    pub(crate) interrupt: &'a Interrupt,
}

impl Picture for ExperimentPicture<'_> {
    fn refresh(&mut self, now: Instant) {
        let mut inner = self.told.lock();
        inner.refresh(now);
        inner.state.is_stopped = self.interrupt.is_stopped();
    }

    fn draw(&self, frame: &mut Frame<'_>, around: &Around<'_>) {
        experiment_page::draw(frame, &self.told.lock().state, around);
    }
}

/// What was used between two samples: by each service, by the generator, and by all others.
fn cpu(before: &Sample, now: &Sample) -> Vec<Cpu> {
    let span = now.t_s - before.t_s;
    if span <= 0.0 {
        return Vec::new();
    }
    let percent = |before: f64, now: f64| ((now - before) / span * 100.0).max(0.0);
    let services = now.services.iter().filter_map(|(name, now)| {
        let before = before.services.get(name)?;
        // The finest source tells no modes; ticks say how to share it out.
        let all = percent(before.cpu_s, now.cpu_s);
        let user = now.cpu_user_s - before.cpu_user_s;
        let system = now.cpu_system_s - before.cpu_system_s;
        let share = if user + system > 0.0 {
            user / (user + system)
        } else {
            1.0
        };
        Some(Cpu {
            name: name.clone(),
            user_percent: all * share,
            system_percent: all * (1.0 - share),
        })
    });
    let of_host = |name: &str, user: fn(&HostSample) -> f64, system: fn(&HostSample) -> f64| Cpu {
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
