//! Tests of journeys against the embedded origin, over every version of HTTP.

#[expect(unreachable_pub, reason = "shared with the fuzz target")]
#[path = "../../../../fuzz/src/journey.rs"]
mod journey;

use std::io::Write;

use prony_load::{LoadSettings, captures_in};
use prony_origin::{Config, Tls};
use prony_record::{Outcome, Record};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::harness::{Raw, Served, errors, load_with, outcomes, read_head, text};

/// Sends a number, and takes it from the response for the next step. The second step is only taken
/// once.
const STEPS: &str = r#"
    [[step]]
    name = "send"
    url = "/echo"
    body = '{"list": [{"number": "n{{ seq }}-{{ user }}"}]}'
    capture.number = { json = "/list/0/number" }
    capture.length = { header = "Content-Length" }

    [[step]]
    name = "once"
    url = "/bytes/100"
    once = true

    [[step]]
    name = "send again"
    url = "/echo?{{ number }}"
    method = "PUT"
    headers = { X-Number = "{{ number }}", X-Length = "{{ length }}" }
    form = { number = "{{ number }}", "a b" = "c&d" }
    repeat = 2
    expect_body = { regex = "^number=n[0-9]+-[ab]&a%20b=c%26d$" }
"#;

/// Runs a journey against the origin over a version of HTTP.
fn run(http: &str, words: &str) -> (Record, u64) {
    let config = Config {
        quic: match http {
            "3" => vec!["127.0.0.1:0".parse().unwrap()],
            _ => Vec::new(),
        },
        tls: (http != "1.1").then_some(Tls::Generated),
        ..Config::default()
    };
    let served = Served::with(config);
    let (steps, data) = (
        served.file("steps.toml", STEPS),
        served.file("data.csv", "user\na\nb\n"),
    );
    let url = match http {
        "3" => format!("https://{}/", served.origin.quic_addresses()[0]),
        _ => served.url("/"),
    };
    let ca = served.ca();
    let mut all = vec![
        "--steps",
        text(&steps),
        "--data",
        text(&data),
        "--http",
        http,
    ];
    if http != "1.1" {
        all.extend(["--ca", text(&ca)]);
    }
    all.extend(words.split_whitespace());
    let record = load_with(&url, &all);
    (record, served.origin.requests())
}

#[test]
fn journeys_work_over_every_version_of_http() {
    for (http, words, users) in [
        ("1.1", "-c 3 -n 60", 3),
        ("1.1", "-c 3 -n 60 --no-keepalive -t 2", 3),
        ("2", "-c 2 --streams 4 -n 60", 8),
        ("3", "-c 2 --streams 4 -n 60", 8),
        ("1.1", "-c 20 -r 600 -n 60", 20),
        ("2", "-c 2 --streams 10 -r 600 -n 60", 20),
    ] {
        let (record, requests) = run(http, words);
        let journeys = record.journeys.as_ref().unwrap();
        assert_eq!(journeys.completed, 60, "{words}: {}", errors(&record));
        assert_eq!((journeys.failed, journeys.unfinished), (0, 0), "{words}");
        let steps = record.entries.as_ref().unwrap();
        let ok = |step: usize| steps.each[step].ok;
        assert_eq!((ok(0), ok(2)), (60, 120), "{words}");
        // Each user that took part did so once.
        assert!((1..=users).contains(&ok(1)), "{words}: {}", ok(1));
        assert_eq!(requests, record.totals.ok, "{words}");
        assert!(
            journeys.journey_time_us.p50 > record.response_time_us.p50,
            "{words}"
        );
        assert!(record.histograms.contains_key("journey_time"));
    }
}

#[test]
fn a_load_limited_by_time_counts_unfinished_journeys() {
    let (record, _) = run("1.1", "-c 4 -d 300ms --think 20ms --ramp-up 100ms");
    let journeys = record.journeys.as_ref().unwrap();
    assert!(
        journeys.completed > 0 && journeys.unfinished > 0,
        "{journeys:?}"
    );
    assert_eq!(journeys.failed, 0);
    assert_eq!(journeys.started, journeys.completed + journeys.unfinished);
}

#[test]
fn hostile_responses_end_journeys_with_their_outcome() {
    const STEP: &str = r#"
        [[step]]
        url = "/"
        expect_status = 200
        capture.a = { json = "/a" }
        capture.b = { regex = "(x+x+)+y", default = "" }
        capture.c = { field = "f", default = "" }
        [[step]]
        url = "/{{ a }}"
        headers = { X-A = "{{ a }}" }
    "#;
    let long = format!("{{\"a\": \"{}\"}}", "v".repeat(65 << 10));
    let deep = format!("{{\"a\": {}", "[".repeat(900_000));
    // A backtracking engine would need longer than the age of the universe for this.
    let slow = format!("{{\"a\": \"{}\"}}", "x".repeat(60_000));
    let beyond = format!("{{\"b\": \"{}\", \"a\": 1}}", "v".repeat(2 << 20));
    for (body, outcome, cause) in [
        (
            r#"{"a": "x\r\nHost: evil"}"#.to_owned(),
            Outcome::Capture,
            "can't be used in a header",
        ),
        (
            r#"{"a": null}"#.to_owned(),
            Outcome::Capture,
            "/a in the JSON body was not found",
        ),
        ("\u{0}<".to_owned(), Outcome::Capture, "was not found"),
        (long, Outcome::Capture, "66560 bytes; the maximum is 65536"),
        (deep, Outcome::Capture, "was not found"),
        (beyond, Outcome::Capture, "in the first 1 MiB of the body"),
        (slow, Outcome::Ok, ""),
        (r#"{"a": "/../é \"<"}"#.to_owned(), Outcome::Ok, ""),
    ] {
        let server = Raw::new(move |mut stream| {
            while read_head(&mut stream).is_some() {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let sent = stream.write_all(head.as_bytes());
                if sent
                    .and_then(|()| stream.write_all(body.as_bytes()))
                    .is_err()
                {
                    return;
                }
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let steps = folder.path().join("steps.toml");
        std::fs::write(&steps, STEP).unwrap();
        let record = load_with(
            &server.url(),
            &["--steps", text(&steps), "-c", "1", "-n", "2"],
        );
        let error = errors(&record);
        assert_eq!(outcomes(&record)[0].0, outcome, "{cause}: {error}");
        assert!(error.contains(cause), "{error}");
        let journeys = record.journeys.as_ref().unwrap();
        let failed = if outcome == Outcome::Ok { 0 } else { 2 };
        assert_eq!((journeys.started, journeys.failed), (2, failed), "{cause}");
    }
}

#[test]
fn compressed_bodies_are_decoded_before_they_are_read() {
    let step = serde_json::from_str(
        r#"{"url": "/", "expect_body": "hello", "capture": {"a": {"regex": "h(.)l"}}}"#,
    );
    let step = step.unwrap();
    // `hello hello`, compressed with gzip.
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcbH\xcd\xc9\xc9W\xc8\x00\x91\x00@\xa6-\x01\x0b\x00\x00\x00";
    let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n";
    let values = captures_in(&step, head, gzip).unwrap();
    assert_eq!(values, [("a".to_owned(), "e".to_owned())]);
    let error = captures_in(&step, b"HTTP/1.1 200 OK\r\n", gzip).unwrap_err();
    assert_eq!(error, "\"hello\" was not found in the body");
}

#[test]
fn steps_that_can_not_mean_what_they_say_are_errors() {
    for (settings, cause) in [
        (
            r#"{"step": [{"url": "/", "expect_body": "hi {{ user }}"}]}"#,
            "step 1: expect_body: placeholders have no value here",
        ),
        (
            r#"{"step": [{"url": "/"}, {"url": "/", "stream": true}]}"#,
            "step 2: stream = true needs --events sse",
        ),
        (
            r#"{"step": [{"url": "/"}], "events": "sse"}"#,
            "no step has stream = true",
        ),
    ] {
        let settings: LoadSettings = serde_json::from_str(settings).unwrap();
        let resolved = settings.resolve(Some("http://127.0.0.1:1"));
        let error = resolved.err().unwrap();
        assert!(error.to_string().contains(cause), "{error}");
    }
}

#[test]
fn any_bytes_are_steps_or_a_response() {
    const PARTS: &[&str] = &[
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "\"url\": \"/\"",
        "\"a\": ",
        "\"capture\": {\"a\": {\"json\": \"/a\"}}",
        "\"once\": true",
        "\"when\": \"a\"",
        "\"weight\": 1",
        "<input name=a value=b>",
        "\n",
        "\r\n",
        "x-a: b",
        "id=7",
        "{{ a }}",
        "\"repeat\": \"1-2\"",
        "\u{0}",
        "é",
        "(a",
        "\\",
        "(a{9}){9}",
    ];
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut valid = 0;
    for _ in 0..400 {
        let length = random.random_range(0..12);
        let parts = (0..length).map(|_| PARTS[random.random_range(0..PARTS.len())]);
        let mut text: String = parts.collect();
        if random.random_range(0..2) == 0 {
            text = format!("[{{\"url\": \"/\"{text}}}]");
        }
        valid += u32::from(journey::run(text.as_bytes()));
    }
    assert!(valid > 4, "{valid}");
}
