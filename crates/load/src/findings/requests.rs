//! Findings about requests that failed or were sent again.

use prony_record::{Finding, FindingId, Outcome, Record, Severity, number};

/// Shares of failed requests above which failures are reported as a warning or as an error.
const FAILED_SHARE_WARNING: f64 = 0.001;
const FAILED_SHARE_ERROR: f64 = 0.05;
/// Failures are reported as an error if more than this share of the slices has failures but no
/// successes. A load backs off while connections are refused, so a dead server causes few failures.
const DEAD_SHARE_ERROR: f64 = 0.1;
/// Maximum number of failure reasons that the text names, the most frequent first.
const REASONS_NAMED_MAX: usize = 5;
/// Shares of retried requests above which retries are reported as a note or as a warning.
const RETRIED_SHARE_NOTE: f64 = 0.001;
const RETRIED_SHARE_WARNING: f64 = 0.05;

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
    let kinds: Vec<_> = record
        .outcomes
        .iter()
        .filter(|(outcome, _)| outcome.is_failure())
        .map(|(outcome, n)| format!("{} {}", number::count(*n), outcome.name()))
        .collect();
    let mut text = format!(
        "{} of {} requests failed ({}): {}.",
        number::count(totals.failed),
        number::count(ended),
        number::share(share),
        kinds.join(", ")
    );
    let (named, others) = reasons.split_at(reasons.len().min(REASONS_NAMED_MAX));
    for (outcome, reason, count) in named {
        let count = number::count(*count);
        text.push_str(&format!(" {}: {reason} ({count}×).", outcome.name()));
    }
    if !others.is_empty() {
        let count: u64 = others.iter().map(|(.., count)| count).sum();
        text.push_str(&format!(
            " {} more failures had {} other reasons.",
            number::count(count),
            others.len()
        ));
    }
    Some(Finding::new(FindingId::Errors, severity, text))
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
    let cause = match record.negotiated.http.as_deref() {
        Some("2") => "the server closed their connection, or refused them (GOAWAY, REFUSED_STREAM)",
        Some("3") => {
            "the server closed their connection, or refused them (GOAWAY, early data, 425 Too Early)"
        }
        _ => "the server closed their connection although it had promised to keep it open",
    };
    Some(Finding::new(
        FindingId::RequestsRetried,
        severity,
        format!(
            "{} of {} requests ({}) were lost and sent again: {cause}. Their response times \
             include both attempts. Check the server's keep-alive limits.",
            number::count(totals.retried),
            number::count(totals.started),
            number::share(share)
        ),
    ))
}
