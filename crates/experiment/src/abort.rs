//! Conditions that end a load while it runs (`--abort-if`).

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use prony_load::Control;
use prony_record::{Delta, Finding, FindingId, LoadAbort, LoadInfo, Nanos, Record, Severity};
use prony_record::{number, quantity};
use prony_stats::gate::{GateError, LoadCondition};

/// Time between checks of a running load, which publishes its results each half second.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Default length of the window.
const DEFAULT_WINDOW: Duration = Duration::from_secs(5);
/// Minimum length of the window: the time between two publications.
const WINDOW_MIN: Duration = Duration::from_millis(500);

/// A running load that conditions can end.
pub trait AbortableLoad: Sync {
    /// The settings of the load.
    fn info(&self) -> LoadInfo;

    /// Enables [`AbortableLoad::recent`] for a window of this length. Called before the start.
    fn keep_recent(&self, length: Nanos);

    /// The time since the load's start up to which the results are complete; zero before the first
    /// results of the measured part.
    fn complete_until(&self) -> Nanos;

    /// The results of the window that ends at `until`; `None` if there are none.
    fn recent(&self, until: Nanos) -> Option<Delta>;

    /// True if the load was asked to stop.
    fn is_stopped(&self) -> bool;
}

/// A load that this process runs.
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
    /// Length of the window at the end of which the conditions are evaluated.
    window: Nanos,
}

/// Reason for which conditions are rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum AbortRulesError {
    /// A condition is malformed, or can't be evaluated while a load runs.
    Condition(GateError),
    /// The window is shorter than one publication of a load's results.
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
    /// Reads conditions and the length of their window, 5 s by default; `None` without conditions.
    ///
    /// # Errors
    ///
    /// A condition is malformed or can't be evaluated while a load runs, or the window is too short.
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

    /// Runs a load, which is `work`, and calls `stop` once if a condition holds. Returns the same
    /// condition.
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

    /// Waits until a condition holds, or until the sender of `is_done` is dropped.
    fn wait(
        &self,
        load: &dyn AbortableLoad,
        stop: &dyn Fn(&LoadAbort),
        is_done: &Receiver<()>,
    ) -> Option<LoadAbort> {
        let mut judged = Nanos::ZERO;
        while is_done.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
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

    /// The first condition that holds in the window that ends at `until`.
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
                measured: condition.holds(&record)?,
                window_s: self.window.as_secs_f64(),
                at_s: until.since(warmup).as_secs_f64(),
            })
        })
    }
}

/// The conditions and the window, as flags of `prony load`.
impl fmt::Display for AbortRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.conditions {
            write!(f, "--abort-if '{condition}' ")?;
        }
        let window = quantity::time_text(self.window.into());
        write!(f, "--abort-window {window}")
    }
}

/// Runs a load, which is `work`, until its end or until one of the rules ends it.
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

/// Notes in a record that its load was ended.
pub fn note(abort: Option<LoadAbort>, record: &mut Record) {
    let Some(abort) = abort else {
        return;
    };
    let text = format!("{}.", in_words(&abort));
    let text = format!("{text} The results cover the time until then.");
    let finding = Finding::new(FindingId::LoadAborted, Severity::Warning, text);
    record.findings.push(finding);
    record.aborted = Some(abort);
}

/// Sentence with the reason for which a load was ended: `--abort-if p99>50ms ended the load after 12 s:
/// p99 is 61.3 ms over the last 5 s`.
pub fn in_words(abort: &LoadAbort) -> String {
    format!(
        "--abort-if {} ended the load after {}: {} over the last {}",
        abort.condition,
        number::span(abort.at_s),
        abort.measured,
        number::span(abort.window_s)
    )
}
