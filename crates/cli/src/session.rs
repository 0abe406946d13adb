//! The session of a command with its user while it runs something: messages, metrics, the live view,
//! and the request to stop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prony_experiment::runner::{Interrupt, RunSettings};
use prony_load::{LoadSpec, NotReady, wait_for_server};
use prony_plan::Plan;
use prony_plan::abort_rules::AbortRules;
use prony_record::{Finding, LoadAbort, Record};

use crate::arguments::{MonitoringArgs, ProgressFlag};
use crate::ending::{Ending, Failure};
use crate::live::follower::LoadFollower;
use crate::live::{self, LiveView};
use crate::load_lines;
use crate::metrics::Metrics;
use crate::precision::WantedPrecision;
use crate::progress::{Progress, ProgressMode};
use crate::running_load::RunningLoad;
use crate::signals::{self, SecondSignal};

/// Function that asks running work to stop.
type StopFn = dyn Fn() + Send + Sync;

/// The session of a command that runs a load, a search or an experiment. A command opens it once,
/// from its arguments, and runs its work through it.
pub(crate) struct Session {
    progress: Arc<Progress>,
    metrics: Option<Metrics>,
    stop: OnceLock<Arc<StopFn>>,
}

/// A load that is about to run, as a session observes it.
pub(crate) struct ObservedLoad<'a> {
    pub(crate) running: RunningLoad,
    /// Length of the load including the warm-up, if known.
    pub(crate) planned: Option<Duration>,
    /// Findings that were made before the start.
    pub(crate) forecast: &'a [Finding],
    /// The conditions that end the load early.
    pub(crate) abort_rules: Option<&'a AbortRules>,
    /// The precision at which the load ends early.
    pub(crate) precision: Option<WantedPrecision<'a>>,
    /// Function that ends the load when one of these conditions holds.
    pub(crate) abort: &'a (dyn Fn(&LoadAbort) + Sync),
}

/// End of a load that was observed.
pub(crate) struct LoadEnd<T> {
    pub(crate) result: T,
    /// The condition that ended the load, if any.
    pub(crate) aborted: Option<LoadAbort>,
    /// Number of half seconds after which the precision was reached; `None` if it was not.
    pub(crate) precise_after: Option<usize>,
}

impl Session {
    /// Opens a session without monitoring.
    pub(crate) fn open(flag: ProgressFlag) -> Result<Session, Failure> {
        Self::monitored(flag, &MonitoringArgs::default())
    }

    /// Opens a session that shows its loads to other programs, as `monitoring` says.
    pub(crate) fn monitored(
        flag: ProgressFlag,
        monitoring: &MonitoringArgs,
    ) -> Result<Session, Failure> {
        let progress = Arc::new(Progress::new(flag));
        Ok(Session {
            metrics: Metrics::open(monitoring, &progress)?,
            progress,
            stop: OnceLock::new(),
        })
    }

    /// Labels the metrics of an experiment's loads with their variants.
    pub(crate) fn label_variants(&mut self, plan: &Plan, settings: &RunSettings) {
        if let Some(metrics) = &mut self.metrics {
            metrics.label_variants(plan, settings);
        }
    }

    /// Returns the output for progress lines and warnings.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Returns the served metrics.
    pub(crate) fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_ref()
    }

    /// Sends the final results of a load to the dashboard and to monitoring systems.
    pub(crate) fn end_load(&self, record: &Record) {
        if let Some(metrics) = &self.metrics {
            metrics.end_load(record);
        }
    }

    /// Returns true if the live view or the metrics show interim results of loads. Merging them
    /// takes time, so a load publishes them only if something shows them.
    pub(crate) fn shows_loads(&self) -> bool {
        self.metrics.is_some() || self.has_view()
    }

    /// Returns true if progress is shown as a live view.
    pub(crate) fn has_view(&self) -> bool {
        self.progress.mode() == ProgressMode::View
    }

    /// Calls `stop` when a signal asks the program to exit, and when the user presses the stop key
    /// of the live view. Must be called at most once.
    pub(crate) fn on_stop(
        &self,
        second: SecondSignal,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        let stop = self.stop.get_or_init(|| Arc::new(stop)).clone();
        signals::listen(second, move || stop())
    }

    /// Creates the interrupt of an experiment, which signals and the live view trigger.
    pub(crate) fn interrupt_experiment(&self) -> Result<Arc<Interrupt>, Failure> {
        let interrupt = Arc::new(Interrupt::default());
        let (stopping, progress) = (interrupt.clone(), self.progress.clone());
        self.on_stop(SecondSignal::AsksAgain, move || {
            progress.warn(if !stopping.is_stopped() {
                "interrupted; stopping the services and cleaning up"
            } else {
                "still cleaning up"
            });
            stopping.stop();
        })?;
        Ok(interrupt)
    }

    /// Waits for up to `limit` until the servers of a load accept connections. If they don't,
    /// prints the reason and returns the outcome of the command as an error.
    pub(crate) fn wait_for_server(
        &self,
        spec: &LoadSpec,
        limit: Option<Duration>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), Ending> {
        let Some(limit) = limit else { return Ok(()) };
        let report = |text: &str| self.progress.line(&format!("prony: {text}"));
        wait_for_server(spec, limit, is_stopped, &report).map_err(|error| match error {
            NotReady::Stopped => Ending::Interrupted,
            error => {
                self.progress.warn(error);
                Ending::Doubtful
            }
        })
    }

    /// Runs `work`, and shows `view` at the same time if progress is shown as a live view.
    pub(crate) fn observe<T>(
        &self,
        view: &mut (dyn LiveView + Send),
        work: impl FnOnce() -> T,
    ) -> T {
        let stop = || {
            if let Some(stop) = self.stop.get() {
                stop();
            }
        };
        live::with_view(&self.progress, view, &stop, work)
    }

    /// Runs a load by calling `work`, shows its progress and ends it when an abort condition holds or
    /// its precision is reached.
    pub(crate) fn observe_load<T>(
        &self,
        load: ObservedLoad<'_>,
        work: impl FnOnce() -> T,
    ) -> LoadEnd<T> {
        let ObservedLoad {
            running,
            planned,
            forecast,
            abort_rules,
            precision,
            abort,
        } = load;
        if let Some(metrics) = &self.metrics {
            metrics.running(running.clone());
        }
        let shown = || match self.progress.mode() {
            ProgressMode::View => {
                let mut follower = LoadFollower::new(running.clone(), planned, forecast);
                self.observe(&mut follower, work)
            }
            ProgressMode::Lines => {
                load_lines::with_progress_lines(&running, planned, &self.progress, work)
            }
            ProgressMode::Nothing => work(),
        };
        let watched = || match precision {
            None => (shown(), None),
            Some(precision) => precision.watch(&running, &self.progress, shown),
        };
        let ((result, precise_after), aborted) = match abort_rules {
            None => (watched(), None),
            Some(rules) => {
                running.publish();
                prony_experiment::abort::watch(rules, &running, abort, watched)
            }
        };
        LoadEnd {
            result,
            aborted,
            precise_after,
        }
    }
}
