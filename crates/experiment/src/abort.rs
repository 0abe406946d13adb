//! Conditions that end a load while it runs (`--abort-if`).

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use prony_load::Control;
use prony_record::finding::LoadAborted;
use prony_record::{Delta, Finding, LoadAbort, LoadInfo, Nanos, Record, Severity};
use prony_record::{number, quantity};
use prony_stats::gate::{GateError, LoadCondition};

/// Interval at which the conditions are checked while a load runs. The load publishes its results
/// every half second.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Default length of the window over which conditions are evaluated.
const DEFAULT_WINDOW: Duration = Duration::from_secs(5);
/// Minimum length of the window: the interval at which a load publishes results.
const WINDOW_MIN: Duration = Duration::from_millis(500);

/// A running load that [`AbortRules`] can end.
pub trait AbortableLoad: Sync {
    /// Returns the settings of the load.
    fn info(&self) -> LoadInfo;

    /// Enables [`AbortableLoad::recent`] for a window of the given length. Must be called before
    /// the load starts.
    fn keep_recent(&self, length: Nanos);

    /// Returns the time up to which the published results are complete, measured from the start of
    /// the load. Zero until the load publishes the first results of its measured part.
    fn complete_until(&self) -> Nanos;

    /// Returns the results of the window that ends at `until`; `None` if there are no results.
    fn recent(&self, until: Nanos) -> Option<Delta>;

    /// Returns true if the load has been asked to stop.
    fn is_stopped(&self) -> bool;
}

/// A load that runs in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalLoad<'a> {
    pub(crate) control: &'a Arc<Control>,
    pub(crate) info: &'a LoadInfo,
}

impl AbortableLoad for LocalLoad<'_> {
    fn info(&self) -> LoadInfo {
        self.info.clone()
    }

    fn keep_recent(&self, length: Nanos) {
        self.control.keep_recent(length);
    }

    fn complete_until(&self) -> Nanos {
        self.control.complete_until()
    }

    fn recent(&self, until: Nanos) -> Option<Delta> {
        self.control.recent(until)
    }

    fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }
}

/// The conditions that end a load.
#[derive(Debug, Clone, PartialEq)]
pub struct AbortRules {
    conditions: Vec<LoadCondition>,
    /// Length of the window over which the conditions are evaluated.
    window: Nanos,
}

/// Reason why a set of `--abort-if` conditions is rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum AbortRulesError {
    /// A condition is malformed, or can't be evaluated while a load runs.
    Condition(GateError),
    /// The window is shorter than the interval at which a load publishes results.
    ShortWindow,
}

impl fmt::Display for AbortRulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbortRulesError::Condition(error) => error.fmt(f),
            AbortRulesError::ShortWindow => write!(
                f,
                "at least {} (a load is checked every half second)",
                number::span(WINDOW_MIN.as_secs_f64())
            ),
        }
    }
}

impl std::error::Error for AbortRulesError {}

impl AbortRules {
    /// Parses the conditions and the length of their window (5 s by default). Returns `None` if the
    /// list of conditions is empty.
    ///
    /// # Errors
    ///
    /// A condition is malformed or can't be evaluated while a load runs, or the window is too
    /// short.
    pub fn read(
        conditions: &[String],
        window: Option<Duration>,
    ) -> Result<Option<AbortRules>, AbortRulesError> {
        let window = window.unwrap_or(DEFAULT_WINDOW);
        if window < WINDOW_MIN {
            return Err(AbortRulesError::ShortWindow);
        }
        let conditions = conditions.iter().map(|text| LoadCondition::abort(text));
        let conditions = conditions.collect::<Result<Vec<_>, _>>();
        let conditions = conditions.map_err(AbortRulesError::Condition)?;
        let window = Nanos::from(window);
        Ok((!conditions.is_empty()).then_some(AbortRules { conditions, window }))
    }

    /// Runs a load by calling `work`. If a condition holds, calls `stop` once. Returns the result
    /// of `work` and the condition that ended the load, if any.
    pub fn watch<T>(
        &self,
        load: &dyn AbortableLoad,
        stop: &(dyn Fn(&LoadAbort) + Sync),
        work: impl FnOnce() -> T,
    ) -> (T, Option<LoadAbort>) {
        load.keep_recent(self.window);
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            let watcher = scope.spawn(move || self.wait(load, stop, &is_done));
            let result = work();
            drop(done);
            let aborted = match watcher.join() {
                Ok(aborted) => aborted,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            (result, aborted)
        })
    }

    /// Waits until a condition holds or the sender of `is_done` is dropped.
    fn wait(
        &self,
        load: &dyn AbortableLoad,
        stop: &dyn Fn(&LoadAbort),
        is_done: &Receiver<()>,
    ) -> Option<LoadAbort> {
        let mut judged = Nanos::ZERO;
        while is_done.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let until = load.complete_until();
            if until <= judged || load.is_stopped() {
                continue;
            }
            judged = until;
            if let Some(abort) = self.judge(load, until) {
                stop(&abort);
                return Some(abort);
            }
        }
        None
    }

    /// Returns the first condition that holds in the window that ends at `until`.
    fn judge(&self, load: &dyn AbortableLoad, until: Nanos) -> Option<LoadAbort> {
        let info = load.info();
        let warmup = Nanos::from_secs_f64(info.warmup_s);
        if until.since(warmup) < self.window {
            return None;
        }
        let window = load.recent(until)?;
        let span = window.span?;
        let record = Record::build(info, &window, span, None);
        self.conditions.iter().find_map(|condition| {
            Some(LoadAbort {
                condition: condition.to_string(),
                measured: prony_wording::conditions::failure(condition, &record)?,
                window_s: self.window.as_secs_f64(),
                at_s: until.since(warmup).as_secs_f64(),
            })
        })
    }
}

/// Formats the conditions and the window as flags of `prony load`.
impl fmt::Display for AbortRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.conditions {
            write!(f, "--abort-if '{condition}' ")?;
        }
        let window = quantity::time_text(self.window.into());
        write!(f, "--abort-window {window}")
    }
}

/// Runs a load by calling `work`, and ends the load early if a condition holds.
pub(crate) fn run<E>(
    rules: Option<&AbortRules>,
    load: LocalLoad<'_>,
    work: impl FnOnce() -> Result<Record, E>,
) -> Result<Record, E> {
    let Some(rules) = rules else {
        return work();
    };
    let (record, aborted) = rules.watch(&load, &|_| load.control.stop(), work);
    let mut record = record?;
    note(aborted, &mut record);
    Ok(record)
}

/// Adds the reason for ending the load to the load's record.
pub fn note(abort: Option<LoadAbort>, record: &mut Record) {
    let Some(abort) = abort else {
        return;
    };
    let aborted = LoadAborted {
        abort: abort.clone(),
    };
    record
        .findings
        .push(Finding::of(Severity::Warning, &aborted));
    record.aborted = Some(abort);
}
