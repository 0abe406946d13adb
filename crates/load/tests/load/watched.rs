//! Tests of observing and controlling a load from other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prony_load::{Control, run, run_with};
use prony_record::Delta;

use crate::harness::{Served, resolve};

#[test]
fn deltas_taken_during_a_load_add_up_to_its_record() {
    let served = Served::clear();
    for words in [
        "-t 2 -c 4 -d 1300ms --warmup 200ms",
        "-t 2 -c 4 -d 1300ms -r 900 --arrivals poisson",
        "-t 2 -c 4 -d 700ms --no-keepalive",
    ] {
        let spec = resolve(&served.url("/"), &words.split(' ').collect::<Vec<_>>()).unwrap();
        let control = Control::new(2);
        control.watch();
        let done = AtomicBool::new(false);
        let (loaded, mut sum) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut sum = Delta::default();
                while !done.load(Ordering::Acquire) {
                    sum.merge(&control.take());
                    std::thread::sleep(Duration::from_millis(30));
                }
                sum
            });
            let loaded = run_with(&spec, &control, None).unwrap();
            done.store(true, Ordering::Release);
            (loaded, watcher.join().unwrap())
        });
        sum.merge(&control.take());
        assert!(loaded.record.totals.ok > 0, "{words}");
        assert_eq!(&sum, loaded.recorder.total(), "{words}");
        sum.drop_series();
        assert_eq!(control.so_far(), sum, "{words}");
        assert_eq!(control.take(), Delta::default());
        let utilizations = control.utilizations();
        assert_eq!(utilizations.len(), 2);
        let busiest = utilizations
            .iter()
            .map(|it| it.busy_share)
            .fold(0.0, f64::max);
        assert!((busiest - loaded.record.generator.busy_share).abs() < 1e-4);
        let (all, _) = control.counts();
        assert_eq!(control.ended_by_worker().sum::<u64>(), all);
    }
}

#[test]
fn watching_is_off_by_default() {
    let served = Served::clear();
    let spec = resolve(&served.url("/"), &["-n", "10", "-c", "1"]).unwrap();
    let control = Control::new(1);
    let record = run(&spec, &control).unwrap();
    assert_eq!((record.totals.ok, control.counts()), (10, (10, 0)));
    assert_eq!(control.so_far(), Delta::default());
    assert!(control.utilizations().is_empty() && control.findings(spec.info()).is_empty());
}
