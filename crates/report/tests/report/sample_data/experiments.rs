//! Sample experiments.

use prony_record::{Finding, FindingId, LoadInfo, Severity};
use prony_stats::{Factor, Levels, Metric};

use super::loads::closed;
use super::{SampleExperiment, Server};

/// Returns every sample experiment.
pub(super) fn all() -> [SampleExperiment; 9] {
    [
        sockets(),
        demo(),
        errors(),
        ciphers(),
        portable(),
        interleaved(),
        noisy(),
        capacity(),
        urls(),
    ]
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

fn sockets() -> SampleExperiment {
    SampleExperiment {
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
        // Earlier versions stored this finding with severity `note`.
        findings: vec![Finding {
            severity: Severity::Note,
            ..Finding::stored(
                FindingId::OrderEffect,
                Severity::Warning,
                "Trials that ran first in their block were 0.4% faster than those that ran last. \
                 The order is random, so this widens the intervals and favors no variant. Nothing \
                 to do.",
            )
        }],
        withheld: None,
        rounds: 0,
        seed: 42,
        goals: &[],
        entries: &[],
    }
}

fn demo() -> SampleExperiment {
    SampleExperiment {
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
        findings: vec![Finding::stored(
            FindingId::NoisyMachine,
            Severity::Warning,
            "Other processes used 6% of the cores while trials ran. This widens the intervals. \
             Stop them, or give the services their own cores (cores = \"0\").",
        )],
        withheld: None,
        rounds: 0,
        seed: 42,
        goals: &[],
        entries: &[],
    }
}

fn errors() -> SampleExperiment {
    SampleExperiment {
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
        findings: vec![Finding::stored(
            FindingId::Errors,
            Severity::Error,
            "12% of the requests to http://127.0.0.1:8002/ failed (unexpected_status 503), none of \
             those to http://127.0.0.1:8001/. A server that refuses work looks faster than it is. \
             Use fewer connections, or find out why it returns 503, and repeat the experiment.",
        )],
        withheld: Some("12% of its requests failed (errors)"),
        rounds: 0,
        seed: 42,
        goals: &[],
        entries: &[],
    }
}

fn ciphers() -> SampleExperiment {
    let names = ["aes-128", "aes-256", "chacha20"];
    SampleExperiment {
        name: "ciphers",
        question: "Does the cipher matter for the tail at 2,000 requests per second?",
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
        findings: vec![Finding::stored(
            FindingId::FewBlocks,
            Severity::Note,
            "At this noise, 5 blocks show differences of about 12% or more. A plan with 15 blocks \
             would show 6%.",
        )],
        withheld: None,
        rounds: 0,
        seed: 5,
        goals: &[],
        entries: &[],
    }
}

/// Many variants with long names and very large effects. The baseline fixes only the library, so
/// each combination of size and version has its own baseline.
fn portable() -> SampleExperiment {
    SampleExperiment {
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
        findings: vec![Finding::stored(
            FindingId::FewBlocks,
            Severity::Warning,
            "3 blocks give wide intervals. Raise blocks in [trials].",
        )],
        withheld: None,
        rounds: 0,
        seed: 3,
        goals: &[],
        entries: &[],
    }
}

/// Interleaved blocks with a neighbor that is active at times.
fn interleaved() -> SampleExperiment {
    SampleExperiment {
        name: "interleaved",
        question: "Does the new parser make the server faster?",
        plan: "name = \"interleaved\"\n",
        factors: vec![factor("build", &["new", "old"])],
        baseline: levels(&[("build", "old")]),
        family: vec![Metric::RatePerS],
        blocks: 6,
        noise: 0.004,
        load: closed(16, 9.0),
        server: |levels| {
            let rate = if levels["build"] == "new" {
                26_900.0
            } else {
                24_900.0
            };
            Server {
                rate,
                p50_us: 15.5e6 / rate,
                p99_us: 41e6 / rate,
                user: 58.0,
                system: 39.0,
                failed_share: 0.0,
            }
        },
        findings: Vec::new(),
        withheld: None,
        rounds: 40,
        seed: 9,
        goals: &[],
        entries: &[],
    }
}

/// On a noisy machine, the rate is undecided, but the CPU time per request is not.
fn noisy() -> SampleExperiment {
    SampleExperiment {
        name: "noisy",
        question: "What does TCP cost instead of a UNIX socket, next to a busy neighbor?",
        plan: "name = \"noisy\"\n",
        factors: vec![factor("socket", &["tcp", "unix"])],
        baseline: levels(&[("socket", "unix")]),
        family: vec![Metric::RatePerS],
        blocks: 6,
        noise: 0.06,
        load: closed(16, 3.0),
        server: |levels| {
            let is_tcp = levels["socket"] == "tcp";
            Server {
                rate: if is_tcp { 31_400.0 } else { 32_100.0 },
                p50_us: if is_tcp { 470.0 } else { 462.0 },
                p99_us: if is_tcp { 1_320.0 } else { 1_290.0 },
                user: 31.0,
                system: if is_tcp { 62.0 } else { 35.0 },
                failed_share: 0.0,
            }
        },
        findings: vec![Finding::stored(
            FindingId::NoisyMachine,
            Severity::Warning,
            "In 12 of 12 trials, other processes used up to 61% of a core (mostly backup), and \
             other guests 9%. The random order of trials spreads this over all variants, and the \
             intervals include it; on a quieter machine they would be narrower.",
        )],
        withheld: None,
        rounds: 0,
        seed: 21,
        goals: &[],
        entries: &[],
    }
}

/// An experiment whose trials are capacity searches.
fn capacity() -> SampleExperiment {
    SampleExperiment {
        name: "capacity",
        question: "How many requests per second does the new build sustain?",
        plan: "name = \"capacity\"\n[load]\ntarget = \"web\"\nmodel = \"capacity\"\ngoal = \"p99 < 50ms\"\n",
        factors: vec![factor("build", &["old", "new"])],
        baseline: levels(&[("build", "old")]),
        family: vec![Metric::CapacityPerS],
        blocks: 5,
        noise: 0.01,
        load: closed(16, 3.0),
        server: |levels| Server {
            rate: if levels["build"] == "new" {
                8_410.0
            } else {
                7_510.0
            },
            p50_us: 2_100.0,
            p99_us: 49_000.0,
            user: 58.0,
            system: 39.0,
            failed_share: 0.0,
        },
        findings: Vec::new(),
        withheld: None,
        rounds: 0,
        seed: 33,
        goals: &["p99<50ms"],
        entries: &[],
    }
}

/// A list of URLs in interleaved blocks. The new version makes some URLs slower.
fn urls() -> SampleExperiment {
    SampleExperiment {
        name: "urls",
        question: "Which pages does the new version slow down?",
        plan: "name = \"urls\"\n",
        factors: vec![factor("build", &["new", "old"])],
        baseline: levels(&[("build", "old")]),
        family: vec![Metric::RatePerS],
        blocks: 5,
        noise: 0.004,
        load: LoadInfo {
            urls: 310,
            ..closed(16, 6.0)
        },
        server: |levels| {
            let rate = match levels["build"].as_str() {
                "new" => 2_310.0,
                _ => 2_400.0,
            };
            Server {
                rate,
                p50_us: 5.9e6 / rate,
                p99_us: 61e6 / rate,
                user: 58.0,
                system: 39.0,
                failed_share: if rate < 2_400.0 { 0.012 } else { 0.008 },
            }
        },
        findings: Vec::new(),
        withheld: None,
        rounds: 24,
        seed: 11,
        goals: &[],
        entries: &[
            ("GET /", 300.0, 1.0, 0.0, 0.0),
            ("GET /users/{id}", 900.0, 1.02, 0.0, 0.0),
            ("GET /users/{id}/posts", 2_300.0, 1.0, 0.3, 0.3),
            ("GET /search", 18_000.0, 1.31, 0.0, 0.0),
            ("POST /cart/items", 3_100.0, 0.97, 0.4, 0.7),
            (
                "GET /a/path/that/is/long/enough/to/wrap/on/a/terminal",
                700.0,
                1.0,
                0.0,
                0.0,
            ),
            ("DELETE /cart/items/{id}", 1_200.0, 1.0, 0.3, 0.0),
            ("GET /health", 150.0, 1.0, 0.0, 0.0),
        ],
    }
}
