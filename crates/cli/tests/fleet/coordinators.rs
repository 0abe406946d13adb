//! The coordinator is killed or suspended, and another one takes over or collects the results.

use prony_fleet::wire::EndReason;
use rustix::process::Signal;

use crate::accounting::{
    Files, due, expect_answered, expect_sum, expect_whole, findings, has, part,
};
use crate::random_delays::RandomDelays;
use crate::testbed::{Testbed, name};

#[test]
fn without_a_coordinator_agents_stop_and_their_results_are_collected() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(4);
    let mut load = testbed.load("--lease 4s --duration 60s --rate 200 --connections 8 --threads 1");
    delays.wait(1..2_500);
    load.process.kill();
    let record = testbed
        .recorded(&["fleet", "collect"], &load.run())
        .record();
    testbed.expect_quiet();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 4);
    for agent in (0..4).map(name) {
        assert_eq!(files.ends[&agent], EndReason::LeaseEnded);
        assert_eq!(part(&record, &agent).ended_because, "lease-ended");
    }
    expect_sum(&record, &files);
    expect_answered(
        &testbed.answered(),
        &files,
        &(0..4).map(name).collect::<Vec<_>>(),
    );
    assert_eq!(testbed.files_left(), 0);
    // Collecting the run again gives the same record, from the data on the server.
    let again = testbed
        .recorded(&["fleet", "collect"], &load.run())
        .record();
    expect_sum(&again, &files);
    assert_eq!(again.totals, record.totals);
}

#[test]
fn a_coordinator_suspended_beyond_the_end_gets_all_results() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let mut load = testbed.load("--lease 4s --duration 2s --rate 200 --connections 4 --threads 1");
    delays.wait(1..1_000);
    load.process.signal(Signal::STOP);
    // The coordinator stays suspended until long after the agents have ended.
    delays.wait(7_000..8_000);
    load.process.signal(Signal::CONT);
    let record = load.record();
    expect_whole(&record);
    assert_eq!(due(&record), 2 * 200);
    testbed.expect_quiet();
}

#[test]
fn another_coordinator_completes_a_load() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(3);
    // The load is longer than the lease, so it ends early unless the second coordinator renews the
    // lease.
    let mut load = testbed.load("--lease 5s --duration 8s --rate 150 --connections 6 --threads 1");
    delays.wait(1..2_500);
    load.process.kill();
    delays.wait(1..1_500);
    let record = testbed.recorded(&["fleet", "attach"], &load.run()).record();
    expect_whole(&record);
    assert_eq!(due(&record), 8 * 150);
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    expect_answered(
        &testbed.answered(),
        &files,
        &(0..3).map(name).collect::<Vec<_>>(),
    );
    testbed.expect_quiet();
}

#[test]
fn a_load_that_outlives_its_coordinator_is_collected_completely() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let mut load = testbed.load("--duration 4s --rate 200 --connections 4 --threads 1");
    delays.wait(1..3_000);
    load.process.kill();
    delays.wait(4_600..5_000);
    let record = testbed
        .recorded(&["fleet", "collect"], &load.run())
        .record();
    expect_whole(&record);
    assert_eq!(due(&record), 800);
    expect_sum(&record, &Files::read(&load.kept));
}

#[test]
fn a_coordinator_that_is_killed_while_agents_get_ready_leaves_no_load() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let mut load =
        testbed.begin("--lease 4s --duration 60s --rate 200 --connections 4 --threads 1");
    delays.wait(20..700);
    load.process.kill();
    // Wait until the lease has expired, which ends the load.
    delays.wait(5_500..6_000);
    testbed.expect_quiet();
    let mut load = testbed.load("--requests 50 --rate 100 --connections 4 --threads 1");
    expect_whole(&load.record());
}

#[test]
fn an_interrupt_ends_the_load_on_all_agents_with_their_results() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(3);
    let mut load = testbed.load("--duration 60s --rate 200 --connections 6 --threads 1");
    delays.wait(1_200..3_000);
    load.process.signal(Signal::INT);
    let record = load.record();
    testbed.expect_quiet();
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    expect_answered(
        &testbed.answered(),
        &files,
        &(0..3).map(name).collect::<Vec<_>>(),
    );
    assert!(
        files
            .ends
            .values()
            .all(|because| *because == EndReason::Stopped)
    );
}

#[test]
fn an_interrupt_of_a_watcher_does_not_stop_the_load() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let mut load = testbed.load("--duration 5s --rate 200 --connections 4 --threads 1");
    let mut watching = testbed.recorded(&["fleet", "attach"], &load.run());
    delays.wait(500..2_000);
    watching.process.signal(Signal::INT);
    assert_eq!(watching.process.end(), 130);
    assert!(watching.process.stderr().contains("detached from run"));
    let record = load.record();
    expect_whole(&record);
    assert_eq!(due(&record), 5 * 200);
}

#[test]
fn an_interrupt_of_the_new_leader_stops_the_load() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let mut load = testbed.load("--lease 4s --duration 60s --rate 200 --connections 4 --threads 1");
    delays.wait(500..1_000);
    load.process.kill();
    let mut attached = testbed.recorded(&["fleet", "attach"], &load.run());
    // No other coordinator has taken over the run by then.
    delays.wait(4_500..5_000);
    attached.process.signal(Signal::INT);
    let record = attached.record();
    testbed.expect_quiet();
    for agent in (0..2).map(name) {
        assert_eq!(part(&record, &agent).ended_because, "stopped");
    }
    assert!(!has(&record, "partial"), "{:?}", findings(&record));
}
