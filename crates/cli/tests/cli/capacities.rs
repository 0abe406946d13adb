//! Runs `prony capacity` against the built-in server. No test depends on the speed of the machine.

use rustix::process::Signal;
use serde_json::Value;

use crate::running::{Origin, Running, Workdir, check_schema};

const SCHEMA: &str = "prony.capacity-1.schema.json";

#[test]
fn the_highest_rate_to_probe_is_a_lower_bound() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = [
        "capacity",
        "--goal",
        "failed<50%",
        "--max-rate",
        "400",
        "--probe",
        "500ms",
        "--fail-if",
        "capacity<300",
        "--fail-if",
        "capacity<8000",
        "--json",
        "c.json",
        &url,
    ];
    let printed = workdir.run(&args).expect(0);
    let sentence = "Capacity at failed < 50%: ≥ 400 req/s. This is the highest permitted rate.";
    assert!(printed.out.contains(sentence), "{}", printed.out);
    let inconclusive = "--fail-if capacity<8000: inconclusive, only a lower bound is known: the \
                        capacity is 400 req/s or higher";
    assert!(printed.err.contains(inconclusive), "{}", printed.err);
    let document = workdir.json("c.json");
    check_schema(SCHEMA, &document);
    assert_eq!(document["at_least_per_s"], 400.0);
    assert_eq!(document["bound_reason"], "rate_max");
    assert_eq!(document["capacity_per_s"], Value::Null);
    assert_eq!(document["conditions"][0]["ruling"], "passed");
    assert_eq!(document["text"], sentence);
    let probes = document["searches"][0]["probes"].as_array().unwrap();
    assert_eq!(probes[0]["purpose"], "explore");
    assert_eq!(probes[1]["rate_per_s"], 400.0);
    let failing = [&args[..7], &["--fail-if", "capacity>300", &url]].concat();
    let printed = workdir.run(&failing).expect(1);
    assert!(printed.err.contains("--fail-if capacity>300: holds"));
}

#[test]
fn a_goal_that_fails_at_the_lowest_rate_ends_with_status_1() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = [
        "capacity", "--goal", "p99<1us", "--probe", "300ms", "--json", "-", &url,
    ];
    let printed = workdir.run(&args).expect(1);
    let document: Value = serde_json::from_str(&printed.out).unwrap();
    check_schema(SCHEMA, &document);
    let text = document["text"].as_str().unwrap();
    let start = "p99 < 1 us: not met even at 1 request a second (p99 is ";
    assert!(text.starts_with(start), "{text}");
    assert_eq!(document["below_per_s"], 1.0);
    assert_eq!(document["searches"].as_array().unwrap().len(), 1);
    // A probe ends early when more requests were slow than the goal allows.
    let last = document["searches"][0]["probes"].as_array().unwrap().last();
    assert_eq!(last.unwrap()["cut_short"], true);
}

#[test]
fn an_interrupt_prints_what_is_known() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["capacity", "--goal", "p99<10s", "--json", "c.json", &url];
    let mut running = Running::start(workdir.command(&args));
    running.wait_for("search 1 of 5: ");
    running.signal(Signal::INT);
    let output = running.end().expect(130);
    assert!(
        output.out.starts_with("Capacity at p99 < 10 s: "),
        "{}",
        output.out
    );
    let document = workdir.json("c.json");
    check_schema(SCHEMA, &document);
    assert_eq!(document["complete"], false);
    drop(origin);
    assert_eq!(workdir.left_running(), Vec::<String>::new());
}

#[test]
fn a_server_without_successful_responses_has_no_capacity() {
    let workdir = Workdir::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let printed = workdir
        .run(&["capacity", "--goal", "p99<50ms", &url])
        .expect(1);
    assert!(
        printed
            .out
            .contains("unknown, because no request succeeded")
    );
    assert!(printed.out.contains("nothing-listens"), "{}", printed.out);
}

#[test]
fn the_longest_time_is_known_before_anything_runs() {
    let workdir = Workdir::new();
    let url = "http://127.0.0.1:9/";
    for (options, text) in [
        (
            &[][..],
            "5 searches, about 1 min each: 5 min in total. If the server handles fewer than 833 req/s, \
             the searches take longer: up to 25 min for all of them.\n",
        ),
        (
            &["--search-time", "2m", "--repeats", "6"],
            "6 searches, at most 12 min in total\n",
        ),
    ] {
        let args = [
            &["capacity", "--goal", "p99<50ms", "--dry-run", url],
            options,
        ]
        .concat();
        assert_eq!(workdir.run(&args).expect(0).out, text);
    }
}

#[test]
fn what_can_not_be_judged_is_refused() {
    let workdir = Workdir::new();
    let cases: &[(&[&str], &str)] = &[
        (
            &["--goal", "rate<100"],
            "--goal: rate<100: a goal can't be about a rate",
        ),
        (
            &["--goal", "p99>5ms"],
            "--goal: p99>5ms: a goal is an upper limit",
        ),
        (
            &["--goal", "p99<50ms", "--max-rate", "10"],
            "(use --search-time 2000s, or a higher --max-rate)",
        ),
        (
            &["--goal", "p99.9<50ms", "--max-rate", "100", "--probe", "1s"],
            "(use --probe 100s, or a higher --max-rate)",
        ),
        (
            &["--goal", "p99<5s", "--search-time", "10s"],
            "(use --search-time 364s)",
        ),
        (
            &["--goal", "p99<50ms", "-r", "100"],
            "--rate: a search sets this itself",
        ),
        (
            &["--goal", "p99<50ms", "-d", "10s"],
            "--duration: a search sets this itself",
        ),
        (
            &["--goal", "p99<50ms", "--fail-if", "p99>50ms"],
            "--fail-if: p99>50ms: the only possible metric is capacity (for example, capacity<8000)",
        ),
        (
            &["--goal", "p99<50ms", "--repeats", "4"],
            "4 is not in 5..=100",
        ),
        (&[], "--goal <EXPR>"),
    ];
    for (options, text) in cases {
        let args = [&["capacity", "http://127.0.0.1:9/"], *options].concat();
        let printed = workdir.run(&args).expect(2);
        assert!(printed.err.contains(text), "{options:?}: {}", printed.err);
        assert_eq!(printed.out, "");
    }
}
