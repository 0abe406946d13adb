//! The PDF file, inspected with the programs of poppler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use prony_record::Record;
use prony_report::{Document, Experiment, PERCENTILES, folder, pdf, svg};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn experiment(name: &str) -> Experiment {
    folder::read(&fixtures().join(name)).unwrap()
}

fn load(name: &str) -> Document {
    let path = fixtures().join(format!("load-{name}.json"));
    let record = Record::from_json(&fs::read_to_string(path).unwrap()).unwrap();
    Document::of_load(&record, &PERCENTILES)
}

fn report(experiment: &Experiment) -> Vec<u8> {
    pdf::render(&Document::of_experiment(experiment))
}

/// The output of a poppler program for a file.
fn poppler(program: &str, before: &[&str], file: &[u8], after: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.pdf");
    fs::write(&path, file).unwrap();
    let run = Command::new(program)
        .args(before)
        .arg(&path)
        .args(after)
        .output();
    let run = run.unwrap_or_else(|error| {
        panic!("{program}: {error} (the tests of PDFs need poppler-utils; cargo xtask test installs it)")
    });
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{program}: {said}");
    // pdfinfo prints a message if it has to repair a file.
    assert_eq!(said, "", "{program}");
    String::from_utf8(run.stdout).unwrap()
}

fn text(file: &[u8]) -> String {
    let text = poppler("pdftotext", &["-enc", "UTF-8"], file, &["-"]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that the text contains the given parts in the given order.
#[track_caller]
fn in_order(text: &str, wanted: &[&str]) {
    let mut rest = text;
    for part in wanted {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("\"{part}\" is missing or out of order in: {text}");
        };
        rest = after;
    }
}

/// The value of one of pdfinfo's lines.
fn info(file: &[u8], name: &str) -> String {
    let all = poppler("pdfinfo", &[], file, &[]);
    let mut lines = all.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(key, _)| *key == name);
    found
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

#[test]
fn the_same_experiment_gives_the_same_bytes() {
    for name in ["demo", "portable", "errors"] {
        let first = report(&experiment(name));
        assert!(first == report(&experiment(name)), "{name}");
        assert!(first.starts_with(b"%PDF-1.7"), "{name}");
    }
    assert!(pdf::render(&load("open")) == pdf::render(&load("open")));
}

#[test]
fn its_text_is_in_reading_order() {
    let file = report(&experiment("gunicorn-sockets"));
    in_order(
        &text(&file),
        &[
            "gunicorn-sockets · an experiment with prony",
            "What do a jail and TCP cost between nginx and gunicorn?",
            "native, unix is the fastest of 4 variants",
            "Can you trust the result?",
            "slower",
            "Request rate",
            "761 req/s",
            "The band shows the margin",
            "namespace instead of native: costs",
            "Why",
            "CPU of the services",
            "Completions over time",
            "Response times",
            "All metrics",
            "How requests ended",
            "Findings",
            "order-effect",
            "How it was measured",
            "±2% counts as no difference",
            "The plan, as run",
            "The environment",
        ],
    );
    let file = pdf::render(&load("failing"));
    in_order(
        &text(&file),
        &[
            "req/s over",
            "How requests ended",
            "Times",
            "p99.9",
            "≥",
            "Findings",
        ],
    );
}

#[test]
fn it_has_metadata_bookmarks_and_embedded_fonts() {
    let file = report(&experiment("demo"));
    assert_eq!(info(&file, "Title"), "demo: tcp is 22.9% slower than unix");
    assert_eq!(info(&file, "Author"), "prony 0.1.0");
    assert_eq!(info(&file, "Tagged"), "yes");
    assert!(info(&file, "Page size").contains("A4"));
    assert_eq!(
        info(&file, "CreationDate"),
        "",
        "the same folder has to give the same bytes"
    );
    let xmp = poppler("pdfinfo", &["-meta"], &file, &[]);
    assert!(
        xmp.contains("<rdf:li>en</rdf:li>") && xmp.contains("22.9% slower"),
        "{xmp}"
    );
    let fonts = poppler("pdffonts", &[], &file, &[]);
    let fonts: Vec<&str> = fonts.lines().skip(2).collect();
    assert_eq!(fonts.len(), 3, "{fonts:?}");
    for font in fonts {
        // The font is embedded, is a subset, and has a map to Unicode.
        assert!(font.contains("yes yes yes"), "{font}");
    }
    let raw = String::from_utf8_lossy(&file);
    assert!(raw.contains("/Lang (en)"), "its language");
    for section in ["Request rate", "Findings", "All metrics", "The environment"] {
        assert!(
            raw.contains(&format!("/Title ({section})")),
            "a bookmark to {section}"
        );
    }
    let pages: usize = info(&file, "Pages").parse().unwrap();
    assert!((3..=8).contains(&pages), "{pages}");
    assert!(text(&file).contains(&format!("page {pages} of {pages}")));
    assert!(file.len() < 400_000, "{} bytes", file.len());
}

#[test]
fn screen_readers_find_headings_tables_and_charts() {
    let experiment = experiment("demo");
    let structure = poppler("pdfinfo", &["-struct"], &report(&experiment), &[]);
    let roles: Vec<&str> = structure
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(|role| role.trim_end_matches(':'))
        .collect();
    let count = |wanted: &str| roles.iter().filter(|role| **role == wanted).count();
    let charts = svg::render(&Document::of_experiment(&experiment)).len();
    assert_eq!(count("Figure"), charts, "{structure}");
    assert_eq!(count("H1"), 1);
    assert!(count("H2") >= 8 && count("Table") >= 4 && count("TH") >= 10);
}

#[test]
fn characters_without_a_glyph_stay_searchable() {
    let mut experiment = experiment("demo");
    experiment.verdict.question = "Is سریع faster than 快い, or 🚀?".to_owned();
    let text = text(&report(&experiment));
    assert!(text.contains("快い"), "{text}");
    assert!(text.contains('🚀'), "{text}");
}
