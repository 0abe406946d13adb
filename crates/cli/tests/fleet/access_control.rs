//! Policies and credentials of agents.

use std::time::Duration;

use prony_fleet::division::AgentShard;
use prony_fleet::link::NatsLink;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::wire::{AgentOrder, Command, LoadOrder, ResultMessage, SenderVersion};
use prony_record::EncodedDelta;

use crate::accounting::{Files, due, expect_sum, expect_whole};
use crate::process::wait_until;
use crate::testbed::{Testbed, URL, name};

#[test]
fn a_target_outside_an_agents_policy_is_refused_before_anything_is_sent() {
    let policies = [
        "",
        "[load]\ntargets = ['10.99.0.0/16']",
        "[load]\nrate = 10",
    ];
    let mut testbed = Testbed::with(2, |agent, command, folder| {
        let file = folder.join(format!("policy-{agent}"));
        std::fs::write(&file, policies[agent]).unwrap();
        command.arg("--policy").arg(&file);
    });
    let mut load = testbed.begin("--duration 30s --rate 100 --connections 2");
    assert_eq!(load.process.end(), 3);
    let printed = load.process.stderr();
    for part in ["load.targets", "agent-2", "10.77.0.2", "10.99.0.0/16"] {
        assert!(printed.contains(part), "{printed}");
    }
    let mut check = testbed.coordinator(&["fleet", "check", URL]);
    assert_eq!(check.end(), 1);
    assert!(
        check.stdout().contains("load.targets"),
        "{}",
        check.stdout()
    );
    testbed.expect_quiet();
    // Only one agent may send requests to nginx, and it sent one.
    assert_eq!(testbed.answered(), [(name(0), 1)].into());
    wait_until("no results of a canceled load are stored", || {
        (testbed.files_left() == 0).then_some(())
    });
    // Without a policy, agents also reject public addresses, and name the rule.
    let words = ["load", "--public", "--agents", "agent-1", "-d", "1s"];
    let mut load = testbed.recorded(&words, "http://192.0.2.1/");
    assert_eq!(load.process.end(), 3);
    let printed = load.process.stderr();
    assert!(
        printed.contains("load.targets") && printed.contains("agent-1"),
        "{printed}"
    );
}

/// Returns the orders that a coordinator could send.
fn orders(run: &str) -> Vec<Vec<u8>> {
    let load = LoadOrder {
        url: Some(URL.to_owned()),
        settings: prony_load::LoadSettings {
            duration: Some(Duration::from_secs(60)),
            ..prony_load::LoadSettings::default()
        },
        shard: AgentShard {
            first: 0,
            workers: 1,
            of: 1,
        },
        lease_ms: 60_000,
    };
    let commands = [
        Command::Prepare(load.clone()),
        Command::Start { at: i64::MAX },
        Command::Check(load),
        Command::Renew,
        Command::Stop,
        Command::Forget,
    ];
    let order = |command| AgentOrder {
        experiment: None,
        sender: SenderVersion::own(),
        run: run.parse().unwrap(),
        command,
    };
    let orders = commands.into_iter().map(order);
    orders
        .map(|order| serde_json::to_vec(&order).unwrap())
        .collect()
}

#[test]
fn credentials_of_an_agent_allow_no_orders_and_no_forged_results() {
    let mut testbed = Testbed::new(2);
    let mut load = testbed.load("--duration 4s --rate 100 --connections 4 --threads 1");
    let run = load.run();
    let stolen = testbed.credentials("agent-1");
    let victim: AgentName = "agent-2".parse().unwrap();
    testbed.network.on("agent-1", || {
        let role = Role::Agent("agent-1".parse().unwrap());
        let thief = NatsLink::connect(None, &stolen, &role).unwrap();
        let brief = Duration::from_millis(100);
        for order in orders(&run).into_iter().chain(orders("stolen")) {
            assert!(
                thief
                    .request(&victim.orders_subject(), order.clone(), brief)
                    .is_err()
            );
            let _ = thief.publish(&victim.orders_subject(), order);
        }
        assert!(
            thief
                .request(&victim.clock_subject(), vec![0; 8], brief)
                .is_err()
        );
        let forged = ResultMessage {
            run: run.parse().unwrap(),
            agent: victim.clone(),
            sequence: 1_000,
            packed: EncodedDelta::default(),
            end: None,
        };
        let forged = serde_json::to_vec(&forged).unwrap();
        let _ = thief.publish(&victim.results_subject(&run.parse().unwrap()), forged);
        let _ = thief.publish(&format!("$KV.prony_agents.{victim}"), "{}");
        let _ = thief.publish(&format!("$KV.prony_runs.{run}"), "{}");
        for api in [
            "STREAM.PURGE.PRONY_RESULTS",
            "STREAM.DELETE.KV_prony_agents",
        ] {
            assert!(thief.request(&format!("$JS.API.{api}"), "", brief).is_err());
        }
    });
    let record = load.record();
    expect_whole(&record);
    assert_eq!(due(&record), 400);
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    testbed.expect_quiet();
    let answered: u64 = testbed.answered().values().sum();
    assert_eq!(answered, files.sum.started, "there was no other load");
}
