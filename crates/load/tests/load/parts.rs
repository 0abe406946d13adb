//! Tests of loads that are divided among several processes.

use std::time::{Duration, Instant};

use prony_load::{Control, LoadScope, RunError, ShardRange, run_at};
use prony_record::finding::ResolveUnused;
use prony_record::{FindingId, Record};

use crate::harness::{Served, options, resolve};

fn scope(first: u32, workers: u32, of: u32) -> LoadScope {
    LoadScope {
        shards: Some(ShardRange { first, workers, of }),
        permits: None,
        ..LoadScope::default()
    }
}

/// Runs the parts of a load in sequence. Their order doesn't matter.
fn parts(url: Option<&str>, words: &str, workers: &[u32]) -> Vec<Record> {
    let of = workers.iter().sum();
    let mut first = 0;
    let parts = workers.iter().map(|&workers| {
        let scope = scope(first, workers, of);
        first += workers;
        let words: Vec<_> = words.split_whitespace().collect();
        let spec = options(&words).resolve_within(url, &scope).unwrap();
        let begin = || Some(Instant::now());
        let loaded = run_at(&spec, &Control::new(workers), None, &begin).unwrap();
        assert!(loaded.first_start.is_some());
        loaded.record
    });
    parts.collect()
}

fn total(parts: &[Record], of: impl Fn(&Record) -> u64) -> u64 {
    parts.iter().map(of).sum()
}

#[test]
fn unused_entries_of_resolve_are_named_before_the_load() {
    let named = |words: &str| {
        let words: Vec<_> = words.split_whitespace().collect();
        let spec = resolve("http://a.test:81/", &words).unwrap();
        let mut findings = spec.forecast().iter();
        let unused = findings.find(|it| it.id == FindingId::ResolveUnused);
        unused.map(|it| it.figures::<ResolveUnused>().unwrap().entries)
    };
    let used = "--resolve A.test:81:127.0.0.1";
    assert_eq!(named(used), None);
    let other_port = "a.test:80:127.0.0.1";
    let shadowed = "a.test:81:127.0.0.2";
    let entries = named(&format!(
        "{used} --resolve {other_port} --resolve {shadowed}"
    ));
    assert_eq!(entries.unwrap(), [other_port, shadowed]);
    // A redirect may lead to the other port.
    assert_eq!(
        named(&format!("{used} --resolve {other_port} --follow 1")),
        None
    );
    let proxied = "--proxy p.test:82 --resolve p.test:82:127.0.0.1";
    assert_eq!(named(&format!("{used} {proxied}")), None);
}

#[test]
fn requests_and_connections_are_divided_exactly() {
    let served = Served::clear();
    let url = served.url("/");
    for (workers, requests) in [(vec![1, 2], 1001), (vec![3], 7), (vec![1; 5], 9)] {
        let words = format!("-c 7 -n {requests}");
        let parts = parts(Some(&url), &words, &workers);
        assert_eq!(total(&parts, |it| it.totals.ok), requests);
        assert!(total(&parts, |it| it.totals.connections_opened) <= 7);
        // A part's findings refer to its own connections.
        assert_eq!(total(&parts, |it| it.load.connections.into()), 7);
    }
}

#[test]
fn each_arrival_of_an_open_loop_belongs_to_one_part() {
    let served = Served::clear();
    let url = served.url("/");
    for arrivals in ["constant", "poisson"] {
        let words = format!("-c 6 -r 2000 -n 401 --arrivals {arrivals}");
        let parts = parts(Some(&url), &words, &[2, 1, 2]);
        assert_eq!(total(&parts, |it| it.totals.ok), 401);
        // Requests are assigned to the workers in turn.
        let each: Vec<u64> = parts.iter().map(|it| it.totals.ok).collect();
        assert_eq!(each, [161, 80, 160], "{each:?}");
        let rates: Vec<_> = parts.iter().map(|it| it.load.rate_per_s).collect();
        assert_eq!(rates, [Some(800.0), Some(400.0), Some(800.0)]);
    }
}

#[test]
fn a_list_is_requested_as_by_one_client() {
    let served = Served::clear();
    let list = served.folder.path().join("urls");
    let lines: Vec<String> = (0..10)
        .map(|n| served.url(&format!("/bytes/{n}")))
        .collect();
    std::fs::write(&list, lines.join("\n")).unwrap();
    let words = format!("-c 4 -n 50 --urls {}", list.display());
    let parts = parts(None, &words, &[1, 2, 1]);
    assert_eq!(total(&parts, |it| it.totals.body_bytes_in), 5 * 45);
}

#[test]
fn each_part_uses_all_of_its_addresses() {
    let served = Served::clear();
    let url = served.url("/");
    let words = "-c 12 -n 240 --source 127.0.0.2-127.0.0.5";
    for workers in [vec![1; 4], vec![2, 2], vec![2, 1, 1]] {
        for part in parts(Some(&url), words, &workers) {
            let sources = part.sources.unwrap();
            let each = sources.each.iter().map(|it| it.address.to_string());
            let addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];
            let most = part.totals.connections_opened.min(4) as usize;
            assert_eq!(each.collect::<Vec<_>>(), addresses[..most], "{workers:?}");
        }
    }
}

#[test]
fn a_load_begins_at_the_given_time() {
    let served = Served::clear();
    let spec = resolve(&served.url("/"), &["-n", "5", "-c", "1"]).unwrap();
    let moment = Instant::now() + Duration::from_millis(200);
    let loaded = run_at(&spec, &Control::new(1), None, &|| Some(moment)).unwrap();
    assert!(Instant::now() > moment);
    assert_eq!(loaded.record.totals.ok, 5);
    let off = run_at(&spec, &Control::new(1), None, &|| None);
    assert!(matches!(off, Err(RunError::Canceled)));
}

#[test]
fn an_invalid_part_is_refused() {
    let served = Served::clear();
    for (first, workers, of) in [(0, 0, 1), (1, 1, 1), (0, 8, 8), (u32::MAX, 2, 4)] {
        let scope = scope(first, workers, of);
        let options = options(&["-c", "7"]);
        let url = served.url("/");
        let error = options.resolve_within(Some(&url), &scope).err();
        assert!(error.unwrap().to_string().contains("--connections 7"));
    }
}
