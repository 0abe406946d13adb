//! Agents whose clocks differ from the coordinator's.

use crate::accounting::{due, expect_whole, has, part};
use crate::testbed::{Testbed, name};
use prony_record::FindingId;

const SET_OFF: &str = "PRONY_CLOCK_OFFSET_NS";

#[test]
fn clocks_that_are_hours_apart_begin_together() {
    let hour_us = 3_600e6;
    let offsets = [0, 7, -3];
    let mut testbed = Testbed::with(3, |agent, command, _| {
        command.env(
            SET_OFF,
            format!("{}", offsets[agent] * 3_600_000_000_000_i64),
        );
    });
    let mut load = testbed.load("--requests 600 --rate 300 --connections 3 --threads 1");
    let record = load.record();
    expect_whole(&record);
    assert_eq!(record.totals.ok, 600);
    for (agent, hours) in offsets.iter().enumerate() {
        let part = part(&record, &name(agent));
        let offset = part.clock_offset_us.unwrap();
        assert!((offset - *hours as f64 * hour_us).abs() < 1e6, "{offset}");
        // Without a clock correction, the difference would be hours.
        assert!(part.first_start_us.unwrap().abs() < 5e6);
    }
}

#[test]
fn a_clock_that_jumps_in_mid_run_is_reported() {
    // The clock jumps by half an hour 9 s after the agent has started.
    let mut testbed = Testbed::with(2, |agent, command, _| {
        if agent == 1 {
            command.env(SET_OFF, "5000000000,1800000000000@9000");
        }
    });
    let mut load = testbed.load("--duration 9s --rate 50 --connections 2 --threads 1");
    let record = load.record();
    assert!(has(&record, "clock-doubtful"), "{:?}", record.findings);
    let doubtful = record
        .findings
        .iter()
        .filter(|it| it.id == FindingId::ClockDoubtful);
    let texts: Vec<&str> = doubtful.map(|it| it.text.as_str()).collect();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("agent-2"), "{texts:?}");
    // The jump of the clock doesn't affect the results.
    assert!(!has(&record, "partial"));
    assert_eq!(due(&record), 450);
}

#[test]
fn a_clock_with_a_large_error_bound_is_refused_before_the_load() {
    let mut testbed = Testbed::new(2);
    let words = "--requests 100 --rate 100 --connections 2 --clock-bound 1us";
    let mut all = vec!["load", "--agents", "2"];
    all.extend(words.split(' '));
    let mut load = testbed.recorded(&all, crate::testbed::URL);
    assert_eq!(load.process.end(), 3);
    let printed = load.process.stderr();
    assert!(printed.contains("clock"), "{printed}");
    assert!(testbed.answered().is_empty());
    let mut load = testbed.load("--requests 50 --rate 100 --connections 4 --threads 1");
    let record = load.record();
    expect_whole(&record);
}
