//! Tests that freezes follow the schedule.

use std::time::{Duration, Instant};

use prony_origin::{Config, FreezeSchedule, HELLO, Stall};

use crate::client::{Client, Running, Via, clear, get, start};

const MS: Duration = Duration::from_millis(1);

/// Waits for a frozen window and requests `path` within it. Returns the end of the window and the
/// arrival time of the first response byte.
fn ask_while_frozen(running: &Running, path: &str) -> (Instant, Instant) {
    let stall = running.origin.stall().unwrap();
    loop {
        let mut client = Client::connect(running, Via::Tcp);
        let freeze = stall.next_freeze(Instant::now());
        std::thread::sleep(freeze.saturating_duration_since(Instant::now()) + 10 * MS);
        let before = Instant::now();
        client.send(get(path));
        let after = Instant::now();
        let (first, last) = (before + stall.wait(before), after + stall.wait(after));
        let first_byte = client.exactly(1);
        let answered = Instant::now();
        assert!(!first_byte.is_empty());
        // On a busy machine, the sleep above may have missed the window. In that case, try again.
        if first == last && last > after {
            return (last, answered);
        }
    }
}

#[test]
fn requests_during_a_freeze_are_served_after_it() {
    let schedule = FreezeSchedule::new(250 * MS, 150 * MS);
    let running = start(Config {
        stall: schedule,
        threads: 2,
        ..Config::default()
    });
    for path in [
        "/",
        "/bytes/1M",
        "/delay/1ms",
        "/chunked/9",
        "/fault/garbage",
        "/status/500",
    ] {
        let (thaw, answered) = ask_while_frozen(&running, path);
        assert!(
            answered >= thaw,
            "the response of {path} came {:?} too early",
            thaw - answered
        );
    }
}

#[test]
fn a_delay_that_ends_while_frozen_ends_with_the_freeze() {
    let running = start(Config {
        stall: FreezeSchedule::new(300 * MS, 150 * MS),
        ..Config::default()
    });
    let stall = running.origin.stall().unwrap();
    let mut client = Client::connect(&running, Via::Tcp);
    client.get("/");
    loop {
        let freeze = stall.next_freeze(Instant::now());
        let delay = freeze.saturating_duration_since(Instant::now()) + 50 * MS;
        let sent = Instant::now();
        client.send(get(&format!("/delay/{}us", delay.as_micros())));
        client.exactly(1);
        let answered = Instant::now();
        client = Client::connect(&running, Via::Tcp);
        // If the request was sent after the freeze began, the delay may have started late, and this
        // attempt proves nothing. The loop then tries again at the next freeze.
        if sent < freeze {
            assert!(answered >= freeze + 150 * MS);
            return;
        }
    }
}

#[test]
fn the_first_stall_request_sets_the_epoch_and_returns_it() {
    let running = clear();
    assert_eq!(running.origin.stall(), None);
    let mut client = Client::connect(&running, Via::Tcp);
    let before = Instant::now();
    let first = client.get("/stall?every=50m&for=1s");
    let after = Instant::now();
    assert_eq!(first.body, HELLO.as_bytes());
    let Stall {
        epoch,
        epoch_wall,
        schedule,
    } = running.origin.stall().unwrap();
    assert!(before <= epoch && epoch <= after);
    assert_eq!(running.origin.stall_epoch(), Some(epoch));
    assert_eq!(
        (schedule.every(), schedule.lasts()),
        (3_000_000 * MS, 1_000 * MS)
    );
    let wall = epoch_wall
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos()
        .to_string();
    assert_eq!(
        first.header("prony-stall-epoch-unix-ns"),
        Some(wall.as_str())
    );
    let age: u128 = first.header("prony-stall-age-ns").unwrap().parse().unwrap();
    assert!(age <= (after - epoch).as_nanos());

    let same = client.get("/stall?every=50m&for=1s");
    assert_eq!(
        same.header("prony-stall-epoch-unix-ns"),
        Some(wall.as_str())
    );
    let other = client.get("/stall?every=40m&for=1s");
    assert_ne!(
        other.header("prony-stall-epoch-unix-ns"),
        Some(wall.as_str())
    );
    let off = client.get("/stall?every=40m&for=0s");
    assert_eq!(off.header("prony-stall-epoch-unix-ns"), None);
    assert_eq!(running.origin.stall(), None);
}

#[test]
fn stopping_does_not_wait_for_a_freeze() {
    let schedule = FreezeSchedule::new(3_600_000 * MS, 3_599_990 * MS);
    let running = start(Config {
        stall: schedule,
        ..Config::default()
    });
    let stall = running.origin.stall().unwrap();
    let freeze = stall.epoch + 10 * MS;
    std::thread::sleep(freeze.saturating_duration_since(Instant::now()) + 20 * MS);
    // The server is frozen for an hour. The test would hang if stopping waited for that.
    running.origin.stop();
}
