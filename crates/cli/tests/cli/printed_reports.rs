//! Reports printed by a real browser, inspected with the programs of poppler.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::running::Workdir;

fn fixture(name: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/fixtures");
    fixtures.join(name).display().to_string()
}

fn print(workdir: &Workdir, run: &str, status: i32) -> PathBuf {
    let output = workdir.run(&["report", &fixture(run), "--pdf", "x.pdf"]);
    assert_eq!(output.expect(status).err, "");
    workdir.path("x.pdf")
}

/// The output of a poppler program.
fn poppler(program: &str, arguments: &[&str], file: &Path) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(arguments).arg(file);
    if program == "pdftotext" {
        command.arg("-");
    }
    let run = command.output().unwrap_or_else(|error| {
        panic!("{program}: {error} (cargo xtask test installs poppler-utils)")
    });
    assert!(run.status.success(), "{program}: {run:?}");
    run.stdout
}

fn text(file: &Path) -> String {
    String::from_utf8(poppler("pdftotext", &["-layout"], file)).unwrap()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_printed_report_has_every_part_in_reading_order() {
    let workdir = Workdir::new();
    let pdf = print(&workdir, "gunicorn-sockets", 0);
    let text = words(&text(&pdf));
    let mut rest = text.as_str();
    for part in [
        "gunicorn-sockets · an experiment with prony",
        "What do a jail and TCP cost between nginx and gunicorn?",
        "native, unix is the fastest of 4 variants",
        "Can you trust the result?",
        "Request rate",
        "761 req/s",
        "Why",
        "Completions over time",
        "All metrics",
        "Findings",
        "order-effect",
        // Parts that the page shows collapsed.
        "Order of the trials",
        "the median response time of native, tcp is 3.5% higher",
        "The plan, as run",
        "question = \"What do a jail",
        "The environment",
        "net.core.somaxconn",
    ] {
        let found = rest.split_once(part);
        let found = found.unwrap_or_else(|| panic!("{part:?} is not in: {rest}"));
        rest = found.1;
    }
    assert!(!text.contains("Scroll sideways"), "{text}");
}

/// Positions of all words of the file, in points: the page's size, then left and right edges.
fn edges(pdf: &Path) -> Vec<((f64, f64), f64, f64)> {
    let boxes = String::from_utf8(poppler("pdftotext", &["-bbox"], pdf)).unwrap();
    let value = |line: &str, name: &str| -> f64 {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    let mut size = (0.0, 0.0);
    let mut edges = Vec::new();
    for line in boxes.lines().map(str::trim_start) {
        if line.starts_with("<page ") {
            size = (value(line, "width"), value(line, "height"));
        } else if line.starts_with("<word ") {
            edges.push((size, value(line, "xMin"), value(line, "xMax")));
        }
    }
    edges
}

#[test]
fn no_table_is_cut_and_its_head_is_on_each_page() {
    let workdir = Workdir::new();
    for (run, status) in [("portable", 0), ("urls", 0), ("load-failing.json", 0)] {
        let pdf = print(&workdir, run, status);
        let edges = edges(&pdf);
        assert!(edges.len() > 100, "{run}");
        for ((width, height), left, right) in edges {
            assert_eq!((width.round(), height.round()), (595.0, 842.0), "A4: {run}");
            let margin = 15.0 * 72.0 / 25.4 - 1.0;
            assert!(
                left >= margin && right <= width - margin,
                "{run}: {left} {right}"
            );
        }
    }
    // A long table of one entry per row.
    let page = workdir.path("load.json");
    let mut record: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("load-list.json")).unwrap()).unwrap();
    let entries = record["entries"]["each"].as_array_mut().unwrap();
    let one = entries[0].clone();
    entries.extend(std::iter::repeat_n(one, 150));
    record["entries"]["count"] = 162.into();
    std::fs::write(&page, record.to_string()).unwrap();
    let run = workdir.run(&["report", "load.json", "--pdf", "x.pdf"]);
    assert_eq!(run.err, "");
    let text = text(&workdir.path("x.pdf"));
    let pages: Vec<&str> = text.split('\u{c}').collect();
    let is_head = |line: &&str| line.contains("p50") && line.contains("p99");
    let within: Vec<&&str> = pages
        .iter()
        .filter(|page| page.matches("GET ").count() > 20)
        .collect();
    assert!(within.len() >= 2, "{text}");
    for page in within {
        let first = page.lines().find(|line| !line.trim().is_empty()).unwrap();
        assert!(page.lines().any(|line| is_head(&line)), "{first}");
    }
}

#[test]
fn printed_pages_are_white_and_their_lines_differ_in_gray() {
    let workdir = Workdir::new();
    let pdf = print(&workdir, "interleaved", 0);
    let pixels = poppler(
        "pdftoppm",
        &["-gray", "-r", "50", "-f", "1", "-l", "1"],
        &pdf,
    );
    // P5, the size, the maximum, then one byte for each pixel.
    let image = &pixels[pixels.len() - 100_000..];
    let white = image.iter().filter(|pixel| **pixel == 255).count();
    let dark = image.iter().filter(|pixel| **pixel < 128).count();
    assert!(
        white > image.len() / 2 && dark > 0,
        "{white} white, {dark} dark"
    );
    let page = workdir.run(&["report", &fixture("interleaved"), "--html", "x.html"]);
    page.expect(0);
    let style = workdir.read("x.html");
    let patterns = style.matches("{stroke-dasharray:").count();
    assert_eq!(patterns, 9, "{style}");
}

#[test]
fn two_runs_and_a_load_are_printed() {
    let workdir = Workdir::new();
    let pdf = print(&workdir, "load-open.json", 0);
    assert!(words(&text(&pdf)).contains("9,669 req/s over 6 s"));
    let (old, new) = (fixture("demo"), fixture("demo-of-0.1.0"));
    let output = workdir.run(&["report", &old, &new, "--pdf", "two.pdf"]);
    assert_eq!(output.err, "");
    assert!(text(&workdir.path("two.pdf")).contains("demo"));
}

#[test]
fn without_a_browser_the_message_names_the_programs() {
    let workdir = Workdir::new();
    std::fs::create_dir(workdir.path("empty")).unwrap();
    let demo = fixture("demo");
    let mut command = workdir.command(&["report", &demo, "--pdf", "x.pdf", "--html", "x.html"]);
    command.env("PATH", workdir.path("empty"));
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{err}");
    for name in [
        "chromium,",
        "chromium-browser,",
        "google-chrome,",
        "google-chrome-stable",
        "--html",
    ] {
        assert!(err.contains(name), "{name}: {err}");
    }
    assert!(workdir.names().iter().all(|name| name == "empty"));
}

#[test]
fn a_browser_that_fails_does_not_prevent_the_other_files() {
    let workdir = Workdir::new();
    std::fs::create_dir(workdir.path("bin")).unwrap();
    workdir.write(
        "bin/chromium",
        "#!/bin/sh\necho no display here >&2\nexit 1\n",
    );
    workdir.set_mode("bin/chromium", 0o755);
    let demo = fixture("demo");
    let mut command = workdir.command(&["report", &demo, "--pdf", "x.pdf", "--json", "x.json"]);
    command.env("PATH", workdir.path("bin"));
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(
        err.contains("--pdf: ") && err.contains("bin/chromium did not print the page"),
        "{err}"
    );
    assert!(!workdir.path("x.pdf").exists());
    workdir.json("x.json");
}
