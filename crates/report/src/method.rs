//! Sentences about the method of an experiment.

use prony_record::goals_phrase;
use prony_stats::Metric;
use prony_wording::{load, verdict};

use crate::{Experiment, Trial, number};

/// Describes the method in a few sentences.
pub(crate) fn method(experiment: &Experiment) -> String {
    let runs = match (
        experiment.is_interleaved(),
        has_started_services(experiment),
    ) {
        (true, true) => {
            "In each block, prony started the services of all variants and warmed them up. The load then alternated between the variants in short slices. Each round had one slice of every variant, in random order. At the end of the block, prony stopped the services."
        }
        (true, false) => {
            "The servers were already running. In each block, prony warmed them up. The load then alternated between the variants in short slices. Each round had one slice of every variant, in random order."
        }
        (false, true) => {
            "Every variant ran once in each block, in a random order that the seed determines. For \
             each trial, prony started the plan's services, warmed them up, measured and stopped \
             them."
        }
        (false, false) => {
            "The servers were already running. Every variant was measured once in each block, in a \
             random order that the seed determines."
        }
    };
    format!(
        "{runs} A variant is compared with its baseline within each block. Estimates and intervals \
         come from the {}, never from the requests of a single trial.",
        number::plural(experiment.verdict.blocks.into(), "block", "blocks")
    )
}

/// States why an experiment ended early, without the log that may follow the reason.
pub(crate) fn ended_early(reason: &str) -> String {
    let first = reason.lines().next().unwrap_or_default();
    let first = first.trim_end_matches("; the end of its log:");
    format!("The experiment ended early: {first}.")
}

/// Returns false if all servers were already running. Experiments without a description of the
/// environment count as having started services.
fn has_started_services(experiment: &Experiment) -> bool {
    let variants = experiment.environment["services"].as_object();
    variants.is_none_or(|variants| {
        let services = |of: &serde_json::Value| of.as_object().is_none_or(|it| !it.is_empty());
        variants.is_empty() || variants.values().any(services)
    })
}

/// States the number of rounds and the counted length of a slice; `None` without slices.
fn slices(experiment: &Experiment) -> Option<String> {
    let trials = experiment
        .trials
        .iter()
        .filter(|trial| !trial.slices.is_empty());
    let rounds = trials.clone().map(|trial| trial.slices.len());
    let (least, most) = (rounds.clone().min()?, rounds.max()?);
    let lengths = trials.flat_map(|trial| &trial.slices).map(|it| it.length_s);
    let mut lengths: Vec<f64> = lengths.collect();
    lengths.sort_by(f64::total_cmp);
    let median = lengths.get(lengths.len() / 2)?;
    let rounds = if least == most {
        number::plural(most as u64, "round", "rounds")
    } else {
        format!("{least} to {most} rounds")
    };
    Some(format!(
        "{rounds} in each block; {} of each slice is counted",
        number::time(median * 1e6)
    ))
}

/// States the goals of capacity searches, and the number of probes per search.
fn search(experiment: &Experiment) -> [(&'static str, String); 2] {
    let searches = experiment.trials.iter().filter_map(|it| it.search.as_ref());
    let probes = searches.map(|search| search.probes.len() as u64);
    let (least, most) = (probes.clone().min(), probes.max());
    let probes = match (least.unwrap_or(0), most.unwrap_or(0)) {
        (least, most) if least == most => number::plural(most, "probe", "probes"),
        (least, most) => format!("{least} to {most} probes"),
    };
    [
        ("Goal", goals_phrase(&experiment.verdict.goals)),
        ("Each trial", format!("a capacity search of {probes}")),
    ]
}

/// Sentence for the terminal, which refers to the report for the comparisons by rounds.
pub(crate) fn rounds_in_report(comparisons: usize) -> String {
    format!(
        "The report compares the rounds of {}.",
        number::plural(comparisons as u64, "pair of variants", "pairs of variants")
    )
}

/// The settings of an experiment, by name.
pub(crate) fn experiment_facts(experiment: &Experiment) -> Vec<(String, String)> {
    let document = &experiment.verdict;
    let baseline = document.baseline.iter().map(|(f, l)| format!("{f} = {l}"));
    let judged = verdict::family(document).into_iter().map(Metric::noun);
    let looks = document.looks.iter().map(|look| look.blocks.to_string());
    let mut facts = vec![
        ("Baseline", baseline.collect::<Vec<_>>().join(", ")),
        (
            "Margin",
            format!(
                "{} counts as no difference",
                number::margin(document.margin)
            ),
        ),
        (
            "Metrics with verdicts",
            judged.collect::<Vec<_>>().join(", "),
        ),
        ("Blocks", number::count(document.blocks.into())),
        ("Seed", document.seed.to_string()),
    ];
    if !document.looks.is_empty() {
        let text = format!("after block {}", looks.collect::<Vec<_>>().join(", "));
        facts.push(("Looks", text));
    }
    facts.extend(slices(experiment).map(|text| ("Slices", text)));
    if let Some(trial) = experiment.trials.first() {
        let settings = &trial.record.load;
        let length = match (settings.requests, settings.duration_s) {
            (Some(requests), _) => number::plural(requests, "request", "requests"),
            (None, Some(duration_s)) => number::span(duration_s),
            (None, None) => number::span(trial.record.totals.elapsed_s),
        };
        if experiment.is_search() {
            facts.extend(search(experiment));
        } else {
            let loads = all_loads(&experiment.trials);
            facts.extend(loads.into_iter().map(|load| ("Load", load)));
            facts.push((
                "Each trial",
                format!(
                    "{length}, after {} of warm-up",
                    number::span(settings.warmup_s)
                ),
            ));
        }
        facts.push(("prony", trial.record.version.clone()));
        facts.push(("Started", trial.record.started_at.clone()));
    }
    let facts = facts.into_iter();
    facts.map(|(name, text)| (name.to_owned(), text)).collect()
}

/// Describes the kinds of load in an experiment, each once. A plan may vary connections or the HTTP
/// version.
fn all_loads(trials: &[Trial]) -> Vec<String> {
    let mut loads: Vec<String> = Vec::new();
    let mut variants: Vec<usize> = trials.iter().map(|trial| trial.variant).collect();
    variants.sort_unstable();
    variants.dedup();
    let first = |variant| trials.iter().find(|trial| trial.variant == variant);
    for load in variants
        .into_iter()
        .filter_map(first)
        .map(|trial| load::how(&trial.record))
    {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    loads
}
