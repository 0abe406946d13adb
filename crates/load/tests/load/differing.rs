//! Tests of requests that differ: lists with weights and expectations, and values from a data file,
//! counted at the server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use prony_load::{Control, LoadScope, ShardRange, run_at};
use prony_record::Outcome;

use crate::harness::*;

/// A request as the server received it.
#[derive(Debug, Clone)]
struct Arrived {
    head: String,
    body: String,
}

impl Arrived {
    /// Method and target of the request.
    fn line(&self) -> &str {
        let line = self.head.lines().next().unwrap();
        line.strip_suffix(" HTTP/1.1").unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        let (_, value) = fields.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}

/// Returns a server that stores all requests, and the list of these requests. The server responds
/// to paths that begin with `/missing` with status 404, and redirects paths that begin with
/// `/moved` to `/there`.
fn keeping() -> (Raw, Arc<Mutex<Vec<Arrived>>>) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let kept = all.clone();
    let raw = Raw::new(move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let mut arrived = Arrived {
                head: String::from_utf8(head).unwrap(),
                body: String::new(),
            };
            let length = arrived
                .header("content-length")
                .map_or(0, |it| it.parse().unwrap());
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).is_err() {
                return;
            }
            arrived.body = String::from_utf8(body).unwrap();
            let status = match arrived.line() {
                line if line.contains("/missing") => "404 Not Found",
                line if line.contains("/moved") => "307 X\r\nLocation: /there",
                _ => "200 OK",
            };
            kept.lock().unwrap().push(arrived);
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    });
    (raw, all)
}

/// Writes a text file into a folder and returns its path.
fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A data file with rows 0 to `rows` - 1.
fn rows(folder: &tempfile::TempDir, rows: u32) -> String {
    let lines = (0..rows).map(|row| format!("{row},\"row {row}\"\n"));
    file(
        folder,
        "rows.csv",
        &format!("id,name\n{}", lines.collect::<String>()),
    )
}

/// Asserts that requests 1 to `count` were sent once each, with their rows.
fn assert_exact(arrived: &[Arrived], count: u64, rows: u64) {
    let mut numbers = BTreeSet::new();
    for request in arrived {
        let (row, number) = request.line().rsplit_once("?s=").unwrap();
        let number: u64 = number.parse().unwrap();
        assert_eq!(row, format!("GET /u/{}", (number - 1) % rows));
        assert!(numbers.insert(number), "{number} was sent twice");
    }
    assert_eq!(numbers.len() as u64, count);
    assert_eq!(numbers.last(), Some(&count));
}

#[test]
fn every_request_has_its_own_values() {
    let folder = tempfile::tempdir().unwrap();
    let (server, arrived) = keeping();
    let data = rows(&folder, 3);
    let words = [
        "-n",
        "5",
        "-c",
        "1",
        "-X",
        "POST",
        "--data",
        &data,
        "-H",
        "X-Name: <{{ name }}>",
        "-H",
        "X-Id: {{ uuid }}",
        "-H",
        "Cookie: a=1",
        "--body",
        "{{ name | url }};{{ seq }};{{ random(7, 7) }};{\"a\":{\"b\":1}}",
    ];
    let record = load_with(&(server.url() + "u/{{ id }}?n={{ name }}"), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 5)]);
    let arrived = arrived.lock().unwrap();
    let lines: Vec<&str> = arrived.iter().map(Arrived::line).collect();
    let line = |row: u32| format!("POST /u/{row}?n=row%20{row}");
    assert_eq!(lines, [0, 1, 2, 0, 1].map(line));
    for (request, number) in arrived.iter().zip(1..) {
        let row = (number - 1) % 3;
        assert_eq!(request.header("x-name").unwrap(), format!("<row {row}>"));
        assert_eq!(request.header("cookie"), Some("a=1"));
        let body = format!("row%20{row};{number};7;{{\"a\":{{\"b\":1}}}}");
        assert_eq!(request.body, body);
    }
    let ids: BTreeSet<_> = arrived.iter().map(|it| it.header("x-id")).collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(
        record.totals.bytes_out,
        arrived
            .iter()
            .map(|it| (it.head.len() + it.body.len()) as u64)
            .sum::<u64>()
    );
}

#[test]
fn rows_are_divided_exactly_among_workers() {
    let folder = tempfile::tempdir().unwrap();
    let data = rows(&folder, 7);
    for words in [
        "-n 300 -c 5 -t 3",
        "-n 200 -c 4 -t 2 -r 4000",
        "-n 9 -c 7 -t 7",
    ] {
        let (server, arrived) = keeping();
        let words = format!("{words} --data {data}");
        let record = load(&(server.url() + "u/{{id}}?s={{seq}}"), &words);
        assert_eq!(record.totals.failed, 0, "{words}");
        assert_exact(&arrived.lock().unwrap(), record.totals.ok, 7);
    }
}

#[test]
fn rows_are_divided_exactly_among_processes() {
    let folder = tempfile::tempdir().unwrap();
    let data = rows(&folder, 4);
    for words in ["-n 101 -c 6", "-n 101 -c 6 -r 5000"] {
        let (server, arrived) = keeping();
        let words = format!("{words} --data {data}");
        let words: Vec<&str> = words.split(' ').collect();
        let url = server.url() + "u/{{id}}?s={{seq}}";
        for first in 0..3 {
            let shards = Some(ShardRange {
                first,
                workers: 1,
                of: 3,
            });
            let scope = LoadScope {
                shards,
                ..LoadScope::default()
            };
            let spec = options(&words).resolve_within(Some(&url), &scope).unwrap();
            run_at(&spec, &Control::new(1), None, &|| Some(Instant::now())).unwrap();
        }
        assert_exact(&arrived.lock().unwrap(), 101, 4);
    }
}

/// Requests of a warm-up don't count towards `-n`. Workers therefore have no fixed ranges of
/// numbers, and number their requests in turn.
#[test]
fn each_worker_sends_all_rows_equally_often_without_ranges_of_requests() {
    let folder = tempfile::tempdir().unwrap();
    let data = rows(&folder, 2);
    let words = format!("-n 40 -c 2 --warmup 1ms --data {data}");
    let words: Vec<&str> = words.split(' ').collect();
    let mut numbers = BTreeSet::new();
    for first in 0..2 {
        let (server, arrived) = keeping();
        let url = server.url() + "u/{{id}}?s={{seq}}";
        let shards = Some(ShardRange {
            first,
            workers: 1,
            of: 2,
        });
        let scope = LoadScope {
            shards,
            ..LoadScope::default()
        };
        let spec = options(&words).resolve_within(Some(&url), &scope).unwrap();
        run_at(&spec, &Control::new(1), None, &|| Some(Instant::now())).unwrap();
        let arrived = arrived.lock().unwrap();
        let count = |row: &str| arrived.iter().filter(|it| it.line().contains(row)).count();
        let (first_row, second_row) = (count("/u/0?"), count("/u/1?"));
        assert!(first_row > 0 && first_row.abs_diff(second_row) <= 1);
        assert!(
            arrived
                .iter()
                .all(|it| numbers.insert(it.line().to_owned()))
        );
    }
}

#[test]
fn random_rows_repeat_by_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let data = rows(&folder, 50);
    let run = |seed: &str| {
        let (server, arrived) = keeping();
        let words = format!("-n 100 -c 1 --data {data} --data-order random --seed {seed}");
        load(
            &(server.url() + "{{ id }}/{{ random(0, 99) }}/{{ uuid }}"),
            &words,
        );
        let arrived = arrived.lock().unwrap();
        arrived
            .iter()
            .map(|it| it.line().to_owned())
            .collect::<Vec<_>>()
    };
    let first = run("1");
    assert_eq!(first, run("1"));
    assert_ne!(first, run("2"));
    let drawn: BTreeSet<&str> = first
        .iter()
        .map(|it| it.split('/').nth(1).unwrap())
        .collect();
    assert!(drawn.len() > 30, "{}", drawn.len());
}

#[test]
fn json_lines_have_their_own_parts() {
    let folder = tempfile::tempdir().unwrap();
    let (server, arrived) = keeping();
    let list = file(
        &folder,
        "list",
        "/plain\n\
         {\"url\": \"/a\", \"method\": \"PUT\", \"headers\": {\"x-one\": \"own\", \"X-Three\": \"{{ seq }}\"}, \"body\": \"own\"}\n\
         {\"url\": \"/b\", \"method\": \"GET\"}\n\
         {\"url\": \"/c\", \"body\": \"n={{ seq }}\"}\n\
         {\"url\": \"/d\"}\n",
    );
    let words = [
        "-n",
        "5",
        "-c",
        "1",
        "-X",
        "POST",
        "--body",
        "default",
        "--urls",
        &list,
        "-H",
        "X-One: default",
        "-H",
        "X-Two: {{ '{{' }}",
    ];
    let record = load_with(&server.url(), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 5)]);
    let arrived = arrived.lock().unwrap();
    let short: Vec<_> = arrived
        .iter()
        .map(|it| (it.line(), it.header("x-one").unwrap(), it.body.as_str()))
        .collect();
    assert_eq!(
        short,
        [
            ("POST /plain", "default", "default"),
            ("PUT /a", "own", "own"),
            ("GET /b", "default", ""),
            ("POST /c", "default", "n=4"),
            ("POST /d", "default", "default"),
        ]
    );
    assert!(arrived.iter().all(|it| it.header("x-two") == Some("{{")));
    assert_eq!(arrived[1].header("x-three"), Some("2"));
}

#[test]
fn each_user_goes_through_the_list_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let list = file(&folder, "list", "/login\n/a\n/b\n");
    // Responds with 401 to requests without the cookie that /login sets.
    let server = Raw::new(|mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let head = String::from_utf8(head).unwrap().to_lowercase();
            let status = if head.starts_with("get /login") || head.contains("cookie: s=1") {
                "200 OK\r\nSet-Cookie: s=1"
            } else {
                "401 Unauthorized"
            };
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    });
    let statuses = |words: &str| {
        let words = format!("-n 60 --cookies --urls {list} {words}");
        load(&server.url(), &words).status
    };
    for words in [
        "-c 20",
        "-c 20 --no-keepalive",
        "-c 7 -t 2",
        "-c 20 --order per-user -r 2000",
    ] {
        assert_eq!(statuses(words), BTreeMap::from([(200, 60)]), "{words}");
    }
    // Users whose first request isn't /login have no cookie. Their number depends on the machine.
    let in_turn = statuses("-c 20 --order sequence");
    assert!(in_turn.contains_key(&401), "{in_turn:?}");
}

#[test]
fn a_user_keeps_its_data_row_for_a_pass_through_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let list = file(
        &folder,
        "list",
        "/login/{{ name }}\n/static\n/page/{{ name }}/{{ seq }}\n",
    );
    let rows: String = (0..120).map(|row| format!("u{row}\n")).collect();
    let data = file(&folder, "data", &format!("name\n{rows}"));
    for words in [
        "-c 5 --order per-user",
        "-c 4 -t 2 --cookies --no-keepalive",
        "-c 4 --order per-user -r 2000",
    ] {
        let (server, arrived) = keeping();
        let words = format!("-n 120 --urls {list} --data {data} {words}");
        load(&server.url(), &words);
        let (mut logins, mut pages) = (BTreeMap::new(), BTreeMap::new());
        for request in arrived.lock().unwrap().iter() {
            let line = request.line();
            let mut parts = line.split(['/', ' ']).skip_while(|part| !part.is_empty());
            let (kind, name) = (parts.nth(1).unwrap(), parts.next().unwrap_or_default());
            match kind {
                "login" => *logins.entry(name.to_owned()).or_insert(0) += 1,
                "page" => *pages.entry(name.to_owned()).or_insert(0) += 1,
                _ => {}
            }
        }
        // No row is used twice, and each page has the name of a login.
        assert!(
            logins.values().all(|&count| count == 1),
            "{words}: {logins:?}"
        );
        assert!(
            pages.values().all(|&count| count == 1),
            "{words}: {pages:?}"
        );
        assert!(!pages.is_empty(), "{words}");
        assert!(
            pages.keys().all(|name| logins.contains_key(name)),
            "{words}: {logins:?} {pages:?}"
        );
    }
}

#[test]
fn requests_are_drawn_by_weight() {
    let folder = tempfile::tempdir().unwrap();
    let list = "/one\n{\"url\": \"/six\", \"weight\": 6}\n{\"url\": \"/three/{{ seq }}\", \"weight\": 3}\n";
    let list = file(&folder, "list", list);
    let counts = |words: &str| {
        let (server, arrived) = keeping();
        load(
            &server.url(),
            &format!("-n 2000 -c 4 --urls {list} {words}"),
        );
        let mut counts = BTreeMap::new();
        for request in arrived.lock().unwrap().iter() {
            let path = request.line().split('/').nth(1).unwrap().to_owned();
            *counts.entry(path).or_insert(0_u32) += 1;
        }
        counts
    };
    // A single worker draws the same requests for the same seed.
    let by_default = counts("--seed 4");
    assert_eq!(by_default, counts("--order weighted --seed 4"));
    for (path, expected) in [("one", 200), ("six", 1200), ("three", 600)] {
        let count = by_default[path];
        assert!(count.abs_diff(expected) < 100, "{path}: {count}");
    }
    for order in ["sequence", "random", "per-user"] {
        let error = resolve("http://127.0.0.1:9", &["--urls", &list, "--order", order]);
        let error = error.err().unwrap().to_string();
        assert!(
            error.contains("list:2: a weight has no effect") && error.contains("weighted"),
            "{error}"
        );
    }
}

#[test]
fn each_line_has_its_own_expectation() {
    let folder = tempfile::tempdir().unwrap();
    let list = "/ok\n{\"url\": \"/missing/{{ seq }}\", \"expect_status\": 404}\n\
                {\"url\": \"/missing\"}\n{\"url\": \"/ok\", \"expect_status\": \"404\"}\n";
    let list = file(&folder, "list", list);
    let (server, _) = keeping();
    let record = load(&server.url(), &format!("-n 40 -c 4 --urls {list}"));
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 20), (Outcome::UnexpectedStatus, 20)]
    );
    let record = load(
        &server.url(),
        &format!("-n 40 -c 4 --urls {list} --expect-status 200,404 --expect-size 0"),
    );
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 30), (Outcome::UnexpectedStatus, 10)]
    );
    let record = load(
        &server.url(),
        &format!("-n 40 -c 4 --urls {list} --expect-status 200,404 --expect-size 1"),
    );
    assert_eq!(
        outcomes(&record),
        [
            (Outcome::UnexpectedStatus, 10),
            (Outcome::UnexpectedSize, 30)
        ]
    );
}

#[test]
fn a_redirected_request_keeps_its_values() {
    let (server, arrived) = keeping();
    let words = [
        "-n",
        "20",
        "-c",
        "2",
        "--follow",
        "2",
        "-X",
        "POST",
        "-H",
        "X-Id: {{ uuid }}",
        "--body",
        "{{ seq }}:{{ random(0, 1000000) }}",
    ];
    let record = load_with(&(server.url() + "moved/{{ seq }}"), &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 20)]);
    let arrived = arrived.lock().unwrap();
    assert_eq!(arrived.len(), 40);
    let mut hops: BTreeMap<_, Vec<&Arrived>> = BTreeMap::new();
    for request in arrived.iter() {
        hops.entry(request.header("x-id").unwrap())
            .or_default()
            .push(request);
    }
    assert_eq!(hops.len(), 20);
    for pair in hops.values() {
        assert_eq!(pair[0].body, pair[1].body);
        assert_eq!(pair[1].line(), "POST /there");
        let number = pair[0].line().rsplit('/').next().unwrap();
        assert!(pair[0].body.starts_with(&format!("{number}:")));
    }
}

#[test]
fn http2_and_tls_send_the_same_values() {
    let folder = tempfile::tempdir().unwrap();
    let data = file(&folder, "rows.csv", "code,text\n200,a\n201,bbbb\n404,\n");
    let (clear, secured) = (Served::clear(), Served::secured());
    for (served, via, words) in [
        (&clear, Via::Tcp, "--http 2 --streams 4"),
        (&clear, Via::Tcp, "--http 2 --no-keepalive"),
        (&clear, Via::Tcp, "--http 1.0"),
        (&secured, Via::Tls, "--http 2 --streams 3"),
        (&secured, Via::Tls, "--http 1.1"),
        (&secured, Via::UnixTls, "--http 2"),
    ] {
        let words = format!("-n 90 -c 3 {words} --data {data} --expect-status 200-404");
        let record = served.load(via, "/status/{{ code }}?n={{ seq }}", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 90)], "{words}");
        let statuses: Vec<_> = record
            .status
            .iter()
            .map(|(code, count)| (*code, *count))
            .collect();
        assert_eq!(statuses, [(200, 30), (201, 30), (404, 30)], "{words}");
        // The server rejects a body whose length differs from Content-Length.
        let words = format!("{words} -X POST --body={{{{text}}}}{{{{code}}}}");
        let record = served.load(via, "/echo", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 90)], "{words}");
        assert_eq!(record.totals.body_bytes_in, 30 * (4 + 7 + 3), "{words}");
    }
}

#[test]
fn body_files_are_templates_next_to_a_data_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = rows(&folder, 2);
    let body = file(&folder, "body", "{{ name }} {{ seq }}");
    let list = file(&folder, "list", "/a POST <body\n");
    for words in [
        format!("-X POST --body-file {body}"),
        format!("--urls {list}"),
    ] {
        let bodies = |words: &str| {
            let (server, arrived) = keeping();
            load(&server.url(), &format!("-n 2 -c 1 {words}"));
            let arrived = arrived.lock().unwrap();
            arrived.iter().map(|it| it.body.clone()).collect::<Vec<_>>()
        };
        assert_eq!(bodies(&words), ["{{ name }} {{ seq }}"; 2]);
        let with_data = format!("{words} --data {data}");
        assert_eq!(bodies(&with_data), ["row 0 1", "row 1 2"]);
    }
}

#[test]
fn errors_name_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let data = file(&folder, "d.csv", "id,text\n1,fine\n2,\"two\nlines\"\n");
    let list = file(&folder, "list", "/fine\n/{{ id }} POST {{ txt }}\n");
    let error = |url: &str, words: &[&str]| resolve(url, words).err().unwrap().to_string();
    let url = "http://127.0.0.1:9/";
    let unknown = error(url, &["--urls", &list, "--data", &data]);
    assert!(
        unknown.contains("list:2: {{ txt }}: ") && unknown.contains("no column \"txt\""),
        "{unknown}"
    );
    let broken = error(url, &["-H", "X: {{ text }}", "--data", &data]);
    assert!(
        broken.contains("--header: ") && broken.contains("d.csv:3: the value \"two\\nlines\""),
        "{broken}"
    );
    let open = error(url, &["--body", "a {{ seq"]);
    assert!(
        open.starts_with("--body: \"{{ seq\" is not closed"),
        "{open}"
    );
    let host = error("http://{{ seq }}/", &[]);
    assert!(host.contains("only in the path and query"), "{host}");
    let target = error("http://127.0.0.1:9/a b/{{ seq }}", &[]);
    assert!(target.contains("a b/{{ seq }}"), "{target}");
    let length = error(url, &["--body", "{{ seq }}", "-H", "Content-Length: 1"]);
    assert!(length.contains("Content-Length can't be set"), "{length}");
    let missing = error(url, &["--data", "/nowhere.csv"]);
    assert!(missing.starts_with("--data /nowhere.csv: "), "{missing}");
}
