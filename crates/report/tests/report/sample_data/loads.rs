//! Sample loads.

use std::collections::BTreeMap;

use prony_record::{
    EntryGrouping, EntryResult, EntryResults, Finding, FindingId, GapSummary, Generator,
    HalfSecond, LoadInfo, Nanos, Negotiated, Outcome, RECORD_SCHEMA, RateStage, Rates, Record,
    Severity, StartGaps, Summary, Totals,
};

use super::{Noise, SampleExperiment, Server};

/// Returns every sample load with its name.
pub(super) fn all() -> [(&'static str, Record); 5] {
    let mut noise = Noise(11);
    [
        (
            "closed",
            load_of(closed(50, 10.0), 48_213.0, 0.0, &mut noise),
        ),
        ("failing", failing(&mut noise)),
        ("open", open(&mut noise)),
        ("profile", profile(&mut noise)),
        ("list", list(&mut noise)),
    ]
}

pub(super) fn closed(connections: u32, duration_s: f64) -> LoadInfo {
    LoadInfo {
        url: "http://127.0.0.1:8080/".to_owned(),
        model: "closed".to_owned(),
        connections,
        streams: 1,
        duration_s: Some(duration_s),
        warmup_s: 1.0,
        http: "1.1".to_owned(),
        keepalive: true,
        threads: 1,
        io: "poll".to_owned(),
        urls: 1,
        timeout_s: 20.0,
        ..LoadInfo::default()
    }
}

pub(super) fn trial(sample_data: &SampleExperiment, server: &Server, noise: &mut Noise) -> Record {
    let mut record = load_of(
        sample_data.load.clone(),
        server.rate,
        server.failed_share,
        noise,
    );
    let scale = |us: f64| (us * 10.0).round() / 10.0;
    record.response_time_us = times(scale(server.p50_us), scale(server.p99_us));
    record.service_time_us = record.response_time_us.clone();
    (record.command, record.machine) = (None, None);
    // Keeps the fixtures small.
    record.series.iter_mut().for_each(|it| it.times.clear());
    record
}
fn times(p50: f64, p99: f64) -> Summary {
    let round = |us: f64| us.round();
    Summary {
        min: round(p50 * 0.4),
        mean: round(p50 * 1.06),
        p50: round(p50),
        p75: Some(round(p50 + (p99 - p50) * 0.2)),
        p90: round(p50 + (p99 - p50) * 0.4),
        p95: Some(round(p50 + (p99 - p50) * 0.6)),
        p99: round(p99),
        p99_9: round(p99 * 1.7),
        max: round(p99 * 2.9),
        stdev: Some(round(p50 * 0.3)),
        at_least: Vec::new(),
    }
}

/// Gaps between the starts of one worker's requests at a constant rate.
fn start_gaps(rate_per_s: f64) -> StartGaps {
    let gap = (1e6 / rate_per_s).round();
    StartGaps {
        intended: GapSummary {
            mean_us: gap,
            variation: 0.0,
            p50_us: gap,
            p99_us: gap,
            max_us: gap,
        },
        actual: GapSummary {
            mean_us: gap,
            variation: 0.02,
            p50_us: gap - 1.0,
            p99_us: gap + 35.0,
            max_us: gap + 110.0,
        },
    }
}

/// A load at a steady rate, with a little noise in each half second.
fn load_of(load: LoadInfo, rate: f64, failed_share: f64, noise: &mut Noise) -> Record {
    let duration_s = load.duration_s.unwrap_or(10.0);
    let slices = (duration_s * 2.0) as u64;
    let (p50, p99) = (
        load.connections as f64 / rate * 0.97e6,
        load.connections as f64 / rate * 1.9e6,
    );
    let series: Vec<HalfSecond> = (1..=slices)
        .map(|n| {
            let ok = (rate / 2.0 * noise.around(0.03)).round() as u64;
            HalfSecond {
                t_s: n as f64 / 2.0,
                ok,
                failed: (ok as f64 * failed_share / (1.0 - failed_share)).round() as u64,
                bytes_in: ok * 1_213,
                p50_us: p50.round(),
                p90_us: (p50 + (p99 - p50) * 0.4).round(),
                p99_us: p99.round(),
                times: [(0.7, 30), (1.0, 60), (1.6, 9), (1.9, 1)]
                    .map(|(factor, percent)| {
                        let ns = (p50 * factor * (1.0 + (n % 5) as f64 / 20.0) * 1e3) as u64;
                        (Nanos(ns), ok * percent / 100)
                    })
                    .to_vec(),
                ..HalfSecond::default()
            }
        })
        .collect();
    let ok: u64 = series.iter().map(|s| s.ok).sum();
    let failed: u64 = series.iter().map(|s| s.failed).sum();
    let (outcomes, status) = endings(ok, failed);
    Record {
        schema: RECORD_SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        started_at: "2026-01-01T00:00:00Z".to_owned(),
        seed: 7,
        totals: Totals {
            started: ok + failed,
            ok,
            failed,
            bytes_in: ok * 1_213,
            body_bytes_in: ok * 1_000,
            bytes_out: (ok + failed) * 74,
            connections_opened: 0,
            elapsed_s: duration_s,
            ..Totals::default()
        },
        outcomes,
        status,
        rate: Rates {
            ok_per_s: ok as f64 / duration_s,
            offered_per_s: load.rate_per_s,
            started_per_s: load.rate_per_s.map(|_| (ok + failed) as f64 / duration_s),
            bytes_in_per_s: (ok * 1_213) as f64 / duration_s,
        },
        response_time_us: times(p50, p99),
        service_time_us: times(p50, p99),
        first_byte_us: times(p50 * 0.98, p99 * 0.98),
        series,
        generator: Generator {
            cpu_user_s: ok as f64 * 3.1e-6,
            cpu_system_s: ok as f64 * 15.2e-6,
            busy_share: (ok as f64 * 18.3e-6 / duration_s).min(0.97),
            late_us: load
                .rate_per_s
                .map_or_else(Summary::default, |_| times(6.0, 41.0)),
            start_gaps: load.rate_per_s.map(start_gaps),
            max_rss_bytes: 12 << 20,
            ..Generator::default()
        },
        command: Some("prony load http://127.0.0.1:8080/ --duration 5s".to_owned()),
        machine: Some("Linux 6.1.0, 4 cores of a processor, 8.00 GiB".to_owned()),
        negotiated: Negotiated {
            http: Some("1.1".to_owned()),
            tls: load.tls.as_ref().map(|_| "TLSv1.3".to_owned()),
            cipher: load
                .tls
                .as_ref()
                .map(|_| "TLS_AES_128_GCM_SHA256".to_owned()),
            ..Negotiated::default()
        },
        load,
        ..Record::default()
    }
}

/// Requests by outcome and responses by status, for this number of successes and unexpected
/// statuses.
fn endings(ok: u64, failed: u64) -> (BTreeMap<Outcome, u64>, BTreeMap<u16, u64>) {
    let mut outcomes = BTreeMap::from([(Outcome::Ok, ok)]);
    let mut status = BTreeMap::from([(200, ok)]);
    if failed > 0 {
        outcomes.insert(Outcome::UnexpectedStatus, failed);
        status.insert(503, failed);
    }
    (outcomes, status)
}

fn failing(noise: &mut Noise) -> Record {
    let mut record = load_of(closed(64, 5.0), 3_120.0, 0.0, noise);
    let failures = [
        (Outcome::UnexpectedStatus, 411),
        (Outcome::Reset, 96),
        (Outcome::Truncated, 3),
        (Outcome::Timeout, 21),
        (Outcome::Unfinished, 12),
    ];
    record.outcomes.extend(failures);
    record.status.insert(503, 411);
    record.totals.failed = 531;
    record.totals.unfinished = 12;
    record.totals.started = record.totals.ok + 531 + 12;
    record.totals.censored = 33;
    record.totals.connections_opened = 181;
    record.totals.retried = 4;
    record.connect_time_us = times(60.0, 310.0);
    record.response_time_us.p99_9 = 2e6;
    record.response_time_us.max = 2e6;
    record.response_time_us.at_least = vec!["p99_9".to_owned(), "max".to_owned()];
    record.service_time_us.at_least = vec!["p99_9".to_owned(), "max".to_owned()];
    record.series[4].failed = 531;
    record.findings = vec![Finding::stored(
        FindingId::Errors,
        Severity::Error,
        "3.3% of the requests failed, most with status 503. Percentiles cover only successful \
         requests. Check the server's log.",
    )];
    record
}

/// A load whose rate rises beyond the capacity of the server.
fn profile(noise: &mut Noise) -> Record {
    let stage = |rate_per_s, length_s| RateStage {
        rate_per_s,
        length_s,
    };
    let load = LoadInfo {
        model: "open".to_owned(),
        stages: vec![stage(500.0, 0.0), stage(8_000.0, 15.0), stage(8_000.0, 5.0)],
        arrivals: Some("poisson".to_owned()),
        ..closed(128, 20.0)
    };
    let rate = load.rate_profile();
    let mut record = load_of(load, 4_900.0, 0.0, noise);
    record.rate.offered_per_s = Some(5_187.5);
    for slice in &mut record.series {
        let offered = rate
            .as_ref()
            .map(|it| it.mean_between(slice.t_s - 0.5, slice.t_s));
        let offered = offered.unwrap_or_default();
        slice.offered_per_s = Some(offered);
        slice.ok = (offered.min(6_500.0) / 2.0 * noise.around(0.02)).round() as u64;
        let waiting = 1.0 / (1.0 - (offered / 8_500.0));
        slice.p50_us = (400.0 * waiting).round();
        slice.p90_us = (700.0 * waiting).round();
        slice.p99_us = (1_500.0 * waiting * noise.around(0.05)).round();
    }
    let ok = record.series.iter().map(|slice| slice.ok).sum();
    (record.outcomes, record.status) = endings(ok, 0);
    (record.totals.ok, record.totals.started) = (ok, ok);
    record.rate.ok_per_s = ok as f64 / 20.0;
    record.rate.started_per_s = Some(record.rate.ok_per_s);
    record
}

/// A load of a list whose entries differ in their times and failures.
fn list(noise: &mut Noise) -> Record {
    let mut record = load_of(closed(16, 4.0), 2_400.0, 0.02, noise);
    record.load.urls = 310;
    let names = [
        ("GET /", 1, 0, 300.0),
        ("GET /users/{id}", 200, 0, 900.0),
        ("GET /users/{id}/posts", 100, 40, 2_300.0),
        ("GET /search", 5, 0, 18_000.0),
        ("POST /cart/items", 1, 120, 3_100.0),
        (
            "GET /a/path/that/is/long/enough/to/wrap/on/a/terminal",
            1,
            0,
            700.0,
        ),
        ("DELETE /cart/items/{id}", 1, 31, 1_200.0),
        ("GET /health", 1, 1, 150.0),
    ];
    let count = names.len() as u64;
    let (ok, failed) = (record.totals.ok, record.totals.failed);
    let listed: u64 = names.iter().map(|(_, _, failed, _)| failed).sum();
    let each =
        names.map(|(name, lines, failed, p50)| entry(name, lines, ok / (count + 1), failed, p50));
    let other = entry(
        "other",
        4,
        ok - count * (ok / (count + 1)),
        failed - listed,
        400.0,
    );
    record.entries = Some(EntryResults {
        grouping: EntryGrouping::Path,
        count: count + 4,
        each: each.to_vec(),
        other: Some(other),
    });
    record
}

fn entry(name: &str, lines: u64, ok: u64, failed: u64, p50: f64) -> EntryResult {
    EntryResult {
        name: name.to_owned(),
        lines,
        started: ok + failed,
        ok,
        failed,
        outcomes: endings(ok, failed).0,
        ok_per_s: ok as f64 / 4.0,
        bytes_in: ok * 1_213,
        bytes_out: (ok + failed) * 74,
        response_time_us: times(p50, p50 * 3.1),
        ..EntryResult::default()
    }
}

fn open(noise: &mut Noise) -> Record {
    let load = LoadInfo {
        model: "open".to_owned(),
        rate_per_s: Some(12_000.0),
        arrivals: Some("poisson".to_owned()),
        ..closed(128, 6.0)
    };
    let mut record = load_of(load, 9_650.0, 0.0, noise);
    record.response_time_us = times(410_000.0, 1_170_000.0);
    record.response_time_us.at_least = vec!["p99".to_owned(), "p99_9".to_owned(), "max".to_owned()];
    record.service_time_us = times(12_900.0, 24_000.0);
    record
        .outcomes
        .extend([(Outcome::Unfinished, 128), (Outcome::Unstarted, 13_830)]);
    record.totals.unfinished = 128;
    record.totals.unstarted = 13_830;
    record.totals.censored = 13_958;
    record.totals.started = record.totals.ok + 128;
    record.findings = vec![Finding::stored(
        FindingId::ScheduleMissed,
        Severity::Warning,
        "The load reached 80% of the offered rate: 13,830 requests were due but found no free \
         connection. The response times include their wait. Raise --connections, or lower --rate.",
    )];
    record
}
