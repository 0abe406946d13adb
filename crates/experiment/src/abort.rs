//! Ends a load while it runs, as soon as one of its conditions holds (`--abort-if`).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use prony_load::Control;
use prony_plan::abort_rules::AbortRules;
use prony_record::finding::LoadAborted;
use prony_record::{Delta, Finding, LoadAbort, LoadInfo, Nanos, Record, Severity};

/// Interval at which the conditions are checked while a load runs. The load publishes its results
/// every half second.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

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

/// Runs a load by calling `work`. If a condition holds, calls `stop` once. Returns the result
/// of `work` and the condition that ended the load, if any.
pub fn watch<T>(
    rules: &AbortRules,
    load: &dyn AbortableLoad,
    stop: &(dyn Fn(&LoadAbort) + Sync),
    work: impl FnOnce() -> T,
) -> (T, Option<LoadAbort>) {
    load.keep_recent(rules.window());
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        let watcher = scope.spawn(move || wait(rules, load, stop, &is_done));
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
    rules: &AbortRules,
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
        if let Some(abort) = judge(rules, load, until) {
            stop(&abort);
            return Some(abort);
        }
    }
    None
}

/// Returns the first condition that holds in the window that ends at `until`.
fn judge(rules: &AbortRules, load: &dyn AbortableLoad, until: Nanos) -> Option<LoadAbort> {
    let info = load.info();
    let warmup = Nanos::from_secs_f64(info.warmup_s);
    if until.since(warmup) < rules.window() {
        return None;
    }
    let window = load.recent(until)?;
    let span = window.span?;
    let record = Record::build(info, &window, span, None);
    rules.conditions().iter().find_map(|condition| {
        Some(LoadAbort {
            condition: condition.to_string(),
            measured: prony_wording::conditions::failure(condition, &record)?,
            window_s: rules.window().as_secs_f64(),
            at_s: until.since(warmup).as_secs_f64(),
        })
    })
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
    let (record, aborted) = watch(rules, &load, &|_| load.control.stop(), work);
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
