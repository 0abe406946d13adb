//! The noise of a machine and of a plan's baseline (`prony noise`).

use crate::compares::TINY;
use crate::running::{Workdir, check_schema};

#[test]
fn the_baseline_of_a_plan_is_compared_with_itself() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let args = [
        "noise",
        "tiny.toml",
        "-d",
        "20s",
        "--out",
        "n",
        "--json",
        "n.json",
    ];
    let printed = workdir.run(&args).expect(0);
    assert!(
        printed.out.contains("smallest difference seen"),
        "{}",
        printed.out
    );
    assert!(printed.out.contains("noise-steal"), "{}", printed.out);
    let noise = workdir.json("n.json");
    check_schema("prony.noise-1.schema.json", &noise);
    let metric = &noise["metrics"][0];
    assert!(metric["low"].as_f64() <= metric["high"].as_f64());
    let differences = metric["differences"].as_array().unwrap().iter();
    let differences: Vec<f64> = differences
        .map(|it| it["difference"].as_f64().unwrap())
        .collect();
    assert!(differences.is_sorted_by(|a, b| a >= b), "{differences:?}");
    let verdict = workdir.json("n/verdict.json");
    assert_eq!(verdict["variants"].as_array().unwrap().len(), 2);
}

#[test]
fn a_plan_with_a_mistake_is_reported_with_its_line() {
    let workdir = Workdir::new();
    workdir.write("bad.toml", "name = \"bad\"\nnonsense = 1\n");
    let printed = workdir.run(&["noise", "bad.toml"]).expect(2);
    assert!(printed.err.contains("bad.toml:2"), "{}", printed.err);
    let printed = workdir.run(&["noise", "missing.toml"]).expect(2);
    assert!(printed.err.contains("missing.toml"), "{}", printed.err);
}
