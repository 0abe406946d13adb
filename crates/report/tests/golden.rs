//! Every output of fixed experiments and records, compared with what is kept in `tests/golden`.
//! `UPDATE_GOLDEN=1 cargo test -p prony-report` writes them anew; then read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use prony_record::Record;
use prony_report::{Experiment, csv, folder, html, markdown, text, timeline};

const EXPERIMENTS: [&str; 5] = ["gunicorn-sockets", "demo", "errors", "ciphers", "portable"];
const LOADS: [&str; 3] = ["closed", "failing", "open"];

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn experiment(name: &str) -> Experiment {
    folder::read(&tests().join("fixtures").join(name)).unwrap()
}

fn load(name: &str) -> Record {
    let path = tests().join(format!("fixtures/load-{name}.json"));
    Record::from_json(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Compares an output with the kept one, or keeps it.
#[track_caller]
fn check(name: &str, output: &str) {
    let path = tests().join("golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, output).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept
        .lines()
        .zip(output.lines())
        .position(|(kept, now)| kept != now)
        .unwrap_or(kept.lines().count().min(output.lines().count()));
    assert!(
        kept == output,
        "{name} differs from the kept one from line {}:\n  kept: {:.200}\n  now:  {:.200}\n\
         (UPDATE_GOLDEN=1 keeps what there is now)",
        differs + 1,
        kept.lines().nth(differs).unwrap_or("(end)"),
        output.lines().nth(differs).unwrap_or("(end)"),
    );
}

#[test]
fn loads_print() {
    for name in LOADS {
        check(
            &format!("load-{name}.txt"),
            &text::load_summary(&load(name), false),
        );
    }
    check(
        "load-failing.ansi",
        &text::load_summary(&load("failing"), true),
    );
}

#[test]
fn loads_become_csv_and_a_timeline() {
    check("load-failing.csv", &csv::series(&load("failing")));
    check("load-failing.timeline.json", &timeline(&load("failing")));
}

#[test]
fn verdicts_print() {
    for name in EXPERIMENTS {
        let experiment = experiment(name);
        let report = Path::new("prony-runs/x/report.html");
        let printed = text::verdict(&experiment.verdict, Some(report), false);
        check(&format!("{name}.txt"), &printed);
    }
    let colored = text::verdict(&experiment("errors").verdict, None, true);
    check("errors.ansi", &colored);
}

#[test]
fn experiments_become_markdown_and_csv() {
    for name in EXPERIMENTS {
        check(&format!("{name}.md"), &markdown::report(&experiment(name)));
    }
    let crossed = experiment("gunicorn-sockets");
    check("gunicorn-sockets.csv", &csv::verdict(&crossed.verdict));
    check("gunicorn-sockets.trials.csv", &csv::trials(&crossed));
}

#[test]
fn pages_are_made() {
    for name in ["gunicorn-sockets", "errors"] {
        check(&format!("{name}.html"), &html::report(&experiment(name)));
    }
    check("load-failing.html", &html::load(&load("failing")));
}
