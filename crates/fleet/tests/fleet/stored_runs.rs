//! Runs as the NATS server stores them, and their removal.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use prony_fleet::coordinator::Stop;
use prony_fleet::link::Link;
use prony_fleet::messages::What;
use prony_fleet::names::{RUNS, RunId};
use prony_fleet::permissions::Role;

use crate::coordinator::{fleet, load, wanted, watching, with_agents};
use crate::fake::Script;
use crate::ground::Ground;
use crate::hands::{Hands, There, settings};

/// The password of the URL, and the same as its Authorization header encodes it.
const URL_SECRETS: [&str; 2] = ["url-s3cret", "bWU6dXJsLXMzY3JldA=="];
/// The value of the Authorization header that is given as an option.
const HEADER_SECRET: &str = "header-s3cret";

/// Starts an HTTP server that keeps each Authorization header; gives its address.
fn authorization_log() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = kept.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines.next() {
                    if line.to_ascii_lowercase().starts_with("authorization:") {
                        kept.lock().unwrap().push(line);
                    } else if line.is_empty() {
                        let _ =
                            (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    }
                }
            });
        }
    });
    (address, log)
}

/// Whether a file in this folder, or below it, contains the text.
fn folder_contains(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => folder_contains(&path, text),
            // The server may have removed a file since it was listed.
            false => fs::read(&path).is_ok_and(|bytes| contains(&bytes, text)),
        }
    })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// The keys of the bucket of runs.
fn keys(link: &Link) -> Vec<String> {
    let entries = link.entries(RUNS).unwrap().into_iter();
    entries.map(|(key, _)| key).collect()
}

/// The number of messages with results of a run.
fn result_messages(link: &Link, run: &RunId) -> u64 {
    let counts = link.stored().unwrap().into_iter();
    let of_run = counts.filter(|(subject, _)| subject.ends_with(&format!(".{run}")));
    of_run.map(|(_, count)| count).sum()
}

#[test]
fn the_server_stores_no_credentials_of_a_load() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    let fleet = fleet(&ground);
    let (address, log) = authorization_log();
    let url = format!("http://me:{}@{address}/path", URL_SECRETS[0]);
    let header = format!("--header=Authorization: Bearer {HEADER_SECRET}");
    // Without the option the agent sends the credentials of the URL.
    let marker = "--header=X-Marker: kept";
    for words in [
        &["--requests=5", "--connections=1", marker][..],
        &["--requests=5", "--connections=1", marker, &header][..],
    ] {
        let mut load_wanted = wanted(words);
        load_wanted.url = Some(url.clone());
        let record = load(&fleet, &load_wanted).unwrap().record;
        assert_eq!(record.totals.ok, 5, "{:?}", record.totals);
        let json = record.to_json();
        for secret in URL_SECRETS.iter().chain([&HEADER_SECRET]) {
            assert!(!json.contains(secret), "{json}");
        }
    }
    // The agent had the credentials, by its orders.
    let sent = log.lock().unwrap().join("\n");
    assert!(
        sent.contains(URL_SECRETS[1]) && sent.contains(HEADER_SECRET),
        "{sent}"
    );

    let entries = hands.link.entries(RUNS).unwrap();
    assert_eq!(entries.len(), 2);
    for (key, value) in &entries {
        let text = String::from_utf8_lossy(value);
        assert!(contains(value, "X-Marker: kept"), "{key}: {text}");
        assert!(contains(value, &format!("http://{address}/path")), "{text}");
    }
    let store = ground.folder.path().join("store");
    assert!(folder_contains(&store, "X-Marker: kept"));
    for secret in URL_SECRETS.iter().chain([&HEADER_SECRET]) {
        for (key, value) in &entries {
            let text = String::from_utf8_lossy(value);
            assert!(!text.contains(secret), "{key}: {text}");
        }
        assert!(!folder_contains(&store, secret), "{secret}");
    }
}

#[test]
fn a_purge_removes_one_run_and_leaves_the_others() {
    let (ground, fleet, agents) = with_agents(&[("a", Script::default())]);
    let link = ground.link(&Role::Coordinator);
    let runs = [(); 2].map(|()| load(&fleet, &wanted(&[])).unwrap().run);
    assert!(runs.iter().all(|run| result_messages(&link, run) > 0));
    let forgets = || {
        let orders = agents[0].seen.orders.lock().unwrap();
        orders.iter().filter(|what| **what == What::Forget).count()
    };
    let (before, stored) = (forgets(), result_messages(&link, &runs[0]));

    let manifest = fleet.run(Some(&runs[0])).unwrap();
    let removed = fleet.purge(&manifest).unwrap();
    assert!(removed > stored, "its order and results: {removed}");
    assert_eq!(forgets(), before + 1);
    assert_eq!(keys(&link), [runs[1].to_string()]);
    assert_eq!(result_messages(&link, &runs[0]), 0);
    let error = fleet.run(Some(&runs[0])).unwrap_err();
    assert!(
        error.to_string().contains(runs[0].as_str()),
        "the error names the run: {error}"
    );
    let stop = Stop::new();
    let other = fleet.run(Some(&runs[1])).unwrap();
    let record = fleet.collect(&other, watching(&stop)).unwrap().record;
    assert!(record.totals.ok > 0, "{:?}", record.totals);

    fleet.purge_rest().unwrap();
    assert_eq!(keys(&link), [""; 0]);
    assert_eq!(result_messages(&link, &runs[1]), 0);
}
