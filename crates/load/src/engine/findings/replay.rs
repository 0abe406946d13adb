//! Findings about the log that a load sent again.

use prony_record::finding::{LinesSkipped, LogUnreadable};
use prony_record::{Finding, ReplayUse, Severity, SkippedLines};

use crate::replay::{ReplayLog, SkipReason};

/// Share of skipped lines above which the finding is a warning.
const WARNED_SHARE: f64 = 0.1;

/// Adds what was found in the log.
pub(crate) fn add_log(used: &mut ReplayUse, log: &ReplayLog) {
    used.lines = log.lines;
    let reasons = SkipReason::ALL.iter().zip(&log.skipped);
    let reasons = reasons.filter(|(_, (lines, _))| *lines > 0);
    let skipped = reasons.map(|(reason, (lines, first))| SkippedLines {
        reason: reason.text().to_owned(),
        lines: *lines,
        first: first.clone(),
    });
    used.skipped = skipped.collect();
    used.set_forward = log.set_forward;
    used.jumps = log.jumps;
    used.ended_early = log.is_cut;
    used.error.clone_from(&log.error);
}

/// The findings about a log.
pub(crate) fn of_log(used: &ReplayUse) -> Vec<Finding> {
    let skipped = used.skipped_lines();
    let is_large = skipped as f64 > WARNED_SHARE * used.lines as f64;
    let lines = (skipped > 0).then(|| {
        let severity = if is_large {
            Severity::Warning
        } else {
            Severity::Note
        };
        Finding::of(
            severity,
            &LinesSkipped {
                skipped,
                lines: used.lines,
                reasons: used.skipped.clone(),
            },
        )
    });
    let unreadable = used.error.as_ref().map(|error| {
        Finding::of(
            Severity::Error,
            &LogUnreadable {
                lines: used.lines,
                error: error.clone(),
            },
        )
    });
    lines.into_iter().chain(unreadable).collect()
}
