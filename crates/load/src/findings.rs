//! What qualifies a single load. docs/measurement.md lists every threshold.

use prony_record::{Finding, Outcome, Record, Severity};

/// A worker that is busy for less than this share of the time has reserves.
const BUSY: f64 = 0.85;
/// A closed loop with this share of its connections at the generator waits for the generator.
const QUEUED: f64 = 0.5;
/// And with this share it begins to.
const NEARLY_QUEUED: f64 = 0.3;
/// A shorter load has not been anywhere long enough to tell.
const SHORTEST_S: f64 = 0.1;
/// Starts that are later than this at p99 were not made by the schedule.
const LATE_US: f64 = 1_000.0;
/// Lateness beyond this share of the p99 response time distorts it.
const LATE_SHARE: f64 = 0.1;
/// The share of requests that may fail before it is a warning, and before it is an error.
const FAILED: (f64, f64) = (0.001, 0.05);
/// The share of requests that may go unstarted before it is a warning.
const UNSTARTED: f64 = 0.001;

/// The findings of a record, given the reasons of its failures, the most frequent first.
pub(crate) fn of(
    record: &Record,
    reasons: &[(Outcome, String, u64)],
    unasked: u64,
) -> Vec<Finding> {
    [
        generator_saturated(record),
        schedule_missed(record),
        errors(record, reasons),
        port_exhaustion(record),
        connections_not_reused(record),
        unasked_bytes(unasked),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn generator_saturated(record: &Record) -> Option<Finding> {
    let (busy, queued) = (record.generator.busy_share, record.generator.queue_share);
    if busy < BUSY || record.totals.elapsed_s < SHORTEST_S {
        return None;
    }
    let open = record.load.rate_per_s.is_some();
    let late = record.generator.late_us.p99 > LATE_US;
    let (severity, seen) = match open {
        true if late => (Severity::Error, "and late with its starts".to_owned()),
        true => return None,
        false => {
            let severity = match queued {
                q if q >= QUEUED => Severity::Error,
                q if q >= NEARLY_QUEUED => Severity::Warning,
                _ => return None,
            };
            let share = queued * 100.0;
            (
                severity,
                format!("with {share:.0}% of its connections waiting for it"),
            )
        }
    };
    Some(Finding::new(
        "generator-saturated",
        severity,
        format!(
            "The generator's busiest worker was busy {:.0}% of the time, {seen}: the generator and \
             not the server may have set the rate. Give it more cores (--cores, --threads), or load \
             less.",
            busy * 100.0
        ),
    ))
}

fn schedule_missed(record: &Record) -> Option<Finding> {
    record.load.rate_per_s?;
    let totals = &record.totals;
    let late = &record.generator.late_us;
    if late.p99 > LATE_US {
        let distorts = late.p99 > LATE_SHARE * record.response_time_us.p99;
        let severity = if distorts {
            Severity::Error
        } else {
            Severity::Warning
        };
        return Some(Finding::new(
            "schedule-missed",
            severity,
            format!(
                "The generator started 1% of the requests more than {:.1} ms later than the \
                 schedule and a free connection allowed. The response times contain it. Give it a \
                 core of its own (--cores), or a lower rate.",
                late.p99 / 1e3
            ),
        ));
    }
    let due = totals.started + totals.unstarted;
    if due == 0 || totals.unstarted as f64 <= UNSTARTED * due as f64 {
        return None;
    }
    Some(Finding::new(
        "schedule-missed",
        Severity::Warning,
        format!(
            "{} of {due} requests that were due found no free connection until the load ended; they \
             count as \"at least\" so long. The server does not keep up with {} requests a second \
             over {} connections.",
            totals.unstarted,
            record.load.rate_per_s.unwrap_or_default(),
            record.load.connections
        ),
    ))
}

fn errors(record: &Record, reasons: &[(Outcome, String, u64)]) -> Option<Finding> {
    let totals = &record.totals;
    if totals.failed == 0 {
        return None;
    }
    let share = totals.failed as f64 / (totals.ok + totals.failed) as f64;
    let severity = match share {
        s if s > FAILED.1 => Severity::Error,
        s if s > FAILED.0 => Severity::Warning,
        _ => Severity::Note,
    };
    let kinds: Vec<_> = record
        .outcomes
        .iter()
        .filter(|(outcome, _)| outcome.is_failure())
        .map(|(outcome, n)| format!("{n} {}", outcome.name()))
        .collect();
    let mut text = format!(
        "{} of {} requests failed ({:.2}%): {}.",
        totals.failed,
        totals.ok + totals.failed,
        share * 100.0,
        kinds.join(", ")
    );
    for (outcome, reason, count) in reasons.iter().take(5) {
        text.push_str(&format!(" {}: {reason} ({count}×).", outcome.name()));
    }
    Some(Finding::new("errors", severity, text))
}

fn port_exhaustion(record: &Record) -> Option<Finding> {
    let lost = *record.outcomes.get(&Outcome::NoLocalPort)?;
    Some(Finding::new(
        "port-exhaustion",
        Severity::Error,
        format!(
            "{lost} requests found no free local port: ports of closed connections stay in TIME_WAIT \
             for a minute. Keep connections alive, load more slowly, or widen \
             net.ipv4.ip_local_port_range."
        ),
    ))
}

fn connections_not_reused(record: &Record) -> Option<Finding> {
    let totals = &record.totals;
    let expected = u64::from(record.load.connections) + totals.started / 20;
    if !record.load.keepalive || totals.ok == 0 || totals.connections_opened <= expected {
        return None;
    }
    Some(Finding::new(
        "connections-not-reused",
        Severity::Note,
        format!(
            "Keep-alive was asked for, but {} connections were opened for {} requests: the server \
             closes them after {:.1} requests on average, and the figures contain the cost of \
             connecting.",
            totals.connections_opened,
            totals.started,
            totals.started as f64 / totals.connections_opened as f64
        ),
    ))
}

fn unasked_bytes(unasked: u64) -> Option<Finding> {
    (unasked > 0).then(|| {
        Finding::new(
            "unasked-bytes",
            Severity::Warning,
            format!(
                "{unasked} times the server sent bytes on a connection while no request was under \
                 way; those connections were closed. It may be sending more than it announces."
            ),
        )
    })
}
