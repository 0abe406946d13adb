//! Runs stored on the NATS server, and their removal.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use prony_fleet::coordinator::StopRequest;
use prony_fleet::link::NatsLink;
use prony_fleet::names::{RUNS_BUCKET, RunId};
use prony_fleet::permissions::Role;
use prony_fleet::wire::Command;

use crate::coordinator::{fleet, load, wanted, watching, with_agents};
use crate::harness::{RunningAgent, TestCoordinator, settings};
use crate::nats_server::TestServer;
use crate::scripted_agent::AgentScript;

/// The password in the URL, in cleartext and as it appears in the Authorization header.
const URL_SECRETS: [&str; 2] = ["url-s3cret", "bWU6dXJsLXMzY3JldA=="];
/// Secret in an Authorization header that is set by an option.
const HEADER_SECRET: &str = "header-s3cret";

/// Starts an HTTP server that collects Authorization headers. Returns its address.
fn authorization_log() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    // The thread ends with the test process.
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

/// Returns true if a file in this folder or below it contains the text.
fn folder_contains(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            folder_contains(&path, text)
        } else {
            // The server may have removed the file after it was listed.
            fs::read(&path).is_ok_and(|bytes| contains(&bytes, text))
        }
    })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Returns the keys in the bucket of runs.
fn keys(link: &NatsLink) -> Vec<String> {
    let entries = link.entries(RUNS_BUCKET).unwrap().into_iter();
    entries.map(|(key, _)| key).collect()
}

/// Returns the number of stored result messages for a run.
fn result_messages(link: &NatsLink, run: &RunId) -> u64 {
    let counts = link.stored().unwrap().into_iter();
    let of_run = counts.filter(|(subject, _)| subject.ends_with(&format!(".{run}")));
    of_run.map(|(_, count)| count).sum()
}

#[test]
fn the_server_stores_no_credentials_of_a_load() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    let fleet = fleet(&nats);
    let (address, log) = authorization_log();
    let url = format!("http://me:{}@{address}/path", URL_SECRETS[0]);
    let header = format!("--header=Authorization: Bearer {HEADER_SECRET}");
    // Without an Authorization header among the options, the agent sends the credentials in the
    // URL.
    for words in [
        &["--requests=5", "--connections=1"][..],
        &["--requests=5", "--connections=1", &header][..],
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
    // The agent received the credentials in its orders.
    let sent = log.lock().unwrap().join("\n");
    assert!(
        sent.contains(URL_SECRETS[1]) && sent.contains(HEADER_SECRET),
        "{sent}"
    );

    let entries = coordinator.link.entries(RUNS_BUCKET).unwrap();
    assert_eq!(entries.len(), 2);
    for (_, value) in &entries {
        let text = String::from_utf8_lossy(value);
        assert!(contains(value, &format!("http://{address}/path")), "{text}");
    }
    let store = nats.folder.path().join("store");
    assert!(folder_contains(&store, &format!("http://{address}/path")));
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
    let (nats, fleet, agents) = with_agents(&[("a", AgentScript::default())]);
    let link = nats.link(&Role::Coordinator);
    let runs = [(); 2].map(|()| load(&fleet, &wanted(&[])).unwrap().run);
    assert!(runs.iter().all(|run| result_messages(&link, run) > 0));
    let forgets = || {
        let orders = agents[0].seen.orders.lock().unwrap();
        orders
            .iter()
            .filter(|command| **command == Command::Forget)
            .count()
    };
    let (before, stored) = (forgets(), result_messages(&link, &runs[0]));

    let manifest = fleet.run(Some(&runs[0])).unwrap();
    let removed = fleet.purge(&manifest).unwrap();
    assert!(removed > stored, "messages removed with the run: {removed}");
    assert_eq!(forgets(), before + 1);
    assert_eq!(keys(&link), [runs[1].to_string()]);
    assert_eq!(result_messages(&link, &runs[0]), 0);
    let error = fleet.run(Some(&runs[0])).unwrap_err();
    assert!(
        error.to_string().contains(runs[0].as_str()),
        "the error names the run: {error}"
    );
    let stop = StopRequest::new();
    let other = fleet.run(Some(&runs[1])).unwrap();
    let record = fleet.collect(&other, watching(&stop)).unwrap().record;
    assert!(record.totals.ok > 0, "{:?}", record.totals);

    fleet.purge_rest().unwrap();
    assert_eq!(keys(&link), [""; 0]);
    assert_eq!(result_messages(&link, &runs[1]), 0);
}
