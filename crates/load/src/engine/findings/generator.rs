//! Findings that report when the load generator, rather than the server, determined the results.

use prony_record::finding::{
    GeneratorSaturated, GeneratorStalled, GeneratorStarved, GeneratorThrottled, ScheduleMissed,
};
use prony_record::{Finding, Outcome, RateProfile, Record, Severity};

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
    let stalls = record.generator.stalls?;
    Some(Finding::of(Severity::Error, &GeneratorStalled { stalls }))
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
    // A worker without a core was limited by the missing core, not by its own speed.
    let is_starved = generator.busy_share < AWAKE_SHARE_MIN;
    let figures = GeneratorSaturated {
        busy_share: generator.busy_share,
        starved_share: is_starved.then_some(generator.starved_share),
        queue_share: (!late).then_some(queued),
    };
    let severity = if is_starved {
        Severity::Warning
    } else {
        severity
    };
    Some(Finding::of(severity, &figures))
}

/// Reports that the generator used up the CPU quota of its control group.
pub(super) fn throttled(record: &Record) -> Option<Finding> {
    let throttling = record
        .generator
        .throttling
        .filter(|it| it.throttled_periods > 0)?;
    let severity = if throttling.share() >= THROTTLED_SHARE_ERROR {
        Severity::Error
    } else {
        Severity::Warning
    };
    Some(Finding::of(severity, &GeneratorThrottled { throttling }))
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
    let starved_share = starved;
    Some(Finding::of(
        Severity::Warning,
        &GeneratorStarved { starved_share },
    ))
}

/// Reports that, in an open loop, starts were late or requests found no free connection.
pub(super) fn schedule_missed(record: &Record, is_saturated: bool) -> Option<Finding> {
    let rate = record.load.rate_profile()?;
    let totals = &record.totals;
    let late_p99_us = record.generator.late_us.p99;
    let figures = ScheduleMissed {
        late_p99_us: (late_p99_us > LATE_P99_US).then_some(late_p99_us),
        unstarted: totals.unstarted,
        due: totals.started + totals.unstarted,
        stalled: record.generator.stalls.is_some(),
        unconnected: is_mostly_unconnected(record),
        saturated: is_saturated,
        rate_per_s: rate.highest(),
        rate_changes: matches!(rate, RateProfile::Staged(_)),
        connections: u64::from(record.load.connections),
        streams: u64::from(record.load.streams),
    };
    let severity = match figures.late_p99_us {
        Some(_)
            if totals.started >= REQUESTS_FOR_P99
                && late_p99_us > LATE_SHARE_ERROR * record.response_time_us.p99 =>
        {
            Severity::Error
        }
        None if figures.unstarted as f64 <= UNSTARTED_SHARE_WARNING * figures.due as f64 => {
            return None;
        }
        _ => Severity::Warning,
    };
    Some(Finding::of(severity, &figures))
}
