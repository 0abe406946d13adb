//! The access log of one nginx, replayed against another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use prony_record::{Outcome, Record};

use crate::nginx;
use crate::server::{Server, Transport};

/// Time after which a log is taken to be complete.
const LOG_TIMEOUT: Duration = Duration::from_secs(20);
const LOGGED: &str = "access_log {folder}/access.log combined;";

/// Starts an nginx that logs its requests.
fn logging(more: &str) -> Server {
    nginx::start(&format!("{LOGGED} {more}"))
}

/// Returns the request line and the status of each request that a server logged, sorted. Waits until
/// there are `count` of them, because nginx writes a line when the response has been received.
fn logged(server: &Server, count: u64) -> Vec<String> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(server.site.path("access.log")).unwrap();
        let mut lines: Vec<String> = text.lines().map(request).collect();
        if lines.len() as u64 >= count || began.elapsed() > LOG_TIMEOUT {
            lines.sort();
            return lines;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the request line and the status of a line in the format `combined`.
fn request(line: &str) -> String {
    let mut parts = line.split('"').skip(1);
    let (request, rest) = (parts.next().unwrap(), parts.next().unwrap());
    format!("{request}{}", &rest[..4])
}

/// Sends requests of several kinds, some of which fail.
fn make_log(server: &Server) -> Record {
    let list = server.site.file(
        "urls",
        "/bytes/1\n/bytes/1024?a=b&c=%20\n/missing\n/bytes/0\n//bytes/1\n/%D0%BF\n/bytes/1 HEAD\n\
         /echo POST x\n/bytes/16384\n/a|b\n",
    );
    let words = format!("-n 400 -c 4 -r 1000 --http 1.1 --urls {}", list.display());
    let record = server.load(Transport::Tls, "/", &words);
    assert!(record.totals.ok >= 240, "{:?}", record.findings);
    record
}

#[test]
fn every_request_of_an_nginx_log_reaches_another_nginx_once() {
    let one = logging("");
    assert_eq!(make_log(&one).totals.started, 400);
    let log = one.site.path("access.log");
    let expected = logged(&one, 400);
    let posts = expected.iter().filter(|it| it.starts_with("POST")).count();
    assert_eq!((expected.len(), posts), (400, 40));
    for (words, requests) in [
        ("--http 1.1 --speed 20", 360),
        ("-r 2000 --http 1.1 -t 2", 360),
        ("--http 1.1 -c 4", 360),
        ("-c 1 --http 2 --streams 8", 360),
        ("-c 3 -t 3 --http 1.1 --replay-methods POST", 400),
    ] {
        let other = logging("");
        let words = format!("--replay {} {words}", log.display());
        let record = other.load(Transport::Tls, "/", &words);
        let totals = &record.totals;
        assert_eq!((totals.started, totals.unstarted), (requests, 0), "{words}");
        // The errors of clients are those of the log, and the echo without a body succeeds.
        assert_eq!(totals.ok, requests, "{words}: {:?}", record.findings);
        let mut expected = expected.clone();
        if requests < 400 {
            expected.retain(|it| !it.starts_with("POST"));
        }
        let seen = logged(&other, requests);
        let version = |it: &String| it.replace("HTTP/2.0", "HTTP/1.1");
        assert_eq!(
            seen.iter().map(version).collect::<Vec<_>>(),
            expected,
            "{words}"
        );
        let used = record.replay.unwrap();
        assert_eq!(
            (used.lines, used.skipped_lines()),
            (400, 400 - requests),
            "{words}"
        );
    }
}

#[test]
fn errors_that_the_log_does_not_have_are_failures() {
    let one = logging("");
    make_log(&one);
    let other = logging("location = /bytes/16384 { return 404; }");
    let words = format!("-c 4 --replay {}", one.site.path("access.log").display());
    let record = other.load(Transport::Tls, "/", &words);
    let expected = BTreeMap::from([(Outcome::Ok, 320), (Outcome::UnexpectedStatus, 40)]);
    assert_eq!(BTreeMap::from_iter(record.outcomes.clone()), expected);
}
