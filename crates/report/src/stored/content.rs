//! The content of a path: an experiment, or loads.

use prony_record::{Record, Severity};
use prony_stats::runs::{Run, RunInfo, RunVariant, TrialValues, WithheldMetric, combined};
use prony_stats::{Comparison, Metric, Verdict, WithheldBecause};

use crate::Experiment;
use crate::environment::machine_name;

/// The margin for comparisons of loads, because loads have no plan that sets it.
pub const LOADS_MARGIN: f64 = 0.02;

/// An experiment, or loads with the same settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The path as the user typed it.
    pub source: String,
    /// The stored results; of a series of experiments, the newest.
    pub content: StoredContent,
    /// Values of the series as one run, if this is a series of experiments.
    pub series: Option<Run>,
}

/// The kinds of stored results.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredContent {
    /// A folder that `prony compare` wrote.
    Experiment(Box<Experiment>),
    /// Records that `prony load --json` wrote, ordered by file name; at least one.
    Loads(Vec<Record>),
}

impl Stored {
    /// Block, variant and record of each load, or of each trial in a complete block.
    pub fn records(&self) -> Vec<(u32, usize, &Record)> {
        match &self.content {
            StoredContent::Experiment(experiment) => (0..experiment.verdict.variants.len())
                .flat_map(|variant| experiment.trials_of(variant))
                .map(|trial| (trial.block, trial.variant, &trial.record))
                .collect(),
            StoredContent::Loads(records) => (1..)
                .zip(records)
                .map(|(number, record)| (number, 0, record))
                .collect(),
        }
    }

    /// Returns true for loads, and false for an experiment.
    pub fn is_loads(&self) -> bool {
        matches!(self.content, StoredContent::Loads(_))
    }

    /// The experiment's comparisons; empty for loads.
    pub fn comparisons(&self) -> &[Comparison] {
        match &self.content {
            StoredContent::Experiment(experiment) => &experiment.verdict.comparisons,
            StoredContent::Loads(_) => &[],
        }
    }

    /// The findings. For loads, each finding is listed once.
    pub(super) fn findings(&self) -> Vec<prony_record::Finding> {
        match &self.content {
            StoredContent::Experiment(experiment) => experiment.verdict.findings.clone(),
            StoredContent::Loads(records) => {
                let mut all: Vec<prony_record::Finding> = Vec::new();
                for finding in records.iter().flat_map(|record| &record.findings) {
                    if !all.iter().any(|other| other.id == finding.id) {
                        all.push(finding.clone());
                    }
                }
                all
            }
        }
    }

    /// Combines experiments, oldest first. Only those of the newest one's plan and machine are used. If fewer than three remain after the last change point, the result is the newest.
    /// `experiments` has at least one.
    pub fn of_series(source: String, mut experiments: Vec<Experiment>) -> Option<Stored> {
        let newest = experiments.last()?;
        let (name, machine) = (
            newest.verdict.name.clone(),
            machine_name(&newest.environment),
        );
        experiments
            .retain(|it| it.verdict.name == name && machine_name(&it.environment) == machine);
        let runs: Vec<Run> = experiments.iter().map(of_experiment).collect();
        Some(Stored {
            source,
            content: StoredContent::Experiment(Box::new(experiments.pop()?)),
            series: combined(&runs),
        })
    }

    /// Returns the stored result as a run, with the values to compare.
    pub fn run(&self) -> Run {
        if let Some(series) = &self.series {
            return series.clone();
        }
        match &self.content {
            StoredContent::Experiment(experiment) => of_experiment(experiment),
            StoredContent::Loads(records) => of_loads(records),
        }
    }

    /// Describes the run. Sentences refer to it by `label`.
    pub fn about(&self, label: &str) -> RunInfo {
        let records = self.records();
        let begun = records.iter().map(|(_, _, record)| &record.started_at);
        let (name, unit, count) = match (&self.content, &self.series) {
            (StoredContent::Experiment(experiment), Some(series)) => {
                let count = series.trials.iter().map(|it| it.block).max();
                (
                    experiment.verdict.name.clone(),
                    "run",
                    count.unwrap_or_default(),
                )
            }
            (StoredContent::Experiment(experiment), None) => {
                let verdict = &experiment.verdict;
                (verdict.name.clone(), "block", verdict.blocks)
            }
            (StoredContent::Loads(records), _) => {
                let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
                (String::new(), "load", count)
            }
        };
        RunInfo {
            label: label.to_owned(),
            source: self.source.clone(),
            name,
            started_at: begun.min().cloned().unwrap_or_default(),
            unit: unit.to_owned(),
            count,
        }
    }
}

fn of_experiment(experiment: &Experiment) -> Run {
    let verdict = &experiment.verdict;
    let variants: Vec<RunVariant> = verdict
        .variants
        .iter()
        .map(|variant| RunVariant {
            name: variant.name.clone(),
            levels: variant.levels.clone(),
        })
        .collect();
    let trials = (0..variants.len()).flat_map(|variant| experiment.trials_of(variant));
    let trials = trials.map(|trial| TrialValues {
        block: trial.block,
        variant: trial.variant,
        values: trial.values.clone(),
    });
    let mut family = Vec::new();
    for comparison in &verdict.comparisons {
        if !family.contains(&comparison.metric) {
            family.push(comparison.metric);
        }
    }
    Run {
        trials: trials.collect(),
        doubts: doubts(&variants, &verdict.comparisons),
        is_series: false,
        baseline: verdict.baseline.clone(),
        margin: verdict.margin,
        variants,
        family,
    }
}

/// The withheld verdicts. If all comparisons with a baseline were withheld, the baseline is also in
/// doubt, because the results don't state which of the two variants was the cause.
fn doubts(variants: &[RunVariant], comparisons: &[Comparison]) -> Vec<WithheldMetric> {
    let is_withheld = |comparison: &Comparison| comparison.verdict == Verdict::Withheld;
    let mut doubts = Vec::new();
    for comparison in comparisons.iter().filter(|one| is_withheld(one)) {
        let metric = comparison.metric;
        let mut with_same_baseline = comparisons
            .iter()
            .filter(|other| other.metric == metric && other.against == comparison.against);
        let with_baseline = with_same_baseline.all(is_withheld);
        let Some(because) = &comparison.withheld else {
            continue;
        };
        for (place, variant) in variants.iter().enumerate() {
            let is_it = variant.levels == comparison.levels;
            if is_it || (with_baseline && variant.levels == comparison.against) {
                doubts.push(WithheldMetric {
                    variant: place,
                    metric,
                    because: because.clone(),
                });
            }
        }
    }
    doubts
}

fn of_loads(records: &[Record]) -> Run {
    let is_open = records.iter().any(|record| !record.load.is_saturating());
    let errors = records.iter().flat_map(|record| &record.findings);
    let mut errors = errors.filter(|finding| finding.severity == Severity::Error);
    let doubts = errors.next().map_or(Vec::new(), |error| {
        let distorted = Metric::ALL.iter().copied();
        let distorted = distorted.filter(|metric| metric.is_time() || metric.is_rate());
        let withheld = distorted.map(|metric| WithheldMetric {
            variant: 0,
            metric,
            because: WithheldBecause::Stated(format!("{}: {}", error.id, error.text)),
        });
        withheld.collect()
    });
    let are_streams = records.iter().all(|record| record.events.is_some());
    let are_journeys = records.iter().all(|record| record.journeys.is_some());
    let [rate, p99] = match (are_streams, are_journeys) {
        (true, _) => [Metric::EventsPerS, Metric::FirstEventP99Us],
        (_, true) => [Metric::JourneysPerS, Metric::JourneyP99Us],
        _ => [Metric::RatePerS, Metric::P99Us],
    };
    Run {
        variants: vec![RunVariant {
            name: String::new(),
            levels: prony_stats::Levels::default(),
        }],
        margin: LOADS_MARGIN,
        family: vec![if is_open { p99 } else { rate }],
        trials: (1..)
            .zip(records)
            .map(|(block, record)| TrialValues {
                block,
                variant: 0,
                values: prony_stats::of_record(record),
            })
            .collect(),
        doubts,
        ..Run::default()
    }
}
