//! The NATS server is killed in mid-run.

use crate::books::{Files, expect_answered, expect_sum, expect_whole};
use crate::moments::Moments;
use crate::rig::{Rig, name};

#[test]
fn a_server_that_is_killed_and_started_again_loses_nothing() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(3);
    let mut load = rig.load("--duration 6s --rate 300 --connections 6 --threads 1");
    moments.wait(1..4_500);
    rig.kill_server();
    assert_eq!(rig.up.end(), 3, "who started it says that it is gone");
    moments.wait(1..2_000);
    rig.restart_server();
    let record = load.record();
    expect_whole(&record);
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 3);
    expect_sum(&record, &files);
    expect_answered(
        &rig.answered(),
        &files,
        &(0..3).map(name).collect::<Vec<_>>(),
    );
    rig.expect_quiet();
}

#[test]
fn a_server_that_is_killed_twice_loses_nothing_either() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let mut load = rig.load("--duration 8s --rate 200 --connections 4 --threads 1");
    for _ in 0..2 {
        moments.wait(1..2_500);
        rig.kill_server();
        rig.up.end();
        moments.wait(1..500);
        rig.restart_server();
    }
    let record = load.record();
    expect_whole(&record);
    expect_sum(&record, &Files::read(&load.kept));
    rig.expect_quiet();
}
