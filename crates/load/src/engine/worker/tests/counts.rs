//! Tests of the number of requests, of the measured requests, and of the order of requests.

use std::collections::BTreeMap;

use prony_record::{FindingId, Outcome};

use super::*;

/// Creates a load spec with a list of URLs that have different paths.
fn listed(words: &str, lines: &str) -> LoadSpec {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("urls.txt");
    std::fs::write(&file, lines).unwrap();
    spec(&format!("{words} --urls {}", file.display()))
}

/// Returns the requested paths in order, worker by worker.
fn request(outcomes: &Outcomes) -> Vec<String> {
    let path = |bytes: &Vec<u8>| {
        let line = String::from_utf8_lossy(bytes).into_owned();
        line.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    outcomes
        .logs
        .iter()
        .flat_map(|log| {
            let log = log.borrow();
            log.requests
                .iter()
                .map(|(_, b)| path(b))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn tally(paths: &[String]) -> BTreeMap<&str, usize> {
    let mut tally = BTreeMap::new();
    for path in paths {
        *tally.entry(path.as_str()).or_default() += 1;
    }
    tally
}

#[test]
fn a_request_count_is_exact_for_any_number_of_workers_and_connections() {
    for (n, connections, workers) in [(1, 50, 1), (7, 3, 3), (100, 8, 3), (1000, 64, 5), (2, 5, 5)]
    {
        let spec = spec(&format!("-n {n} -c {connections}"));
        let servers = (0..workers).map(|_| steady(ms(1), OK)).collect();
        let outcomes = simulate(&spec, servers);
        assert_eq!(
            outcomes.all(),
            [(Outcome::Ok, n)],
            "{n} {connections} {workers}"
        );
        let sent: usize = outcomes
            .logs
            .iter()
            .map(|log| log.borrow().requests.len())
            .sum();
        assert_eq!(sent as u64, n);
    }
}

#[test]
fn a_request_count_ends_an_open_loop_early() {
    let spec = spec("-n 31 -r 1000 -c 4 -d 10s");
    let outcomes = simulate(&spec, vec![steady(ms(1), OK), steady(ms(1), OK)]);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 31)]);
    assert!(outcomes.record.totals.elapsed_s < 0.1);
}

#[test]
fn a_request_count_excludes_the_warm_up() {
    // Each of the four connections completes a request every 10 ms. The warm-up of 45 ms ends
    // during the fifth round.
    let outcomes = load("-n 100 -c 4 --warmup 45ms", steady(ms(10), OK));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    assert_eq!(outcomes.logs[0].borrow().requests.len(), 100 + 4 * 5);
    let outcomes = load("-n 100 -r 1000 -c 4 --warmup 45ms", steady(ms(1), OK));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    assert_eq!(outcomes.logs[0].borrow().requests.len(), 145);
}

#[test]
fn a_timed_closed_loop_measures_requests_that_end_after_the_warm_up() {
    // Rounds end at 10, 20, … ms. All requests of the rounds that end at 50 to 140 ms are measured.
    // The round in flight at 145 ms is unfinished.
    let outcomes = load("-d 100ms -c 4 --warmup 45ms", steady(ms(10), OK));
    assert_eq!(
        outcomes.all(),
        [(Outcome::Ok, 40), (Outcome::Unfinished, 4)]
    );
    assert_eq!(outcomes.record.totals.elapsed_s, 0.1);
    assert_eq!(outcomes.record.rate.ok_per_s, 400.0);
    assert_eq!(outcomes.record.totals.connections_opened, 0);
}

#[test]
fn a_timed_open_loop_measures_requests_due_after_the_warm_up() {
    let outcomes = load("-d 100ms -r 1000 -c 4 --warmup 45ms", steady(ms(10), OK));
    // The server handles 400 requests per second. The 45 requests that were due in the warm-up keep
    // the server busy, but are not measured.
    let totals = &outcomes.record.totals;
    assert_eq!(totals.started + totals.unstarted, 100);
    assert_eq!(outcomes.record.rate.offered_per_s, Some(1000.0));
    assert_eq!(totals.unfinished, 4);
    // 14 rounds of four requests completed within 145 ms. 45 of those requests were due in the
    // warm-up.
    assert_eq!(totals.ok, 14 * 4 - 45);
}

#[test]
fn a_list_is_requested_in_order_for_any_number_of_workers() {
    let lines = "/a\n/b\n/c\n/d\n/e\n";
    for workers in [1, 2, 3, 5] {
        for (words, n) in [("-n 10 -c 5", 10), ("-n 12 -c 5 -r 1000", 12)] {
            let spec = listed(words, lines);
            let servers = (0..workers).map(|_| steady(ms(1), OK)).collect();
            let outcomes = simulate(&spec, servers);
            let paths = request(&outcomes);
            assert_eq!(paths.len(), n);
            let extra = |path: &str| usize::from(n == 12 && (path == "/a" || path == "/b"));
            for (path, count) in tally(&paths) {
                assert_eq!(count, 2 + extra(path), "{path} {workers} {words}");
            }
        }
    }
}

#[test]
fn random_order_is_reproducible_by_seed_and_uniform() {
    let run = |seed: u64| {
        let words = format!("-n 3000 -c 1 --order random --seed {seed}");
        request(&simulate(
            &listed(&words, "/a\n/b\n/c\n"),
            vec![steady(ms(1), OK)],
        ))
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    for (path, count) in tally(&first) {
        // The expected count is 1000 with a standard deviation of 26. The bounds are six standard
        // deviations away. The seed is fixed.
        assert!((845..1155).contains(&count), "{path} {count}");
    }
}

#[test]
fn several_targets_keep_their_connections() {
    let lines = "http://127.0.0.1:1/a\nhttp://127.0.0.1:2/b\nhttp://127.0.0.1:3/c\n";
    let spec = listed("-n 300 -c 6", lines);
    let outcomes = simulate(&spec, vec![steady(ms(1), OK)]);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 300)]);
    // There are six slots and three targets, so slots switch a few times until each keeps its
    // target.
    assert!(outcomes.connects() <= 12, "{}", outcomes.connects());
}

#[test]
fn methods_and_bodies_of_a_list_are_sent() {
    let spec = listed("-n 3 -c 1 -X PUT --body flag", "/a\n/b POST x=1\n/c HEAD\n");
    let outcomes = simulate(&spec, vec![steady(ms(1), OK)]);
    let log = outcomes.logs[0].borrow();
    let text: Vec<_> = log
        .requests
        .iter()
        .map(|(_, b)| String::from_utf8_lossy(b))
        .collect();
    assert!(text[0].starts_with("PUT /a ") && text[0].ends_with("\r\n\r\nflag"));
    assert!(text[1].starts_with("POST /b ") && text[1].ends_with("\r\n\r\nx=1"));
    assert!(text[2].starts_with("HEAD /c ") && text[2].ends_with("\r\n\r\n"));
}

#[test]
fn a_stopped_load_returns_its_results() {
    let control = Rc::new(Control::new(1));
    let stopper = control.clone();
    let server = responding(move |request| {
        if request.now >= ms(500) {
            stopper.stop();
        }
        reply([(ms(10), Step::Send(OK.to_vec()))])
    });
    let outcomes = simulate_costly(&spec("-d 60s -c 2"), vec![server], Nanos::ZERO, &control);
    let totals = &outcomes.record.totals;
    assert_eq!((totals.ok, totals.unfinished), (100, 2));
    assert_eq!(totals.elapsed_s, 0.5);
    assert_eq!(outcomes.record.rate.ok_per_s, 200.0);
}

#[test]
fn a_load_stopped_in_its_warm_up_returns_a_record_of_zeros() {
    for words in ["-d 1s -c 2 --warmup 1s", "-d 1s -c 2 --warmup 1s -r 100"] {
        let control = Control::new(1);
        control.stop();
        let server = vec![steady(ms(1), OK)];
        let record = simulate_costly(&spec(words), server, Nanos::ZERO, &control).record;
        assert_eq!(record.totals.started, 0);
        assert_eq!(record.totals.elapsed_s, 0.0);
        let json = record.to_json();
        // NaN becomes null in JSON. No other value is null.
        let read = prony_record::Record::from_json(&json).unwrap();
        assert_eq!(read, record);
        assert_eq!(record.rate.ok_per_s, 0.0);
        assert!(record.findings.is_empty(), "{:?}", record.findings);
    }
}

#[test]
fn failure_reasons_are_counted_with_their_failures() {
    let spec = spec("-d 100ms -c 1 --warmup 45ms");
    let outcomes = simulate(&spec, vec![steady(ms(10), b"SSH-2.0\r\n")]);
    assert_eq!(outcomes.count(Outcome::Protocol), 10);
    let findings = &outcomes.record.findings;
    let errors = findings.iter().find(|f| f.id == FindingId::Errors).unwrap();
    assert!(errors.text.contains("(10×)"), "{}", errors.text);
}
