//! `prony fleet purge`, and what the NATS server stores until then.

use std::path::Path;

use prony_fleet::link::Link;
use prony_fleet::messages::Manifest;
use prony_fleet::names::RUNS;
use prony_fleet::permissions::Role;

use crate::books::expect_whole;
use crate::ground::HUB;
use crate::process::until;
use crate::rig::{Rig, folder_contains};

const QUICK: [&str; 7] = [
    "load",
    "--agents=1",
    "--clock-bound=500ms",
    "--requests=20",
    "--rate=100",
    "--connections=2",
    "--threads=1",
];

/// Makes a load with these options too; gives its run.
fn make(rig: &mut Rig, more: &[&str], url: &str) -> String {
    let mut load = rig.recorded(&[&QUICK[..], more].concat(), url);
    expect_whole(&load.record());
    load.run()
}

/// Does something with a link of the coordinator's.
fn with_link<T: Send>(rig: &Rig, work: impl FnOnce(&Link) -> T + Send) -> T {
    let credentials = rig.credentials("coordinator");
    rig.ground.on(HUB, || {
        work(&Link::connect(None, &credentials, &Role::Coordinator).unwrap())
    })
}

/// The runs in the bucket, sorted.
fn stored(rig: &Rig) -> Vec<String> {
    let entries = with_link(rig, |link| link.entries(RUNS).unwrap());
    let mut runs: Vec<String> = entries.into_iter().map(|(run, _)| run).collect();
    runs.sort();
    runs
}

/// The number of messages with results, of all runs.
fn results(rig: &Rig) -> u64 {
    let counts = with_link(rig, |link| link.stored().unwrap());
    counts.into_iter().map(|(_, count)| count).sum()
}

/// Makes a run older than it is.
fn backdate(rig: &Rig, run: &str) {
    with_link(rig, |link| {
        let stored = link.entry(RUNS, run).unwrap().unwrap();
        let mut manifest: Manifest = serde_json::from_slice(&stored).unwrap();
        manifest.made_at = "2025-01-01T00:00:00Z".to_owned();
        let json = serde_json::to_vec(&manifest).unwrap();
        link.store(&format!("$KV.{RUNS}.{run}"), None, json)
            .unwrap();
    });
}

/// Runs `prony fleet purge`, which has to end with this status; gives all its output.
fn purge(rig: &mut Rig, words: &[&str], status: i32) -> String {
    let mut purge = rig.coordinator(&[&["fleet", "purge"], words].concat());
    assert_eq!(purge.end(), status, "{}", purge.complaints());
    purge.said() + &purge.complaints()
}

#[test]
fn a_purge_removes_runs_by_name_by_age_and_all_of_them() {
    let mut rig = Rig::new(1);
    let runs = [(); 3].map(|()| make(&mut rig, &[], crate::rig::URL));
    assert_eq!(stored(&rig), runs);
    let said = purge(&mut rig, &[&runs[1]], 0);
    assert!(said.contains("removed 1 run ("), "{said}");
    assert_eq!(stored(&rig), [&*runs[0], &*runs[2]]);
    let mut gone = rig.coordinator(&["fleet", "collect", &runs[1]]);
    assert_eq!(gone.end(), 2, "{}", gone.complaints());
    assert!(
        gone.complaints().contains(&runs[1]),
        "{}",
        gone.complaints()
    );
    let said = purge(&mut rig, &[&runs[1]], 2);
    assert!(said.contains(&format!("no run {}", runs[1])), "{said}");

    backdate(&rig, &runs[0]);
    let said = purge(&mut rig, &["--older-than", "2d"], 0);
    assert!(said.contains("removed 1 run ("), "{said}");
    assert_eq!(stored(&rig), [&*runs[2]]);
    let said = purge(&mut rig, &["--older-than", "2d"], 0);
    assert!(said.contains("removed 0 runs (0 messages)"), "{said}");
    expect_whole(&rig.recorded(&["fleet", "collect"], &runs[2]).record());

    // A run in flight is refused, and its load goes on.
    let mut load = rig.load("--duration 3s --rate 50 --connections 2 --threads 1");
    let busy = load.run();
    let said = purge(&mut rig, &[&busy], 3);
    assert!(
        said.contains(&busy) && said.contains("nothing was removed"),
        "{said}"
    );
    expect_whole(&load.record());
    let mut removed = None;
    // The agent registers itself as free a moment after its last results.
    until("the agent is free", || {
        let mut purge = rig.coordinator(&["fleet", "purge", "--all"]);
        let status = purge.end();
        removed = Some(purge.said() + &purge.complaints());
        (status == 0).then_some(())
    });
    let said = removed.unwrap();
    assert!(said.contains("removed 2 runs ("), "{said}");
    assert_eq!(stored(&rig), [""; 0]);
    assert_eq!(results(&rig), 0);
    assert_eq!(rig.files_left(), 0);
}

#[test]
fn credentials_of_a_load_are_neither_stored_on_the_server_nor_in_its_record() {
    let mut rig = Rig::new(1);
    let secrets = [
        "url-s3cret",
        "bWU6dXJsLXMzY3JldA==",
        "header-s3cret",
        "c00kie",
    ];
    let more = [
        "--header=Authorization: Bearer header-s3cret",
        "--header=Cookie: id=c00kie",
        "--header=X-Marker: kept",
    ];
    let url = "http://me:url-s3cret@10.77.0.2/";
    let run = make(&mut rig, &more, url);
    let store = rig.path("up/store");
    assert!(folder_contains(&store, "X-Marker: kept"));
    let stored = with_link(&rig, |link| link.entry(RUNS, &run).unwrap().unwrap());
    let stored = String::from_utf8_lossy(&stored);
    for secret in secrets {
        assert!(!stored.contains(secret), "{stored}");
        assert!(!folder_contains(&store, secret), "{secret}");
        let states = [rig.path("state-0"), rig.path("kept")];
        let states = states.iter().filter(|path| path.exists());
        for folder in states.map(AsRef::<Path>::as_ref) {
            assert!(!folder_contains(folder, secret), "{secret}");
        }
    }
    let mut collected = rig.coordinator(&["fleet", "collect", &run, "--json", "-"]);
    assert_eq!(collected.end(), 0, "{}", collected.complaints());
    for secret in secrets {
        assert!(!collected.said().contains(secret), "{}", collected.said());
    }
}
