//! `prony noise`: compares equal variants, and prints the smallest difference that an experiment would
//! see.

mod baseline_copies;

use std::path::Path;
use std::time::Instant;

use prony_experiment::runner::RunSettings;
use prony_machine::doctor::{DOCTOR_SCHEMA, DoctorReport, NoiseWatch};
use prony_machine::profile::MachineProfile;
use prony_plan::Plan;
use prony_report::doctor::DoctorDocument;
use prony_report::table::Table;
use prony_report::{number, stored, text};
use prony_stats::{BLOCKS_MAX, Metric, noise_of_ratios, smallest_difference};
use serde::Serialize;

use crate::arguments::NoiseArgs;
use crate::ending::{Ending, Failure};
use crate::experiment::{self, leftovers, plan_file};
use crate::output::JsonOutput;
use crate::runs_folder::ResultsFolder;
use crate::session::Session;
use crate::terminal;

/// The built-in plan, in which the command `prony` refers to this binary.
const PLAN: &str = include_str!("noise.toml");
/// Name of the document's format.
const NOISE_SCHEMA: &str = "prony.noise/1";
/// Numbers of blocks in the table.
const BLOCK_COUNTS: [u32; 5] = [5, 10, 15, 30, 60];

/// The results in JSON.
#[derive(Debug, Serialize)]
struct NoiseDocument {
    schema: &'static str,
    version: &'static str,
    /// Folder of the experiment.
    folder: String,
    blocks: u32,
    /// Mean time of a block, with everything around it.
    block_s: f64,
    metrics: Vec<MetricNoise>,
    /// Findings of the experiment about the machine and the load.
    findings: Vec<String>,
    machine: DoctorReport,
}

/// Noise of one metric.
#[derive(Debug, Serialize)]
struct MetricNoise {
    metric: Metric,
    /// Standard deviation of the logarithms of the blocks' ratios.
    noise: f64,
    /// Ratio of the two equal variants, with its 95% interval.
    ratio: f64,
    low: f64,
    high: f64,
    differences: Vec<SmallestDifference>,
}

/// Smallest difference that an experiment would see.
#[derive(Debug, Serialize)]
struct SmallestDifference {
    blocks: u32,
    time_s: f64,
    /// Relative difference that is found with a probability of 80%.
    difference: Option<f64>,
}

/// Runs `prony noise`.
pub(crate) fn run(arguments: &NoiseArgs) -> Result<Ending, Failure> {
    let output = JsonOutput::open(arguments.json.as_deref())?;
    let plan = match &arguments.plan {
        Some(path) => baseline_copies::plan(path)?,
        None => own_plan(&MachineProfile::this())?,
    };
    let out = ResultsFolder::open(arguments.out.clone(), "noise")?;
    let settings = RunSettings {
        blocks: Some(BLOCKS_MAX),
        budget: Some(arguments.duration),
        ..RunSettings::new(out.path().to_owned())
    };
    let session = Session::open(arguments.progress)?;
    let interrupt = session.interrupt_experiment()?;
    leftovers::remove_leftovers(session.progress());
    session.progress().line(&format!(
        "comparing two equal variants for {}; results: {}",
        number::span(arguments.duration.as_secs_f64()),
        out.path().display()
    ));
    let (watch, began) = (NoiseWatch::begin(), Instant::now());
    let finished = experiment::run_one_of_several(&plan, &settings, &session, &interrupt)?;
    let elapsed_s = began.elapsed().as_secs_f64();
    let machine = DoctorReport {
        schema: DOCTOR_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        subjects: vec![watch.finish()],
    };
    if let Some(failed) = &finished.failed {
        return Err(Failure::refused(failed));
    }
    let blocks = finished.document.blocks;
    let metrics = metrics_of(out.path(), elapsed_s / f64::from(blocks.max(1)))?;
    let findings = finished
        .document
        .findings
        .iter()
        .map(|finding| finding.text.clone());
    let document = NoiseDocument {
        schema: NOISE_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        folder: out.path().display().to_string(),
        blocks,
        block_s: elapsed_s / f64::from(blocks.max(1)),
        metrics,
        findings: findings.collect(),
        machine,
    };
    let json = serde_json::to_string(&document.machine).map_err(Failure::refused)?;
    let doctor = DoctorDocument::read(&json).map_err(Failure::refused)?;
    output.show(|| print(&document, &doctor), &document)?;
    match (finished.interrupted, document.metrics.is_empty()) {
        (true, _) => Ok(Ending::Interrupted),
        (false, true) => {
            session
                .progress()
                .warn("too few blocks for an estimate of the noise (try a longer -d)");
            Ok(Ending::Doubtful)
        }
        (false, false) => Ok(Ending::Done),
    }
}

/// Returns the built-in plan for this machine. With two or more cores, the server and the load get
/// separate ones.
fn own_plan(machine: &MachineProfile) -> Result<Plan, Failure> {
    let text = match machine.cores.as_slice() {
        [server, load, ..] => PLAN
            .replace("@server", &server.to_string())
            .replace("@load", &load.to_string()),
        _ => {
            let lines = PLAN.lines().filter(|line| !line.starts_with("cores"));
            Vec::from_iter(lines).join("\n")
        }
    };
    Plan::from_str(&text, Path::new("noise.toml"), machine.clone())
        .map_err(|errors| plan_file::wrong_plan(&errors))
}

/// Computes the noise of each judged metric from the stored blocks.
fn metrics_of(folder: &Path, block_s: f64) -> Result<Vec<MetricNoise>, Failure> {
    let run = stored::read_results(folder)
        .map_err(Failure::refused)?
        .run();
    let of_metric = |&metric: &Metric| {
        let value = |block: u32, variant: usize| {
            let mut trials = run.trials.iter();
            let trial = trials.find(|it| it.block == block && it.variant == variant)?;
            trial
                .values
                .get(&metric)
                .copied()
                .filter(|value| *value > 0.0)
        };
        let blocks = run
            .trials
            .iter()
            .filter(|trial| trial.variant == 0)
            .map(|trial| trial.block);
        let ratios = blocks.filter_map(|block| Some(value(block, 1)? / value(block, 0)?));
        let noise = noise_of_ratios(&Vec::from_iter(ratios))?;
        let interval = noise.interval(0.05);
        let differences = BLOCK_COUNTS.map(|blocks| SmallestDifference {
            blocks,
            time_s: f64::from(blocks) * block_s,
            difference: smallest_difference(noise.deviation, blocks),
        });
        Some(MetricNoise {
            metric,
            noise: noise.deviation,
            ratio: noise.mean.exp(),
            low: interval.low.exp(),
            high: interval.high.exp(),
            differences: differences.into(),
        })
    };
    Ok(run.family.iter().filter_map(of_metric).collect())
}

fn print(document: &NoiseDocument, doctor: &DoctorDocument) {
    for noise in &document.metrics {
        let change = |ratio: f64| number::change(ratio);
        terminal::print(&format!(
            "Two equal variants differed by {} in the {} ({} to {}), over {} blocks.\n\
             The noise of a block is {}.\n\n",
            change(noise.ratio),
            noise.metric.noun(),
            change(noise.low),
            change(noise.high),
            document.blocks,
            number::share(noise.noise),
        ));
        let mut table = Table::new(&["blocks", "time", "smallest difference seen"]);
        for row in &noise.differences {
            let difference = row.difference.map_or("–".to_owned(), number::share);
            table.push(vec![
                row.blocks.to_string(),
                number::span(row.time_s.round()),
                difference,
            ]);
        }
        terminal::print(
            &(table.to_text("  ")
                + "\nA difference of this size is found with a probability of 80%.\n\n"),
        );
    }
    for finding in &document.findings {
        terminal::print(&format!("{finding}\n"));
    }
    let options = terminal::text_options(true);
    terminal::print(&text::doctor(doctor, true, options));
}
