//! The ready-made studies: checks their dry runs, and runs each with tiny trials.
//!
//! They need the servers that they start, and root for named places; `cargo xtask test` installs
//! and provides both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prony_record::Record;

use crate::running::Workdir;

/// Copies a study and its plan, with shorter trials, to the test's folder.
fn short(workdir: &Workdir, name: &str, plan: &str, changes: &[(&str, &str)]) -> PathBuf {
    let study = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let folder = workdir.path(name);
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir(study.join(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let path = folder.join(plan);
    let mut text = std::fs::read_to_string(&path).unwrap();
    for (length, short) in changes {
        assert!(text.contains(length), "{name} no longer has {length}");
        text = text.replace(length, short);
    }
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs one block of a plan. Returns the verdict, and each trial's record with the ID of its
/// variant.
fn run(workdir: &Workdir, plan: &Path) -> (serde_json::Value, Vec<(String, Record)>) {
    let plan = plan.to_str().unwrap();
    let output = workdir.run(&["compare", plan, "--blocks", "1", "--out", "out"]);
    // On a busy machine the verdict may be withheld.
    assert!(
        matches!(output.status, 0 | 1),
        "{}{}",
        output.out,
        output.err
    );
    let out = workdir.path("out");
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let verdict: serde_json::Value =
        serde_json::from_str(&text(&out.join("verdict.json"))).unwrap();
    crate::running::check_schema("prony.verdict-1.schema.json", &verdict);
    let variants = verdict["order"][0].as_array().unwrap().iter();
    let records: Vec<(String, Record)> = variants
        .map(|id| {
            let id = id.as_str().unwrap().to_owned();
            let trial = out.join("trials").join(format!("1-{id}"));
            let record = Record::from_json(&text(&trial.join("record.json"))).unwrap();
            assert!(
                record.totals.ok > 0,
                "{id}: {:?}\n{}",
                record.totals,
                output.err
            );
            assert_eq!(record.totals.failed, 0, "{id}: {:?}", record.outcomes);
            (id, record)
        })
        .collect();
    // Findings that only tell that other tests kept the machine busy.
    let busy = ["generator-saturated", "generator-stalled", "noisy-machine"];
    let is_busy = |finding: &&serde_json::Value| busy.iter().any(|id| finding["id"] == *id);
    let errors = verdict["findings"].as_array().unwrap().iter();
    let errors = errors.filter(|it| it["severity"] == "error" && !is_busy(it));
    let errors: Vec<_> = errors.collect();
    assert!(errors.is_empty(), "{errors:?}");
    (verdict, records)
}

fn processor_has_aes() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = text.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| line.split_whitespace().any(|flag| flag == "aes"))
}

#[test]
fn a_masked_libcrypto_is_found_and_drawn_next_to_the_systems() {
    let workdir = Workdir::new();
    let changes = [
        ("requests     = 3000", "requests = 60"),
        ("connections  = 300", "connections = 20"),
    ];
    let plan = short(&workdir, "openssl-build", "plan.toml", &changes);
    let (verdict, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 2);
    for (id, record) in &records {
        assert_eq!(record.totals.ok, 60, "{id}");
        assert_eq!(record.totals.body_bytes_in, 60 * 2_860_007, "{id}");
        assert_eq!(record.totals.connections_opened, 60, "{id}");
        let agreed = record.negotiated.cipher.as_deref();
        assert!(
            agreed.is_some_and(|cipher| cipher.contains("AES_256_GCM")),
            "{id}: {agreed:?}"
        );
    }
    assert!(verdict["variants"][1]["metrics"]["total_time_us"]["median"].is_number());
    let findings = verdict["findings"].as_array().unwrap().iter();
    let found: Vec<&str> = findings
        .filter(|finding| finding["id"] == "crypto-unaccelerated")
        .filter_map(|finding| finding["text"].as_str())
        .collect();
    if processor_has_aes() {
        let [one] = found[..] else {
            panic!("{found:?}")
        };
        assert!(one.starts_with("masked, block 1: Service \"web\""), "{one}");
    } else {
        assert_eq!(found, [""; 0], "there is nothing to mask");
    }
    let page = std::fs::read_to_string(workdir.path("out/report.html")).unwrap();
    assert!(page.contains("Until all requests were done"));
}

#[test]
fn apache_sees_thousands_of_addresses_and_settings_stay_in_its_network() {
    let somaxconn = || std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let before = somaxconn();
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"4s\"", "warmup = \"500ms\""),
        ("duration = \"10s\"", "duration = \"1s\""),
    ];
    let plan = short(&workdir, "apache-clients", "plan.toml", &changes);
    let (_, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 4);
    for (id, record) in &records {
        let opened = record.totals.connections_opened as f64 / record.totals.ok as f64;
        if id.ends_with("-off") {
            assert!(opened > 0.9, "{id}: {opened}")
        } else {
            assert!(opened < 0.2, "{id}: {opened}")
        }
        // The server's log contains the same source addresses as the record.
        let sources = record.sources.as_ref().unwrap();
        assert_eq!(sources.given, 12_000, "{id}");
        let log = workdir.path(&format!("out/trials/1-{id}/web.log"));
        let log = std::fs::read_to_string(log).unwrap();
        let seen: BTreeSet<&str> = log
            .lines()
            .filter(|line| line.starts_with("10.12."))
            .collect();
        assert!(
            seen.len() as u64 >= sources.used,
            "{id}: {} of {}",
            seen.len(),
            sources.used
        );
        assert!(seen.len() > 100, "{id}");
    }
    assert_eq!(somaxconn(), before);
    let environment = workdir.path("out/environment.json");
    let environment = std::fs::read_to_string(environment).unwrap();
    assert!(environment.contains("tcp_synack_retries") && environment.contains("fs.file-max"));
}

#[test]
fn without_root_apache_s_clients_come_from_the_loopback() {
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"4s\"", "warmup = \"300ms\""),
        ("duration = \"10s\"", "duration = \"700ms\""),
    ];
    let plan = short(&workdir, "apache-clients", "without-root.toml", &changes);
    let (_, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 2);
    for (id, record) in &records {
        let sources = record.sources.as_ref().unwrap();
        assert!(
            sources.used > 100 && sources.given == 12_000,
            "{id}: {sources:?}"
        );
    }
}

#[test]
fn apache_s_users_pause_and_keep_their_addresses() {
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"5s\"", "warmup = \"500ms\""),
        ("duration = \"20s\"", "duration = \"2s\""),
    ];
    let plan = short(&workdir, "apache-clients", "users.toml", &changes);
    let (_, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 2);
    for (id, record) in &records {
        let sources = record.sources.as_ref().unwrap();
        assert_eq!(sources.given, 12_000, "{id}");
        // Each user has its own source address, and some users pause during the whole load.
        assert!((500..=1_000).contains(&sources.used), "{id}: {sources:?}");
        // The think times of the users determine the rate, not the server.
        assert!(record.totals.started < 4_000, "{id}: {:?}", record.totals);
    }
}

#[test]
fn the_pq_handshake_study_counts_each_key_exchange() {
    let workdir = Workdir::new();
    let changes = [("\"1s\"", "\"0s\""), ("\"6s\"", "\"1s\"")];
    let plan = short(&workdir, "pq-handshake", "plan.toml", &changes);
    let (verdict, records) = run(&workdir, &plan);
    let groups = ["X25519", "secp256r1", "secp384r1", "X25519MLKEM768"];
    let counted: Vec<_> = records.iter().map(|(_, record)| &record.totals).collect();
    for group in groups {
        let mut own = counted
            .iter()
            .filter(|it| it.tls_groups.contains_key(group));
        let totals = own.next().unwrap();
        assert_eq!(totals.tls_groups[group], totals.tls_handshakes, "{group}");
        assert_eq!(totals.tls_groups.len(), 1, "{group}");
    }
    let metrics = &verdict["variants"][0]["metrics"];
    assert!(metrics["tls_p50_us"]["median"].is_number(), "{verdict}");
}

#[test]
fn the_http3_study_runs_over_a_link_that_loses_packets() {
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"2s\"", "warmup = \"300ms\""),
        ("duration = \"8s\"", ""),
        // On a busy machine, 96 handshakes would take a long time.
        ("connections = 96", "connections = 6"),
        ("connections = 16", "connections = 1"),
        ("timeout     = ", "requests = 60\ntimeout = "),
    ];
    let plan = short(&workdir, "http3", "network.toml", &changes);
    let (verdict, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 18);
    for (id, record) in &records {
        assert_eq!(record.quic.is_some(), id.contains("HTTP_3"), "{id}");
    }
    assert_round_trips(&verdict);
}

#[test]
fn the_nginx_http2_study_runs_over_a_link_with_a_round_trip() {
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"2s\"", "warmup = \"300ms\""),
        ("duration = \"8s\"", ""),
        ("connections = 96", "connections = 6"),
        ("connections = 16", "connections = 1"),
        ("timeout     = ", "requests = 60\ntimeout = "),
    ];
    let plan = short(&workdir, "nginx-http2", "network.toml", &changes);
    let (verdict, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 12);
    for (id, record) in &records {
        let version = if id.contains("HTTP_2") { "2" } else { "1.1" };
        assert_eq!(record.negotiated.http.as_deref(), Some(version), "{id}");
    }
    assert_round_trips(&verdict);
}

/// Checks the round-trip times of the variants' links. Each is at least the one in the variant's
/// name. The shortest trials end before the second sample of telemetry, and so have none.
fn assert_round_trips(verdict: &serde_json::Value) {
    let mut measured = 0;
    for variant in verdict["variants"].as_array().unwrap() {
        let name = variant["name"].as_str().unwrap();
        let planned_us = match name {
            name if name.contains("100ms") => 100_000.0,
            name if name.contains("20ms") => 20_000.0,
            _ => 0.0,
        };
        if let Some(us) = variant["metrics"]["link_round_trip_us"]["median"].as_f64() {
            assert!(us >= planned_us, "{name}: {us}");
            measured += 1;
        }
    }
    assert!(measured > 0, "{verdict}");
}

#[test]
fn the_bypass_study_runs_on_both_stacks() {
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"1s\"", "warmup = \"200ms\""),
        ("duration = \"5s\"", "duration = \"1s\""),
        ("count = 192", "count = 8"),
        ("count = 64", "count = 8"),
    ];
    let plan = short(&workdir, "kernel-bypass", "plan.toml", &changes);
    let (_, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 12);
    for (id, record) in &records {
        let xdp = record.generator.xdp.as_ref();
        assert_eq!(xdp.is_some(), id.contains("xdp"), "{id}");
        if let Some(xdp) = xdp {
            assert!(xdp.packets_received > record.totals.ok, "{id}: {xdp:?}");
        }
        assert_eq!(record.load.keepalive, id.contains("kept"), "{id}");
    }
}

#[test]
fn the_balancer_study_runs_with_and_without_a_balancer() {
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"1s\"", "warmup = \"200ms\""),
        ("duration = \"5s\"", ""),
        (
            "no_keepalive = true",
            "no_keepalive = true\nrequests = 1000",
        ),
    ];
    let plan = short(&workdir, "lb-cores", "plan.toml", &changes);
    let (_, records) = run(&workdir, &plan);
    for size in ["1K", "10K", "100K"] {
        for cores in ["direct", "1"] {
            let id = format!("{size}-{cores}");
            let (_, record) = records.iter().find(|(known, _)| *known == id).unwrap();
            let bytes = record.totals.body_bytes_in / record.totals.ok;
            assert_eq!(size, format!("{}K", bytes / 1024), "{id}");
            // Requests that started before the measured part also opened connections.
            let opened = record.totals.connections_opened + 192;
            assert!(opened >= record.totals.ok, "{id}");
        }
    }
}

#[test]
fn both_fronts_run_and_the_lines_share_and_overhead_are_reported() {
    let workdir = Workdir::new();
    let changes = [
        ("warmup   = \"2s\"", "warmup = \"500ms\""),
        // The share of the link's capacity needs several samples of the link's counters.
        ("duration = \"8s\"", "duration = \"1s\""),
    ];
    let plan = short(&workdir, "lb-topology", "plan.toml", &changes);
    let (verdict, records) = run(&workdir, &plan);
    assert_eq!(records.len(), 8);
    for (id, record) in &records {
        let version = if id.contains("HTTP_2") { "2" } else { "1.1" };
        assert_eq!(record.negotiated.http.as_deref(), Some(version), "{id}");
    }
    for variant in verdict["variants"].as_array().unwrap() {
        let share = &variant["metrics"]["link_used_share"]["median"];
        assert!(
            share
                .as_f64()
                .is_some_and(|share| share > 0.0 && share <= 1.0),
            "{variant}"
        );
        assert!(
            variant["metrics"]["link_overhead_share"]["median"].is_number(),
            "{variant}"
        );
    }
}

#[test]
fn each_study_prints_its_dry_run() {
    let workdir = Workdir::new();
    let parts: [(&str, &[&str]); 5] = [
        (
            "openssl-build",
            &[
                "2 variants",
                "measures 3,000 requests",
                "/aud1.m4a",
                "--no-keepalive",
            ],
        ),
        (
            "apache-clients",
            &[
                "4 variants",
                "tcp_synack_retries = 3",
                "without fs.file-max",
            ],
        ),
        (
            "lb-cores",
            &[
                "each once in each of 3 to 5 blocks",
                "100K-direct",
                "--connections=192",
            ],
        ),
        (
            "kernel-bypass",
            &[
                "12 variants",
                "--io=xdp",
                "--interface=lan",
                "100K-each-xdp",
            ],
        ),
        (
            "lb-topology",
            &[
                "8 variants",
                "bit/s each way",
                "haproxy -db -f",
                "--streams=6",
            ],
        ),
    ];
    for (name, parts) in parts {
        let output = workdir.run(&["study", "run", name, "--dry-run"]).expect(0);
        for part in parts {
            assert!(output.out.contains(part), "{name} {part}: {}", output.out);
        }
    }
}

#[test]
fn the_load_of_lb_cores_can_bypass_the_kernel() {
    let workdir = Workdir::new();
    let study = ["study", "run", "lb-cores", "--dry-run"];
    let usual = workdir.run(&study).expect(0);
    assert!(!usual.out.contains("a separate network"), "{}", usual.out);
    let client = "client = { name = \"xdp\", place = \"clients\", servers = \"servers\", \
                  io = \"xdp\", interface = \"lan\" }";
    let bypass = workdir
        .run(&[&study[..], &["--level", client]].concat())
        .expect(0);
    for part in [
        "baseline: client = native",
        "place clients: a separate network",
        "daemon off; (in servers, on core",
        "load: --io=xdp --interface=lan (in clients)",
    ] {
        assert!(bypass.out.contains(part), "{part}: {}", bypass.out);
    }
}

#[test]
fn a_level_that_is_added_runs_or_is_refused() {
    let workdir = Workdir::new();
    let level = "crypto={ name = \"third\", lib = \"/\" }";
    let output = workdir.run(&[
        "study",
        "run",
        "openssl-build",
        "--dry-run",
        "--level",
        level,
    ]);
    let output = output.expect(0);
    assert!(
        output.out.contains("3 variants")
            && output
                .out
                .contains("\n  crypto = third:\n    web: libraries /\n"),
        "{}",
        output.out
    );
    let lost = "crypto = {lib = \"/nonexistent\", name = \"third\", env = {}}";
    for dry_run in [&["--dry-run"][..], &[]] {
        let mut text = vec!["study", "run", "openssl-build", "--level", lost];
        text.extend(dry_run);
        let refused = workdir.run(&text).expect(2);
        assert!(
            refused.err.contains(
                "this machine can't run \"third\": library_path of service \"web\": /nonexistent"
            ),
            "{}",
            refused.err
        );
    }
    let typo = workdir.run(&[
        "study",
        "run",
        "openssl-build",
        "--dry-run",
        "--level",
        "cripto=x",
    ]);
    assert!(
        typo.expect(2)
            .err
            .contains("no factor \"cripto\"; its factors are: crypto")
    );
    assert_eq!(workdir.names(), Vec::<String>::new());
}

#[test]
fn a_study_takes_lengths_and_can_be_copied() {
    let workdir = Workdir::new();
    let text = ["--duration", "3s", "--warmup", "500ms", "--requests", "70"];
    let mut args = vec!["study", "run", "openssl-build", "--dry-run"];
    args.extend(text);
    let output = workdir.run(&args).expect(0);
    assert!(
        output
            .out
            .contains("measures 70 requests, for at most 3 s, after 500 ms of warm-up"),
        "{}",
        output.out
    );
    let copied = workdir
        .run(&["study", "copy", "openssl-build", "mine"])
        .expect(0);
    assert!(
        copied.out.contains("prony compare mine/plan.toml"),
        "{}",
        copied.out
    );
    let plan = workdir.read("mine/plan.toml");
    assert!(plan.contains("requests     = 3000"), "{plan}");
    let again = workdir
        .run(&["study", "copy", "openssl-build", "mine"])
        .expect(2);
    assert!(again.err.contains("mine is not empty"), "{}", again.err);
}
