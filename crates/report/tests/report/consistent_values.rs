//! Checks that every output of an experiment prints the same mean, change and interval for a
//! variant and metric.

use std::path::{Path, PathBuf};

use prony_report::text::TextOptions;
use prony_report::{Document, Experiment, csv, folder, html, markdown, table, text};
use prony_stats::gate::{Evidence, Gate, GateScope, RunEvidence};
use prony_stats::{Levels, Metric, Verdict, WithheldBecause};
use prony_wording::Change;
use serde_json::Value;

const EXPERIMENTS: [&str; 7] = [
    "gunicorn-sockets",
    "demo",
    "ciphers",
    "portable",
    "interleaved",
    "urls",
    "noisy",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn experiment(name: &str) -> Experiment {
    folder::read_experiment(&fixtures().join(name)).unwrap()
}

/// Every output as text without markup, with single spaces.
fn outputs(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let document = Document::of_experiment(experiment);
    let page = html::render(&document);
    let mut plain_page = String::new();
    let mut is_tag = false;
    for c in page.chars() {
        match c {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                plain_page.push(' ');
            }
            c if !is_tag => plain_page.push(c),
            _ => {}
        }
    }
    let all = [
        ("terminal", text::render(&document, TextOptions::PLAIN)),
        ("Markdown", markdown::render(&document)),
        ("HTML", plain_page),
    ];
    let spaced = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    all.map(|(name, text)| (name, spaced(text).replace('\\', "")))
        .into()
}

#[test]
fn every_output_prints_the_same_figure_change_and_interval() {
    for name in EXPERIMENTS {
        let experiment = experiment(name);
        let verdict = &experiment.verdict;
        let outputs = outputs(&experiment);
        let holds = |what: &str| {
            for (output, text) in &outputs {
                assert!(text.contains(what), "{name}: the {output} has no {what:?}");
            }
        };
        for comparison in &verdict.comparisons {
            let change = Change::of(comparison.metric, &comparison.effect).unwrap();
            holds(&change.signed());
            holds(&change.signed_range().unwrap());
            if matches!(comparison.verdict, Verdict::Faster | Verdict::Slower) {
                // The sentence contains the same digits, but expresses the sign in words.
                let amount = change.amount();
                assert!(change.signed().ends_with(&amount));
                assert!(comparison.text.contains(&amount), "{}", comparison.text);
                assert!(comparison.text.contains(&change.range().unwrap()));
            }
        }
        for variant in &verdict.variants {
            for metric in [Metric::RatePerS, Metric::P50Us, Metric::P99Us] {
                let level = variant.metrics[&metric].level(metric);
                holds(&metric.unit().shown(level));
            }
        }
    }
}

/// The ratio of two means in a table equals the ratio that the table shows.
#[test]
fn figures_and_their_ratio_agree() {
    for name in EXPERIMENTS {
        let verdict = experiment(name).verdict;
        for comparison in &verdict.comparisons {
            let level = |levels: &Levels| {
                let mut variants = verdict.variants.iter();
                let variant = variants.find(|variant| variant.levels == *levels).unwrap();
                variant.metrics[&comparison.metric].level(comparison.metric)
            };
            let ratio = level(&comparison.levels) / level(&comparison.against);
            let stated = comparison.effect.ratio.unwrap();
            assert!(
                (ratio / stated - 1.0).abs() < 1e-9,
                "{name}: {ratio} {stated}"
            );
        }
    }
}

#[test]
fn conditions_print_the_figures_of_the_report() {
    let stored = prony_report::stored::read_results(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/demo"),
    )
    .unwrap();
    let run = stored.run();
    let records = stored.records();
    let evidence = Evidence {
        new: RunEvidence {
            run: &run,
            records: &records,
            label: "new",
            is_loads: false,
        },
        stored: None,
        comparisons: stored.comparisons(),
        between: None,
        miss: 0.05,
    };
    let known = GateScope {
        variants: run.variants.clone(),
        baseline: run.baseline.clone(),
        stored: None,
    };
    let said = |input: &str| {
        let gate = Gate::parse(input, &known).unwrap();
        prony_wording::gate_results(gate.judge(&evidence))
            .remove(0)
            .text
    };
    let experiment = experiment("demo");
    let terminal = text::render(&Document::of_experiment(&experiment), TextOptions::PLAIN);
    let verdict = experiment.verdict;
    let figure = |metric: Metric| {
        let mut variants = verdict.variants.iter();
        let tcp = variants.find(|variant| variant.name == "tcp").unwrap();
        metric.unit().shown(tcp.metrics[&metric].level(metric))
    };
    let effect = &verdict.comparisons[0].effect;
    let change = Change::of(Metric::RatePerS, effect).unwrap().signed();
    for (gate, figure) in [
        ("rate of tcp < 10", figure(Metric::RatePerS)),
        ("p99 of tcp > 50ms", figure(Metric::P99Us)),
        ("rate of tcp < 0.9 baseline", change),
    ] {
        let text = said(gate);
        assert!(text.contains(&figure), "{gate}: {text}");
        assert!(terminal.contains(&figure), "{figure}: {terminal}");
    }
    // Variant names in the syntax of earlier versions are still accepted.
    assert!(Gate::parse("rate of socket=tcp < 10", &known).is_ok());
}

#[test]
fn no_percentage_is_above_100_and_no_change_has_two_signs() {
    for name in EXPERIMENTS {
        let experiment = experiment(name);
        let mut texts = outputs(&experiment);
        texts.push(("CSV", csv::verdict(&experiment.verdict)));
        for (output, text) in texts {
            for word in table::plain(&text).split([' ', '(', ')', ',', ';']) {
                let Some(percent) = word.strip_suffix('%') else {
                    continue;
                };
                let signed = percent.starts_with(['+', '−']);
                let figure: f64 = match percent.trim_start_matches(['+', '−', '±']).parse() {
                    Ok(figure) => figure,
                    Err(_) => continue,
                };
                assert!(figure <= 100.0, "{name}, {output}: {word}");
                assert!(
                    !signed || !percent.contains('-'),
                    "{name}, {output}: {word}"
                );
            }
            assert!(
                !text.contains("-0.0%") && !text.contains("+0.0%"),
                "{name}, {output}"
            );
        }
    }
}

#[test]
fn a_report_without_blocks_has_no_empty_tables() {
    let mut verdict = experiment("demo").verdict;
    verdict.blocks = 0;
    for variant in &mut verdict.variants {
        (variant.trials, variant.metrics) = (0, Default::default());
    }
    let report = Document::of_experiment(&Experiment::of_verdict(verdict));
    let text = text::render(&report, TextOptions::PLAIN);
    assert!(text.contains("no complete block"), "{text}");
    assert!(!text.contains("Rate, response times"), "{text}");
}

#[test]
fn verdicts_that_an_earlier_version_withheld_keep_their_reason() {
    let stored = std::fs::read_to_string(fixtures().join("errors/verdict.json")).unwrap();
    let mut document: Value = serde_json::from_str(&stored).unwrap();
    for comparison in document["comparisons"].as_array_mut().unwrap() {
        // Earlier versions stored the reason only in the sentence.
        comparison.as_object_mut().unwrap().remove("withheld");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("verdict.json"), document.to_string()).unwrap();
    let verdict = prony_report::folder::read_experiment(folder.path())
        .unwrap()
        .verdict;
    let mut withheld = verdict.comparisons.iter();
    let withheld = withheld.find(|it| it.verdict == Verdict::Withheld).unwrap();
    let Some(WithheldBecause::Stated(reason)) = &withheld.withheld else {
        panic!("{withheld:?}");
    };
    assert!(
        !reason.is_empty() && withheld.text.ends_with(reason),
        "{reason}"
    );
}
