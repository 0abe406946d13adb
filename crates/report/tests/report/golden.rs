//! Snapshots of every output for fixed experiments and records in `tests/golden`. `UPDATE_GOLDEN=1
//! cargo test -p prony-report` rewrites them; review the changes afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use prony_record::Record;
use prony_report::text::TextOptions;
use prony_report::{
    Document, Experiment, PERCENTILES, csv, folder, html, markdown, text, timeline,
};

const EXPERIMENTS: [&str; 10] = [
    "gunicorn-sockets",
    "demo",
    "errors",
    "ciphers",
    "portable",
    "interleaved",
    "urls",
    "noisy",
    "capacity",
    // This folder was written by the first version of prony. Reports of old folders must always
    // work.
    "demo-of-0.1.0",
];
const LOADS: [&str; 5] = ["closed", "failing", "open", "profile", "list"];

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn experiment(name: &str) -> Experiment {
    folder::read_experiment(&tests().join("fixtures").join(name)).unwrap()
}

fn load(name: &str) -> Record {
    let path = tests().join(format!("fixtures/load-{name}.json"));
    Record::from_json(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Compares an output with its snapshot, or updates the snapshot.
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
        "{name} differs from its snapshot in line {}:\n  snapshot: {:.200}\n  output:   {:.200}\n\
         (UPDATE_GOLDEN=1 updates the snapshot)",
        differs + 1,
        kept.lines().nth(differs).unwrap_or("(end)"),
        output.lines().nth(differs).unwrap_or("(end)"),
    );
}

/// All outputs of loads, by snapshot name.
fn of_loads() -> Vec<(String, String)> {
    let mut outputs = Vec::new();
    for name in LOADS {
        let record = load(name);
        let mut put = |form: &str, output| outputs.push((format!("load-{name}.{form}"), output));
        let document = Document::of_load(&record, &PERCENTILES);
        put("txt", text::render(&document, TextOptions::PLAIN));
        put("html", html::render(&document));
        if name == "list" {
            put("md", markdown::render(&document));
        }
        if name == "failing" {
            put("ansi", text::render(&document, TextOptions::COLORED));
            put("md", markdown::render(&document));
            put("csv", csv::series(&record));
            put("timeline.json", timeline(&record));
        }
    }
    outputs
}

/// All outputs of experiments, by snapshot name.
fn of_experiments() -> Vec<(String, String)> {
    let mut outputs = Vec::new();
    for name in EXPERIMENTS {
        let experiment = experiment(name);
        let verdict = &experiment.verdict;
        let mut put = |form: &str, output| outputs.push((format!("{name}.{form}"), output));
        let document = Document::of_experiment(&experiment);
        put("txt", text::render(&document, TextOptions::PLAIN));
        put("md", markdown::render(&document));
        // Other formats of an experiment with many variants would test nothing new.
        if name != "portable" {
            put("html", html::render(&document));
        }
        match name {
            "gunicorn-sockets" => put("csv", csv::verdict(verdict)),
            "errors" => put("ansi", text::render(&document, TextOptions::COLORED)),
            _ => {}
        }
    }
    outputs
}

#[test]
fn loads_match_their_snapshots() {
    for (name, output) in of_loads() {
        check(&name, &output);
    }
}

#[test]
fn experiments_match_their_snapshots() {
    for (name, output) in of_experiments() {
        check(&name, &output);
    }
}

/// The names of all files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    let mut below: Vec<PathBuf> = below.collect();
    below.sort();
    below
}

#[test]
fn every_snapshot_is_compared() {
    let mut made: Vec<String> = of_loads()
        .into_iter()
        .chain(of_experiments())
        .map(|(name, _)| name)
        .collect();
    made.sort();
    let kept = files(&tests().join("golden"));
    let kept: Vec<_> = kept
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(kept, made);
}

#[test]
fn fixtures_match_the_example() {
    let dir = tempfile::tempdir().unwrap();
    crate::sample_data::write_all(dir.path()).unwrap();
    let kept = tests().join("fixtures");
    let relative = |root: &Path, below: Vec<PathBuf>| -> Vec<PathBuf> {
        let names = below
            .into_iter()
            .map(|path| path.strip_prefix(root).unwrap().to_owned());
        names
            .filter(|name| !name.starts_with("demo-of-0.1.0"))
            .collect()
    };
    let made = relative(dir.path(), files(dir.path()));
    assert_eq!(relative(&kept, files(&kept)), made);
    for name in made {
        let read = |root: &Path| fs::read_to_string(root.join(&name)).unwrap();
        assert!(
            read(dir.path()) == read(&kept),
            "{} is not what `cargo run -p prony-report --example fixtures` writes",
            name.display()
        );
    }
}
