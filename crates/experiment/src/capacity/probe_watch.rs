//! Watches a running probe, and stops it as soon as its result is clear.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use prony_load::Control;
use prony_record::LoadInfo;
use prony_stats::capacity::{EarlyEnd, Goal, Probe, ProbeProgress, ProbePurpose};

/// Interval at which a running probe is evaluated.
const JUDGE_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct ProbeWatch<'a> {
    pub(super) probe: &'a Probe,
    pub(super) goals: &'a [Goal],
    pub(super) info: &'a LoadInfo,
    pub(super) control: &'a Control,
}

impl ProbeWatch<'_> {
    /// Returns true if the probe can end early because it clearly meets or misses the goals. The
    /// load must then publish its response times.
    pub(super) fn needs_times(probe: &Probe) -> bool {
        matches!(probe.purpose, ProbePurpose::Bracket | ProbePurpose::Edge)
    }

    /// Watches the load until the sender of `done` is dropped. Stops the load when its result is
    /// clear, and returns the reason.
    pub(super) fn run(&self, done: &Receiver<()>) -> Option<EarlyEnd> {
        let began = Instant::now();
        let limit_s = Goal::longest_limit_s(self.goals);
        while done.recv_timeout(JUDGE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let elapsed_s = began.elapsed().as_secs_f64();
            let progress = ProbeProgress {
                elapsed_s,
                ended: self.control.counts().0,
                goals: if Self::needs_times(self.probe) && elapsed_s > self.probe.settle_s {
                    Goal::read_all(self.goals, &self.control.record_so_far(self.info))
                } else {
                    Vec::new()
                },
            };
            if let Some(end) = self.probe.early_end(&progress, limit_s) {
                self.control.stop();
                return Some(end);
            }
        }
        None
    }
}
