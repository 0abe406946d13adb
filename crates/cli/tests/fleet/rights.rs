//! What agents' policies and credentials don't allow.

use std::time::Duration;

use prony_fleet::division::Stretch;
use prony_fleet::link::Link;
use prony_fleet::messages::{Load, Order, ResultMessage, VERSION, What};
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_record::Packed;

use crate::books::{Files, due, expect_sum, expect_whole};
use crate::process::until;
use crate::rig::{Rig, URL, name};

#[test]
fn a_target_outside_an_agents_policy_is_refused_by_its_rule_and_nothing_is_sent() {
    let policies = [
        "",
        "[load]\ntargets = ['10.99.0.0/16']",
        "[load]\nrate = 10",
    ];
    let mut rig = Rig::with(2, |agent, command, folder| {
        let file = folder.join(format!("policy-{agent}"));
        std::fs::write(&file, policies[agent]).unwrap();
        command.arg("--policy").arg(&file);
    });
    let mut load = rig.begin("--duration 30s --rate 100 --connections 2");
    assert_eq!(load.process.end(), 3);
    let said = load.process.complaints();
    for part in ["load.targets", "agent-2", "10.77.0.2", "10.99.0.0/16"] {
        assert!(said.contains(part), "{said}");
    }
    let mut check = rig.coordinator(&["fleet", "check", URL]);
    assert_eq!(check.end(), 1);
    assert!(check.said().contains("load.targets"), "{}", check.said());
    rig.expect_quiet();
    // The check of the one that may ask is all that nginx saw.
    assert_eq!(rig.answered(), [(name(0), 1)].into());
    until("nothing is kept of what was called off", || {
        (rig.files_left() == 0).then_some(())
    });
    // A public address is refused without any policy, too, and by a name for it.
    let words = ["load", "--public", "--agents", "agent-1", "-d", "1s"];
    let mut load = rig.recorded(&words, "http://192.0.2.1/");
    assert_eq!(load.process.end(), 3);
    let said = load.process.complaints();
    assert!(
        said.contains("load.targets") && said.contains("agent-1"),
        "{said}"
    );
}

/// What a coordinator would order.
fn orders(run: &str) -> Vec<Vec<u8>> {
    let load = Load {
        url: Some(URL.to_owned()),
        words: vec!["--duration=60s".to_owned()],
        stretch: Stretch {
            first: 0,
            workers: 1,
            of: 1,
        },
        lease_ms: 60_000,
    };
    let whats = [
        What::Prepare(load.clone()),
        What::Start { at: i64::MAX },
        What::Check(load),
        What::Renew,
        What::Stop,
        What::Forget,
    ];
    let order = |what| Order {
        experiment: None,
        version: VERSION.to_owned(),
        run: run.parse().unwrap(),
        what,
    };
    let orders = whats.into_iter().map(order);
    orders
        .map(|order| serde_json::to_vec(&order).unwrap())
        .collect()
}

#[test]
fn an_agents_credentials_command_no_other_agent_and_forge_no_results() {
    let mut rig = Rig::new(2);
    let mut load = rig.load("--duration 4s --rate 100 --connections 4 --threads 1");
    let run = load.run();
    let stolen = rig.credentials("agent-1");
    let victim: AgentName = "agent-2".parse().unwrap();
    rig.ground.on("agent-1", || {
        let role = Role::Agent("agent-1".parse().unwrap());
        let thief = Link::connect(None, &stolen, &role).unwrap();
        let brief = Duration::from_millis(100);
        for order in orders(&run).into_iter().chain(orders("stolen")) {
            assert!(thief.ask(&victim.orders(), order.clone(), brief).is_err());
            let _ = thief.say(&victim.orders(), order);
        }
        assert!(thief.ask(&victim.clock(), vec![0; 8], brief).is_err());
        let forged = ResultMessage {
            run: run.parse().unwrap(),
            agent: victim.clone(),
            sequence: 1_000,
            packed: Packed::default(),
            end: None,
        };
        let forged = serde_json::to_vec(&forged).unwrap();
        let _ = thief.say(&victim.results(&run.parse().unwrap()), forged);
        let _ = thief.say(&format!("$KV.prony_agents.{victim}"), "{}");
        let _ = thief.say(&format!("$KV.prony_runs.{run}"), "{}");
        for api in [
            "STREAM.PURGE.PRONY_RESULTS",
            "STREAM.DELETE.KV_prony_agents",
        ] {
            assert!(thief.ask(&format!("$JS.API.{api}"), "", brief).is_err());
        }
    });
    let record = load.record();
    expect_whole(&record);
    assert_eq!(due(&record), 400);
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    rig.expect_quiet();
    let answered: u64 = rig.answered().values().sum();
    assert_eq!(answered, files.sum.started, "nobody loaded besides");
}
