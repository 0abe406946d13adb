//! The live view of a running experiment, and the state that it shares with the thread that runs
//! the experiment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_experiment::runner::{Interrupt, LatestSample};
use prony_machine::telemetry::{HostSample, TelemetrySample};
use ratatui::Frame;

use super::experiment_state::{CpuUse, ExperimentState, TrialPhase};
use super::follower::LoadFollower;
use super::{LiveView, ViewContext, experiment_page};
use crate::running_load::RunningLoad;

/// Label of this process in the list of CPU usage.
const GENERATOR: &str = "generator";

/// State of an experiment, shared between the thread that runs it and the thread that draws it.
#[derive(Debug)]
pub(crate) struct ExperimentNotes {
    inner: Mutex<NotesInner>,
}

#[derive(Debug)]
struct NotesInner {
    state: ExperimentState,
    began: Instant,
    follower: Option<LoadFollower>,
    latest: Option<Arc<LatestSample>>,
    before: Option<TelemetrySample>,
    /// True if agents send the load, so that this process is not the load generator.
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

    /// Applies `change` to the state, under its lock.
    pub(crate) fn note(&self, change: impl FnOnce(&mut ExperimentState)) {
        change(&mut self.lock().state);
    }

    /// Records the start of a load, in this process or on agents. `latest` provides the CPU usage
    /// of the services.
    pub(crate) fn loading(&self, latest: &Arc<LatestSample>) {
        let mut inner = self.lock();
        inner.follower = None;
        inner.latest = Some(latest.clone());
        inner.before = None;
        inner.state.phase = TrialPhase::Loading;
    }

    /// Follows the load that was reported by [`Self::loading`].
    pub(crate) fn follow(&self, running_load: RunningLoad, planned: Duration) {
        let planned = Some(planned).filter(|planned| !planned.is_zero());
        let mut inner = self.lock();
        inner.is_by_agents = matches!(running_load, RunningLoad::ByAgents(_));
        inner.follower = Some(LoadFollower::new(running_load, planned, &[]));
    }

    /// Marks the load as ended, but keeps showing its last figures.
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
                self.state.cpu = cpu_uses(before, &newest);
                let is_by_agents = self.is_by_agents;
                self.state
                    .cpu
                    .retain(|it| !is_by_agents || it.name != GENERATOR);
                if let Some(rounds) = &self.state.rounds {
                    for of_service in &mut self.state.cpu {
                        if let Some(name) = rounds.service_name(&of_service.name) {
                            of_service.name = name;
                        }
                    }
                }
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
    /// Set when the user asks to stop the experiment.
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

/// Computes the CPU usage between two samples: of each service, of the generator, and of all other
/// processes.
fn cpu_uses(before: &TelemetrySample, now: &TelemetrySample) -> Vec<CpuUse> {
    let span = now.t_s - before.t_s;
    if span <= 0.0 {
        return Vec::new();
    }
    let percent = |before: f64, now: f64| ((now - before) / span * 100.0).max(0.0);
    let services = now.services.iter().filter_map(|(name, now)| {
        let before = before.services.get(name)?;
        // The most precise source doesn't distinguish user and kernel time, so the ticks determine
        // the proportion.
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
