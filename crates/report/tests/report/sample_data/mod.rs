//! The stored experiments and records that the tests render. The data are synthetic and
//! reproducible, and are evaluated by the real statistics.

mod entries;
mod experiments;
mod loads;
mod searches;
mod slices;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prony_record::{EntryResults, Finding, LoadInfo, Record};
use prony_stats::{
    Bottleneck, BottleneckKind, Comparison, Design, DistributionDifference, Evaluation,
    ExperimentInfo, Explanation, Factor, Levels, Metric, MetricRole, MovedMetric, MovementRole,
    OneSidedFinding, PERCENTILES, RoundComparison, RoundMetric, RoundValues, TrialTimes, Trials,
    Values, Verdict, VerdictDocument, WithheldBecause, changed_cost, compare_distributions,
    compare_rounds, evaluate,
};
use serde_json::json;

/// Writes all experiments and records into a folder.
pub(crate) fn write_all(root: &Path) -> std::io::Result<()> {
    for sample_data in experiments::all() {
        write(&root.join(sample_data.name), &sample_data)?;
    }
    for (name, record) in loads::all() {
        fs::write(root.join(format!("load-{name}.json")), record.to_json())?;
    }
    Ok(())
}

/// Reproducible noise.
struct Noise(u64);

impl Noise {
    /// Returns an approximately normally distributed number with a standard deviation of 1.
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

    /// Returns a random number near 1 with a relative standard deviation of `share`.
    fn around(&mut self, share: f64) -> f64 {
        1.0 + share * self.next()
    }
}
/// The load and the server of one variant.
#[derive(Clone, Copy)]
struct Server {
    rate: f64,
    p50_us: f64,
    p99_us: f64,
    user: f64,
    system: f64,
    failed_share: f64,
}

/// The parameters of a simulated experiment.
struct SampleExperiment {
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
    /// Number of rounds in each block; 0 if trials run sequentially.
    rounds: u32,
    seed: u64,
    /// Goals of capacity searches; empty if the trials are single loads.
    goals: &'static [&'static str],
    /// The entries of a list. Each has a name, the median response time in microseconds, the factor
    /// of that time in variants with a new build, and its share of all failures in old and in new
    /// builds.
    entries: &'static [(&'static str, f64, f64, f64, f64)],
}

fn write(dir: &Path, sample_data: &SampleExperiment) -> std::io::Result<()> {
    let design = design(sample_data);
    let variants = &design.variants;
    let mut noise = Noise(sample_data.seed);
    let mut trials = Trials::new();
    let mut order = Vec::new();
    let mut rounds = vec![RoundValues::new(); variants.len()];
    let mut records = vec![Vec::new(); variants.len()];
    let mut times = Vec::new();
    for block in 1..=sample_data.blocks {
        let shared = noise.around(0.01);
        let mut names: Vec<String> = (0..variants.len()).map(|v| design.name_of(v)).collect();
        names.rotate_left(block as usize % variants.len());
        let speeds = slices::speeds(sample_data, block);
        order.push(names);
        for (place, levels) in variants.iter().enumerate() {
            let mut server = (sample_data.server)(levels);
            // In an open loop, the schedule determines the rate, not the server.
            if sample_data.load.model == "closed" {
                server.rate *= shared * noise.around(sample_data.noise);
            }
            server.p50_us *= noise.around(sample_data.noise);
            server.p99_us *= noise.around(sample_data.noise * 2.0);
            server.user *= noise.around(0.01);
            server.system *= noise.around(0.01);
            server.rate *= slices::mean(&speeds);
            let mut record = loads::trial(sample_data, &server, &mut noise);
            let is_new = levels.get("build").is_some_and(|build| build == "new");
            record.entries = entries::of_trial(sample_data.entries, &record, is_new);
            let values = match sample_data.goals {
                [] => values(&record, &server),
                _ => Values::from([(Metric::CapacityPerS, server.rate)]),
            };
            let name = folder_name(&design, levels);
            let folder: PathBuf = dir.join(format!("trials/{block:02}-{name}"));
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("record.json"), record.to_json())?;
            if !speeds.is_empty() {
                let slices = slices::of_trial(&record, &speeds, place, &mut noise);
                rounds[place].extend(slices::values(block, &slices));
                let trial = json!({
                    "block": block,
                    "variant": place,
                    "position": place,
                    "values": values,
                    "slices": slices,
                });
                fs::write(folder.join("trial.json"), format!("{trial}\n"))?;
            }
            if let [goal] = sample_data.goals {
                let trial = json!({
                    "block": block,
                    "variant": place,
                    "position": place,
                    "values": values,
                    "search": searches::of_trial(goal, server.rate, &mut noise),
                });
                fs::write(folder.join("trial.json"), format!("{trial}\n"))?;
            }
            times.push(trial_times((block, place), &server));
            trials.add(block, place, values);
            records[place].push(record);
        }
    }
    let mut evaluation = evaluate(&design, &trials, &[]).map_err(std::io::Error::other)?;
    if let Some(reason) = sample_data.withheld {
        evaluation.withhold(|_| true, &WithheldBecause::Stated(reason.to_owned()));
    }
    prony_wording::compose_evaluation(&design, &mut evaluation);
    let mut rounds = compare_rounds(&design, &evaluation, RoundMetric::RatePerS, &rounds);
    prony_wording::compose_rounds(&mut rounds);
    let mut differences = match sample_data.goals {
        [] => compare_distributions(&design, &evaluation, &times),
        _ => Vec::new(),
    };
    prony_wording::compose_distributions(&mut differences);
    write_document(
        dir,
        sample_data,
        &design,
        evaluation,
        (rounds, differences, order),
        &records,
    )
}

/// Response times of a trial, log-normal with the server's p50 and p99. p99.9 is unknown.
fn trial_times((block, variant): (u32, usize), server: &Server) -> TrialTimes {
    const DEVIATIONS: [f64; PERCENTILES.len() - 1] = [
        -2.326, -1.645, -1.282, -0.842, -0.524, -0.253, 0.0, 0.253, 0.524, 0.842, 1.282, 1.645,
        2.326,
    ];
    let deviation = (server.p99_us / server.p50_us).ln() / 2.326;
    let mut times = [None; PERCENTILES.len()];
    for (time, place) in times.iter_mut().zip(DEVIATIONS) {
        *time = Some(server.p50_us * (place * deviation).exp());
    }
    TrialTimes {
        block,
        variant,
        times,
    }
}

/// Writes everything except the trials.
fn write_document(
    dir: &Path,
    sample_data: &SampleExperiment,
    design: &Design,
    evaluation: Evaluation,
    (rounds, distribution_differences, order): (
        Vec<RoundComparison>,
        Vec<DistributionDifference>,
        Vec<Vec<String>>,
    ),
    entries: &[Vec<Record>],
) -> std::io::Result<()> {
    let about = ExperimentInfo {
        name: sample_data.name.to_owned(),
        question: sample_data.question.to_owned(),
        seed: 7,
        order,
    };
    let why = match sample_data.goals {
        [] => whys(&evaluation),
        _ => Vec::new(),
    };
    let mut document =
        VerdictDocument::new(about, design, evaluation, sample_data.findings.clone());
    for (summary, loads) in document.variants.iter_mut().zip(entries) {
        let loads = loads.iter().map(|record| (record.entries.as_ref(), record));
        let loads = loads.map(|(entries, record)| Some((entries?, record.totals.elapsed_s)));
        let loads: Option<Vec<_>> = loads.collect();
        summary.entries = loads.and_then(EntryResults::pooled);
    }
    let document = VerdictDocument {
        why,
        rounds,
        distribution_differences,
        ..document
    };
    let pretty = |value: &serde_json::Value| format!("{value:#}\n");
    fs::write(
        dir.join("verdict.json"),
        pretty(&serde_json::to_value(document)?),
    )?;
    fs::write(dir.join("environment.json"), pretty(&environment()))?;
    if !sample_data.plan.is_empty() {
        fs::write(dir.join("plan.toml"), sample_data.plan)?;
    }
    Ok(())
}

/// All combinations of the factors' levels.
fn design(sample_data: &SampleExperiment) -> Design {
    let mut variants = vec![Levels::new()];
    for factor in &sample_data.factors {
        let extended = variants.iter().flat_map(|levels| {
            factor.levels.iter().map(|level| {
                let mut levels = levels.clone();
                levels.insert(factor.name.clone(), level.clone());
                levels
            })
        });
        variants = extended.collect();
    }
    Design {
        factors: sample_data.factors.clone(),
        variants,
        baseline: sample_data.baseline.clone(),
        margin: 0.02,
        family: sample_data.family.clone(),
        blocks_min: sample_data.blocks,
        blocks_max: sample_data.blocks,
        alpha: 0.05,
        goals: sample_data
            .goals
            .iter()
            .map(|it| (*it).to_owned())
            .collect(),
    }
}

/// Name of a trial's folder without its block.
fn folder_name(design: &Design, levels: &Levels) -> String {
    let factors = design.factors.iter();
    let varying = factors.filter(|factor| factor.levels.len() > 1);
    let names: Vec<&str> = varying
        .map(|factor| levels[&factor.name].as_str())
        .collect();
    names.join("-").replace(", ", "-").replace(['/', ':'], "_")
}

/// An explanation of each difference, similar to the explanations of a real experiment.
fn whys(evaluation: &Evaluation) -> Vec<Explanation> {
    let differing = evaluation.comparisons.iter();
    let differing = differing.filter(|c| c.verdict != Verdict::Equivalent);
    differing
        .map(|comparison| why(evaluation, comparison))
        .collect()
}

fn why(evaluation: &Evaluation, comparison: &Comparison) -> Explanation {
    let all = evaluation.movements.iter();
    let of_it =
        all.filter(|m| (&m.levels, &m.against) == (&comparison.levels, &comparison.against));
    let movements: Vec<_> = of_it.filter(|m| m.metric != comparison.metric).collect();
    let mut moved: Vec<_> = movements.iter().filter(|m| m.moved && !m.same).collect();
    moved.sort_by(|a, b| b.least.total_cmp(&a.least));
    let part = |metric: Metric, is_more: bool| match (comparison.verdict, metric.role()) {
        (Verdict::Slower, MetricRole::Cost) if is_more => MovementRole::With,
        (Verdict::Faster, MetricRole::Cost) if !is_more => MovementRole::With,
        (Verdict::Slower | Verdict::Faster, MetricRole::Cost) => MovementRole::Against,
        _ => MovementRole::Aside,
    };
    let mut moved: Vec<MovedMetric> = moved
        .into_iter()
        .map(|m| MovedMetric {
            metric: m.metric,
            service: None,
            part: part(m.metric, m.is_more()),
            value: m.means.0,
            against_value: m.means.1,
            effect: m.effect.clone(),
            blocks: m.blocks,
            text: String::new(),
        })
        .collect();
    moved.sort_by_key(|m| m.part);
    for one in &mut moved {
        one.text = prony_wording::movement(one, &comparison.against_name);
    }
    let rest = |same: bool| {
        let rest = movements
            .iter()
            .filter(|m| m.same == same && (same || !m.moved));
        rest.map(|m| m.metric).collect()
    };
    let undecided = changed_cost(&moved)
        .filter(|_| comparison.verdict == Verdict::Undecided)
        .and_then(|cost| {
            let (name, against) = (&comparison.name, &comparison.against_name);
            prony_wording::undecided_cost(&[comparison.metric], name, against, cost)
        });
    let text = match moved.first() {
        _ if undecided.is_some() => undecided.unwrap_or_default(),
        Some(first) => format!("The largest change that could explain it: {}.", first.text),
        None => "The other measurements are too noisy to show what else changed.".to_owned(),
    };
    let limit = |name: &str, kind, text: &str| Bottleneck {
        name: name.to_owned(),
        kind,
        text: format!("{name}: {text}"),
    };
    let (name, against) = (&comparison.name, &comparison.against_name);
    Explanation {
        levels: comparison.levels.clone(),
        against: comparison.against.clone(),
        name: name.clone(),
        against_name: against.clone(),
        metrics: vec![comparison.metric],
        rate_parts: None,
        text,
        limits: vec![
            limit(
                name,
                BottleneckKind::ServerCores,
                "the cores were full: web 97% of its core.",
            ),
            limit(
                against,
                BottleneckKind::Waiting,
                "no measured resource was at its limit.",
            ),
        ],
        findings: vec![OneSidedFinding {
            id: "some-finding".to_owned(),
            name: name.clone(),
        }],
        moved,
        functions: Vec::new(),
        waits: Vec::new(),
        same: rest(true),
        unclear: rest(false),
    }
}

fn values(record: &Record, server: &Server) -> Values {
    let ended = (record.totals.ok + record.totals.failed).max(1) as f64;
    let cpu_s = (server.user + server.system) / 100.0 * record.totals.elapsed_s;
    let us_per_request = |percent: f64| percent / 100.0 * record.totals.elapsed_s * 1e6 / ended;
    // The jitter uses later digits of the modes' noise, so no additional random number is drawn.
    let jitter = 1.0 + (server.user + server.system) % 0.01;
    BTreeMap::from([
        (
            Metric::ServerCpuUserUsPerRequest,
            us_per_request(server.user),
        ),
        (
            Metric::ServerCpuSystemUsPerRequest,
            us_per_request(server.system),
        ),
        (
            Metric::HostSoftirqUsPerRequest,
            us_per_request(server.system) * 0.3 * jitter,
        ),
        (
            Metric::ContextSwitchesPerRequest,
            server.system / 15.0 * jitter,
        ),
        (
            Metric::BytesInPerRequest,
            record.totals.bytes_in as f64 / ended,
        ),
        (
            Metric::ConnectionsPerRequest,
            record.totals.connections_opened as f64 / ended,
        ),
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
