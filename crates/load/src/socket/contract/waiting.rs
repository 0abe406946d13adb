//! Rules about waiting, and about the clock.

use super::*;

/// Tests that a coalesced wait ends and loses no completion, for any batch size and time.
pub(super) fn a_coalesced_wait_ends<S: ByteSockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peers: Vec<Socket> = (0..3)
        .map(|index| connected(&mut sockets, &listener, key(index, 1)))
        .collect();
    let hour = Nanos::from_secs(3_600);
    let limits = [
        (1, Nanos::from_millis(20)),
        (1_000, Nanos::from_millis(1)),
        (0, Nanos::ZERO),
    ];
    for (max_completions, max_wait) in limits {
        for peer in &mut peers {
            peer.write_all(b"news").unwrap();
        }
        let mut received = 0;
        while received < 3 * b"news".len() {
            let until = sockets.now() + hour;
            sockets
                .wait_coalesced(
                    until,
                    WaitBatch {
                        max_completions,
                        max_wait,
                    },
                )
                .unwrap();
            while let Some(seen) = poll_once(&mut sockets) {
                match seen {
                    Observed::Received(_, bytes) => received += bytes.len(),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    // No event arrives, so the wait ends at its time limit.
    let until = sockets.now() + Nanos::from_millis(20);
    let batch = WaitBatch {
        max_completions: 1_000,
        max_wait: Nanos::from_millis(1),
    };
    while sockets.now() < until {
        sockets.wait_coalesced(until, batch).unwrap();
        assert_eq!(poll_once(&mut sockets), None);
    }
}

pub(super) fn time_advances_and_waits_end<S: ByteSockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut before = sockets.now();
    for wait in [0, 1, 700, 20_000, 3_000_000] {
        let until = before + Nanos(wait);
        let mut waits = 0;
        while sockets.now() < until {
            sockets.wait(until).unwrap();
            assert_eq!(poll_once(&mut sockets), None);
            waits += 1;
        }
        assert!(waits < 4, "took {waits} waits to reach one deadline");
        let after = sockets.now();
        assert!(after >= until, "the wait ended at {after}, before {until}");
        before = after;
    }
    // A completion ends a wait early that could last a minute.
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    peer.write_all(b"x").unwrap();
    sockets.wait(sockets.now() + Nanos::from_secs(60)).unwrap();
    assert_eq!(
        reap(&mut sockets),
        Observed::Received(key(0, 1), b"x".to_vec())
    );
}
