//! Agents whose clocks are not the coordinator's.

use prony_record::FindingId;

use crate::books::{due, expect_whole, has, part};
use crate::rig::{Rig, name};

const SET_OFF: &str = "PRONY_CLOCK_OFFSET_NS";

#[test]
fn clocks_that_are_hours_apart_begin_together() {
    let hour_us = 3_600e6;
    let offsets = [0, 7, -3];
    let mut rig = Rig::with(3, |agent, command, _| {
        command.env(
            SET_OFF,
            format!("{}", offsets[agent] * 3_600_000_000_000_i64),
        );
    });
    let mut load = rig.load("--requests 600 --rate 300 --connections 3 --threads 1");
    let record = load.record();
    expect_whole(&record);
    assert_eq!(record.totals.ok, 600);
    for (agent, hours) in offsets.iter().enumerate() {
        let part = part(&record, &name(agent));
        let offset = part.clock_offset_us.unwrap();
        assert!((offset - *hours as f64 * hour_us).abs() < 1e6, "{offset}");
        // Nobody began hours before or after the others.
        assert!(part.first_start_us.unwrap().abs() < 5e6);
    }
}

#[test]
fn a_clock_that_jumps_in_mid_run_is_told() {
    // Each jumps 9 s after it was started, by half an hour.
    let mut rig = Rig::with(2, |agent, command, _| {
        if agent == 1 {
            command.env(SET_OFF, "5000000000,1800000000000@9000");
        }
    });
    let mut load = rig.load("--duration 9s --rate 50 --connections 2 --threads 1");
    let record = load.record();
    assert!(has(&record, "clock-doubtful"), "{:?}", record.findings);
    let doubtful = record
        .findings
        .iter()
        .filter(|it| it.id == FindingId::ClockDoubtful);
    let told: Vec<&str> = doubtful.map(|it| it.text.as_str()).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("agent-2"), "{told:?}");
    // What was measured does not hang on it.
    assert!(!has(&record, "partial"));
    assert_eq!(due(&record), 450);
}

#[test]
fn a_clock_that_is_not_known_well_enough_is_refused_before_the_load() {
    let mut rig = Rig::new(2);
    let words = "--requests 100 --rate 100 --connections 2 --clock-bound 1us";
    let mut all = vec!["load", "--agents", "2"];
    all.extend(words.split(' '));
    let mut load = rig.recorded(&all, crate::rig::URL);
    assert_eq!(load.process.end(), 3);
    let said = load.process.complaints();
    assert!(said.contains("clock"), "{said}");
    assert!(rig.answered().is_empty());
    let mut load = rig.load("--requests 50 --rate 100 --connections 4 --threads 1");
    let record = load.record();
    expect_whole(&record);
}
