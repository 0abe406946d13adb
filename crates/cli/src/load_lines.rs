//! Prints the progress of a load as plain lines.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use prony_load::Control;
use prony_record::LoadInfo;
use prony_report::number;

use crate::progress::{Progress, rounded};
use crate::running_load::RunningLoad;

/// Interval between progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs `work`, and prints a line every few seconds if the load runs in this process. For a load on
/// agents, the fleet's events provide the lines.
pub(crate) fn with_progress_lines<T>(
    running: &RunningLoad,
    planned: Option<Duration>,
    progress: &Progress,
    work: impl FnOnce() -> T,
) -> T {
    let RunningLoad::Here(control, info) = running else {
        return work();
    };
    let lines = LoadLines {
        control,
        info,
        planned,
        progress,
    };
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || lines.print_until(&is_done));
        let result = work();
        drop(done);
        result
    })
}

/// The progress lines of a load in this process.
struct LoadLines<'a> {
    control: &'a Control,
    info: &'a LoadInfo,
    /// Length of the load including the warm-up, if known.
    planned: Option<Duration>,
    progress: &'a Progress,
}

impl LoadLines<'_> {
    /// Prints progress lines until the sender of `is_done` is dropped.
    fn print_until(&self, is_done: &Receiver<()>) {
        let began = Instant::now();
        let warmup = Duration::from_secs_f64(self.info.warmup_s);
        let (mut before, mut ok_before) = (Duration::ZERO, 0);
        loop {
            // The rate of one line never covers parts of both the warm-up and the measured part.
            let is_warming_up = before < warmup;
            let line_at = match before + LINE_INTERVAL {
                at if is_warming_up => at.min(warmup),
                at => at,
            };
            let pause = line_at.saturating_sub(began.elapsed());
            if is_done.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let (now, (ended, failed)) = (began.elapsed(), self.control.counts());
            let ok = ended.saturating_sub(failed);
            let (span, counted) = (now - before, ok.saturating_sub(ok_before));
            (before, ok_before) = (now, ok);
            if span < LINE_INTERVAL {
                continue;
            }
            let rate = number::rate(counted as f64 / span.as_secs_f64());
            let last = rounded(span);
            let result = if is_warming_up {
                format!("warming up, {rate} finished in the last {last}")
            } else {
                let failed = number::count(failed);
                format!("{rate} ok in the last {last}, {failed} failed so far")
            };
            self.progress.line(&format!(
                "{}: {result}{}",
                rounded(now),
                self.remainder(now, ended)
            ));
        }
    }

    /// Describes what remains of the load, given the elapsed time and the number of finished
    /// requests.
    fn remainder(&self, elapsed: Duration, ended: u64) -> String {
        // The limit of a load with steps is a number of journeys, which is known only to a viewer.
        let requests = self.info.requests.filter(|_| self.info.steps == 0);
        let requests = requests.map(|limit| {
            format!(
                ", {} of {} requests",
                number::count(ended.min(limit)),
                number::count(limit)
            )
        });
        let time = self
            .planned
            .map(|planned| format!(", {} left", rounded(planned.saturating_sub(elapsed))));
        requests.unwrap_or_default() + &time.unwrap_or_default()
    }
}
