//! Experiments that `--abort-if` or `abort_if` ends.

use serde_json::Value;

use crate::compares::TINY;
use crate::fleet_loads::FleetSetup;
use crate::running::{CommandOutput, Origin, Workdir, check_schema};

/// Compares a page that works with one whose responses all fail.
fn compare(workdir: &Workdir, origin: &Origin, more: &str) -> CommandOutput {
    let (good, bad) = (origin.url("/"), origin.url("/status/503"));
    let args = "compare -r 100 -c 4 --warmup 100ms --names good,bad --no-precheck --out r \
                --abort-if late.p99>10s --abort-if failed>50% --abort-window 500ms --bodies may-differ";
    let words = args.split_whitespace().chain(more.split_whitespace());
    let words: Vec<&str> = words.chain([&good[..], &bad[..]]).collect();
    workdir.run(&words)
}

/// Checks the output and the folder of an experiment that an abort condition ended in its first
/// block.
fn check_first_block(workdir: &Workdir, output: &CommandOutput) {
    let reason = "prony: variant server = bad: block 1: --abort-if failed>50% ended the load after";
    assert!(output.err.contains(reason), "{}", output.err);
    assert!(
        output.err.contains("no block was completed"),
        "{}",
        output.err
    );
    assert!(!output.err.contains("--resume"), "{}", output.err);
    // The aborted load is printed in the same form as by `prony load`.
    let heading = "the load that ended early: bad, block 1\n";
    assert!(output.out.contains(heading), "{}", output.out);
    assert!(output.out.contains("load-aborted"), "{}", output.out);
    let record = workdir.json("r/trials/1-bad/record.json");
    check_schema("prony.record-1.schema.json", &record);
    assert_eq!(record["aborted"]["condition"], "failed>50%");
    assert!(record["totals"]["failed"].as_u64().unwrap() > 0);
    let verdict = workdir.json("r/verdict.json");
    check_schema("prony.verdict-1.schema.json", &verdict);
    assert_eq!(verdict["blocks"], 0);
    let findings = verdict["findings"].as_array().unwrap();
    let aborted: Vec<&Value> = findings
        .iter()
        .filter(|it| it["id"] == "load-aborted")
        .collect();
    assert_eq!(aborted.len(), 1, "{findings:?}");
    assert!(aborted[0]["text"].as_str().unwrap().starts_with("bad"));
}

#[test]
fn a_condition_ends_an_experiment_whose_trials_are_sequential() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let output = compare(&workdir, &origin, "--interleave off -d 1s").expect(1);
    check_first_block(&workdir, &output);
    // The experiment can't be resumed: repeating a block until it passes would bias the result.
    let output = workdir.run(&["compare", "--resume", "r"]).expect(2);
    assert!(
        output.err.contains("ended this experiment in block 1"),
        "{}",
        output.err
    );
}

#[test]
fn a_condition_ends_an_interleaved_block() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let output = compare(&workdir, &origin, "-d 10m").expect(1);
    assert!(
        output.err.contains("Variants are interleaved"),
        "{}",
        output.err
    );
    check_first_block(&workdir, &output);
    // The record of the block's other trial, which was not aborted, is stored as well.
    let record = workdir.json("r/trials/1-good/record.json");
    assert_eq!(record["aborted"], Value::Null);
    assert_eq!(record["totals"]["failed"], 0);
    workdir.run(&["compare", "--resume", "r"]).expect(2);
    let output = workdir.run(&["report", "r"]).expect(1);
    assert!(output.out.contains("load-aborted"), "{}", output.out);
}

#[test]
fn blocks_before_the_aborted_one_count() {
    let workdir = Workdir::new();
    let slower = r#"command = ["sh", "-c", "mkdir ran-$2 && exec $0 origin --listen $1; exec $0 origin --work 500ms --listen $1", "PROGRAM", "{{ origin.address }}", "{{ socket }}"]"#;
    let slower = slower.replace("PROGRAM", env!("CARGO_BIN_EXE_prony"));
    let plan = TINY
        .replace(
            "command = [\"prony\", \"origin\", \"--listen\", \"{{ origin.address }}\"]",
            &slower,
        )
        .replace("\"200ms\"", "\"1500ms\"")
        .replace("warmup ", "interleave = \"off\"\nwarmup ");
    workdir.write(
        "plan.toml",
        &format!("{plan}abort_if = [\"rate < 20\"]\nabort_window = \"1s\"\n"),
    );
    let output = workdir
        .run(&["compare", "plan.toml", "--dry-run"])
        .expect(0);
    let expected = "--abort-if 'rate<20' --abort-window 1s";
    assert!(output.out.contains(expected), "{}", output.out);
    let args = ["compare", "plan.toml", "--no-precheck", "--out", "r"];
    let gated = [&args[..], &["--fail-if", "failed > 0.1%"]].concat();
    let output = workdir.run(&gated).expect(1);
    assert!(
        output
            .err
            .contains(": block 2: --abort-if rate<20 ended the load"),
        "{}",
        output.err
    );
    assert!(
        output.err.contains("block 1 is stored in r"),
        "{}",
        output.err
    );
    assert!(
        output.err.contains("conditions were not evaluated"),
        "{}",
        output.err
    );
    let verdict = workdir.json("r/verdict.json");
    assert_eq!(verdict["blocks"], 1);
    assert_eq!(verdict["variants"][0]["trials"], 1);
    let output = workdir.run(&["report", "r", "--csv", "-"]);
    // One block is too few for a verdict, and a busy machine may withhold it.
    assert!([0, 1].contains(&output.status), "{}", output.err);
    // The results don't include the aborted block.
    assert!(!output.out.contains(",2,"), "{}", output.out);
}

#[test]
fn a_condition_ends_an_experiment_whose_load_agents_make() {
    let fleet = FleetSetup::new(2);
    let address = fleet.origin.url("/");
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let plan = format!(
        r#"
name = "agents"
baseline = {{ page = "good" }}
metrics = ["p99"]

[trials]
blocks = 2
warmup = "100ms"
duration = "2s"

[factors]
page = [{{ name = "good", path = "/" }}, {{ name = "bad", path = "/status/503" }}]

[service.web]
remote = "{address}"

[load]
target = "web"
path = "{{{{ page.path }}}}"
rate = 100
connections = 4
agents = 2
bodies = "may-differ"
abort_if = "failed > 50%"
abort_window = "1s"
"#
    );
    fleet.workdir.write("plan.toml", &plan);
    let words = ["compare", "plan.toml", "--no-precheck", "--out", "r"];
    let output = fleet.workdir.run(&fleet.words(&words)).expect(1);
    let reason = "prony: variant page = bad: block 1: --abort-if failed>50% ended the load after";
    assert!(output.err.contains(reason), "{}", output.err);
    let record = fleet.workdir.json("r/trials/1-bad/record.json");
    assert_eq!(record["aborted"]["condition"], "failed>50%");
    fleet.end();
}

#[test]
fn conditions_that_can_not_end_an_experiment_are_refused() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let urls = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
    for (flags, targets, expected) in [
        (
            "--abort-if busy>50%",
            &urls[..],
            "--abort-if: busy is known only after the load has ended",
        ),
        (
            "--abort-if p99>1s --abort-window 1ms",
            &urls,
            "--abort-window: at least 500 ms",
        ),
        ("--abort-window 1s", &urls, "--abort-if"),
        ("--abort-if p99>1s --goal p99<1s", &urls, "--goal"),
        (
            "--abort-if p99>1s",
            &["tiny.toml"],
            "--abort-if applies to URLs only; in a plan, set abort_if in [load]",
        ),
    ] {
        let words: Vec<&str> = flags.split(' ').collect();
        let args = [&["compare"], &words[..], targets].concat();
        let output = workdir.run(&args).expect(2);
        assert!(output.err.contains(expected), "{flags}: {}", output.err);
    }
}
