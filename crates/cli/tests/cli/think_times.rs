//! `--think`: virtual users pause between their requests.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compares::TINY;
use crate::recorder::Recorder;
use crate::running::{Origin, Workdir, check_schema};

#[test]
fn users_send_one_request_at_a_time_with_pauses_between() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let args = [
        "load",
        "-c",
        "8",
        "-d",
        "2s",
        "--think",
        "exp:200ms",
        "--json",
        "r.json",
    ];
    let output = workdir
        .run(&[&args[..], &[&recorder.url("/")]].concat())
        .expect(0);
    assert!(
        output
            .out
            .contains("closed loop, exponential think times of 200 ms on average"),
        "{}",
        output.out
    );
    let record = workdir.json("r.json");
    check_schema("prony.record-1.schema.json", &record);
    assert_eq!(record["load"]["think"]["mean_s"], 0.2);
    assert_eq!(record["load"]["think"]["distribution"], "exponential");
    let mut by_connection: BTreeMap<usize, u64> = BTreeMap::new();
    for request in recorder.take() {
        *by_connection.entry(request.connection).or_default() += 1;
    }
    let sent: u64 = by_connection.values().sum();
    assert_eq!(record["totals"]["started"], sent);
    // Without pauses, there would be thousands of requests. The upper limit is 10 standard
    // deviations above the mean.
    assert!((8..160).contains(&sent), "{sent}");
    assert!(by_connection.len() <= 8, "{by_connection:?}");
}

#[test]
fn each_stream_of_http2_is_a_user_that_pauses() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let load = |flags: &str| -> Value {
        let common = "load --http 2 -c 2 --streams 3 --json r.json";
        let words = common.split(' ').chain(flags.split(' ')).chain([&url[..]]);
        workdir.run(&words.collect::<Vec<_>>()).expect(0);
        let record = workdir.json("r.json");
        check_schema("prony.record-1.schema.json", &record);
        assert_eq!(record["negotiated"]["http"], "2");
        assert_eq!(record["totals"]["failed"], 0);
        assert!(record["totals"]["connections_opened"].as_u64().unwrap() <= 2);
        record
    };
    // Each of six users sends at most one request per 300 ms.
    let record = load("-d 2s --think 300ms");
    let sent = record["totals"]["started"].as_u64().unwrap();
    assert!((6..=6 * 8).contains(&sent), "{sent}");
    // The limit on requests applies to all streams together.
    let record = load("-n 7 --think 20ms");
    assert_eq!(record["totals"]["ok"], 7);
}

#[test]
fn think_times_that_cannot_be_used_are_refused() {
    let workdir = Workdir::new();
    for (words, parts) in [
        ("--think 1s --rate 5", &["--think", "--rate"][..]),
        ("--think 0s", &["--think", "exp:1s"]),
        ("--think 1m", &["--think 60s", "--duration"]),
    ] {
        let args: Vec<&str> = words.split(' ').chain(["http://127.0.0.1:1/"]).collect();
        let output = workdir.run(&[&["load"][..], &args].concat()).expect(2);
        for part in parts {
            assert!(output.err.contains(part), "{words}: {}", output.err);
        }
    }
    let plan = TINY.replace("model       = \"open\"", "think       = \"50ms\"");
    workdir.write("plan.toml", &plan);
    let output = workdir
        .run(&["compare", "plan.toml", "--dry-run"])
        .expect(2);
    assert!(
        output.err.contains("think can't be combined with rate"),
        "{}",
        output.err
    );
}

#[test]
fn plans_have_think_times_and_judge_their_response_times() {
    let workdir = Workdir::new();
    let plan = TINY
        .replace("rate        = 200\n", "think       = \"exp:50ms\"\n")
        .replace("model       = \"open\"", "model       = \"closed\"");
    workdir.write("plan.toml", &plan);
    let output = workdir.run(&["compare", "plan.toml", "--blocks", "3", "--out", "r"]);
    assert!(output.status <= 1, "{}", output.err);
    let verdict = workdir.json("r/verdict.json");
    assert_eq!(verdict["comparisons"][0]["metric"], "p99_us");
    assert_eq!(
        verdict["trial_mode"]["mode"], "sequential",
        "{}",
        verdict["trial_mode"]
    );
    assert!(
        output.err.contains("the load has think times"),
        "{}",
        output.err
    );
    let findings = verdict["findings"].as_array().unwrap();
    let misleading = |finding: &&Value| {
        ["server-idle", "not-stationary"].contains(&finding["id"].as_str().unwrap())
    };
    assert_eq!(findings.iter().find(misleading), None);
}
