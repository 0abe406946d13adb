//! Tests of loads that take turns against one origin.

use std::thread;

use prony_load::{Control, LoadSlice, SliceReport, Slices, run_in_slices};
use prony_record::{Nanos, Record};

use crate::harness::{Served, options, resolve, text};

const SETTLING: Nanos = Nanos::from_millis(5);
const LENGTH: Nanos = Nanos::from_millis(30);
const ROUNDS: u64 = 6;

/// The record of a load, and the reports of its slices.
type SlicedRecord = (Record, Vec<SliceReport>);

/// Runs two loads that take turns, with these flags and two workers each.
fn alternate(url: &str, words: [&str; 2], more: &[&str]) -> [SlicedRecord; 2] {
    let specs = words.map(|words| {
        let both = ["-t", "2", "--warmup", "5ms"].into_iter();
        let words: Vec<_> = both
            .chain(words.split(' '))
            .chain(more.iter().copied())
            .collect();
        let mut spec = resolve(url, &words).unwrap();
        spec.open_before_start();
        spec
    });
    let slices = [Slices::default(), Slices::default()];
    thread::scope(|scope| {
        let running = [0, 1].map(|load| {
            let (spec, slices) = (&specs[load], &slices[load]);
            scope.spawn(move || run_in_slices(spec, &Control::new(2), slices).unwrap())
        });
        let mut reports = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let slice = LoadSlice {
                from: SETTLING + Nanos(LENGTH.0 * round),
                settling: SETTLING,
                length: LENGTH,
            };
            for (slices, reports) in slices.iter().zip(&mut reports) {
                reports.push(slices.run(slice, 2).unwrap());
            }
        }
        for slices in &slices {
            slices.end(SETTLING + Nanos(LENGTH.0 * ROUNDS));
        }
        let [one, other] = running.map(|load| load.join().unwrap());
        let [first, second] = reports;
        [(one, first), (other, second)]
    })
}

#[test]
fn all_requests_of_two_alternating_loads_are_accounted_for() {
    for served in [Served::clear(), Served::secured()] {
        let ca = served.ca();
        let trusted: &[&str] = match served.origin.certificate_pem() {
            Some(_) => &["--ca", text(&ca)],
            None => &[],
        };
        for words in [
            ["-c 4", "-c 8 --http 1.1"],
            [
                "-c 4 --http 2 --streams 4",
                "-c 4 --http 1.1 --no-keepalive",
            ],
            ["-c 40 -r 2000", "-c 40 -r 1000 --arrivals poisson"],
        ] {
            let before = served.origin.requests();
            let mut ended = 0;
            for (record, reports) in alternate(&served.url("/"), words, trusted) {
                let totals = &record.totals;
                let sum = |of: fn(&SliceReport) -> u64| reports.iter().map(of).sum::<u64>();
                assert_eq!((totals.failed, totals.unfinished), (0, 0), "{words:?}");
                assert_eq!((sum(|it| it.ok), totals.started), (totals.ok, totals.ok));
                assert_eq!(totals.elapsed_s, 0.18, "{words:?}");
                ended += sum(|it| it.ended) + totals.retried;
            }
            assert_eq!(served.origin.requests() - before, ended, "{words:?}");
        }
    }
}

#[test]
fn a_load_in_slices_has_no_number_of_requests() {
    let slices = Slices::default();
    let spec = options(&["-n", "5", "-c", "1"]).resolve(Some("http://127.0.0.1:1/"));
    let result = run_in_slices(&spec.unwrap(), &Control::new(1), &slices);
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("number of requests")
    );
    assert!(!slices.wait_ready(1));
}
