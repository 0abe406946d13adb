//! Capacity searches in plans and in `prony compare URL URL`.

use crate::running::{Origin, Workdir, check_schema};

/// A plan with two variants of the built-in server. Its goals are far above all response times, so
/// every search reaches the maximum rate on any machine.
const BOUNDED: &str = r#"
name     = "bounded"
baseline = { socket = "unix" }

[trials]
blocks = 1

[factors]
socket = ["tcp", "unix"]

[service.origin]
command = ["prony", "origin", "--listen", "{{ origin.address }}"]
listen  = "{{ socket }}"

[load]
target   = "origin"
model    = "capacity"
goal     = ["p90 < 30s", "failed < 50%"]
max_rate = 400
probe    = "500ms"
"#;

#[test]
fn a_trial_is_a_search_and_a_bound_withholds_the_verdict() {
    let workdir = Workdir::new();
    workdir.write("plan.toml", BOUNDED);
    let args = ["compare", "plan.toml", "--out", "r", "--progress", "lines"];
    let output = workdir.run(&args).expect(1);
    for line in [
        "closed loop: ",
        "probe at 400 req/s: met (",
        "capacity ≥ 400 req/s",
    ] {
        assert!(output.err.contains(line), "{line}: {}", output.err);
    }
    let verdict = workdir.json("r/verdict.json");
    check_schema("prony.verdict-1.schema.json", &verdict);
    assert_eq!(
        verdict["goals"],
        serde_json::json!(["p90<30s", "failed<50%"])
    );
    let comparison = &verdict["comparisons"][0];
    assert_eq!(comparison["metric"], "capacity_per_s");
    assert_eq!(comparison["verdict"], "withheld");
    let text = "The capacity is at least 400 requests per second: p90 < 30 s and failed < 50% is \
                met at that rate, and max_rate does not allow higher rates. Raise max_rate.";
    let findings = verdict["findings"].as_array().unwrap();
    let is_bound = |finding: &&serde_json::Value| {
        finding["id"] == "capacity-unknown" && finding["text"].as_str().unwrap().ends_with(text)
    };
    assert_eq!(findings.iter().filter(is_bound).count(), 2, "{findings:#?}");
    let trial = workdir.json("r/trials/1-tcp/trial.json");
    assert_eq!(
        trial["values"],
        serde_json::json!({}),
        "a bound isn't a value"
    );
    let outcome = &trial["search"]["end"]["outcome"];
    assert_eq!(outcome["kind"], "at_least");
    assert_eq!(outcome["reason"], "rate_max");
    let probes = trial["search"]["probes"].as_array().unwrap();
    assert_eq!(probes.last().unwrap()["rate_per_s"], 400.0);
    // The stored record comes from the probe at the maximum rate.
    let record = workdir.json("r/trials/1-tcp/record.json");
    assert_eq!(record["load"]["rate_per_s"], 400.0);
    assert_eq!(record["load"]["arrivals"], "poisson");
    assert!(
        workdir
            .read("r/report.html")
            .contains("against the offered rate")
    );
    workdir.run(&["report", "r"]).expect(1);
    assert_eq!(workdir.left_running(), Vec::<String>::new());
}

#[test]
fn urls_are_compared_by_their_capacities() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let compare = |more: &[&str]| {
        let urls = [url.as_str(), url.as_str()];
        workdir.run(&[&["compare"][..], &urls, more].concat())
    };
    let goal = ["--goal", "p99 < 50ms", "--goal", "failed<0.1%"];
    let output = compare(&[&goal[..], &["--max-rate", "20k", "--dry-run"]].concat()).expect(0);
    for part in [
        "a trial searches for the capacity at p99 < 50 ms and failed < 0.1% (about 1 min, 5 min at \
         most)",
        "decided by capacity;",
        "--goal 'p99<50ms' --goal 'failed<0.1%' --max-rate 20000",
        "Trials run one after the other: the load is a capacity search",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    for (more, message) in [
        (
            &["--goal", "p99<50ms", "-d", "5s"][..],
            "--duration can't be combined with --goal: a capacity search chooses its loads",
        ),
        (&["--goal", "rate<9"], "a goal can't be about a rate"),
        (&["--max-rate", "9"], "--goal"),
        (
            &["--goal", "p99<50ms", "--judge", "p99"],
            "a capacity search doesn't measure p99_us (its only metric is capacity)",
        ),
        (
            &["--goal", "p99<50ms", "--fail-if", "capacity of old < 1"],
            "old",
        ),
    ] {
        let output = compare(more).expect(2);
        assert!(output.err.contains(message), "{message}: {}", output.err);
    }
    workdir.write("plan.toml", BOUNDED);
    let output = workdir
        .run(&["compare", "plan.toml", "--goal", "p99<1s"])
        .expect(2);
    assert!(
        output.err.contains("--goal applies to URLs only"),
        "{}",
        output.err
    );
}
