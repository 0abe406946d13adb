//! Logs whose requests are sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex};

use prony_record::Outcome;

use crate::harness::{Raw, Served, Via, errors, load, outcomes, read_head, resolve};

/// Returns the text of a log with these clients and paths, in one second.
fn log_of<'a>(requests: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let line = |(client, path)| {
        format!("{client} - - [10/Oct/2000:13:55:36 +0000] \"GET {path} HTTP/1.1\" 200 5\n")
    };
    requests.into_iter().map(line).collect()
}

/// A request as a server saw it: the index of its connection, its target and its cookies.
type Seen = (usize, String, Option<String>);

/// Starts a server that gives each request without a cookie one with the request's path.
fn cookie_server() -> (Raw, Arc<Mutex<Vec<Seen>>>) {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let (all, connections) = (seen.clone(), Mutex::new(0));
    let raw = Raw::new(move |mut stream| {
        let connection = {
            let mut count = connections.lock().unwrap();
            *count += 1;
            *count
        };
        while let Some(head) = read_head(&mut stream) {
            let head = String::from_utf8(head).unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            let mut lines = head.lines();
            let cookie = lines.find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("cookie")
                    .then(|| value.to_owned())
            });
            let set = match cookie {
                Some(_) => String::new(),
                None => format!("Set-Cookie: id={}\r\n", &target[1..]),
            };
            all.lock().unwrap().push((connection, target, cookie));
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{set}\r\nok");
            if stream.write_all(response.as_bytes()).is_err() {
                break;
            }
        }
    });
    (raw, seen)
}

#[test]
fn each_client_has_its_own_connection_and_cookies() {
    let (server, seen) = cookie_server();
    let file = tempfile::NamedTempFile::new().unwrap();
    let clients = ["10.0.0.1", "10.0.0.2", "::1"];
    let requests = (0..30).map(|it| (clients[it % 3], ["/a", "/b", "/c"][it % 3]));
    std::fs::write(&file, log_of(requests)).unwrap();
    let words = format!("--replay {} --cookies -t 2", file.path().display());
    let record = load(&server.url(), &words);
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 30)],
        "{}",
        errors(&record)
    );
    assert_eq!(record.totals.connections_opened, 3);
    let mut by_connection: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (connection, target, cookie) in seen.lock().unwrap().iter() {
        by_connection
            .entry(*connection)
            .or_default()
            .insert(target.clone());
        if let Some(cookie) = cookie {
            assert_eq!(*cookie, format!("id={}", &target[1..]));
        }
    }
    assert!(
        by_connection.values().all(|targets| targets.len() == 1),
        "{by_connection:?}"
    );
    let without = seen
        .lock()
        .unwrap()
        .iter()
        .filter(|it| it.2.is_none())
        .count();
    assert_eq!(without, 3);
    assert_eq!(record.replay.unwrap().handovers, 0);
}

#[test]
fn more_clients_than_connections_share_them_without_their_cookies() {
    let (server, seen) = cookie_server();
    let file = tempfile::NamedTempFile::new().unwrap();
    let names: Vec<(String, String)> = (0..40)
        .map(|it| (format!("10.0.0.{}", it / 8), format!("/{}", it / 8)))
        .collect();
    let requests = names
        .iter()
        .map(|(client, path)| (client.as_str(), path.as_str()));
    std::fs::write(&file, log_of(requests)).unwrap();
    let words = format!("--replay {} --cookies -c 2", file.path().display());
    let record = load(&server.url(), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 40)]);
    assert!(record.totals.connections_opened <= 2);
    assert!(record.replay.unwrap().handovers >= 3);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().any(|it| it.2.is_some()));
    assert!(seen.iter().all(|(_, path, cookie)| {
        cookie
            .as_ref()
            .is_none_or(|cookie| *cookie == format!("id={}", &path[1..]))
    }));
}

#[test]
fn hosts_of_the_log_are_never_reached() {
    let (server, seen) = cookie_server();
    let (elsewhere, other) = cookie_server();
    let host = elsewhere.url().replace("http://", "");
    let host = host.trim_end_matches('/');
    let file = tempfile::NamedTempFile::new().unwrap();
    let targets = [
        format!("http://{host}/x"),
        format!("//{host}/y"),
        format!("/{host}@z"),
    ];
    let mut text = log_of(targets.iter().map(|target| ("h", target.as_str())));
    text += &log_of([("h", "*"), ("h", host)]);
    text += "\u{0}\u{1}\u{2}\n";
    text += &"x".repeat(1 << 20);
    std::fs::write(&file, text).unwrap();
    let record = load(
        &server.url(),
        &format!("--replay {}", file.path().display()),
    );
    assert_eq!(outcomes(&record), [(Outcome::Ok, 3)]);
    let seen = seen
        .lock()
        .unwrap()
        .iter()
        .map(|it| it.1.clone())
        .collect::<BTreeSet<_>>();
    let expected = ["/x".to_owned(), targets[1].clone(), targets[2].clone()];
    assert_eq!(seen, expected.into());
    assert!(other.lock().unwrap().is_empty());
    let used = record.replay.unwrap();
    let skipped: Vec<(u64, &[u64])> = used
        .skipped
        .iter()
        .map(|it| (it.lines, &it.first[..]))
        .collect();
    assert_eq!(skipped, [(1, &[7][..]), (1, &[6]), (2, &[4, 5])]);
    let text = record
        .findings
        .iter()
        .find(|it| it.id == prony_record::FindingId::LinesSkipped);
    assert!(
        text.unwrap().text.contains("2 without a path (lines 4, 5)"),
        "{text:?}"
    );
}

#[test]
fn a_log_ends_with_its_time_or_its_number_of_requests() {
    let served = Served::clear();
    let line = log_of([("10.0.0.1", "/bytes/1")]);
    let log = served.file("log", line.repeat(1_000));
    for (words, requests) in [
        ("-n 100 -c 2", 100),
        ("-c 2 -t 2", 1_000),
        ("-r 5000 -n 50", 50),
    ] {
        let words = format!("--replay {} {words}", log.display());
        let record = served.load(Via::Tcp, "/", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, requests)], "{words}");
        assert_eq!(
            record.replay.unwrap().ended_early,
            requests < 1_000,
            "{words}"
        );
    }
    // Half of the requests are due in the first half of the second.
    let words = format!("--replay {} -d 500ms", log.display());
    let record = served.load(Via::Tcp, "/", &words);
    assert_eq!(record.totals.started + record.totals.unstarted, 500);
    assert!(record.replay.unwrap().ended_early);
    assert_eq!(record.load.model, "open");
}

#[test]
fn logs_are_replayed_over_tls_and_http_2() {
    let served = Served::secured();
    let clients = ["10.0.0.1", "10.0.0.2"];
    let requests = (0..200).map(|it| (clients[it % 2], "/bytes/10"));
    let log = served.file("log", log_of(requests));
    for words in ["", "--http 2 --streams 4", "--http 1.1 -c 5"] {
        let words = format!("--replay {} {words}", log.display());
        let record = served.load(Via::Tls, "/", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 200)], "{words}");
    }
}

#[test]
fn settings_that_contradict_a_log_are_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, log_of([("h", "/")])).unwrap();
    let path = file.path().to_str().unwrap();
    for (words, expected) in [
        (
            &["--replay", path, "--follow", "1"][..],
            "--follow, because a redirect could lead",
        ),
        (
            &["--replay", path, "--speed", "2", "-r", "5"],
            "--speed can't be combined with --rate",
        ),
        (&["--speed", "2"], "--speed needs --replay"),
        (
            &["--replay", path, "--replay-methods", "CONNECT"],
            "tunnels can't be replayed",
        ),
        (&["--replay", "/dev/zero"], "not a regular file"),
        (&["--replay", "/missing"], "/missing"),
        (&["--urls", path], "send its requests with --replay"),
    ] {
        let error = resolve("http://127.0.0.1:9/", words)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
