use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::*;

const SLICE: LoadSlice = LoadSlice {
    from: Nanos(30),
    settling: Nanos(10),
    length: Nanos(100),
};

fn slice_from(from: u64) -> LoadSlice {
    LoadSlice {
        from: Nanos(from),
        ..SLICE
    }
}

/// Simulates a worker that takes part in each slice until the load ends. Returns the worker's
/// slices and the time at which the load ended.
fn work(slices: &Slices, report: SliceReport) -> (Vec<LoadSlice>, Nanos) {
    let _end = EndOnDrop(slices);
    let (mut last, mut done) = (0, Vec::new());
    loop {
        match slices.next(last) {
            Err(end) => return (done, end),
            Ok(current) => {
                assert_eq!(current.number, last + 1);
                last = current.number;
                done.push(current.slice);
                slices.ended(report);
            }
        }
    }
}

fn report(ok: u64, drain: u64) -> SliceReport {
    SliceReport {
        ok,
        ended: ok,
        drain: Nanos(drain),
        ..SliceReport::default()
    }
}

#[test]
fn each_worker_does_each_slice_once_and_the_reports_add_up() {
    let slices = Slices::default();
    thread::scope(|scope| {
        let workers = [report(1, 7), report(10, 5), report(100, 6)];
        let workers = workers.map(|it| {
            scope.spawn({
                let slices = &slices;
                move || work(slices, it)
            })
        });
        assert!(slices.wait_ready(3));
        let all: Vec<_> = (0..50)
            .map(|number| slice_from(30 + 100 * number))
            .collect();
        for slice in &all {
            assert_eq!(slices.run(*slice, 3), Some(report(111, 7)));
        }
        slices.end(Nanos(9_000));
        for worker in workers {
            assert_eq!(worker.join().unwrap(), (all.clone(), Nanos(9_000)));
        }
    });
    assert_eq!(slices.run(SLICE, 3), None);
    assert!(!slices.wait_ready(3));
}

#[test]
fn loads_take_turns() {
    let (one, other) = (Slices::default(), Slices::default());
    thread::scope(|scope| {
        scope.spawn(|| work(&one, report(1, 0)));
        scope.spawn(|| work(&other, report(2, 0)));
        for number in 0..50 {
            let slice = slice_from(30 + 100 * number);
            assert_eq!(one.run(slice, 1), Some(report(1, 0)));
            assert_eq!(other.run(slice, 1), Some(report(2, 0)));
        }
        one.end(Nanos(1));
        other.end(Nanos(1));
    });
}

#[test]
fn a_worker_that_fails_or_panics_ends_the_load_for_all() {
    for panics in [false, true] {
        let slices = Slices::default();
        thread::scope(|scope| {
            let good = scope.spawn(|| work(&slices, report(1, 0)));
            let bad = scope.spawn(|| {
                let part = || {
                    let _end = EndOnDrop(&slices);
                    let first = slices.next(0).unwrap();
                    slices.ended(report(1, 0));
                    slices.next(first.number).unwrap();
                    assert!(!panics, "a worker panics");
                };
                catch_unwind(AssertUnwindSafe(part)).is_err()
            });
            assert_eq!(slices.run(SLICE, 2), Some(report(2, 0)));
            assert_eq!(slices.run(slice_from(130), 2), None);
            assert_eq!(slices.run(slice_from(230), 2), None);
            assert_eq!(bad.join().unwrap(), panics);
            let (_, end) = good.join().unwrap();
            assert_eq!(end, Nanos(230));
        });
    }
}

#[test]
fn a_load_that_fails_before_its_first_slice_ends() {
    let slices = Slices::default();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| slices.wait_ready(2));
        let running = scope.spawn(|| slices.run(SLICE, 2));
        let one = scope.spawn(|| work(&slices, report(1, 0)));
        drop(EndOnDrop(&slices));
        assert!(!waiting.join().unwrap());
        assert_eq!(running.join().unwrap(), None);
        assert_eq!(one.join().unwrap(), (Vec::new(), Nanos::ZERO));
    });
}

#[test]
fn a_load_may_end_while_it_is_paused_and_ends_once() {
    let slices = Slices::default();
    thread::scope(|scope| {
        let worker = scope.spawn(|| work(&slices, report(1, 0)));
        assert_eq!(slices.run(SLICE, 1), Some(report(1, 0)));
        assert!(slices.wait_ready(1));
        slices.end(SLICE.end());
        slices.end(Nanos(9_000));
        assert_eq!(worker.join().unwrap(), (vec![SLICE], SLICE.end()));
    });
}

#[test]
fn only_the_part_of_a_drain_beyond_the_usual_length_is_excess() {
    let report = |drain, p99| SliceReport {
        drain: Nanos(drain),
        p99: Nanos(p99),
        ..SliceReport::default()
    };
    assert_eq!(report(500, 20).excess(&[]), Nanos(480));
    assert_eq!(report(19, 20).excess(&[]), Nanos::ZERO);
    // Without any response, the length of a normal drain is unknown.
    assert_eq!(report(500, 0).excess(&[]), Nanos::ZERO);
    // If a server freezes often, the p99 is high but most drains are short.
    let earlier = [4, 900, 3, 5, 800].map(Nanos);
    assert_eq!(report(1_000, 950).excess(&earlier), Nanos(985));
    assert_eq!(report(1_000, 950).excess(&earlier[..4]), Nanos(50));
    assert_eq!(report(14, 950).excess(&earlier), Nanos::ZERO);
}
