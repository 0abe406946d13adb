//! Ends a load when the intervals of its metrics are narrow enough (`--precision`).

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use prony_load::LoadSettings;
use prony_record::{IntervalRefusal, Nanos, Record};
use prony_report::number;
use prony_stats::within_run::{self, Precision, PrecisionProgress, PrecisionWatch, RunSample};
use prony_wording::run_intervals as wording;

use crate::arguments::LoadArgs;
use crate::progress::Progress;
use crate::running_load::RunningLoad;

/// Limit of the measured part if neither `-d` nor `-n` is given.
const DEFAULT_LIMIT: Duration = Duration::from_secs(300);
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which a refusal, which may be the fault of the first seconds, is worth a warning.
const LASTING: Duration = Duration::from_secs(20);

/// Returns the settings of the load. With `--precision`, a load that has no limit gets one.
pub(crate) fn limited(arguments: &LoadArgs) -> LoadSettings {
    let mut settings = arguments.load.settings.clone();
    if !arguments.precision.is_empty() && settings.requests.is_none() {
        settings.duration.get_or_insert(DEFAULT_LIMIT);
    }
    settings
}

/// Writes the intervals within the load to its record: those of `--precision`, or those that any load
/// of sufficient length has.
pub(crate) fn write_intervals(
    record: &mut Record,
    precisions: &[Precision],
    precise_after: Option<usize>,
) {
    if let Some(half_seconds) = precise_after {
        record.history.half_seconds.truncate(half_seconds);
    }
    record.intervals = match precisions {
        [] => within_run::plain_intervals(record),
        wanted => within_run::intervals_of(record, wanted),
    };
}

/// Precisions that a load should reach.
#[derive(Clone, Copy)]
pub(crate) struct WantedPrecision<'a> {
    pub(crate) wanted: &'a [Precision],
    /// Maximum length of the measured part, if there is one.
    pub(crate) limit: Option<Duration>,
    /// Function that ends the load.
    pub(crate) stop: &'a (dyn Fn() + Sync),
}

impl WantedPrecision<'_> {
    /// Runs a load by calling `work`, and ends it when the precisions are reached. Returns the
    /// result of `work`, and the number of half seconds at that time.
    pub(crate) fn watch<T>(
        self,
        load: &RunningLoad,
        progress: &Progress,
        work: impl FnOnce() -> T,
    ) -> (T, Option<usize>) {
        load.keep_series();
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            let watcher = scope.spawn(move || self.wait(load, progress, &is_done));
            let result = work();
            drop(done);
            match watcher.join() {
                Ok(reached) => (result, reached),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Waits until the precisions are reached or the sender of `is_done` is dropped.
    fn wait(
        self,
        load: &RunningLoad,
        progress: &Progress,
        is_done: &Receiver<()>,
    ) -> Option<usize> {
        let mut watch = PrecisionWatch::new(self.wanted);
        let (mut shown, mut is_warned) = (None::<Instant>, false);
        while is_done.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let warmup = Nanos::from_secs_f64(load.info().warmup_s);
            let measured = load.complete_until().since(warmup);
            let half_seconds = (measured.as_secs_f64() * 2.0) as usize;
            if load.is_stopped() || !watch.is_due(half_seconds) {
                continue;
            }
            let delta = load.so_far().delta;
            let history = delta.history(measured);
            let found = watch.evaluate(&RunSample {
                history: &history,
                times: &delta.response_time,
                unsuccessful: delta.outcomes.failed(),
            });
            if found.is_reached {
                (self.stop)();
                return Some(history.half_seconds.len());
            }
            if found
                .intervals
                .iter()
                .any(|it| it.refused == Some(IntervalRefusal::TooShort))
            {
                continue;
            }
            if !is_warned && let Some(warning) = self.warning(&found, measured) {
                is_warned = true;
                progress.warn(warning);
            }
            if shown.is_none_or(|at| at.elapsed() >= LINE_INTERVAL) {
                shown = Some(Instant::now());
                progress.status(&status(&found));
            }
        }
        None
    }

    /// States that the limit won't do, and what would.
    fn warning(&self, found: &PrecisionProgress, measured: Nanos) -> Option<String> {
        let limit_s = self.limit?.as_secs_f64();
        let is_lasting = measured.as_secs_f64() >= (limit_s / 2.0).min(LASTING.as_secs_f64());
        let refused = found.intervals.iter().find(|it| it.refused.is_some());
        match (found.needs_s, refused) {
            (Some(needs_s), _) if needs_s > limit_s * 1.1 => Some(format!(
                "the wanted precision will take about {}, longer than the limit of {}{}",
                number::span(needs_s.round()),
                number::span(limit_s),
                wording::remedy(&found.intervals),
            )),
            (None, Some(interval)) if is_lasting => Some(format!(
                "{}{}",
                wording::brief(interval),
                wording::remedy(&found.intervals)
            )),
            _ => None,
        }
    }
}

/// The widths of the intervals, and the estimated length of the load.
fn status(found: &PrecisionProgress) -> String {
    let each: Vec<String> = found.intervals.iter().map(wording::brief).collect();
    let needs = found
        .needs_s
        .map(|needs_s| format!("; about {} in all", number::span(needs_s.round())));
    each.join("; ") + &needs.unwrap_or_default()
}
