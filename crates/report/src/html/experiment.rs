//! The page of an experiment.

use minijinja::context;
use prony_record::Severity;
use prony_stats::{Metric, Verdict, VerdictDocument};
use serde::Serialize;

use super::{environment, scaling, why};
use crate::chart::{Chart, palette};
use crate::verdict_view::{self as view, Standing};
use crate::{Experiment, figures, load_view, number};

/// So many sentences leave room for the trust on the first screen, and for the table soon after;
/// more of them come below the charts.
const FEW: usize = 4;

/// A whole experiment as a page.
pub fn report(experiment: &Experiment) -> String {
    let verdict = &experiment.verdict;
    let (lead, lead_detail) = lead(verdict);
    let (kind, text) = view::trust(verdict);
    let mut findings = verdict.findings.clone();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let family = view::family(verdict);
    let groups = figures::latency_groups(experiment);
    let any_bound = groups
        .iter()
        .flat_map(|group| &group.strips)
        .any(|strip| strip.values_us.iter().any(|(_, bound)| *bound));
    let first = experiment.trials.first().map(|trial| &trial.record);
    let context = context! {
        style => super::style(),
        version => first.map_or(env!("CARGO_PKG_VERSION"), |record| record.version.as_str()),
        name => verdict.name,
        question => verdict.question,
        verdicts => verdicts(verdict),
        many => verdict.comparisons.len() > FEW,
        trust => context! { kind, text, link => findings_link(verdict) },
        basis => view::basis(verdict),
        variants => variants(verdict),
        cross => view::cross(verdict),
        results => family.iter().map(|&metric| result(verdict, metric)).collect::<Vec<_>>(),
        effects => view::effects(verdict),
        scaling => scaling::of(verdict),
        scaling_note => view::scaling::EXPLAINED,
        until_done => figures::until_done(experiment),
        over_time => figures::over_time(experiment),
        latency => figures::latency(&groups),
        caveat => first.and_then(load_view::closed_loop_caveat),
        why => why::whys(verdict),
        why_caveat => view::CAVEAT,
        cpu => figures::cpu(verdict),
        cpu_table => view::cpu_table(verdict),
        metrics => view::metrics_table(verdict),
        outcomes => view::outcomes_table(experiment),
        method => method(verdict),
        facts => facts(experiment),
        order => verdict.order,
        described => verdict.described.iter().map(|d| &d.text).collect::<Vec<_>>(),
        plan => experiment.plan,
        environment => environment::flattened(&experiment.environment),
        lead,
        lead_detail,
        any_bound,
        findings,
    };
    super::render("experiment.html", context)
}

/// The page's first sentence and what belongs below it in smaller type.
fn lead(verdict: &VerdictDocument) -> (String, Option<String>) {
    if let Some(lead) = view::lead(verdict) {
        return (lead, None);
    }
    let Some(comparison) = verdict.comparisons.first() else {
        return (
            "No complete block: nothing can be compared.".to_owned(),
            None,
        );
    };
    let text = || Some(comparison.text.clone());
    match comparison.verdict {
        Verdict::Withheld => (view::NO_VERDICT.to_owned(), text()),
        Verdict::Undecided => {
            let (name, against) = (&comparison.name, &comparison.against_name);
            (
                format!("{name} and {against} can't be told apart yet."),
                text(),
            )
        }
        // The interval reads better below the claim than within it.
        _ => match comparison.text.split_once(" (") {
            Some((claim, rest)) if rest.ends_with(')') && !rest.contains(" (") => (
                claim.to_owned(),
                Some(rest.trim_end_matches(')').to_owned()),
            ),
            _ => (comparison.text.clone(), None),
        },
    }
}

/// What leads from the first screen to the findings.
fn findings_link(verdict: &VerdictDocument) -> String {
    let notes = verdict
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Note)
        .count();
    if notes == verdict.findings.len() {
        number::plural(notes as u64, "note", "notes")
    } else {
        "What was found".to_owned()
    }
}

/// One comparison's sentence beside its word.
#[derive(Serialize)]
struct VerdictLine {
    word: &'static str,
    color: String,
    text: String,
}

/// Every comparison's sentence; none where the lead has said the only one.
fn verdicts(verdict: &VerdictDocument) -> Vec<VerdictLine> {
    if verdict.comparisons.len() < 2 {
        return Vec::new();
    }
    let lines = verdict.comparisons.iter().map(|comparison| {
        let place = verdict
            .variants
            .iter()
            .position(|v| v.levels == comparison.levels);
        VerdictLine {
            word: view::word(comparison.verdict),
            color: palette::property(place.unwrap_or(0)),
            text: comparison.text.clone(),
        }
    });
    lines.collect()
}

/// A variant's name and the page's property that holds its colour.
#[derive(Serialize)]
struct VariantView {
    name: String,
    color: String,
}

fn variants(verdict: &VerdictDocument) -> Vec<VariantView> {
    let each = verdict.variants.iter().enumerate();
    each.map(|(place, variant)| VariantView {
        name: variant.name.clone(),
        color: palette::property(place),
    })
    .collect()
}

/// One metric of the family: table and chart.
#[derive(Serialize)]
struct ResultView {
    title: String,
    standings: Vec<Standing>,
    chart: Option<Chart>,
    caption: String,
}

fn result(verdict: &VerdictDocument, metric: Metric) -> ResultView {
    let standings = view::standings(verdict, metric);
    ResultView {
        title: capitalised(metric.noun()),
        chart: figures::forest(verdict, metric, &standings),
        caption: "The band holds what the plan counts as no difference. An interval wholly inside \
                  it is equivalent; one that leaves out 100% may be faster or slower."
            .to_owned(),
        standings,
    }
}

/// The method in a few sentences.
fn method(verdict: &VerdictDocument) -> String {
    format!(
        "Every variant ran once in each block, in an order shuffled anew for each block by the \
         seed. Services that the plan starts were started fresh for every trial, warmed up, measured \
         and stopped. A variant is compared with its baseline within the block; estimates and intervals come from \
         the {}, never from the requests inside one trial.",
        number::plural(verdict.blocks.into(), "block", "blocks")
    )
}

/// What was fixed beforehand, as names and texts.
fn facts(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let verdict = &experiment.verdict;
    let baseline = verdict.baseline.iter().map(|(f, l)| format!("{f} = {l}"));
    let judged = view::family(verdict).into_iter().map(Metric::noun);
    let looks = verdict.looks.iter().map(|look| look.blocks.to_string());
    let mut facts = vec![
        ("Baseline", baseline.collect::<Vec<_>>().join(", ")),
        (
            "Margin",
            format!("{} counts as no difference", number::margin(verdict.margin)),
        ),
        ("Judged on", judged.collect::<Vec<_>>().join(", ")),
        ("Blocks", number::count(verdict.blocks.into())),
        ("Seed", verdict.seed.to_string()),
    ];
    if !verdict.looks.is_empty() {
        let text = format!("after block {}", looks.collect::<Vec<_>>().join(", "));
        facts.push(("Verdicts sought", text));
    }
    if let Some(trial) = experiment.trials.first() {
        let load = &trial.record.load;
        let length = match (load.requests, load.duration_s) {
            (Some(requests), _) => number::plural(requests, "request", "requests"),
            (None, Some(duration_s)) => number::span(duration_s),
            (None, None) => number::span(trial.record.totals.elapsed_s),
        };
        let loads = load_view::all_loads(&experiment.trials);
        facts.extend(loads.into_iter().map(|load| ("Load", load)));
        facts.push((
            "Each trial",
            format!("{length}, after {} of warm-up", number::span(load.warmup_s)),
        ));
        facts.push(("Begun", trial.record.started_at.clone()));
    }
    facts
}

/// A noun as a heading. `p99` stays as it is.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_alphabetic() => {
            first.to_uppercase().collect::<String>() + chars.as_str()
        }
        _ => text.to_owned(),
    }
}
