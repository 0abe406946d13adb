//! What qualifies a single load. docs/findings.md lists every threshold.

use prony_record::{Finding, Outcome, Record, Severity, Stalls, number};

use crate::ports;
use crate::protocols::StreamsLimit;

/// The finding that the generator stood still.
pub const GENERATOR_STALLED: &str = "generator-stalled";

/// A worker that is busy for less than this share of the time has reserves.
const BUSY: f64 = 0.85;
/// A closed loop with this share of its connections at the generator waits for the generator.
const QUEUED: f64 = 0.5;
/// And with this share it begins to.
const NEARLY_QUEUED: f64 = 0.3;
/// A busy worker always has one connection in hand: of few ones that is a large share, whoever is
/// the slower. So many connections more are wanted.
const IN_HAND: f64 = 0.35;
/// A worker that wanted a core and had none for this share of the time shares it with others.
const STARVED: f64 = 0.2;
/// A shorter load has not been anywhere long enough to tell.
const SHORTEST_S: f64 = 0.1;
/// Starts that are later than this at p99 were not made by the schedule.
const LATE_US: f64 = 1_000.0;
/// Lateness beyond this share of the p99 response time distorts it.
const LATE_SHARE: f64 = 0.1;
/// The share of requests that may fail before it is a warning, and before it is an error.
const FAILED: (f64, f64) = (0.001, 0.05);
/// Reasons of failures that are spelled out, the most frequent first.
const NAMED_REASONS: usize = 5;
/// The share of the time without any success, where there were failures, that is an error: a load
/// backs off where it is refused, so that a dead server makes few failures.
const DEAD: f64 = 0.1;
/// The share of requests that may be lost by reused connections before it is noted, and before it is
/// a warning.
const RETRIED: (f64, f64) = (0.001, 0.05);
/// Fewer requests have no percentile to speak of.
const FEW: u64 = 100;
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
/// The share of requests that may go unstarted before it is a warning.
const UNSTARTED: f64 = 0.001;

/// The findings of a record, given the reasons of its failures, the most frequent first.
pub(crate) fn of(
    record: &Record,
    reasons: &[(Outcome, String, u64)],
    unasked: u64,
) -> Vec<Finding> {
    let saturated = generator_saturated(record);
    let is_saturated = saturated.is_some();
    [
        generator_stalled(record),
        saturated,
        generator_starved(record),
        schedule_missed(record, is_saturated),
        errors(record, reasons),
        port_exhaustion(record),
        connections_not_reused(record),
        requests_retried(record),
        unasked_bytes(unasked),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What already qualifies a load of which this would be the record if it ended now.
pub fn so_far(record: &Record) -> Vec<Finding> {
    of(record, &[], 0)
}

fn generator_stalled(record: &Record) -> Option<Finding> {
    let stalls = record.generator.stalls.as_ref()?;
    let text = stall_text("The generator", stalls);
    Some(Finding::new(GENERATOR_STALLED, Severity::Error, text))
}

/// The text of the finding that `subject`, which made a load or a part of one, stood still.
pub fn stall_text(subject: &str, stalls: &Stalls) -> String {
    let at = format!("{:.1} s into the measured part", stalls.longest_at_s);
    let seen = match stalls.count {
        1 => format!("for {:.1} s, {at}", stalls.total_s),
        count => format!(
            "for {:.1} s in total, {count} times, the longest for {:.1} s, {at}",
            stalls.total_s, stalls.longest_s
        ),
    };
    format!(
        "{subject} stood still {seen}: its process was stopped (SIGSTOP, Ctrl-Z), or its machine was \
         paused or suspended. It started no requests then and saw responses late. The rate and the \
         times contain that, and the server has no part in it. Repeat the load."
    )
}

/// The generator and not the server was what the load waited for: its busiest worker had no time
/// left, and more of it was wanted. In a closed loop that shows in connections that wait for the
/// generator; in an open one in late starts, or where all its connections are taken, in the same.
fn generator_saturated(record: &Record) -> Option<Finding> {
    let generator = &record.generator;
    let awake = generator.awake_share.max(generator.busy_share);
    if awake < BUSY || record.totals.elapsed_s < SHORTEST_S {
        return None;
    }
    let late = record.load.rate_per_s.is_some() && generator.late_us.p99 > LATE_US;
    let queued = generator.queue_share;
    let load = &record.load;
    let places = f64::from(load.connections.max(1)) * f64::from(load.streams.max(1));
    let in_hand = IN_HAND * f64::from(load.threads.max(1)) / places;
    let severity = match late {
        true => Severity::Error,
        false if queued >= QUEUED + in_hand => Severity::Error,
        false if queued >= NEARLY_QUEUED + in_hand => Severity::Warning,
        false => return None,
    };
    let seen = match late {
        true => "late with its starts".to_owned(),
        false => format!(
            "with {:.0}% of its connections waiting for it",
            queued * 100.0
        ),
    };
    // One that lacked a core used too little of it to say what it could have done.
    let (severity, busy) = match generator.busy_share {
        busy if busy >= BUSY => (severity, format!("busy {:.0}% of the time", busy * 100.0)),
        busy => (
            Severity::Warning,
            format!(
                "busy {:.0}% of the time, and without a core for {:.0}% of it",
                busy * 100.0,
                generator.starved_share * 100.0
            ),
        ),
    };
    Some(Finding::new(
        "generator-saturated",
        severity,
        format!(
            "The generator's busiest worker was {busy}, {seen}: the generator and not the server \
             may have set the rate. Give it more cores (--cores, --threads), or load less."
        ),
    ))
}

/// The peer, and not the flag, said how many requests a connection carries.
pub(crate) fn streams_limited(record: &Record, limit: StreamsLimit) -> Finding {
    let wanted = record.load.streams;
    let (held, mend) = match limit {
        StreamsLimit::Settings(0) => (
            "The server allows no stream on a connection, if only for a while \
             (SETTINGS_MAX_CONCURRENT_STREAMS is 0)"
                .to_owned(),
            "Raise the server's limit.".to_owned(),
        ),
        StreamsLimit::Settings(limit) => (
            format!(
                "The server allows {limit} stream{} at once on a connection \
                 (SETTINGS_MAX_CONCURRENT_STREAMS)",
                if limit == 1 { "" } else { "s" }
            ),
            format!("Raise the server's limit, use more connections, or ask for {limit}."),
        ),
        StreamsLimit::Http1 => (
            "The server agreed on HTTP/1.1, which carries one request at a time".to_owned(),
            "Have the server speak HTTP/2 (--http 2 insists on it), or use more connections."
                .to_owned(),
        ),
    };
    Finding::new(
        "streams-limited",
        Severity::Warning,
        format!(
            "{held}, and {wanted} were asked for: the load was lighter than --streams says. {mend}"
        ),
    )
}

fn generator_starved(record: &Record) -> Option<Finding> {
    let starved = record.generator.starved_share;
    if starved < STARVED || record.totals.elapsed_s < SHORTEST_S {
        return None;
    }
    Some(Finding::new(
        "generator-starved",
        Severity::Warning,
        format!(
            "A worker of the generator wanted a core and had none for {:.0}% of the time: the server \
             or something else runs on the same one. Rates are lower and times longer by that. Give \
             server and generator cores of their own (--cores).",
            starved * 100.0
        ),
    ))
}

fn schedule_missed(record: &Record, saturated: bool) -> Option<Finding> {
    record.load.rate_per_s?;
    let totals = &record.totals;
    let late = &record.generator.late_us;
    if late.p99 > LATE_US {
        let distorts = totals.started >= FEW && late.p99 > LATE_SHARE * record.response_time_us.p99;
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
                 schedule and a free connection allowed. The response times contain it. {}",
                late.p99 / 1e3,
                match record.generator.stalls {
                    None => "Give it a core of its own (--cores), or a lower rate.",
                    Some(_) => "It stood still for a part of the load (generator-stalled).",
                }
            ),
        ));
    }
    let due = totals.started + totals.unstarted;
    if due == 0 || totals.unstarted as f64 <= UNSTARTED * due as f64 {
        return None;
    }
    let unconnected: u64 = CONNECT_FAILURES
        .iter()
        .filter_map(|outcome| record.outcomes.get(outcome))
        .sum();
    let culprit = match (record.generator.stalls, saturated) {
        // Who stood still till the end has a backlog, however quick the server is.
        (Some(_), _) => "The generator stood still (generator-stalled), and did not catch up",
        _ if unconnected > totals.ok => {
            "Most connects failed, and a connection waits longer after each one: this load could not \
             keep up"
        }
        (None, true) => "The generator does not keep up, or the server",
        (None, false) => "The server does not keep up",
    };
    Some(Finding::new(
        "schedule-missed",
        Severity::Warning,
        format!(
            "{} of {due} requests that were due found no free {} until the load ended; they \
             count as \"at least\" so long. {culprit} with {} requests per second over {}.",
            totals.unstarted,
            if record.load.streams > 1 {
                "stream"
            } else {
                "connection"
            },
            record.load.rate_per_s.unwrap_or_default(),
            places(record)
        ),
    ))
}

/// Where requests may be under way, in words.
fn places(record: &Record) -> String {
    let many = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let connections = many(record.load.connections, "connection");
    match record.load.streams {
        0 | 1 => connections,
        streams => format!("{connections} of {}", many(streams, "stream")),
    }
}

fn errors(record: &Record, reasons: &[(Outcome, String, u64)]) -> Option<Finding> {
    let totals = &record.totals;
    if totals.failed == 0 {
        return None;
    }
    let share = totals.failed as f64 / (totals.ok + totals.failed) as f64;
    let severity = match share {
        s if s > FAILED.1 || dead_share(record) > DEAD => Severity::Error,
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
        "{} of {} requests failed ({}): {}.",
        totals.failed,
        totals.ok + totals.failed,
        number::share(share),
        kinds.join(", ")
    );
    let (named, others) = reasons.split_at(reasons.len().min(NAMED_REASONS));
    for (outcome, reason, count) in named {
        text.push_str(&format!(" {}: {reason} ({count}×).", outcome.name()));
    }
    if !others.is_empty() {
        let count: u64 = others.iter().map(|(.., count)| count).sum();
        text.push_str(&format!(
            " {count} more for {} further reasons.",
            others.len()
        ));
    }
    Some(Finding::new("errors", severity, text))
}

/// The share of the slices in which requests failed and none succeeded.
fn dead_share(record: &Record) -> f64 {
    let slices = &record.series;
    let dead = slices
        .iter()
        .filter(|slice| slice.ok == 0 && slice.failed > 0);
    dead.count() as f64 / slices.len().max(1) as f64
}

fn requests_retried(record: &Record) -> Option<Finding> {
    let totals = &record.totals;
    let share = totals.retried as f64 / totals.started.max(1) as f64;
    let severity = match share {
        s if s > RETRIED.1 => Severity::Warning,
        s if s > RETRIED.0 => Severity::Note,
        _ => return None,
    };
    let lost = match record.negotiated.http.as_deref() {
        Some("2") => {
            "were lost by a connection that the server closed, or were on their way when it said that \
             it takes no more (GOAWAY, REFUSED_STREAM)"
        }
        _ => {
            "were lost by a connection that the server closed although it had said that it would keep \
             it"
        }
    };
    Some(Finding::new(
        "requests-retried",
        severity,
        format!(
            "{} of {} requests ({}) {lost}, and were sent once more. Their response times hold \
             both tries.",
            totals.retried,
            totals.started,
            number::share(share)
        ),
    ))
}

fn port_exhaustion(record: &Record) -> Option<Finding> {
    let lost = *record.outcomes.get(&Outcome::NoLocalPort)?;
    Some(Finding::new(
        "port-exhaustion",
        Severity::Error,
        format!(
            "{lost} requests found no free local port: {}. Who closes a connection first holds its \
             port for a minute more, which this load never does, but another may have done. Let \
             connections come from more addresses (--source), or use fewer at a time.",
            ports::described()
        ),
    ))
}

fn connections_not_reused(record: &Record) -> Option<Finding> {
    let totals = &record.totals;
    // A failure as a rule costs a connection, which is not the server's unwillingness to keep it.
    let expected = u64::from(record.load.connections) + totals.started / 20 + totals.failed;
    if !record.load.keepalive || totals.ok == 0 || totals.connections_opened <= expected {
        return None;
    }
    let who = match record.load.urls {
        0 | 1 => "the server closes them",
        _ => {
            "the server closes them, or where the list names several servers they make way for \
             connections to another,"
        }
    };
    Some(Finding::new(
        "connections-not-reused",
        Severity::Note,
        format!(
            "Keep-alive was asked for, but {} connections were opened for {} requests: {who} after \
             {:.1} requests on average, and the figures contain the cost of connecting.",
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of a closed loop that went well.
    fn quiet() -> Record {
        let mut record = Record::default();
        record.load.connections = 10;
        record.load.keepalive = true;
        record.totals.elapsed_s = 10.0;
        record.totals.started = 10_000;
        record.totals.ok = 10_000;
        record.totals.connections_opened = 10;
        record.response_time_us.p99 = 2_000.0;
        record
    }

    fn open(mut record: Record) -> Record {
        record.load.rate_per_s = Some(1000.0);
        record
    }

    fn found(record: &Record) -> Vec<(String, Severity)> {
        of(record, &[], 0)
            .into_iter()
            .map(|finding| (finding.id, finding.severity))
            .collect()
    }

    fn one(id: &str, severity: Severity) -> Vec<(String, Severity)> {
        vec![(id.to_owned(), severity)]
    }

    #[test]
    fn nothing_is_found_where_nothing_is_the_matter() {
        assert_eq!(found(&quiet()), []);
        assert_eq!(found(&open(quiet())), []);
    }

    #[test]
    fn a_closed_loop_is_saturated_where_its_connections_wait_for_it() {
        let mut record = quiet();
        record.generator.busy_share = 0.99;
        record.generator.queue_share = 0.1;
        assert_eq!(found(&record), [], "busy, but with reserves");
        record.generator.queue_share = 0.35;
        assert_eq!(
            found(&record),
            one("generator-saturated", Severity::Warning)
        );
        record.generator.queue_share = 0.55;
        assert_eq!(found(&record), one("generator-saturated", Severity::Error));
        // One of two is always in hand.
        record.load.connections = 2;
        record.generator.queue_share = 0.45;
        assert_eq!(found(&record), []);
        record.load.connections = 10;
        record.generator.queue_share = 0.55;
        record.totals.elapsed_s = 0.01;
        assert_eq!(found(&record), [], "too short to tell");
    }

    #[test]
    fn an_open_loop_is_saturated_where_it_is_busy_and_late() {
        let mut record = open(quiet());
        record.generator.busy_share = 0.99;
        assert_eq!(found(&record), []);
        record.generator.late_us.p99 = 5_000.0;
        let both = found(&record);
        assert!(both.contains(&one("generator-saturated", Severity::Error)[0]));
        assert!(both.contains(&one("schedule-missed", Severity::Error)[0]));
    }

    #[test]
    fn an_open_loop_beyond_the_generator_is_saturated_and_the_server_is_not_blamed() {
        // Every connection is taken, so that no start is late.
        let mut record = open(quiet());
        record.generator.busy_share = 0.97;
        record.generator.queue_share = 0.9;
        record.totals.unstarted = 5_000;
        let findings = of(&record, &[], 0);
        let [saturated, missed] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(saturated.id, "generator-saturated");
        assert_eq!(saturated.severity, Severity::Error);
        assert_eq!(missed.id, "schedule-missed");
        assert!(missed.text.contains("The generator does not keep up"));
        // The same beyond the server: its connections wait there.
        record.generator.queue_share = 0.1;
        let findings = of(&record, &[], 0);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].text.contains("The server does not keep up"));
    }

    #[test]
    fn a_generator_whose_core_others_use_is_saturated_by_half_its_time() {
        let mut record = quiet();
        record.generator.busy_share = 0.5;
        record.generator.starved_share = 0.48;
        record.generator.awake_share = 0.98;
        assert_eq!(found(&record), one("generator-starved", Severity::Warning));
        record.generator.queue_share = 0.6;
        let both = found(&record);
        assert_eq!(both.len(), 2);
        assert_eq!(both[0], one("generator-saturated", Severity::Warning)[0]);
        // The server waits for it no longer.
        record.generator.awake_share = 0.7;
        assert_eq!(found(&record), one("generator-starved", Severity::Warning));
    }

    #[test]
    fn a_worker_without_a_core_is_starved() {
        let mut record = quiet();
        record.generator.starved_share = 0.4;
        assert_eq!(found(&record), one("generator-starved", Severity::Warning));
    }

    #[test]
    fn late_starts_distort_short_response_times_only() {
        let mut record = open(quiet());
        record.generator.late_us.p99 = 1_500.0;
        assert_eq!(found(&record), one("schedule-missed", Severity::Error));
        record.response_time_us.p99 = 100_000.0;
        assert_eq!(found(&record), one("schedule-missed", Severity::Warning));
    }

    #[test]
    fn requests_that_found_no_connection_miss_the_schedule() {
        let mut record = open(quiet());
        record.totals.unstarted = 500;
        let findings = of(&record, &[], 0);
        assert_eq!(findings[0].id, "schedule-missed");
        assert!(
            findings[0].text.contains("500 of 10500"),
            "{}",
            findings[0].text
        );
        assert!(findings[0].text.contains("over 10 connections."));
        (record.load.connections, record.load.streams) = (1, 4);
        let text = &of(&record, &[], 0)[0].text;
        assert!(text.contains("no free stream until"), "{text}");
        assert!(text.contains("over 1 connection of 4 streams."), "{text}");
    }

    #[test]
    fn failures_weigh_by_their_share_and_name_their_reasons() {
        let mut record = quiet();
        for (failed, severity) in [
            (5, Severity::Note),
            (100, Severity::Warning),
            (1000, Severity::Error),
        ] {
            record.totals.failed = failed;
            record.outcomes = [(Outcome::Protocol, failed)].into();
            let reasons = [(Outcome::Protocol, "no status line".to_owned(), failed)];
            let findings = of(&record, &reasons, 0);
            assert_eq!(
                (findings[0].id.as_str(), findings[0].severity),
                ("errors", severity)
            );
            assert!(
                findings[0].text.contains("protocol: no status line"),
                "{}",
                findings[0].text
            );
        }
    }

    #[test]
    fn a_dead_server_is_an_error_however_few_requests_it_fails() {
        let mut record = quiet();
        record.totals.failed = 5;
        let slice = |ok, failed| prony_record::Slice {
            t_s: 0.5,
            ok,
            failed,
            bytes_in: 0,
            ..prony_record::Slice::default()
        };
        record.series = vec![slice(1000, 0), slice(1000, 0), slice(0, 5)];
        assert_eq!(found(&record), one("errors", Severity::Error));
    }

    #[test]
    fn requests_that_reused_connections_lost_are_noted() {
        let mut record = quiet();
        record.totals.retried = 100;
        assert_eq!(found(&record), one("requests-retried", Severity::Note));
        record.totals.retried = 1_000;
        assert_eq!(found(&record), one("requests-retried", Severity::Warning));
    }

    #[test]
    fn ports_that_run_out_are_an_error() {
        let mut record = quiet();
        record.outcomes = [(Outcome::NoLocalPort, 3)].into();
        assert_eq!(found(&record), one("port-exhaustion", Severity::Error));
    }

    #[test]
    fn connections_that_the_server_closes_are_noted() {
        let mut record = quiet();
        record.totals.connections_opened = 1_000;
        assert_eq!(
            found(&record),
            one("connections-not-reused", Severity::Note)
        );
        record.load.urls = 2;
        let text = &of(&record, &[], 0)[0].text;
        assert!(text.contains("several servers"), "{text}");
        record.load.keepalive = false;
        assert_eq!(found(&record), [], "nobody asked for reuse");
        record.load.keepalive = true;
        (record.totals.ok, record.totals.failed) = (9_000, 1_000);
        let found = found(&record);
        assert!(found.iter().all(|(id, _)| id == "errors"), "{found:?}");
    }

    #[test]
    fn what_limited_the_streams_is_told_whatever_other_connections_agreed_on() {
        let mut record = quiet();
        record.load.streams = 4;
        record.negotiated.http = Some("2".to_owned());
        for (limit, told) in [
            (StreamsLimit::Settings(0), "allows no stream on"),
            (StreamsLimit::Settings(1), "allows 1 stream at once"),
            (StreamsLimit::Settings(3), "or ask for 3."),
            (StreamsLimit::Http1, "agreed on HTTP/1.1"),
        ] {
            let text = streams_limited(&record, limit).text;
            assert!(text.contains(told), "{text}");
            assert!(!text.contains("ask for 0"), "{text}");
        }
        assert!(StreamsLimit::Settings(9) < StreamsLimit::Http1);
    }

    #[test]
    fn bytes_that_nobody_asked_for_are_counted() {
        assert_eq!(of(&quiet(), &[], 7)[0].id, "unasked-bytes");
    }

    #[test]
    fn a_schedule_that_is_missed_for_want_of_connections_does_not_blame_the_server() {
        let mut record = open(quiet());
        (record.totals.ok, record.totals.failed) = (0, 60);
        record.totals.unstarted = 940;
        record.outcomes.insert(Outcome::ConnectRefused, 60);
        let findings = of(&record, &[], 0);
        let mut missed = findings.iter().filter(|it| it.id == "schedule-missed");
        let text = &missed.next().unwrap().text;
        assert!(text.contains("Most connects failed"), "{text}");
        assert!(!text.contains("server does not keep up"), "{text}");
    }
}
