//! The coordinator is killed, and another one goes on or brings in what is there.

use prony_fleet::messages::Because;
use rustix::process::Signal;

use crate::books::{Files, due, expect_answered, expect_sum, expect_whole, findings, has, part};
use crate::moments::Moments;
use crate::rig::{Rig, name};

#[test]
fn without_a_coordinator_agents_stop_and_their_results_are_collected() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(4);
    let mut load = rig.load("--duration 60s --rate 200 --connections 8 --threads 1");
    moments.wait(1..2_500);
    load.process.kill();
    let record = rig.recorded(&["fleet", "collect"], &load.run()).record();
    rig.expect_quiet();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 4);
    for agent in (0..4).map(name) {
        assert_eq!(files.ends[&agent], Because::LeaseEnded);
        assert_eq!(part(&record, &agent).ended_because, "lease-ended");
    }
    expect_sum(&record, &files);
    expect_answered(
        &rig.answered(),
        &files,
        &(0..4).map(name).collect::<Vec<_>>(),
    );
    assert_eq!(rig.files_left(), 0);
    // Once more it is the same, from what the server has.
    let again = rig.recorded(&["fleet", "collect"], &load.run()).record();
    expect_sum(&again, &files);
    assert_eq!(again.totals, record.totals);
}

#[test]
fn a_coordinator_that_is_stopped_beyond_the_end_has_all_of_it() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let mut load = rig.load("--duration 2s --rate 200 --connections 4 --threads 1");
    moments.wait(1..1_000);
    load.process.signal(Signal::STOP);
    // Agents have nothing to do with the run any more when it asks for them.
    moments.wait(14_000..15_000);
    load.process.signal(Signal::CONT);
    let record = load.record();
    expect_whole(&record);
    assert_eq!(due(&record), 2 * 200);
    rig.expect_quiet();
}

#[test]
fn another_coordinator_carries_a_load_on_to_its_end() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(3);
    // Longer than the lease: without the second one it would not come to its end.
    let mut load = rig.load("--duration 13s --rate 150 --connections 6 --threads 1");
    moments.wait(1..2_500);
    load.process.kill();
    moments.wait(1..4_000);
    let record = rig.recorded(&["fleet", "attach"], &load.run()).record();
    expect_whole(&record);
    assert_eq!(due(&record), 13 * 150);
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    expect_answered(
        &rig.answered(),
        &files,
        &(0..3).map(name).collect::<Vec<_>>(),
    );
    rig.expect_quiet();
}

#[test]
fn a_load_that_is_over_when_its_coordinator_is_dead_is_collected_whole() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let mut load = rig.load("--duration 4s --rate 200 --connections 4 --threads 1");
    moments.wait(1..3_000);
    load.process.kill();
    moments.wait(4_600..5_000);
    let record = rig.recorded(&["fleet", "collect"], &load.run()).record();
    expect_whole(&record);
    assert_eq!(due(&record), 800);
    expect_sum(&record, &Files::read(&load.kept));
}

#[test]
fn a_coordinator_that_is_killed_while_agents_get_ready_leaves_no_load() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let mut load = rig.begin("--duration 60s --rate 200 --connections 4 --threads 1");
    moments.wait(20..700);
    load.process.kill();
    // Whatever had begun by then ends with its lease.
    moments.wait(11_500..12_000);
    rig.expect_quiet();
    let mut load = rig.load("--requests 50 --rate 100 --connections 4 --threads 1");
    expect_whole(&load.record());
}

#[test]
fn an_interrupt_ends_the_load_everywhere_with_what_was_measured() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(3);
    let mut load = rig.load("--duration 60s --rate 200 --connections 6 --threads 1");
    moments.wait(1_200..3_000);
    load.process.signal(Signal::INT);
    let record = load.record();
    rig.expect_quiet();
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    expect_answered(
        &rig.answered(),
        &files,
        &(0..3).map(name).collect::<Vec<_>>(),
    );
    assert!(
        files
            .ends
            .values()
            .all(|because| *because == Because::Stopped)
    );
}

#[test]
fn an_interrupt_of_who_watches_leaves_the_load_alone() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let mut load = rig.load("--duration 5s --rate 200 --connections 4 --threads 1");
    let mut watching = rig.recorded(&["fleet", "attach"], &load.run());
    moments.wait(500..2_000);
    watching.process.signal(Signal::INT);
    assert_eq!(watching.process.end(), 130);
    assert!(watching.process.complaints().contains("detached from run"));
    let record = load.record();
    expect_whole(&record);
    assert_eq!(due(&record), 5 * 200);
}

#[test]
fn an_interrupt_of_who_took_over_ends_the_load() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let mut load = rig.load("--duration 60s --rate 200 --connections 4 --threads 1");
    moments.wait(500..1_000);
    load.process.kill();
    let mut attached = rig.recorded(&["fleet", "attach"], &load.run());
    // By then it knows that nobody else leads the run.
    moments.wait(11_000..12_000);
    attached.process.signal(Signal::INT);
    let record = attached.record();
    rig.expect_quiet();
    for agent in (0..2).map(name) {
        assert_eq!(part(&record, &agent).ended_because, "stopped");
    }
    assert!(!has(&record, "partial"), "{:?}", findings(&record));
}
