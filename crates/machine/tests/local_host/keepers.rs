//! Tests of services that kill or stop their keeper.

use super::*;

#[test]
fn a_keeper_killed_from_outside_ends_its_service() {
    let mut bench = Bench::alone();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "echo keeper $PPID; echo me $$; sleep 1000 & wait",
    );
    let (keeper, me) = (bench.logged("keeper "), bench.logged("me "));
    bench.host.sample();
    std::process::Command::new("kill")
        .args(["-9", &keeper])
        .status()
        .unwrap();
    wait_for("the notice", || bench.host.alive("s").err());
    bench.host.stop("s").unwrap();
    assert!(!lives(&me));
    wait_for_end_of_writers(bench.folder.path());
}

#[test]
fn a_service_that_kills_its_keeper_at_once_is_ended() {
    let mut bench = Bench::alone();
    bench.allocate(PlaceKind::Native, &[]);
    // The keeper is killed before a sample shows these processes as its descendants, and one of
    // them has its own session.
    bench.start(
        PlaceKind::Native,
        "kill -9 $PPID; setsid sh -c 'echo stray $$; sleep 1000' & echo me $$; sleep 1000 & wait",
    );
    let (me, stray) = (bench.logged("me "), bench.logged("stray "));
    let exited = wait_for("the notice", || bench.host.alive("s").err());
    assert!(exited.status.contains("keeper"), "{exited}");
    bench.host.stop("s").unwrap();
    assert!(!lives(&me) && !lives(&stray));
    wait_for_end_of_writers(bench.folder.path());
}

#[test]
fn a_service_that_stops_its_keeper_gets_the_stop_signal() {
    let mut bench = Bench::alone();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "trap 'echo asked; exit 3' TERM; kill -STOP $PPID; echo me $$; while :; do sleep 0.05; done",
    );
    let me = bench.logged("me ");
    let stopped = bench.host.stop("s").unwrap();
    assert_eq!(stopped.status.as_deref(), Some("exit status: 3"));
    assert!(!stopped.killed && !lives(&me));
}

#[test]
fn a_service_that_keeps_stopping_its_keeper_is_killed() {
    let mut bench = Bench::alone();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "trap '' TERM; echo me $$; while kill -STOP $PPID; do :; done; sleep 1000",
    );
    let me = bench.logged("me ");
    bench.host.set_stop_timeout(Duration::from_millis(200));
    let stopped = bench.host.stop("s").unwrap();
    assert!(stopped.killed && !lives(&me));
    wait_for_end_of_writers(bench.folder.path());
}
