//! The NATS server is killed and restarted during loads.

use crate::accounting::{Files, expect_answered, expect_sum, expect_whole};
use crate::random_delays::RandomDelays;
use crate::testbed::{Testbed, name};

#[test]
fn a_server_that_is_killed_and_restarted_loses_nothing() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(3);
    let mut load = testbed.load("--duration 6s --rate 300 --connections 6 --threads 1");
    delays.wait(1..4_500);
    testbed.kill_server();
    assert_eq!(
        testbed.up.end(),
        3,
        "`prony fleet up` reports that the server exited"
    );
    delays.wait(1..2_000);
    testbed.restart_server();
    let record = load.record();
    expect_whole(&record);
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 3);
    expect_sum(&record, &files);
    expect_answered(
        &testbed.answered(),
        &files,
        &(0..3).map(name).collect::<Vec<_>>(),
    );
    testbed.expect_quiet();
}

#[test]
fn a_server_that_is_killed_twice_loses_nothing() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let mut load = testbed.load("--duration 8s --rate 200 --connections 4 --threads 1");
    for _ in 0..2 {
        delays.wait(1..2_500);
        testbed.kill_server();
        testbed.up.end();
        delays.wait(1..500);
        testbed.restart_server();
    }
    let record = load.record();
    expect_whole(&record);
    expect_sum(&record, &Files::read(&load.kept));
    testbed.expect_quiet();
}
