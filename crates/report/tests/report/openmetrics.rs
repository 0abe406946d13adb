//! Loads as OpenMetrics text, parsed by the rules of the format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prony_record::{Distribution, FleetUse, Nanos, Outcome, Record};
use prony_report::metrics::{self, openmetrics};
use prony_report::stored::{self, StoredContent};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// One load with times from 100 µs to 100 ms, a timeout, and a URL that needs escaping.
pub(crate) fn record() -> Record {
    let mut times = Distribution::new();
    for step in 1..=1_000u64 {
        times.record(Nanos(step * 100_000));
    }
    times.record(Nanos::from_millis(90_000));
    let mut record = Record {
        version: "0.1.0".to_owned(),
        ..Record::default()
    };
    record.load.url = "http://127.0.0.1/a\"b\\c\nd".to_owned();
    record.load.model = "closed".to_owned();
    record.load.http = "1.1".to_owned();
    record.totals.started = 1_001;
    record.totals.ok = 1_000;
    record.totals.failed = 1;
    record.totals.bytes_in = 120_000;
    record.totals.tls_handshakes = 3;
    record.totals.tls_resumed = 1;
    record.totals.elapsed_s = 10.5;
    record.outcomes = [(Outcome::Ok, 1_000), (Outcome::Reset, 1)].into();
    record.status = [(200, 990), (204, 10)].into();
    record.generator.cpu_user_s = 0.25;
    record.histograms = [("response_time".to_owned(), times.encode().unwrap())].into();
    record
}

/// The suffixes of sample names in each family.
const SUFFIXES: [(&str, &[&str]); 4] = [
    ("counter", &["_total"]),
    ("gauge", &[""]),
    ("info", &["_info"]),
    ("histogram", &["_bucket", "_count", "_sum"]),
];

/// Parses text by the rules of the format. Returns each sample with its labels and value.
fn read(text: &str) -> BTreeMap<String, f64> {
    let body = text
        .strip_suffix("# EOF\n")
        .expect("the text ends with # EOF");
    assert!(!body.contains("# EOF") && !body.contains("\n\n"));
    let mut families: Vec<String> = Vec::new();
    let (mut kind, mut unit) = (String::new(), String::new());
    let mut samples = BTreeMap::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ').unwrap();
            let (name, text) = rest.split_once(' ').unwrap();
            match word {
                "TYPE" => {
                    assert!(!families.iter().any(|known| known == name), "{name} twice");
                    families.push(name.to_owned());
                    kind = text.to_owned();
                    unit = String::new();
                }
                "UNIT" => {
                    unit = text.to_owned();
                    assert!(name.ends_with(&format!("_{unit}")), "{name} in {unit}");
                }
                "HELP" => assert!(!text.is_empty()),
                other => panic!("{other}"),
            }
            assert_eq!(Some(name), families.last().map(String::as_str));
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let family = families.last().unwrap();
        let (_, suffixes) = SUFFIXES.iter().find(|(of, _)| *of == kind).unwrap();
        let suffix = name.strip_prefix(family.as_str()).unwrap_or("?");
        assert!(suffixes.contains(&suffix), "{line}: a {kind}");
        let value: f64 = value.parse().unwrap();
        assert!(kind != "counter" || value >= 0.0);
        assert!(
            samples.insert(series.to_owned(), value).is_none(),
            "{series} twice"
        );
    }
    let _ = unit;
    samples
}

#[test]
fn one_load_has_its_counts_and_its_histogram() {
    let text = openmetrics::text(&metrics::of_load(&record()));
    let samples = read(&text);
    let of = |name: &str| samples.get(name).copied();
    assert_eq!(of("prony_requests_total{outcome=\"ok\"}"), Some(1_000.0));
    assert_eq!(of("prony_requests_total{outcome=\"reset\"}"), Some(1.0));
    assert_eq!(of("prony_requests_total{outcome=\"timeout\"}"), Some(0.0));
    assert_eq!(of("prony_responses_total{status=\"204\"}"), Some(10.0));
    assert_eq!(of("prony_received_bytes_total"), Some(120_000.0));
    assert_eq!(
        of("prony_tls_handshakes_total{resumed=\"true\"}"),
        Some(1.0)
    );
    assert_eq!(
        of("prony_tls_handshakes_total{resumed=\"false\"}"),
        Some(2.0)
    );
    assert_eq!(of("prony_measured_seconds"), Some(10.5));
    assert_eq!(
        of("prony_generator_cpu_seconds_total{mode=\"user\"}"),
        Some(0.25)
    );
    assert!(
        text.contains("url=\"http://127.0.0.1/a\\\"b\\\\c\\nd\""),
        "{text}"
    );
}

#[test]
fn buckets_are_cumulative() {
    let samples = read(&openmetrics::text(&metrics::of_load(&record())));
    let of = |le: &str| samples[&format!("prony_response_time_seconds_bucket{{le=\"{le}\"}}")];
    assert_eq!(of("0.00005"), 0.0);
    // The distribution has an error of up to 0.1%.
    assert!((of("0.0025") - 25.0).abs() <= 1.0, "{}", of("0.0025"));
    assert!((of("0.05") - 500.0).abs() <= 1.0, "{}", of("0.05"));
    assert_eq!(of("60"), 1_000.0);
    assert_eq!(of("+Inf"), 1_001.0);
    assert_eq!(samples["prony_response_time_seconds_count"], 1_001.0);
    let sum = samples["prony_response_time_seconds_sum"];
    assert!((sum - (50.05 + 90.0)).abs() < 0.2, "{sum}");
    let mut buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|(name, value)| {
            let le = name.strip_prefix("prony_response_time_seconds_bucket{le=\"")?;
            Some((
                le.trim_end_matches("\"}")
                    .replace("+Inf", "inf")
                    .parse()
                    .ok()?,
                *value,
            ))
        })
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(buckets.len(), 22);
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1));
}

#[test]
fn trials_of_a_variant_add_up_under_its_labels() {
    let stored = stored::read_results(&fixtures().join("gunicorn-sockets")).unwrap();
    let StoredContent::Experiment(experiment) = stored.content else {
        panic!("an experiment");
    };
    let samples = read(&openmetrics::text(&metrics::of_experiment(&experiment)));
    let name = &experiment.verdict.variants[0].name;
    let own = experiment.trials.iter().filter(|trial| trial.variant == 0);
    let ok: u64 = own.map(|trial| trial.record.totals.ok).sum();
    let series = format!(
        "prony_requests_total{{variant=\"{name}\",factor_place=\"native\",factor_socket=\"tcp\",\
         outcome=\"ok\"}}"
    );
    assert_eq!(samples.get(&series), Some(&(ok as f64)), "{series}");
    let totals = samples
        .keys()
        .filter(|name| name.starts_with("prony_requests_started_total"));
    assert_eq!(totals.count(), experiment.verdict.variants.len());
}

#[test]
fn unknown_values_of_agents_are_omitted() {
    let mut record = record();
    record.fleet = Some(FleetUse::default());
    let cpu = |record: &Record| {
        let samples = read(&openmetrics::text(&metrics::of_load(record)));
        let generators = samples.into_iter();
        generators
            .filter(|(name, _)| name.starts_with("prony_generator"))
            .count()
    };
    assert_eq!(cpu(&record), 3);
    record.generator.cpu_user_s = 0.0;
    assert_eq!(cpu(&record), 0, "unknown values are not reported as zero");
    record.fleet = None;
    assert_eq!(cpu(&record), 3);
}
