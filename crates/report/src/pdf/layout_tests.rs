//! Page layout of every stored experiment, and of extreme experiments.

use std::path::Path;

use prony_record::Record;

use super::block::{DrawOp, Story};
use super::flow::{Bookmark, Page, pages};
use super::render::story;
use super::style::{BOTTOM, FOOT, FontStyle, MARGIN, PAGE_WIDTH, TOP};
use super::{PdfInfo, render};
use crate::{Document, Experiment, folder};

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn stored(name: &str) -> Experiment {
    folder::read(&fixtures().join(name)).unwrap()
}

fn story_of(experiment: &Experiment) -> Story {
    story(&Document::of_experiment(experiment))
}

fn about() -> PdfInfo {
    PdfInfo {
        title: String::new(),
        footer: "of a test".to_owned(),
        version: String::new(),
    }
}

fn set(story: &Story) -> (Vec<Page>, Vec<Bookmark>) {
    let (pages, bookmarks) = pages(story, &about());
    pages.iter().for_each(stays_on_paper);
    (pages, bookmarks)
}

/// Asserts that no text exceeds the margins, and that every marked part has an end.
#[track_caller]
fn stays_on_paper(page: &Page) {
    let mut open = 0_i32;
    for op in &page.ops {
        match op {
            DrawOp::Text { x, y, text, style } => {
                let end = x + style.width_of(text);
                // The tolerance is for charts, which only estimate the width of their texts.
                assert!(*x >= MARGIN - 6.0, "{text} begins at {x}");
                assert!(end <= PAGE_WIDTH - MARGIN + 6.0, "{text} ends at {end}");
                let is_foot = (y - FOOT).abs() < 1e-6;
                assert!(is_foot || (TOP..=BOTTOM).contains(y), "{text} is at {y}");
            }
            DrawOp::Begin(_) | DrawOp::Decoration => open += 1,
            DrawOp::End => open -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&open));
    }
    assert_eq!(open, 0);
}

/// The texts of a page with their styles, without the footer.
fn texts(page: &Page) -> Vec<(&str, FontStyle)> {
    let text = |op| match op {
        &DrawOp::Text {
            y, ref text, style, ..
        } if y < FOOT - 1.0 => Some((text.as_str(), style)),
        _ => None,
    };
    page.ops.iter().filter_map(text).collect()
}

const EXPERIMENTS: [&str; 6] = [
    "gunicorn-sockets",
    "demo",
    "errors",
    "ciphers",
    "portable",
    "demo-of-0.1.0",
];

#[test]
fn stored_experiments_stay_within_margins_and_headings_with_their_text() {
    for name in EXPERIMENTS {
        let (pages, bookmarks) = set(&story_of(&stored(name)));
        for (number, page) in pages.iter().enumerate() {
            let texts = texts(page);
            let (last, style) = texts.last().unwrap();
            let is_heading = *style == FontStyle::SECTION || *style == FontStyle::SUBSECTION;
            assert!(
                !is_heading,
                "{name}, page {}: the heading {last} is the last text",
                number + 1
            );
        }
        let sections = ["Findings", "All metrics", "How it was measured"];
        for section in sections {
            assert!(
                bookmarks.iter().any(|mark| mark.text == section),
                "{name}: {section}"
            );
        }
    }
}

#[test]
fn every_chart_of_the_page_is_in_the_document() {
    for name in EXPERIMENTS {
        let experiment = stored(name);
        let story = story_of(&experiment);
        let figure = |element: &super::block::StructureElement| match &element.role {
            super::block::Role::Figure(label) => Some(label.clone()),
            _ => None,
        };
        let drawn: Vec<String> = story.elements.iter().filter_map(figure).collect();
        let document = Document::of_experiment(&experiment);
        let wanted: Vec<&String> = document.figures().map(|f| &f.chart.label).collect();
        assert_eq!(drawn.iter().collect::<Vec<_>>(), wanted, "{name}");
        let page = crate::html::render(&document);
        assert_eq!(
            page.matches("<svg class=\"wide\"").count(),
            wanted.len(),
            "{name}"
        );
    }
}

/// A comparison of two runs that another test stored.
fn two_runs() -> prony_stats::runs::RunsDocument {
    let path = fixtures().join("../golden-runs/runs.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn two_runs_stay_within_margins_and_start_with_the_verdicts() {
    let document = two_runs();
    let report = Document::of_runs(&document);
    let (pages, bookmarks) = set(&story(&report));
    let sections: Vec<&str> = bookmarks.iter().map(|mark| mark.text.as_str()).collect();
    assert_eq!(
        sections[..3],
        [
            "Request rate",
            "Each variant against its own baseline",
            "Other metrics"
        ]
    );
    let all: Vec<&str> = pages.iter().flat_map(texts).map(|(text, _)| text).collect();
    assert!(all.contains(&document.comparisons[0].name.as_str()));
    let charts = report.figures().count();
    let page = crate::html::render(&report);
    assert_eq!(page.matches("<svg class=\"wide\"").count(), charts);
    assert!(render(&report) == render(&report));
}

/// An experiment with `variants` variants that share the trials of one variant.
fn of_many(variants: usize, name: impl Fn(usize) -> String) -> Experiment {
    let mut experiment = stored("demo");
    let verdict = &mut experiment.verdict;
    let (variant, comparison) = (verdict.variants[0].clone(), verdict.comparisons[0].clone());
    for place in 2..variants {
        let levels = [("socket".to_owned(), name(place))].into_iter().collect();
        verdict.variants.push(prony_stats::VariantSummary {
            entries: None,
            name: name(place),
            levels,
            ..variant.clone()
        });
        let levels = verdict.variants[place].levels.clone();
        verdict.comparisons.push(prony_stats::Comparison {
            name: name(place),
            levels,
            text: format!("{} is slower than unix", name(place)),
            ..comparison.clone()
        });
    }
    let trials: Vec<crate::Trial> = experiment.trials.clone();
    for trial in trials.iter().filter(|trial| trial.variant == 0) {
        for variant in 2..variants {
            experiment.trials.push(crate::Trial {
                variant,
                ..trial.clone()
            });
        }
    }
    experiment
}

#[test]
fn hundreds_of_variants_are_all_printed() {
    let experiment = of_many(200, |place| format!("variant {place}"));
    let (pages, _) = set(&story_of(&experiment));
    assert!((20..400).contains(&pages.len()), "{}", pages.len());
    let all: Vec<&str> = pages.iter().flat_map(texts).map(|(text, _)| text).collect();
    for place in 2..200 {
        let name = format!("variant {place}");
        // The name occurs in the table, the chart, the sentences, twice for CPU, in two charts and
        // in two more tables.
        let times = all.iter().filter(|text| **text == name).count();
        assert!(times >= 7, "{name}: {times}");
    }
}

#[test]
fn names_of_any_length_and_script_stay_within_margins() {
    let long = "an-interminable_name.without:any/space".repeat(20);
    let names = [
        "فارسی و עברית",
        "漢字とかな交じり文",
        "🚀👩‍👩‍👧",
        long.as_str(),
        "",
    ];
    let mut experiment = of_many(8, |place| names[place % names.len()].repeat(1 + place / 4));
    experiment.verdict.name = long.clone();
    experiment.verdict.question = names.join(" ").repeat(30);
    experiment.plan = format!("{long}\n\tx = 1\n{}", "y ".repeat(500));
    experiment.environment = serde_json::json!({ "a": long.repeat(40), (long.clone()): names });
    let (pages, _) = set(&story_of(&experiment));
    assert!(pages.len() > 3);
    assert!(!render(&Document::of_experiment(&experiment)).is_empty());
}

#[test]
fn an_empty_experiment_has_a_document() {
    let mut experiment = stored("demo");
    experiment.trials.clear();
    experiment.plan.clear();
    experiment.environment = serde_json::Value::Null;
    let verdict = &mut experiment.verdict;
    verdict.comparisons.clear();
    verdict.described.clear();
    verdict.why.clear();
    verdict.effects.clear();
    verdict.order.clear();
    verdict.question.clear();
    verdict.blocks = 0;
    for variant in &mut verdict.variants {
        variant.metrics.clear();
    }
    let (pages, _) = set(&story_of(&experiment));
    let all: Vec<&str> = pages.iter().flat_map(texts).map(|(text, _)| text).collect();
    assert!(
        all.contains(&"No complete block: nothing can be compared."),
        "{all:?}"
    );
    experiment.verdict.variants.clear();
    set(&story_of(&experiment));
    assert!(!render(&Document::of_load(&Record::default(), &[])).is_empty());
}

#[test]
fn the_environment_takes_at_most_one_page() {
    let mut long = stored("demo");
    let facts = (0..2_000).map(|n| {
        (
            format!("key-{n}"),
            "a value of some words ".repeat(20).into(),
        )
    });
    let facts: serde_json::Map<String, serde_json::Value> = facts.collect();
    long.environment = serde_json::json!({"machine": {"cpu": "Example"}, "services": facts});
    let (pages, bookmarks) = set(&story_of(&long));
    let mut marks = bookmarks.iter();
    let mark = marks.find(|mark| mark.text == "The environment").unwrap();
    assert_eq!(mark.page + 1, pages.len());
    let last = texts(&pages[mark.page]).into_iter().map(|(text, _)| text);
    let last = last.collect::<Vec<_>>().join(" ");
    assert!(
        last.contains("further entries are in environment.json"),
        "{last}"
    );
    assert!(
        last.contains("machine › cpu"),
        "the machine comes first: {last}"
    );
}
