//! `prony fleet purge`, and the data that the NATS server stores until a run is purged.

use std::path::Path;

use prony_fleet::link::NatsLink;
use prony_fleet::names::RUNS_BUCKET;
use prony_fleet::permissions::Role;
use prony_fleet::wire::RunManifest;

use crate::accounting::expect_whole;
use crate::netns::HUB;
use crate::process::wait_until;
use crate::testbed::{Testbed, folder_contains};

const QUICK: [&str; 7] = [
    "load",
    "--agents=1",
    "--clock-bound=500ms",
    "--requests=20",
    "--rate=100",
    "--connections=2",
    "--threads=1",
];

/// Runs a load with additional options. Returns the ID of the run.
fn make(testbed: &mut Testbed, more: &[&str], url: &str) -> String {
    let mut load = testbed.recorded(&[&QUICK[..], more].concat(), url);
    expect_whole(&load.record());
    load.run()
}

/// Runs a closure with the NATS connection of a coordinator.
fn with_link<T: Send>(testbed: &Testbed, work: impl FnOnce(&NatsLink) -> T + Send) -> T {
    let credentials = testbed.credentials("coordinator");
    testbed.network.on(HUB, || {
        work(&NatsLink::connect(None, &credentials, &Role::Coordinator).unwrap())
    })
}

/// Returns the IDs of the stored runs, sorted.
fn stored(testbed: &Testbed) -> Vec<String> {
    let entries = with_link(testbed, |link| link.entries(RUNS_BUCKET).unwrap());
    let mut runs: Vec<String> = entries.into_iter().map(|(run, _)| run).collect();
    runs.sort();
    runs
}

/// Returns the number of stored result messages for all runs.
fn results(testbed: &Testbed) -> u64 {
    let counts = with_link(testbed, |link| link.stored().unwrap());
    counts.into_iter().map(|(_, count)| count).sum()
}

/// Makes a stored run look older.
fn backdate(testbed: &Testbed, run: &str) {
    with_link(testbed, |link| {
        let stored = link.entry(RUNS_BUCKET, run).unwrap().unwrap();
        let mut manifest: RunManifest = serde_json::from_slice(&stored).unwrap();
        manifest.made_at = "2025-01-01T00:00:00Z".to_owned();
        let json = serde_json::to_vec(&manifest).unwrap();
        link.store(&format!("$KV.{RUNS_BUCKET}.{run}"), None, json)
            .unwrap();
    });
}

/// Runs `prony fleet purge` and checks its exit status. Returns its output.
fn purge(testbed: &mut Testbed, words: &[&str], status: i32) -> String {
    let mut purge = testbed.coordinator(&[&["fleet", "purge"], words].concat());
    assert_eq!(purge.end(), status, "{}", purge.stderr());
    purge.stdout() + &purge.stderr()
}

#[test]
fn a_purge_removes_runs_by_name_by_age_and_all_of_them() {
    let mut testbed = Testbed::new(1);
    let runs = [(); 3].map(|()| make(&mut testbed, &[], crate::testbed::URL));
    assert_eq!(stored(&testbed), runs);
    let printed = purge(&mut testbed, &[&runs[1]], 0);
    assert!(printed.contains("removed 1 run ("), "{printed}");
    assert_eq!(stored(&testbed), [&*runs[0], &*runs[2]]);
    let mut gone = testbed.coordinator(&["fleet", "collect", &runs[1]]);
    assert_eq!(gone.end(), 2, "{}", gone.stderr());
    assert!(gone.stderr().contains(&runs[1]), "{}", gone.stderr());
    let printed = purge(&mut testbed, &[&runs[1]], 2);
    let expected = format!("run {} is not on the server", runs[1]);
    assert!(printed.contains(&expected), "{printed}");

    backdate(&testbed, &runs[0]);
    let printed = purge(&mut testbed, &["--older-than", "2d"], 0);
    assert!(printed.contains("removed 1 run ("), "{printed}");
    assert_eq!(stored(&testbed), [&*runs[2]]);
    let printed = purge(&mut testbed, &["--older-than", "2d"], 0);
    assert!(printed.contains("removed 0 runs (0 messages)"), "{printed}");
    expect_whole(&testbed.recorded(&["fleet", "collect"], &runs[2]).record());

    // A run in progress is not removed, and its load continues.
    let mut load = testbed.load("--duration 3s --rate 50 --connections 2 --threads 1");
    let busy = load.run();
    let printed = purge(&mut testbed, &[&busy], 3);
    assert!(
        printed.contains(&busy) && printed.contains("nothing was removed"),
        "{printed}"
    );
    expect_whole(&load.record());
    let mut removed = None;
    // The agent reports that it is free only after it has sent its last results.
    wait_until("the agent is free", || {
        let mut purge = testbed.coordinator(&["fleet", "purge", "--all"]);
        let status = purge.end();
        removed = Some(purge.stdout() + &purge.stderr());
        (status == 0).then_some(())
    });
    let printed = removed.unwrap();
    assert!(printed.contains("removed 2 runs ("), "{printed}");
    assert_eq!(stored(&testbed), [""; 0]);
    assert_eq!(results(&testbed), 0);
    assert_eq!(testbed.files_left(), 0);
}

#[test]
fn credentials_of_a_load_are_neither_stored_on_the_server_nor_in_its_record() {
    let mut testbed = Testbed::new(1);
    let secrets = [
        "url-s3cret",
        "bWU6dXJsLXMzY3JldA==",
        "header-s3cret",
        "c00kie",
    ];
    let more = [
        "--header=Authorization: Bearer header-s3cret",
        "--header=Cookie: id=c00kie",
    ];
    let url = "http://me:url-s3cret@10.77.0.2/";
    let run = make(&mut testbed, &more, url);
    let store = testbed.path("up/store");
    assert!(folder_contains(&store, "http://10.77.0.2/"));
    let stored = with_link(&testbed, |link| {
        link.entry(RUNS_BUCKET, &run).unwrap().unwrap()
    });
    let stored = String::from_utf8_lossy(&stored);
    for secret in secrets {
        assert!(!stored.contains(secret), "{stored}");
        assert!(!folder_contains(&store, secret), "{secret}");
        let states = [testbed.path("state-0"), testbed.path("kept")];
        let states = states.iter().filter(|path| path.exists());
        for folder in states.map(AsRef::<Path>::as_ref) {
            assert!(!folder_contains(folder, secret), "{secret}");
        }
    }
    let mut collected = testbed.coordinator(&["fleet", "collect", &run, "--json", "-"]);
    assert_eq!(collected.end(), 0, "{}", collected.stderr());
    for secret in secrets {
        assert!(
            !collected.stdout().contains(secret),
            "{}",
            collected.stdout()
        );
    }
}
