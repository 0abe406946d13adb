//! Findings about requests that failed or were sent again.

use prony_record::finding::{Errors, EventsTogether, RequestsRetried};
use prony_record::{Finding, Outcome, Record, Severity};

/// Shares of failed requests above which failures are reported as a warning or as an error.
const FAILED_SHARE_WARNING: f64 = 0.001;
const FAILED_SHARE_ERROR: f64 = 0.05;
/// Failures are reported as an error if more than this share of the slices has failures but no
/// successes. A load backs off while connections are refused, so a dead server causes few failures.
const DEAD_SHARE_ERROR: f64 = 0.1;
/// Shares of retried requests above which retries are reported as a note or as a warning.
const RETRIED_SHARE_NOTE: f64 = 0.001;
const RETRIED_SHARE_WARNING: f64 = 0.05;

/// Minimum median response time for the finding about events that arrived together. Shorter responses
/// may well be written at once.
const TOGETHER_RESPONSE_US_MIN: f64 = 50_000.0;
/// Minimum time to the first event, and maximum gap, as shares of the response time.
const TOGETHER_FIRST_SHARE_MIN: f64 = 0.9;
const TOGETHER_GAP_SHARE_MAX: f64 = 0.01;

pub(super) fn errors(record: &Record, reasons: &[(Outcome, String, u64)]) -> Option<Finding> {
    let totals = &record.totals;
    if totals.failed == 0 {
        return None;
    }
    let ended = totals.ok + totals.failed;
    let share = totals.failed as f64 / ended as f64;
    let severity = if share > FAILED_SHARE_ERROR || dead_share(record) > DEAD_SHARE_ERROR {
        Severity::Error
    } else if share > FAILED_SHARE_WARNING {
        Severity::Warning
    } else {
        Severity::Note
    };
    let failures = record
        .outcomes
        .iter()
        .filter(|(outcome, _)| outcome.is_failure());
    let named = reasons
        .iter()
        .map(|(outcome, reason, count)| (format!("{}: {reason}", outcome.name()), *count));
    let figures = Errors {
        failed: totals.failed,
        ended,
        outcomes: failures
            .map(|(outcome, n)| (outcome.name().to_owned(), *n))
            .collect(),
        reasons: named.collect(),
    };
    Some(Finding::of(severity, &figures))
}

/// Share of the slices in which requests failed and none succeeded.
fn dead_share(record: &Record) -> f64 {
    let slices = &record.series;
    let dead = slices
        .iter()
        .filter(|slice| slice.ok == 0 && slice.failed > 0);
    dead.count() as f64 / slices.len().max(1) as f64
}

pub(super) fn retried(record: &Record) -> Option<Finding> {
    let totals = &record.totals;
    let share = totals.retried as f64 / totals.started.max(1) as f64;
    let severity = if share > RETRIED_SHARE_WARNING {
        Severity::Warning
    } else if share > RETRIED_SHARE_NOTE {
        Severity::Note
    } else {
        return None;
    };
    let figures = RequestsRetried {
        retried: totals.retried,
        started: totals.started,
        http: record.negotiated.http.clone(),
    };
    Some(Finding::of(severity, &figures))
}

pub(super) fn events_together(record: &Record) -> Option<Finding> {
    let events = record.events.as_ref()?;
    let events_per_response = events.events_per_response?;
    let (first, response) = (events.first_event_us.p50, record.response_time_us.p50);
    let are_together = events_per_response >= 2.0
        && response >= TOGETHER_RESPONSE_US_MIN
        && first >= TOGETHER_FIRST_SHARE_MIN * response
        && events.event_gap_us.p90 <= TOGETHER_GAP_SHARE_MAX * response;
    are_together.then(|| {
        let figures = EventsTogether {
            events_per_response,
            first_event_us: first,
            response_us: response,
        };
        Finding::of(Severity::Warning, &figures)
    })
}
