//! Tests request slots without connections.

use super::*;
use crate::engine::worker::pace::{LoadCourse, pace};
use crate::engine::worker::tests::spec;

fn dispatcher(words: &str) -> Dispatcher<'static> {
    let spec = spec(words);
    let shard = spec.shard(0);
    let (pace, _) = pace(&spec, shard, Nanos::MAX, LoadCourse::Whole);
    Dispatcher::new(&spec, shard, pace)
}

/// Returns the counts of waiting, in-flight, deferred and parked slots.
fn counts(dispatcher: &Dispatcher<'_>, connection: u32) -> [u32; 4] {
    let occupancy = dispatcher.occupancy(connection);
    [
        occupancy.waiting,
        occupancy.in_flight,
        occupancy.deferred,
        occupancy.parked,
    ]
}

#[test]
fn a_request_is_counted_in_one_phase_at_a_time() {
    let mut dispatcher = dispatcher("-c 1");
    let now = Nanos(5);
    dispatcher.begin(0, 0, now, now);
    assert_eq!(counts(&dispatcher, 0), [1, 0, 0, 0]);
    dispatcher.set_in_flight(0, 100, now);
    assert_eq!(counts(&dispatcher, 0), [0, 1, 0, 0]);
    dispatcher.requeue(0, true);
    assert_eq!(counts(&dispatcher, 0), [1, 0, 0, 0]);
    dispatcher.defer_until_idle(0);
    assert_eq!(counts(&dispatcher, 0), [0, 0, 1, 0]);
    dispatcher.end_deferral(0);
    let (pending, own) = dispatcher.end(0).unwrap();
    assert!(pending.retried && pending.bytes_out == 100 && own.is_none());
    assert_eq!(
        (counts(&dispatcher, 0), dispatcher.pending_count),
        ([0; 4], 0)
    );
    assert!(dispatcher.end(0).is_none());
    dispatcher.park(0);
    assert_eq!(counts(&dispatcher, 0), [0, 0, 0, 1]);
    dispatcher.unpark(0, now);
    assert_eq!(counts(&dispatcher, 0), [0; 4]);
    assert!(dispatcher.has_free_slot());
}

#[test]
fn idle_slots_move_to_the_successor() {
    let mut dispatcher = dispatcher("-c 2 --http 2 --streams 4");
    let now = Nanos(5);
    assert_eq!(dispatcher.slots_of(1), 4..8);
    let successor = dispatcher.successor(1).unwrap();
    assert_eq!(dispatcher.successor(successor), Some(1));
    assert_eq!(dispatcher.slots_of(successor), 4..8);
    for slot in 4..7 {
        dispatcher.begin(slot, 0, now, now);
    }
    dispatcher.set_in_flight(4, 1, now);
    dispatcher.defer_until_idle(5);
    dispatcher.park(7);
    dispatcher.move_to_successor(1, successor);
    assert_eq!(counts(&dispatcher, 1), [0, 1, 0, 0]);
    assert_eq!(counts(&dispatcher, successor), [1, 0, 1, 1]);
    assert_eq!(dispatcher.first_waiting(successor), Some(6));
    assert!(dispatcher.is_in_flight_on(4, 1));
}
