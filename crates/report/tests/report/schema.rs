//! The schemas in `schema/` accept the files that prony writes, and define all of their keys.

use std::fs;
use std::path::{Path, PathBuf};

use prony_record::{
    EntryGrouping, EntryInfo, EntryList, Exchange, LoadInfo, MeasuredPart, Nanos, OtherEntries,
    Outcome, Record, Recorder, TlsHandshake,
};
use serde_json::{Value, json};

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a schema that also rejects keys that it does not define. The published schema accepts
/// unknown keys, as readers must.
fn strict(name: &str) -> jsonschema::Validator {
    let path = manifest().join("../../schema").join(name);
    let mut schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::meta::validate(&schema).expect("the schema is a valid JSON schema");
    close(&mut schema);
    jsonschema::validator_for(&schema).unwrap()
}

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

#[track_caller]
fn passes(schema: &jsonschema::Validator, name: &str, document: &Value) {
    let errors: Vec<String> = schema
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}:\n{}", errors.join("\n"));
}

/// Every file of this name below a folder.
fn files(dir: &Path, wanted: &dyn Fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, wanted, found);
        } else if wanted(&path.file_name().unwrap().to_string_lossy()) {
            found.push(path);
        }
    }
}

#[track_caller]
fn fixtures_pass(schema: &str, at_least: usize, wanted: &dyn Fn(&str) -> bool) {
    let schema = strict(schema);
    let mut found = Vec::new();
    files(&manifest().join("tests/fixtures"), wanted, &mut found);
    assert!(found.len() >= at_least, "{} fixtures", found.len());
    for path in found {
        let document = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        passes(&schema, &path.display().to_string(), &document);
    }
}

#[test]
fn stored_records_pass() {
    fixtures_pass("prony.record-1.schema.json", 50, &|name| {
        name == "record.json" || name.starts_with("load-")
    });
}

#[test]
fn stored_verdicts_pass() {
    fixtures_pass("prony.verdict-1.schema.json", 4, &|name| {
        name == "verdict.json"
    });
}

#[test]
fn stored_environments_pass() {
    fixtures_pass("prony.environment-1.schema.json", 4, &|name| {
        name == "environment.json"
    });
}

/// Returns a list with two entries of its own and several others that are combined.
fn entries() -> EntryList {
    let entry = |name: &str| EntryInfo {
        name: name.to_owned(),
        lines: 1,
    };
    EntryList {
        grouping: EntryGrouping::Path,
        each: vec![entry("GET /"), entry("GET /{id}")],
        other: Some(OtherEntries {
            entries: 7,
            lines: 9,
        }),
    }
}

/// A record built as by a load, with a value in every field.
fn real_record() -> Record {
    let mut recorder = Recorder::new(MeasuredPart::DueFrom(Nanos::ZERO));
    let entries = entries();
    recorder.count_entries(entries.results());
    for (place, &outcome) in Outcome::ALL.iter().enumerate() {
        let due = Nanos::from_millis(40 * place as u64);
        if outcome != Outcome::Unstarted {
            recorder.started_entry(place as u32);
        }
        recorder.started_by_schedule(due, due, due + Nanos(1_000));
        recorder.ended(
            &Exchange {
                intended: due,
                sent: due,
                first_byte: None,
                ended: due + Nanos::from_millis(3),
                status: (outcome == Outcome::Ok).then_some(200),
                bytes_in: 120,
                body_bytes_in: 13,
                bytes_out: 60,
                is_settling: false,
                entry: place as u32,
            },
            outcome,
        );
    }
    let handshake = TlsHandshake {
        took: Nanos(1_200_000),
        resumed: true,
        group: Some(prony_record::TlsGroup::of("X25519")),
        hello_retried: true,
    };
    recorder.connection_opened(Nanos(1), Nanos(90_000), Some(handshake));
    let end = Nanos::from_millis(1_200);
    recorder.finish(end);
    let load = LoadInfo {
        url: "http://127.0.0.1:1/".to_owned(),
        model: "open".to_owned(),
        connections: 1,
        streams: 1,
        threads: 1,
        rate_per_s: Some(25.0),
        arrivals: Some("constant".to_owned()),
        http: "1.1".to_owned(),
        io: "poll".to_owned(),
        entries: Some(Box::new(entries)),
        ..LoadInfo::default()
    };
    let mut record = Record::build(load, recorder.total(), (Nanos::ZERO, end), Some(19));
    record.started_at = "2026-01-01T00:00:00Z".to_owned();
    record
}

#[test]
fn a_new_record_passes() {
    let record = real_record();
    assert_eq!(record.outcomes.len(), Outcome::ALL.len());
    let document = serde_json::from_str(&record.to_json()).unwrap();
    passes(&strict("prony.record-1.schema.json"), "a record", &document);
}

#[test]
fn the_schemas_reject_invalid_documents() {
    let schema = strict("prony.record-1.schema.json");
    let good: Value = serde_json::from_str(&real_record().to_json()).unwrap();
    let wrong: [(&str, Value); 7] = [
        ("/entries/each/0/started", json!(-1)),
        ("/schema", json!("prony.record/2")),
        ("/load/model", json!("half-open")),
        ("/totals/ok", json!(-1)),
        ("/outcomes", json!({"explosion": 1})),
        ("/generator/busy_share", json!(1.2)),
        ("/response_time_us/p99", json!("12 ms")),
    ];
    for (pointer, value) in wrong {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!schema.is_valid(&bad), "{pointer}");
    }
    let mut unnamed = good.clone();
    unnamed["totals"]["surprise"] = json!(1);
    assert!(!schema.is_valid(&unnamed));
}
