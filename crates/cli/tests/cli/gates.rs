//! Conditions, comparisons with stored runs, and the outputs for CI.

use rustix::process::Signal;
use serde_json::Value;

use crate::running::{Origin, Running, Workdir, check_schema};

/// Returns arguments that compare the origin with itself, with a longer delay on one side.
fn compared(origin: &Origin, more: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = [
        "compare",
        "--names",
        "old,new",
        "-c",
        "2",
        "-n",
        "8",
        "--warmup",
        "0s",
        "--blocks",
        "3",
        "--progress",
        "none",
    ]
    .map(str::to_owned)
    .to_vec();
    args.extend(more.iter().map(|&word| word.to_owned()));
    // The difference is far greater than the noise of a busy machine.
    args.extend([origin.url("/delay/50ms"), origin.url("/delay/250ms")]);
    args
}

#[test]
fn an_established_condition_exits_with_1_and_is_reported_everywhere() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let args = compared(
        &origin,
        &[
            "--out",
            "r",
            "--fail-if",
            "p50 of new > old + 5%",
            "--fail-if",
            "failed > 50%",
            "--require",
            "p(50) of new > baseline",
            "--junit",
            "junit.xml",
            "--github",
            "summary.md",
            "--annotations",
        ],
    );
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = workdir.run(&args).expect(1);
    assert!(
        output
            .out
            .contains("failed       p50 of new > old + 5%: p50 of new is "),
        "{}",
        output.out
    );
    assert!(
        output.out.contains("passed       failed > 50%"),
        "{}",
        output.out
    );
    assert!(
        output
            .out
            .contains("passed       require p(50) of new > baseline"),
        "{}",
        output.out
    );
    assert!(
        output
            .err
            .contains("prony: failed: 'p50 of new > old + 5%' (new)"),
        "{}",
        output.err
    );
    assert!(
        output.err.contains("::error title=prony%3A p50 of new"),
        "{}",
        output.err
    );
    let junit = workdir.read("junit.xml");
    assert!(
        junit.contains("<failure message=\"p50 of new is "),
        "{junit}"
    );
    assert!(workdir.read("summary.md").contains("× failed"));

    judged_again_from_what_is_stored(&workdir);
    held_against_itself_nothing_is_worse(&workdir);
}

fn judged_again_from_what_is_stored(workdir: &Workdir) {
    let shown = workdir.run(&["report", "r"]).expect(1);
    for line in [
        "failed       p50 of new > old + 5%: p50 of new is ",
        "passed       failed > 50%",
    ] {
        assert!(shown.out.contains(line), "{}", shown.out);
    }
    assert!(shown.err.contains("failed: 'p50 of new"), "{}", shown.err);
    assert!(
        workdir
            .read("r/report.html")
            .contains("p50 of new &gt; old + 5%")
    );
    for more in [
        ["--junit", "again.xml"],
        ["--html", "again.html"],
        ["--csv", "again.csv"],
    ] {
        let args = [&["report", "r"], &more[..]].concat();
        workdir.run(&args).expect(1);
    }
    assert!(
        workdir
            .read("again.xml")
            .contains("<failure message=\"p50 of new is "),
        "{}",
        workdir.read("again.xml")
    );
    assert_eq!(workdir.read("again.html"), workdir.read("r/report.html"));
    let document: Value = serde_json::from_str(&workdir.read("r/verdict.json")).unwrap();
    assert_eq!(document["exit_status"], 1);
    check_schema("prony.verdict-1.schema.json", &document);
    let report = |condition: &str| workdir.run(&["report", "r", "--fail-if", condition]);
    report("p50 of new > old + 5%").expect(1);
    report("p50 of new < old").expect(0);
    let require = |condition: &str| workdir.run(&["report", "r", "--require", condition]);
    require("p50 of new > old + 5%").expect(0);
    let output = require("p50 of new < old + 5%").expect(1);
    assert!(
        output
            .err
            .contains("failed: 'require p50 of new < old + 5%' (new)"),
        "{}",
        output.err
    );
    let output = require("p50 of nwe < old").expect(2);
    assert!(
        output.err.contains("--require: ") && output.err.contains("^^^"),
        "{}",
        output.err
    );
    let output = report("server_memory_bytes > 1GiB").expect(0);
    assert!(
        output
            .err
            .contains("inconclusive: 'server_memory_bytes > 1GiB' (old); "),
        "{}",
        output.err
    );
    let strict = [
        "report",
        "r",
        "--strict",
        "--fail-if",
        "server_memory_bytes > 1GiB",
    ];
    workdir.run(&strict).expect(1);
    // `--github` appends the summary to the file.
    let github = ["report", "r", "--github", "summary.md"];
    let before = workdir.read("summary.md").len();
    // The condition of the run failed, so it fails whenever the run is shown.
    workdir.run(&github).expect(1);
    assert!(workdir.read("summary.md").len() > before);
}

fn held_against_itself_nothing_is_worse(workdir: &Workdir) {
    let args = ["report", "--against", "r", "r", "--json", "-"];
    let output = workdir.run(&args).expect(0);
    let document: Value = serde_json::from_str(&output.out).unwrap();
    check_schema("prony.runs-1.schema.json", &document);
    assert_eq!(document["differences"], Value::Array(Vec::new()));
    let printed = workdir.run(&["report", "r", "r"]).expect(0);
    assert!(printed.out.contains("baseline") && !printed.out.contains("in B"));
    assert!(
        printed.out.contains("No other stored fact differs"),
        "{}",
        printed.out
    );
    workdir
        .run(&[
            "report",
            "r",
            "r",
            "--html",
            "two.html",
            "--markdown",
            "two.md",
            "--tables",
            "t",
        ])
        .expect(0);
    assert!(workdir.read("two.html").contains("What else differs"));
    assert!(
        workdir
            .read("t/comparisons.csv")
            .starts_with("variant,metric,")
    );
}

#[test]
fn conditions_that_can_not_be_evaluated_exit_with_2_before_the_run() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let refused: &[(&[&str], &str)] = &[
        (&["--fail-if", "p99 of nwe > 5ms"], "         ^^^"),
        (&["--fail-if", "speed > 5"], "the metrics are p50"),
        (&["--fail-if", "p99 > stored"], "--against"),
        (&["--against", "nowhere"], "nowhere"),
        (&["--strict"], "--strict"),
        (&["--margin", "5%"], "--against"),
        (&["--margin", "5"], "percentage"),
        (&["--junit", "nowhere/x"], "--junit nowhere/x"),
        (&["--names", "same,same"], "--names"),
    ];
    for (more, expected_text) in refused {
        let args = compared(&origin, more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = workdir.run(&args).expect(2);
        assert!(
            output.err.contains(expected_text),
            "{more:?}: {}",
            output.err
        );
        assert!(!workdir.path("prony-runs").exists(), "{more:?}");
    }
}

/// Writes the records of three loads to each of the folders `before` and `after`.
fn make_records(workdir: &Workdir) {
    let origin = Origin::tcp(workdir);
    for side in ["before", "after"] {
        std::fs::create_dir(workdir.path(side)).unwrap();
        for number in 0..3 {
            let file = format!("{side}/{number}.json");
            // Long enough that a busy machine adds little to either.
            let path = match side {
                "after" => "/delay/50ms",
                _ => "/delay/10ms",
            };
            let url = origin.url(path);
            workdir
                .run(&["load", "-n", "20", "-c", "1", "--json", &file, &url])
                .expect(0);
        }
    }
}

#[test]
fn one_record_is_rendered_and_judged() {
    let workdir = Workdir::new();
    make_records(&workdir);
    // A single record is rendered in the same form as by `prony load`.
    let one = workdir.run(&["report", "before/0.json"]).expect(0);
    assert!(one.out.contains("20 requests: 20 ok"), "{}", one.out);
    let args = ["report", "before/0.json", "--json", "-"];
    assert_eq!(
        workdir.run(&args).expect(0).out,
        workdir.read("before/0.json")
    );
    workdir
        .run(&["report", "before/0.json", "--fail-if", "p99 > 1m"])
        .expect(0);
    workdir
        .run(&["report", "before/0.json", "--fail-if", "p99>1us"])
        .expect(1);
}

#[test]
fn a_stored_load_has_the_same_status_whenever_it_is_shown() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/delay/10ms");
    let load = ["load", "-n", "4", "-c", "1", "--json", "r.json"];
    let failing = [&load[..], &["--fail-if", "p50>1us", &url]].concat();
    let printed = workdir.run(&failing).expect(1);
    let shown = workdir.run(&["report", "r.json"]).expect(1);
    for out in [printed.out, shown.out] {
        assert!(out.contains("failed  --fail-if p50>1us: p50 is "), "{out}");
    }
    // Other conditions have their own result.
    let other = ["report", "r.json", "--fail-if", "p50>1m"];
    workdir.run(&other).expect(0);

    let endless = ["load", "-d", "1m", "--json", "r.json", "--progress=lines"];
    let args = [&endless[..], &[&url]].concat();
    let mut running = Running::start(workdir.command(&args));
    running.wait_for("ok in the last");
    running.signal(Signal::INT);
    assert_eq!(running.end().status, 130);
    workdir.run(&["report", "r.json"]).expect(130);
}

#[test]
fn records_of_two_folders_are_compared() {
    let workdir = Workdir::new();
    make_records(&workdir);
    // With one record on each side, the report shows the difference but no verdict.
    let two = ["report", "before/0.json", "after/0.json"];
    let output = workdir.run(&two).expect(0);
    assert!(
        output.out.contains("verdict withheld: one load per run"),
        "{}",
        output.out
    );
    // With several records on each side there is a verdict. The sides can be folders or patterns.
    for sides in [["before", "after"], ["before/*.json", "after/*.json"]] {
        let output = workdir.run(&["report", sides[0], sides[1]]).expect(0);
        let words: Vec<&str> = output.out.split_whitespace().collect();
        assert!(words.join(" ").contains("3 loads each"), "{}", output.out);
    }
    let gated = [
        "report",
        "after",
        "--against",
        "before",
        "--fail-if",
        "p50 > stored + 5%",
    ];
    let output = workdir.run(&gated).expect(1);
    assert!(
        output.err.contains("rate_per_s against the stored run"),
        "{}",
        output.err
    );
    let many = ["report", "before/0.json", "before/1.json", "after/0.json"];
    assert!(
        workdir
            .run(&many)
            .expect(2)
            .err
            .contains("compares at most two")
    );
    assert!(
        workdir
            .run(&["report", "before"])
            .expect(2)
            .err
            .contains("3 records")
    );
    let both = ["report", "before", "after", "--svg", "charts"];
    workdir.run(&both).expect(0);
    assert!(workdir.path("charts").is_dir());
}
