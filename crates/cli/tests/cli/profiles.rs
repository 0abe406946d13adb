//! Loads whose rate changes over time. A server in the test process counts the requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::fleet_loads::FleetSetup;
use crate::running::{Origin, Workdir, check_schema};

/// A server that counts requests. Each connection has a thread that ends with it; the accepting
/// thread ends with the test process.
struct CountingServer {
    url: String,
    requests: Arc<AtomicU64>,
}

impl CountingServer {
    fn start() -> CountingServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicU64::new(0));
        let count = requests.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let count = count.clone();
                std::thread::spawn(move || serve(connection, &count));
            }
        });
        CountingServer { url, requests }
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Responds to the requests of one connection. None of them has a body.
fn serve(mut connection: TcpStream, count: &AtomicU64) {
    let mut unread = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = connection.read(&mut buffer) {
        unread.extend_from_slice(&buffer[..length]);
        while let Some(end) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            unread.drain(..end + 4);
            count.fetch_add(1, Ordering::SeqCst);
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if connection.write_all(response).is_err() {
                return;
            }
        }
    }
}

/// Runs `prony load` with the given flags and returns its record.
fn load(workdir: &Workdir, flags: &str, url: &str) -> Value {
    let words: Vec<&str> = flags.split(' ').collect();
    let args = [&["load", "--json", "-"], &words[..], &[url]].concat();
    let record: Value = serde_json::from_str(&workdir.run(&args).expect(0).out).unwrap();
    check_schema("prony.record-1.schema.json", &record);
    record
}

/// Returns the number of requests that were due in the measured part. It doesn't depend on the
/// speed of the machine.
fn due(record: &Value) -> u64 {
    let total = |key: &str| record["totals"][key].as_u64().unwrap();
    total("started") + total("unstarted")
}

#[test]
fn a_linear_rate_sends_the_requests_of_its_integral() {
    let workdir = Workdir::new();
    let server = CountingServer::start();
    let record = load(&workdir, "-r 0:200 -d 1s -c 20 -t 2", &server.url);
    // The rate rises linearly from zero, so the number of requests is the area of a triangle.
    assert_eq!(due(&record), 100);
    assert_eq!(record["totals"]["started"], server.requests());
    assert_eq!(record["load"]["rate_per_s"], Value::Null);
    assert_eq!(record["load"]["model"], "open");
    let stages = serde_json::json!([
        {"rate_per_s": 0.0, "length_s": 0.0}, {"rate_per_s": 200.0, "length_s": 1.0}
    ]);
    assert_eq!(record["load"]["stages"], stages);
    let offered = |slice: usize| record["series"][slice]["offered_per_s"].as_f64().unwrap();
    assert!((offered(0) - 50.0).abs() < 1e-6, "{}", offered(0));
    assert!((offered(1) - 150.0).abs() < 1e-6, "{}", offered(1));
}

#[test]
fn stages_have_their_requests_whatever_the_number_of_threads() {
    let workdir = Workdir::new();
    let server = CountingServer::start();
    let stages = "--stages 100@300ms,100@200ms,0@0s,0@200ms,400@0s,400@100ms";
    // The stages have 15 + 20 + 0 + 40 requests.
    let (mut sent, mut in_flight) = (0, 0);
    for threads in ["-t 1 -c 8", "-t 3 -c 8", "-t 1 -c 8 --warmup 200ms"] {
        let record = load(&workdir, &format!("{stages} {threads}"), &server.url);
        assert_eq!(due(&record), 75, "{threads}");
        // The profile starts at zero, so the warm-up sends nothing. The server might not read the
        // requests that are in flight at the end.
        let total = |key: &str| record["totals"][key].as_u64().unwrap();
        sent += total("started");
        in_flight += total("started") - total("ok");
        let requests = server.requests();
        assert!(
            (sent - in_flight..=sent).contains(&requests),
            "{requests} of {sent}, {threads}"
        );
    }
    let poisson = |threads: &str| {
        let flags = format!("{stages} --arrivals poisson --seed 5 {threads}");
        due(&load(&workdir, &flags, &server.url))
    };
    assert_eq!(poisson("-t 1 -c 8"), poisson("-t 3 -c 8"));
}

#[test]
fn a_warm_up_runs_at_the_first_rate_of_a_profile() {
    let workdir = Workdir::new();
    let server = CountingServer::start();
    let record = load(
        &workdir,
        "-r 200:0 -d 500ms --warmup 250ms -c 8",
        &server.url,
    );
    assert_eq!(due(&record), 50);
    let warmup = server.requests() - record["totals"]["started"].as_u64().unwrap();
    assert!(warmup <= 50, "{warmup}");
    // On a busy machine, some requests of the warm-up might not start, but at least one does.
    assert!(warmup > 0);
}

#[test]
fn reports_name_the_profile_and_draw_it() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = "load --stages 50@500ms,200@0s,200@1s -c 8 --html p.html --csv p.csv";
    let args: Vec<&str> = args.split(' ').chain([&url[..]]).collect();
    let output = workdir.run(&args).expect(0);
    let profile = "open loop, 0 to 50 req/s over 500 ms, 200 for 1 s offered";
    assert!(output.out.contains(profile), "{}", output.out);
    let page = workdir.read("p.html");
    for title in [
        "Offered and achieved rate over time",
        "Response times over time",
        "Response times against the offered rate",
    ] {
        assert!(page.contains(title), "{title}");
    }
    let csv = workdir.read("p.csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|row| row.split(',').collect()).collect();
    let offered = rows[0].iter().position(|name| *name == "offered_per_s");
    assert_eq!(rows[1][offered.unwrap()], "25", "{csv}");
}

#[test]
fn profiles_that_can_not_run_are_refused_by_their_flag() {
    let workdir = Workdir::new();
    for (flags, expected) in [
        ("--stages 0@5s", "--stages: no request is due"),
        (
            "--stages 5@1s -d 2s",
            "--stages can't be combined with --duration",
        ),
        (
            "--stages 5@1s -r 9",
            "--stages can't be combined with --rate 9",
        ),
        ("-r 1:9 -n 5", "--rate 1:9 needs --duration as well"),
        ("-r 0:0", "never rises above zero"),
        (
            "--stages 5",
            "\"5\" is not a stage; write its final rate and its length, such as 2000@1m",
        ),
        ("--arrivals poisson", "--arrivals needs --rate or --stages"),
    ] {
        let words: Vec<&str> = flags.split(' ').collect();
        let args = [&["load"], &words[..], &["http://127.0.0.1:1/"]].concat();
        let output = workdir.run(&args).expect(2);
        assert!(output.err.contains(expected), "{flags}: {}", output.err);
    }
}

#[test]
fn comparisons_run_profiles_in_sequential_trials() {
    let workdir = Workdir::new();
    let server = CountingServer::start();
    let args = "compare -r 50:150 -d 400ms --warmup 0s --blocks 2 --out dir --progress none";
    let args: Vec<&str> = args.split(' ').chain([&server.url[..]; 2]).collect();
    let output = workdir.run(&args);
    assert!(output.status < 2, "{}", output.err);
    let verdict = workdir.json("dir/verdict.json");
    let reason = verdict["trial_mode"]["reason"].as_str().unwrap_or_default();
    assert_eq!(reason, "the load has a rate that changes over time");
    assert!(server.requests() >= 4 * 40);
}

const PLAN: &str = r#"
name     = "profile"
baseline = { socket = "unix" }

[trials]
warmup = "0s"

[factors]
socket = ["tcp", "unix"]

[service.origin]
command = ["prony", "origin", "--listen", "{{ origin.address }}"]
listen  = "{{ socket }}"

[load]
target = "origin"
"#;

#[test]
fn plans_have_profiles() {
    let workdir = Workdir::new();
    let dry_run = |load: &str| {
        workdir.write("profile.toml", &format!("{PLAN}{load}\n"));
        workdir.run(&["compare", "profile.toml", "--dry-run"])
    };
    for load in [
        "rate = \"100:500\"",
        "stages = [\"100@2s\", \"0@3s\"]",
        "stages = \"100@2s,0@3s\"",
        "model = \"open\"\nstages = [\"100@2s\"]",
    ] {
        let output = dry_run(load).expect(0);
        let reason = "the load has a rate that changes over time";
        assert!(output.out.contains(reason), "{load}: {}", output.out);
    }
    for (load, expected) in [
        (
            "stages = [\"0@2s\"]",
            "profile.toml:17: [load]: stages: no request is due",
        ),
        ("stages = [\"2s\"]", "is not a stage"),
        (
            "stages = [\"5@2s\"]\nduration = \"3s\"",
            "profile.toml:17: [load]: stages can't be combined with duration",
        ),
        ("rate = \"5:\"", "is not a changing rate"),
    ] {
        let output = dry_run(load).expect(2);
        assert!(output.err.contains(expected), "{load}: {}", output.err);
    }
}

#[test]
fn agents_divide_a_profile_exactly() {
    let fleet = FleetSetup::new(2);
    let url = fleet.origin.url("/");
    let flags = "load --stages 100@300ms,100@200ms,0@0s,0@200ms,301@0s,301@100ms -c 8 --json -";
    let words: Vec<&str> = flags.split(' ').chain(["--agents", "2", &url]).collect();
    let output = fleet.workdir.run(&fleet.words(&words)).expect(0);
    let record: Value = serde_json::from_str(&output.out).unwrap();
    check_schema("prony.record-1.schema.json", &record);
    // The stages have 15 + 20 + 30.1 requests, rounded up.
    assert_eq!(due(&record), 66);
    assert_eq!(record["series"][0]["offered_per_s"], 70.0);
    fleet.end();
}

#[test]
fn a_condition_ends_a_load_early() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/status/503");
    let args = "load -r 100 -d 10m -c 4 --abort-if late.p99>10s --abort-if failed>50% --abort-window 500ms \
                --json r.json";
    let args: Vec<&str> = args.split_whitespace().chain([&url[..]]).collect();
    let output = workdir.run(&args).expect(1);
    let reason = "prony: --abort-if failed>50% ended the load after";
    assert!(output.err.contains(reason), "{}", output.err);
    assert!(!output.err.contains("interrupted"), "{}", output.err);
    assert!(output.out.contains("load-aborted"), "{}", output.out);
    let record = workdir.json("r.json");
    check_schema("prony.record-1.schema.json", &record);
    assert_eq!(record["aborted"]["condition"], "failed>50%");
    assert_eq!(record["aborted"]["window_s"], 0.5);
    assert!(record["totals"]["failed"].as_u64().unwrap() > 0);
}

#[test]
fn conditions_that_do_not_hold_change_nothing() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let flags = "-r 100 -d 1200ms -c 4 --abort-if failed>50% --abort-window 500ms";
    let record = load(&workdir, flags, &origin.url("/"));
    assert_eq!(record["aborted"], Value::Null);
    assert_eq!(due(&record), 120);
}

#[test]
fn conditions_that_can_not_end_a_load_are_refused() {
    let workdir = Workdir::new();
    for (flags, expected) in [
        (
            "--abort-if busy>50%",
            "--abort-if: busy is known only after the load has ended (use --fail-if)",
        ),
        (
            "--abort-if unstarted>5",
            "--abort-if: unstarted is known only",
        ),
        ("--abort-if p99", "--abort-if"),
        (
            "--abort-if p99>1s --abort-window 1ms",
            "--abort-window: at least 500 ms",
        ),
        ("--abort-window 1s", "--abort-if"),
    ] {
        let words: Vec<&str> = flags.split(' ').collect();
        let args = [&["load"], &words[..], &["http://127.0.0.1:1/"]].concat();
        let output = workdir.run(&args).expect(2);
        assert!(output.err.contains(expected), "{flags}: {}", output.err);
    }
}

#[test]
fn a_condition_ends_a_load_by_agents() {
    let fleet = FleetSetup::new(2);
    let url = fleet.origin.url("/status/503");
    let flags = "load -r 100 -d 10m -c 4 --abort-if failed>50% --abort-window 1s --json r.json";
    let words: Vec<&str> = flags.split(' ').chain(["--agents", "2", &url]).collect();
    let output = fleet.workdir.run(&fleet.words(&words)).expect(1);
    let reason = "prony: --abort-if failed>50% ended the load after";
    assert!(output.err.contains(reason), "{}", output.err);
    let record = fleet.workdir.json("r.json");
    assert_eq!(record["aborted"]["condition"], "failed>50%");
    let finding = |it: &&Value| it["id"] == "load-aborted";
    let findings = record["findings"].as_array().unwrap();
    assert_eq!(findings.iter().filter(finding).count(), 1, "{findings:?}");
    // The condition is also in the run that the NATS server stores.
    let words = ["fleet", "collect", "--json", "c.json"];
    let output = fleet.workdir.run(&fleet.words(&words)).expect(1);
    assert!(output.err.contains(reason), "{}", output.err);
    assert_eq!(fleet.workdir.json("c.json")["aborted"], record["aborted"]);
    fleet.end();
}
