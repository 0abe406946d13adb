//! Agents that are killed, stopped or cut off.

use prony_fleet::messages::Because;
use prony_record::FindingId;
use rustix::process::Signal;

use crate::books::{
    Files, expect_answered, expect_answered_but, expect_sum, expect_whole, findings, has, part,
};
use crate::moments::Moments;
use crate::process::until;
use crate::rig::{Rig, name};

/// All but one.
fn others(lost: usize, of: usize) -> Vec<String> {
    (0..of).filter(|agent| *agent != lost).map(name).collect()
}

#[test]
fn a_killed_agent_is_missed_and_the_others_are_whole() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(4);
    let lost = moments.one_of(4);
    let mut load = rig.load("--duration 5s --rate 400 --connections 8 --threads 1");
    moments.wait(500..4_500);
    rig.agents[lost].kill();
    let at_death = rig.answered();
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    assert_eq!(part(&record, &name(lost)).ended_because, "lost");
    let files = Files::read(&load.kept);
    let answered = rig.answered();
    // What was on its way when it was killed may have been answered after.
    assert!(answered[&name(lost)] <= at_death.get(&name(lost)).copied().unwrap_or(0) + 2);
    expect_answered(&answered, &files, &others(lost, 4));
    for name in others(lost, 4) {
        let own = &files.each[&name];
        assert_eq!(part(&record, &name).ended_because, "done");
        assert_eq!(part(&record, &name).started, own.started - own.unmeasured);
    }
    // What has begun is accounted for.
    let totals = &record.totals;
    assert_eq!(
        totals.started,
        totals.ok + totals.failed + totals.unfinished
    );
    rig.expect_quiet();

    // Back again, it sends what it had written down.
    rig.restart_agent(lost);
    rig.agents[lost].wait_for("registered as");
    let mut late = rig.recorded(&["fleet", "collect"], &load.run());
    let record = late.record();
    let files = Files::read(&load.kept);
    assert!(
        has(&record, "agent-lost"),
        "its part still ended before its time"
    );
    for agent in 0..4 {
        // One that was killed in its first second had written nothing down.
        let own = files.each.get(&name(agent));
        let started = own.map_or(0, |own| own.started - own.unmeasured);
        assert_eq!(part(&record, &name(agent)).started, started);
    }
}

#[test]
fn an_agent_that_is_started_anew_in_mid_run_sends_what_it_had_measured() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let lost = moments.one_of(2);
    let mut load = rig.load("--duration 6s --rate 300 --connections 4 --threads 1");
    // By then the file has what the first half seconds gave: a part is written down each second.
    moments.wait(2_700..4_000);
    rig.agents[lost].kill();
    moments.wait(1..1_000);
    rig.restart_agent(lost);
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    let files = Files::read(&load.kept);
    assert_eq!(files.ends[&name(lost)], Because::Failed);
    for agent in 0..2 {
        let own = &files.each[&name(agent)];
        assert_eq!(
            part(&record, &name(agent)).started,
            own.started - own.unmeasured
        );
        assert!(own.started > 0);
    }
    expect_answered(&rig.answered(), &files, &others(lost, 2));
    rig.expect_quiet();
    // It takes part in the next.
    let mut load = rig.load("--requests 100 --rate 200 --connections 4 --threads 1");
    expect_whole(&load.record());
}

#[test]
fn a_link_that_is_down_for_a_while_loses_nothing() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(3);
    let cut = moments.one_of(3);
    let mut load = rig.load("--duration 7s --rate 150 --connections 6 --threads 1");
    moments.wait(200..2_500);
    rig.ground.set_link(&name(cut), false);
    moments.wait(2_500..3_000);
    rig.ground.set_link(&name(cut), true);
    let record = load.record();
    expect_whole(&record);
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 3);
    expect_sum(&record, &files);
    expect_answered(&rig.answered(), &files, &others(cut, 3));
    rig.expect_quiet();
}

#[test]
fn an_agent_that_is_cut_off_for_good_stops_by_itself() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let cut = moments.one_of(2);
    let mut load = rig.load("--duration 12s --rate 100 --connections 4 --threads 1");
    moments.wait(1..400);
    rig.ground.set_link(&name(cut), false);
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    assert_eq!(part(&record, &name(1 - cut)).ended_because, "done");
    // Its own file says why it ended, and is brought in when it is back.
    rig.ground.set_link(&name(cut), true);
    let files = Files::read(&load.kept);
    assert_eq!(files.ends[&name(cut)], Because::LeaseEnded);
    // Whether it has noticed that it was cut off depends on when it last said something.
    until("it is registered again", || {
        let said = rig.agents[cut].complaints();
        let times = said.matches("registered as").count();
        (times > 1 || said.contains("connected again")).then_some(())
    });
    let record = rig.recorded(&["fleet", "collect"], &load.run()).record();
    expect_sum(&record, &files);
    assert_eq!(part(&record, &name(cut)).ended_because, "lease-ended");
    assert!(has(&record, "partial"), "{:?}", findings(&record));
    expect_answered(&rig.answered(), &files, &others(cut, 2));
    rig.expect_quiet();
}

#[test]
fn an_agent_that_is_stopped_and_goes_on_loses_nothing() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(3);
    let slow = moments.one_of(3);
    let mut load = rig.load("--duration 5s --rate 300 --connections 6 --threads 1");
    moments.wait(1..2_000);
    rig.agents[slow].signal(Signal::STOP);
    // Half a second of it may be before the load's start.
    moments.wait(2_000..3_000);
    rig.agents[slow].signal(Signal::CONT);
    let record = load.record();
    expect_whole(&record);
    let stalled = format!("Agent {} stood still for ", name(slow));
    assert!(
        record
            .findings
            .iter()
            .any(|it| it.id == FindingId::AgentStalled && it.text.starts_with(&stalled)),
        "{:?}",
        record.findings
    );
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
fn an_agent_that_is_stopped_for_longer_than_its_lease_loads_no_more() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let stopped = moments.one_of(2);
    let mut load = rig.load("--duration 16s --rate 100 --connections 4 --threads 1");
    moments.wait(1..500);
    rig.agents[stopped].signal(Signal::STOP);
    // Its lease is over long before the load is.
    moments.wait(11_000..12_000);
    rig.agents[stopped].signal(Signal::CONT);
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    let files = Files::read(&load.kept);
    assert_eq!(files.ends[&name(stopped)], Because::LeaseEnded);
    assert_eq!(part(&record, &name(stopped)).ended_because, "lease-ended");
    expect_sum(&record, &files);
    // Each of its two connections.
    expect_answered_but(
        2,
        &rig.answered(),
        &files,
        &(0..2).map(name).collect::<Vec<_>>(),
    );
    rig.expect_quiet();
}

#[test]
fn an_agent_that_is_told_to_exit_makes_the_record_partial() {
    let mut moments = Moments::new();
    let mut rig = Rig::new(2);
    let ended = moments.one_of(2);
    let mut load = rig.load("--duration 5s --rate 400 --connections 4 --threads 1");
    moments.wait(1_500..3_500);
    rig.agents[ended].signal(Signal::TERM);
    assert_eq!(rig.agents[ended].end(), 1);
    let record = load.record();
    assert_eq!(load.process.end(), 1, "a partial record is no success");
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    assert_eq!(part(&record, &name(ended)).ended_because, "agent-ended");
    assert_eq!(part(&record, &name(1 - ended)).ended_because, "done");
    let partial = record
        .findings
        .iter()
        .find(|it| it.id == FindingId::Partial);
    let text = format!("1 of 2 agents did not complete its part: {}", name(ended));
    assert!(partial.unwrap().text.starts_with(&text), "{partial:?}");
    // The schedule goes on without it.
    let offered = record.rate.offered_per_s.unwrap() * record.totals.elapsed_s;
    assert!((offered - 5.0 * 400.0).abs() < 1e-6, "{offered}");
    assert!(record.totals.started < 5 * 400);
    expect_sum(&record, &Files::read(&load.kept));
    rig.expect_quiet();
}
