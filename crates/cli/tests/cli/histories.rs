//! Shows stored runs over time.

use serde_json::Value;

use crate::compares::TINY;
use crate::running::{Workdir, check_schema, names};

/// Runs of a plan, one per day. Later ones are slower, and some are from a larger machine.
fn with_runs() -> Workdir {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let output = workdir.run(&["compare", "tiny.toml", "--out", "first"]);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    let verdict = workdir.json("first/verdict.json");
    let environment = workdir.json("first/environment.json");
    for day in 1..=28_u32 {
        let folder = format!("prony-runs/2026-02-{day:02}-120000-tiny");
        std::fs::create_dir_all(workdir.path(&folder)).unwrap();
        let level = if day <= 18 { 1_000.0 } else { 900.0 };
        let mut verdict = verdict.clone();
        for comparison in verdict["comparisons"].as_array_mut().unwrap() {
            comparison["verdict"] = "equivalent".into();
        }
        for variant in verdict["variants"].as_array_mut().unwrap() {
            let rate = &mut variant["metrics"]["rate_per_s"];
            rate["mean"] = (level + f64::from(day * 7 % 5)).into();
        }
        for trial in names(&workdir.path("first/trials")) {
            let from = format!("first/trials/{trial}");
            let to = format!("{folder}/trials/{trial}");
            std::fs::create_dir_all(workdir.path(&to)).unwrap();
            workdir.write(
                &format!("{to}/record.json"),
                &workdir.read(&format!("{from}/record.json")),
            );
            workdir.write(
                &format!("{to}/trial.json"),
                &workdir.read(&format!("{from}/trial.json")),
            );
        }
        let mut environment = environment.clone();
        if day % 10 == 5 {
            environment["machine"]["cores"] = 4_096.into();
        }
        workdir.write(&format!("{folder}/plan.toml"), TINY);
        workdir.write(&format!("{folder}/verdict.json"), &verdict.to_string());
        workdir.write(
            &format!("{folder}/environment.json"),
            &environment.to_string(),
        );
    }
    workdir
}

#[test]
fn changes_are_found_in_the_runs_of_each_machine() {
    let workdir = with_runs();
    let text = workdir.run(&["history", "--metric", "rate"]).expect(0).out;
    assert!(
        text.contains("4,096 cores") || text.contains("4096 cores"),
        "{text}"
    );
    assert!(
        text.contains("2 changes found") && text.contains("2026-02-19-120000"),
        "{text}"
    );

    let words = [
        "history",
        "tiny.toml",
        "--json",
        "h.json",
        "--html",
        "h.html",
    ];
    let more = ["--bencher", "b.json", "--otava", "o", "--metric", "rate"];
    workdir.run(&[&words[..], &more].concat()).expect(0);
    let document = workdir.json("h.json");
    check_schema("prony.history-1.schema.json", &document);
    let series = document["series"].as_array().unwrap();
    let lengths: Vec<_> = series
        .iter()
        .map(|it| {
            (
                it["points"].as_array().unwrap().len(),
                it["changes"].as_array().unwrap().len(),
            )
        })
        .collect();
    // Two variants on each of two machines.
    let mut sorted = lengths.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [(3, 0), (3, 0), (25, 1), (25, 1)]);
    let long = series
        .iter()
        .find(|it| it["changes"] != Value::Array(Vec::new()))
        .unwrap();
    let change = long["changes"][0]["point"].as_u64().unwrap() as usize;
    assert_eq!(long["points"][change]["started_at"], "2026-02-19T12:00:00Z");
    assert!(workdir.read("h.html").contains("<svg"));

    let bencher = workdir.json("b.json");
    let benchmarks = bencher.as_object().unwrap();
    assert_eq!(benchmarks.len(), 4);
    for measures in benchmarks.values() {
        assert!(measures["rate_per_s"]["value"].as_f64().unwrap() >= 900.0);
    }
    let configuration = workdir.read("o/otava.yaml");
    let files: Vec<_> = configuration
        .lines()
        .filter_map(|line| line.trim().strip_prefix("file: "))
        .collect();
    assert_eq!(files.len(), 4);
    let mut rows: Vec<usize> = files
        .iter()
        .map(|file| workdir.read(&format!("o/{file}")).lines().count() - 1)
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [3, 3, 25, 25]);
    let csv = workdir.read(&format!("o/{}", files[0]));
    assert!(
        csv.starts_with("time,commit,run,rate_per_s\n2026-02-"),
        "{csv}"
    );
}

#[test]
fn sources_without_runs_are_refused() {
    let workdir = Workdir::new();
    let text = workdir.run(&["history"]).expect(2).err;
    assert!(text.contains("no run has results"), "{text}");
    workdir.write("broken.toml", "name = ");
    let text = workdir.run(&["history", "broken.toml"]).expect(2).err;
    assert!(text.contains("broken.toml: "), "{text}");
}

#[test]
fn a_run_is_compared_with_the_spread_of_a_series() {
    let workdir = with_runs();
    let words = [
        "report",
        "first",
        "--against",
        "prony-runs",
        "--json",
        "r.json",
    ];
    workdir.run(&words);
    let document = workdir.json("r.json");
    check_schema("prony.runs-1.schema.json", &document);
    // Only the runs on the machine of the newest.
    assert_eq!(document["old"]["unit"], "run");
    assert_eq!(document["old"]["count"], 25);

    // Fewer than three runs are no series.
    let pair = [
        "prony-runs/2026-02-01-120000-tiny",
        "prony-runs/2026-02-02-120000-tiny",
    ];
    let words = [
        "report",
        "first",
        "--json",
        "p.json",
        "--against",
        pair[0],
        "--against",
        pair[1],
    ];
    workdir.run(&words);
    assert_eq!(workdir.json("p.json")["old"]["unit"], "block");
}
