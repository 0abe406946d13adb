//! Random servers against random loads in random slices. Each case depends only on its seed, and a
//! failure prints the seed.

use rand::SeedableRng;

use super::super::chaos::{fickle, random_load};
use super::*;

const CASES: u64 = 500;

fn up_to(random: &mut ChaCha8Rng, most: Nanos) -> Nanos {
    match random.random_range(0..4) {
        0 => Nanos::ZERO,
        _ => Nanos(random.random_range(0..=most.0)),
    }
}

fn random_turns(random: &mut ChaCha8Rng) -> Vec<Turn> {
    let mut from = up_to(random, ms(600));
    let turn = |number| {
        let slice = LoadSlice {
            from,
            settling: up_to(random, ms(100)).min(from),
            length: up_to(random, ms(400)),
        };
        from = slice.end();
        Turn {
            // The pause is long enough that real time is never behind the load's clock.
            pause: up_to(random, Nanos::from_secs(3))
                + if number == 0 {
                    slice.begin()
                } else {
                    Nanos::ZERO
                },
            slice,
        }
    };
    (0..10).map(turn).collect()
}

/// Runs one random load in slices against a server for each worker. The servers fail some of their
/// idle connections. Some loads are interrupted, and some generators are paused.
pub(in crate::engine::worker::tests) fn one_case(
    seed: u64,
    random_load: impl Fn(&mut ChaCha8Rng) -> (LoadSpec, u64),
    server: impl Fn(u64, u32) -> Box<dyn Server>,
) -> SlicedOutcomes {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (spec, workers) = random_load(&mut random);
    let turns = random_turns(&mut random);
    let badness = [0, 3, 30, 80][random.random_range(0..4)];
    let servers = (0..workers).map(|worker| -> Box<dyn Server> {
        Box::new(IdleFailingServer {
            server: server(seed * 16 + worker, badness),
            random: ChaCha8Rng::seed_from_u64(seed * 16 + worker),
            badness,
        })
    });
    let cost = Nanos([0, 0, 1_000, 100_000][random.random_range(0..4)]);
    let mut at = || Nanos(random.random_range(0..10_000_000_000));
    let (interrupt, stop) = (at(), at());
    let (is_interrupted, is_stopped) = (random.random_bool(0.2), random.random_bool(0.1));
    let control = Rc::new(Control::new(workers as u32));
    let (stopper, servers) = (control.clone(), servers.collect());
    let sliced = simulate_slices_with(&spec, servers, &turns, &control, |sockets| {
        let sockets = sockets.with_cost(cost);
        let sockets = if is_stopped {
            sockets.with_stop(stop, Nanos::from_secs(1))
        } else {
            sockets
        };
        if is_interrupted {
            sockets.with_interrupt(interrupt, stopper.clone())
        } else {
            sockets
        }
    });
    let mut workers = sliced.workers.iter();
    sliced.check(workers.all(|worker| worker.reports.len() == turns.len()));
    // A generator that was paused may handle events up to a second late.
    let timeout = spec.responses.timeout.unwrap() + Nanos::from_secs(2);
    assert!(sliced.reports().all(|report| report.drain <= timeout));
    sliced
}

#[test]
fn no_request_is_lost_or_hangs_in_slices() {
    let (mut complete, mut retried, mut drained) = (0, 0, 0);
    for seed in 0..CASES {
        let case = || one_case(seed, random_load, fickle);
        let sliced = std::panic::catch_unwind(case).unwrap_or_else(|_| panic!("seed {seed}"));
        complete += sliced
            .workers
            .iter()
            .filter(|it| it.reports.len() == 10)
            .count();
        retried += sliced.outcomes.record.totals.retried;
        drained += sliced
            .reports()
            .filter(|it| it.excess(&[]) > ms(100))
            .count();
    }
    assert!(
        complete > 100 && retried > 50 && drained > 50,
        "{complete} {retried} {drained}"
    );
}
