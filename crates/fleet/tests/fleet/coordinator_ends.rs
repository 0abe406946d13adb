//! Early ends of loads: killed agents, stop requests, and coordinators that exit.

use std::time::{Duration, Instant};

use prony_fleet::coordinator::{FleetError, StopRequest};
use prony_fleet::wire::Command;

use crate::coordinator::{
    fleet, found, load, long, same_counts, wanted, watching, whole, with_agents,
};
use crate::scripted_agent::AgentScript;

#[test]
fn the_results_of_a_killed_agent_count() {
    let (_nats, fleet, mut agents) = with_agents(&[("a", long()), ("b", long())]);
    // With a shorter lease, the agent's silence is detected sooner.
    let fleet = fleet.with_lease(Duration::from_secs(2));
    let doomed = agents.remove(0);
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&fleet, &wanted(&[])));
        doomed.wait_for_load();
        std::thread::sleep(Duration::from_millis(400));
        drop(doomed);
        loading.join().unwrap().unwrap()
    });
    let record = finished.record;
    assert_eq!(found(&record), ["agent-lost", "partial"]);
    assert!(
        record.findings[0].text.starts_with("Agent a "),
        "{record:?}"
    );
    record.totals.check().unwrap();
    let parts = record.fleet.as_ref().unwrap();
    let because: Vec<&str> = parts
        .agents
        .iter()
        .map(|it| it.ended_because.as_str())
        .collect();
    assert_eq!(because, ["lost", "done"]);
    assert!(parts.agents[0].ok > 0 && parts.agents[0].ok < parts.agents[1].ok);
    assert_eq!(record.totals.ok, parts.agents[0].ok + parts.agents[1].ok);
    assert!(agents[0].seen.received_order(&Command::Forget));
}

#[test]
fn a_load_that_is_stopped_gives_what_was_measured() {
    let (_nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let stop = StopRequest::new();
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[1].wait_for_load();
        std::thread::sleep(Duration::from_millis(300));
        stop.soon();
        loading.join().unwrap().unwrap()
    });
    let parts = finished.record.fleet.as_ref().unwrap();
    assert!(
        parts
            .agents
            .iter()
            .all(|it| it.ended_because == "stopped" && it.ok > 0)
    );
    assert_eq!(found(&finished.record), [""; 0]);
    // A stop request before the start cancels the load.
    let error = fleet.load(&wanted(&[]), watching(&stop)).unwrap_err();
    assert_eq!(error, FleetError::Canceled);
}

#[test]
fn a_second_stop_returns_at_once_and_the_rest_can_be_collected() {
    let deaf = AgentScript {
        is_deaf: true,
        ..long()
    };
    let (_nats, fleet, agents) = with_agents(&[("a", deaf.clone()), ("b", long())]);
    let stop = StopRequest::new();
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        std::thread::sleep(Duration::from_millis(300));
        stop.soon();
        let until = Instant::now() + Duration::from_secs(20);
        while !agents[0].seen.received_order(&Command::Stop) {
            assert!(Instant::now() < until, "timeout: no order to stop arrived");
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.at_once();
        loading.join().unwrap().unwrap()
    });
    let record = &finished.record;
    assert_eq!(found(record)[0], "partial", "{:?}", record.findings);
    let text = &record.findings[0].text;
    let line = format!("`prony fleet collect {}`", finished.run);
    assert!(
        text.contains("a had not finished when the coordinator stopped waiting")
            && text.contains(&line),
        "{text}"
    );
    assert_eq!(
        record.fleet.as_ref().unwrap().agents[0].ended_because,
        "stopped"
    );
    record.totals.check().unwrap();
    let stop = StopRequest::new();
    let run = fleet.run(Some(&finished.run)).unwrap();
    let whole = fleet.collect(&run, watching(&stop)).unwrap().record;
    assert_eq!(found(&whole), [""; 0]);
    assert_eq!(whole.fleet.unwrap().agents[0].ok, 60 * 3);
    assert!(record.totals.ok < whole.totals.ok);
}

#[test]
fn a_server_restart_loses_and_duplicates_nothing() {
    let (mut nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let finished = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&fleet, &wanted(&[])));
        agents[1].wait_for_load();
        std::thread::sleep(Duration::from_millis(400));
        nats.process.take();
        std::thread::sleep(Duration::from_millis(200));
        nats.process = Some(nats.prepared.start().unwrap());
        loading.join().unwrap().unwrap()
    });
    let mut all = whole(&long());
    all.merge(&whole(&long()));
    same_counts(&finished.record, &all);
    assert_eq!(found(&finished.record), [""; 0]);
}

#[test]
fn a_run_outlives_its_coordinator() {
    let (nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let other = self::fleet(&nats);
    let stop = StopRequest::new();
    let attached = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        // Watching a run doesn't affect the run.
        let run = other.run(None).unwrap();
        let attached = other.attach(&run, watching(&stop)).unwrap();
        let first = loading.join().unwrap().unwrap();
        assert_eq!(first.record.histograms, attached.record.histograms);
        attached
    });
    let mut all = whole(&long());
    all.merge(&whole(&long()));
    same_counts(&attached.record, &all);
    assert_eq!(found(&attached.record), [""; 0]);
    drop(agents);
    let unknown = "r0".parse().unwrap();
    assert_eq!(
        other.run(Some(&unknown)).unwrap_err(),
        FleetError::NoRun(Some(unknown))
    );
}

#[test]
fn stopping_a_watcher_only_detaches() {
    let (nats, fleet, agents) = with_agents(&[("a", long()), ("b", long())]);
    let other = self::fleet(&nats);
    let (stop, detach) = (StopRequest::new(), StopRequest::new());
    let whole = std::thread::scope(|scope| {
        let loading = scope.spawn(|| fleet.load(&wanted(&[]), watching(&stop)));
        agents[0].wait_for_load();
        let run = other.run(None).unwrap();
        detach.soon();
        let error = other.attach(&run, watching(&detach)).unwrap_err();
        assert_eq!(error, FleetError::Detached(run.run.clone()));
        loading.join().unwrap().unwrap()
    });
    let parts = whole.record.fleet.as_ref().unwrap();
    assert!(parts.agents.iter().all(|it| it.ended_because == "done"));
    for agent in &agents {
        assert!(!agent.seen.received_order(&Command::Stop));
    }
}
