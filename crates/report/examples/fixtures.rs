//! Writes the stored experiments and records that the tests render: invented figures through the
//! real statistics, the same on every run. `cargo run -p prony-report --example fixtures`, then
//! look at what changed: the files are fixed so that old records render for ever.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prony_record::{
    Finding, Gaps, Generator, LoadInfo, Negotiated, Outcome, RECORD_SCHEMA, Rate, Record, Severity,
    Slice, StartGaps, Summary, Totals,
};
use prony_stats::{
    About, Design, Factor, Levels, Metric, Trials, Values, VerdictDocument, evaluate,
};
use serde_json::json;

/// Repeatable noise.
struct Noise(u64);

impl Noise {
    /// Roughly normal, of deviation 1.
    fn next(&mut self) -> f64 {
        let mut sum = 0.0;
        for _ in 0..12 {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            sum += (self.0 >> 33) as f64 / (1u64 << 31) as f64;
        }
        sum - 6.0
    }

    /// About 1, off by `share`.
    fn around(&mut self, share: f64) -> f64 {
        1.0 + share * self.next()
    }
}

/// What one trial of a variant is like.
#[derive(Clone, Copy)]
struct Server {
    rate: f64,
    p50_us: f64,
    p99_us: f64,
    user: f64,
    system: f64,
    failed_share: f64,
}

/// An experiment to invent.
struct Invented {
    name: &'static str,
    question: &'static str,
    plan: &'static str,
    factors: Vec<Factor>,
    baseline: Levels,
    family: Vec<Metric>,
    blocks: u32,
    noise: f64,
    load: LoadInfo,
    server: fn(&Levels) -> Server,
    findings: Vec<Finding>,
    withheld: Option<&'static str>,
    seed: u64,
}

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for invented in [sockets(), demo(), errors(), ciphers(), portable()] {
        write(&root.join(invented.name), &invented)?;
    }
    let mut noise = Noise(11);
    for (name, record) in [
        (
            "closed",
            load_of(closed(50, 10.0), 48_213.0, 0.0, &mut noise),
        ),
        ("failing", failing(&mut noise)),
        ("open", open(&mut noise)),
    ] {
        fs::write(root.join(format!("load-{name}.json")), record.to_json())?;
    }
    Ok(())
}

fn levels(pairs: &[(&str, &str)]) -> Levels {
    let owned = pairs
        .iter()
        .map(|(f, l)| ((*f).to_owned(), (*l).to_owned()));
    owned.collect()
}

fn factor(name: &str, levels: &[&str]) -> Factor {
    Factor {
        name: name.to_owned(),
        levels: levels.iter().map(|l| (*l).to_owned()).collect(),
    }
}

fn closed(connections: u32, duration_s: f64) -> LoadInfo {
    LoadInfo {
        url: "http://127.0.0.1:8080/".to_owned(),
        model: "closed".to_owned(),
        connections,
        streams: 1,
        duration_s: Some(duration_s),
        warmup_s: 1.0,
        http: "1.1".to_owned(),
        keepalive: true,
        threads: 1,
        io: "poll".to_owned(),
        urls: 1,
        timeout_s: 20.0,
        ..LoadInfo::default()
    }
}

fn sockets() -> Invented {
    Invented {
        name: "gunicorn-sockets",
        question: "What do a jail and TCP cost between nginx and gunicorn?",
        plan: "name     = \"gunicorn-sockets\"\nquestion = \"What do a jail and TCP cost between \
               nginx and gunicorn?\"\nbaseline = { place = \"native\", socket = \"unix\" }\nmargin \
                 = \"2%\"\n\n[factors]\nplace  = [\"native\", \"namespace\"]\nsocket = [\"tcp\", \
               \"unix\"]\n",
        factors: vec![
            factor("place", &["native", "namespace"]),
            factor("socket", &["tcp", "unix"]),
        ],
        baseline: levels(&[("place", "native"), ("socket", "unix")]),
        family: vec![Metric::RatePerS],
        blocks: 5,
        noise: 0.006,
        load: LoadInfo {
            urls: 12,
            ..closed(10, 15.0)
        },
        server: |levels| {
            let place = if levels["place"] == "native" {
                1.0
            } else {
                0.92
            };
            let socket = if levels["socket"] == "unix" {
                1.0
            } else {
                0.969
            };
            let rate = 794.0 * place * socket;
            Server {
                rate,
                p50_us: 12_300.0 * 794.0 / rate,
                p99_us: 21_000.0 * 794.0 / rate,
                user: 78.0,
                system: 12.0 + 4.0 / place / socket,
                failed_share: 0.0,
            }
        },
        findings: vec![Finding::new(
            "order-effect",
            Severity::Note,
            "Trials that ran first in their block were 0.4% faster than those that ran last. The \
             order is random, so this widens the intervals and favours no variant. Nothing to do.",
        )],
        withheld: None,
        seed: 42,
    }
}

fn demo() -> Invented {
    Invented {
        name: "demo",
        question: "What does TCP cost instead of a UNIX socket, on this machine?",
        plan: "name = \"demo\"\n",
        factors: vec![factor("socket", &["tcp", "unix"])],
        baseline: levels(&[("socket", "unix")]),
        family: vec![Metric::RatePerS],
        blocks: 6,
        noise: 0.02,
        load: closed(16, 2.0),
        server: |levels| {
            let is_tcp = levels["socket"] == "tcp";
            Server {
                rate: if is_tcp { 31_400.0 } else { 41_250.0 },
                p50_us: if is_tcp { 480.0 } else { 362.0 },
                p99_us: if is_tcp { 1_320.0 } else { 910.0 },
                user: 31.0,
                system: if is_tcp { 67.0 } else { 62.0 },
                failed_share: 0.0,
            }
        },
        findings: vec![Finding::new(
            "noisy-machine",
            Severity::Warning,
            "Other processes used 6% of the cores while trials ran. It widens the intervals. Stop \
             them, or give the services cores of their own (cores = \"0\").",
        )],
        withheld: None,
        seed: 42,
    }
}

fn errors() -> Invented {
    Invented {
        name: "errors",
        question: "Which of the two running servers is faster?",
        plan: "",
        factors: vec![factor(
            "url",
            &["http://127.0.0.1:8001/", "http://127.0.0.1:8002/"],
        )],
        baseline: levels(&[("url", "http://127.0.0.1:8001/")]),
        family: vec![Metric::RatePerS],
        blocks: 5,
        noise: 0.01,
        load: closed(50, 3.0),
        server: |levels| {
            let fails = levels["url"].contains("8002");
            Server {
                rate: if fails { 11_900.0 } else { 9_400.0 },
                p50_us: if fails { 3_900.0 } else { 5_200.0 },
                p99_us: if fails { 8_800.0 } else { 9_900.0 },
                user: 60.0,
                system: 34.0,
                failed_share: if fails { 0.12 } else { 0.0 },
            }
        },
        findings: vec![Finding::new(
            "errors",
            Severity::Error,
            "12% of the requests to http://127.0.0.1:8002/ failed (unexpected_status 503), none of \
             those to http://127.0.0.1:8001/. A server that refuses work looks faster than it is. \
             Lower the connections, or find out why it answers 503, then run again.",
        )],
        withheld: Some("12% of its requests failed (errors)"),
        seed: 42,
    }
}

fn ciphers() -> Invented {
    let names = ["aes-128", "aes-256", "chacha20"];
    Invented {
        name: "ciphers",
        question: "Does the cipher matter for the tail at 2,000 requests a second?",
        plan: "name = \"ciphers\"\n",
        factors: vec![factor("cipher", &names)],
        baseline: levels(&[("cipher", "aes-128")]),
        family: vec![Metric::P99Us],
        blocks: 5,
        noise: 0.06,
        load: LoadInfo {
            url: "https://127.0.0.1:8443/".to_owned(),
            model: "open".to_owned(),
            rate_per_s: Some(2_000.0),
            arrivals: Some("poisson".to_owned()),
            tls: Some("TLS 1.3".to_owned()),
            ..closed(64, 5.0)
        },
        server: |levels| Server {
            rate: 2_000.0,
            p50_us: 410.0,
            p99_us: if levels["cipher"] == "chacha20" {
                1_190.0
            } else {
                1_130.0
            },
            user: 22.0,
            system: 14.0,
            failed_share: 0.0,
        },
        findings: vec![Finding::new(
            "few-blocks",
            Severity::Note,
            "5 blocks show differences from about 12% on at this noise. A plan with 15 blocks would \
             show 6%.",
        )],
        withheld: None,
        seed: 5,
    }
}

/// Many variants with long names and very large effects, each compared within its own cell.
fn portable() -> Invented {
    Invented {
        name: "portable",
        question: "What does a portable build of the TLS library cost, by body size and version?",
        plan: "name = \"portable\"\n",
        factors: vec![
            factor(
                "library",
                &["system OpenSSL 3.0.15", "portable, no CPU extensions"],
            ),
            factor("size", &["100 bytes", "10 KiB", "1 MiB"]),
            factor("http", &["1.1", "2"]),
        ],
        baseline: levels(&[("library", "system OpenSSL 3.0.15")]),
        family: vec![Metric::RatePerS, Metric::P99Us],
        blocks: 3,
        noise: 0.05,
        load: closed(32, 1.0),
        server: |levels| {
            let size = match levels["size"].as_str() {
                "100 bytes" => 1.0,
                "10 KiB" => 4.0,
                _ => 170.0,
            };
            let portable = levels["library"].starts_with("portable");
            let cost = if portable {
                1.0 + size / 24.0
            } else {
                1.0 + size / 170.0
            };
            Server {
                rate: 21_000.0 / cost,
                p50_us: 1_500.0 * cost,
                p99_us: 4_100.0 * cost,
                user: 80.0,
                system: 16.0,
                failed_share: 0.0,
            }
        },
        findings: vec![Finding::new(
            "few-blocks",
            Severity::Warning,
            "3 blocks give wide intervals. Raise blocks in [trials].",
        )],
        withheld: None,
        seed: 3,
    }
}

fn write(dir: &Path, invented: &Invented) -> std::io::Result<()> {
    let mut variants = vec![Levels::new()];
    for factor in &invented.factors {
        let extended = variants.iter().flat_map(|levels| {
            factor.levels.iter().map(|level| {
                let mut levels = levels.clone();
                levels.insert(factor.name.clone(), level.clone());
                levels
            })
        });
        variants = extended.collect();
    }
    let design = Design {
        factors: invented.factors.clone(),
        variants: variants.clone(),
        baseline: invented.baseline.clone(),
        margin: 0.02,
        family: invented.family.clone(),
        blocks_min: invented.blocks,
        blocks_max: invented.blocks,
        alpha: 0.05,
    };
    let mut noise = Noise(invented.seed);
    let mut trials = Trials::new();
    let mut order = Vec::new();
    for block in 1..=invented.blocks {
        let shared = noise.around(0.01);
        let mut names: Vec<String> = (0..variants.len()).map(|v| design.name_of(v)).collect();
        names.rotate_left(block as usize % variants.len());
        order.push(names);
        for (place, levels) in variants.iter().enumerate() {
            let mut server = (invented.server)(levels);
            // An open loop's rate is the schedule's, whatever the server.
            if invented.load.model == "closed" {
                server.rate *= shared * noise.around(invented.noise);
            }
            server.p50_us *= noise.around(invented.noise);
            server.p99_us *= noise.around(invented.noise * 2.0);
            server.user *= noise.around(0.01);
            server.system *= noise.around(0.01);
            let record = trial(invented, &server, &mut noise);
            trials.add(block, place, values(&record, &server));
            let name: String = design
                .name_of(place)
                .replace(", ", "-")
                .replace(['/', ':'], "_");
            let folder: PathBuf = dir.join(format!("trials/{block:02}-{name}"));
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("record.json"), record.to_json())?;
        }
    }
    let mut evaluation = evaluate(&design, &trials, &[]).map_err(std::io::Error::other)?;
    if let Some(reason) = invented.withheld {
        evaluation.withhold(|_| true, reason);
    }
    let about = About {
        name: invented.name.to_owned(),
        question: invented.question.to_owned(),
        seed: 7,
        order,
    };
    let document = VerdictDocument::new(about, &design, evaluation, invented.findings.clone());
    let pretty = |value: &serde_json::Value| format!("{value:#}\n");
    fs::write(
        dir.join("verdict.json"),
        pretty(&serde_json::to_value(document)?),
    )?;
    fs::write(dir.join("environment.json"), pretty(&environment()))?;
    if !invented.plan.is_empty() {
        fs::write(dir.join("plan.toml"), invented.plan)?;
    }
    Ok(())
}

fn values(record: &Record, server: &Server) -> Values {
    let ended = (record.totals.ok + record.totals.failed).max(1) as f64;
    let cpu_s = (server.user + server.system) / 100.0 * record.totals.elapsed_s;
    BTreeMap::from([
        (Metric::RatePerS, record.rate.ok_per_s),
        (Metric::P50Us, record.response_time_us.p50),
        (Metric::P99Us, record.response_time_us.p99),
        (Metric::FailedShare, record.totals.failed as f64 / ended),
        (Metric::ServerCpuUsPerRequest, cpu_s * 1e6 / ended),
        (Metric::ServerCpuUserPercent, server.user),
        (Metric::ServerCpuSystemPercent, server.system),
        (Metric::ServerMemoryBytes, 91e6 + server.rate * 100.0),
        (Metric::NetworkOutBitsPerS, record.rate.bytes_in_per_s * 8.0),
        (Metric::GeneratorCpuUsPerRequest, 18.0),
    ])
}

fn trial(invented: &Invented, server: &Server, noise: &mut Noise) -> Record {
    let mut record = load_of(
        invented.load.clone(),
        server.rate,
        server.failed_share,
        noise,
    );
    let scale = |us: f64| (us * 10.0).round() / 10.0;
    record.response_time_us = times(scale(server.p50_us), scale(server.p99_us));
    record.service_time_us = record.response_time_us.clone();
    record
}

fn times(p50: f64, p99: f64) -> Summary {
    let round = |us: f64| us.round();
    Summary {
        min: round(p50 * 0.4),
        mean: round(p50 * 1.06),
        p50: round(p50),
        p90: round(p50 + (p99 - p50) * 0.4),
        p99: round(p99),
        p99_9: round(p99 * 1.7),
        max: round(p99 * 2.9),
        at_least: Vec::new(),
    }
}

/// Gaps of one worker's starts at a constant rate.
fn start_gaps(rate_per_s: f64) -> StartGaps {
    let gap = (1e6 / rate_per_s).round();
    StartGaps {
        intended: Gaps {
            mean_us: gap,
            variation: 0.0,
            p50_us: gap,
            p99_us: gap,
            max_us: gap,
        },
        actual: Gaps {
            mean_us: gap,
            variation: 0.02,
            p50_us: gap - 1.0,
            p99_us: gap + 35.0,
            max_us: gap + 110.0,
        },
    }
}

/// A load of a steady rate with a little noise in each half second.
fn load_of(load: LoadInfo, rate: f64, failed_share: f64, noise: &mut Noise) -> Record {
    let duration_s = load.duration_s.unwrap_or(10.0);
    let slices = (duration_s * 2.0) as u64;
    let (p50, p99) = (
        load.connections as f64 / rate * 0.97e6,
        load.connections as f64 / rate * 1.9e6,
    );
    let series: Vec<Slice> = (1..=slices)
        .map(|n| {
            let ok = (rate / 2.0 * noise.around(0.03)).round() as u64;
            Slice {
                t_s: n as f64 / 2.0,
                ok,
                failed: (ok as f64 * failed_share / (1.0 - failed_share)).round() as u64,
                bytes_in: ok * 1_213,
                p50_us: p50.round(),
                p99_us: p99.round(),
            }
        })
        .collect();
    let ok: u64 = series.iter().map(|s| s.ok).sum();
    let failed: u64 = series.iter().map(|s| s.failed).sum();
    let (outcomes, status) = endings(ok, failed);
    Record {
        schema: RECORD_SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        started_at: "2026-01-01T00:00:00Z".to_owned(),
        seed: 7,
        totals: Totals {
            started: ok + failed,
            ok,
            failed,
            bytes_in: ok * 1_213,
            body_bytes_in: ok * 1_000,
            bytes_out: (ok + failed) * 74,
            connections_opened: 0,
            elapsed_s: duration_s,
            ..Totals::default()
        },
        outcomes,
        status,
        rate: Rate {
            ok_per_s: ok as f64 / duration_s,
            offered_per_s: load.rate_per_s,
            started_per_s: load.rate_per_s.map(|_| (ok + failed) as f64 / duration_s),
            bytes_in_per_s: (ok * 1_213) as f64 / duration_s,
        },
        response_time_us: times(p50, p99),
        service_time_us: times(p50, p99),
        connect_time_us: Summary::default(),
        tls_time_us: Summary::default(),
        first_byte_us: times(p50 * 0.98, p99 * 0.98),
        series,
        generator: Generator {
            cpu_user_s: ok as f64 * 3.1e-6,
            cpu_system_s: ok as f64 * 15.2e-6,
            busy_share: (ok as f64 * 18.3e-6 / duration_s).min(0.97),
            late_us: load
                .rate_per_s
                .map_or_else(Summary::default, |_| times(6.0, 41.0)),
            start_gaps: load.rate_per_s.map(start_gaps),
            max_rss_bytes: 12 << 20,
            ..Generator::default()
        },
        sources: None,
        negotiated: Negotiated {
            http: Some("1.1".to_owned()),
            tls: load.tls.as_ref().map(|_| "TLSv1.3".to_owned()),
            cipher: load
                .tls
                .as_ref()
                .map(|_| "TLS_AES_128_GCM_SHA256".to_owned()),
            alpn: None,
        },
        load,
        findings: Vec::new(),
        histograms: BTreeMap::new(),
    }
}

/// Successes and answers that were not expected.
fn endings(ok: u64, failed: u64) -> (BTreeMap<Outcome, u64>, BTreeMap<u16, u64>) {
    let mut outcomes = BTreeMap::from([(Outcome::Ok, ok)]);
    let mut status = BTreeMap::from([(200, ok)]);
    if failed > 0 {
        outcomes.insert(Outcome::UnexpectedStatus, failed);
        status.insert(503, failed);
    }
    (outcomes, status)
}

fn failing(noise: &mut Noise) -> Record {
    let mut record = load_of(closed(64, 5.0), 3_120.0, 0.0, noise);
    let failures = [
        (Outcome::UnexpectedStatus, 411),
        (Outcome::Reset, 96),
        (Outcome::Truncated, 3),
        (Outcome::Timeout, 21),
        (Outcome::Unfinished, 12),
    ];
    record.outcomes.extend(failures);
    record.status.insert(503, 411);
    record.totals.failed = 531;
    record.totals.unfinished = 12;
    record.totals.started = record.totals.ok + 531 + 12;
    record.totals.censored = 33;
    record.totals.connections_opened = 181;
    record.totals.retried = 4;
    record.connect_time_us = times(60.0, 310.0);
    record.response_time_us.p99_9 = 2e6;
    record.response_time_us.max = 2e6;
    record.response_time_us.at_least = vec!["p99_9".to_owned(), "max".to_owned()];
    record.service_time_us.at_least = vec!["p99_9".to_owned(), "max".to_owned()];
    record.series[4].failed = 531;
    record.findings = vec![Finding::new(
        "errors",
        Severity::Error,
        "3.3% of the requests failed, most with status 503. Percentiles are over what was answered. \
         Look into the server's log.",
    )];
    record
}

fn open(noise: &mut Noise) -> Record {
    let load = LoadInfo {
        model: "open".to_owned(),
        rate_per_s: Some(12_000.0),
        arrivals: Some("poisson".to_owned()),
        ..closed(128, 6.0)
    };
    let mut record = load_of(load, 9_650.0, 0.0, noise);
    record.response_time_us = times(410_000.0, 1_170_000.0);
    record.response_time_us.at_least = vec!["p99".to_owned(), "p99_9".to_owned(), "max".to_owned()];
    record.service_time_us = times(12_900.0, 24_000.0);
    record
        .outcomes
        .extend([(Outcome::Unfinished, 128), (Outcome::Unstarted, 13_830)]);
    record.totals.unfinished = 128;
    record.totals.unstarted = 13_830;
    record.totals.censored = 13_958;
    record.totals.started = record.totals.ok + 128;
    record.findings = vec![Finding::new(
        "schedule-missed",
        Severity::Warning,
        "80% of the offered rate was reached: 13,830 requests were due but found no free \
         connection. The response times include their wait. Raise --connections, or lower --rate.",
    )];
    record
}

fn environment() -> serde_json::Value {
    let programs = json!({
        "web": [{
            "path": "/usr/sbin/nginx",
            "sha256": "6f0c1f2a4c4d5be0a0b55b0b1a2e3d4c5f60718293a4b5c6d7e8f90112233445",
            "version": "nginx version: nginx/1.22.1\nconfigure arguments: --with-cc-opt='-g -O2' \
                        --with-http_ssl_module --with-http_v2_module",
            "libraries": ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libssl.so.3"]
        }],
        "app": [{"path": "/usr/bin/gunicorn", "version": "gunicorn (version 20.1.0)", "libraries": []}]
    });
    json!({
        "schema": "prony.environment/1",
        "machine": {
            "system": "Linux",
            "distribution": "Debian GNU/Linux 12 (bookworm)",
            "kernel": "6.1.0",
            "architecture": "x86_64",
            "cpu": "Example CPU 2.4 GHz",
            "cores": 2,
            "memory_bytes": 8_589_934_592_u64,
            "cpu_governor": null,
            "open_files": [1_048_576, 1_048_576],
            "sysctls": {"net.core.somaxconn": "4096", "net.ipv4.ip_local_port_range": "32768 60999"}
        },
        "services": {"first": programs, "second": programs}
    })
}
