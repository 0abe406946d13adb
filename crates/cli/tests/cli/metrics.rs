//! `--metrics`: the numbers of a running load, read over HTTP while it runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use crate::running::{Origin, Room};

/// What a server answers to one request.
pub(crate) fn answer(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{request} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_running_load_tells_its_numbers_and_ends_as_it_would_without() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    let url = origin.url("/delay/1ms");
    let args = [
        "load",
        "-d",
        "5s",
        "-c",
        "1",
        "--progress",
        "none",
        "--metrics",
        ":0",
        "--json",
        "r.json",
        &url,
    ];
    let mut child = room
        .command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let at = line
        .trim()
        .strip_prefix("prony: metrics at http://")
        .unwrap();
    let address = at.strip_suffix("/metrics").unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let has_numbers = |text: &str| text.contains("prony_requests_total{outcome=\"ok\"} ");
    // It answers from before the load begins.
    let text = loop {
        let text = answer(address, "GET /metrics");
        if has_numbers(&text) || child.try_wait().unwrap().is_some() {
            break text;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    assert!(
        text.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{text}"
    );
    assert!(has_numbers(&text), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(answer(address, "GET /").contains("/metrics"));
    assert!(answer(address, "GET /other").starts_with("HTTP/1.0 404"));
    assert!(answer(address, "POST /metrics").starts_with("HTTP/1.0 405"));
    assert!(child.wait().unwrap().success());
    assert!(room.json("r.json")["totals"]["ok"].as_u64().unwrap() > 0);
}

#[test]
fn an_address_that_can_not_be_had_is_refused_before_the_load() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    let url = origin.url("/");
    let said = room.run(&["load", "--metrics", "port", &url]).expect(2);
    assert!(said.err.contains("--metrics port"), "{}", said.err);
    // The origin has this one.
    let taken = url.trim_start_matches("http://").trim_end_matches('/');
    let said = room.run(&["load", "--metrics", taken, &url]).expect(3);
    assert!(said.err.contains("--metrics"), "{}", said.err);
}
