//! Findings that report when the load generator, rather than the server, determined the results.

use prony_record::number;
use prony_record::{Finding, FindingId, Outcome, RateProfile, Record, Severity, Stalls};

/// A worker that is awake for less than this share of the time has spare capacity.
const AWAKE_SHARE_MIN: f64 = 0.85;
/// If at least this share of the connections is waiting for the generator, an error reports the
/// generator as the bottleneck.
const QUEUE_SHARE_ERROR: f64 = 0.5;
/// If at least this share of the connections is waiting for the generator, a warning reports the
/// generator as a possible bottleneck.
const QUEUE_SHARE_WARNING: f64 = 0.3;
/// Correction of both queue share thresholds, in connections per worker. A busy worker is always
/// handling one connection, which counts as waiting even if the server is slower. With few
/// connections, one connection is a large share.
const HANDLED_CONNECTIONS_PER_WORKER: f64 = 0.35;
/// A worker counts as starved if it had no core for at least this share of the time.
const STARVED_SHARE_MIN: f64 = 0.2;
/// Minimum load duration in seconds for judging the generator.
const JUDGED_S_MIN: f64 = 0.1;
/// Minimum share of the quota's periods in which the generator was throttled for an error.
const THROTTLED_SHARE_ERROR: f64 = 0.05;
/// Threshold for the p99 of start delays. Above it, the load is reported as not having followed its
/// schedule.
const LATE_P99_US: f64 = 1_000.0;
/// Start delays above this share of the p99 response time distort the response times.
const LATE_SHARE_ERROR: f64 = 0.1;
/// Minimum number of requests for a meaningful p99.
const REQUESTS_FOR_P99: u64 = 100;
/// If more than this share of the due requests never started, a warning is reported.
const UNSTARTED_SHARE_WARNING: f64 = 0.001;
/// Outcomes of requests that never had a connection.
const CONNECT_FAILURES: [Outcome; 8] = [
    Outcome::ConnectRefused,
    Outcome::ConnectTimeout,
    Outcome::ConnectUnreachable,
    Outcome::ConnectFailed,
    Outcome::Tls,
    Outcome::Dns,
    Outcome::NoLocalPort,
    Outcome::TooManyFiles,
];

/// Returns true if more requests failed without a connection than succeeded.
fn is_mostly_unconnected(record: &Record) -> bool {
    let failures = CONNECT_FAILURES.iter();
    let unconnected: u64 = failures
        .filter_map(|outcome| record.outcomes.get(outcome))
        .sum();
    unconnected > record.totals.ok
}

pub(super) fn stalled(record: &Record) -> Option<Finding> {
    let stalls = record.generator.stalls.as_ref()?;
    let text = stall_text("The generator", stalls);
    Some(Finding::new(
        FindingId::GeneratorStalled,
        Severity::Error,
        text,
    ))
}

/// Text of the finding about a generator that stalled. `subject` is the name of the generator or of
/// one of its agents.
pub fn stall_text(subject: &str, stalls: &Stalls) -> String {
    let at = format!("{:.1} s into the measured part", stalls.longest_at_s);
    let seen = match stalls.count {
        1 => format!("for {:.1} s, {at}", stalls.total_s),
        count => format!(
            "for {:.1} s in total ({count} stalls; the longest, {at}, lasted {:.1} s)",
            stalls.total_s, stalls.longest_s
        ),
    };
    format!(
        "{subject} stalled {seen}. The cause was not observed; usually the process was stopped \
         (SIGSTOP, Ctrl-Z), or its machine was paused or suspended. It started no requests during that time and read responses late. The \
         rate and the times include this pause, which is not the server's fault. Repeat the load."
    )
}

/// Reports that the generator's busiest worker was saturated. In a closed loop, connections then
/// wait for the generator. In an open loop, requests start late or, if all connections are busy,
/// connections wait as well.
pub(super) fn saturated(record: &Record) -> Option<Finding> {
    if is_mostly_unconnected(record) {
        return None;
    }
    let generator = &record.generator;
    let awake = generator.awake_share.max(generator.busy_share);
    if awake < AWAKE_SHARE_MIN || record.totals.elapsed_s < JUDGED_S_MIN {
        return None;
    }
    let late = !record.load.is_saturating() && generator.late_us.p99 > LATE_P99_US;
    let queued = generator.queue_share;
    let load = &record.load;
    let requests_max = f64::from(load.connections.max(1)) * f64::from(load.streams.max(1));
    let handled = HANDLED_CONNECTIONS_PER_WORKER * f64::from(load.threads.max(1)) / requests_max;
    let severity = if late || queued >= QUEUE_SHARE_ERROR + handled {
        Severity::Error
    } else if queued >= QUEUE_SHARE_WARNING + handled {
        Severity::Warning
    } else {
        return None;
    };
    // Each share is a maximum over all workers. Two shares may come from different workers, so the
    // text doesn't attribute both to one worker.
    let seen = if late {
        "requests started late".to_owned()
    } else {
        format!(
            "up to {:.0}% of a worker's connections were waiting for that worker",
            queued * 100.0
        )
    };
    let busy = format!("busy {:.0}% of the time", generator.busy_share * 100.0);
    // A worker without a core was limited by the missing core, not by its own speed.
    let (severity, busy) = if generator.busy_share >= AWAKE_SHARE_MIN {
        (severity, busy)
    } else {
        let starved = generator.starved_share * 100.0;
        let busy = format!("{busy}, a worker had no core for {starved:.0}% of the time");
        (Severity::Warning, busy)
    };
    Some(Finding::new(
        FindingId::GeneratorSaturated,
        severity,
        format!(
            "The generator's busiest worker was {busy}, and {seen}: the generator, not the \
             server, may have limited the rate. Give it more cores (--cores, --threads), or \
             reduce the load."
        ),
    ))
}

/// Reports that the generator used up the CPU quota of its control group.
pub(super) fn throttled(record: &Record) -> Option<Finding> {
    let throttling = record
        .generator
        .throttling
        .filter(|it| it.throttled_periods > 0)?;
    let severity = match throttling.share() >= THROTTLED_SHARE_ERROR {
        true => Severity::Error,
        false => Severity::Warning,
    };
    Some(Finding::new(
        FindingId::GeneratorThrottled,
        severity,
        format!(
            "The generator was {}, together with every other program of its control group. \
             Meanwhile, it sent no requests and read no responses, which is not the server's \
             fault. Raise the quota, run the load outside of the group, or reduce the load.",
            throttling.text()
        ),
    ))
}

pub(super) fn starved(record: &Record) -> Option<Finding> {
    // A throttled worker is ready to run as well, so its cores may be free.
    if throttled(record).is_some() {
        return None;
    }
    let starved = record.generator.starved_share;
    if is_mostly_unconnected(record) {
        // The workers spent their time on attempts to connect. There is no rate and no response
        // time that the lack of a core could have changed.
        return None;
    }
    if starved < STARVED_SHARE_MIN || record.totals.elapsed_s < JUDGED_S_MIN {
        return None;
    }
    Some(Finding::new(
        FindingId::GeneratorStarved,
        Severity::Warning,
        format!(
            "A generator worker was ready to run but had no core for {:.0}% of the time: the \
                server or another process runs on the same core. This lowers rates and increases \
                response times. Give the server and the generator cores of their own (--cores).",
            starved * 100.0
        ),
    ))
}

/// Reports that, in an open loop, starts were late or requests found no free connection.
pub(super) fn schedule_missed(record: &Record, is_saturated: bool) -> Option<Finding> {
    let rate = record.load.rate_profile()?;
    let totals = &record.totals;
    let late_p99_us = record.generator.late_us.p99;
    if late_p99_us > LATE_P99_US {
        return Some(started_late(record, late_p99_us));
    }
    let due = totals.started + totals.unstarted;
    if due == 0 || totals.unstarted as f64 <= UNSTARTED_SHARE_WARNING * due as f64 {
        return None;
    }
    let cause = match (record.generator.stalls, is_saturated) {
        // A generator that stalled until the end has unstarted requests even if the server is fast.
        (Some(_), _) => "The generator stalled (generator-stalled), and did not catch up",
        _ if is_mostly_unconnected(record) => {
            "Most connection attempts failed, and a connection waits longer after each failure: the \
             load could not keep up"
        }
        (None, true) => "The generator or the server does not keep up",
        (None, false) => "The server does not keep up",
    };
    let slot = match record.load.streams {
        0 | 1 => "connection",
        _ => "stream",
    };
    Some(Finding::new(
        FindingId::ScheduleMissed,
        Severity::Warning,
        format!(
            "{} of {} requests that were due found no free {slot} before the load ended; their \
             response times are lower bounds. {cause} with {} over {}.",
            number::count(totals.unstarted),
            number::count(due),
            offered(&rate),
            capacity(record)
        ),
    ))
}

fn started_late(record: &Record, late_p99_us: f64) -> Finding {
    let distorts = record.totals.started >= REQUESTS_FOR_P99
        && late_p99_us > LATE_SHARE_ERROR * record.response_time_us.p99;
    let severity = if distorts {
        Severity::Error
    } else {
        Severity::Warning
    };
    let action = match record.generator.stalls {
        None => "Give it a core of its own (--cores), or reduce the rate.",
        Some(_) => "It stalled during the load (generator-stalled).",
    };
    Finding::new(
        FindingId::ScheduleMissed,
        severity,
        format!(
            "The generator started 1% of the requests more than {:.1} ms after they were due and a \
             connection was free. The response times include that delay. {action}",
            late_p99_us / 1e3
        ),
    )
}

/// The arrival rate as text.
fn offered(rate: &RateProfile) -> String {
    match rate {
        RateProfile::Constant(rate_per_s) => {
            format!("{} requests per second", number::rate_figure(*rate_per_s))
        }
        RateProfile::Staged(_) => format!(
            "up to {} requests per second",
            number::rate_figure(rate.highest())
        ),
    }
}

/// The number of connections and streams as text.
fn capacity(record: &Record) -> String {
    let many = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let connections = many(record.load.connections, "connection");
    match record.load.streams {
        0 | 1 => connections,
        streams => format!("{connections} of {}", many(streams, "stream")),
    }
}
