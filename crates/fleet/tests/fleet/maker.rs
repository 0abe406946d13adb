//! Loads of an experiment's trials, made by agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prony_experiment::runner::{AskedLoad, LoadMaker};
use prony_fleet::coordinator::Fleet;
use prony_fleet::host::AgentLoads;
use prony_fleet::permissions::Role;
use prony_load::{Control, LoadOptions, LoadSpec};

use crate::fake::{Fake, Script};
use crate::ground::Ground;

/// Who made a load.
fn makers(maker: &mut AgentLoads<'_>, agents: &str) -> Vec<String> {
    let url = "http://127.0.0.1:9/";
    let options = LoadOptions::parse_words(&[]).unwrap();
    let record = maker.make(&AskedLoad {
        agents,
        url,
        words: &[],
        spec: &LoadSpec::resolve(Some(url), &options).unwrap(),
        control: &Arc::new(Control::new(1)),
        measured_from: &|_| {},
    });
    let fleet = record.unwrap().fleet.unwrap();
    fleet.agents.into_iter().map(|it| it.name).collect()
}

#[test]
fn the_same_agents_make_every_trials_load() {
    let ground = Ground::new(&["a", "b", "c"]);
    let mut maker = AgentLoads {
        fleet: Fleet::connect(None, &ground.credentials(&Role::Coordinator)).unwrap(),
        clock_bound: Duration::from_secs(5),
        warn: &|_| {},
        show: None,
        before: BTreeMap::new(),
    };
    let start = |name: &str| Fake::start(&ground, name, Script::default());
    let mut agents = vec![start("b")];
    assert_eq!(makers(&mut maker, "1"), ["b"]);
    assert_eq!(makers(&mut maker, "kind=fake"), ["b"]);
    // Whoever comes in mid-experiment would come first, and has the label, too.
    agents.push(start("a"));
    assert_eq!(makers(&mut maker, "1"), ["b"]);
    assert_eq!(makers(&mut maker, "kind=fake"), ["b"]);
    assert_eq!(makers(&mut maker, "2"), ["a", "b"]);

    // An agent that is not there any more is replaced.
    let gone = ["b", "c"].map(|name| name.parse().unwrap());
    maker.before.insert("2".to_owned(), gone.to_vec());
    assert_eq!(makers(&mut maker, "2"), ["a", "b"]);
}
