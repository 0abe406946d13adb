//! Comparisons of two runs, conditions and tables: every output is compared with a snapshot in
//! `tests/golden-runs`, and JSON is checked against the schemas.

use std::fs;
use std::path::{Path, PathBuf};

use prony_report::ci::{self, RunVerdicts};
use prony_report::stored::{self, Stored, StoredContent};
use prony_report::text::TextOptions;
use prony_report::{Document, csv, data, html, markdown, text};
use prony_stats::Metric;
use prony_stats::gate::{Evidence, Gate, GateOutcome, GateResult, GateScope, RunEvidence};
use prony_stats::runs::{self, RunsDocument};
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::{Value, json};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn fixture(name: &str) -> Stored {
    let mut stored = stored::read_results(&tests().join("fixtures").join(name)).unwrap();
    stored.source = format!("prony-runs/{name}");
    stored
}

/// The same experiment on another day, with a newer kernel, a newer nginx, more connections, and a
/// `tcp` variant that is 10% slower.
fn another_day() -> Stored {
    let mut stored = fixture("demo");
    stored.source = "prony-runs/demo-later".to_owned();
    let StoredContent::Experiment(experiment) = &mut stored.content else {
        panic!("an experiment");
    };
    experiment.environment["machine"]["kernel"] = json!("6.12.0");
    let services = &mut experiment.environment["services"];
    for variant in ["first", "second"] {
        services[variant]["web"][0]["version"] = json!(
            "nginx version: nginx/1.27.4\nconfigure arguments: --with-cc-opt='-g -O2' \
             --with-http_ssl_module --with-http_v2_module"
        );
    }
    experiment.plan = "name = \"demo\"\nmargin = \"3%\"\n".to_owned();
    let variants = experiment.verdict.variants.clone();
    for trial in &mut experiment.trials {
        trial.record.started_at = "2026-02-01T00:00:00Z".to_owned();
        trial.record.load.connections = 32;
        let slower = match variants[trial.variant].name.as_str() {
            "tcp" => 0.9,
            _ => 1.0,
        };
        for metric in [Metric::RatePerS, Metric::P99Us] {
            let value = trial.values.get_mut(&metric).unwrap();
            *value *= if metric == Metric::RatePerS {
                slower
            } else {
                1.0 / slower
            };
        }
    }
    stored
}

const LABELS: [&str; 2] = ["stored", "new"];

fn compared(old: &Stored, new: &Stored) -> RunsDocument {
    let about = stored::describe_pair((old, LABELS[0]), (new, LABELS[1]));
    let mut document = runs::compare(about, &old.run(), &new.run(), Some(0.05));
    prony_wording::runs::compose(&mut document);
    document
}

fn judged(old: &Stored, new: &Stored, gates: &[&str]) -> Vec<GateResult> {
    let (new_run, old_run) = (new.run(), old.run());
    let (new_records, old_records) = (new.records(), old.records());
    let known = GateScope {
        variants: new_run.variants.clone(),
        baseline: new_run.baseline.clone(),
        stored: Some(LABELS[0].to_owned()),
    };
    let evidence = Evidence {
        new: RunEvidence {
            run: &new_run,
            records: &new_records,
            label: LABELS[1],
            is_loads: new.is_loads(),
        },
        stored: Some(RunEvidence {
            run: &old_run,
            records: &old_records,
            label: LABELS[0],
            is_loads: old.is_loads(),
        }),
        comparisons: new.comparisons(),
        between: None,
        miss: 0.05,
    };
    let gates = gates.iter().map(|text| Gate::parse(text, &known).unwrap());
    gates
        .flat_map(|gate| prony_wording::gate_results(gate.judge(&evidence)))
        .collect()
}

const GATES: [&str; 4] = [
    "rate < 0.95 stored",
    "p99 of tcp > 1.4ms",
    "failed > 0.1%",
    "verdict of tcp is faster",
];

/// The comparison of the two runs with its gates.
fn document() -> RunsDocument {
    let (old, new) = (fixture("demo"), another_day());
    let mut document = compared(&old, &new);
    document.gates = judged(&old, &new, &GATES);
    document
}

#[track_caller]
fn check(name: &str, output: &str) {
    let path = tests().join("golden-runs").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, output).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let mut both = kept.lines().zip(output.lines());
    let differs = both.find(|(kept, now)| kept != now);
    assert!(
        kept == output,
        "{name} differs: {differs:?} (UPDATE_GOLDEN=1 updates the snapshot)"
    );
}

#[test]
fn two_runs_match_their_snapshots() {
    let document = document();
    let report = Document::of_runs(&document);
    check("runs.txt", &text::render(&report, TextOptions::PLAIN));
    check("runs.ansi", &text::render(&report, TextOptions::COLORED));
    check("runs.md", &markdown::render(&report));
    check("runs.html", &html::render(&report));
    check("runs.csv", &csv::runs(&document));
    check("runs.json", &format!("{:#}\n", json!(document)));
}

#[test]
fn only_differences_are_listed() {
    let differing: Vec<(String, String)> = compared(&fixture("demo"), &another_day())
        .differences
        .iter()
        .map(|one| (one.part.name().to_owned(), one.name.clone()))
        .collect();
    let expected = [
        ("machine", "kernel"),
        ("services", "web.version"),
        ("load", "connections"),
        ("plan", "margin"),
    ];
    let expected = expected.map(|(part, name)| (part.to_owned(), name.to_owned()));
    assert_eq!(differing, expected);
    let same = compared(&fixture("demo"), &fixture("demo"));
    assert_eq!(same.differences, []);
    assert!(
        text::render(&Document::of_runs(&same), TextOptions::PLAIN)
            .contains("No other stored fact differs")
    );
}

#[test]
fn an_established_regression_is_reported() {
    let document = document();
    let regressions = prony_report::regressions(&document);
    let named: Vec<_> = regressions
        .iter()
        .map(|(one, ruling)| (one.name.as_str(), one.metric, *ruling))
        .collect();
    assert_eq!(named, [("tcp", Metric::RatePerS, GateOutcome::Failed)]);
}

#[test]
fn single_records_have_no_verdict() {
    let (old, new) = (fixture("load-closed.json"), fixture("load-failing.json"));
    let document = compared(&old, &new);
    let verdict = document.comparisons[0].verdict;
    assert_eq!(verdict, Some(prony_stats::Verdict::Withheld));
    let report = Document::of_runs(&document);
    check("loads.txt", &text::render(&report, TextOptions::PLAIN));
    let gates = judged(
        &old,
        &new,
        &["p99 > stored + 5%", "failed > 0.1%", "p99 > 1us"],
    );
    let rulings: Vec<GateOutcome> = gates.iter().map(|gate| gate.ruling).collect();
    assert_eq!(rulings[0], GateOutcome::Unclear, "{}", gates[0].text);
    assert_eq!(rulings[1], GateOutcome::Failed, "{}", gates[1].text);
}

#[test]
fn a_pattern_and_a_folder_are_several_loads() {
    let dir = tempfile::tempdir().unwrap();
    let record = tests().join("fixtures/load-closed.json");
    for name in ["b.json", "a.json"] {
        fs::copy(&record, dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("notes.txt"), "not a record").unwrap();
    for source in [dir.path().to_owned(), dir.path().join("*.json")] {
        assert_eq!(stored::read_results(&source).unwrap().records().len(), 2);
    }
    for (wrong, reason) in [
        ("none-*.json", "no file matches"),
        ("a", "no such file"),
        (".", "verdict"),
    ] {
        let path = match wrong {
            "." => {
                let empty = dir.path().join("empty");
                fs::create_dir_all(&empty).unwrap();
                empty
            }
            name => dir.path().join(name),
        };
        let error = stored::read_results(&path).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    fs::write(dir.path().join("c.json"), "{}").unwrap();
    let error = stored::read_results(dir.path()).unwrap_err().to_string();
    assert!(error.contains("c.json"), "{error}");
}

fn schema() -> jsonschema::Validator {
    let path = tests().join("../../../schema/prony.runs-1.schema.json");
    let mut schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::meta::validate(&schema).expect("the schema is a valid JSON schema");
    close(&mut schema);
    jsonschema::validator_for(&schema).unwrap()
}

/// Makes a schema reject keys that it doesn't define.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(close);
            let is_object = map.get("properties").is_some_and(Value::is_object);
            if is_object && map.get("type") == Some(&json!("object")) {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn the_schema_accepts_the_document_and_rejects_wrong_ones() {
    let schema = schema();
    let loads = compared(&fixture("load-closed.json"), &fixture("load-failing.json"));
    let good = json!(document());
    for document in [&good, &json!(loads)] {
        let errors: Vec<String> = schema
            .iter_errors(document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
    for (pointer, value) in [
        ("/schema", json!("prony.runs/2")),
        ("/comparisons/0/verdict", json!("better")),
        ("/comparisons/0/metric", json!("speed")),
        ("/comparisons/0/regression", json!("maybe")),
        ("/gates/0/ruling", json!(true)),
        ("/differences/0/part", json!("weather")),
        ("/old/count", json!(-1)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!schema.is_valid(&bad), "{pointer}");
    }
}

/// The counts that JUnit readers use.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    cases: usize,
    failures: usize,
    skipped: usize,
}

/// The allowed parent of each element.
const PARENTS: [(&str, &str); 8] = [
    ("testsuites", ""),
    ("testsuite", "testsuites"),
    ("properties", "testsuite"),
    ("property", "properties"),
    ("testcase", "testsuite"),
    ("failure", "testcase"),
    ("skipped", "testcase"),
    ("system-out", "testcase"),
];

/// Checks a document against the usual schema: suites in one root, properties before cases, correct
/// counts, and required attributes.
fn read_junit(xml: &str) -> Counted {
    let mut reader = Reader::from_str(xml);
    let mut path: Vec<String> = Vec::new();
    let (mut all, mut suite) = (Counted::default(), Counted::default());
    let mut said = [0, 0, 0];
    loop {
        let event = reader.read_event().unwrap();
        let (start, is_empty) = match &event {
            Event::Start(start) => (Some(start), false),
            Event::Empty(start) => (Some(start), true),
            Event::End(_) => {
                let name = path.pop().unwrap();
                if name == "testsuite" {
                    assert_eq!([suite.cases, suite.failures, suite.skipped], said);
                    all.cases += suite.cases;
                    all.failures += suite.failures;
                    all.skipped += suite.skipped;
                    suite = Counted::default();
                }
                continue;
            }
            Event::Eof => break,
            _ => continue,
        };
        let start = start.unwrap();
        let name = start.name().as_ref().to_owned();
        let parent = path.last().map_or("", String::as_str);
        assert!(
            PARENTS.contains(&(name.as_str(), parent)),
            "{name} in {parent}"
        );
        let attribute = |wanted: &str| -> String {
            let found = start.try_get_attribute(wanted).unwrap();
            let found = found.unwrap_or_else(|| panic!("{name} has no attribute {wanted}"));
            found.value.into_owned()
        };
        let number = |wanted: &str| attribute(wanted).parse::<usize>().unwrap();
        match name.as_str() {
            "testsuite" => {
                attribute("name");
                assert!(!attribute("timestamp").ends_with('Z'));
                assert_eq!(number("errors"), 0);
                assert!(attribute("time").parse::<f64>().unwrap() >= 0.0);
                said = [number("tests"), number("failures"), number("skipped")];
            }
            "testcase" => {
                suite.cases += 1;
                attribute("name");
                assert_eq!(attribute("classname").split('.').count(), 3);
                assert!(attribute("time").parse::<f64>().unwrap() >= 0.0);
            }
            "failure" => {
                suite.failures += 1;
                attribute("message");
                attribute("type");
            }
            "skipped" => {
                suite.skipped += 1;
                attribute("message");
            }
            "property" => {
                assert_eq!(suite.cases, 0, "properties precede the test cases");
                attribute("name");
                attribute("value");
            }
            _ => {}
        }
        if !is_empty {
            path.push(name);
        }
    }
    assert!(path.is_empty());
    all
}

#[test]
fn junit_has_a_case_for_each_comparison_and_condition() {
    let (old, new) = (fixture("demo"), another_day());
    let document = document();
    let judged = |strict, is_gated| RunVerdicts {
        new: &new,
        runs: Some(&document),
        gates: &document.gates,
        is_gated,
        strict,
    };
    let xml = ci::junit(&judged(false, true));
    check("junit.xml", &xml);
    // There are the experiment's own cases, two for the stored run, and one for each gate and
    // variant.
    let counted = read_junit(&xml);
    let expected = Counted {
        cases: 1 + 2 + 6,
        failures: 1 + 1,
        skipped: 1,
    };
    assert_eq!(counted, expected, "{xml}");
    assert!(judged(false, true).has_failed());
    let ungated = read_junit(&ci::junit(&judged(false, false)));
    assert_eq!(
        ungated.failures,
        counted.failures - 1,
        "a regression fails only with --against"
    );
    // An inconclusive condition is skipped, but fails with `strict`.
    let gates = unclear_gate(&old, &new);
    let unclear = |strict| RunVerdicts {
        new: &new,
        runs: None,
        gates: &gates,
        is_gated: false,
        strict,
    };
    assert_eq!(read_junit(&ci::junit(&unclear(false))).skipped, 1);
    assert_eq!(read_junit(&ci::junit(&unclear(true))).failures, 1);
    assert!(!unclear(false).has_failed() && unclear(true).has_failed());
}

#[test]
fn the_badge_has_the_failures_or_a_result() {
    let (old, new) = (fixture("demo"), another_day());
    let document = document();
    let judged = |gates| RunVerdicts {
        new: &new,
        runs: None,
        gates,
        is_gated: false,
        strict: false,
    };
    let text = |image: &str| {
        let image = roxmltree::Document::parse(image).unwrap();
        let label = image.root_element().attribute("aria-label").unwrap();
        label.to_owned()
    };
    let failing = text(&ci::badge(&judged(&document.gates)));
    assert_eq!(failing, "prony: 1 of 7 failed");
    let passing = text(&ci::badge(&judged(&[])));
    assert_eq!(passing, "prony: slower · request rate of tcp against unix");
    let undecided = text(&ci::badge(&judged(&unclear_gate(&old, &new)[..])));
    assert!(!undecided.contains("failed"), "{undecided}");
}

/// A condition that is inconclusive.
fn unclear_gate(old: &Stored, new: &Stored) -> Vec<GateResult> {
    let gates = judged(old, new, &["retransmits_per_request of tcp > 1"]);
    assert_eq!(gates[0].ruling, GateOutcome::Unclear);
    gates
}

#[test]
fn githubs_summary_and_annotations_match_their_snapshots() {
    let new = another_day();
    let document = document();
    let judged = RunVerdicts {
        new: &new,
        runs: Some(&document),
        gates: &document.gates,
        is_gated: true,
        strict: false,
    };
    check("github.md", &ci::summary(&judged));
    let lines = ci::annotations(&judged);
    check("annotations.txt", &lines);
    for line in lines.lines() {
        let (properties, _) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
        assert!(properties.starts_with("error title=") || properties.starts_with("notice title="));
        assert!(
            !properties["error title=".len()..].contains([':', ',']),
            "{line}"
        );
    }
}

#[test]
fn tables_have_a_cell_for_every_column_and_numbers_that_programs_read() {
    let StoredContent::Experiment(experiment) = another_day().content else {
        panic!("an experiment");
    };
    let mut tables = data::experiment(&experiment, &document().gates);
    tables.extend(data::runs(&document()));
    let StoredContent::Loads(records) = fixture("load-failing.json").content else {
        panic!("a load");
    };
    tables.extend(data::load(&records[0]));
    let mut listed = String::new();
    for table in &tables {
        listed += &format!("{}: {}\n", table.name, table.columns.join(", "));
        let text = table.to_csv();
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap().len(), table.columns.len());
        // The reader rejects rows with a different number of cells.
        assert_eq!(
            reader.records().map(Result::unwrap).count(),
            table.rows.len()
        );
        let rows: Vec<Value> = serde_json::from_str(&table.to_json()).unwrap();
        assert_eq!(rows.len(), table.rows.len());
        for (column, value) in rows.iter().flat_map(|row| row.as_object().unwrap()) {
            let has_unit = ["_us", "_s", "_share", "_percent", "requests"]
                .iter()
                .any(|unit| column.ends_with(unit));
            assert!(
                !has_unit || value.is_number() || value.is_null(),
                "{column}: {value}"
            );
        }
    }
    check("columns.txt", &listed);
    let trials = tables.iter().find(|table| table.name == "trials").unwrap();
    assert_eq!(trials.rows.len(), experiment.trials.len());
    check("trials.csv", &trials.to_csv());
}

#[test]
fn every_column_is_documented() {
    let docs = fs::read_to_string(tests().join("../../../docs/tables.md")).unwrap();
    let columns = fs::read_to_string(tests().join("golden-runs/columns.txt")).unwrap();
    for line in columns.lines() {
        let (table, columns) = line.split_once(": ").unwrap();
        assert!(docs.contains(&format!("`{table}`")), "table {table}");
        for column in columns.split(", ") {
            let name = match column {
                factor if factor.starts_with("factor_") => "factor_NAME",
                metric if metric.starts_with("metric_") => "metric_NAME",
                name => name,
            };
            assert!(
                docs.contains(&format!("`{name}`")),
                "{table}: column {name}"
            );
        }
    }
}

const EVIL: &str = "<script>alert(1)</script>\"'&]]>{{ 7*7 }}\u{1b}[31m|`*\u{ffff}";

#[test]
fn hostile_names_stay_text_in_every_format() {
    let mut new = another_day();
    let StoredContent::Experiment(experiment) = &mut new.content else {
        panic!("an experiment");
    };
    experiment.verdict.name = EVIL.to_owned();
    experiment.environment["machine"]["kernel"] = json!(EVIL);
    for variant in &mut experiment.verdict.variants {
        variant.name += EVIL;
    }
    for comparison in &mut experiment.verdict.comparisons {
        comparison.text += EVIL;
    }
    let document = compared(&fixture("demo"), &new);
    assert_eq!(document.comparisons.len(), 2, "levels identify variants");
    let judged = RunVerdicts {
        new: &new,
        runs: Some(&document),
        gates: &[],
        is_gated: true,
        strict: true,
    };
    let report = Document::of_runs(&document);
    let page = html::render(&report);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    for text in [
        text::render(&report, TextOptions::PLAIN),
        markdown::render(&report),
        ci::summary(&judged),
        ci::annotations(&judged),
    ] {
        assert!(!text.contains('\u{1b}'));
    }
    for markdown in [markdown::render(&report), ci::summary(&judged)] {
        assert!(!markdown.contains("<script"));
    }
    assert_eq!(
        ci::annotations(&judged)
            .lines()
            .filter(|line| !line.starts_with("::"))
            .count(),
        0
    );
    let xml = ci::junit(&judged);
    assert!(!xml.contains(['\u{1b}', '\u{ffff}']));
    assert_eq!(read_junit(&xml).cases, 3);
}
