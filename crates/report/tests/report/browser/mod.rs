//! Opens the pages in a real browser, at desktop and phone width, light and dark. Checks for
//! errors, requests, horizontal scrolling, charts with unreadable text, and a first screen without
//! the verdict.
//!
//! The test needs Chromium, which `cargo xtask test` installs, and fails without it.

mod chromium;

use std::fs;
use std::path::Path;

use chromium::Chromium;
use prony_record::Record;
use prony_report::{Document, PERCENTILES, folder, html};
use serde_json::Value;

const DESK: (u32, u32) = (1280, 800);
const PHONE: (u32, u32) = (390, 844);

/// A page, the verdict on its first screen, and its number of charts.
struct Page {
    name: String,
    html: String,
    verdict: &'static str,
    figures: u64,
}

fn pages() -> Vec<Page> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let experiments = [
        (
            "gunicorn-sockets",
            "native, unix is the fastest of 4 variants",
            7,
        ),
        (
            "demo",
            "tcp is 22.9% slower than unix95% interval 20.1% to 25.7%",
            5,
        ),
        (
            "errors",
            "No verdict: the measurement can't support one.",
            4,
        ),
        (
            "ciphers",
            "No difference from aes-128 has been established yet.",
            6,
        ),
        ("portable", "Of 6 comparisons:", 11),
        (
            "interleaved",
            "new is 7.5% faster than old95% interval 6.1% to 8.9%",
            6,
        ),
    ];
    let experiments = experiments
        .into_iter()
        .map(|(name, verdict, figures)| Page {
            name: name.to_owned(),
            html: html::render(&Document::of_experiment(
                &folder::read_experiment(&fixtures.join(name)).unwrap(),
            )),
            verdict,
            figures,
        });
    let loads = [
        ("closed", "47,810 req/s over 10 s"),
        ("failing", "3,082 successful req/s over 5 s"),
        ("open", "9,669 req/s over 6 s"),
    ];
    let loads = loads.into_iter().map(|(name, verdict)| {
        let json = fs::read_to_string(fixtures.join(format!("load-{name}.json"))).unwrap();
        Page {
            name: format!("load-{name}"),
            html: html::render(&Document::of_load(
                &Record::from_json(&json).unwrap(),
                &PERCENTILES,
            )),
            verdict,
            figures: match name {
                "failing" => 4,
                _ => 3,
            },
        }
    });
    experiments.chain(loads).collect()
}

#[test]
fn pages_read_well_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Chromium::start();
    let mut problems = Vec::new();
    for page in pages() {
        let path = folder.path().join(format!("{}.html", page.name));
        fs::write(&path, &page.html).unwrap();
        let url = format!("file://{}", path.display());
        for size in [DESK, PHONE] {
            for scheme in ["light", "dark"] {
                let events = browser.open(&url, size, scheme);
                let seen = browser.evaluate(include_str!("probe.js"));
                let mut found = complaints(&events, &url);
                found.extend(problems_of(&page, &seen, size, scheme));
                let place = format!("{} at {}×{}, {scheme}", page.name, size.0, size.1);
                problems.extend(
                    found
                        .into_iter()
                        .map(|problem| format!("{place}: {problem}")),
                );
            }
        }
    }
    assert_eq!(
        browser.close(),
        Vec::<String>::new(),
        "the browser's processes are still running"
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns error messages of the browser, and requests for anything except the page.
fn complaints(events: &[Value], url: &str) -> Vec<String> {
    let methods = [
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
        "Log.entryAdded",
    ];
    let is_complaint = |event: &&Value| methods.iter().any(|method| event["method"] == *method);
    let complaints = events.iter().filter(is_complaint).map(Value::to_string);
    let requests = events
        .iter()
        .filter(|event| event["method"] == "Network.requestWillBeSent")
        .filter_map(|event| event["params"]["request"]["url"].as_str())
        .filter(|wanted| *wanted != url && !wanted.starts_with("data:"))
        .map(|wanted| format!("a request for {wanted}"));
    complaints.chain(requests).collect()
}

/// Returns the problems with the content of the page.
fn problems_of(
    page: &Page,
    seen: &Value,
    (width, height): (u32, u32),
    scheme: &str,
) -> Vec<String> {
    let number = |key: &str| seen[key].as_f64().unwrap_or(f64::NAN);
    let mut problems: Vec<String> = seen["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem.as_str().unwrap().to_owned())
        .collect();
    let mut must = |holds: bool, otherwise: String| {
        if !holds {
            problems.push(otherwise);
        }
    };
    must(
        number("inner_width") == f64::from(width),
        format!("the window is {} wide", seen["inner_width"]),
    );
    must(
        number("scroll_width") <= f64::from(width),
        format!("scrolls sideways to {}", seen["scroll_width"]),
    );
    must(
        seen["figures"] == page.figures,
        format!("{} charts", seen["figures"]),
    );
    must(seen["scripts"] == 0, "there are scripts".to_owned());
    let verdict = seen["verdict"].as_str().unwrap_or_default();
    must(
        verdict.contains(page.verdict),
        format!("the first screen says {verdict:?}"),
    );
    for key in ["verdict_bottom", "trust_bottom"] {
        must(
            number(key) <= f64::from(height),
            format!("{key} is at {}, below the first screen", seen[key]),
        );
    }
    let (paper, ink) = match scheme {
        "dark" => ("rgb(20, 23, 29)", "rgb(163, 170, 184)"),
        _ => ("rgb(255, 255, 255)", "rgb(92, 99, 112)"),
    };
    let page_color = &seen["page_color"];
    must(page_color == paper, format!("the page is {page_color}"));
    let label_color = &seen["label_color"];
    must(
        label_color == ink,
        format!("a chart's text is {label_color}"),
    );
    problems
}

/// A page with every fault that the check detects, one per line.
const FAULTY: &str = r#"<!DOCTYPE html><meta name="viewport" content="width=device-width">
<script>console.error("a complaint")</script>
<img src="http://127.0.0.1:9/elsewhere.png" alt="">
<p id="verdict" style="margin-top:2000px">late</p>
<p style="width:3000px">wide</p>
<figure><svg viewBox="0 0 1000 100" style="width:300px">
<text x="10" y="20" font-size="13">small</text>
</svg></figure>
<figure><svg role="img" aria-label="a chart" viewBox="0 0 300 100" style="width:300px">
<text x="10" y="20" font-size="13">one upon</text><text x="20" y="20" font-size="13">the other</text>
<text x="280" y="60" font-size="13" text-anchor="middle"></text>
</svg></figure>"#;

#[test]
fn every_fault_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faulty.html");
    fs::write(&path, FAULTY).unwrap();
    let url = format!("file://{}", path.display());
    let mut browser = Chromium::start();
    let events = browser.open(&url, PHONE, "dark");
    let seen = browser.evaluate(include_str!("probe.js"));
    let page = Page {
        name: "faulty".to_owned(),
        html: FAULTY.to_owned(),
        verdict: "the verdict",
        figures: 3,
    };
    let mut found = complaints(&events, &url);
    found.extend(problems_of(&page, &seen, PHONE, "dark"));
    assert_eq!(browser.close(), Vec::<String>::new());
    for fault in [
        "a complaint",
        "a request for http://127.0.0.1:9/elsewhere.png",
        "verdict_bottom is at",
        "the first screen says \"late\"",
        "scrolls sideways to",
        "a drawing without a label",
        "1 texts in",
        "\"small\" is 3.9 pixels high",
        "\"one upon\" and \"the other\" overlap",
        "an empty text in: a chart",
        "2 charts",
        "there are scripts",
        "the page is",
        "a chart's text is",
    ] {
        assert!(
            found.iter().any(|f| f.contains(fault)),
            "{fault:?} not in {found:#?}"
        );
    }
}
