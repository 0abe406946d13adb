//! Loads whose agents are killed, suspended or disconnected.

use prony_fleet::wire::EndReason;
use prony_record::FindingId;
use rustix::process::Signal;

use crate::accounting::{
    Files, expect_answered, expect_answered_but, expect_sum, expect_whole, findings, has, part,
};
use crate::process::wait_until;
use crate::random_delays::RandomDelays;
use crate::testbed::{Testbed, name};

/// Returns the names of all agents except one.
fn others(lost: usize, of: usize) -> Vec<String> {
    (0..of).filter(|agent| *agent != lost).map(name).collect()
}

#[test]
fn a_killed_agent_is_lost_and_the_others_are_complete() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(4);
    let lost = delays.one_of(4);
    let mut load = testbed.load("--lease 4s --duration 5s --rate 400 --connections 8 --threads 1");
    delays.wait(500..4_500);
    testbed.agents[lost].kill();
    let at_death = testbed.answered();
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    assert_eq!(part(&record, &name(lost)).ended_because, "lost");
    let files = Files::read(&load.kept);
    let answered = testbed.answered();
    // After the kill, nginx may still respond to requests that were in flight.
    assert!(answered[&name(lost)] <= at_death.get(&name(lost)).copied().unwrap_or(0) + 2);
    expect_answered(&answered, &files, &others(lost, 4));
    for name in others(lost, 4) {
        let own = &files.each[&name];
        assert_eq!(part(&record, &name).ended_because, "done");
        assert_eq!(part(&record, &name).started, own.started - own.unmeasured);
    }
    // Every request that was started has an outcome.
    let totals = &record.totals;
    assert_eq!(
        totals.started,
        totals.ok + totals.failed + totals.unfinished
    );
    testbed.expect_quiet();

    // After a restart, the agent sends the results in its file.
    testbed.restart_agent(lost);
    testbed.agents[lost].wait_for("registered as");
    let mut late = testbed.recorded(&["fleet", "collect"], &load.run());
    let record = late.record();
    let files = Files::read(&load.kept);
    assert!(
        has(&record, "agent-lost"),
        "results sent later do not make the part complete"
    );
    for agent in 0..4 {
        // An agent that is killed within its first second has no results.
        let own = files.each.get(&name(agent));
        let started = own.map_or(0, |own| own.started - own.unmeasured);
        assert_eq!(part(&record, &name(agent)).started, started);
    }
}

#[test]
fn an_agent_restarted_in_mid_run_sends_its_stored_results() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let lost = delays.one_of(2);
    let mut load = testbed.load("--duration 6s --rate 300 --connections 4 --threads 1");
    // At the time of the kill, the agent's file contains results, because an agent writes them
    // every second.
    delays.wait(2_700..4_000);
    testbed.agents[lost].kill();
    delays.wait(1..1_000);
    testbed.restart_agent(lost);
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    let files = Files::read(&load.kept);
    assert_eq!(files.ends[&name(lost)], EndReason::Failed);
    for agent in 0..2 {
        let own = &files.each[&name(agent)];
        assert_eq!(
            part(&record, &name(agent)).started,
            own.started - own.unmeasured
        );
        assert!(own.started > 0);
    }
    expect_answered(&testbed.answered(), &files, &others(lost, 2));
    testbed.expect_quiet();
    // The agent takes part in the next run.
    let mut load = testbed.load("--requests 100 --rate 200 --connections 4 --threads 1");
    expect_whole(&load.record());
}

#[test]
fn a_temporary_link_failure_loses_nothing() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(3);
    let cut = delays.one_of(3);
    let mut load = testbed.load("--duration 7s --rate 150 --connections 6 --threads 1");
    delays.wait(200..2_500);
    testbed.network.set_link(&name(cut), false);
    delays.wait(2_500..3_000);
    testbed.network.set_link(&name(cut), true);
    let record = load.record();
    expect_whole(&record);
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 3);
    expect_sum(&record, &files);
    expect_answered(&testbed.answered(), &files, &others(cut, 3));
    testbed.expect_quiet();
}

#[test]
fn an_agent_that_is_cut_off_for_good_stops_by_itself() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let cut = delays.one_of(2);
    let mut load = testbed.load("--lease 4s --duration 7s --rate 100 --connections 4 --threads 1");
    delays.wait(1..400);
    testbed.network.set_link(&name(cut), false);
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    assert_eq!(part(&record, &name(1 - cut)).ended_because, "done");
    // The agent's result file contains the reason for its end. The agent sends it when the network
    // is back.
    testbed.network.set_link(&name(cut), true);
    let files = Files::read(&load.kept);
    assert_eq!(files.ends[&name(cut)], EndReason::LeaseEnded);
    // The agent notices that it was disconnected only when it publishes a message.
    wait_until("the agent is registered again", || {
        let printed = testbed.agents[cut].stderr();
        let times = printed.matches("registered as").count();
        (times > 1 || printed.contains("reconnected")).then_some(())
    });
    let record = testbed
        .recorded(&["fleet", "collect"], &load.run())
        .record();
    expect_sum(&record, &files);
    assert_eq!(part(&record, &name(cut)).ended_because, "lease-ended");
    assert!(has(&record, "partial"), "{:?}", findings(&record));
    expect_answered(&testbed.answered(), &files, &others(cut, 2));
    testbed.expect_quiet();
}

#[test]
fn a_suspended_agent_that_continues_loses_nothing() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(3);
    let slow = delays.one_of(3);
    let mut load = testbed.load("--duration 5s --rate 300 --connections 6 --threads 1");
    delays.wait(1..2_000);
    testbed.agents[slow].signal(Signal::STOP);
    // Up to half a second of this pause may fall before the start of the load.
    delays.wait(2_000..3_000);
    testbed.agents[slow].signal(Signal::CONT);
    let record = load.record();
    expect_whole(&record);
    let stalled = format!("Agent {} stalled for ", name(slow));
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
        &testbed.answered(),
        &files,
        &(0..3).map(name).collect::<Vec<_>>(),
    );
    testbed.expect_quiet();
}

#[test]
fn an_agent_suspended_beyond_its_lease_stops_loading() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let stopped = delays.one_of(2);
    let mut load = testbed.load("--lease 4s --duration 9s --rate 100 --connections 4 --threads 1");
    delays.wait(1..500);
    testbed.agents[stopped].signal(Signal::STOP);
    // The agent's lease expires long before the end of the load.
    delays.wait(5_000..6_000);
    testbed.agents[stopped].signal(Signal::CONT);
    let record = load.record();
    assert!(
        has(&record, "agent-lost") && has(&record, "partial"),
        "{:?}",
        findings(&record)
    );
    let files = Files::read(&load.kept);
    assert_eq!(files.ends[&name(stopped)], EndReason::LeaseEnded);
    assert_eq!(part(&record, &name(stopped)).ended_because, "lease-ended");
    expect_sum(&record, &files);
    // At most one request on each of the agent's two connections has no response.
    expect_answered_but(
        2,
        &testbed.answered(),
        &files,
        &(0..2).map(name).collect::<Vec<_>>(),
    );
    testbed.expect_quiet();
}

#[test]
fn an_agent_stopped_in_mid_load_makes_the_record_partial() {
    let mut delays = RandomDelays::new();
    let mut testbed = Testbed::new(2);
    let ended = delays.one_of(2);
    let mut load = testbed.load("--duration 5s --rate 400 --connections 4 --threads 1");
    delays.wait(1_500..3_500);
    testbed.agents[ended].signal(Signal::TERM);
    assert_eq!(testbed.agents[ended].end(), 1);
    let record = load.record();
    assert_eq!(load.process.end(), 1, "a partial record is not a success");
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
    let text = format!(
        "1 of 2 agents did not complete their parts: {}",
        name(ended)
    );
    assert!(partial.unwrap().text.starts_with(&text), "{partial:?}");
    // The offered rate is the rate of the whole schedule, even though agents were lost.
    let offered = record.rate.offered_per_s.unwrap() * record.totals.elapsed_s;
    assert!((offered - 5.0 * 400.0).abs() < 1e-6, "{offered}");
    assert!(record.totals.started < 5 * 400);
    expect_sum(&record, &Files::read(&load.kept));
    testbed.expect_quiet();
}
