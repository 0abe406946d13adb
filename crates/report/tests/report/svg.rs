//! Charts as files: well-formed, usable without a page, and named after their content.

use std::path::Path;

use prony_record::Record;
use prony_report::svg::{self, SvgFile};
use prony_report::{Document, Experiment, PERCENTILES, folder, html};
use roxmltree::Node;

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn experiment(name: &str) -> Experiment {
    folder::read_experiment(&fixtures().join(name)).unwrap()
}

fn names(files: &[SvgFile]) -> Vec<&str> {
    files.iter().map(|file| file.name.as_str()).collect()
}

/// Parses a file and checks the properties that every file must have.
#[track_caller]
fn whole(file: &SvgFile) -> roxmltree::Document<'_> {
    let document = roxmltree::Document::parse(&file.svg)
        .unwrap_or_else(|error| panic!("{}: {error}", file.name));
    let root = document.root_element();
    assert_eq!(
        root.tag_name().namespace(),
        Some("http://www.w3.org/2000/svg")
    );
    let child = |name: &str| {
        let mut children = root.children().filter(Node::is_element);
        children
            .find(|node| node.tag_name().name() == name)
            .unwrap()
    };
    assert!(!child("title").text().unwrap_or_default().is_empty());
    assert!(!child("desc").text().unwrap_or_default().is_empty());
    // The file has its own background, size and fonts, because there is no page to provide them.
    assert_eq!(child("rect").attribute("fill"), Some("#FFFFFF"));
    assert!(
        root.attribute("font-family")
            .unwrap()
            .ends_with("sans-serif")
    );
    for size in ["width", "height"] {
        let size: f64 = root.attribute(size).unwrap().parse().unwrap();
        assert!(size > 100.0);
    }
    let mut nodes = document.descendants().filter(Node::is_element);
    assert!(nodes.all(|node| {
        let name = node.tag_name().name();
        node.attribute("class").is_none() && !["script", "style", "image", "a"].contains(&name)
    }));
    document
}

#[test]
fn every_chart_of_the_page_is_a_file() {
    for name in ["gunicorn-sockets", "demo", "errors", "ciphers", "portable"] {
        let experiment = experiment(name);
        let files = svg::render(&Document::of_experiment(&experiment));
        files.iter().for_each(|file| drop(whole(file)));
        let page = html::render(&Document::of_experiment(&experiment));
        assert_eq!(
            files.len(),
            page.matches("<svg class=\"wide\"").count(),
            "{name}"
        );
    }
    let files = svg::render(&Document::of_experiment(&experiment("demo")));
    let expected = [
        "request-rate-against-the-reference.svg",
        "response-times-by-percentile-tcp-against-unix.svg",
        "cpu.svg",
        "completions-over-time.svg",
        "response-times.svg",
    ];
    assert_eq!(names(&files), expected);
    let first = whole(&files[0]);
    let title = first.root_element().first_element_child().unwrap();
    assert_eq!(title.text(), Some("demo: Request rate"));
    let texts = first.descendants().filter(|node| node.has_tag_name("text"));
    let texts: Vec<&str> = texts.filter_map(|node| node.text()).collect();
    assert!(
        texts.contains(&"demo: Request rate") && texts.contains(&"tcp"),
        "{texts:?}"
    );
}

#[test]
fn a_load_has_its_chart() {
    let json = std::fs::read_to_string(fixtures().join("load-open.json")).unwrap();
    let record = Record::from_json(&json).unwrap();
    let files = svg::render(&Document::of_load(&record, &PERCENTILES));
    let expected = [
        "completions-over-time.svg",
        "response-times-over-time.svg",
        "heat-map-of-response-times.svg",
    ];
    assert_eq!(names(&files), expected);
    files.iter().for_each(|file| drop(whole(file)));
    assert_eq!(svg::render(&Document::of_load(&Record::default(), &[])), []);
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</text><script>&\"\u{1b}\u{0}\u{fffe}\u{ffff}]]>\u{202e}";
    let mut experiment = experiment("demo");
    experiment.verdict.name = evil.to_owned();
    for variant in &mut experiment.verdict.variants {
        variant.name += evil;
    }
    for file in svg::render(&Document::of_experiment(&experiment)) {
        whole(&file);
    }
}
