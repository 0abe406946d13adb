//! Loads of as many workers as a large machine has cores.

use super::*;
use crate::engine::worker::WorkerResult;

const WORKERS: u64 = 64;

/// Runs a load with one simulated server per worker, which all respond after `service`, and calls
/// `after_worker` when a worker has ended.
fn workers_of(
    spec: &LoadSpec,
    control: &Control,
    service: Nanos,
    mut after_worker: impl FnMut(u64),
) -> Vec<WorkerResult> {
    let workers = (0..WORKERS).map(|worker| {
        let shard = Shard {
            worker,
            of: WORKERS,
        };
        let slots = spec.connections_max(shard) as usize;
        let sockets = SimulatedSockets::new(slots, steady(service, OK));
        let counter = control.counter(worker as usize).unwrap();
        let result = Worker::new(spec, shard, ByteTransport(sockets)).run(control, counter);
        after_worker(worker);
        result
    });
    workers.collect()
}

#[test]
fn sixty_four_workers_publish_what_their_records_add_up_to() {
    // Each worker has two of 128 connections and a 64th of the rate: 50 requests per second.
    let spec = spec("-r 3200 -c 128 -d 10s");
    let control = Control::new(WORKERS as u32);
    control.watch();
    let mut taken = control.take();
    // A reader collects what every eighth worker has left behind, while others have yet to run.
    let worked = workers_of(&spec, &control, ms(3), |worker| {
        if worker % 8 == 0 {
            taken.merge(&control.take());
        }
    });
    taken.merge(&control.take());

    let record = merge(&spec, worked, SystemTime::UNIX_EPOCH).unwrap().record;
    assert_eq!(record.totals.started, 32_000);
    assert_eq!(taken.started, 32_000);
    for outcome in [Outcome::Ok, Outcome::Unfinished] {
        assert_eq!(taken.outcomes.get(outcome), record.outcomes[&outcome]);
    }
    assert_eq!(control.so_far().started, 32_000);
    assert_eq!(control.complete_until(), Nanos::from_secs(10));
    // The last request of some workers is in flight at the end.
    assert!(
        control
            .ended_by_worker()
            .all(|ended| ended == 499 || ended == 500)
    );
}
