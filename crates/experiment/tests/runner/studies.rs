//! Runs shortened versions of the built-in studies.

use super::*;

/// Returns the plan of a study with some changes that shorten it.
fn short_study(name: &str, changes: &[(&str, &str)]) -> Plan {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let study = studies.join(name).join("plan.toml");
    let mut text = std::fs::read_to_string(&study).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{name} no longer contains {old}");
        text = text.replace(old, new);
    }
    let plan =
        Plan::from_str(&text, &study, MachineProfile::this()).unwrap_or_else(|e| panic!("{e}"));
    plan.check_machine()
        .unwrap_or_else(|errors| panic!("{errors}\n(cargo xtask test installs it)"));
    plan
}

/// Runs a study with one block. It must complete without a finding of severity `error`, except for
/// a stall of this machine.
fn run_whole(lab: &mut Lab, plan: &Plan) -> VerdictDocument {
    let finished = lab.run(plan, false, &mut quiet);
    assert!(finished.failed.is_none(), "{}", finished.failed.unwrap());
    let document = finished.document;
    assert_eq!(document.blocks, 1);
    let errors: Vec<_> = document
        .findings
        .iter()
        .filter(|finding| finding.severity == prony_record::Severity::Error)
        .filter(|finding| finding.id.as_str() != "generator-stalled")
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    document
}

fn record_of(trial: &Path) -> prony_record::Record {
    let json = std::fs::read_to_string(trial.join("record.json")).unwrap();
    prony_record::Record::from_json(&json).unwrap()
}

/// The study has four variants of two services. Two of the variants use namespaces.
#[test]
fn the_study_of_gunicorn_behind_nginx_completes() {
    let plan = short_study(
        "gunicorn-sockets",
        &[
            ("\"30s\"", "\"700ms\""),
            ("\"3s\"", "\"300ms\""),
            ("{ min = 5, max = 15 }", "1"),
        ],
    );
    let mut lab = Lab::new();
    let document = run_whole(&mut lab, &plan);
    assert_eq!(document.variants.len(), 4);
    for id in [
        "native-tcp",
        "native-unix",
        "namespace-tcp",
        "namespace-unix",
    ] {
        let trial = lab.out().join("trials").join(format!("1-{id}"));
        let record = record_of(&trial);
        assert!(record.totals.ok > 0, "{id}: {:?}", record.totals);
        assert_eq!(record.totals.failed, 0, "{id}: {:?}", record.findings);
        assert_eq!(record.load.urls, 16, "{id}");
        assert!(
            trial.join("app.log").is_file() && trial.join("web.log").is_file(),
            "{id}"
        );
    }
}

/// The study compares three versions of HTTP on Caddy, the last one over UDP. All return the same
/// bytes.
#[test]
fn the_study_of_http3_completes() {
    let plan = short_study(
        "http3",
        &[
            ("duration = \"8s\"", "duration = \"700ms\""),
            ("warmup   = \"2s\"", "warmup = \"300ms\""),
            ("{ min = 5, max = 10 }", "1"),
            // On a busy machine, 96 handshakes take longer than the trial.
            ("connections = 96", "connections = 6"),
            (
                "connections = 16, streams = 6, listener = \"https\"",
                "connections = 1, streams = 6, listener = \"https\"",
            ),
            (
                "connections = 16, streams = 6, listener = \"quic\"",
                "connections = 1, streams = 6, listener = \"quic\"",
            ),
        ],
    );
    let mut lab = Lab::new();
    let document = run_whole(&mut lab, &plan);
    assert_eq!(
        (document.variants.len(), document.comparisons.len()),
        (6, 4)
    );
    for variant in &plan.variants {
        let (id, levels) = (&variant.id, &variant.levels);
        let record = record_of(&lab.out().join("trials").join(format!("1-{id}")));
        assert!(record.totals.ok > 5, "{id}: {:?}", record.totals);
        assert_eq!(record.totals.failed, 0, "{id}: {:?}", record.outcomes);
        let version = levels
            .get("http")
            .and_then(|name| name.strip_prefix("HTTP/"));
        assert_eq!(record.negotiated.http.as_deref(), version, "{id}");
        assert_eq!(record.quic.is_some(), version == Some("3"), "{id}");
    }
}

/// The study has twelve variants of nginx with php-fpm. All HTTP versions return the same bytes, so
/// no finding reports a difference. The build options of nginx are stored, but private keys are
/// not.
#[test]
fn the_study_of_nginx_with_http2_completes() {
    let plan = short_study(
        "nginx-http2",
        &[
            ("duration = \"8s\"", "duration = \"700ms\""),
            ("warmup   = \"2s\"", "warmup = \"300ms\""),
            ("{ min = 5, max = 10 }", "1"),
            // On a busy machine, 384 handshakes take longer than the trial.
            ("connections = 384", "connections = 24"),
            ("connections = 64", "connections = 4"),
        ],
    );
    let mut lab = Lab::new();
    let document = run_whole(&mut lab, &plan);
    assert_eq!(
        (document.variants.len(), document.comparisons.len()),
        (12, 9)
    );
    let differences = ["bytes-differ", "negotiation-differs"];
    let found = document.findings.iter();
    let found: Vec<_> = found
        .filter(|f| differences.contains(&f.id.as_str()))
        .collect();
    assert!(found.is_empty(), "{found:?}");
    for variant in &plan.variants {
        let (id, levels) = (&variant.id, &variant.levels);
        let trial = lab.out().join("trials").join(format!("1-{id}"));
        let record = record_of(&trial);
        assert!(record.totals.ok > 0, "{id}: {:?}", record.totals);
        assert_eq!(record.totals.failed, 0, "{id}: {:?}", record.outcomes);
        let version = levels
            .get("http")
            .and_then(|name| name.strip_prefix("HTTP/"));
        assert_eq!(record.negotiated.http.as_deref(), version, "{id}");
        let checked = std::fs::read_to_string(trial.join("trial.json")).unwrap();
        let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
        let length = &checked["answers"]["digests"]["0"]["body"]["length"];
        match levels.get("page") {
            Some("1K") => assert_eq!(length, 1 << 10, "{id}"),
            Some("100K") => assert_eq!(length, 100 << 10, "{id}"),
            _ => assert!(length.as_u64() > Some(4_000), "{id}: {length} bytes"),
        }
        assert!(trial.join("web/server.crt").is_file(), "{id}");
        assert!(
            !trial.join("web/server.key").exists(),
            "{id} stores a private key"
        );
    }
    let stored = std::fs::read_to_string(lab.out().join("environment.json")).unwrap();
    let environment = serde_json::from_str(&stored).unwrap();
    let schema = include_str!("../../../../schema/prony.environment-1.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    if let Err(wrong) = jsonschema::validate(&schema, &environment) {
        panic!("{}: {wrong}", wrong.instance_path());
    }
    for said in ["--with-http_v2_module", "built with OpenSSL", "fpm-fcgi"] {
        assert!(stored.contains(said), "{said} is not in the environment");
    }
}
