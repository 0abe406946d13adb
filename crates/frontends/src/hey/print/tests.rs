//! Tests of hey's output, with made-up results.

use prony_record::{Exchange, Outcome};

use super::*;

/// Returns the data of ten responses after 10, 20, … 100 ms, the first of which used a new
/// connection.
fn noted() -> CollectedRequests {
    let mut noted = CollectedRequests::default();
    for n in 1..=10 {
        let exchange = Exchange {
            intended: Nanos::from_millis(1000 * n),
            sent: Nanos::from_millis(1000 * n + 2),
            first_byte: Some(Nanos::from_millis(1000 * n + 9 * n)),
            ended: Nanos::from_millis(1000 * n + 10 * n),
            status: Some(if n < 10 { 200 } else { 404 }),
            bytes_in: 100,
            body_bytes_in: 13,
            bytes_out: 50,
            is_settling: false,
            entry: 0,
        };
        let dial = Nanos::from_millis(if n == 1 { 4 } else { 0 });
        noted.response(&exchange, dial, true);
    }
    noted
}

/// Returns the distribution of times in milliseconds, each with its count.
fn spread(times: impl IntoIterator<Item = (u64, u64)>) -> Distribution {
    let mut spread = Distribution::new();
    for (ms, count) in times {
        spread.record_many(Nanos::from_millis(ms), count);
    }
    spread
}

fn results() -> HeyResults {
    HeyResults {
        total_s: 11.5,
        noted: noted(),
        times: spread((1..=10).map(|n| (10 * n, 1))),
        statuses: BTreeMap::from([(200, 9), (404, 1)]),
        failures: BTreeMap::new(),
    }
}

#[test]
fn the_summary_is_heys_to_the_byte() {
    assert_eq!(results().summary(), include_str!("summary.txt"));
}

#[test]
fn failures_stand_at_the_end() {
    let mut results = results();
    results.failures.insert("Get \"U\": EOF".to_owned(), 2);
    let summary = results.summary();
    let end = "[404]\t1 responses\n\nError distribution:\n  [2]\tGet \"U\": EOF\n\n";
    assert!(summary.ends_with(end), "{summary}");
    // Failed requests are counted: 12 requests in 11.5 s.
    assert!(summary.contains("  Requests/sec:\t1.0435\n"), "{summary}");
    assert!(summary.contains("  Average:\t0.0550 secs\n"), "{summary}");
}

#[test]
fn without_a_response_there_is_no_average() {
    let mut noted = CollectedRequests::default();
    noted.failures.insert((Outcome::ClosedEarly, None), 3);
    let results = HeyResults {
        total_s: 1.5,
        noted,
        failures: BTreeMap::from([("EOF".to_owned(), 3)]),
        ..HeyResults::default()
    };
    let summary = results.summary();
    for lines in [
        "  Fastest:\t0.0000 secs\n  Average:\t NaN secs\n  Requests/sec:\t2.0000\n  \n\nResponse",
        "histogram:\n\n\nLatency distribution:\n\nDetails",
        "  DNS+dialup:\t NaN secs, 0.0000 secs, 0.0000 secs\n",
        "Status code distribution:\n\nError distribution:\n  [3]\tEOF\n\n",
    ] {
        assert!(summary.contains(lines), "{lines:?} in {summary}");
    }
}

#[test]
fn equal_times_are_all_the_fastest() {
    let mut noted = CollectedRequests::default();
    let exchange = Exchange {
        intended: Nanos::ZERO,
        sent: Nanos::ZERO,
        first_byte: None,
        ended: Nanos::from_millis(7),
        status: Some(200),
        bytes_in: 0,
        body_bytes_in: 0,
        bytes_out: 0,
        is_settling: false,
        entry: 0,
    };
    for _ in 0..3 {
        noted.response(&exchange, Nanos::ZERO, false);
    }
    let results = HeyResults {
        total_s: 1.0,
        noted,
        times: spread([(7, 3)]),
        ..HeyResults::default()
    };
    let summary = results.summary();
    assert!(summary.contains("  0.007 [3]\t|■"), "{summary}");
    assert_eq!(
        summary.matches("  0.007 [0]\t|\n").count(),
        BARS,
        "{summary}"
    );
    assert!(summary.contains("  99% in 0.0070 secs\n"), "{summary}");
    assert!(!summary.contains("Total data"), "{summary}");
}

#[test]
fn the_histogram_contains_every_response() {
    let mut results = results();
    // The fastest request shares its histogram bucket with four others.
    results.times.record_many(Nanos::from_millis(10), 4);
    for _ in 0..4 {
        results.noted.response.add(Nanos::from_millis(10));
    }
    let summary = results.summary();
    let lines = summary.lines().filter(|line| line.contains("]\t|"));
    let count = |line: &str| line[line.find('[')? + 1..line.find(']')?].parse().ok();
    let counts: Vec<u64> = lines.filter_map(count).collect();
    assert_eq!(counts[..2], [1, 4]);
    assert_eq!(counts.iter().sum::<u64>(), 14);
}

#[test]
fn csv_has_a_line_for_each_response() {
    let mut csv = Vec::new();
    results().write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset"
    );
    assert_eq!(
        lines[1],
        "0.0100,0.0040,0.0000,0.0000,0.0070,0.0010,200,1.0000"
    );
    assert_eq!(
        lines[10],
        "0.1000,0.0000,0.0000,0.0000,0.0880,0.0100,404,10.0000"
    );
    assert_eq!(lines.len(), 11);
}

#[test]
fn the_timeline_starts_at_zero() {
    let slice = |t_s, ok, failed| HalfSecond {
        t_s,
        ok,
        failed,
        bytes_in: 0,
        ..HalfSecond::default()
    };
    let pairs = timeline(&[slice(0.5, 51, 0), slice(0.765, 100, 2)]);
    assert_eq!(pairs, "[\n[0.0000, 0],\n[0.5000, 51],\n[0.7650, 102]\n]\n");
}
