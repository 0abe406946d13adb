//! Hostile names, texts and numbers from a plan, a server or a broken file.

use std::path::Path;

use prony_record::{EntryResult, EntryResults, Finding, FindingId, RateStage, Record, Severity};
use prony_report::text::TextOptions;
use prony_report::{
    Document, Experiment, PERCENTILES, csv, folder, html, markdown, svg, text, timeline,
};
use prony_stats::{Levels, VerdictDocument};

const EVIL: &str = "<script>alert(1)</script>\"'&]]>{{ 7*7 }}\u{1b}[31m|`*";

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn experiment() -> Experiment {
    folder::read_experiment(&fixtures().join("gunicorn-sockets")).unwrap()
}

fn load() -> Record {
    let json = std::fs::read_to_string(fixtures().join("load-failing.json")).unwrap();
    Record::from_json(&json).unwrap()
}

fn poisoned(levels: &Levels) -> Levels {
    let evil = |text: &String| format!("{text}{EVIL}");
    levels.iter().map(|(f, l)| (evil(f), evil(l))).collect()
}

/// An experiment in which every text is hostile.
fn hostile() -> Experiment {
    let mut experiment = experiment();
    let verdict = &mut experiment.verdict;
    verdict.name = EVIL.to_owned();
    verdict.question = EVIL.to_owned();
    verdict.baseline = poisoned(&verdict.baseline);
    verdict.order[0][0] = EVIL.to_owned();
    for variant in &mut verdict.variants {
        variant.levels = poisoned(&variant.levels);
        variant.name += EVIL;
    }
    for comparison in &mut verdict.comparisons {
        comparison.levels = poisoned(&comparison.levels);
        comparison.name += EVIL;
        comparison.against_name += EVIL;
        comparison.text += EVIL;
    }
    for described in &mut verdict.described {
        described.levels = poisoned(&described.levels);
        described.text += EVIL;
    }
    for why in &mut verdict.why {
        why.name += EVIL;
        why.against_name += EVIL;
        why.text += EVIL;
        for limit in &mut why.limits {
            limit.text += EVIL;
        }
    }
    for effect in &mut verdict.effects {
        effect.text += EVIL;
    }
    verdict.findings.push(evil_finding(Severity::Error));
    experiment.plan = EVIL.to_owned();
    experiment.environment = serde_json::json!({ EVIL: [EVIL] });
    for trial in &mut experiment.trials {
        trial.record = hostile_load();
    }
    experiment
}

fn evil_finding(severity: Severity) -> Finding {
    Finding {
        id: EVIL.to_owned().into(),
        severity,
        ..Finding::stored(FindingId::IoFallback, Severity::Note, EVIL)
    }
}

fn hostile_load() -> Record {
    let mut record = load();
    record.version = EVIL.to_owned();
    record.started_at = EVIL.to_owned();
    record.load.url = EVIL.to_owned();
    record.load.http = EVIL.to_owned();
    record.load.arrivals = Some(EVIL.to_owned());
    record.negotiated.http = Some(EVIL.to_owned());
    record.negotiated.tls = Some(EVIL.to_owned());
    record.negotiated.cipher = Some(EVIL.to_owned());
    record.findings = vec![evil_finding(Severity::Warning)];
    let entry = EntryResult {
        name: EVIL.to_owned(),
        started: 1,
        ..EntryResult::default()
    };
    record.entries = Some(EntryResults {
        count: 9,
        each: vec![entry.clone(); 9],
        other: Some(entry),
        ..EntryResults::default()
    });
    record
}

fn report(experiment: &Experiment) -> Document {
    Document::of_experiment(experiment)
}

fn load_report(record: &Record) -> Document {
    Document::of_load(record, &PERCENTILES)
}

fn printed(document: &Document) -> String {
    text::render(document, TextOptions::PLAIN)
}

#[track_caller]
fn assert_harmless_page(page: &str) {
    let lower = page.to_lowercase();
    assert!(!lower.contains("<script"), "markup is not escaped");
    assert!(!page.contains("onerror=") && !page.contains(">49<"));
    assert!(page.contains("&lt;script&gt;"), "the text itself is shown");
}

#[test]
fn pages_escape_hostile_texts() {
    assert_harmless_page(&html::render(&report(&hostile())));
    assert_harmless_page(&html::render(&load_report(&hostile_load())));
}

#[test]
fn documents_and_charts_take_hostile_texts() {
    let charts = [
        svg::render(&report(&hostile())),
        svg::render(&load_report(&hostile_load())),
    ]
    .concat();
    assert!(!charts.is_empty());
    for chart in charts {
        assert!(!chart.svg.contains("<script") && !chart.svg.contains('\u{1b}'));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        assert!(chart.name.chars().all(plain), "{}", chart.name);
    }
}

#[test]
fn markdown_escapes_hostile_texts() {
    let page = markdown::render(&report(&hostile()));
    assert!(!page.contains("<script") && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;script&gt;"));
    let row = |line: &&str| line.starts_with('|');
    let unescaped = |line: &str| line.replace("\\|", "").matches('|').count();
    let tables: Vec<&str> = page.lines().filter(row).collect();
    assert!(
        tables[..4]
            .windows(2)
            .all(|pair| unescaped(pair[0]) == unescaped(pair[1]))
    );
}

#[test]
fn terminals_get_no_control_characters() {
    assert!(!printed(&report(&hostile())).contains('\u{1b}'));
    assert!(!printed(&load_report(&hostile_load())).contains('\u{1b}'));
}

#[test]
fn missing_figures_are_no_nan() {
    let mut experiment = experiment();
    for variant in &mut experiment.verdict.variants {
        variant.relative_percent = None;
        variant.metrics.clear();
    }
    for comparison in &mut experiment.verdict.comparisons {
        comparison.effect.ratio = None;
        comparison.effect.low = None;
    }
    let page = html::render(&report(&experiment));
    assert!(!page.contains("NaN") && !page.contains("inf%"));
    assert!(!printed(&report(&experiment)).contains("NaN"));

    let mut record = load();
    record.totals = Default::default();
    record.rate = Default::default();
    record.series.clear();
    record.outcomes.clear();
    let document = load_report(&record);
    let printed = printed(&document) + &html::render(&document) + &timeline(&record);
    assert!(!printed.contains("NaN"));
    assert!(timeline(&record).starts_with("[]"));
    assert_eq!(csv::series(&record).lines().count(), 1);
}

#[test]
fn stored_numbers_that_no_run_has_are_refused() {
    let stored = std::fs::read_to_string(fixtures().join("demo/verdict.json")).unwrap();
    let sample: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let read = |field: &str, value: serde_json::Value| {
        let mut document = sample.clone();
        *document.pointer_mut(field).unwrap() = value;
        prony_record::parse_stored::<VerdictDocument>(&document.to_string())
    };
    assert!(read("/blocks", 3.into()).is_ok());
    let impossible: [(&str, serde_json::Value); 6] = [
        ("/looks/0/blocks", u32::MAX.into()),
        ("/looks/0/blocks", 0.into()),
        ("/looks/0/spent_share", 2.5.into()),
        ("/looks", vec![sample["looks"][0].clone(); 2].into()),
        ("/margin", (-1).into()),
        ("/comparisons/0/ratio", 1e308.into()),
    ];
    for (field, value) in impossible {
        assert!(read(field, value.clone()).is_err(), "{field} = {value}");
    }
    let mut record = serde_json::to_value(load()).unwrap();
    record["totals"]["failed"] = u64::MAX.into();
    assert!(Record::from_json(&record.to_string()).is_err());
}

#[test]
fn a_column_that_cannot_wrap_may_exceed_the_width() {
    let mut experiment = folder::read_experiment(&fixtures().join("errors")).unwrap();
    experiment.verdict.comparisons[0].effect.ratio = Some(1e300);
    let widest = printed(&report(&experiment)).lines().map(str::len).max();
    assert!(widest > Some(300), "{widest:?}");
}

#[test]
fn impossible_profiles_are_drawn_without_a_panic() {
    for rates in [
        [0.0, 0.0],
        [1e308, 1.7e308],
        [-1e308, 1e308],
        [f64::NAN, f64::INFINITY],
    ] {
        let mut record = load();
        record.load.stages = rates
            .map(|rate_per_s| RateStage {
                rate_per_s,
                length_s: rate_per_s,
            })
            .to_vec();
        record.load.stages.extend(vec![RateStage::default(); 50]);
        for (slice, rate) in record.series.iter_mut().zip(rates.into_iter().cycle()) {
            slice.offered_per_s = Some(rate);
        }
        let document = load_report(&record);
        let page = html::render(&document);
        assert!(!printed(&document).is_empty() && !page.is_empty());
        assert!(
            !page.contains("x1=\"NaN") && !page.contains("cx=\"NaN"),
            "{rates:?}"
        );
        record.load.rate_profile().unwrap().arrivals_until(1e300);
    }
}

#[test]
fn an_experiment_without_a_complete_block_says_so() {
    let mut experiment = experiment();
    experiment
        .trials
        .retain(|trial| trial.block == 1 && trial.variant == 0);
    experiment.verdict.blocks = 0;
    experiment.verdict.comparisons.clear();
    experiment.verdict.described.clear();
    experiment.verdict.effects.clear();
    for variant in &mut experiment.verdict.variants {
        variant.trials = 0;
        variant.relative_percent = None;
        variant.metrics.clear();
    }
    let nothing = "No complete block: nothing can be compared.";
    assert!(html::render(&report(&experiment)).contains(nothing));
    assert!(markdown::render(&report(&experiment)).contains(nothing));
    assert!(printed(&report(&experiment)).contains(nothing));
}

#[test]
fn an_interrupted_block_is_in_no_chart() {
    let mut experiment = experiment();
    experiment
        .trials
        .retain(|trial| trial.block < 5 || trial.variant != 2);
    assert_eq!(experiment.trials_of(0).len(), 4);
    assert!(html::render(&report(&experiment)).contains("native, tcp: 4 trials"));
}

#[test]
fn invalid_folders_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let refused = || folder::read_experiment(dir.path()).unwrap_err().to_string();
    assert!(refused().contains("no verdict.json"));
    std::fs::write(dir.path().join("verdict.json"), "{").unwrap();
    assert!(refused().contains("verdict.json: "));
    let other = std::fs::read_to_string(fixtures().join("demo/verdict.json")).unwrap();
    let later = other.replace("prony.verdict/1", "prony.verdict/9");
    std::fs::write(dir.path().join("verdict.json"), later).unwrap();
    assert!(refused().contains("prony.verdict/9"));
    std::fs::write(dir.path().join("verdict.json"), other).unwrap();
    assert!(
        folder::read_experiment(dir.path())
            .unwrap()
            .trials
            .is_empty()
    );

    let trial = dir.path().join("trials/1-whatever");
    std::fs::create_dir_all(&trial).unwrap();
    std::fs::copy(
        fixtures().join("load-closed.json"),
        trial.join("record.json"),
    )
    .unwrap();
    assert!(
        folder::read_experiment(dir.path())
            .unwrap()
            .trials
            .is_empty()
    );
    std::fs::write(
        trial.join("trial.json"),
        r#"{"block": 1, "variant": 1, "more": 0}"#,
    )
    .unwrap();
    let read = folder::read_experiment(dir.path()).unwrap();
    assert_eq!((read.trials[0].block, read.trials[0].variant), (1, 1));
    std::fs::write(trial.join("trial.json"), r#"{"block": 1, "variant": 7}"#).unwrap();
    assert!(refused().contains("trial.json: the verdict has no variant"));
}
