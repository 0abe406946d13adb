//! `--abort-if`: ends a load while it runs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use prony_record::{Finding, FindingId, LoadAbort, Nanos, Record, Severity};
use prony_report::number;
use prony_stats::gate::LoadCondition;

use crate::arguments::LoadArgs;
use crate::ending::Failure;
use crate::running_load::RunningLoad;

/// Time between looks at a running load. It publishes its results each half second.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Length of the window unless it is given.
const DEFAULT_WINDOW: Duration = Duration::from_secs(5);
/// Shortest window: that of one publication.
const WINDOW_MIN: Duration = Duration::from_millis(500);

/// The conditions that end a load.
#[derive(Debug)]
pub(crate) struct AbortRules {
    conditions: Vec<LoadCondition>,
    /// Length of the window at the end of which the conditions are evaluated.
    window: Nanos,
}

impl AbortRules {
    /// Reads `--abort-if` and `--abort-window`; `None` without conditions.
    pub(crate) fn of(typed: &LoadArgs) -> Result<Option<AbortRules>, Failure> {
        let window = typed.abort_window.unwrap_or(DEFAULT_WINDOW);
        if window < WINDOW_MIN {
            return Err(Failure::wrong(format!(
                "--abort-window: at least {} (a load is checked every half second)",
                number::span(WINDOW_MIN.as_secs_f64())
            )));
        }
        let conditions = typed.abort_if.iter().map(|text| {
            let wrong = |error| Failure::wrong(format!("--abort-if: {error}"));
            LoadCondition::abort(text).map_err(wrong)
        });
        let conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        let window = Nanos::from(window);
        Ok((!conditions.is_empty()).then_some(AbortRules { conditions, window }))
    }

    /// Runs a load, which is `work`, and calls `stop` once if a condition holds.
    pub(crate) fn watch<T>(
        &self,
        load: &RunningLoad,
        stop: &(dyn Fn() + Sync),
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
        load: &RunningLoad,
        stop: &dyn Fn(),
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
                stop();
                return Some(abort);
            }
        }
        None
    }

    /// The first condition that holds in the window that ends at `until`.
    fn judge(&self, load: &RunningLoad, until: Nanos) -> Option<LoadAbort> {
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

/// Notes in a record that its load was ended.
pub(crate) fn note(abort: Option<LoadAbort>, record: &mut Record) {
    let Some(abort) = abort else {
        return;
    };
    let text = format!("{}.", in_words(&abort));
    let text = format!("{text} The results cover the time until then.");
    let finding = Finding::new(FindingId::LoadAborted, Severity::Warning, text);
    record.findings.push(finding);
    record.aborted = Some(abort);
}

/// The reason for which a load was ended: `--abort-if p99>50ms ended the load after 12 s: p99 is 61.3 ms
/// over the last 5 s`.
pub(crate) fn in_words(abort: &LoadAbort) -> String {
    format!(
        "--abort-if {} ended the load after {}: {} over the last {}",
        abort.condition,
        number::span(abort.at_s),
        abort.measured,
        number::span(abort.window_s)
    )
}
